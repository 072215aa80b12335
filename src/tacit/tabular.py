"""The public interface of the exact method: a finite MDP, and `solve`.

    from tacit.tabular import MDP, solve
    mdp = MDP(transitions, rewards, initial, discount=0.99)
    solution = solve(mdp, "state", demonstrations=demos, beta=0.1, budget=1e-3)
    solution.cost, solution.policy, solution.certificate

The algorithm itself is in `tacit.inverse.mce_exact`; the planner in `tacit.forward.soft_policy_iteration`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from tacit.errors import UserError
from tacit.run.machine import one_blas_thread

if TYPE_CHECKING:
    from tacit.inverse.certificate import Certificate
    from tacit.inverse.feasibility import Diagnosis

ROW_SUM_TOLERANCE = 1e-8
LARGEST_POLICY = 10**9  # entries of a time-dependent policy: 8 GB


def _finite_array(name: str, value: Any, shape: tuple[int, ...] | None = None) -> np.ndarray:
    try:
        array = np.array(value)
        if value is None or array.dtype.kind == "c":
            raise TypeError(f"it is {'None' if value is None else 'complex'}")
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of real numbers: {error}") from None
    if shape is not None and array.shape != shape:
        raise UserError(f"{name} has shape {array.shape}, expected {shape}")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise UserError(f"{name}{list(where) or ''} is {array[where]}: every entry must be a finite number")
    return array


def _real_sparse(name: str, value: Any) -> sp.csr_array:
    if np.iscomplexobj(value):
        raise TypeError(f"{name} must be an array of real numbers: it is complex")
    return sp.csr_array(value).astype(np.float64)


@dataclass(frozen=True, eq=False)
class MDP:
    """A finite Markov decision process, checked on construction.

    Args:
        transitions: (S, A, S) dense, or scipy.sparse `(S*A, S)` with row `s*A + a`; rows sum to one.
        rewards: (S, A), the expected reward of taking a in s.
        initial: (S,), a distribution.
        discount: in (0, 1), or in (0, 1] with a horizon.
        horizon: None (discounted, infinite) or the number of steps T.
        terminal: (S,) booleans. Entering such a state ends the episode: V = 0, no reward, entropy or occupancy there.
            Terminals are never inferred: a state that loops on itself goes on earning reward and entropy.
    """

    transitions: Any
    rewards: Any
    initial: Any
    discount: float
    horizon: int | None = None
    terminal: Any = None

    def __post_init__(self) -> None:
        rewards = _finite_array("rewards", self.rewards)
        if rewards.ndim != 2 or 0 in rewards.shape:
            raise UserError(f"rewards has shape {rewards.shape}, expected (states, actions)")
        n_states, n_actions = rewards.shape
        initial = _finite_array("initial", self.initial, (n_states,))
        terminal = self._checked_terminal(n_states)
        set_ = object.__setattr__
        set_(self, "rewards", rewards)
        set_(self, "terminal", terminal)
        set_(self, "initial", initial)
        set_(self, "transitions", self._checked_transitions(n_states, n_actions, terminal))
        if (initial < 0).any():
            raise UserError(f"initial[{initial.argmin()}] is {initial.min():.6g}: a probability cannot be negative")
        if abs(initial.sum() - 1) > ROW_SUM_TOLERANCE:
            raise UserError(f"initial must be a distribution over states: it sums to {initial.sum():.10g}, not 1")
        if terminal.all():
            raise UserError("every state is terminal: there is nothing to decide")
        self._check_time()

    def _checked_terminal(self, n_states: int) -> np.ndarray:
        if self.terminal is None:
            return np.zeros(n_states, dtype=bool)
        terminal = np.asarray(self.terminal)
        if terminal.dtype != np.bool_:
            raise TypeError(
                "terminal must be a boolean mask over states, for example np.arange(S) == goal; "
                f"it has dtype {terminal.dtype}"
            )
        if terminal.shape != (n_states,):
            raise UserError(f"terminal has shape {terminal.shape}, expected ({n_states},)")
        return terminal.copy()

    def _checked_transitions(self, n_states: int, n_actions: int, terminal: np.ndarray) -> sp.csr_array:
        given, rows = self.transitions, n_states * n_actions
        if sp.issparse(given):
            if given.shape != (rows, n_states):
                raise UserError(
                    f"sparse transitions have shape {given.shape}, expected ({rows}, {n_states}): "
                    "one row for each state-action pair, row s * n_actions + a"
                )
            matrix = _real_sparse("transitions", given)
        else:
            dense = _finite_array("transitions", given, (n_states, n_actions, n_states))
            matrix = sp.csr_array(dense.reshape(rows, n_states))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()

        def where(row: int) -> str:
            return f"state {row // n_actions}, action {row % n_actions}"

        bad = ~(np.isfinite(matrix.data) & (matrix.data >= 0))
        if bad.any():
            row = int(np.repeat(np.arange(rows), np.diff(matrix.indptr))[np.argmax(bad)])
            worst = matrix.data[np.argmax(bad)]
            what = f"a negative probability, {worst:.6g}" if worst < 0 else f"{worst} as a probability"
            raise UserError(f"transitions from {where(row)} have {what}")
        sums = np.asarray(matrix.sum(axis=1)).ravel()
        wrong = (np.abs(sums - 1) > ROW_SUM_TOLERANCE) & ~np.repeat(terminal, n_actions)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise UserError(
                f"transitions from {where(row)} sum to {sums[row]:.10g}, not 1 ({int(wrong.sum())} such rows); "
                "divide each row by its sum, or mark the state as terminal"
            )
        return matrix

    def _check_time(self) -> None:
        if self.horizon is not None:
            if isinstance(self.horizon, bool) or not isinstance(self.horizon, (int, np.integer)):
                raise TypeError(f"horizon must be a whole number of steps or None, not {self.horizon!r}")
            if self.horizon < 1:
                raise UserError(f"horizon must be at least 1, not {self.horizon}")
            if self.horizon * self.rewards.size > LARGEST_POLICY:
                raise UserError(
                    f"a policy over {self.horizon} steps has {self.horizon * self.rewards.size:.2g} entries, which is "
                    "too many; shorten the horizon, or leave it out for the discounted infinite one"
                )
        if not isinstance(self.discount, (int, float, np.integer, np.floating)) or isinstance(self.discount, bool):
            raise TypeError(f"discount must be a number, not {self.discount!r}")
        if self.horizon is None and not 0 < self.discount < 1:
            raise UserError(f"discount must be in (0, 1) without a horizon, not {self.discount}")
        if self.horizon is not None and not 0 < self.discount <= 1:
            raise UserError(f"discount must be in (0, 1] with a horizon, not {self.discount}")

    @property
    def n_states(self) -> int:
        return self.rewards.shape[0]

    @property
    def n_actions(self) -> int:
        return self.rewards.shape[1]

    @cached_property
    def live_transitions(self) -> sp.csr_array:
        """Transitions (S*A, S) without those into and out of terminal states: rows may sum to less than one."""
        alive = (~self.terminal).astype(np.float64)
        matrix = sp.diags_array(np.repeat(alive, self.n_actions)) @ self.transitions @ sp.diags_array(alive)
        matrix = sp.csr_array(matrix)
        matrix.eliminate_zeros()
        return matrix

    @cached_property
    def live_transitions_transposed(self) -> sp.csr_array:
        return sp.csr_array(self.live_transitions.T)

    @cached_property
    def live_initial(self) -> np.ndarray:
        return np.where(self.terminal, 0.0, self.initial)


@dataclass(frozen=True, eq=False)
class Solution:
    """What `solve` returns. Shapes: S states, A actions, k features, T the horizon if there is one."""

    policy: np.ndarray
    """(S, A), or (T, S, A) with a horizon: the soft-optimal policy for rewards - cost. NaN when infeasible."""
    weights: np.ndarray
    """(k,) multipliers >= 0. NaN when infeasible."""
    cost: np.ndarray
    """(S, A) = features @ weights, in units of reward."""
    moments: np.ndarray
    """(k,) discounted feature expectations of `policy`."""
    expert_moments: np.ndarray
    """(k,) the moments that were matched."""
    status: str
    """"optimal", "infeasible" (proved), or "iteration limit" (the certificate says how far it got)."""
    certificate: Certificate
    """How good the answer is; see `tacit.inverse.certificate`."""
    beta: float
    budget: np.ndarray
    """(k,)"""
    objective: str
    features: Any = field(repr=False)
    """sparse (S*A, k)"""
    diagnosis: Diagnosis | None = None
    """When infeasible: the proof, the features to blame and budgets that would do."""
    history: list[dict[str, float]] = field(default_factory=list, repr=False)
    """One record an iteration: iteration, beta, dual_value, kkt, gap, infeasibility, seconds."""


def feature_matrix(mdp: MDP, features: Any) -> sp.csr_array:
    """Features as a sparse (S*A, k) matrix, from dense (S, A, k), sparse (S*A, k), "state" or "state-action"."""
    n_states, n_actions = mdp.n_states, mdp.n_actions
    if isinstance(features, str):
        if features == "state":
            ones = sp.eye_array(n_states)
            return sp.csr_array(sp.kron(ones, np.ones((n_actions, 1))))
        if features == "state-action":
            return sp.csr_array(sp.eye_array(n_states * n_actions))
        raise UserError(f'features must be "state", "state-action" or an array, not {features!r}')
    if sp.issparse(features):
        matrix = _real_sparse("features", features)
        if matrix.shape[0] != n_states * n_actions:
            raise UserError(
                f"sparse features have {matrix.shape[0]} rows, expected {n_states * n_actions} (states*actions)"
            )
    else:
        dense = _finite_array("features", features)
        if dense.ndim != 3 or dense.shape[:2] != (n_states, n_actions):
            raise UserError(
                f"features have shape {dense.shape}, expected ({n_states}, {n_actions}, k); "
                'for features of the state alone repeat them over actions, or use "state" for one-hot'
            )
        matrix = sp.csr_array(dense.reshape(n_states * n_actions, -1))
    bad = ~np.isfinite(matrix.data)
    if bad.any():
        row = int(np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[np.argmax(bad)])
        raise UserError(
            f"features of state {row // n_actions}, action {row % n_actions} contain {matrix.data[np.argmax(bad)]}: "
            "every entry must be a finite number"
        )
    if matrix.shape[1] == 0:
        raise UserError("features have no columns: there is nothing to match")
    return matrix


def solve(
    mdp: MDP,
    features: Any,
    expert_moments: Any = None,
    demonstrations: Any = None,
    *,
    beta: float,
    budget: Any = 0.0,
    objective: str = "moments",
    method: str = "newton",
    **options: Any,
) -> Solution:
    """Learn the cost and the policy of maximum causal entropy inverse constrained RL, exactly.

    Maximise E[sum gamma^t (R + beta H)] subject to moments(policy) <= moments(expert) + budget. The multipliers
    of that constraint are the weights of the cost.

    expert_moments: (k,) discounted feature expectations of the expert; or
    demonstrations: a sequence of (states, actions) integer arrays, with len(states) = len(actions) or one more.
    objective: "moments" (the paper's, convex: the certificate proves the optimum; the default, because it also takes
        expert_moments. `tacit learn mce-exact` always has demonstrations and defaults to "likelihood", which has a
        solution whatever they are), "likelihood" (causally conditioned likelihood, needs demonstrations; not convex)
        or "plugin" (moments of an estimated expert policy under the known dynamics, needs demonstrations).
    method: "newton" or "gradient" (the paper's fixed-step projected gradient).
    Further options are the fields of `tacit.inverse.mce_exact.Options`.
    """
    from tacit.inverse import mce_exact  # which needs MDP

    steps = mce_exact.learn(
        mdp,
        features,
        expert_moments,
        demonstrations,
        beta=beta,
        budget=budget,
        objective=objective,
        method=method,
        **options,
    )
    with one_blas_thread():
        while True:
            try:
                next(steps)
            except StopIteration as finished:
                return finished.value
