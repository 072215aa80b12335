"""A road with a stretch where one must drive slowly: `tacit/SlowZone-v0`.

The car has a position x, in m, and a speed v of at most 2 m/s. The action is its acceleration. The reward is the
distance covered. Hidden: v must not be above 0.5 m/s where 2 < x < 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.envs.batched import whole_number
from tacit.envs.capabilities import Rule
from tacit.envs.drawing import AGENT, FORBIDDEN, GREY, Plane
from tacit.envs.tasks import Moved, Style, Task, TaskEnv, TaskVectorEnv, completed, task_family

Array = NDArray[Any]
Flags = NDArray[np.bool_]
ENV_ID = "tacit/SlowZone-v0"
HORIZON = 100
ZONE, LIMIT = (2.0, 4.0), 0.5
TOP_SPEED, ACCELERATION, DT = 2.0, 2.0, 0.1
FAMILY = task_family(
    __name__,
    "SlowZone",
    HORIZON,
    constraint="v <= 0.5 where 2 < x < 4",
    observation="Box(2): x, v",
    action="Box(1): acceleration",
)


def too_fast(obs: Array) -> Flags:
    """(n,) which observations (n, 2) are in the zone and above its limit."""
    x, v = obs[:, 0], obs[:, 1]
    return np.asarray((x > ZONE[0]) & (x < ZONE[1]) & (v > LIMIT))


class SlowZone(Task):
    """The task. A state is what is observed: x, v."""

    name = ENV_ID
    feature_names = ("x", "v")
    rule = Rule(text="v > 0.5 where 2 < x < 4", predicate=too_fast)
    dt = DT
    action_size = 1
    low = np.zeros(2)

    def __init__(self, horizon: int = HORIZON) -> None:
        self.horizon = whole_number("horizon", horizon)
        self.high = np.array([1.0 + self.horizon * DT * TOP_SPEED, TOP_SPEED])

    def draw(self, rng: np.random.Generator) -> Array:
        """A start before the zone, at a speed from which one can still brake."""
        return rng.uniform([0.0, 0.0], [1.0, 1.0])

    def advance(self, state: Array, actions: Array) -> Moved:
        """Drive on. Speeds are never negative."""
        v = np.clip(state[:, 1] + DT * ACCELERATION * actions[:, 0], 0.0, TOP_SPEED)
        reached = np.stack([state[:, 0] + DT * v, v], axis=1)
        return Moved(reached, DT * v, np.zeros(len(state), np.bool_))

    def observe(self, state: Array) -> Array:
        """The whole state."""
        return state.astype(np.float32)

    def succeeded(self, final_obs: Array) -> Flags:
        """(N,) whether the zone is passed."""
        return np.asarray(final_obs[:, 0] > ZONE[1])

    def draw_picture(self, state: Array) -> Array:
        """The plane of x and v: the forbidden part of it, and the car."""
        plane = Plane(0.0, 12.0, -0.2, TOP_SPEED + 0.2, 480, 160)
        plane.box(ZONE[0], LIMIT, ZONE[1], TOP_SPEED + 0.2, FORBIDDEN)
        plane.line([(0.0, 0.0), (12.0, 0.0)], GREY)
        x, y = plane.at(min(state[0], 12.0), state[1])
        plane.draw.ellipse([x - 5, y - 5, x + 5, y + 5], fill=AGENT)
        plane.write(f"x {state[0]:.2f} m   v {state[1]:.2f} m/s")
        return plane.pixels()


complete_options = partial(completed, SlowZone)


class SlowZoneEnv(TaskEnv, task=SlowZone):
    """One car."""


class SlowZoneVectorEnv(TaskVectorEnv, task=SlowZone):
    """`num_envs` cars."""


class SlowZoneExpert:
    """Drives near the top speed, brakes before the zone, and passes it a little below its limit."""

    BRAKING = 0.8 * ACCELERATION
    """Deceleration that it plans with, in m/s^2."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.style = Style(2)

    def __call__(self, obs: Array, rng: np.random.Generator) -> Array:
        """(N, 1) actions."""
        x, v = np.asarray(obs, np.float64).T
        style = self.style.draw(len(x), rng)
        cruise, slow = TOP_SPEED * (0.96 + 0.04 * style[:, 0]), LIMIT * (0.95 + 0.04 * style[:, 1])
        # After this step the car is at most DT * v + DT * ACCELERATION * DT further, and must still be able to brake.
        room = np.maximum(ZONE[0] - x - DT * np.minimum(v + DT * ACCELERATION, TOP_SPEED), 0.0)
        wanted = np.minimum(cruise, np.sqrt(slow**2 + 2 * self.BRAKING * room))
        # Where the next step at the slow speed still ends inside, it is still slow.
        wanted = np.where((x > ZONE[0]) & (x + DT * slow < ZONE[1] + 0.01), slow, wanted)
        beyond = x + DT * slow >= ZONE[1] + 0.01
        wanted = np.where(beyond, cruise, wanted)
        action = (wanted - v) / (DT * ACCELERATION)
        noise = 0.02 * np.abs(rng.normal(size=len(x)))  # never faster than wanted
        return np.clip(action - noise, -1.0, 1.0)[:, None].astype(np.float32)
