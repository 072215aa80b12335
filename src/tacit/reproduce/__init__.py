"""Experiments by name: each a module that measures, writes one JSON with its provenance, and draws from that JSON.

DESCRIPTION   one line for the list
measure(sets: int, progress) -> dict     the numbers: plain JSON, every repetition kept
table(results: dict) -> str              Markdown, from the numbers alone
figure(results: dict) -> bytes           PNG, from the numbers alone
"""

from __future__ import annotations

import difflib
from importlib import import_module
from types import ModuleType

from tacit.errors import UserError

EXPERIMENTS = {
    "exact-stochasticity": "the exact method on the gridworld as the dynamics slip more and more",
}


def find(name: str) -> ModuleType:
    """The module of an experiment; UserError with the nearest name otherwise."""
    if name not in EXPERIMENTS:
        close = difflib.get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(EXPERIMENTS)}"
        raise UserError(f"there is no experiment {name!r}; {hint}")
    return import_module(f"tacit.reproduce.{name.replace('-', '_')}")
