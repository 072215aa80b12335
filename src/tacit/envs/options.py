"""Options of environments: checked, completed, and what they describe."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.errors import UserError

if TYPE_CHECKING:
    from tacit.envs.gridworld import GridworldSpec

GRIDWORLD = "tacit/Gridworld-v0"
HIGHWAY = "tacit/Highway"


def resolve_env(env: str, env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Checked options with all defaults filled in and map files read, so that a run folder stands alone."""
    check_env(env, env_kwargs)
    spec = gridworld(env, env_kwargs)
    if spec is not None:
        return {**env_kwargs, **spec.env_kwargs()}
    if env.rpartition(":")[2].startswith(HIGHWAY):
        from tacit.envs.traffic.files import checked_options

        return checked_options(env_kwargs)
    return dict(env_kwargs)


def check_env(env: str, env_kwargs: Mapping[str, Any]) -> None:
    """UserError for an environment that does not exist or does not have these options."""
    parameters = _parameters(env)
    unknown = sorted(set(env_kwargs) - set(parameters))
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        close = get_close_matches(unknown[0], [*parameters], n=1)
        hint = f"did you mean {close[0]!r}? It" if close else "it"
        raise UserError(
            f"{env.rpartition(':')[2]} has no option {unknown[0]!r}; {hint} has {', '.join(parameters) or 'none'}"
        )


def other_options(env: str, made_with: Mapping[str, Any], env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `made_with` that differ from `env_kwargs`, where either may leave out what is the default."""
    from tacit.envs.registry import find_spec, same

    default = {key: one.default for key, one in _parameters(env).items() if one.default is not one.empty}
    default |= find_spec(env, here=True).kwargs
    before, now = {**default, **made_with}, {**default, **env_kwargs}
    return {key: before[key] for key in before if key in now and not same(before[key], now[key])}


def _parameters(env: str) -> Mapping[str, inspect.Parameter]:
    """Of the function or class that makes the environment."""
    from tacit.envs.registry import find_spec

    spec = find_spec(env, here=True)
    creator = spec.entry_point or spec.vector_entry_point
    if isinstance(creator, str):
        file, _, attribute = creator.partition(":")
        creator = getattr(import_module(file), attribute)
    return inspect.signature(creator).parameters if callable(creator) else {}


def gridworld(env: str, env_kwargs: Mapping[str, Any]) -> GridworldSpec | None:
    """The gridworld that these options describe, None for another environment."""
    if env.rpartition(":")[2] != GRIDWORLD:
        return None
    from tacit.envs.gridworld import make_spec

    try:
        return make_spec(
            **{key: value for key, value in env_kwargs.items() if key not in ("observation", "render_mode")}
        )
    except TypeError:
        raise UserError(f"an option of {GRIDWORLD} has a value of the wrong type: {listed(env_kwargs)}") from None


def listed(env_kwargs: Mapping[str, Any]) -> str:
    """Options on one line, for messages."""
    short = {key: "(map)" if "\n" in str(value) else value for key, value in env_kwargs.items()}
    return ", ".join(f"{key}={value}" for key, value in short.items())
