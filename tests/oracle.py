"""An independent solver for the exact problem: exponential cones over occupancy measures (cvxpy + Clarabel).

    max_rho  rho.R - beta sum rel_entr(rho_sa, d_s)   s.t.  flow(rho) = nu0,  Phi' rho <= limit,  rho >= 0

It shares no code with the package except the construction of the flow equations, which it writes out anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np


@dataclass
class OracleAnswer:
    status: str
    value: float
    multipliers: np.ndarray | None
    occupancy: np.ndarray | None


def solve_by_cones(
    transitions: np.ndarray,
    rewards: np.ndarray,
    initial: np.ndarray,
    discount: float,
    terminal: np.ndarray,
    features: np.ndarray,
    limit: np.ndarray,
    beta: float,
    horizon: int | None = None,
) -> OracleAnswer:
    """transitions (S,A,S), features (S,A,k), all dense."""
    n_states, n_actions = rewards.shape
    live = np.flatnonzero(~terminal)
    steps = 1 if horizon is None else horizon
    rho = [cp.Variable((len(live), n_actions), nonneg=True) for _ in range(steps)]
    into = transitions[np.ix_(live, np.arange(n_actions), live)]  # (live, A, live)

    def arrivals(r: cp.Variable) -> cp.Expression:
        return sum(into[:, a, :].T @ r[:, a] for a in range(n_actions))

    constraints = []
    for t in range(steps):
        visits = cp.sum(rho[t], axis=1)
        source = initial[live] if (horizon is None or t == 0) else 0.0
        if horizon is None:
            constraints.append(visits == source + discount * arrivals(rho[t]))
        elif t == 0:
            constraints.append(visits == source)
        else:
            constraints.append(visits == discount * arrivals(rho[t - 1]))
    flat = features[live].reshape(-1, features.shape[2])
    moments = sum(flat.T @ cp.vec(r, order="C") for r in rho)
    matching = moments <= limit
    constraints.append(matching)
    value = 0
    for r in rho:
        visits = cp.reshape(cp.sum(r, axis=1), (len(live), 1), order="C") @ np.ones((1, n_actions))
        value = value + cp.sum(cp.multiply(rewards[live], r)) - beta * cp.sum(cp.rel_entr(r, visits))
    problem = cp.Problem(cp.Maximize(value), constraints)
    problem.solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10, max_iter=500, verbose=False
    )
    if problem.status not in ("optimal", "optimal_inaccurate"):
        return OracleAnswer(problem.status, float("nan"), None, None)
    return OracleAnswer(
        problem.status, float(problem.value), np.asarray(matching.dual_value), sum(np.asarray(r.value) for r in rho)
    )
