"""Options of environments on the command line, shared by the commands. (Not a command itself.)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from tacit.commands import NO_DEFAULT, key_values
from tacit.envs.families import Options as Kwargs
from tacit.envs.options import check_env, exact_model, listed, resolve_env
from tacit.errors import UserError

__all__ = ["EnvOptions", "Options", "check_env", "exact_model", "listed", "resolve_env"]


@dataclass(frozen=True)
class EnvOptions:
    """Options of the environment. The most common ones have names of their own."""

    layout: Annotated[str | None, tyro.conf.arg(metavar="MAP"), NO_DEFAULT] = None
    """Gridworld: built-in map (`tacit envs --layouts`) or map file."""
    slip: Annotated[float | None, tyro.conf.arg(metavar="FLOAT"), NO_DEFAULT] = None
    """Gridworld: probability that an action is ignored."""
    recordings: Annotated[str | None, tyro.conf.arg(metavar="DIR"), NO_DEFAULT] = None
    """Highway: folder with recordings (highD's CSV files, CommonRoad XML) instead of the simulated ones of Tacit."""
    env: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE"), NO_DEFAULT] = ()
    """Any option of the environment, such as moves=8 horizon=100."""

    def given(self) -> Kwargs:
        """The options that were given, as keyword arguments of the environment."""
        given = key_values(self.env, "--env")
        for key, value in (("layout", self.layout), ("slip", self.slip), ("recordings", self.recordings)):
            if value is not None and given.setdefault(key, value) != value:
                raise UserError(f"--{key} and --env {key}=... contradict each other; give one of them")
        return given


# In a box of their own, without a prefix: --slip, not --environment.slip.
Options = Annotated[EnvOptions, tyro.conf.arg(name="environment"), tyro.conf.OmitArgPrefixes]
