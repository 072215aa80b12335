"""Ids for environments that are given as an object, a vector environment, or a function that makes one.

    identify(gymnasium.make("CartPole-v1"))        -> CartPole-v1 and its options
    identify(lambda: MyEnv(limit=3))               -> local/MyEnv-3fa1b2c4-v0, registered for this Python session

Everything else in Tacit makes environments by their id. One that is registered keeps its own. Any other gets an id that
ends with a hash of its source, so that another environment never finds the results of this one.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import gymnasium as gym
from gymnasium.vector import VectorEnv

from tacit.envs.families import Options
from tacit.envs.registry import LOCAL, NO_OPTIONS, origin
from tacit.errors import UserError

Factory = Callable[[], Any]
USUAL = ("PassiveEnvChecker", "OrderEnforcing", "TimeLimit")
"""The wrappers that `gymnasium.make` adds."""
WANTED = "give an id, a Gymnasium environment, a vector environment, or a function that makes an environment"


@dataclass(frozen=True)
class Identified:
    """An environment by its id."""

    id: str
    options: Options
    copies: int | None = None
    """Number of copies of a vector environment."""


def identify(env: Any) -> Identified:
    """The id of an environment, registered if need be; UserError for what is none."""
    if isinstance(env, str):
        return Identified(env, {})
    if isinstance(env, VectorEnv):
        return _of_vector(env)
    if isinstance(env, gym.Env):
        registered = _registered(env.spec) if _as_made(env) else None
        return registered or _local(_copier(env), type(env.unwrapped).__name__, None)
    if callable(env):
        return _of_factory(env, None)
    raise UserError(f"{type(env).__name__} is not an environment: {WANTED}")


def _of_vector(env: VectorEnv) -> Identified:
    if env is not env.unwrapped:
        raise UserError(
            f"{type(env).__name__} wraps a vector environment, and only single environments can be made again with "
            "their wrappers: wrap the single one, and give a function that makes it"
        )
    wrapped = env.spec is not None and env.spec.kwargs.get("wrappers")
    registered = None if wrapped or env.spec is None else _registered(env.spec, origin(env))
    if registered is not None:
        return Identified(registered.id, registered.options, env.num_envs)
    factories = getattr(env, "env_fns", None)
    if not factories:
        raise UserError(
            f"{type(env).__name__} does not say how its copies are made: register it (gymnasium.register with "
            "vector_entry_point) and give its id, or give a function that makes a single environment"
        )
    return _of_factory(factories[0], env.num_envs)


def _of_factory(factory: Factory, copies: int | None) -> Identified:
    try:
        made = factory()
    except TypeError as error:
        raise UserError(f"the function that makes the environment raised TypeError: {error}") from error
    if isinstance(made, VectorEnv) or not isinstance(made, gym.Env):
        raise UserError(f"the function made {type(made).__name__}, not a single Gymnasium environment")
    name = type(made.unwrapped).__name__
    made.close()
    return _local(factory, name, _source(factory), copies)


def _as_made(env: gym.Env[Any, Any]) -> bool:
    """Whether `gymnasium.make` with the same options gives the same: no wrapper of one's own, the usual time limit."""
    spec, layer = env.spec, env
    if spec is None or spec.id not in gym.registry or spec.additional_wrappers:
        return False
    while isinstance(layer, gym.Wrapper):
        if type(layer).__name__ not in USUAL:
            return False
        layer = layer.env
    return spec.max_episode_steps == gym.registry[spec.id].max_episode_steps


def _registered(spec: Any, made_from: tuple[str | None, Options] | None = None) -> Identified | None:
    """The environment by the id and options of its spec; None if it is not registered or an option is no plain data."""
    if spec is None or spec.id not in gym.registry:
        return None
    usual = gym.registry[spec.id].kwargs
    env_id, options = made_from or (spec.id, {k: v for k, v in spec.kwargs.items() if k not in {*NO_OPTIONS, *usual}})
    changed = [key for key, value in usual.items() if key in spec.kwargs and spec.kwargs[key] is not value]
    options |= {key: spec.kwargs[key] for key in changed if key not in NO_OPTIONS}
    try:
        return Identified(str(env_id), json.loads(json.dumps(options)))
    except (TypeError, ValueError):
        return None


def _copier(env: gym.Env[Any, Any]) -> Factory:
    """A function that copies the object, because it is not known how to make another one."""
    try:
        copy.deepcopy(env)
    except Exception as error:  # whatever its parts raise
        raise UserError(
            f"this {type(env.unwrapped).__name__} cannot be copied ({type(error).__name__}: {error}): give a function "
            "that makes it, such as tacit.learn(lambda: MyEnv(...), ...)"
        ) from error
    return lambda: copy.deepcopy(env)


def _local(factory: Factory, name: str, source: str | None, copies: int | None = None) -> Identified:
    token = secrets.token_hex(4) if source is None else hashlib.sha256(source.encode()).hexdigest()[:8]
    env_id = f"{LOCAL}{name}-{token}-v0"

    def make(render_mode: str | None = None) -> Any:
        env = factory()
        if render_mode is not None:
            env.unwrapped.render_mode = render_mode
        return env

    gym.registry.pop(env_id, None)
    gym.register(id=env_id, entry_point=cast(Any, make))
    return Identified(env_id, {}, copies)


def _source(factory: Factory) -> str | None:
    """What the function makes, as text; None where that depends on more than its source and a few plain values."""
    try:
        source = inspect.getsource(factory)
    except (OSError, TypeError):
        return None
    code = getattr(factory, "__code__", None)
    if code is None:
        return source  # a class
    variables = inspect.getclosurevars(factory)
    defaults = {name: one.default for name, one in inspect.signature(factory).parameters.items()}
    used = {**variables.nonlocals, **variables.globals, **defaults}
    texts = [code.co_code.hex(), repr(code.co_consts)]  # two functions may stand on one line
    for name, value in sorted(used.items()):
        if isinstance(value, int | float | str | bool | tuple | None):
            texts.append(f"{name} = {value!r}")
        elif inspect.isclass(value) or inspect.isfunction(value):
            try:
                texts.append(inspect.getsource(value))
            except (OSError, TypeError):
                return None
        elif not inspect.ismodule(value):
            return None
    return "\n".join([source, *texts])
