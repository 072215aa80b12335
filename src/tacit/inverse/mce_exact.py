"""Maximum causal entropy inverse constrained RL, exactly, on finite MDPs (the paper's sections 3.1 to 3.3).

    (P)   max_pi  J(pi) + beta H(pi)     subject to    mu_pi <= mu_D + budget
    (D)   min_{lambda >= 0}  g(lambda) = nu0 . V_lambda + lambda . (mu_D + budget)              (eq. dual)
          grad g = mu_D + budget - mu_{pi_lambda}                                            (eq. lag_lambda)
          Hess g = (1/beta) sum_s d(s) Cov_{a ~ pi(.|s)}[M(s,a)],   M = phi + gamma P E_pi M

V_lambda and pi_lambda come from soft policy iteration on the reward R - lambda.phi. The inequality is the paper's with
its sign put right: a positive budget loosens (docs/claims.md#errata).

Objectives: "moments" is (D) with empirical mu_D; "plugin" is (D) with the moments of an estimated expert policy under
the known dynamics; "likelihood" minimises -(beta/N) sum_t gamma^t log pi_lambda(a_t|s_t) + (l1 + budget).lambda,
the causally conditioned likelihood, which the luck of the dynamics does not enter.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.errors import UserError
from tacit.forward.soft_policy_iteration import response
from tacit.inverse import certificate as certificates
from tacit.inverse import dual_newton, feasibility
from tacit.inverse.exact_objectives import CausalLikelihood, Geometry, MomentsDual, Problem, sum_over_time
from tacit.inverse.trajectories import Trajectories, check_demonstrations, discounted_counts, estimated_policy
from tacit.tabular import MDP, Solution, _finite_array, feature_matrix

OBJECTIVES = ("moments", "likelihood", "plugin")
METHODS = ("newton", "gradient")
OUT_OF_PROPORTION = 1e-12
SMALLEST_MOMENT = 1e-6  # of a feature of size one: limits below this are as good as zero
Steps = Iterator[dual_newton.Progress]


@dataclass(frozen=True)
class Options:
    """Further options of `solve`."""

    tolerance: float = 1e-9
    """KKT residual at which the solver stops."""
    max_iterations: int | None = None
    """Outer iterations; default 500 (newton), 2000 (gradient)."""
    step_size: float = 0.05
    """Fixed step of method="gradient"."""
    initial_weights: Any = None
    """(k,) initial weights; default 1 for method="gradient", as in the paper."""
    l1: float = 1e-4
    """L1 term of objective="likelihood", in units of discounted occupancy like the budget."""
    pseudo_count: float = 0.1
    """For objective="plugin": visits of the unconstrained policy that are added to each state's action counts."""

    def __post_init__(self) -> None:
        for name in ("tolerance", "step_size", "pseudo_count"):
            positive(name, getattr(self, name))
        positive("l1", self.l1, or_zero=True)
        if self.max_iterations is not None:
            if isinstance(self.max_iterations, bool) or not isinstance(self.max_iterations, (int, np.integer)):
                raise TypeError(f"max_iterations must be a whole number, not {self.max_iterations!r}")
            positive("max_iterations", self.max_iterations)


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
    beta = positive("beta", beta)
    unknown = [name for name in options if name not in Options.__annotations__]
    if unknown:
        raise TypeError(f"solve has no option {unknown[0]!r}; options are {', '.join(Options.__annotations__)}")
    settings = Options(**options)
    matrix = feature_matrix(mdp, features)
    geometry = Geometry(mdp, matrix)
    _check_proportion(beta, geometry)
    slack = _checked_budget(budget, geometry.size)
    trajectories = None if demonstrations is None else check_demonstrations(mdp, demonstrations)
    problem, target = pose(geometry, expert_moments, trajectories, slack, beta, objective, settings)

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
            "phase": phase,
        }
        history.append(entry)
        return entry

    diagnosis = None
    convex = objective != "likelihood"
    if convex:
        diagnosis = feasibility.decide_at_once(mdp, matrix, problem.limit)
    point: Any = None
    steps = _newton_steps if method == "newton" else _gradient_steps
    proof: list[feasibility.Diagnosis] = [diagnosis] if diagnosis is not None else []
    if not proof:
        for progress in steps(problem, beta, settings, proof, convex):
            point = progress.point
            yield point.weights, record(point, progress.beta, progress.phase)
        if convex and not proof and _unfinished(point, problem, settings) and point.beta == beta:
            undecided = feasibility.farkas_proof(mdp, matrix, problem.limit, point.weights)
            undecided = undecided or feasibility.decide(mdp, matrix, problem.limit)
            proof.extend([undecided] if undecided is not None else [])
    return _solution(problem, point, target, slack, beta, objective, trajectories, proof, history, settings)


