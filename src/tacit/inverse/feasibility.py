"""Is there any policy with  mu_pi <= limit?  Decided by a linear program or a Farkas certificate, then explained.

For y >= 0 every policy has  y.mu_pi >= min_pi y.mu_pi,  and the right side is the value of an ordinary (hard) MDP with
cost y.phi. If it exceeds y.limit, no policy can satisfy  mu_pi <= limit:  y is a proof that anyone can check with one
run of policy iteration. The linear program  min t  s.t.  mu_rho <= limit + t  over occupancies finds the best proof.

Why it matters: with slipping dynamics every policy visits every reachable state with positive probability, while the
moments of finitely many demonstrations have exact zeros; then budget 0 has no solution and the multipliers diverge.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.stats import norm

from tacit.forward.evaluate_exact import reachable_states
from tacit.forward.soft_policy_iteration import PolicyResponse, backup
from tacit.inverse.trajectories import Trajectories, trajectory_moments
from tacit.tabular import MDP

SMALL = 2000  # occupancy variables up to which the linear program is solved before anything else
LARGE = 10_000  # beyond this it takes long, and only Farkas vectors are tested
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Diagnosis:
    """A proof that no policy satisfies  mu_pi <= limit, and what to do about it."""

    farkas: np.ndarray
    """(k,) y >= 0 with sum 1: y.mu_pi > y.limit for every policy."""
    least_cost: float
    """min over policies of y.mu_pi, recomputed by policy iteration."""
    allowed_cost: float
    """y.limit, which is smaller."""
    uniform_slack: float | None
    """The smallest uniform addition to the budgets that gives a solution; beyond LARGE perhaps not the smallest."""
    to_blame: tuple[int, ...]
    """Indices of the features with the largest share in the proof."""
    statistical_budget: np.ndarray | None = None
    """(k,) budgets from the demonstrations' own variance, raised where needed to have a solution."""

    @property
    def violation(self) -> float:
        """Every policy exceeds some limit by at least this much."""
        return self.least_cost - self.allowed_cost

    def in_words(self, names: list[str] | None = None) -> str:
        """Deprecated name of `describe`."""
        warnings.warn("Diagnosis.in_words is now Diagnosis.describe", DeprecationWarning, stacklevel=2)
        return self.describe(names)

    def describe(self, names: list[str] | None = None) -> str:
        """The proof and the remedies, in one paragraph."""
        label = [names[i] if names else f"feature {i}" for i in self.to_blame[:5]]
        more = f" and {len(self.to_blame) - 5} more" if len(self.to_blame) > 5 else ""
        text = (
            "No policy can satisfy these constraints: whatever the agent does, some feature expectation exceeds the "
            f"expert's plus the budget by at least {self.violation:.3g}. To blame: {', '.join(label)}{more}. "
            "This is what happens when the dynamics slip and the demonstrations are finite: by luck they visit some "
            "states less often than any policy can, or never."
        )
        if self.uniform_slack is not None:
            # Slightly more than the minimum, so that the three printed digits suffice.
            text += f" A budget of {1.01 * self.uniform_slack:.3g} more on every feature has a solution."
        if self.statistical_budget is not None:
            text += (
                f" A budget that allows for the demonstrations' sampling error is between "
                f"{self.statistical_budget.min():.3g} and {self.statistical_budget.max():.3g} a feature."
            )
        return text + " The objectives likelihood and plugin always have a solution."


def least_cost(mdp: MDP, cost: np.ndarray) -> float:
    """min over policies of E sum gamma^t cost, cost (S, A): hard policy iteration or backward induction."""
    if mdp.horizon is not None:
        value = np.zeros(mdp.n_states)
        for _ in range(mdp.horizon):
            value = np.where(mdp.terminal, 0.0, backup(mdp, cost, value).min(axis=1))
        return float(mdp.live_initial @ value)
    greedy = cost.argmin(axis=1)
    value = np.zeros(mdp.n_states)
    for _ in range(1000):
        policy = np.zeros_like(cost)
        policy[np.arange(mdp.n_states), greedy] = 1.0
        value = PolicyResponse(mdp, policy).value_of(cost)
        q = backup(mdp, cost, value)
        # Change an action only when it is really better, or rounding makes two equal policies alternate for ever.
        better = q.min(axis=1) < q[np.arange(mdp.n_states), greedy] - 1e-12 * (1.0 + np.abs(value))
        better &= ~mdp.terminal
        if not better.any():
            break
        greedy = np.where(better, q.argmin(axis=1), greedy)
    # A lower bound that holds whatever the rounding: value + Bellman residual / (1 - gamma).
    q = backup(mdp, cost, value)
    slackness = np.minimum(np.where(mdp.terminal, 0.0, q.min(axis=1) - value), 0.0).min()
    return float(mdp.live_initial @ value + slackness / (1.0 - mdp.discount))


