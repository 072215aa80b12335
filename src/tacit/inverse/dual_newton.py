"""A primal-dual barrier Newton method for  min g(lambda)  subject to  lambda >= 0.

g is the dual function of the exact method (convex), or the causal likelihood (not convex; its Fisher matrix stands in
for the Hessian). With slacks w for the gradient, the barrier path is  grad g + tau = w,  lambda_i w_i = tau,  tau -> 0.
Each iteration plans exactly for the current weights, takes one Newton step on the path and a line search. All of this
happens in the problem's own units (`Scaled`), so that it does not matter in what the user counts rewards and features.

Three devices make it reliable where projected Newton from zero is not:
* grad g + tau: the budget is loosened in proportion to tau, so that the path stays bounded even when the problem has no
  interior (budget 0 on deterministic dynamics, where some multipliers are infinite);
* continuation in the entropy coefficient: the dual is nearly piecewise linear at small beta;
* a final active-set phase that sets inactive multipliers to exactly zero and brings the KKT residual to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

STEP_TO_BOUNDARY = 0.99
ARMIJO = 1e-4
TAU_RATIO, TAU_POWER = 0.2, 1.5
CONTINUATION = 0.25
STAGE = 60  # iterations at each beta above the last
PATIENCE = 4  # Newton's method needs no more once values no longer change


class Point(Protocol):
    """The objective at one weight vector. Gradient and Newton system are computed on first use."""

    weights: np.ndarray
    value: float

    @property
    def gradient(self) -> np.ndarray: ...
    def newton_solve(self, diagonal: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """Solve (Hessian + diag(diagonal)) x = rhs."""
        ...


class Objective(Protocol):
    def at(self, weights: np.ndarray, beta: float, near: Point | None) -> Point: ...


@dataclass(frozen=True)
class Schedule:
    """Parameters of the minimisation and its stopping rule, in the units of `Scaled`."""

    beta: float
    moment_scale: float
    """Typical size of a (small) moment."""
    tolerance: float = 1e-9
    max_iterations: int = 500
    initial_weights: np.ndarray | None = None

    def betas(self) -> list[float]:
        """Decreasing values of beta, from one where Newton always works down to the requested one."""
        path = [self.beta]
        while path[0] < 0.05:
            path.insert(0, path[0] / CONTINUATION)
        return path


@dataclass
class Progress:
    """The result of an iteration of `minimise`."""

    point: Any
    beta: float
    tau: float
    phase: str
    extra: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Scaled:
    """The objective in units where rewards and features have size one, without irrelevant features."""

    objective: Objective
    unit: float
    """Unit of reward."""
    units: np.ndarray
    """(k,) units of the weights: reward over feature."""
    relevant: np.ndarray
    """(k,) booleans. The other features are zero wherever policies can go, and keep weight zero."""

    def at(self, weights: np.ndarray, beta: float, near: Any) -> ScaledPoint:
        full = np.zeros(len(self.units))
        full[self.relevant] = weights * self.units[self.relevant]
        return ScaledPoint(self, self.objective.at(full, beta * self.unit, None if near is None else near.original))


class ScaledPoint:
    def __init__(self, scaling: Scaled, original: Point) -> None:
        self._scaling, self.original = scaling, original
        self._units = scaling.units[scaling.relevant]
        self.weights = original.weights[scaling.relevant] / self._units
        self.value = original.value / scaling.unit

    @property
    def gradient(self) -> np.ndarray:
        return self.original.gradient[self._scaling.relevant] * self._units / self._scaling.unit

    def newton_solve(self, diagonal: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        relevant, unit = self._scaling.relevant, self._scaling.unit
        full_diagonal, full_rhs = np.full(len(relevant), np.inf), np.zeros(len(relevant))
        full_diagonal[relevant] = diagonal * unit / self._units**2
        full_rhs[relevant] = rhs * unit / self._units
        return self.original.newton_solve(full_diagonal, full_rhs)[relevant] / self._units


def kkt_residual(weights: np.ndarray, gradient: np.ndarray) -> float:
    """max |lambda - [lambda - grad]_+|, zero exactly at a solution. Written as a minimum, it avoids cancellation."""
    return float(np.abs(np.minimum(weights, gradient)).max(initial=0.0))


def minimise(objective: Objective, size: int, schedule: Schedule, give_up: Callable[[Any], bool]) -> Iterator[Progress]:
    """Yield after every Newton step; the last yield is the answer. `give_up(point)` ends an unbounded problem."""
    tau = 0.1 * schedule.moment_scale
    floor = schedule.tolerance * 1e-2 * schedule.moment_scale
    if schedule.initial_weights is not None:
        weights = np.maximum(schedule.initial_weights, 1e-3)
    else:
        weights = np.full(size, 0.05)
    slack = tau / weights
    betas = schedule.betas()
    point: Point | None = None
    done = 0
    for beta in betas:
        last = beta == betas[-1]
        # Earlier stages only provide a start. They need not converge, and their barrier may be as coarse as beta.
        target = floor if last else max(floor, 0.1 * beta * schedule.moment_scale)
        until = schedule.max_iterations if last else min(schedule.max_iterations, done + STAGE)
        point = objective.at(weights, beta, point)
        idle = 0  # steps in a row that changed the objective by no more than rounding
        while done < until:
            yield Progress(point, beta, tau, "barrier")
            done += 1
            if give_up(point):
                return
            error = max(
                float(np.abs(point.gradient + tau - slack).max(initial=0.0)),
                float(np.abs(weights * slack - tau).max(initial=0.0)),
            )
            if last and kkt_residual(weights, point.gradient) <= schedule.tolerance:
                break
            if error <= 10 * tau or idle >= PATIENCE:
                if tau <= target:
                    break
                idle = 0
                unit = schedule.moment_scale
                tau = max(target, min(TAU_RATIO * tau, unit * (tau / unit) ** TAU_POWER))
            step = _barrier_step(objective, point, slack, tau, beta)
            if step is None or np.array_equal(step[0].weights, weights):
                idle = PATIENCE  # rounding: go on to the next tau
            else:
                idle = idle + 1 if step[2] else 0
                point, slack, _ = step
                weights = point.weights
    if point is not None:
        yield from _active_set(objective, point, slack, schedule, schedule.max_iterations - done)


def _barrier_step(
    objective: Objective, point: Point, slack: np.ndarray, tau: float, beta: float
) -> tuple[Point, np.ndarray, bool] | None:
    """The next point, its slacks, and whether the barrier function fell by no more than rounding."""
    weights = point.weights
    ratio = slack / weights
    slope = point.gradient + tau - tau / weights
    direction = point.newton_solve(ratio, -slope)
    slack_direction = tau / weights - slack - ratio * direction
    descent = float(slope @ direction)
    if not np.isfinite(descent) or descent >= 0:
        return None

    def merit(p: Point) -> float:
        return p.value + tau * float(p.weights.sum()) - tau * float(np.log(p.weights).sum())

    start = merit(point)
    rounding = 1e-13 * (abs(start) + abs(point.value))
    length = _to_boundary(weights, direction)
    for _ in range(60):
        trial = objective.at(weights + length * direction, beta, point)
        value = merit(trial)
        if value <= start + ARMIJO * length * descent + 0.1 * rounding:
            break
        # Near the solution, differences of values are mere rounding, but the slope along the step is still reliable.
        if value <= start + rounding:
            ahead = float((trial.gradient + tau - tau / trial.weights) @ direction)
            if abs(ahead) <= 0.9 * abs(descent):
                break
        length *= 0.5
    else:
        return None
    new_slack = slack + _to_boundary(slack, slack_direction) * slack_direction
    centred = tau / trial.weights
    return trial, np.clip(new_slack, centred * 1e-8, centred * 1e8), value >= start - rounding


def _to_boundary(position: np.ndarray, direction: np.ndarray) -> float:
    falling = direction < 0
    if not falling.any():
        return 1.0
    with np.errstate(over="ignore"):
        return min(1.0, STEP_TO_BOUNDARY * float((position[falling] / -direction[falling]).min()))


def _active_set(
    objective: Objective, point: Point, slack: np.ndarray, schedule: Schedule, budget: int
) -> Iterator[Progress]:
    """Newton steps on the positive multipliers, with the others at zero."""
    beta = schedule.beta

    def kkt(p: Point) -> float:
        return kkt_residual(p.weights, p.gradient)

    def error(p: Point) -> float:
        """The error that the residual hides where weight and gradient are both small: it takes the smaller one."""
        return max(float((-p.gradient).max(initial=0.0)), float(p.weights @ np.abs(p.gradient)))

    candidate = objective.at(np.where(point.weights < slack, 0.0, point.weights), beta, point)
    # Dropping the inactive multipliers may lose accuracy in a degenerate problem. A few steps recover it.
    best, since_best = point, 0
    for _ in range(max(1, min(30, budget))):
        enough = max(kkt(best), schedule.tolerance) if best is point else kkt(best)
        if kkt(candidate) <= enough and error(candidate) <= max(error(best), 10 * schedule.tolerance):
            best, since_best = candidate, 0
            yield Progress(candidate, beta, 0.0, "active set")
        else:
            since_best += 1
        if kkt(best) <= schedule.tolerance or since_best >= 6:
            break
        free = (candidate.weights > 0) | (candidate.gradient < 0)
        frozen = np.where(free, 0.0, np.inf)
        direction = candidate.newton_solve(frozen, np.where(free, -candidate.gradient, 0.0))
        if not np.isfinite(direction).all():
            break
        # If the Hessian is nearly singular (a multiplier should be infinite), the step is unreliable and is shortened.
        longest = float(np.abs(direction).max(initial=0.0))
        allowed = float(candidate.weights.max(initial=0.0)) + 1.0
        direction *= min(1.0, allowed / max(longest, 1e-300))
        candidate = objective.at(np.maximum(candidate.weights + direction, 0.0), beta, candidate)
        if not candidate.value <= point.value + 1e-6 * (1.0 + abs(point.value)):
            break
