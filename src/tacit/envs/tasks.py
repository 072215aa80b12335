"""What the tasks in NumPy share (`nav`, `slow_zone`, `reactor`, `crowd`): one set of dynamics, single and batched.

A `Task` says how an episode begins, what a step does to many copies at once, and what of it is observed. `TaskEnv` is
one copy, `TaskVectorEnv` are N. Copy i of N behaves like a single environment that is seeded with seed + i. All
randomness is in the start of an episode.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from tacit.envs.batched import Flags, Seeds, Step, reset_mask, seeds_of, step_info
from tacit.envs.capabilities import Rule
from tacit.envs.families import Info, Options
from tacit.envs.rng_state import RNG_WORDS, check_state, pack_rng, unpack_rng
from tacit.errors import UserError

Array = NDArray[Any]
Expert = Callable[[Array, np.random.Generator], Array]
"""(N, obs) observations and a generator -> (N, act) actions. It may remember its style from step to step."""
METADATA = {"render_modes": ["rgb_array"], "render_fps": 20}


class Moved(NamedTuple):
    """What one step does to N copies."""

    state: Array
    """(N, state)"""
    reward: Array
    """(N,)"""
    terminated: Flags
    """(N,)"""


class Task(ABC):
    """A world: states are rows of 64-bit floats, and what is observed are 32-bit floats."""

    name: str
    feature_names: tuple[str, ...]
    rule: Rule
    horizon: int
    dt: float
    low: Array
    high: Array
    """(obs,) the observation box."""
    action_size: int

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Array:
        """(state,) the start of an episode."""

    @abstractmethod
    def advance(self, state: Array, actions: Array) -> Moved:
        """One step from states (N, state) with actions (N, act) in [-1, 1]."""

    @abstractmethod
    def observe(self, state: Array) -> Array:
        """(N, obs) what is seen of states (N, state)."""

    @abstractmethod
    def succeeded(self, final_obs: Array) -> Flags:
        """(N,) which last observations (N, obs) are a good end."""

    @abstractmethod
    def draw_picture(self, state: Array) -> Array:
        """(height, width, 3) picture of one state (state,)."""


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """An option that counts something."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise UserError(f"{name} is a whole number of at least {least}, not {value!r}")
    return int(value)


def _spaces(task: Task) -> tuple[gym.spaces.Box, gym.spaces.Box]:
    """The spaces of one observation and one action."""
    low, high = task.low.astype(np.float32), task.high.astype(np.float32)
    return gym.spaces.Box(low, high, dtype=np.float32), gym.spaces.Box(-1.0, 1.0, (task.action_size,), np.float32)


def _checked(task: Task, actions: ArrayLike, copies: int) -> Array:
    """(N, act) actions, clipped to [-1, 1]."""
    given = np.asarray(actions, np.float64)
    if given.shape != (copies, task.action_size):
        raise UserError(
            f"{copies} copies of {task.name} take actions of shape ({copies}, {task.action_size}), not {given.shape}"
        )
    if not np.isfinite(given).all():
        raise UserError(f"{task.name} was given an action that is not finite")
    return np.clip(given, -1.0, 1.0)


def _check_render_mode(render_mode: str | None) -> None:
    if render_mode not in (None, "rgb_array"):
        raise UserError(f"render_mode is None or rgb_array, not {render_mode!r}")


