"""Replaying where single steps are not enough: the exact model of a gridworld, and whole drives on a highway."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.demos import evidence, verdict
from tacit.demos.data import Demonstrations
from tacit.demos.evidence import Finding

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
# Highway


def is_highway(env: Any) -> bool:
    return hasattr(env.unwrapped, "traffic") and hasattr(env.unwrapped, "simulator")


def check_highway(demos: Demonstrations, env: Any) -> verdict.Check:
    """Drive every trajectory from its start: its first observation says which recorded scene it belongs to."""
    from tacit.envs.traffic.env import TrafficVectorEnv
    from tacit.envs.traffic.simulator import first_observations

    traffic = env.unwrapped.traffic
    numbers = {row.tobytes(): i for i, row in enumerate(first_observations(traffic))}
    first = demos.observations[demos.row_offsets].astype(np.float32)
    problem = np.array([numbers.get(row.tobytes(), -1) for row in first])
    short = evidence.shortness(demos, None)
    statistics = evidence.statistics(demos)
    if (problem < 0).any():
        i = int(np.argmax(problem < 0))
        text = (
            f"not this task: trajectory {i} starts as no scene of these recordings does ({int((problem < 0).sum())} of "
            f"{len(demos)}). Other recordings, other units, or shifted by one?"
        )
        return verdict.Check(verdict.OTHER, (Finding("wrong", text), *statistics, *short), steps=demos.n_steps)
    constraint = "distance" if env.unwrapped.rule.feature != "v_ego_x" else "velocity"
    batch = TrafficVectorEnv(len(demos), constraint, traffic=traffic)
    observations, rewards, costs, ended = _driven(batch, problem, demos)
    before, _, after = evidence.tables(demos)
    size = verdict.error_sizes(observations, after, evidence.change_scale(before, after))
    stray = np.flatnonzero(size > verdict.STRAY)
    median = float(np.median(size))
    if median <= verdict.TOLERANCE and not len(stray):
        result, level, text = verdict.FITS, "good", f"fits: every drive leads where it did (error {median:.2g})"
    elif len(stray) < 0.2 * len(size):
        result, level = verdict.JOINED, "wrong"
        text = f"steps that do not follow: from {demos.where('actions', int(stray[0]))} on a drive leads elsewhere"
    else:
        result, level = verdict.OTHER, "wrong"
        text = f"not this task: the drives lead elsewhere (error {median:.2g}). Actions of other units, order or rows?"
    findings = [Finding(level, text)]
    if result == verdict.FITS:
        findings += _compared(demos, rewards, costs, ended)
    return verdict.Check(result, (*findings, *short), demos.n_steps, demos.n_steps, {0: median})


def _compared(demos: Demonstrations, rewards: Array, costs: Array, ended: Array) -> list[Finding]:
    findings = []
    if np.abs(rewards - demos.rewards).max() > 1e-3:
        share = float((np.abs(rewards - demos.rewards) > 1e-3).mean())
        findings.append(Finding("doubt", f"{share:.1%} of the rewards are not the environment's"))
    if demos.costs is not None and (demos.costs > 0).tolist() != (costs > 0).tolist():
        findings.append(Finding("doubt", "the costs are not the environment's: was there another constraint?"))
    if (ended != demos.terminated).any():
        count = int((ended != demos.terminated).sum())
        findings.append(Finding("doubt", f"{count} trajectories end otherwise than they are marked"))
    return findings


def _driven(batch: Any, problem: Array, demos: Demonstrations) -> tuple[Array, Array, Array, Array]:
    """(observations after each step, rewards, costs, ended (n,)), all drives side by side."""
    n, longest = len(demos), int(demos.lengths.max())
    offsets, lengths = demos.step_offsets, demos.lengths
    batch.reset(seed=0, options={"problem": problem})
    observations = np.zeros((demos.n_steps, demos.observations.shape[1]))
    rewards, costs, ended = np.zeros(demos.n_steps), np.zeros(demos.n_steps), np.zeros(n, bool)
    running = np.ones(n, bool)
    for t in range(longest):
        actions = np.zeros((n, 2), np.float32)
        inside = np.flatnonzero(lengths > t)
        actions[inside] = demos.actions[offsets[inside] + t]
        step = batch.step_arrays(actions)
        live = inside[running[inside]]
        observations[offsets[live] + t] = step.final_obs[live]
        rewards[offsets[live] + t], costs[offsets[live] + t] = step.reward[live], step.cost[live]
        ended[live] = step.terminated[live] & (lengths[live] == t + 1)
        running &= ~step.terminated
    return observations, rewards, costs, ended
