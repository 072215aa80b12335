"""Independent answers for the exact method. Nothing here uses the package: plain dense arrays, written out anew.

* `solve_by_cones`: exponential cones over occupancy measures (cvxpy + Clarabel).

      max_rho  rho.R - beta sum rel_entr(rho_sa, d_s)   s.t.  flow(rho) = nu0,  Phi' rho <= limit,  rho >= 0

* `bounds`: weak duality by hand. Any weights give a rigorous upper bound on every feasible policy, any policy its own
  value and infeasibility; no solver is involved, so it works at any beta.
* `least_uniform_slack`: the feasibility question as a linear program.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
from scipy.optimize import linprog
from scipy.special import logsumexp, xlogy

from strategies import Case


@dataclass
class OracleAnswer:
    status: str
    value: float
    multipliers: np.ndarray | None
    occupancy: np.ndarray | None
    """(live, A) summed over time"""


def solve_by_cones(case: Case, limit: np.ndarray, beta: float) -> OracleAnswer:
    # The cone solver has absolute tolerances: hand it rewards and features of size one.
    unit = max(float(np.abs(case.rewards).max()), beta)
    sizes = np.abs(case.features).max(axis=(0, 1))
    sizes = np.where(sizes > 0, sizes, 1.0)
    answer = _solve_by_cones(
        case.changed(rewards=case.rewards / unit, features=case.features / sizes), limit / sizes, beta / unit
    )
    answer.value *= unit
    if answer.multipliers is not None:
        answer.multipliers = answer.multipliers * unit / sizes
    return answer


def _solve_by_cones(case: Case, limit: np.ndarray, beta: float) -> OracleAnswer:
    n_actions = case.rewards.shape[1]
    live = np.flatnonzero(~case.terminal)
    steps = 1 if case.horizon is None else case.horizon
    rho = [cp.Variable((len(live), n_actions), nonneg=True) for _ in range(steps)]
    into = case.transitions[np.ix_(live, np.arange(n_actions), live)]  # (live, A, live)

    def arrivals(r: cp.Variable) -> cp.Expression:
        return sum(into[:, a, :].T @ r[:, a] for a in range(n_actions))

    constraints = []
    for t in range(steps):
        visits = cp.sum(rho[t], axis=1)
        if case.horizon is None:
            constraints.append(visits == case.initial[live] + case.discount * arrivals(rho[t]))
        elif t == 0:
            constraints.append(visits == case.initial[live])
        else:
            constraints.append(visits == case.discount * arrivals(rho[t - 1]))
    flat = case.features[live].reshape(-1, case.n_features)
    matching = sum(flat.T @ cp.vec(r, order="C") for r in rho) <= limit
    constraints.append(matching)
    value = 0
    for r in rho:
        visits = cp.reshape(cp.sum(r, axis=1), (len(live), 1), order="C") @ np.ones((1, n_actions))
        value = value + cp.sum(cp.multiply(case.rewards[live], r)) - beta * cp.sum(cp.rel_entr(r, visits))
    problem = cp.Problem(cp.Maximize(value), constraints)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "inaccurate" is told by the status
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10, max_iter=500)
    except cp.error.SolverError:
        return OracleAnswer("failed", float("nan"), None, None)
    if problem.status not in ("optimal", "optimal_inaccurate"):
        return OracleAnswer(problem.status, float("nan"), None, None)
    return OracleAnswer(
        problem.status,
        float(problem.value),
        np.asarray(matching.dual_value),
        np.sum([np.asarray(r.value) for r in rho], axis=0),
    )


def live_dynamics(case: Case) -> np.ndarray:
    """(S, A, S) with nothing into or out of terminal states."""
    moves = case.transitions.copy()
    moves[case.terminal] = 0.0
    moves[:, :, case.terminal] = 0.0
    return moves


def occupancy_by_hand(case: Case, policy: np.ndarray) -> np.ndarray:
    """(S, A), or (T, S, A) with a horizon."""
    moves = live_dynamics(case)
    start = np.where(case.terminal, 0.0, case.initial)
    if case.horizon is None:
        under_policy = np.einsum("sa,sap->sp", policy, moves)
        visits = np.linalg.solve(np.eye(len(start)) - case.discount * under_policy.T, start)
        return visits[:, None] * policy
    if policy.ndim == 2:
        policy = np.broadcast_to(policy, (case.horizon, *policy.shape))
    out = []
    for pi in policy:
        out.append(start[:, None] * pi)
        start = case.discount * np.einsum("sa,sap->p", out[-1], moves)
    return np.array(out)


def moments_by_hand(case: Case, policy: np.ndarray) -> np.ndarray:
    """(k,)"""
    return np.einsum("tsa,sak->k", occupancy_by_hand(case, policy).reshape(-1, *case.rewards.shape), case.features)


@dataclass
class Bounds:
    """upper >= every feasible policy's J + beta H; `value` and `infeasibility` are those of the given policy."""

    upper: float
    value: float
    infeasibility: float