def farkas_proof(
    mdp: MDP, features: sp.csr_array, limit: np.ndarray, ray: np.ndarray, uniform_slack: float | None = None
) -> Diagnosis | None:
    """Whether the direction `ray` >= 0 proves infeasibility; the Diagnosis if it does."""
    total = float(ray.sum())
    if not np.isfinite(total) or total <= 0:
        return None
    ray = ray / total
    cost = (features @ ray).reshape(mdp.rewards.shape)
    least, allowed = least_cost(mdp, cost), float(ray @ limit)
    if least - allowed <= TOLERANCE * (float(np.abs(cost).max()) + abs(least) + float(np.abs(limit) @ ray)):
        return None
    order = np.argsort(-ray, kind="stable")
    blamed = order[: max(1, int(np.searchsorted(np.cumsum(ray[order]), 0.9)) + 1)]
    return Diagnosis(ray, least, allowed, uniform_slack, tuple(int(i) for i in blamed))


def decide_at_once(mdp: MDP, features: sp.csr_array, limit: np.ndarray) -> Diagnosis | None:
    """A cheap proof, from a single feature or from the linear program if it is small; None if there is none."""
    visited = sp.diags_array(np.repeat(reachable_states(mdp) & ~mdp.terminal, mdp.n_actions).astype(float)) @ features
    never_negative = visited.min(axis=0).toarray().ravel() >= 0
    if (never_negative & (limit < 0)).any():
        worst = int(np.argmin(np.where(never_negative, limit / feature_sizes(features), np.inf)))
        alone = farkas_proof(mdp, features, limit, np.eye(1, len(limit), worst)[0])
        if alone is not None:
            return alone
    return decide(mdp, features, limit) if _variables(mdp) <= SMALL else None


def decide(mdp: MDP, features: sp.csr_array, limit: np.ndarray) -> Diagnosis | None:
    """A proof of infeasibility, or None when there is a solution (or the problem is too large for the program)."""
    if _variables(mdp) > LARGE:
        return None
    # In units of each feature's size, so that the answer does not depend on the user's units.
    sizes = feature_sizes(features)
    slack, ray = smallest_uniform_slack(mdp, features, limit, sizes)
    if not slack > TOLERANCE:
        return None
    return farkas_proof(mdp, features, limit, ray, uniform_slack=slack if (sizes == 1.0).all() else None)


def feature_sizes(features: sp.csr_array) -> np.ndarray:
    """(k,) the largest absolute value of each feature, 1 for a feature that is zero everywhere."""
    largest = abs(features).max(axis=0).toarray().ravel()
    return np.where(largest > 0, largest, 1.0)


def _variables(mdp: MDP) -> int:
    return mdp.n_states * mdp.n_actions * (mdp.horizon or 1)


