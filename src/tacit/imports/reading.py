"""What a file was understood as, before anything is aligned or compared with an environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tacit.errors import UserError

Array = NDArray[Any]
LAYOUTS = ("one-episode", "episodes-first", "steps-first", "jumps", "every:N")
"""What `--layout` chooses where a file does not say it."""


@dataclass(frozen=True)
class Choices:
    """Choices of the user, for what files do not say."""

    layout: str | None = None
    shift: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    terminated: str | None = None
    rewards: str | None = None
    cut: int | None = None
    """Steps after which episodes are cut off."""
    horizon: int | None = None
    """The environment's time limit, if it is known."""
    whole: bool = False
    """What is read is known to be one episode, unless it has marks: a jump in it is no end."""


@dataclass
class Recorded:
    """One episode as a file has it."""

    where: str
    observations: Array
    actions: Array
    next: Array | None = None
    rewards: Array | None = None
    """Per step; of one entry for the episode's sum."""
    costs: Array | None = None
    terminated: bool | None = None
    truncated: bool | None = None
    done: bool | None = None
    """It ended, for whatever reason. None, here and above: the file does not say."""


def recorded(
    where: str,
    observations: Array,
    actions: Array,
    part: Callable[[str], Array | None],
    happened: Callable[[Array | None], bool | None],
) -> Recorded:
    """An episode from its parts by role; `happened` reads flags."""
    rewards = part("rewards")
    return Recorded(
        where,
        observations,
        actions,
        part("next"),
        part("sums") if rewards is None else rewards,
        part("costs"),
        *(happened(part(role)) for role in ("terminated", "truncated", "dones")),
    )


@dataclass
class Reading:
    """What a file was understood as."""

    layout: str
    episodes: list[Recorded]
    notes: list[str] = field(default_factory=list)
    entry_names: list[str] | None = None
    sums: bool = False
    """Rewards are the episodes' sums."""
    autoreset: bool | None = None
    """Do rows hold the state that an action led to, the last one the next episode's reset? None: not known."""


class NoEpisodes(UserError):
    """The file holds something else."""
