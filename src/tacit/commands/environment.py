"""Which environment a command is about: its options on the command line. (Not a verb.)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from tacit.commands import key_values
from tacit.envs.options import GRIDWORLD, check_env, gridworld, listed, resolve_env
from tacit.errors import UserError

__all__ = ["GRIDWORLD", "EnvOptions", "Options", "check_env", "gridworld", "listed", "resolve_env"]


@dataclass(frozen=True)
class EnvOptions:
    """The environment's options; those that everybody changes have names of their own."""

    layout: Annotated[str | None, tyro.conf.arg(metavar="MAP")] = None
    """Gridworld: a built-in map (`tacit envs --layouts`) or a map file."""
    slip: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None
    """Gridworld: the probability that an action is ignored."""
    recordings: Annotated[str | None, tyro.conf.arg(metavar="DIR")] = None
    """Highway: a folder with recordings (highD's CSV files, CommonRoad XML) instead of the package's simulated ones."""
    env: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE")] = ()
    """Any options of the environment, such as moves=8 horizon=100."""

    def given(self) -> dict[str, Any]:
        """Those that were given, as keyword arguments."""
        given = key_values(self.env, "--env")
        for key, value in (("layout", self.layout), ("slip", self.slip), ("recordings", self.recordings)):
            if value is not None and given.setdefault(key, value) != value:
                raise UserError(f"--{key} and --env {key}=... contradict each other; give one of them")
        return given


# The options without a prefix: --slip, not --options.slip.
Options = Annotated[EnvOptions, tyro.conf.arg(name="")]
