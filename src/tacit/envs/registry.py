"""Make environments by id. The module of `module:Name-v0` is imported first, and observations become flat.

    env = make("my_package:Reactor-v0", setpoint=3.0)            one environment
    env = make_vec("my_package:Reactor-v0", 16)                  16 copies that reset within the same step

A policy and a cost read vectors with named entries. Observations that are a Dict, a Tuple, an array of several
dimensions or several discrete numbers are put end to end, in the order of `gymnasium.spaces.flatten`:

    {"arm": Box (2,), "mode": Discrete(3)}   ->   arm[0], arm[1], mode=0, mode=1, mode=2

Pictures are refused: a cost of pixels would need other networks, and would name nothing.
"""

from __future__ import annotations

import difflib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from tacit.envs.families import Options, load_plugins
from tacit.errors import UserError

NO_OPTIONS = frozenset(
    {"num_envs", "vectorization_mode", "vector_kwargs", "wrappers", "max_episode_steps", "render_mode"}
)
"""Arguments of `gymnasium.make_vec` that are not options of an environment."""
LOCAL = "local/"
"""Ids of environments that exist in one Python session (`tacit.envs.local`)."""
LARGEST = 10_000
"""Largest number of entries of an observation. More of them are pictures by another name."""


# ---------------------------------------------------------------------------------------------------------------------
# Spaces


def is_flat(space: spaces.Space[Any]) -> bool:
    """Can policies read it as it is: a one-dimensional Box, or Discrete from 0?"""
    if isinstance(space, spaces.Box):
        return len(space.shape) == 1
    return isinstance(space, spaces.Discrete) and space.start == 0


def entry_names(space: spaces.Space[Any], name: str = "obs") -> tuple[str, ...]:
    """Names of the entries of a flattened observation. UserError for a space that cannot be flattened sensibly."""
    names = tuple(_names(space, name))
    if len(names) > LARGEST:
        raise UserError(f"an observation has {len(names)} entries, more than {LARGEST}: choose features in a wrapper")
    return names


def _names(space: spaces.Space[Any], name: str) -> Iterator[str]:
    if isinstance(space, spaces.Dict):
        inside = "" if name == "obs" else f"{name}."
        for key, part in space.spaces.items():
            yield from _names(part, f"{inside}{key}")
    elif isinstance(space, spaces.Tuple):
        for i, part in enumerate(space.spaces):
            yield from _names(part, f"{name}.{i}")
    elif isinstance(space, spaces.Box | spaces.MultiBinary):
        shape = space.shape
        if len(shape) > 1 and space.dtype == np.uint8:
            raise UserError(
                f"{name} is a picture ({space}): costs and policies read named numbers, so give the features in it "
                "(positions, distances, speeds) as numbers with a gymnasium.ObservationWrapper"
            )
        for index in np.ndindex(shape) if shape else ():
            yield f"{name}[{','.join(map(str, index))}]"
        if not shape:
            yield name
    elif isinstance(space, spaces.Discrete):
        yield from (f"{name}={value}" for value in range(int(space.start), int(space.start + space.n)))
    elif isinstance(space, spaces.MultiDiscrete) and len(space.shape) == 1:
        starts = np.broadcast_to(getattr(space, "start", 0), space.shape)
        for i, (n, start) in enumerate(zip(space.nvec, starts, strict=True)):
            yield from (f"{name}[{i}]={value}" for value in range(int(start), int(start + n)))
    else:
        raise UserError(
            f"{name} is {type(space).__name__}, which has no fixed number of entries: "
            "make a Box of it with a gymnasium.ObservationWrapper"
        )


