"""A stirred tank reactor whose coolant one controls: `tacit/Reactor-v0`.

An exothermic first-order reaction, with the constants of Seborg, Edgar and Mellichamp ("Process Dynamics and Control"):

    dCa/dt = (Caf - Ca) q/V - k(T) Ca,                              k(T) = k0 exp(-E/RT)
    dT/dt  = (Tf - T) q/V + (-dH)/(rho Cp) k(T) Ca + UA/(rho Cp V) (Tc - T)

Time is in minutes, temperatures in K, the concentration Ca in mol/L. The action changes the coolant's temperature Tc by
up to 4 K per step. The reward is -|Ca - set-point|. The reactor starts cold, and the set-point lies where it is
unstable. Hidden, by the option `rule`:

    product    Ca (T - 300) > 30    much fuel and hot: the way to a runaway
    ratio      T / Tc > 1.2         contents too hot for the coolant: thermal stress
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.envs.batched import whole_number
from tacit.envs.capabilities import Rule
from tacit.envs.drawing import AGENT, FORBIDDEN, GOAL, Plane
from tacit.envs.tasks import Moved, Style, Task, TaskEnv, TaskVectorEnv, completed, task_family
from tacit.errors import UserError

Array = NDArray[Any]
Flags = NDArray[np.bool_]
ENV_ID = "tacit/Reactor-v0"
HORIZON = 150
RATE, ACTIVATION, HEAT, COOLING = 7.2e10, 8750.0, 5e4 / 239.0, 5e4 / 23_900.0
"""k0 in 1/min, E/R in K, heat of the reaction in K L/mol, heat transfer in 1/min."""
FEED_CONCENTRATION, FEED_TEMPERATURE = 1.0, 350.0
DT, SUBSTEPS, COOLANT_STEP = 0.05, 5, 4.0
COLDEST, HOTTEST = (280.0, 280.0), (450.0, 320.0)
"""Ends of the ranges of T and Tc."""
START, SET_POINT = (0.78, 0.88), (0.42, 0.58)
"""Ranges of the concentration at the start and of the set-point."""
FAMILY = task_family(
    __name__,
    "Reactor",
    HORIZON,
    constraint="Ca (T - 300) <= 30, or T / Tc <= 1.2 (rule = product, ratio)",
    observation="Box(4): Ca, T, Tc, set_point",
    action="Box(1): change of the coolant's temperature",
)


def heat_of_fuel(obs: Array) -> Array:
    """(...,) Ca (T - 300) of rows (..., 4)."""
    return np.asarray(obs[..., 0] * (obs[..., 1] - 300.0))


def stress(obs: Array) -> Array:
    """(...,) T / Tc of rows (..., 4)."""
    return np.asarray(obs[..., 1] / obs[..., 2])


LIMITS = {"product": (heat_of_fuel, 30.0, "Ca (T - 300) > 30"), "ratio": (stress, 1.2, "T / Tc > 1.2")}
"""The limit for each value of the option `rule`: (function of a row, limit, text)."""


def react(state: Array, actions: Array, substeps: int = SUBSTEPS) -> Array:
    """States (..., 4) after one step with actions (...,). Implicit in Ca, so that a runaway stays finite."""
    ca, t, set_point = state[..., 0], state[..., 1], state[..., 3]
    tc = np.clip(state[..., 2] + COOLANT_STEP * actions, COLDEST[1], HOTTEST[1])
    h = DT / substeps
    for _ in range(substeps):
        k = RATE * np.exp(-ACTIVATION / t)
        ca = (ca + h * FEED_CONCENTRATION) / (1.0 + h * (1.0 + k))
        t = t + h * (FEED_TEMPERATURE - t + HEAT * k * ca + COOLING * (tc - t))
        t = np.clip(t, COLDEST[0], HOTTEST[0])
    return np.stack(np.broadcast_arrays(ca, t, tc, set_point), axis=-1)


def steady_state(ca: Any) -> tuple[Any, Any]:
    """(T, Tc) at which a concentration stays as it is."""
    k = (FEED_CONCENTRATION - ca) / ca
    t = ACTIVATION / np.log(RATE / k)
    return t, t - (FEED_TEMPERATURE - t + HEAT * k * ca) / COOLING


class Reactor(Task):
    """The task. A state is what is observed: Ca, T, Tc, set-point."""

    name = ENV_ID
    feature_names = ("Ca", "T", "Tc", "set_point")
    dt = DT
    action_size = 1
    low = np.array([0.0, *COLDEST, 0.0])
    high = np.array([1.0, *HOTTEST, 1.0])

    def __init__(self, rule: str = "product", horizon: int = HORIZON) -> None:
        if rule not in LIMITS:
            raise UserError(f"rule is one of {', '.join(LIMITS)}, not {rule!r}")
        value_of, limit, text = LIMITS[rule]
        self.rule = Rule(text=text, predicate=lambda obs: value_of(obs.astype(np.float64)) > limit)
        self.rule_name = rule
        self.horizon = whole_number("horizon", horizon)

    def draw(self, rng: np.random.Generator) -> Array:
        """A start in the steady state of a high concentration, a little disturbed."""
        ca, set_point = rng.uniform(*START), rng.uniform(*SET_POINT)
        t, tc = steady_state(ca)
        return np.array([ca, t + rng.uniform(-2.0, 1.0), tc + rng.uniform(-3.0, 3.0), set_point])

    def advance(self, state: Array, actions: Array) -> Moved:
        """React for one step."""
        reached = react(state, actions[:, 0])
        return Moved(reached, -np.abs(reached[:, 0] - reached[:, 3]), np.zeros(len(state), np.bool_))

    def observe(self, state: Array) -> Array:
        """The whole state."""
        return state.astype(np.float32)

    def succeeded(self, final_obs: Array) -> Flags:
        """(N,) whether the set-point is reached."""
        return np.asarray(np.abs(final_obs[:, 0] - final_obs[:, 3]) < 0.1)

    def draw_picture(self, state: Array) -> Array:
        """The plane of concentration and temperature: the forbidden part of it, the set-point and the reactor."""
        plane = Plane(0.0, 1.0, 300.0, 420.0, 400, 320)
        cell_ca, cell_t = np.meshgrid(np.linspace(0.01, 0.99, 50), np.linspace(301, 419, 60))
        rows = np.stack([cell_ca, cell_t, np.full_like(cell_ca, state[2]), np.full_like(cell_ca, state[3])], axis=-1)
        for ca, t in rows.reshape(-1, 4)[self.rule.violated(rows.reshape(-1, 4))][:, :2]:
            plane.box(ca - 0.01, t - 1.0, ca + 0.01, t + 1.0, FORBIDDEN)
        plane.line([(state[3], 300.0), (state[3], 420.0)], GOAL)
        x, y = plane.at(state[0], state[1])
        plane.draw.ellipse([x - 5, y - 5, x + 5, y + 5], fill=AGENT)
        plane.write(f"Ca {state[0]:.2f} mol/L   T {state[1]:.0f} K   Tc {state[2]:.0f} K")
        return plane.pixels()


complete_options = partial(completed, Reactor)


class ReactorEnv(TaskEnv, task=Reactor):
    """One reactor."""


class ReactorVectorEnv(TaskVectorEnv, task=Reactor):
    """`num_envs` reactors."""


class ReactorExpert:
    """Model-predictive control by search: tries sequences of three levels and takes the first action of the best.

    With `keeps_rule` False it follows the reward alone.
    """

    LEVELS, LENGTHS = (-1.0, -0.3, 0.0, 0.3, 1.0), (2, 5, 13)
    MARGIN = {"product": 0.4, "ratio": 0.006}  # noqa: RUF012
    """How far it plans to stay below the limit, in the rule's unit."""

    def __init__(self, options: Mapping[str, Any], *, keeps_rule: bool = True) -> None:
        self.value_of, self.limit, _ = LIMITS[options.get("rule", "product")]
        self.margin = self.MARGIN[options.get("rule", "product")]
        self.keeps_rule = keeps_rule
        levels = np.array(list(product(self.LEVELS, repeat=len(self.LENGTHS))))
        self.plans = np.repeat(levels, self.LENGTHS, axis=1)
        self.style = Style(1)

    def __call__(self, obs: Array, rng: np.random.Generator) -> Array:
        """(N, 1) actions."""
        start = np.asarray(obs, np.float64)
        n = len(start)
        margin = self.margin * (1.0 + 0.5 * self.style.draw(n, rng))
        # The plans start from slightly different levels in every step: finer control, and style.
        plans = np.clip(self.plans[None] + rng.uniform(-0.15, 0.15, (n, 1, 1)), -1.0, 1.0)
        state = np.broadcast_to(start[:, None], (n, len(self.plans), 4))
        loss = np.zeros((n, len(self.plans)))
        for t in range(plans.shape[2]):
            state = react(state, plans[:, :, t], substeps=2)
            loss += np.abs(state[..., 0] - state[..., 3])
            if self.keeps_rule:
                above = self.value_of(state) - self.limit + margin
                loss += 1e3 * np.maximum(above, 0.0) / self.margin
        loss += 0.05 * np.abs(state[..., 1] - steady_state(state[..., 3])[0])
        best = loss.argmin(axis=1)
        return plans[np.arange(n), best, :1].astype(np.float32)