def _newton_steps(problem: Problem, beta: float, settings: Options, proof: list[Any], convex: bool) -> Steps:
    geometry = problem.geometry
    unit = geometry.reward_unit(beta)
    relevant = ~geometry.irrelevant
    scaled = dual_newton.Scaled(problem, unit, unit / geometry.feature_units, relevant)
    limit = problem.limit / geometry.feature_units
    positive = limit[relevant & (limit > 0)]
    # A low quantile: the barrier must not dwarf the tightest budgets.
    moment_scale = max(float(np.quantile(positive, 0.1)), 1e-4 * float(positive.mean())) if len(positive) else 1e-3
    moment_scale = max(moment_scale, SMALLEST_MOMENT)
    start = _initial_weights(settings, geometry.size)
    schedule = dual_newton.Schedule(
        beta=beta / unit,
        moment_scale=moment_scale,
        tolerance=settings.tolerance,
        max_iterations=settings.max_iterations or 500,
        initial_weights=None if start is None else (start / scaled.units)[relevant],
    )

    suspicious = 10.0

    def give_up(point: Any) -> bool:
        """Test whether weights far beyond any reward prove that the dual is unbounded."""
        nonlocal suspicious
        largest = point.weights.max(initial=0.0)
        if not convex or largest < suspicious or point.gradient.min() > -settings.tolerance:
            return False
        suspicious = 2 * largest  # the test is a hard planning problem: not at every step
        ray = point.original.weights
        diagnosis = feasibility.farkas_proof(geometry.mdp, geometry.features, problem.limit, ray)
        proof.extend([diagnosis] if diagnosis is not None else [])
        return diagnosis is not None

    for progress in dual_newton.minimise(scaled, int(relevant.sum()), schedule, give_up):
        yield replace(progress, point=progress.point.original, beta=progress.point.original.beta)


def _gradient_steps(problem: Problem, beta: float, settings: Options, proof: list[Any], convex: bool) -> Steps:
    """The paper's update: lambda <- [lambda - step grad]_+ with a fixed step, starting from one."""
    weights = _initial_weights(settings, problem.geometry.size)
    point = problem.at(np.ones(problem.geometry.size) if weights is None else weights, beta, None)
    for _ in range(settings.max_iterations or 2000):
        yield dual_newton.Progress(point, beta, 0.0, "gradient")
        if dual_newton.kkt_residual(point.weights, point.gradient) <= settings.tolerance:
            return
        point = problem.at(np.maximum(point.weights - settings.step_size * point.gradient, 0.0), beta, point)


def _unfinished(point: Any, problem: Problem, settings: Options) -> bool:
    return not certificates.is_optimal(problem, point, settings.tolerance)


def _solution(
    problem: Problem,
    point: Any,
    target: np.ndarray,
    slack: np.ndarray,
    beta: float,
    objective: str,
    trajectories: Trajectories | None,
    proof: list[feasibility.Diagnosis],
    history: list[dict[str, float]],
    settings: Options,
) -> Solution:
    geometry, mdp = problem.geometry, problem.geometry.mdp
    if proof:
        reached = None if point is None else point.moments
        diagnosis = feasibility.with_advice(proof[0], mdp, geometry.features, target, slack, trajectories, reached)
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
    certificate = certificates.of_point(mdp, point, target, slack, objective, converged=done)
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


def pose(
    geometry: Geometry,
    expert_moments: Any,
    trajectories: Trajectories | None,
    slack: np.ndarray,
    beta: float,
    objective: str,
    settings: Options,
) -> tuple[Problem, np.ndarray]:
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
        policy = estimated_policy(mdp, trajectories, beta, settings.pseudo_count)
        target = geometry.transposed @ sum_over_time(response(mdp, policy).occupancy()).ravel()
        return MomentsDual(geometry, target + slack), target
    counts = discounted_counts(mdp, trajectories)
    target = geometry.transposed @ sum_over_time(counts).ravel()
    if objective == "likelihood":
        return CausalLikelihood(geometry, slack + settings.l1, counts), target
    return MomentsDual(geometry, target + slack), target


def positive(name: str, value: Any, or_zero: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if not np.isfinite(value) or value < 0 or (value == 0 and not or_zero):
        raise UserError(f"{name} must be {'>= 0 and finite' if or_zero else 'a positive number'}, not {value}")
    return float(value)


def _check_proportion(beta: float, geometry: Geometry) -> None:
    """Refuse a beta twelve orders of magnitude away from the rewards: rounding would decide the result."""
    at_stake = geometry.reward_range
    if at_stake > 0 and not OUT_OF_PROPORTION * at_stake <= beta <= at_stake / OUT_OF_PROPORTION:
        raise UserError(
            f"beta = {beta:g} is out of proportion to the rewards, which differ by {at_stake:g}: "
            "it is in units of reward, and 1e-5 to 1 times that difference is usual"
        )


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
