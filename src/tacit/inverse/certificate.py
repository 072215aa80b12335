"""Certificates: how good a solution is, computed from its weights alone.

For any lambda >= 0 with its soft-optimal policy pi (notation in docs/exact-method.md):

    gap             lambda . grad g = g(lambda) - (J + beta H)(pi): signed, negative when pi is infeasible; never alone
    infeasibility   max_i (mu_pi - mu_D - budget)_i^+
    KKT residual    max |lambda - [lambda - grad g]_+|, zero exactly at a solution
    planner         max |T V - V| of the soft Bellman operator: how exact the policy is for these weights
    backward error  pi is *exactly* optimal for the budget  b'_i = mu_pi,i - mu_D,i  where lambda_i > 0, else
                    max(b_i, mu_pi,i - mu_D,i);  the number is max |b' - b|

The causal likelihood is not convex and matches no moments: its gap, infeasibility and backward error are NaN, and the
KKT residual says only that the weights are stationary.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import UserError
from tacit.forward.soft_policy_iteration import evaluate_policy, plan, response
from tacit.inverse.dual_newton import kkt_residual

if TYPE_CHECKING:
    from tacit.inverse.exact_objectives import DualPoint, Problem
    from tacit.inverse.feasibility import Diagnosis
    from tacit.tabular import MDP


@dataclass(frozen=True)
class Certificate:
    """Plain numbers; see the module's docstring for their meaning."""

    status: str
    objective: str
    beta: float
    gap: float
    kkt: float
    infeasibility: float
    complementarity: float
    """sum_i lambda_i |grad_i g|"""
    planner_residual: float
    backward_error: float
    dual_value: float
    """An upper bound on the value of any feasible policy (convex objectives)."""
    primal_value: float
    """(J + beta H) of the returned policy."""
    statement: str
    """The verdict in words."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def is_optimal(problem: Problem, point: DualPoint, tolerance: float) -> bool:
    """Whether the point is feasible, without gap and complementary, up to a tolerance relative to the problem's size.

    At the very edge of feasibility multipliers are huge and no rounding of theirs is complementary; there it is enough
    that the limits of all positive multipliers are met, in other words that the backward error is small.
    """
    loose = max(tolerance, 1e-9)
    features, reward = problem.geometry.feature_units, problem.geometry.reward_unit(point.beta)
    in_moments = 100 * loose * (1.0 + float(np.abs(problem.limit / features).max(initial=0.0)))
    in_value = 1000 * loose * (reward + abs(point.value))
    weights, gradient = point.weights, point.gradient
    missed = np.where(weights > 0, np.abs(gradient), np.maximum(-gradient, 0.0)) / features
    return (
        bool((-gradient / features).max(initial=0.0) <= in_moments)
        and abs(float(weights @ gradient)) <= in_value
        and (float(weights @ np.abs(gradient)) <= in_value or bool(missed.max(initial=0.0) <= in_moments))
    )


def of_point(
    mdp: MDP, point: Any, expert_moments: np.ndarray, budget: np.ndarray, objective: str, converged: bool
) -> Certificate:
    """The certificate of weights, from a point of `tacit.inverse.exact_objectives` that was planned for them."""
    weights, gradient, planned, value, beta = point.weights, point.gradient, point.plan, point.value, point.beta
    excess = point.moments - expert_moments
    kkt = kkt_residual(weights, gradient)
    soft_value = evaluate_policy(mdp, planned.policy, mdp.rewards, beta)
    primal = float(mdp.live_initial @ (soft_value if mdp.horizon is None else soft_value[0]))
    convex = objective != "likelihood"
    status = "optimal" if converged else "iteration limit"
    if convex:
        backward = np.where(weights > 0, excess, np.maximum(budget, excess))
        infeasibility = float(np.maximum(excess - budget, 0.0).max(initial=0.0))
        backward_error = float(np.abs(backward - budget).max(initial=0.0))
        statement = _convex_statement(converged, value, float(weights @ gradient), infeasibility, kkt, backward_error)
    else:
        infeasibility = backward_error = math.nan
        statement = (
            "The causal likelihood is not convex, so there is no duality gap and no proof of a global optimum. "
            f"The weights are stationary to {kkt:.2g} and the policy is exact for them to {planned.residual:.2g}."
        )
        status = "stationary" if converged else "iteration limit"
    return Certificate(
        status=status,
        objective=objective,
        beta=beta,
        gap=float(weights @ gradient) if convex else math.nan,
        kkt=kkt,
        infeasibility=infeasibility,
        complementarity=float(weights @ np.abs(gradient)),
        planner_residual=planned.residual,
        backward_error=backward_error,
        dual_value=value,
        primal_value=primal,
        statement=statement,
    )


def _convex_statement(done: bool, value: float, gap: float, infeasibility: float, kkt: float, backward: float) -> str:
    if done:
        return (
            f"Certified: no policy that keeps to the expert's feature expectations can do better than {value:.6g}, "
            f"and this one is within {abs(gap):.2g} of it, breaking no limit by more than {infeasibility:.2g}. "
            f"It is exactly optimal for a budget that differs by at most {backward:.2g}."
        )
    return (
        f"Not converged: the KKT residual is {kkt:.2g}. Still rigorous: {value:.6g} bounds what any feasible policy "
        f"can reach, and the policy is exactly optimal for a budget that differs by at most {backward:.2g}."
    )


def of_infeasible(diagnosis: Diagnosis, beta: float, objective: str) -> Certificate:
    return Certificate(
        status="infeasible",
        objective=objective,
        beta=beta,
        gap=math.inf,
        kkt=math.inf,
        infeasibility=diagnosis.violation,
        complementarity=math.inf,
        planner_residual=math.inf,
        backward_error=math.inf,
        dual_value=-math.inf,
        primal_value=math.nan,
        statement=diagnosis.describe(),
    )


@dataclass(frozen=True)
class PolicyCertificate:
    """How far a policy q is from soft-optimal for a cost: V - V^q = beta E_q[sum gamma^t KL(q || pi)], exactly."""

    loss: float
    """nu0 . (V - V^q), in units of reward."""
    divergence: float
    """beta times the discounted KL divergence along q's own trajectories; equals `loss`."""
    kl_per_step: float
    """Average KL(q || pi) over the steps that q takes, in nats."""


