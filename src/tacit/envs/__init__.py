"""Gymnasium environments, registered as tacit/NAME-v0.

One family a file. A family lists its members as `ENVIRONMENTS`, a tuple of `EnvInfo`, without importing anything heavy;
importing this package registers them all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import gymnasium

FAMILIES = ("tacit.envs.gridworld", "tacit.envs.robots", "tacit.envs.traffic")
"""Modules with an `ENVIRONMENTS` tuple."""


@dataclass(frozen=True)
class EnvInfo:
    """One environment: what `tacit envs` shows, and what Gymnasium needs to build it."""

    id: str
    constraint: str
    """The hidden constraint in words."""
    horizon: int
    """Steps after which an episode is cut off."""
    observation: str
    """The observation space in words."""
    action: str
    """The action space in words."""
    entry_point: str
    """module:class of the single environment."""
    vector_entry_point: str | None = None
    """module:class of the batched environment."""
    extra: str | None = None
    """The optional dependency group that it needs, as in `pip install tacit[robots]`."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments of the entry points that make this environment out of its family."""


def describe_envs() -> list[EnvInfo]:
    """Every environment of the library, in the order of `FAMILIES`."""
    return [info for family in FAMILIES for info in import_module(family).ENVIRONMENTS]


def register_envs() -> None:
    """Tell Gymnasium about every environment; done once, when this package is imported."""
    for info in describe_envs():
        # The environments cut episodes off themselves (the horizon is an option of theirs): no max_episode_steps here.
        if info.id not in gymnasium.registry:
            gymnasium.register(
                info.id,
                entry_point=info.entry_point,
                vector_entry_point=info.vector_entry_point,
                kwargs=dict(info.kwargs),
            )


register_envs()
