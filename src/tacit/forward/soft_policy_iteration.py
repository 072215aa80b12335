"""Soft policy iteration: the exact planner (the paper's section 3.2).

For a reward r(s,a), here R - lambda.phi, and entropy coefficient beta:

    Q(s,a) = r(s,a) + gamma E[V(s')]                                   (eq. q)
    V(s)   = beta log sum_a exp(Q(s,a) / beta)                         (lemma optimal-policy)
    pi(a|s) = exp((Q(s,a) - V(s)) / beta)                              (eq. opt-policy)

Evaluation solves the linear equations of the modified Bellman operator (eq. bellman-operator),
V = E_pi[r - beta log pi] + gamma P_pi V; improvement is the KL projection (eq. kl), whose solution over all
policies is the soft-max of Q. Together they are Newton's method on the soft Bellman equation, which is why a handful
of linear solves is enough. With a finite horizon one backward pass is exact.

Everything is kept as log pi: at beta = 1e-5 most probabilities underflow, their logarithms do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

if TYPE_CHECKING:
    from tacit.tabular import MDP

DENSE_STATES = 200  # below this a dense LU beats the sparse one
MAX_ITERATIONS = 500  # policy iteration needs 5 to 20; this only guards against rounding cycles


@dataclass(frozen=True)
class Plan:
    """A soft-optimal policy and its values. With a horizon T: value (T+1, S), q and log_policy (T, S, A)."""

    value: np.ndarray
    """(S,) soft values V."""
    q: np.ndarray
    """(S, A) soft action values Q."""
    log_policy: np.ndarray
    """(S, A); rows of terminal states are uniform and never used."""
    residual: float
    """max |T V - V| of the soft Bellman optimality operator T: 0 for a perfect plan."""
    iterations: int

    @property
    def policy(self) -> np.ndarray:
        return np.exp(self.log_policy)


def soft_max(q: np.ndarray, beta: float, terminal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(V, log pi) for Q (..., S, A): V = beta logsumexp(Q/beta), and 0 at terminal states."""
    top = q.max(axis=-1, keepdims=True)
    scaled = (q - top) / beta
    log_sum = np.log(np.exp(scaled).sum(axis=-1, keepdims=True))
    log_policy = scaled - log_sum
    log_policy[..., terminal, :] = -np.log(q.shape[-1])
    value = np.where(terminal, 0.0, (top + beta * log_sum)[..., 0])
    return value, log_policy


