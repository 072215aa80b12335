"""What checks of demonstrations find, and what can be found without a simulator: jumps, idle actions, short ends.

A linear model predicts every change of the observations from observation and action,

    o_{t+1} - o_t  =  W (1, o_t, a_t) + residual,                                                                 (1)

least squares over all steps. A residual far beyond the usual ones is a jump: two episodes that were joined, or rows
that are missing. If the actions explain nothing, or another row's actions explain much more, something is misaligned.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.demos.data import Demonstrations
from tacit.errors import listed
from tacit.metrics import percent

Array = NDArray[Any]
MOST_STEPS = 20_000
"""Steps that the linear model is fitted on."""
JUMP = 12.0
"""A jump, in units of the 99th percentile of residuals."""
SLACK = 2
"""Steps by which an episode may miss the horizon without being short: importing can cost the first and the last one."""
FITS, VERSION, SHIFTED = "fits", "another simulator version", "shifted by one"
UNITS, OTHER, JOINED = "another unit or order", "not this task", "steps that do not follow"
NOT_REPLAYED = "not replayed"
TOLERANCE = 0.02
"""Median error of a step up to which a file fits, if the environment repeats its own steps as well."""
KNOWN_DYNAMICS = 0.45
"""Median error of a step up to which the simulator knows the file's dynamics at all."""
STRAY = 0.5
"""Error of a single step that does not follow, in a file whose other steps fit."""
FAR = 3.0
"""The same in an environment that does not repeat its own steps exactly."""


@dataclass(frozen=True)
class Finding:
    """One thing to know about demonstrations."""

    level: str
    """"good", "note", "doubt" or "wrong"."""
    text: str


@dataclass(frozen=True)
class Check:
    """The result of a check."""

    verdict: str
    findings: tuple[Finding, ...]
    """Findings. The first one is the verdict in words."""
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


def tables(demos: Demonstrations) -> tuple[Array, Array, Array]:
    """(observations before, actions, observations after), one row per step, as floats."""
    rows = demos.observations.reshape(len(demos.observations), -1).astype(np.float64)
    before = demos.rows_before
    return rows[before], demos.actions.reshape(demos.n_steps, -1).astype(np.float64), rows[before + 1]


def change_scale(before: Array, after: Array) -> Array:
    """(entries,) the usual change of each entry in one step; a small number for one that never changes."""
    size = np.sqrt(((after - before) ** 2).mean(axis=0))
    spread = np.maximum(before.std(axis=0), 1e-6 * np.abs(before).max(axis=0, initial=0.0))
    return np.maximum(size, np.maximum(1e-3 * spread, 1e-9))


def residuals(before: Array, actions: Array, after: Array) -> tuple[Array, float]:
    """((steps,) size of the residual of (1), share of the changes that the model explains)."""
    scale = change_scale(before, after)
    goal = (after - before) / scale
    inputs = np.column_stack([before, actions])
    inputs = (inputs - inputs.mean(axis=0)) / (inputs.std(axis=0) + 1e-9)
    inputs = np.column_stack([np.ones(len(inputs)), inputs])
    subset = np.random.default_rng(0).permutation(len(goal))[:MOST_STEPS]
    gram = inputs[subset].T @ inputs[subset] + 1e-6 * len(subset) * np.eye(inputs.shape[1])
    weights = np.linalg.solve(gram, inputs[subset].T @ goal[subset])
    left = goal - inputs @ weights
    variance = float(((goal[subset] - goal[subset].mean(axis=0)) ** 2).sum()) + 1e-12
    return np.sqrt((left**2).mean(axis=1)), 1.0 - float((left[subset] ** 2).sum()) / variance


def short_episodes(demos: Demonstrations, horizon: int | None) -> Array:
    """Indices of trajectories that stop before the horizon (the longest one's length if none is known), not ended."""
    limit = horizon or int(demos.lengths.max())
    return np.flatnonzero((demos.lengths < limit - SLACK) & ~demos.terminated)


