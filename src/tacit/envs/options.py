"""Options of environments: check and complete them, and what they tell before an environment is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tacit.envs.families import Options, find_family, load_function
from tacit.envs.gridworld_map import names_a_file
from tacit.envs.registry import find_spec, same
from tacit.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from tacit.envs.gridworld_spec import GridworldSpec


def resolve_env(env: str, env_kwargs: Mapping[str, Any]) -> Options:
    """Checked options with all defaults filled in and map files read, so that a run folder stands alone."""
    check_env(env, env_kwargs)
    complete = _ask("options", env, env_kwargs)
    return dict(env_kwargs if complete is None else complete)


def check_env(env: str, env_kwargs: Mapping[str, Any]) -> None:
    """UserError for an environment that does not exist or does not have these options."""
    parameters = _parameters(env)
    unknown = sorted(set(env_kwargs) - set(parameters))
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        name, hint = env.rpartition(":")[2], did_you_mean(unknown[0], parameters) if parameters else "it has none"
        raise UserError(f"{name} has no option {unknown[0]!r}; {hint}")


def other_options(env: str, made_with: Mapping[str, Any], env_kwargs: Mapping[str, Any]) -> Options:
    """The options of `made_with` that differ from `env_kwargs`. Either may leave out what is the default."""
    default = {key: one.default for key, one in _parameters(env).items() if one.default is not one.empty}
    default |= find_spec(env, here=True).kwargs
    before, now = {**default, **made_with}, {**default, **env_kwargs}
    return {key: before[key] for key in before if key in now and not same(before[key], now[key])}


def _parameters(env: str) -> Mapping[str, inspect.Parameter]:
    """Parameters of the function or class that makes the environment."""
    spec = find_spec(env, here=True)
    creator = spec.entry_point or spec.vector_entry_point
    creator = load_function(creator) if isinstance(creator, str) else creator
    return inspect.signature(creator).parameters if callable(creator) else {}


def check_standalone(env: object, env_kwargs: object, where: object) -> None:
    """UserError if options that a file holds name a map file: whoever made the file must not choose what is read."""
    gridworld = isinstance(env, str) and env.rpartition(":")[2].startswith("tacit/Gridworld")
    if gridworld and isinstance(env_kwargs, Mapping) and names_a_file(env_kwargs.get("layout")):
        raise UserError(
            f"{where} names a map file as its layout, which is not read: it should hold the text of the map, or the "
            "name of a built-in one; give --layout if you have the map"
        )


def exact_model(env: str, env_kwargs: Mapping[str, Any]) -> GridworldSpec | None:
    """The exact model of the environment that these options describe; None if its family has none."""
    model: GridworldSpec | None = _ask("model", env, env_kwargs)
    return model


def _ask(what: str, env: str, env_kwargs: Mapping[str, Any]) -> Any:
    """What a function that the family declares (a field of `Family`) says about these options; None if it has none."""
    function = getattr(find_family(env), what, None)
    try:
        return None if function is None else load_function(function)(env_kwargs)
    except TypeError:
        name = env.rpartition(":")[2]
        raise UserError(f"an option of {name} has a value of the wrong type: {listed(env_kwargs)}") from None


def has_expert(env: str) -> bool:
    """Does the environment have a built-in expert? One with an exact model or a scripted expert does."""
    family = find_family(env)
    return family is not None and (family.model is not None or family.expert is not None)


def scripted_expert(env: str, env_kwargs: Mapping[str, Any]) -> Callable[[Any, Any], Any] | None:
    """The expert that the environment's family has written down: (observations, generator) -> actions."""
    expert: Callable[[Any, Any], Any] | None = _ask("expert", env, env_kwargs)
    return expert


def notice(env: str, env_kwargs: Mapping[str, Any]) -> str | None:
    """What must stand beside every result on this environment, if anything."""
    text: str | None = _ask("notice", env, env_kwargs)
    return text


def listed(env_kwargs: Mapping[str, Any]) -> str:
    """Options on one line, for messages."""
    short = {key: "(map)" if "\n" in str(value) else value for key, value in env_kwargs.items()}
    return ", ".join(f"{key}={value}" for key, value in short.items())
