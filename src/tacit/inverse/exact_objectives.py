"""The objectives of the exact method over weights lambda >= 0, with gradients and Newton systems.

Both objectives depend on lambda through the soft-optimal policy for the reward R - lambda.phi. With X(s,a) the response
of beta log pi(a|s) to a change of the reward along phi (centred under pi in every state), gradients are one adjoint
solve and Hessians are (1/beta) sum w(s) pi(a|s) X X' with non-negative weights w on the states.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

from tacit.forward.evaluate_exact import reachable_states
from tacit.forward.soft_policy_iteration import Plan, SparseFactor, plan, response, structure_of
from tacit.tabular import MDP

DENSE_FEATURES = 1000  # up to here the Hessian is formed; beyond, matrix-free
DENSE_ONE_HOT = 120  # one-hot states have a sparse Newton system, which wins beyond this


class Geometry:
    """The features of an MDP, and the Newton systems that they lead to."""

    def __init__(self, mdp: MDP, features: sp.csr_array) -> None:
        self.mdp, self.features = mdp, features
        self.transposed = sp.csr_array(features.T)
        self.size = features.shape[1]
        states = np.repeat(np.arange(mdp.n_states), mdp.n_actions)
        self.one_hot_states = (
            mdp.horizon is None
            and features.shape[1] == mdp.n_states
            and features.nnz == features.shape[0]
            and np.array_equal(features.indices, states)
            and bool((features.data == 1.0).all())
        )
        self.dense = self.size <= (DENSE_ONE_HOT if self.one_hot_states else DENSE_FEATURES)

    @cached_property
    def dense_features(self) -> np.ndarray:
        return self.features.toarray()

    @cached_property
    def visitable(self) -> np.ndarray:
        """(S*A,) state-action pairs that some policy takes."""
        return np.repeat(reachable_states(self.mdp) & ~self.mdp.terminal, self.mdp.n_actions)

    @cached_property
    def irrelevant(self) -> np.ndarray:
        """(k,) features that are zero wherever any policy can go, so neither data nor policies depend on them."""
        return np.asarray(abs(self.transposed) @ self.visitable.astype(float)) == 0.0

    @cached_property
    def feature_units(self) -> np.ndarray:
        """(k,) largest size of each feature where policies can go, rounded to a power of two for exact scaling."""
        sizes = sp.csr_array(abs(self.features).multiply(self.visitable[:, None])).max(axis=0).toarray().ravel()
        return np.exp2(np.ceil(np.log2(np.where(self.irrelevant, 1.0, sizes))))

    @cached_property
    def reward_range(self) -> float:
        """How much rewards differ where policies can go, or a part of their size if they do not differ."""
        rewards = self.mdp.rewards.ravel()[self.visitable]
        return max(float(np.ptp(rewards)), 1e-3 * float(np.abs(rewards).max())) if len(rewards) else 0.0

    def reward_unit(self, beta: float) -> float:
        """The range of rewards, or the entropy if it is larger, rounded to a power of two."""
        return float(np.exp2(np.ceil(np.log2(max(self.reward_range, beta)))))


class DualPoint:
    """g, or the likelihood, at one weight vector."""

    def __init__(self, problem: Problem, weights: np.ndarray, beta: float, warm: np.ndarray | None) -> None:
        self.problem, self.weights, self.beta = problem, weights, beta
        mdp = problem.geometry.mdp
        cost = (problem.geometry.features @ weights).reshape(mdp.rewards.shape)
        self.plan: Plan = plan(mdp, mdp.rewards - cost, beta, warm)
        self.value = problem.value(self)

    @cached_property
    def response(self) -> Any:
        return response(self.problem.geometry.mdp, self.plan.policy)

    @cached_property
    def occupancy(self) -> np.ndarray:
        return self.response.occupancy()

    @cached_property
    def moments(self) -> np.ndarray:
        return self.problem.geometry.transposed @ sum_over_time(self.occupancy).ravel()

    @cached_property
    def gradient(self) -> np.ndarray:
        return self.problem.gradient(self)

    @cached_property
    def _attention(self) -> np.ndarray:
        """(S, A) or (T, S, A) weights of the covariances in the Hessian (or Fisher matrix)."""
        return self.problem.attention(self)

    @cached_property
    def hessian(self) -> np.ndarray:
        """(k, k) Hessian or Fisher matrix."""
        return self.response.covariance(self.problem.geometry.dense_features, self._attention) / self.beta

    def hessian_times(self, vector: np.ndarray) -> np.ndarray:
        geometry = self.problem.geometry
        moved = self.response.respond((geometry.features @ vector)[:, None])[..., 0]
        weighted = self._attention.reshape(moved.shape) * moved
        return geometry.transposed @ self.response.respond_transposed(weighted) / self.beta

    def newton_solve(self, diagonal: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """Solve (Hessian + diag) x = rhs; an infinite diagonal entry holds that coordinate at zero."""
        free = np.isfinite(diagonal)
        out = np.zeros_like(rhs)
        if self.problem.geometry.dense:
            out[free] = _solve_dense(self.hessian[np.ix_(free, free)], diagonal[free], rhs[free])
            return out
        if self.problem.geometry.one_hot_states:
            try:
                return np.where(free, self._solve_one_hot(diagonal, np.where(free, rhs, 0.0)), 0.0)
            except RuntimeError:  # exactly singular: states without anything to decide
                pass
        out[free] = self._solve_matrix_free(free, diagonal, rhs)
        return out

    def _solve_one_hot(self, diagonal: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """Solve the Newton system of one-hot states. H = K^-T B K^-1 with sparse K = I - gamma P_pi and B =
        (gamma^2/beta) (P' diag(rho) P - P_pi' diag(d) P_pi), so (H + D)^-1 = K (B + K' D K)^-1 K'."""
        mdp = self.problem.geometry.mdp
        structure = structure_of(mdp)
        k_matrix = structure.identity_minus(mdp, self.plan.policy)
        transitions = mdp.live_transitions
        under_policy = (sp.eye_array(mdp.n_states) - k_matrix) / mdp.discount
        visits = self._attention.sum(axis=1)
        b_matrix = (mdp.discount**2 / self.beta) * (
            mdp.live_transitions_transposed @ sp.diags_array(self._attention.ravel()) @ transitions
            - under_policy.T @ sp.diags_array(visits) @ under_policy
        )
        largest = float(np.abs(b_matrix.diagonal()).max())
        finite = np.where(np.isfinite(diagonal), diagonal, 1e8 * largest) + 1e-14 * largest
        system = sp.csc_array(b_matrix + k_matrix.T @ sp.diags_array(finite) @ k_matrix)
        if self.problem.order is None:
            self.problem.order = SparseFactor(system).fill_reducing_order()
        factor = SparseFactor(system, self.problem.order)
        return k_matrix @ factor.solve(k_matrix.T @ rhs)

    def _solve_matrix_free(self, free: np.ndarray, diagonal: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        index = np.flatnonzero(free)
        squares = self.problem.geometry.transposed.power(2) @ sum_over_time(self._attention).ravel()
        scale = diagonal[index] + squares[index] / self.beta
        scale += 1e-12 * (float(scale.max(initial=0.0)) or 1.0)

        def times(vector: np.ndarray) -> np.ndarray:
            full = np.zeros(len(free))
            full[index] = vector
            # The ridge keeps directions without any curvature from dividing by zero.
            return self.hessian_times(full)[index] + (diagonal[index] + 1e-12 * scale) * vector

        preconditioner = LinearOperator((len(index),) * 2, matvec=lambda v: v / scale, dtype=np.float64)
        operator = LinearOperator((len(index),) * 2, matvec=times, dtype=np.float64)
        answer, _ = cg(operator, rhs[index], rtol=1e-6, maxiter=400, M=preconditioner)
        return answer


def _solve_dense(hessian: np.ndarray, diagonal: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    if not len(rhs):
        return rhs
    matrix = hessian + np.diag(diagonal)
    # Scaling to a unit diagonal first: with a barrier the entries range over many orders of magnitude.
    curvature = np.diag(matrix)
    scale = 1.0 / np.sqrt(np.maximum(curvature, max(1e-30 * float(curvature.max()), 1e-100)))
    matrix = scale[:, None] * matrix * scale
    for ridge in (1e-15, 1e-12, 1e-9, 1e-6):
        try:
            factor = scipy.linalg.cho_factor(matrix + ridge * np.eye(len(rhs)), check_finite=False)
        except scipy.linalg.LinAlgError:
            continue
        return scale * scipy.linalg.cho_solve(factor, scale * rhs, check_finite=False)
    return rhs * scale * scale


class Problem:
    """min over lambda >= 0 of a function of the soft-optimal policy for R - lambda.phi."""

    def __init__(self, geometry: Geometry, limit: np.ndarray) -> None:
        self.geometry, self.limit = geometry, limit
        self.order: np.ndarray | None = None

    def at(self, weights: np.ndarray, beta: float, near: Any) -> DualPoint:
        return DualPoint(self, weights, beta, None if near is None else near.plan.value)

    def value(self, point: DualPoint) -> float:
        raise NotImplementedError

    def gradient(self, point: DualPoint) -> np.ndarray:
        raise NotImplementedError

    def attention(self, point: DualPoint) -> np.ndarray:
        raise NotImplementedError


class MomentsDual(Problem):
    """g(lambda); `limit` is mu_D + budget."""

    def value(self, point: DualPoint) -> float:
        first = point.plan.value if self.geometry.mdp.horizon is None else point.plan.value[0]
        return float(self.geometry.mdp.live_initial @ first + point.weights @ self.limit)

    def gradient(self, point: DualPoint) -> np.ndarray:
        return self.limit - point.moments

    def attention(self, point: DualPoint) -> np.ndarray:
        return point.occupancy


class CausalLikelihood(Problem):
    """-(beta/N) sum gamma^t log pi(a_t|s_t) + limit.lambda; `counts` (S,A) or (T,S,A) are discounted and divided by N.

    Because beta log pi = Q - V this equals m . V_lambda + lambda . mu_D up to a constant: the dual of the moments with
    the initial distribution replaced by m = n(s) - gamma P' n(s,a), the starts that would explain the counts if the
    dynamics had no luck. m has some negative entries, which is why the objective is not convex.
    """

    def __init__(self, geometry: Geometry, limit: np.ndarray, counts: np.ndarray) -> None:
        super().__init__(geometry, limit)
        self.counts = counts

    def value(self, point: DualPoint) -> float:
        return float(-point.beta * (self.counts * point.plan.log_policy).sum() + point.weights @ self.limit)

    def gradient(self, point: DualPoint) -> np.ndarray:
        return self.geometry.transposed @ point.response.respond_transposed(self._flat_counts) + self.limit

    def attention(self, point: DualPoint) -> np.ndarray:
        # The exact Hessian weighs each state's covariance with the visits that start from m; negative ones are dropped
        # to keep the Newton system positive definite. A share of the Fisher weights keeps demonstrated states in it.
        explained = point.response.visits_explaining(self._flat_counts)
        fisher = self.counts.sum(axis=-1)
        return np.maximum(explained, 0.01 * fisher)[..., None] * point.plan.policy

    @cached_property
    def _flat_counts(self) -> np.ndarray:
        return self.counts.reshape(*self.counts.shape[:-2], -1)


def sum_over_time(occupancy: np.ndarray) -> np.ndarray:
    return occupancy if occupancy.ndim == 2 else occupancy.sum(axis=0)
