"""Scripted drivers, to measure the task with: (observations (N, 74), generator) -> actions (N, 2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.envs.traffic.geometry import MAX_ACCELERATION
from tacit.envs.traffic.observation import FEATURES, REMAINING
from tacit.envs.traffic.recording import DT

Driver = Callable[[np.ndarray, np.random.Generator], np.ndarray]
_TO_GOAL, _LATERAL = FEATURES.index("path_to_goal"), FEATURES.index("distance_goal_lat")
SLACK = 25


def coast(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Do nothing."""
    return np.zeros((len(obs), 2))


def to_goal(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Proportional and derivative control towards the goal, at the speed that gets there when the recorded car did."""
    time = (obs[:, REMAINING] - SLACK) * DT
    # In the last second the speed is kept: braking for a goal that is two metres away would miss it.
    along = np.where(time > 1.0, 2.0 * (obs[:, _TO_GOAL] / np.maximum(time, 1.0) - obs[:, 6]), 0.0)
    # Some way into the goal, not only to its border.
    across = 0.6 * (obs[:, _LATERAL] + 0.7 * np.sign(obs[:, _LATERAL])) - 1.5 * obs[:, 7]
    return np.clip(np.stack([along, across], axis=1) / MAX_ACCELERATION, -1.0, 1.0)


def uniform(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random actions."""
    return rng.uniform(-1.0, 1.0, (len(obs), 2))


def throttle(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Half throttle, straight on."""
    return np.tile([0.5, 0.0], (len(obs), 1))


def full_throttle(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Full throttle, straight on."""
    return np.tile([1.0, 0.0], (len(obs), 1))


DRIVERS: dict[str, Driver] = {
    "coast": coast,
    "to-goal": to_goal,
    "random": uniform,
    "throttle": throttle,
    "full-throttle": full_throttle,
}
