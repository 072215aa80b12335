"""Replaying where single steps are not enough: the exact model of a gridworld, and whole episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.demos import evidence, verdict
from tacit.demos.data import Demonstrations
from tacit.demos.evidence import Finding
from tacit.envs.capabilities import Replayed

Array = NDArray[Any]


# ---------------------------------------------------------------------------------------------------------------------
# Gridworlds


def check_grid(demos: Demonstrations, grid: Any) -> verdict.Check:
    """Log-probability of every move under the exact model, with the actions of this row and of its neighbours.

    Cells, starts, goals, rewards and costs are checked in `check.problems`, move by move.
    """
    states = grid.states_of(demos.observations)
    short = evidence.shortness(demos, grid.horizon)
    if (states < 0).any() or demos.actions.dtype.kind not in "iu":
        text = "not this task: there are cells or actions that the map does not have"
        return verdict.Check(verdict.OTHER, (Finding("wrong", text), *short), steps=demos.n_steps)
    before, after = states[demos.rows_before], states[demos.rows_before + 1]
    by_shift = {shift: _mean_log(demos, grid, before, after, shift) for shift in (-1, 0, 1)}
    surprise = {shift: -value for shift, value in by_shift.items()}
    best = min(surprise, key=lambda shift: surprise[shift])
    impossible = _probability(grid, before, demos.actions, after) <= 0
    if best != 0 and surprise[best] < 0.6 * surprise[0] - 0.05:
        row = "next" if best > 0 else "previous"
        text = f"shifted by one: the moves fit the actions of the {row} row. Import the original with --shift {best}"
        result, level = verdict.SHIFTED, "wrong"
    elif impossible.any():
        share = float(impossible.mean())
        place = demos.where("actions", int(np.flatnonzero(impossible)[0]))
        few = share < 0.1
        result, level = verdict.JOINED if few else verdict.UNITS, "wrong"
        meaning = "are episodes joined, or is the map another?" if few else "are actions numbered differently?"
        text = f"{result}: {share:.0%} of the moves are impossible here, the first at {place}: {meaning}"
    else:
        result, level, text = verdict.FITS, "good", "fits: every move is possible in the exact model"
    return verdict.Check(result, (Finding(level, text), *short), demos.n_steps, demos.n_steps, surprise)


def _probability(grid: Any, before: Array, actions: Array, after: Array) -> Array:
    known = (actions >= 0) & (actions < grid.n_actions)
    safe = np.where(known, actions, 0)
    reached = grid.targets[before] == after[:, None]
    return np.where(known, (reached * grid.outcome_probabilities[before, safe]).sum(axis=1), 0.0)


def _mean_log(demos: Demonstrations, grid: Any, before: Array, after: Array, shift: int) -> float:
    inner = np.ones(demos.n_steps, bool)
    if shift:
        inner[demos.step_offsets if shift < 0 else demos.step_offsets + demos.lengths - 1] = False
    rows = np.flatnonzero(inner)
    if not len(rows):
        return -np.inf
    return float(np.log(_probability(grid, before[rows], demos.actions[rows + shift], after[rows]) + 1e-3).mean())


# ---------------------------------------------------------------------------------------------------------------------
# Whole episodes


def check_episodes(demos: Demonstrations, replay: Callable[[Array, Array, Array], Replayed]) -> verdict.Check:
    """Play every trajectory from its start: the environment knows which episode begins with its first observation."""
    short = evidence.shortness(demos, None)
    replayed = replay(demos.observations[demos.row_offsets], demos.actions, demos.lengths)
    unknown = np.flatnonzero(~replayed.known)
    if len(unknown):
        text = (
            f"not this task: trajectory {unknown[0]} starts as no episode of this environment does ({len(unknown)} of "
            f"{len(demos)}). Other recordings, other units, or shifted by one?"
        )
        findings = (Finding("wrong", text), *evidence.statistics(demos), *short)
        return verdict.Check(verdict.OTHER, findings, steps=demos.n_steps)
    before, _, after = evidence.tables(demos)
    size = verdict.error_sizes(replayed.observations, after, evidence.change_scale(before, after))
    stray = np.flatnonzero(size > verdict.STRAY)
    median = float(np.median(size))
    if median <= verdict.TOLERANCE and not len(stray):
        result, level, text = verdict.FITS, "good", f"fits: every episode leads where it did (error {median:.2g})"
    elif len(stray) < 0.2 * len(size):
        result, level = verdict.JOINED, "wrong"
        text = f"steps that do not follow: from {demos.where('actions', int(stray[0]))} on an episode leads elsewhere"
    else:
        result, level = verdict.OTHER, "wrong"
        text = (
            f"not this task: the episodes lead elsewhere (error {median:.2g}). Other units, order or rows of actions?"
        )
    findings = (Finding(level, text), *(_compared(demos, replayed) if result == verdict.FITS else ()), *short)
    return verdict.Check(result, findings, demos.n_steps, demos.n_steps, {0: median})


def _compared(demos: Demonstrations, replayed: Replayed) -> list[Finding]:
    findings = []
    different = np.abs(replayed.rewards - demos.rewards) > 1e-3
    if different.any():
        findings.append(Finding("doubt", f"{different.mean():.1%} of the rewards are not the environment's"))
    if demos.costs is not None and ((demos.costs > 0) != (replayed.costs > 0)).any():
        findings.append(Finding("doubt", "the costs are not the environment's: was there another constraint?"))
    count = int((replayed.ended != demos.terminated).sum())
    if count:
        findings.append(Finding("doubt", f"{count} trajectories end differently from what the file says"))
    return findings
