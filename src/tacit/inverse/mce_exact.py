"""Maximum causal entropy inverse constrained RL, exactly, on finite MDPs (the paper's sections 3.1 to 3.3).

    (P)   max_pi  J(pi) + beta H(pi)     subject to    mu_pi <= mu_D + budget
    (D)   min_{lambda >= 0}  g(lambda) = nu0 . V_lambda + lambda . (mu_D + budget)              (eq. dual)
          grad g = mu_D + budget - mu_{pi_lambda}                                            (eq. lag_lambda)
          Hess g = (1/beta) sum_s d(s) Cov_{a ~ pi(.|s)}[M(s,a)],   M = phi + gamma P E_pi M

V_lambda and pi_lambda come from soft policy iteration on the reward R - lambda.phi. The inequality is the paper's with its
sign put right: a positive budget loosens (docs/errata.md).

Objectives: "moments" is (D) with empirical mu_D; "plugin" is (D) with the moments of an estimated expert policy under
the known dynamics; "likelihood" minimises -(beta/N) sum_t gamma^t log pi_lambda(a_t|s_t) + (l1 + budget).lambda,
the causally conditioned likelihood, which the luck of the dynamics does not enter.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

from tacit.errors import UserError
from tacit.forward.soft_policy_iteration import Plan, SparseFactor, plan, response, structure_of
from tacit.inverse import certificate as certificates
from tacit.inverse import dual_newton, feasibility
from tacit.tabular import MDP, Solution, _finite_array, feature_matrix

DENSE_FEATURES = 1000  # up to here the Hessian is formed; beyond, matrix-free
DENSE_ONE_HOT = 120  # one-hot states have a sparse Newton system, which wins beyond this
OBJECTIVES = ("moments", "likelihood", "plugin")
METHODS = ("newton", "gradient")


@dataclass(frozen=True)
class Options:
    """Further options of `solve`."""

    tolerance: float = 1e-9
    """KKT residual at which to stop."""
    max_iterations: int | None = None
    """Outer iterations; default 500 (newton), 2000 (gradient)."""
    step_size: float = 0.05
    """Fixed step of method="gradient"."""
    initial_weights: Any = None
    """(k,) where to start; default 1 for method="gradient" as in the paper."""
    l1: float = 1e-3
    """L1 term of objective="likelihood", in units of discounted occupancy like the budget."""
    pseudo_count: float = 1.0
    """objective="plugin": visits of the unconstrained policy that are mixed into each state's action counts."""


class _Geometry:
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
    def irrelevant(self) -> np.ndarray:
        """(k,) features that are zero wherever any policy can go: no data and no policy says anything about them."""
        reached = feasibility.reachable(self.mdp) & ~self.mdp.terminal
        weight = np.repeat(reached.astype(float), self.mdp.n_actions)
        return np.asarray(abs(self.transposed) @ weight) == 0.0


