"""What the tasks in NumPy share (`nav`, `slow_zone`, `reactor`, `crowd`): one set of dynamics, single and batched.

A `Task` says how an episode begins, what a step does to many copies at once, and what of it is observed. `TaskEnv` is
one copy, `TaskVectorEnv` are N. Copy i of N behaves like a single environment that is seeded with seed + i. All
randomness is in the start of an episode. The arguments of a task's constructor are the options of its environments:

    class NavEnv(TaskEnv, task=Nav): ...             gymnasium.make("tacit/Nav-v0", shape="ell")
    class NavVectorEnv(TaskVectorEnv, task=Nav): ...
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from tacit.cost.objects import Slots
from tacit.envs.batched import BatchedEnv, Flags, Step, check_actions, check_render_mode, declare_options
from tacit.envs.capabilities import Rule
from tacit.envs.families import EnvInfo, Family, Info, Options
from tacit.envs.rng_state import RNG_WORDS, check_state, pack_rng, unpack_rng

Array = NDArray[Any]
Expert = Callable[[Array, np.random.Generator], Array]
"""(N, obs) observations and a generator -> (N, act) actions. It may remember its style from step to step."""
METADATA = {"render_modes": ["rgb_array"], "render_fps": 20}


class Moved(NamedTuple):
    """The result of one step of N copies, before any reset."""

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
    objects: Slots | None = None
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


def task_family(module: str, name: str, horizon: int, *, constraint: str, observation: str, action: str) -> Family:
    """The family of one task: its environments, its scripted expert and `complete_options` are in the module."""
    info = EnvInfo(
        id=f"tacit/{name}-v0",
        constraint=constraint,
        horizon=horizon,
        observation=observation,
        action=action,
        entry_point=f"{module}:{name}Env",
        vector_entry_point=f"{module}:{name}VectorEnv",
    )
    return Family((info,), options=f"{module}:complete_options", expert=f"{module}:{name}Expert")


def completed(task: type[Task], options: Mapping[str, Any]) -> Options:
    """The options of a task's environments, checked, with the defaults.

    Options that are keyword-only were added later: at their default they are left out, so that the names of earlier
    runs stay the same.
    """
    parameters = inspect.signature(task).parameters
    defaults = {name: list(p.default) if isinstance(p.default, tuple) else p.default for name, p in parameters.items()}
    complete = {**defaults, **options}
    task(**{name: complete[name] for name in defaults})
    later = {name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY and complete[name] == p.default}
    return {name: value for name, value in complete.items() if name not in later}


def _state_size(task: Task) -> int:
    return len(task.draw(np.random.default_rng(0)))


def _checked(task: Task, actions: ArrayLike, copies: int) -> Array:
    """(N, act) actions, clipped to [-1, 1]."""
    return np.clip(check_actions(actions, (copies, task.action_size), task.name).astype(np.float64), -1.0, 1.0)


class _OfTask:
    """What the single and the batched environment share: the task, and what it declares."""

    task_class: type[Task]

    def __init_subclass__(cls, task: type[Task] | None = None) -> None:
        if task is not None:
            cls.task_class = task
            declare_options(cls, task)

    def _build(self, options: Options, render_mode: str | None) -> tuple[gym.spaces.Box, gym.spaces.Box]:
        """Set the attributes; returns the spaces of one observation and one action."""
        self.task = task = self.task_class(**options)
        self.render_mode = check_render_mode(render_mode)
        self.feature_names, self.rule, self.horizon, self.dt = task.feature_names, task.rule, task.horizon, task.dt
        self.succeeded, self.objects = task.succeeded, task.objects
        low, high = task.low.astype(np.float32), task.high.astype(np.float32)
        return gym.spaces.Box(low, high, dtype=np.float32), gym.spaces.Box(-1.0, 1.0, (task.action_size,), np.float32)


class TaskEnv(_OfTask, gym.Env[Array, Array]):
    """One copy of a task. `info["cost"]` is 1 where the state after a step breaks the hidden rule."""

    metadata: dict[str, Any] = METADATA

    def __init__(self, *, render_mode: str | None = None, **options: Any) -> None:
        self.observation_space, self.action_space = self._build(options, render_mode)
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
        check_state(state, {"world": (_state_size(self.task),), "steps": (), "rng": (RNG_WORDS,)}, self.task.name)
        self._state, self._steps = np.array(state["world"], np.float64)[None], int(state["steps"])
        self.np_random = unpack_rng(state["rng"])

    def render(self) -> Any:
        """A picture, if `render_mode` is "rgb_array"."""
        if self._state is None:
            raise gym.error.ResetNeeded("call reset() before render()")
        return None if self.render_mode is None else self.task.draw_picture(self._state[0])


class TaskVectorEnv(_OfTask, BatchedEnv):
    """N copies of a task, stepped as arrays."""

    metadata: dict[str, Any] = {**METADATA, "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int = 1, *, render_mode: str | None = None, **options: Any) -> None:
        super().__init__(num_envs, *self._build(options, render_mode), self.task.horizon)
        self._state = np.zeros((num_envs, _state_size(self.task)))

    def _draw_starts(self, rows: NDArray[np.intp]) -> None:
        for row in rows:
            self._state[row] = self.task.draw(self._rngs[row])

    def _observe(self) -> Array:
        return self.task.observe(self._state)

    def step_arrays(self, actions: ArrayLike) -> Step:
        """One step of all copies for actions (N, act), clipped to [-1, 1]."""
        self._require_started("step")
        moved = self.task.advance(self._state, _checked(self.task, actions, self.num_envs))
        self._state = moved.state
        self._steps += 1
        truncated = ~moved.terminated & (self._steps >= self.horizon)
        obs = final_obs = self.task.observe(self._state)
        cost = self.rule.violated(obs).astype(np.float64)
        ended = moved.terminated | truncated
        if ended.any():
            rows = np.flatnonzero(ended)
            self._restart(rows)
            obs = final_obs.copy()
            obs[rows] = self.task.observe(self._state[rows])
        return Step(obs, moved.reward, cost, moved.terminated, truncated, final_obs)

    def get_state(self) -> dict[str, Array]:
        """Everything that the future depends on: world (N, state), steps (N,), rng (N, 6)."""
        return self._saved(world=self._state)

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from what `get_state` returned, in this or another process."""
        self._restore(state, self.task.name, world=self._state)

    def render(self) -> tuple[Any, ...] | None:
        """One picture per copy, if `render_mode` is "rgb_array"."""
        self._require_started("render")
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
