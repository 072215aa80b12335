"""An environment and a cost that are simple enough to know the answers by hand."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from tacit.cost import Inputs, LearnedCost


class Line(gym.Env):
    """x moves by the action; episodes last `length` steps."""

    feature_names = ("y", "x")
    observation_space = gym.spaces.Box(-1e6, 1e6, (2,), np.float64)

    def __init__(self, discrete: bool = False, length: int = 5) -> None:
        self.length = length
        self.discrete = discrete
        self.action_space = gym.spaces.Discrete(3) if discrete else gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = 0.0, 0
        return self._obs(), {}

    def _obs(self):
        return np.array([7.0, self.x])

    def step(self, action):
        self.x += float(action) - 1.0 if self.discrete else float(np.asarray(action)[0])
        self.t += 1
        return self._obs(), 1.0, False, self.t >= self.length, {"cost": 9.0}


def rising(at: str = "next", act: bool = False, **fields) -> LearnedCost:
    """2 sigmoid(4 x - 4), of x alone, or 2 sigmoid(4 action - 4): half of the ceiling at 1."""
    names, columns = (("action[0]",), (1,)) if act else (("x",), (0,))
    inputs = Inputs(names, columns, 1, 1 if act else 0, np.zeros(1, np.float32), np.ones(1, np.float32), squash=False)
    arrays = (np.array([2.0], np.float32), np.array([[4.0]], np.float32), np.array([[-4.0]], np.float32))
    return LearnedCost(inputs, *arrays, at=at, **fields)


def expected(x) -> float:
    return 2.0 / (1.0 + np.exp(-(4.0 * np.asarray(x) - 4.0)))
