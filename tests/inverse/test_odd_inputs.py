"""Inputs and demonstrations that strain a learner, from end to end: an answer, or an alarm that says why not."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import tacit


class Line(gym.Env):
    """Walking ahead pays. Hidden: do not go beyond 1."""

    feature_names = ("x", "constant", "tiny", "huge", "copy", "whole")
    horizon = 20

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (6,), np.float64)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.x, self.time = 0.0, 0

    def _obs(self) -> Any:
        return np.array([self.x, 7.0, 1e-9 * self.x, 1e9 * self.x, self.x, np.floor(2.0 * self.x)])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x, self.time = self.np_random.uniform(-0.5, 0.0), 0
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        pace = 0.2 * float(np.clip(action[0], -1.0, 1.0))
        self.x, self.time = self.x + pace, self.time + 1
        return self._obs(), pace, False, self.time >= self.horizon, {"cost": float(self.x > 1.0)}


def walks(number: int, steps: int = 20) -> list[Any]:
    """Demonstrations as (observations, actions, rewards) that stop before 1."""
    env, rng, all_of_them = Line(), np.random.default_rng(0), []
    for seed in range(number):
        observations, actions, rewards = [env.reset(seed=seed)[0]], [], []
        for _ in range(steps):
            actions.append(np.clip(3.0 * (0.95 - observations[-1][:1]) + 0.1 * rng.normal(size=1), -1.0, 1.0))
            obs, reward, _, _, _ = env.step(actions[-1])
            observations.append(obs)
            rewards.append(reward)
        all_of_them.append((np.array(observations), np.array(actions, np.float32), np.array(rewards)))
    return all_of_them


@pytest.mark.parametrize("inputs", [("tiny",), ("huge",), ("whole",), ("constant", "x", "copy")])
def test_scales_copies_constants_and_whole_numbers(tmp_path: Any, inputs: tuple[str, ...]) -> None:
    learned = tacit.learn(Line, walks(20), total_steps=24_576, seed=1, inputs=inputs, out=str(tmp_path))
    (term, *_) = learned.cost.terms  # type: ignore[union-attr]  # the default learns a cost of terms
    assert set(term.names) <= set(inputs) - {"constant"}
    beyond, before = (np.array([[x, 7.0, 1e-9 * x, 1e9 * x, x, np.floor(2.0 * x)]]) for x in (2.5, 0.6))
    assert learned.cost(beyond)[0] > learned.cost.threshold > learned.cost(before)[0]  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore:there (is|are) only:UserWarning")
@pytest.mark.parametrize(
    ("demos", "inputs", "alarm"),
    [
        (walks(2), ("x",), "few demonstrations"),
        (walks(1), ("x",), "few demonstrations"),
        (walks(20), ("constant",), "nothing found"),
        (walks(20, steps=1), ("x",), "not converged"),
    ],
)
def test_too_little_to_learn_from_raises_an_alarm(tmp_path: Any, demos: Any, inputs: Any, alarm: str) -> None:
    learned = tacit.learn(Line, demos, total_steps=16_384, seed=1, inputs=inputs, out=str(tmp_path))
    assert alarm in [one.name for one in learned.alarms if one.level == "alarm"]
    assert np.isfinite(learned.cost(np.zeros((1, 6)))).all()