def shortness(demos: Demonstrations, horizon: int | None) -> list[Finding]:
    """A finding if episodes stop early, with advice."""
    short = short_episodes(demos, horizon)
    if not len(short):
        return []
    lengths = demos.lengths[short]
    where = f"the horizon of {horizon} steps" if horizon else f"the longest one of {int(demos.lengths.max())} steps"
    how_long = f"{lengths.min()} to {lengths.max()}" if lengths.min() < lengths.max() else f"{lengths.min()}"
    alike = len(short) == len(demos) and lengths.max() - lengths.min() <= SLACK
    cut = "" if alike else f"Cut all to {lengths.min()} steps (`tacit demos import --cut {lengths.min()}`) and learn"
    return [
        Finding(
            "doubt",
            f"{len(short)} of {len(demos)} trajectories stop after {how_long} steps, before {where}, without having "
            "ended: a learner that goes on longer does what nobody demonstrated, and that looks forbidden. "
            f"{cut or 'Learn'} with --env horizon={lengths.max() if alike else lengths.min()}, or say that they ended "
            "(`tacit demos import --terminated short`)",
        )
    ]


def statistics(demos: Demonstrations, names: tuple[str, ...] | None = None) -> list[Finding]:
    """All findings that need no environment."""
    before, actions, after = tables(demos)
    labels = names or tuple(f"obs[{i}]" for i in range(before.shape[1]))
    findings = []
    still = [label for label, column in zip(labels, before.T, strict=False) if (column == column[0]).all()]
    if still:
        findings.append(Finding("note", f"entries that never change: {listed(still, 5)}"))
    if (actions == actions[0]).all() and len(actions) > 1:
        findings.append(Finding("doubt", "every action is the same"))
    if len(before) > 10 * (before.shape[1] + actions.shape[1]):
        findings += _dynamics(demos, before, actions, after)
    if not demos.rewards.any():
        findings.append(Finding("note", "every reward is 0"))
    return findings


def _dynamics(demos: Demonstrations, before: Array, actions: Array, after: Array) -> list[Finding]:
    findings = []
    size, explained = residuals(before, actions, after)
    usual = float(np.quantile(size, 0.99))
    jumps = np.flatnonzero(size > JUMP * max(usual, 1e-6))
    if 0 < len(jumps) <= 0.05 * len(size) + 1:
        place = demos.where("actions", int(jumps[0]))
        others = f" and {len(jumps) - 1} more" if len(jumps) > 1 else ""
        findings.append(
            Finding(
                "doubt",
                f"the observations jump at {place}{others}, {size[jumps].max() / max(usual, 1e-9):.0f} times farther "
                "than usual: are episodes joined, or rows missing?",
            )
        )
    by_shift = {shift: _explained(demos, before, actions, after, shift) for shift in (-1, 1)}
    without = residuals(before, actions * 0.0, after)[1]
    if explained - without < 1e-3 and explained < 0.9:
        findings.append(Finding("doubt", "the actions explain nothing of what follows them"))
    for shift, share in by_shift.items():
        if 1.0 - share < 0.25 * (1.0 - explained) and share > 0.5:
            findings.append(
                Finding(
                    "doubt",
                    f"the action of the {'next' if shift > 0 else 'previous'} row explains the observations better "
                    f"({percent(share)} against {percent(explained)}): shifted by one? (`tacit demos import --shift "
                    f"{shift}`)",
                )
            )
    return findings


def _explained(demos: Demonstrations, before: Array, actions: Array, after: Array, shift: int) -> float:
    """Share of the changes that the actions of a neighbouring row explain."""
    inner = np.ones(len(before), bool)
    first, last = demos.step_offsets, demos.step_offsets + demos.lengths - 1
    inner[last if shift > 0 else first] = False
    rows = np.flatnonzero(inner)
    return residuals(before[rows], actions[rows + shift], after[rows])[1] if len(rows) > 50 else 0.0
