"""The result of checking demonstrations against an environment."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.demos.evidence import Finding

Array = NDArray[Any]
FITS, VERSION, SHIFTED = "fits", "another simulator version", "shifted by one"
UNITS, OTHER, JOINED = "another unit or order", "not this task", "steps that do not follow"
NOT_REPLAYED = "not replayed"
TOLERANCE = 0.02
"""Median error of a step up to which a file fits, if the environment repeats its own steps as well."""
KNOWN = 0.45
"""Median error of a step up to which the simulator knows the file's dynamics at all."""
STRAY = 0.5
"""Error of a single step that does not follow, in a file whose other steps fit."""
FAR = 3.0
"""The same in an environment that does not repeat its own steps exactly."""


@dataclass(frozen=True)
class Check:
    """The result."""

    verdict: str
    findings: tuple[Finding, ...]
    """The verdict in words first."""
    replayed: int = 0
    steps: int = 0
    errors: dict[int, float] = field(default_factory=dict)
    """{shift: mean error of a step}"""
    entries: tuple[tuple[str, float], ...] = ()
    """(name, median error) of the entries, the worst first."""

    @property
    def level(self) -> str:
        order = ("good", "note", "doubt", "wrong")
        worst = max((order.index(finding.level) for finding in self.findings), default=0)
        return "good" if order[worst] == "note" else order[worst]

    def texts(self, *levels: str) -> list[str]:
        return [finding.text for finding in self.findings if finding.level in levels]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "level": self.level}


def deviations(simulated: Array, recorded: Array, scale: Array) -> Array:
    """(steps, entries) in units of the usual change of an entry in one step, at most 10."""
    return np.asarray(np.minimum(np.abs(simulated - recorded) / scale, 10.0))


def error_sizes(simulated: Array, recorded: Array, scale: Array) -> Array:
    """(steps,) root mean square of the deviations over entries."""
    return np.asarray(np.sqrt((deviations(simulated, recorded, scale) ** 2).mean(axis=1)))
