"""What batched environments share: the result of a step, which copies to reset, how they are seeded and saved."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from tacit.envs.families import Info, Options
from tacit.envs.rng_state import RNG_WORDS, check_state, pack_rng, unpack_rng
from tacit.errors import UserError

Array = NDArray[Any]
Flags = NDArray[np.bool_]
Seeds = int | list[int | None] | None


class Step(NamedTuple):
    """The result of one step of N copies. All arrays are fresh: the next step does not change them."""

    obs: Array
    """(N, obs) what to act on next: of a new episode where the old one ended."""
    reward: Array
    """(N,)"""
    cost: Array
    """(N,) 1.0 where the state reached breaks the true constraint, else 0.0."""
    terminated: Flags
    """(N,)"""
    truncated: Flags
    """(N,)"""
    final_obs: Array
    """(N, obs) the state reached by this step, also where the episode ended. The same array as `obs` if none ended."""


def step_info(cost: Array, ended: Flags, final_obs: Array, start_cost: Any = 0.0, **last: Array) -> Info:
    """The info of a step after which the copies that `ended` (N,) have been reset.

    Their rows of "cost" belong to the new episode (`start_cost`). What their last step gave is in "final_obs" and
    "final_info": the cost, and `last`.
    """
    info: Info = {"cost": cost, "_cost": np.ones(len(ended), np.bool_)}
    if ended.any():
        info["cost"] = np.where(ended, start_cost, cost)
        info["final_obs"], info["_final_obs"] = final_obs, ended
        final: Info = {}
        for name, values in {"cost": cost, **last}.items():
            final[name], final[f"_{name}"] = values, ended.copy()
        info["final_info"], info["_final_info"] = final, ended.copy()
    return info


def reset_mask(options: Options | None, num_envs: int, *, started: bool) -> Flags:
    """(N,) which copies a reset concerns: all of them, or those of options["reset_mask"]."""
    mask = (options or {}).get("reset_mask")
    if mask is None:
        return np.ones(num_envs, np.bool_)
    if not started:
        raise gym.error.ResetNeeded("the first reset must reset every copy: call reset() without a reset_mask")
    mask = np.asarray(mask)
    if mask.dtype != np.bool_ or mask.shape != (num_envs,):
        raise UserError(f"reset_mask must be {num_envs} booleans, not {mask.dtype} of shape {mask.shape}")
    return mask


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """The value as an int; UserError unless it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise UserError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def check_actions(actions: ArrayLike, shape: tuple[int, ...], whose: str) -> Array:
    """The actions as an array; UserError unless they are finite numbers of this shape."""
    array = np.asarray(actions)
    if array.shape != shape:
        raise UserError(f"{whose} takes actions of shape {shape}, not {array.shape}")
    if array.dtype.kind not in "fiu":
        raise UserError(f"{whose} takes numbers as actions, not {array.dtype}")
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        which = f"copy {row} of {whose}" if len(shape) > 1 else whose
        raise UserError(f"{which} was given an action that is not finite: {array[row] if len(shape) > 1 else array}")
    return array


def check_render_mode(render_mode: str | None, modes: Sequence[str] = ("rgb_array",)) -> str | None:
    """The render mode; UserError unless it is None or one of `modes`."""
    if render_mode is not None and render_mode not in modes:
        raise UserError(f"render_mode must be one of {', '.join(modes)} or None, not {render_mode!r}")
    return render_mode


def declare_options(environment: type, source: Callable[..., Any]) -> None:
    """The `**options` of an environment's constructor are the arguments of `source` that have a default.

    They are declared once, at `source`; help texts and the check of options read the signature of the environment.
    """
    _, *own = inspect.signature(environment.__init__).parameters.values()  # type: ignore[misc]
    own = [parameter for parameter in own if parameter.kind is not parameter.VAR_KEYWORD]
    options = [
        parameter.replace(kind=parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(source).parameters.items()
        if parameter.default is not parameter.empty and name not in {one.name for one in own}
    ]
    environment.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]