class _DualPoint:
    """g, or the likelihood, at one weight vector."""

    def __init__(
        self,
        problem: _Problem,
        weights: np.ndarray,
        beta: float,
        warm: np.ndarray | None,
    ) -> None:
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
        return self.problem.geometry.transposed @ _sum_over_time(self.occupancy).ravel()

    @cached_property
    def gradient(self) -> np.ndarray:
        return self.problem.gradient(self)

    @cached_property
    def _attention(self) -> np.ndarray:
        """(S, A) or (T, S, A) weights of the covariances in the Hessian (or Fisher matrix)."""
        return self.problem.attention(self)

    @cached_property
    def hessian(self) -> np.ndarray:
        """(k, k)"""
        moved = self.response.respond(self.problem.geometry.dense_features)
        moved = moved.reshape(-1, moved.shape[-1])
        return moved.T @ (self._attention.reshape(-1, 1) * moved) / self.beta

    def hessian_times(self, vector: np.ndarray) -> np.ndarray:
        geometry = self.problem.geometry
        moved = self.response.respond((geometry.features @ vector)[:, None])[..., 0]
        weighted = self._attention.reshape(moved.shape) * moved
        return geometry.transposed @ self.response.respond_transposed(weighted) / self.beta

    def newton_solve(self, diagonal: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """Solve (Hessian + diag) x = rhs; an infinite diagonal entry holds that coordinate at zero."""
        free = np.isfinite(diagonal) & ~self.problem.geometry.irrelevant
        out = np.zeros_like(rhs)
        if self.problem.geometry.dense:
            out[free] = _solve_dense(self.hessian[np.ix_(free, free)], diagonal[free], rhs[free])
        elif self.problem.geometry.one_hot_states:
            out = np.where(free, self._solve_one_hot(np.where(free, diagonal, np.inf), np.where(free, rhs, 0.0)), 0.0)
        else:
            out[free] = self._solve_matrix_free(free, diagonal, rhs)
        return out

    def _solve_one_hot(self, diagonal: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """For one-hot states H = K^-T B K^-1 with sparse K = I - gamma P_pi and
        B = (gamma^2/beta) (P' diag(rho) P - P_pi' diag(d) P_pi), so (H + D)^-1 = K (B + K' D K)^-1 K'."""
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
        finite = np.where(np.isfinite(diagonal), diagonal, 1e10 * largest) + 1e-14 * largest
        system = sp.csc_array(b_matrix + k_matrix.T @ sp.diags_array(finite) @ k_matrix)
        if self.problem.order is None:
            self.problem.order = SparseFactor(system).fill_reducing_order()
        factor = SparseFactor(system, self.problem.order)
        return k_matrix @ factor.solve(k_matrix.T @ rhs)

    def _solve_matrix_free(self, free: np.ndarray, diagonal: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        index = np.flatnonzero(free)

        def times(vector: np.ndarray) -> np.ndarray:
            full = np.zeros(len(free))
            full[index] = vector
            return self.hessian_times(full)[index] + diagonal[index] * vector

        squares = self.problem.geometry.transposed.power(2) @ _sum_over_time(self._attention).ravel()
        scale = diagonal[index] + squares[index] / self.beta + 1e-12
        preconditioner = LinearOperator((len(index),) * 2, matvec=lambda v: v / scale, dtype=np.float64)
        operator = LinearOperator((len(index),) * 2, matvec=times, dtype=np.float64)
        answer, _ = cg(operator, rhs[index], rtol=1e-6, maxiter=400, M=preconditioner)
        return answer


def _solve_dense(hessian: np.ndarray, diagonal: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    if not len(rhs):
        return rhs
    matrix = hessian + np.diag(diagonal)
    # Scaling to a unit diagonal first: with a barrier the entries range over many orders of magnitude.
    scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    matrix = scale[:, None] * matrix * scale
    for ridge in (1e-15, 1e-12, 1e-9, 1e-6):
        try:
            factor = scipy.linalg.cho_factor(matrix + ridge * np.eye(len(rhs)), check_finite=False)
        except scipy.linalg.LinAlgError:
            continue
        return scale * scipy.linalg.cho_solve(factor, scale * rhs, check_finite=False)
    return rhs * scale * scale


class _Problem:
    """min over lambda >= 0 of a function of the soft-optimal policy for R - lambda.phi."""

    def __init__(self, geometry: _Geometry, limit: np.ndarray) -> None:
        self.geometry, self.limit = geometry, limit
        self.order: np.ndarray | None = None

    def at(self, weights: np.ndarray, beta: float, near: Any) -> _DualPoint:
        return _DualPoint(self, weights, beta, None if near is None else near.plan.value)

    def value(self, point: _DualPoint) -> float:
        raise NotImplementedError

    def gradient(self, point: _DualPoint) -> np.ndarray:
        raise NotImplementedError

    def attention(self, point: _DualPoint) -> np.ndarray:
        raise NotImplementedError


class MomentsDual(_Problem):
    """g(lambda); `limit` is mu_D + budget."""

    def value(self, point: _DualPoint) -> float:
        first = point.plan.value if self.geometry.mdp.horizon is None else point.plan.value[0]
        return float(self.geometry.mdp.live_initial @ first + point.weights @ self.limit)

    def gradient(self, point: _DualPoint) -> np.ndarray:
        return self.limit - point.moments

    def attention(self, point: _DualPoint) -> np.ndarray:
        return point.occupancy


class CausalLikelihood(_Problem):
    """-(beta/N) sum gamma^t log pi(a_t|s_t) + limit.lambda; `counts` are the discounted counts / N, (S,A) or (T,S,A).

    Because beta log pi = Q - V this equals m . V_lambda + lambda . mu_D up to a constant: the dual of the moments with the
    initial distribution replaced by m = n(s) - gamma P' n(s,a), the starts that would explain the counts if the dynamics
    had no luck. m has some negative entries, which is why the objective is not convex.
    """

    def __init__(self, geometry: _Geometry, limit: np.ndarray, counts: np.ndarray) -> None:
        super().__init__(geometry, limit)
        self.counts = counts

    def value(self, point: _DualPoint) -> float:
        return float(-point.beta * (self.counts * point.plan.log_policy).sum() + point.weights @ self.limit)

    def gradient(self, point: _DualPoint) -> np.ndarray:
        return self.geometry.transposed @ point.response.respond_transposed(self._flat_counts) + self.limit

    def attention(self, point: _DualPoint) -> np.ndarray:
        # The exact Hessian weighs each state's covariance with the visits that start from m; negative ones are dropped to
        # keep the Newton system positive definite, and a share of the Fisher weights keeps every demonstrated state in.
        explained = point.response.visits_explaining(self._flat_counts)
        fisher = self.counts.sum(axis=-1)
        return np.maximum(explained, 0.01 * fisher)[..., None] * point.plan.policy

    @cached_property
    def _flat_counts(self) -> np.ndarray:
        return self.counts.reshape(*self.counts.shape[:-2], -1)


def _sum_over_time(occupancy: np.ndarray) -> np.ndarray:
    return occupancy if occupancy.ndim == 2 else occupancy.sum(axis=0)


# Demonstrations


def check_demonstrations(mdp: MDP, demonstrations: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Trajectories as (states, actions) integer arrays, every transition possible; else UserError saying where."""
    if isinstance(demonstrations, (str, bytes)) or not isinstance(demonstrations, Sequence):
        raise TypeError("demonstrations must be a sequence of (states, actions) pairs of integer arrays")
    if len(demonstrations) == 0:
        raise UserError("there are no demonstrations: give at least one (states, actions) pair")
    checked = []
    for i, trajectory in enumerate(demonstrations):
        try:
            states, actions = trajectory
        except (TypeError, ValueError):
            raise TypeError(f"demonstration {i} is not a (states, actions) pair") from None
        states, actions = np.asarray(states), np.asarray(actions)
        for name, array in (("states", states), ("actions", actions)):
            if array.ndim != 1 or (len(array) and not np.issubdtype(array.dtype, np.integer)):
                raise TypeError(f"{name} of demonstration {i} must be a one-dimensional array of integers")
        if len(actions) == 0:
            raise UserError(f"demonstration {i} is empty: it has no action")
        if len(states) - len(actions) not in (0, 1):
            raise UserError(
                f"demonstration {i} has {len(states)} states and {len(actions)} actions: "
                "expected as many states as actions, or one more (the final state)"
            )
        for name, array, size in (("state", states, mdp.n_states), ("action", actions, mdp.n_actions)):
            outside = (array < 0) | (array >= size)
            if outside.any():
                step = int(np.argmax(outside))
                raise UserError(
                    f"demonstration {i}, step {step}: {name} {array[step]} is outside the space 0..{size - 1}"
                )
        if mdp.terminal[states[: len(actions)]].any():
            step = int(np.argmax(mdp.terminal[states[: len(actions)]]))
            raise UserError(f"demonstration {i}, step {step}: acts in terminal state {states[step]}")
        if mdp.horizon is not None and len(actions) > mdp.horizon:
            raise UserError(f"demonstration {i} has {len(actions)} steps, more than the horizon {mdp.horizon}")
        _check_possible(mdp, i, states, actions)
        checked.append((states.astype(np.int64), actions.astype(np.int64)))
    return checked


def _check_possible(mdp: MDP, i: int, states: np.ndarray, actions: np.ndarray) -> None:
    if mdp.initial[states[0]] == 0:
        raise UserError(f"demonstration {i} starts in state {states[0]}, which has initial probability 0")
    steps = len(states) - 1
    rows = states[:steps] * mdp.n_actions + actions[:steps]
    likely = np.asarray(mdp.transitions[rows, states[1:]]).ravel() if steps else np.zeros(0)
    if (likely == 0).any():
        step = int(np.argmax(likely == 0))
        raise UserError(
            f"demonstration {i}, step {step}: state {states[step]} with action {actions[step]} cannot lead to "
            f"state {states[step + 1]} (probability 0 in the transitions)"
        )


def discounted_counts(mdp: MDP, demonstrations: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """(1/N) sum_i sum_t gamma^t 1[s_t=s, a_t=a]: (S, A), or (T, S, A) with a horizon."""
    shape = (mdp.n_states, mdp.n_actions) if mdp.horizon is None else (mdp.horizon, mdp.n_states, mdp.n_actions)
    counts = np.zeros(shape)
    for states, actions in demonstrations:
        t = np.arange(len(actions))
        where = (states[: len(actions)], actions) if mdp.horizon is None else (t, states[: len(actions)], actions)
        np.add.at(counts, where, mdp.discount**t)
    return counts / len(demonstrations)


def estimated_policy(
    mdp: MDP, demonstrations: list[tuple[np.ndarray, np.ndarray]], beta: float, pseudo_count: float
) -> np.ndarray:
    """The expert's policy by counting, smoothed by `pseudo_count` visits of the unconstrained soft-optimal policy."""
    counts = np.zeros((mdp.n_states, mdp.n_actions))
    for states, actions in demonstrations:
        np.add.at(counts, (states[: len(actions)], actions), 1.0)
    prior = plan(mdp, mdp.rewards, beta).policy
    smoothed = counts + pseudo_count * prior
    return smoothed / smoothed.sum(axis=-1, keepdims=True)


# The algorithm


def learn(
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
) -> Generator[tuple[np.ndarray, dict[str, float]], None, Solution]:
    """Yield (weights, metrics) after every iteration; the generator's return value is the Solution."""
    if not isinstance(mdp, MDP):
        raise TypeError(f"mdp must be a tacit.tabular.MDP, not {type(mdp).__name__}")
    if objective not in OBJECTIVES:
        raise UserError(f"objective must be one of {', '.join(OBJECTIVES)}; not {objective!r}")
    if method not in METHODS:
        raise UserError(f"method must be one of {', '.join(METHODS)}; not {method!r}")
    beta = _positive("beta", beta)
    try:
        settings = Options(**options)
    except TypeError as error:
        raise TypeError(
            f"solve: {str(error).split('__init__() ')[-1]}; options are {', '.join(Options.__annotations__)}"
        ) from None
    matrix = feature_matrix(mdp, features)
    geometry = _Geometry(mdp, matrix)
    slack = _checked_budget(budget, geometry.size)
    trajectories = None if demonstrations is None else check_demonstrations(mdp, demonstrations)
    problem, target = _pose(geometry, expert_moments, trajectories, slack, beta, objective, settings)

    started = time.perf_counter()
    history: list[dict[str, float]] = []

    def record(point: Any, at_beta: float, phase: str) -> dict[str, float]:
        gradient = point.gradient
        entry = {
            "iteration": len(history),
            "beta": at_beta,
            "dual_value": point.value,
            "kkt": dual_newton.kkt_residual(point.weights, gradient),
            "gap": float(point.weights @ gradient),
            "infeasibility": float(np.maximum(-gradient, 0.0).max(initial=0.0)),
            "largest_weight": float(point.weights.max(initial=0.0)),
            "seconds": time.perf_counter() - started,
            "phase": phase,  # type: ignore[dict-item]
        }
        history.append(entry)
        return entry

    diagnosis = None
    convex = objective != "likelihood"
    if convex:
        diagnosis = feasibility.decide_if_small(mdp, matrix, problem.limit)
    point: Any = None
    steps = _newton_steps if method == "newton" else _gradient_steps
    proof: list[feasibility.Diagnosis] = [diagnosis] if diagnosis is not None else []
    if not proof:
        for progress in steps(problem, beta, settings, proof, convex):
            point = progress.point
            yield point.weights, record(point, progress.beta, progress.phase)
        if convex and not proof and _unfinished(point, problem, settings) and point.beta == beta:
            undecided = feasibility.decide(mdp, matrix, problem.limit)
            proof.extend([undecided] if undecided is not None else [])
    return _solution(problem, point, target, slack, beta, objective, method, trajectories, proof, history, settings)


def _newton_steps(problem: _Problem, beta: float, settings: Options, proof: list[Any], convex: bool) -> Any:
    geometry = problem.geometry
    live = geometry.mdp.rewards[~geometry.mdp.terminal]
    reward_scale = float(np.ptp(live)) or float(np.abs(live).max()) or 1.0
    reward_scale = max(reward_scale, 1e-3 * float(np.abs(live).max()))
    positive = problem.limit[problem.limit > 0]
    # A low quantile: the barrier must not dwarf the tightest budgets.
    moment_scale = max(float(np.quantile(positive, 0.1)), 1e-4 * float(positive.mean())) if len(positive) else 1e-3
    schedule = dual_newton.Schedule(
        beta=beta,
        reward_scale=reward_scale,
        moment_scale=moment_scale,
        tolerance=settings.tolerance,
        max_iterations=settings.max_iterations or 500,
        initial_weights=_initial_weights(settings, geometry.size),
        relevant=~geometry.irrelevant,
    )

    def give_up(point: Any) -> bool:
        """Weights far beyond any reward mean that the dual may be unbounded: see whether they prove it."""
        if not convex or point.weights.max() < 10 * reward_scale or point.gradient.min() > -settings.tolerance:
            return False
        found = feasibility.farkas_proof(geometry.mdp, geometry.features, problem.limit, point.weights)
        proof.extend([found] if found is not None else [])
        return found is not None

    for progress in dual_newton.minimise(problem, geometry.size, schedule, give_up):
        yield progress


def _gradient_steps(problem: _Problem, beta: float, settings: Options, proof: list[Any], convex: bool) -> Any:
    """The paper's update: lambda <- [lambda - step grad]_+ with a fixed step, starting from one."""
    weights = _initial_weights(settings, problem.geometry.size)
    point = problem.at(np.ones(problem.geometry.size) if weights is None else weights, beta, None)
    for _ in range(settings.max_iterations or 2000):
        yield dual_newton.Progress(point, beta, 0.0, "gradient")
        if dual_newton.kkt_residual(point.weights, point.gradient) <= settings.tolerance:
            return
        point = problem.at(np.maximum(point.weights - settings.step_size * point.gradient, 0.0), beta, point)


def _unfinished(point: Any, problem: _Problem, settings: Options) -> bool:
    return not certificates.is_optimal(point.weights, point.gradient, point.value, problem.limit, settings.tolerance)


def _solution(
    problem: _Problem,
    point: Any,
    target: np.ndarray,
    slack: np.ndarray,
    beta: float,
    objective: str,
    method: str,
    trajectories: list[tuple[np.ndarray, np.ndarray]] | None,
    proof: list[feasibility.Diagnosis],
    history: list[dict[str, float]],
    settings: Options,
) -> Solution:
    geometry, mdp = problem.geometry, problem.geometry.mdp
    if proof:
        diagnosis = feasibility.with_advice(proof[0], mdp, geometry.features, target, slack, trajectories)
        shape = mdp.rewards.shape if mdp.horizon is None else (mdp.horizon, *mdp.rewards.shape)
        nothing = np.full(geometry.size, np.nan)
        return Solution(
            policy=np.full(shape, np.nan),
            weights=nothing,
            cost=np.full(mdp.rewards.shape, np.nan),
            moments=nothing.copy(),
            expert_moments=target,
            status="infeasible",
            certificate=certificates.of_infeasible(diagnosis, beta, objective),
            beta=beta,
            budget=slack,
            objective=objective,
            features=geometry.features,
            diagnosis=diagnosis,
            history=history,
        )
    weights = np.where(geometry.irrelevant, 0.0, point.weights)
    if not np.array_equal(weights, point.weights) or point.beta != beta:
        point = problem.at(weights, beta, point)
    done = not _unfinished(point, problem, settings)
    certificate = certificates.of_point(
        mdp, geometry.features, weights, beta, target, slack, objective, point, converged=done
    )
    return Solution(
        policy=point.plan.policy,
        weights=weights,
        cost=(geometry.features @ weights).reshape(mdp.rewards.shape),
        moments=point.moments,
        expert_moments=target,
        status=certificate.status,
        certificate=certificate,
        beta=beta,
        budget=slack,
        objective=objective,
        features=geometry.features,
        history=history,
    )


def _pose(
    geometry: _Geometry,
    expert_moments: Any,
    trajectories: list[tuple[np.ndarray, np.ndarray]] | None,
    slack: np.ndarray,
    beta: float,
    objective: str,
    settings: Options,
) -> tuple[_Problem, np.ndarray]:
    """The problem to minimise, and the expert's moments."""
    mdp = geometry.mdp
    if objective != "moments" and trajectories is None:
        raise UserError(f'objective="{objective}" needs demonstrations, not only expert_moments')
    if expert_moments is not None and trajectories is not None:
        raise UserError("give expert_moments or demonstrations, not both")
    if trajectories is None:
        if expert_moments is None:
            raise UserError("give expert_moments or demonstrations: there is nothing to learn from")
        target = _finite_array("expert_moments", expert_moments, (geometry.size,))
        return MomentsDual(geometry, target + slack), target
    if objective == "plugin":
        policy = estimated_policy(mdp, trajectories, beta, _positive("pseudo_count", settings.pseudo_count))
        target = geometry.transposed @ _sum_over_time(response(mdp, policy).occupancy()).ravel()
        return MomentsDual(geometry, target + slack), target
    counts = discounted_counts(mdp, trajectories)
    target = geometry.transposed @ _sum_over_time(counts).ravel()
    if objective == "likelihood":
        if settings.l1 < 0:
            raise UserError(f"l1 must be >= 0, not {settings.l1}")
        return CausalLikelihood(geometry, slack + settings.l1, counts), target
    return MomentsDual(geometry, target + slack), target


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if not np.isfinite(value) or value <= 0:
        raise UserError(f"{name} must be a positive number, not {value}")
    return float(value)


def _checked_budget(budget: Any, size: int) -> np.ndarray:
    array = _finite_array("budget", budget)
    if array.ndim == 0:
        array = np.full(size, float(array))
    if array.shape != (size,):
        raise UserError(f"budget has shape {array.shape}, expected a number or ({size},), one entry a feature")
    if (array < 0).any():
        raise UserError(
            f"budget must be >= 0 (it loosens the constraint); entry {int(np.argmin(array))} is {array.min():.6g}"
        )
    return array


def _initial_weights(settings: Options, size: int) -> np.ndarray | None:
    if settings.initial_weights is None:
        return None
    weights = _finite_array("initial_weights", settings.initial_weights, (size,))
    if (weights < 0).any():
        raise UserError("initial_weights must be >= 0")
    return weights