def backup(mdp: MDP, reward: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Q = r + gamma P V, (S, A)."""
    return reward + mdp.discount * (mdp.live_transitions @ value).reshape(mdp.rewards.shape)


def plan(mdp: MDP, reward: np.ndarray, beta: float, value: np.ndarray | None = None) -> Plan:
    """The soft-optimal policy for `reward` (S, A). `value` warm-starts the infinite-horizon case."""
    if mdp.horizon is not None:
        return _backward_induction(mdp, reward, beta)
    value = np.zeros(mdp.n_states) if value is None else value
    best: Plan | None = None
    for iteration in range(MAX_ITERATIONS):
        q = backup(mdp, reward, value)
        improved, log_policy = soft_max(q, beta, mdp.terminal)
        residual = float(np.abs(improved - value).max())
        if iteration > 0:  # the first value may be any warm start
            rounding = 2e-15 * float(np.abs(value).max() + np.abs(reward).max())
            if best is None or residual < best.residual:
                best = Plan(value, q, log_policy, residual, iteration)
            elif residual <= 100 * rounding / (1.0 - mdp.discount):
                break  # rounding prevents a smaller residual
            if residual <= rounding:
                break
        value = PolicyResponse(mdp, np.exp(log_policy)).value_of(reward - beta * log_policy)
    assert best is not None
    return best


def _backward_induction(mdp: MDP, reward: np.ndarray, beta: float) -> Plan:
    assert mdp.horizon is not None
    value = np.zeros((mdp.horizon + 1, mdp.n_states))
    q = np.empty((mdp.horizon, mdp.n_states, mdp.n_actions))
    log_policy = np.empty_like(q)
    for t in reversed(range(mdp.horizon)):
        q[t] = backup(mdp, reward, value[t + 1])
        value[t], log_policy[t] = soft_max(q[t], beta, mdp.terminal)
    return Plan(value, q, log_policy, 0.0, 1)


class PolicyResponse:
    """A stationary policy under the dynamics: values, occupancies, and their derivatives with respect to the reward.

    All come from one factorisation of K = I - gamma P_pi.
    """

    def __init__(self, mdp: MDP, policy: np.ndarray) -> None:
        self.mdp, self.policy = mdp, policy
        self._factor = _factorise(mdp, policy)

    def value_of(self, reward: np.ndarray) -> np.ndarray:
        """V (S,) of this policy for a reward (S, A) (entropy included by the caller)."""
        return self._factor.solve(self._average(reward))

    def occupancy(self) -> np.ndarray:
        """rho(s,a) = E sum gamma^t 1[s_t=s, a_t=a], (S, A)."""
        visits = self._factor.solve_transposed(self.mdp.live_initial)
        return np.maximum(visits, 0.0)[:, None] * self.policy

    def respond(self, direction: np.ndarray) -> np.ndarray:
        """d(beta log pi) when the reward moves along `direction` (S*A, m): X = u + gamma P m - m, K m = E_pi u.

        Centred: the average of X over pi(.|s) is zero in every state.
        """
        mean = self._factor.solve(self._average(direction.reshape(*self.policy.shape, -1)))
        ahead = self.mdp.discount * (self.mdp.live_transitions @ mean)
        return direction + (ahead - np.repeat(mean, self.mdp.n_actions, axis=0)).reshape(direction.shape)

    def covariance(self, direction: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """sum weights(s,a) X X', (m, m), for weights (S, A)."""
        moved = self.respond(direction)
        return moved.T @ (weights.reshape(-1, 1) * moved)

    def respond_transposed(self, weights: np.ndarray) -> np.ndarray:
        """The transpose of `respond`, (S*A,) -> (S*A,)."""
        per_state = weights.reshape(self.policy.shape)
        source = self.mdp.discount * (self.mdp.live_transitions_transposed @ weights) - per_state.sum(axis=1)
        source[self.mdp.terminal] = 0.0
        return (per_state + self._factor.solve_transposed(source)[:, None] * self.policy).ravel()

    def visits_explaining(self, counts: np.ndarray) -> np.ndarray:
        """(S,) visits of this policy when it starts from m = n(s) - gamma P' n(s,a), for counts n (S*A,)."""
        per_state = counts.reshape(self.policy.shape).sum(axis=1)
        starts = per_state - self.mdp.discount * (self.mdp.live_transitions_transposed @ counts)
        return self._factor.solve_transposed(starts)

    def _average(self, per_action: np.ndarray) -> np.ndarray:
        mean = np.einsum("sa,sa...->s...", self.policy, per_action)
        mean[self.mdp.terminal] = 0.0
        return mean


class TimedPolicyResponse:
    """The same for a time-dependent policy (T, S, A) over a finite horizon; time-indexed arrays lead with T."""

    def __init__(self, mdp: MDP, policy: np.ndarray) -> None:
        self.mdp, self.policy = mdp, policy

    def value_of(self, reward: np.ndarray) -> np.ndarray:
        """V (T+1, S) for a reward (S, A) or (T, S, A)."""
        horizon = len(self.policy)
        reward = np.broadcast_to(reward, self.policy.shape)
        value = np.zeros((horizon + 1, self.mdp.n_states))
        for t in reversed(range(horizon)):
            value[t] = (self.policy[t] * backup(self.mdp, reward[t], value[t + 1])).sum(axis=1)
            value[t, self.mdp.terminal] = 0.0
        return value

    def occupancy(self) -> np.ndarray:
        """rho_t(s,a) = gamma^t P(s_t=s, a_t=a), (T, S, A)."""
        occupancy = np.empty_like(self.policy)
        visits = self.mdp.live_initial
        for t, policy in enumerate(self.policy):
            occupancy[t] = visits[:, None] * policy
            visits = self.mdp.discount * (self.mdp.live_transitions_transposed @ occupancy[t].ravel())
        return occupancy

    def respond(self, direction: np.ndarray) -> np.ndarray:
        """d(beta log pi_t) when the reward moves along `direction` (S*A, m): (T, S*A, m)."""
        return np.array(list(self._respond_backwards(direction))[::-1])

    def covariance(self, direction: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """sum weights(t,s,a) X X', (m, m), for weights (T, S, A); one time step in memory."""
        backwards = zip(self._respond_backwards(direction), weights[::-1], strict=True)
        return sum(moved.T @ (weight.reshape(-1, 1) * moved) for moved, weight in backwards)

    def _respond_backwards(self, direction: np.ndarray) -> Iterator[np.ndarray]:
        """(S*A, m) from the last step to the first"""
        _, n_states, n_actions = self.policy.shape
        mean = np.zeros((n_states, *direction.shape[1:]))
        for policy in self.policy[::-1]:
            raw = direction + self.mdp.discount * (self.mdp.live_transitions @ mean)
            mean = np.einsum("sa,sa...->s...", policy, raw.reshape(n_states, n_actions, *direction.shape[1:]))
            mean[self.mdp.terminal] = 0.0
            yield raw - np.repeat(mean, n_actions, axis=0)

    def respond_transposed(self, weights: np.ndarray) -> np.ndarray:
        """The transpose of `respond`, (T, S*A) -> (S*A,)."""
        total = np.zeros(weights.shape[1])
        pushed = np.zeros(self.mdp.n_states)
        for policy, weight in zip(self.policy, weights.reshape(self.policy.shape), strict=True):
            source = pushed - weight.sum(axis=1)
            source[self.mdp.terminal] = 0.0
            raw = (weight + source[:, None] * policy).ravel()
            total += raw
            pushed = self.mdp.discount * (self.mdp.live_transitions_transposed @ raw)
        return total

    def visits_explaining(self, counts: np.ndarray) -> np.ndarray:
        """(T, S) visits when m_t = n_t(s) - gamma P' n_{t-1}(s,a) enter at each t, for counts n (T, S*A)."""
        per_state = counts.reshape(self.policy.shape).sum(axis=2)
        visits = np.empty_like(per_state)
        carried = np.zeros(self.mdp.n_states)
        for t, policy in enumerate(self.policy):
            visits[t] = per_state[t] + carried
            surplus = (visits[t][:, None] * policy).ravel() - counts[t]
            carried = self.mdp.discount * (self.mdp.live_transitions_transposed @ surplus)
        return visits


def response(mdp: MDP, policy: np.ndarray) -> PolicyResponse | TimedPolicyResponse:
    """Values, occupancies and derivatives of any policy: (S, A), or (T, S, A) with a horizon."""
    if mdp.horizon is None:
        return PolicyResponse(mdp, policy)
    if policy.ndim == 2:
        policy = np.broadcast_to(policy, (mdp.horizon, *policy.shape))
    return TimedPolicyResponse(mdp, policy)


def occupancy(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """Discounted state-action occupancy: (S, A), or (T, S, A) with a horizon."""
    return response(mdp, policy).occupancy()


def evaluate_policy(mdp: MDP, policy: np.ndarray, reward: np.ndarray, beta: float = 0.0) -> np.ndarray:
    """V of any policy for E sum gamma^t (reward - beta log pi): (S,), or (T+1, S) with a horizon."""
    with np.errstate(divide="ignore"):
        entropy = np.where(policy > 0, -np.log(np.where(policy > 0, policy, 1.0)), 0.0)
    return response(mdp, policy).value_of(reward + beta * entropy)


# The factorisation of I - gamma P_pi. It is a diagonally dominant M-matrix, so no pivoting is needed and one
# fill-reducing ordering serves every policy of the same MDP.


class _DenseFactor:
    def __init__(self, matrix: np.ndarray) -> None:
        self._lu = scipy.linalg.lu_factor(matrix, check_finite=False)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return scipy.linalg.lu_solve(self._lu, rhs, check_finite=False)

    def solve_transposed(self, rhs: np.ndarray) -> np.ndarray:
        return scipy.linalg.lu_solve(self._lu, rhs, trans=1, check_finite=False)


class SparseFactor:
    """LU of a sparse matrix with symmetric pattern and a dominant diagonal, under a given symmetric ordering."""

    def __init__(self, matrix: sp.csc_array, order: np.ndarray | None = None) -> None:
        options = {"SymmetricMode": True}
        if order is None:
            self._lu: Any = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
            self.order = None
        else:
            permuted = sp.csc_array(matrix[order][:, order])
            self._lu = splu(permuted, permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options)
            self.order = order

    def fill_reducing_order(self) -> np.ndarray:
        return np.argsort(self._lu.perm_c)

    def solve(self, rhs: np.ndarray, trans: str = "N") -> np.ndarray:
        if self.order is None:
            return self._lu.solve(np.ascontiguousarray(rhs), trans)
        out = np.empty_like(rhs, dtype=np.float64)
        out[self.order] = self._lu.solve(np.ascontiguousarray(rhs[self.order]), trans)
        return out

    def solve_transposed(self, rhs: np.ndarray) -> np.ndarray:
        return self.solve(rhs, "T")


class _Structure:
    """Structure that all policies share: the position of each transition in P_pi, and the ordering of its factors."""

    def __init__(self, mdp: MDP) -> None:
        matrix = mdp.live_transitions
        n = mdp.n_states
        self.pair = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        flat = (self.pair // mdp.n_actions) * n + matrix.indices
        diagonal = np.arange(n) * (n + 1)
        cells, slots = np.unique(np.concatenate([flat, diagonal]), return_inverse=True)
        self.slot, self.diagonal = slots[: len(flat)], slots[len(flat) :]
        self.row, self.column = np.divmod(cells, n)
        self.order: np.ndarray | None = None

    def identity_minus(self, mdp: MDP, policy: np.ndarray) -> sp.csr_array:
        """I - gamma P_pi."""
        weights = mdp.live_transitions.data * policy.ravel()[self.pair]
        data = -mdp.discount * np.bincount(self.slot, weights, minlength=len(self.row))
        data[self.diagonal] += 1.0
        return sp.csr_array((data, (self.row, self.column)), shape=(mdp.n_states, mdp.n_states))


def structure_of(mdp: MDP) -> _Structure:
    cached = mdp.__dict__.get("_structure")
    if cached is None:
        cached = mdp.__dict__["_structure"] = _Structure(mdp)
    return cached


def _factorise(mdp: MDP, policy: np.ndarray) -> _DenseFactor | SparseFactor:
    structure = structure_of(mdp)
    matrix = structure.identity_minus(mdp, policy)
    if mdp.n_states <= DENSE_STATES:
        return _DenseFactor(matrix.toarray())
    if structure.order is None:
        structure.order = SparseFactor(sp.csc_array(matrix)).fill_reducing_order()
    return SparseFactor(sp.csc_array(matrix), structure.order)
