"""Update rules for the multiplier of a constraint E[cost] <= budget. Pure functions of numbers.

With  error = cost - budget:

    ascent     lam <- [lam + lr error]_+                                              projected gradient ascent
    growth     lam <- lam e^(lr min(error, 1))                                        needs no scale of its own
    softplus   lam = log(1 + e^u),  one Adam step on u along the gradient of lam error
    pid        lam <- [Kp e + Ki I + Kd D]_+,   I <- [I + error]_+,   D = [change of the smoothed error]_+

With a budget of 0 the error is never negative, and `ascent`, `growth` and `softplus` can only grow; with a positive
budget they come down again when the cost is below it, and `pid` does so in any case, as its proportional part is not a
sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Multiplier:
    """The multiplier and the memory of its update rule."""

    value: float
    raw: float = 0.0
    """The variable u of `softplus`."""
    mean: float = 0.0
    square: float = 0.0
    steps: int = 0
    """Moments and step count of Adam for `softplus`."""
    integral: float = 0.0
    smooth: float = 0.0
    """The integral I and the smoothed error of `pid`."""


def start(value: float, ki: float = 0.0) -> Multiplier:
    """A multiplier with this value; for `pid`, its integral part has this value."""
    raw = value + math.log(-math.expm1(-value)) if value > 0 else -math.inf  # inverse of softplus
    return Multiplier(value, raw=raw, integral=value / ki if ki > 0 else 0.0)


def ascent(state: Multiplier, error: float, lr: float, maximum: float = math.inf) -> Multiplier:
    return replace(state, value=min(max(0.0, state.value + lr * error), maximum))


def growth(state: Multiplier, error: float, lr: float, maximum: float = math.inf) -> Multiplier:
    return replace(state, value=min(state.value * math.exp(lr * min(error, 1.0)), maximum))


def softplus(state: Multiplier, error: float, lr: float, maximum: float = math.inf) -> Multiplier:
    """One step of Adam (0.9, 0.999, 1e-8)."""
    u, t = state.raw, state.steps + 1
    gradient = -error / (1.0 + math.exp(-u)) if u > -700 else 0.0
    mean = 0.9 * state.mean + 0.1 * gradient
    square = 0.999 * state.square + 0.001 * gradient**2
    u -= lr * (mean / (1 - 0.9**t)) / (math.sqrt(square / (1 - 0.999**t)) + 1e-8)
    value = max(u, 0.0) + math.log1p(math.exp(-abs(u)))
    if value > maximum:
        value, u = maximum, start(maximum).raw
    return replace(state, value=value, raw=u, mean=mean, square=square, steps=t)


def pid(
    state: Multiplier,
    error: float,
    gains: tuple[float, float, float],
    smoothing: float = 0.0,
    maximum: float = math.inf,
) -> Multiplier:
    """The PID rule. `smoothing` is the weight of the past in the exponential average that the P and D parts see."""
    kp, ki, kd = gains
    smooth = smoothing * state.smooth + (1.0 - smoothing) * error if state.steps else error
    slope = max(0.0, smooth - state.smooth) if state.steps else 0.0
    integral = max(0.0, state.integral + error)
    if ki > 0:
        integral = min(integral, maximum / ki)  # prevents wind-up
    value = min(max(0.0, kp * smooth + ki * integral + kd * slope), maximum)
    return replace(state, value=value, integral=integral, smooth=smooth, steps=state.steps + 1)
