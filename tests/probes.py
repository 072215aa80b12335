"""Probe environments: tiny vector environments whose right answer is known in closed form.

They reset within the same step, save and restore their state, and count on nothing of the package.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space


class _Probe(VectorEnv):
    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, n: int, obs: gym.Space, act: gym.Space) -> None:
        self.num_envs = n
        self.single_observation_space, self.single_action_space = obs, act
        self.observation_space, self.action_space = batch_space(obs, n), batch_space(act, n)
        self.rng = np.random.default_rng(0)
        self.state = np.zeros(n, np.int64)
        self.clock = np.zeros(n, np.int64)

    def get_state(self) -> dict[str, np.ndarray]:
        inner = self.rng.bit_generator.state["state"]
        words = [(inner[name] >> shift) & (2**64 - 1) for name in ("state", "inc") for shift in (0, 64)]
        return {"state": self.state.copy(), "clock": self.clock.copy(), "rng": np.array(words, np.uint64)}

    def set_state(self, saved: dict[str, np.ndarray]) -> None:
        self.state, self.clock = saved["state"].copy(), saved["clock"].copy()
        words = [int(word) for word in saved["rng"]]
        full = self.rng.bit_generator.state
        full["state"] = {"state": words[0] | words[1] << 64, "inc": words[2] | words[3] << 64}
        self.rng.bit_generator.state = full


class Tabular(_Probe):
    """Any finite MDP: P (S, A, S'), rewards and costs (S, A), start (S,), terminal (S,), observation table (S, d).

    Episodes are cut off after `horizon` steps (truncated). `observations=None` gives Discrete observations.
    """

    def __init__(
        self,
        n: int,
        transitions: Any,
        rewards: Any,
        costs: Any = None,
        start: Any = None,
        terminal: Any = None,
        observations: Any = None,
        horizon: int = 10**9,
    ) -> None:
        self.p, self.r = np.asarray(transitions, float), np.asarray(rewards, float)
        s, a = self.r.shape
        self.c = None if costs is None else np.asarray(costs, float)
        self.start = np.eye(s)[0] if start is None else np.asarray(start, float)
        self.terminal = np.zeros(s, bool) if terminal is None else np.asarray(terminal, bool)
        self.table = None if observations is None else np.asarray(observations, np.float32)
        self.horizon = horizon
        space: gym.Space = gym.spaces.Discrete(s)
        if self.table is not None:
            space = gym.spaces.Box(-np.inf, np.inf, self.table.shape[1:], np.float32)
        super().__init__(n, space, gym.spaces.Discrete(a))

    def _draw(self, probabilities: np.ndarray) -> np.ndarray:
        return (self.rng.random((len(probabilities), 1)) > probabilities.cumsum(1)[:, :-1]).sum(1)

    def _observe(self, states: np.ndarray) -> np.ndarray:
        return states.copy() if self.table is None else self.table[states]

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        self.rng = np.random.default_rng(seed)
        self.state = self._draw(np.tile(self.start, (self.num_envs, 1)))
        self.clock[:] = 0
        return self._observe(self.state), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, ...]:
        before = self.state
        reward = self.r[before, actions]
        self.state, self.clock = self._draw(self.p[before, actions]), self.clock + 1
        terminated = self.terminal[self.state]
        truncated = ~terminated & (self.clock >= self.horizon)
        done = terminated | truncated
        info: dict[str, Any] = {}
        cost = None if self.c is None else self.c[before, actions]
        if done.any():
            info |= {"final_obs": self._observe(self.state), "_final_obs": done}
            self.state = np.where(done, self._draw(np.tile(self.start, (self.num_envs, 1))), self.state)
            self.clock = np.where(done, 0, self.clock)
            if cost is not None:
                info["final_info"] = {"cost": cost}
        if cost is not None:
            info["cost"] = np.where(done, 0.0, cost)
        return self._observe(self.state), reward, terminated, truncated, info


def constant(n: int) -> Tabular:
    """One step, reward 1: V = 1."""
    return Tabular(n, [[[0, 1]] * 2] * 2, np.ones((2, 2)), terminal=[0, 1], observations=[[0.0], [0.0]])


def delayed(n: int) -> Tabular:
    """Two steps, the reward 1 comes with the second: V = gamma, 1 at the observations 0, 1."""
    p = [[[0, 1, 0]] * 2, [[0, 0, 1]] * 2, [[0, 0, 1]] * 2]
    return Tabular(n, p, [[0, 0], [1, 1], [0, 0]], terminal=[0, 0, 1], observations=[[0.0], [1.0], [2.0]])


def endless(n: int, horizon: int) -> Tabular:
    """Reward 1 for ever, cut off every `horizon` steps: V = 1 / (1 - gamma), whatever the horizon."""
    return Tabular(n, [[[1.0]] * 2], np.ones((1, 2)), observations=[[0.0]], horizon=horizon)


def match(n: int) -> Tabular:
    """One step; reward 1 for action 1 at observation +1 and for action 0 at observation -1."""
    p = [[[0, 0, 1]] * 2] * 3
    rewards = [[1, 0], [0, 1], [0, 0]]
    return Tabular(n, p, rewards, start=[0.5, 0.5, 0], terminal=[0, 0, 1], observations=[[-1.0], [1.0], [0.0]])


def choice(n: int) -> Tabular:
    """Action 1 ends the episode; action 0 leads to a state with two equivalent actions, which then ends. No reward.

    Only the entropy of the future distinguishes the two: with it in the return the soft-optimal policy takes action 0
    with probability 2^gamma / (1 + 2^gamma); with a bonus in the loss, with probability 1/2.
    """
    p = [[[0, 1, 0], [0, 0, 1]], [[0, 0, 1]] * 2, [[0, 0, 1]] * 2]
    return Tabular(n, p, np.zeros((3, 2)), terminal=[0, 0, 1], observations=[[0.0], [1.0], [2.0]])


def fast_lane(n: int, *, horizon: int = 50) -> Tabular:
    """A constrained MDP. Action 1 mostly leads to (or stays in) lane 1, where every step costs 1; it pays 1 in lane 0
    and 0.4 in lane 1.

    The cost comes one step after the action that causes it. For a budget on the mean cost the optimum is stochastic in
    lane 0, and many other policies with the same cost earn less.
    """
    p = [[[0.9, 0.1], [0.1, 0.9]]] * 2
    return Tabular(n, p, [[0, 1], [0, 0.4]], costs=[[0, 0], [1, 1]], observations=[[0.0], [1.0]], horizon=horizon)


class Aim(_Probe):
    """One step; reward -(a - slope * obs)^2 for obs = -1 or 1 and actions in a box +-`box`."""

    def __init__(self, n: int, *, slope: float = 0.5, box: float = 2.0) -> None:
        super().__init__(n, gym.spaces.Box(-1, 1, (1,), np.float32), gym.spaces.Box(-box, box, (1,), np.float32))
        self.slope = slope

    def _observe(self) -> np.ndarray:
        return (2.0 * self.state[:, None] - 1.0).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.integers(2, size=self.num_envs)
        return self._observe(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, ...]:
        assert actions.shape == (self.num_envs, 1)
        assert self.action_space.contains(actions)
        seen = self._observe()
        reward = -((actions[:, 0] - self.slope * seen[:, 0]) ** 2).astype(float)
        self.state = self.rng.integers(2, size=self.num_envs)
        done = np.ones(self.num_envs, bool)
        return self._observe(), reward, done, ~done, {"final_obs": seen, "_final_obs": done}