def flat_space(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The space of flattened observations; UserError for one that cannot be flattened."""
    if is_flat(space):
        return space
    entry_names(space)
    return spaces.flatten_space(space)


def flatten(space: spaces.Space[Any], observation: Any) -> NDArray[Any]:
    """One observation as policies and demonstrations hold it."""
    return np.asarray(observation if is_flat(space) else spaces.flatten(space, observation))


def rows(env: VectorEnv, observations: Any) -> list[NDArray[Any]]:
    """The flattened observation of each copy, of what `env.reset` or `env.step` gave."""
    single = env.single_observation_space
    if is_flat(single):
        return list(np.asarray(observations))
    return [flatten(single, one) for one in iterate(env.observation_space, observations)]


def feature_names(env: Any, *, declared: bool = False) -> tuple[str, ...] | None:
    """Names of the entries of a (flattened) observation of an environment, single or vector; None if it has none.

    The attribute `feature_names` of the environment, or of the nearest one inside, if there are as many as entries (a
    wrapper may have added some). Else the names that follow from the structure, unless only `declared` ones count.
    """
    space = getattr(env, "single_observation_space", None) or env.observation_space
    size = 1 if isinstance(space, spaces.Discrete) else spaces.flatdim(flat_space(space))
    copies = getattr(env.unwrapped, "envs", None)  # of an environment that is not batched
    for one in (*_inwards(env), *(_inwards(copies[0]) if copies else ())):
        names = getattr(one, "feature_names", None)
        if names is not None and len(names) == size:
            return tuple(names)
    return None if declared or is_flat(space) else entry_names(space)


def _inwards(env: Any) -> Iterator[Any]:
    """The environment, what it wraps, what that wraps, ..."""
    while env is not None:
        yield env
        env = getattr(env, "env", None)


class FlatObservation(gym.ObservationWrapper[Any, Any, Any]):
    """An environment with flattened observations, which knows the names of their entries."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.feature_names = feature_names(env)
        self.observation_space = spaces.flatten_space(env.observation_space)

    def observation(self, observation: Any) -> Any:
        return spaces.flatten(self.env.observation_space, observation)


def flat(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The environment, wrapped if its observations are not flat."""
    return env if is_flat(env.observation_space) else FlatObservation(env)


# ---------------------------------------------------------------------------------------------------------------------
# Sharing. Planning an experiment checks the settings of a hundred runs against a handful of environments.


Make = Callable[..., VectorEnv]
_made: ContextVar[dict[str, VectorEnv] | None] = ContextVar("environments that are shared", default=None)


@contextmanager
def shared() -> Iterator[None]:
    """Within this block equal environments are the same object. They are closed at its end."""
    if _made.get() is not None:
        yield
        return
    made: dict[str, VectorEnv] = {}
    token = _made.set(made)
    try:
        yield
    finally:
        _made.reset(token)
        for env in made.values():
            del env.close
            env.close()


def once(make: Make) -> Make:
    """A function like `make_vec` that reuses environments within `shared()`."""

    @functools.wraps(make)
    def make_or_reuse(env_id: str, n_envs: int, **kwargs: Any) -> VectorEnv:
        made = _made.get()
        if made is None:
            return make(env_id, n_envs, **kwargs)
        key = repr((env_id, n_envs, sorted(kwargs.items())))
        if key not in made:
            made[key] = make(env_id, n_envs, **kwargs)
            made[key].close = lambda **_: None  # type: ignore[method-assign]
        return made[key]

    return make_or_reuse


# ---------------------------------------------------------------------------------------------------------------------
# Ids


def find_spec(env_id: str, *, here: bool = False) -> gym.envs.registration.EnvSpec:
    """The registered environment of this id, after importing its module; UserError if there is none.

    For `here` see `import_named`. An id that is not registered may be one of an entry point (`families`).
    """
    module, _, name = env_id.rpartition(":")
    if module:
        import_named(module, here=here)
    elif name not in gym.registry:
        load_plugins()
    if name not in gym.registry and name.startswith(LOCAL):
        raise UserError(
            f"{name} was an object or a function in a Python session, which nobody else can make: work with it there, "
            "or register the environment (gymnasium.register) and learn with its id"
        )
    if name not in gym.registry:
        ours = [known for known in gym.registry if known.startswith("tacit/")]
        short = {known.removeprefix("tacit/").rpartition("-v")[0].lower(): known for known in ours}
        close = [short[name.lower()]] if name.lower() in short else []
        close = close or difflib.get_close_matches(name, [*gym.registry], n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else "`tacit envs` lists ours"
        if module:
            hint = f"importing {module} does not register it (gymnasium.register(id={name!r}, ...)); {hint}"
        else:
            hint += " (one of your own is named module:Name-v0, after the module that registers it)"
        raise UserError(f"there is no environment {name!r}; {hint}")
    return gym.registry[name]


def import_named(module: str, *, here: bool = False, what: str = "the environment") -> None:
    """Import the module that a name refers to. With `here` it may also be a file in the current folder.

    That is for names that a person has typed. A name that a file holds (a run, demonstrations) must not choose a file
    that came along with it, because importing runs its code.
    """
    if not all(part.isidentifier() for part in module.split(".")):
        raise UserError(f"{module!r} is not the name of a Python module: an environment is named module:Name-v0")
    folder = os.getcwd()
    if here and "" not in sys.path and folder not in sys.path:
        sys.path.append(folder)  # last: nothing that is installed is hidden by a file that lies about
    try:
        import_module(module)
    except Exception as error:  # it is the user's code: whatever it raises
        if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            where = (
                f"it is neither installed nor in {folder}"
                if here
                else (
                    "it is not installed, and files of the current folder are imported for names on the command line "
                    "alone (PYTHONPATH=. tacit ... if you trust this one)"
                )
            )
            raise UserError(f"cannot import {module!r}, the module of {what}: {where}") from None
        raise UserError(f"importing {module!r} raised {type(error).__name__}: {error}") from error


def make(env_id: str, *, flattened: bool = True, **kwargs: Any) -> gym.Env[Any, Any]:
    """One environment by id, with flat observations. UserError if it cannot be made."""
    spec = find_spec(env_id)
    if spec.entry_point is None:
        raise UserError(f"{env_id} has no single version (entry_point), only a batched one")
    with _making(env_id, kwargs):
        env = gym.make(spec, disable_env_checker=True, **kwargs)
        return flat(env) if flattened else env


@once
def make_vec(env_id: str, n_envs: int, *, flattened: bool = True, **kwargs: Any) -> VectorEnv:
    """N copies with flat observations that reset automatically, within the same step if there is a way.

    The batched version is used if it resets so and has flat observations, else copies of the single one. Without a
    single one, a batched version that resets in the next step will do. UserError if there is none of these.
    """
    spec = find_spec(env_id)
    with _making(env_id, kwargs):
        if spec.vector_entry_point is not None:
            env = gym.make_vec(spec, num_envs=n_envs, vectorization_mode="vector_entry_point", **kwargs)
            readable = is_flat(env.single_observation_space) or not flattened
            late = autoreset_mode(env) == AutoresetMode.NEXT_STEP.value and spec.entry_point is None
            if readable and (resets_same_step(env) or late):
                return _remember(env, env_id)
            why = "do not reset automatically" if readable else "have observations that are not flat"
            env.close()
            if spec.entry_point is None:
                raise UserError(f"the copies of {env_id} {why}, and it has no single version (entry_point) to copy")
        options: dict[str, Any] = {"vector_kwargs": {"autoreset_mode": AutoresetMode.SAME_STEP}}
        if flattened:
            options["wrappers"] = [flat]
        return _remember(gym.make_vec(spec, num_envs=n_envs, vectorization_mode="sync", **options, **kwargs), env_id)


def _remember(env: VectorEnv, env_id: str) -> VectorEnv:
    """Note the whole id: Gymnasium forgets the module of module:Name-v0, which is needed to make it again."""
    env.unwrapped.tacit_id = env_id  # type: ignore[attr-defined]
    return env


def origin(env: VectorEnv) -> tuple[str | None, Options]:
    """The (id, options) that a vector environment was made with; (None, {}) if it was not made from an id."""
    spec = env.spec
    if spec is None:
        return None, {}
    registered = gym.registry[spec.id].kwargs if spec.id in gym.registry else {}
    options = {
        key: value
        for key, value in spec.kwargs.items()
        if key not in NO_OPTIONS and not (key in registered and same(registered[key], value))
    }
    return getattr(env.unwrapped, "tacit_id", spec.id), options


def same(one: Any, other: Any) -> bool:
    """Are two values of an option equal? A tuple equals the list of its entries."""
    try:
        return bool(one == other) or bool(np.array_equal(one, other))
    except ValueError:  # arrays
        return bool(np.array_equal(one, other))


def autoreset_mode(env: VectorEnv) -> str | None:
    """How a vector environment resets its copies: "SameStep", "NextStep" or "Disabled"; None if it does not say."""
    mode = env.metadata.get("autoreset_mode")
    return mode.value if isinstance(mode, AutoresetMode) else mode


def required_autoreset(env: VectorEnv) -> str:
    """The same, "SameStep" or "NextStep"; UserError for an environment that does not reset its copies."""
    mode = autoreset_mode(env)
    if mode not in ("SameStep", "NextStep"):
        raise UserError(
            f"{env} does not reset its copies automatically (it declares {mode!r}): make it with "
            "autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP"
        )
    return mode


def resets_same_step(env: VectorEnv) -> bool:
    """Does a copy that ends begin a new episode within the same step?"""
    return autoreset_mode(env) == AutoresetMode.SAME_STEP.value


@contextmanager
def _making(env_id: str, kwargs: Options) -> Iterator[None]:
    """Turn whatever an environment raises while it is made into a UserError, except a missing package."""
    try:
        yield
    except (UserError, ImportError):
        raise
    except Exception as error:
        options = f" with {', '.join(f'{key}={value!r}' for key, value in kwargs.items())}" if kwargs else ""
        reason = " ".join(str(error).split())
        raise UserError(f"cannot make {env_id}{options}: {type(error).__name__}: {reason}") from error