def smallest_uniform_slack(
    mdp: MDP, features: sp.csr_array, limit: np.ndarray, units: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """min t s.t. some occupancy has mu <= limit + t units (t < 0: room to spare), and its multipliers (k,).

    units: (k,), one for every feature unless given. NaN when the linear program could not be solved.
    """
    units = np.ones(len(limit)) if units is None else units
    flow, source = flow_constraints(mdp)
    copies = 1 if mdp.horizon is None else mdp.horizon
    scale = 1.0 / feature_sizes(features)  # rows of size one, for the solver's absolute tolerances
    rows = sp.diags_array(scale) @ features.T
    inequality = sp.hstack([rows] * copies + [sp.csr_array(-(scale * units)[:, None])], format="csr")
    equality = sp.hstack([flow, sp.csr_array((flow.shape[0], 1))], format="csr")
    objective = np.zeros(inequality.shape[1])
    objective[-1] = 1.0
    bounds = np.zeros((len(objective), 2))
    bounds[:, 1] = np.inf
    bounds[-1, 0] = -np.inf
    # The simplex method is more exact, the interior-point method faster on large problems.
    for method in ("highs-ds", "highs-ipm") if _variables(mdp) <= SMALL else ("highs-ipm", "highs-ds"):
        answer = linprog(
            objective, A_ub=inequality, b_ub=scale * limit, A_eq=equality, b_eq=source, bounds=bounds, method=method
        )
        if answer.status == 0:
            return float(answer.x[-1]), np.maximum(-answer.ineqlin.marginals, 0.0) * scale
    return np.nan, np.zeros(len(limit))


def flow_constraints(mdp: MDP) -> tuple[sp.csr_array, np.ndarray]:
    """(A, b) such that A rho = b exactly for the discounted occupancies rho of policies; time-stacked with a
    horizon."""
    leave = sp.csr_array(sp.kron(sp.eye_array(mdp.n_states), np.ones((1, mdp.n_actions))))
    enter = mdp.discount * mdp.live_transitions_transposed
    if mdp.horizon is None:
        return sp.csr_array(leave - enter), mdp.live_initial
    steps = mdp.horizon
    blocks = sp.kron(sp.eye_array(steps), leave) - sp.kron(sp.eye_array(steps, k=-1), enter)
    source = np.zeros(steps * mdp.n_states)
    source[: mdp.n_states] = mdp.live_initial
    return sp.csr_array(blocks), source


def statistical_budget(
    mdp: MDP, features: sp.csr_array, demonstrations: Trajectories, delta: float = 0.05, *, guarantee: bool = False
) -> np.ndarray:
    """(k,) how far the expert's true moments may be from those of N demonstrations, from their own variance.

    By default the half-width of a normal interval for each feature, z sqrt(v/N), where the sample variance v also
    counts one further trajectory that visits as often as one that visits at all: a feature that was never seen may be
    rare rather than impossible. With `guarantee` the empirical-Bernstein bound, valid for all features at once with
    probability 1 - delta: sqrt(2 v log(2k/delta)/N) + 7 B log(2k/delta) / (3 (N-1)) with B the largest possible sum. It
    is rigorous, and for fewer than thousands of demonstrations so wide that it constrains nothing.
    """
    sums = trajectory_moments(mdp, features, demonstrations)
    number, size = sums.shape
    span = largest_sums(mdp, features)
    if number < 2:
        return span
    variance = sums.var(axis=0, ddof=1)
    if guarantee:
        log_term = np.log(2 * size / delta)
        width = np.sqrt(2 * variance * log_term / number) + 7 * span * log_term / (3 * (number - 1))
    else:
        seen = sums[sums != 0.0]
        typical = float((seen**2).mean()) if len(seen) else 1.0
        width = norm.ppf(1 - delta / 2) * np.sqrt((variance + typical / number) / number)
    return np.minimum(width, span)


def largest_sums(mdp: MDP, features: sp.csr_array) -> np.ndarray:
    """(k,) an upper bound of each feature's discounted sum over a trajectory."""
    top = abs(features).max(axis=0).toarray().ravel()
    if mdp.horizon is None:
        return top / (1.0 - mdp.discount)
    return top * float((mdp.discount ** np.arange(mdp.horizon)).sum())


def with_advice(
    diagnosis: Diagnosis,
    mdp: MDP,
    features: sp.csr_array,
    expert_moments: np.ndarray,
    budget: np.ndarray,
    demonstrations: Trajectories | None,
    reached: np.ndarray | None,
) -> Diagnosis:
    """The diagnosis with budgets that give a solution: a uniform one, and a statistical one, raised if needed.

    reached: (k,) the moments of some policy, which say what is enough where the linear program is too large.
    """

    def missing(limit: np.ndarray) -> float | None:
        if _variables(mdp) <= LARGE:
            least = smallest_uniform_slack(mdp, features, limit)[0]
            if np.isfinite(least):
                return least
        return None if reached is None else float((reached - limit).max())

    uniform = diagnosis.uniform_slack
    proposal = None if demonstrations is None else statistical_budget(mdp, features, demonstrations)
    if proposal is not None:
        proposal = proposal + 1.01 * max(0.0, missing(expert_moments + proposal) or 0.0)
    return replace(
        diagnosis,
        uniform_slack=missing(expert_moments + budget) if uniform is None else uniform,
        statistical_budget=proposal,
    )
