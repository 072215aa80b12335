"""Families of environments: what is known before an environment is made, and how other packages add their own.

A family is a `Family` named `FAMILY` in its module. Importing `tacit.envs` registers those of this package. A package
of your own adds one by an entry point in its pyproject.toml:

    [project.entry-points."tacit.environments"]
    tank = "my_package.tank"

The module may define `FAMILY`, or call `gymnasium.register`, or both. It is imported for `tacit envs`, and when an id
is asked for that nobody has registered. `EnvInfo.horizon` describes a time limit and sets none. An environment that
does not cut its episodes off itself is registered with `max_episode_steps`. What an environment can do once it is made
is declared in `capabilities.py`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module, metadata
from typing import Any

import gymnasium

BUILT_IN = (
    "tacit.envs.gridworld",
    "tacit.envs.robots",
    "tacit.envs.traffic",
    "tacit.envs.nav",
    "tacit.envs.slow_zone",
    "tacit.envs.reactor",
    "tacit.envs.crowd",
)
"""Modules of this package with a `FAMILY`."""
Options = dict[str, Any]
"""Keyword arguments of an environment, or of one `reset`."""
Info = dict[str, Any]
"""The info of `reset` and `step`: the true "cost", and in a vector environment "final_obs" and "final_info"."""
ENTRY_POINTS = "tacit.environments"
"""Group of the entry points of other packages."""


@dataclass(frozen=True)
class EnvInfo:
    """One environment: what `tacit envs` lists, and what Gymnasium needs to build it."""

    id: str
    constraint: str
    """The hidden constraint in words."""
    horizon: int | None
    """Steps after which an episode is cut off; None if the environment does not say."""
    observation: str
    """The observation space in words."""
    action: str
    """The action space in words."""
    entry_point: str
    """module:class of the single environment."""
    vector_entry_point: str | None = None
    """module:class of the batched environment."""
    extra: str | None = None
    """The optional dependency group that it needs, as in `tacit.errors.install_command`."""
    kwargs: Options = field(default_factory=dict)
    """Arguments of the entry points that make this environment out of its family."""


@dataclass(frozen=True)
class DemonstrationFormat:
    """A file format in which a family stores demonstrations. Functions are named "module:function"."""

    suffix: str
    """Ending of its file names."""
    load: str
    """(path) -> Demonstrations"""
    save: str
    """(Demonstrations, path) -> None"""


@dataclass(frozen=True)
class Family:
    """Environments that share their code. Functions are named "module:function", so that listing imports nothing."""

    environments: tuple[EnvInfo, ...]
    model: str | None = None
    """(options) -> GridworldSpec: the exact model of an environment with these options. It brings a built-in expert."""
    options: str | None = None
    """(options) -> options: checks them, fills in the defaults and reads the files that they name."""
    notice: str | None = None
    """(options) -> str | None: a sentence that must stand beside every result."""
    expert: str | None = None
    """(options) -> expert, itself (observations, generator) -> actions of all copies; it keeps to the constraint."""
    demonstrations: str | None = None
    """(environment id) -> Path | None: the demonstrations that come with the family."""
    formats: tuple[DemonstrationFormat, ...] = ()


_plugins: dict[str, Family] = {}
"""Families of other packages by the name of their entry point, once it is loaded."""


def families() -> list[Family]:
    """The families of this package, then those of entry points that have been loaded."""
    return [*(import_module(module).FAMILY for module in BUILT_IN), *_plugins.values()]


def describe_envs() -> list[EnvInfo]:
    """Every environment of the library and of the entry points that have been loaded."""
    return [info for family in families() for info in family.environments]


def find_family(env_id: str) -> Family | None:
    """The family of an environment, by its id; None for one that belongs to no family."""
    name = env_id.rpartition(":")[2]
    if name not in gymnasium.registry:
        load_plugins()
    return next((family for family in families() if any(info.id == name for info in family.environments)), None)


def find_format(path: str | os.PathLike[str]) -> DemonstrationFormat | None:
    """The format of a demonstration file that is a family's own; None for the common ones."""
    formats = (form for family in families() for form in family.formats)
    return next((form for form in formats if os.fspath(path).endswith(form.suffix)), None)


def load_function(name: str) -> Callable[..., Any]:
    """The function "module:function"."""
    module, _, attribute = name.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), attribute)
    return function


def register_envs() -> None:
    """Register the environments of this package with Gymnasium; done when `tacit.envs` is imported."""
    for family in families():
        _register(family)


def _register(family: Family) -> None:
    for info in family.environments:
        # The environments cut episodes off themselves (the horizon is an option of theirs): no max_episode_steps here.
        if info.id not in gymnasium.registry:
            gymnasium.register(
                info.id,
                entry_point=info.entry_point,
                vector_entry_point=info.vector_entry_point,
                kwargs=dict(info.kwargs),
            )


def load_plugins() -> None:
    """Load the entry points that have not been loaded yet. A warning names one that cannot be loaded."""
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        if entry.name in _plugins:
            continue
        before = set(gymnasium.registry)
        try:
            target = entry.load()
        except Exception as error:  # it is somebody else's code: whatever it raises
            warnings.warn(
                f"the environments of the entry point {entry.name} ({entry.value}) are missing: "
                f"{type(error).__name__}: {error}",
                stacklevel=2,
            )
            target = None
        family = target if isinstance(target, Family) else getattr(target, "FAMILY", None)
        if family is None:
            family = Family(tuple(_described(name) for name in gymnasium.registry if name not in before))
        _plugins[entry.name] = family
        _register(family)


def _described(env_id: str) -> EnvInfo:
    """What Gymnasium's registry knows of an environment without a family."""
    spec = gymnasium.registry[env_id]
    return EnvInfo(env_id, "", spec.max_episode_steps, "", "", str(spec.entry_point or ""))