def bounds(case: Case, weights: np.ndarray, policy: np.ndarray, limit: np.ndarray, beta: float) -> Bounds:
    moves = live_dynamics(case)
    start = np.where(case.terminal, 0.0, case.initial)
    reward = case.rewards - case.features @ weights

    def optimal_backup(value: np.ndarray) -> np.ndarray:
        q = reward + case.discount * moves @ value
        return np.where(case.terminal, 0.0, beta * logsumexp(q / beta, axis=1))

    if case.horizon is None:
        # The policy's own value is nearly optimal for these weights; its Bellman residual pays for "nearly".
        own = np.where(case.terminal, 0.0, (policy * reward).sum(axis=1) - beta * xlogy(policy, policy).sum(axis=1))
        under_policy = np.einsum("sa,sap->sp", policy, moves)
        value = np.linalg.solve(np.eye(len(start)) - case.discount * under_policy, own)
        excess = float((optimal_backup(value) - value).max())
        best = float(start @ value) + max(excess, 0.0) / (1.0 - case.discount)
    else:
        value = np.zeros(len(start))
        for _ in range(case.horizon):
            value = optimal_backup(value)
        best = float(start @ value)
    rho = occupancy_by_hand(case, policy)
    share = rho.sum(axis=-1, keepdims=True)
    entropy = -float(xlogy(rho, np.where(share > 0, rho / np.where(share > 0, share, 1.0), 1.0)).sum())
    excess_moments = moments_by_hand(case, policy) - limit
    return Bounds(
        upper=best + float(weights @ limit),
        value=float((rho * case.rewards).sum()) + beta * entropy,
        infeasibility=float(np.maximum(excess_moments, 0.0).max()),
    )


def least_uniform_slack(case: Case, limit: np.ndarray) -> float:
    """min t such that some policy has moments <= limit + t (negative: room to spare)."""
    moves = live_dynamics(case)
    n_states, n_actions = case.rewards.shape
    leave = np.kron(np.eye(n_states), np.ones(n_actions))
    enter = case.discount * moves.reshape(-1, n_states).T
    steps = 1 if case.horizon is None else case.horizon
    start = np.where(case.terminal, 0.0, case.initial)
    flow = np.kron(np.eye(steps), leave) - (enter if case.horizon is None else np.kron(np.eye(steps, k=-1), enter))
    source = np.concatenate([start, np.zeros((steps - 1) * n_states)])
    columns = flow.shape[1]
    phi = np.tile(case.features.reshape(-1, case.n_features).T, steps)
    answer = linprog(
        np.append(np.zeros(columns), 1.0),
        A_ub=np.hstack([phi, -np.ones((len(phi), 1))]),
        b_ub=limit,
        A_eq=np.hstack([flow, np.zeros((len(flow), 1))]),
        b_eq=source,
        bounds=[(0, None)] * columns + [(None, None)],
        method="highs",
    )
    assert answer.status == 0, answer.message
    return float(answer.fun)