def certify_policy(mdp: MDP, cost: np.ndarray, beta: float, policy: np.ndarray) -> PolicyCertificate:
    """The certificate of any policy (S, A), or (T, S, A) with a horizon, against the soft-optimal one for R - cost."""
    policy = _checked_policy(mdp, policy)
    if np.shape(cost) != mdp.rewards.shape:
        raise UserError(f"cost has shape {np.shape(cost)}, expected (states, actions) = {mdp.rewards.shape}")
    reward = mdp.rewards - cost
    best = plan(mdp, reward, beta)
    own = evaluate_policy(mdp, policy, reward, beta)
    if mdp.horizon is not None:
        loss = float(mdp.live_initial @ (best.value[0] - own[0]))
    else:
        loss = float(mdp.live_initial @ (best.value - own))
    visited = response(mdp, policy).occupancy()
    log_ratio = np.log(np.where(policy > 0, policy, 1.0)) - np.where(policy > 0, best.log_policy, 0.0)
    divergence = float((visited * log_ratio).sum())
    steps = float(visited.sum())
    return PolicyCertificate(loss, beta * divergence, divergence / steps if steps > 0 else 0.0)


def _checked_policy(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    policy = np.asarray(policy, dtype=np.float64)
    timed = () if mdp.horizon is None else (mdp.horizon,)
    if policy.shape not in (mdp.rewards.shape, timed + mdp.rewards.shape):
        raise UserError(f"policy has shape {policy.shape}, expected {timed + mdp.rewards.shape}")
    if not ((policy >= 0).all() and np.allclose(policy.sum(axis=-1), 1.0, atol=1e-6)):
        raise UserError("policy must hold probabilities >= 0 that sum to 1 in every state")
    return policy
