"""The exact half of the evaluation protocol, for finite MDPs: expectations of a policy, and the quality of a cost.

`tacit.evaluate` has both halves, and says what is measured under which name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from tacit import stats
from tacit.errors import UserError
from tacit.forward.soft_policy_iteration import occupancy

if TYPE_CHECKING:
    from tacit.tabular import MDP


@dataclass(frozen=True)
class TabularEvaluation:
    """Expectations of a policy in a finite MDP. Those of whole episodes need a step limit and are None without one."""

    discounted_return: float
    violation_occupancy: float
    """Discounted number of visits to constrained states, E sum_t gamma^t 1[s_t constrained]."""
    occupancy: NDArray[np.float64]
    """(S,) discounted number of visits, E sum_t gamma^t 1[s_t = s]; 0 at terminals."""
    expected_return: float | None = None
    expected_length: float | None = None
    violation_rate_step: float | None = None
    """E[violating steps / steps], as measured by `evaluate`."""
    violation_rate_episode: float | None = None
    initial_violation_rate: float = 0.0
    visits: NDArray[np.float64] | None = None
    """(S,) expected number of visits in an episode, the start and the arrival at a terminal included."""

    def as_dict(self) -> dict[str, float]:
        """The numbers under the names of `tacit.metrics`, for summary.json."""
        numbers = {
            "return": self.expected_return,
            "discounted_return": self.discounted_return,
            "violation_rate_step": self.violation_rate_step,
            "violation_rate_episode": self.violation_rate_episode,
            "initial_violation_rate": self.initial_violation_rate,
            "violation_occupancy": self.violation_occupancy,
            "length": self.expected_length,
        }
        return {name: value for name, value in numbers.items() if value is not None}


def evaluate_exact(
    mdp: MDP, policy: ArrayLike, constrained: ArrayLike, *, step_limit: int | None = None
) -> TabularEvaluation:
    """Exact metrics of `policy` ((S, A), or (T, S, A) with a horizon) where entering a state of the mask (S,) violates.

    Discounted quantities use the MDP's discount and horizon. Those of whole episodes are undiscounted and end at a
    terminal state or after `step_limit` steps (default: the horizon).
    """
    pi, mask = _checked(mdp, policy, constrained)
    flow = occupancy(mdp, pi)
    if flow.ndim == 3:
        flow = flow.sum(axis=0)
    # Through the arrivals, so that entering a constrained terminal state counts too.
    arrivals = mdp.discount * (mdp.transitions.T @ flow.ravel())
    initial_rate = float(mdp.initial @ mask)
    discounted = TabularEvaluation(
        discounted_return=float((flow * mdp.rewards).sum()),
        violation_occupancy=initial_rate + float(arrivals @ mask),
        occupancy=flow.sum(axis=1),
        initial_violation_rate=initial_rate,
    )
    limit = step_limit if step_limit is not None else mdp.horizon
    if limit is None:
        return discounted
    if limit < 1:
        raise UserError(f"step_limit must be at least 1, got {limit}")
    return _with_whole_episodes(discounted, mdp, pi, mask, limit)


def _with_whole_episodes(
    discounted: TabularEvaluation, mdp: MDP, policy: NDArray[np.float64], mask: NDArray[np.bool_], limit: int
) -> TabularEvaluation:
    """Add the expectations of whole episodes to those that are discounted.

    The distribution over states is pushed forward, with the violations counted so far attached to it.

    x(s) = P(alive in s), m(s) = E[violations so far; alive in s], y(s) = P(alive in s, no violation so far). An episode
    that ends after L steps contributes m/L to the step rate.
    """
    live = ~mdp.terminal
    forward = mdp.transitions.T.tocsr()
    x = np.where(live, mdp.initial, 0.0)
    m, y = np.zeros_like(x), x.copy()
    visits = mdp.initial.astype(np.float64)
    total_return = total_length = step_rate = 0.0
    clean = float(mdp.initial[mdp.terminal].sum())  # episodes over without a violation
    for t in range(limit):
        pi = policy[min(t, len(policy) - 1)] if policy.ndim == 3 else policy
        flow = x[:, None] * pi
        total_return += float((flow * mdp.rewards).sum())
        total_length += float(x.sum())
        arrived = forward @ np.stack([flow.ravel(), (m[:, None] * pi).ravel(), (y[:, None] * pi).ravel()], axis=1)
        x, m, y = arrived[:, 0], arrived[:, 1] + arrived[:, 0] * mask, arrived[:, 2] * ~mask
        visits += x
        ended = ~live if t + 1 < limit else np.ones_like(live)
        step_rate += float(m[ended].sum()) / (t + 1)
        clean += float(y[ended].sum())
        x, m, y = (np.where(ended, 0.0, array) for array in (x, m, y))
    return replace(
        discounted,
        expected_return=total_return,
        expected_length=total_length,
        violation_rate_step=step_rate,
        violation_rate_episode=min(1.0, max(0.0, 1.0 - clean)),
        visits=visits,
    )


def _checked(mdp: MDP, policy: ArrayLike, constrained: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    pi, mask = np.asarray(policy, dtype=np.float64), np.asarray(constrained)
    shapes: list[tuple[int, ...]] = [(mdp.n_states, mdp.n_actions)]
    if mdp.horizon is not None:
        shapes.append((mdp.horizon, mdp.n_states, mdp.n_actions))
    if pi.shape not in shapes:
        raise UserError(f"the policy has shape {pi.shape}, expected {' or '.join(map(str, shapes))}")
    live = pi[..., ~mdp.terminal, :]
    if not (np.isfinite(live).all() and (live >= 0).all() and np.allclose(live.sum(axis=-1), 1.0, atol=1e-6)):
        raise UserError("the policy is not a distribution over actions in every state")
    if mask.dtype != np.bool_ or mask.shape != (mdp.n_states,):
        raise UserError(f"constrained must be {mdp.n_states} booleans, got dtype {mask.dtype} and shape {mask.shape}")
    return pi, mask


def excess_over_expert(agent: TabularEvaluation, expert: TabularEvaluation) -> dict[str, float]:
    """How the agent differs from the expert; positive is worse in both."""
    return {
        "excess_violation_occupancy": agent.violation_occupancy - expert.violation_occupancy,
        "return_gap": expert.discounted_return - agent.discounted_return,
    }


# ---------------------------------------------------------------------------------------------------------------------
# The cost itself


@dataclass(frozen=True)
class CostQuality:
    """A cost over states as a detector of the truly constrained ones; see `tacit.metrics`. NaN where not defined."""

    auroc: float
    auprc: float
    best_iou: float
    best_threshold: float
    """Cells with a cost above it are marked, for `best_iou`."""
    n_states: int
    """Number of states that were judged."""

    def as_dict(self) -> dict[str, float]:
        return {name: value for name, value in vars(self).items() if not math.isnan(value)}


def cost_quality(
    cost: ArrayLike, constrained: ArrayLike, *, reachable: ArrayLike | None = None, weights: ArrayLike | None = None
) -> CostQuality:
    """Judge a cost (S,) by the true mask (S,), on the `reachable` states (S,) bool, all equal or with `weights` (S,).

    A state without cost is never marked, whatever the threshold: a cost of zero everywhere has IoU 0.
    """
    values, mask = np.asarray(cost, dtype=np.float64), np.asarray(constrained)
    judged = np.ones(values.shape, dtype=bool) if reachable is None else np.asarray(reachable, dtype=bool)
    if values.ndim != 1 or mask.shape != values.shape or judged.shape != values.shape:
        raise UserError(
            "cost, constrained and reachable must each have one entry per state, "
            f"got shapes {values.shape}, {mask.shape} and {judged.shape}"
        )
    if not judged.any():
        raise UserError("no state is reachable: there is nothing to judge the cost on")
    mass = None if weights is None else np.asarray(weights, dtype=np.float64)[judged]
    values, mask = values[judged], mask[judged]
    overlap, threshold = stats.best_iou(values, mask, mass, floor=0.0)
    return CostQuality(
        auroc=stats.auroc(values, mask, mass),
        auprc=stats.auprc(values, mask, mass),
        best_iou=overlap,
        best_threshold=threshold,
        n_states=int(judged.sum()),
    )


def reachable_states(mdp: MDP) -> NDArray[np.bool_]:
    """(S,) states that some policy visits with positive probability, the start and terminals included."""
    reached = mdp.initial > 0
    alive = np.repeat(~mdp.terminal, mdp.n_actions)
    forward = sp.csr_array(sp.diags_array(alive.astype(float)) @ mdp.transitions)
    steps = mdp.n_states if mdp.horizon is None else mdp.horizon
    frontier = reached
    for _ in range(steps):
        touched = np.asarray(forward.T @ np.repeat(frontier.astype(float), mdp.n_actions)) > 0
        frontier = touched & ~reached
        if not frontier.any():
            break
        reached = reached | frontier
    return reached