def seeds_of(seed: Seeds, num_envs: int) -> list[int | None]:
    """The seed of each copy: seed + i, or entry i of a list; None keeps the generator of a copy."""
    if seed is None or isinstance(seed, int | np.integer):
        return [None if seed is None else int(seed) + row for row in range(num_envs)]
    if not isinstance(seed, list | tuple | np.ndarray):
        raise UserError(f"a seed must be a whole number, or a list with one per copy, not {seed!r}")
    if len(seed) != num_envs:
        raise UserError(f"a list of seeds has one entry per copy: {num_envs}, not {len(seed)}")
    return list(seed)


class BatchedEnv(gym.vector.VectorEnv[Array, Array, Array]):
    """N copies that reset within the same step. Each has a generator of its own, seeded with seed + i.

    A copy that ends starts again at once: its rows of the observations and of info["cost"] belong to the new episode,
    and info["final_obs"] (N, obs) and info["final_info"]["cost"] (N,) hold what its last step gave, in the rows that
    info["_final_obs"] (N,) marks. `step_arrays` is `step` without the dictionary, for learners.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int, observation: gym.Space[Any], action: gym.Space[Any], horizon: int) -> None:
        self.num_envs, self.horizon = whole_number("num_envs", num_envs), horizon
        self.single_observation_space, self.single_action_space = observation, action
        self.observation_space, self.action_space = (batch_space(space, num_envs) for space in (observation, action))
        self._steps = np.zeros(num_envs, np.int64)
        self._rngs: list[np.random.Generator] = []
        self._seeds: list[int] = []
        self._started = False

    def _draw_starts(self, rows: NDArray[np.intp]) -> None:
        """Put the copies `rows` at the start of an episode, each with its own generator."""
        raise NotImplementedError

    def _observe(self) -> Array:
        """(N, obs) of the present states, a fresh array."""
        raise NotImplementedError

    def step_arrays(self, actions: ArrayLike) -> Step:
        """One step of all copies for actions (N, act), clipped to the action box."""
        raise NotImplementedError

    def _restart(self, rows: NDArray[np.intp]) -> None:
        self._draw_starts(rows)
        self._steps[rows] = 0

    def _require_started(self, before: str) -> None:
        if not self._started:
            raise gym.error.ResetNeeded(f"call reset() before {before}()")

    def reset(self, *, seed: Seeds = None, options: Options | None = None) -> tuple[Array, Info]:
        """Start an episode in every copy, or in those that options["reset_mask"] (N,) selects.

        Copy i is seeded with seed + i, or with seed[i] if a list is given; None keeps its generator.
        """
        mask = reset_mask(options, self.num_envs, started=self._started)
        seeds = seeds_of(seed, self.num_envs)
        if not self._rngs:
            pairs = [seeding.np_random(value) for value in seeds]
            self._rngs, self._seeds = [rng for rng, _ in pairs], [value for _, value in pairs]
        else:
            for row in np.flatnonzero(mask):
                if seeds[row] is not None:
                    self._rngs[row], self._seeds[row] = seeding.np_random(seeds[row])
        self._restart(np.flatnonzero(mask))
        self._started = True
        return self._observe(), {"cost": np.zeros(self.num_envs), "_cost": mask}

    def step(self, actions: ArrayLike) -> tuple[Array, Array, Flags, Flags, Info]:
        """One step of all copies."""
        result = self.step_arrays(actions)
        ended = result.terminated | result.truncated
        return (*result[:2], *result[3:5], step_info(result.cost, ended, result.final_obs))

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The generators of the copies."""
        return tuple(self._rngs)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seeds of the copies."""
        return tuple(self._seeds)

    def _saved(self, **world: Array) -> dict[str, Array]:
        """Arrays of the world, with the steps (N,) and generators (N, 6): everything that the future depends on."""
        self._require_started("get_state")
        rngs = np.stack([pack_rng(rng) for rng in self._rngs])
        return {**{name: array.copy() for name, array in world.items()}, "steps": self._steps.copy(), "rng": rngs}

    def _restore(self, state: Mapping[str, Array], whose: str, **world: Array) -> None:
        """Copy what `_saved` gave back into the arrays of the world."""
        n = self.num_envs
        shapes = {name: array.shape for name, array in world.items()} | {"steps": (n,), "rng": (n, RNG_WORDS)}
        check_state(state, shapes, f"{n} copies of {whose}")
        for name, array in world.items():
            array[:] = state[name]
        self._steps[:] = state["steps"]
        self._rngs = [unpack_rng(row) for row in state["rng"]]
        self._seeds = [-1] * n
        self._started = True