class TaskEnv(gym.Env[Array, Array]):
    """One copy of a task. `info["cost"]` is 1 where the state after a step breaks the hidden rule."""

    metadata: dict[str, Any] = METADATA

    def __init__(self, task: Task, render_mode: str | None = None) -> None:
        _check_render_mode(render_mode)
        self.task = task
        self.render_mode = render_mode
        self.feature_names, self.rule, self.horizon, self.dt = task.feature_names, task.rule, task.horizon, task.dt
        self.succeeded = task.succeeded
        self.observation_space, self.action_space = _spaces(task)
        self._state: Array | None = None
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[Array, Info]:
        """Start an episode."""
        super().reset(seed=seed)
        self._state, self._steps = self.task.draw(self.np_random)[None], 0
        return self.task.observe(self._state)[0], {"cost": 0.0}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, Info]:
        """Act once."""
        if self._state is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        moved = self.task.advance(self._state, _checked(self.task, np.asarray(action)[None], 1))
        self._state, self._steps = moved.state, self._steps + 1
        obs = self.task.observe(self._state)
        terminated = bool(moved.terminated[0])
        truncated = not terminated and self._steps >= self.horizon
        cost = float(self.rule.violated(obs)[0])
        return obs[0], float(moved.reward[0]), terminated, truncated, {"cost": cost}

    def get_state(self) -> dict[str, Array]:
        """Everything that the future depends on: world (state,), steps (), rng (6,)."""
        if self._state is None:
            raise gym.error.ResetNeeded("call reset() before get_state()")
        return {"world": self._state[0].copy(), "steps": np.array(self._steps), "rng": pack_rng(self.np_random)}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from what `get_state` returned."""
        size = self.task.draw(np.random.default_rng(0)).shape
        check_state(state, {"world": size, "steps": (), "rng": (RNG_WORDS,)}, self.task.name)
        self._state, self._steps = np.array(state["world"], np.float64)[None], int(state["steps"])
        self.np_random = unpack_rng(state["rng"])

    def render(self) -> Any:
        """A picture, if `render_mode` is "rgb_array"."""
        if self._state is None:
            raise gym.error.ResetNeeded("call reset() before render()")
        return None if self.render_mode is None else self.task.draw_picture(self._state[0])


class TaskVectorEnv(gym.vector.VectorEnv[Array, Array, Array]):
    """N copies of a task, stepped as arrays. A copy that ends starts again within the same step.

    `info["final_obs"]` and `info["final_info"]` hold what the last step of such a copy gave. `step_arrays` is `step`
    without the dictionary.
    """

    metadata: dict[str, Any] = {**METADATA, "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int, task: Task, render_mode: str | None = None) -> None:
        _check_render_mode(render_mode)
        self.num_envs = whole_number("num_envs", num_envs)
        self.task = task
        self.render_mode = render_mode
        self.feature_names, self.rule, self.horizon, self.dt = task.feature_names, task.rule, task.horizon, task.dt
        self.succeeded = task.succeeded
        self.single_observation_space, self.single_action_space = _spaces(task)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._state: Array | None = None
        self._steps = np.zeros(num_envs, np.int64)
        self._rngs: list[np.random.Generator] = []

    def reset(self, *, seed: Seeds = None, options: Options | None = None) -> tuple[Array, Info]:
        """Start an episode in every copy, or in those of options["reset_mask"]. Copy i is seeded with seed + i."""
        mask = reset_mask(options, self.num_envs, started=self._state is not None)
        seeds = seeds_of(seed, self.num_envs)
        if not self._rngs:
            self._rngs = [seeding.np_random(value)[0] for value in seeds]
        else:
            for row in np.flatnonzero(mask):
                if seeds[row] is not None:
                    self._rngs[row] = seeding.np_random(seeds[row])[0]
        if self._state is None:
            self._state = np.stack([self.task.draw(rng) for rng in self._rngs])
            self._steps[:] = 0
        else:
            self._restart(self._state, np.flatnonzero(mask))
        return self.task.observe(self._state), {"cost": np.zeros(self.num_envs), "_cost": mask}

    def step(self, actions: ArrayLike) -> tuple[Array, Array, Flags, Flags, Info]:
        """One step of all copies."""
        result = self.step_arrays(actions)
        ended = result.terminated | result.truncated
        return (*result[:2], *result[3:5], step_info(result.cost, ended, result.final_obs))

    def step_arrays(self, actions: ArrayLike) -> Step:
        """One step of all copies for actions (N, act), clipped to [-1, 1]."""
        if self._state is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        moved = self.task.advance(self._state, _checked(self.task, actions, self.num_envs))
        self._state = moved.state
        self._steps += 1
        truncated = ~moved.terminated & (self._steps >= self.horizon)
        obs = final_obs = self.task.observe(self._state)
        cost = self.rule.violated(obs).astype(np.float64)
        ended = moved.terminated | truncated
        if ended.any():
            rows = np.flatnonzero(ended)
            self._restart(self._state, rows)
            obs = final_obs.copy()
            obs[rows] = self.task.observe(self._state[rows])
        return Step(obs, moved.reward, cost, moved.terminated, truncated, final_obs)

    def _restart(self, state: Array, rows: NDArray[np.intp]) -> None:
        for row in rows:
            state[row] = self.task.draw(self._rngs[row])
        self._steps[rows] = 0

    def get_state(self) -> dict[str, Array]:
        """Everything that the future depends on: world (N, state), steps (N,), rng (N, 6)."""
        if self._state is None:
            raise gym.error.ResetNeeded("call reset() before get_state()")
        rngs = np.stack([pack_rng(rng) for rng in self._rngs])
        return {"world": self._state.copy(), "steps": self._steps.copy(), "rng": rngs}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from what `get_state` returned, in this or another process."""
        n, size = self.num_envs, len(self.task.draw(np.random.default_rng(0)))
        shapes = {"world": (n, size), "steps": (n,), "rng": (n, RNG_WORDS)}
        check_state(state, shapes, f"{n} copies of {self.task.name}")
        self._state = np.array(state["world"], np.float64)
        self._steps = np.array(state["steps"], np.int64)
        self._rngs = [unpack_rng(row) for row in state["rng"]]

    def render(self) -> tuple[Any, ...] | None:
        """One picture per copy, if `render_mode` is "rgb_array"."""
        if self._state is None:
            raise gym.error.ResetNeeded("call reset() before render()")
        return None if self.render_mode is None else tuple(self.task.draw_picture(row) for row in self._state)


class Style:
    """Slowly drifting numbers in [-1, 1]: what makes one demonstration differ from the next."""

    def __init__(self, size: int, memory: float = 0.95) -> None:
        self.size, self.memory = size, memory
        self._values: Array | None = None

    def draw(self, copies: int, rng: np.random.Generator) -> Array:
        """(N, size) the numbers of this step."""
        fresh = rng.normal(size=(copies, self.size))
        if self._values is None or len(self._values) != copies:
            self._values = fresh
        else:
            self._values = self.memory * self._values + np.sqrt(1 - self.memory**2) * fresh
        return np.tanh(self._values)
