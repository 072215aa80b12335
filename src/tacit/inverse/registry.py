"""The algorithms by name. Each is a module, imported when it is asked for, with

Config    a frozen dataclass, a docstring a field: the settings, and the options of `tacit learn NAME`
run(run, env_id, env_kwargs, demos, config, seed) -> summary      learn inside a run folder, resuming if it was begun
check(env_id, env_kwargs, config)                                 optional: UserError before anything is written
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from tacit.errors import UserError


@dataclass(frozen=True)
class Algorithm:
    """One line for a list, and where the code is."""

    name: str
    summary: str
    module: str
    learns: bool = True
    """From demonstrations, with `tacit learn`; an expert makes them instead."""

    def load(self) -> ModuleType:
        """The module, with `Config` and `run`."""
        return import_module(self.module)

    def check(self, env_id: str, env_kwargs: Mapping[str, Any], config: Any) -> None:
        """UserError for settings that cannot work."""
        check = getattr(self.load(), "check", None)
        if check is not None:
            check(env_id, env_kwargs, config)


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "mce-exact",
            "maximum causal entropy, solved exactly with a certificate; finite environments with a known model",
            "tacit.inverse.exact_run",
        ),
        Algorithm("expert", "PPO with the true cost, to make demonstrations", "tacit.forward.expert", learns=False),
    )
}


def find(name: str) -> Algorithm:
    """The algorithm of that name; UserError with the nearest name otherwise."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    close = difflib.get_close_matches(name, ALGORITHMS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(ALGORITHMS)}"
    raise UserError(f"there is no algorithm {name!r}; {hint}")


def make_config(config_class: type, settings: Mapping[str, Any], where: str) -> Any:
    """A Config from plain JSON, as stored in a run folder; UserError for settings that it does not have."""
    known = {field.name: field for field in dataclasses.fields(config_class)}
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise UserError(f"{where} has settings that this version does not know: {', '.join(unknown)}")
    # JSON has no tuples.
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    return config_class(**values)
