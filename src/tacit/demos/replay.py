"""Check demonstrations by replaying them: does a step of the environment lead where the file says?

    result = check(demos, env)              env: an environment, or the exact model of one
    result.verdict, result.level            "fits", "shifted by one", ...; "good", "doubt" or "wrong"

A sample of steps is simulated, each from its recorded observation (`stepping`). The error of a step is its distance
from the recorded observation, per entry in units of the usual change of that entry in one step, root mean square:

    e_t  =  sqrt( mean_j min(10, |o^sim_{t+1,j} - o_{t+1,j}| / s_j)^2 ),      s_j^2 = mean_t (o_{t+1,j} - o_{t,j})^2 (1)

It is 0 for the same simulator and about 1 if nothing is known. The same is done with the action of the row before and
of the row after. What cannot be replayed is judged by statistics alone (`evidence`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.demos import evidence
from tacit.demos.data import Demonstrations
from tacit.demos.diagnosis import Sample, diagnose
from tacit.demos.evidence import (
    FAR,
    FITS,
    JOINED,
    KNOWN_DYNAMICS,
    NOT_REPLAYED,
    OTHER,
    SHIFTED,
    STRAY,
    TOLERANCE,
    UNITS,
    VERSION,
    Check,
    Finding,
    deviations,
    error_sizes,
)
from tacit.demos.stepping import Stepper, find_stepper, quiet, rows_of
from tacit.envs.capabilities import Replayed, capabilities
from tacit.envs.options import exact_model
from tacit.envs.registry import feature_names, find_spec, make
from tacit.metrics import percent

Array = NDArray[Any]
Names = tuple[str, ...] | None
SAMPLE, SUSPECTS, ENDS, SHIFTS = 200, 40, 40, 100
"""Steps that are replayed: at random, those with the largest jumps, last steps of trajectories, and shifted ones."""
LOOSEST = 0.2
"""Median error above which no file fits, however badly the environment repeats its own steps."""


def check(
    demos: Demonstrations, env: Any, *, every: bool = False, seed: int = 0, reference: Demonstrations | None = None
) -> Check:
    """Replay demonstrations whose spaces fit the environment. `every`: all steps, not a sample.

    reference: demonstrations of the same environment that are known to fit, to recognise another order of entries by.
    """
    if hasattr(env, "states_of"):
        return check_grid(demos, env)
    can = capabilities(env)
    if can.model is not None:
        return check_grid(demos, can.model)
    if can.replay_episodes is not None:
        return check_episodes(demos, can.replay_episodes)
    names = feature_names(env)
    always = evidence.shortness(demos, can.horizon)
    with quiet():
        stepper = find_stepper(env)
        why = "its state cannot be set (it would need get_state and set_state)"
        if stepper is not None and stepper.own_error <= KNOWN_DYNAMICS:
            replay = _Replay(demos, stepper, every, seed)
            if len(replay.random):
                return replay.check(names, always, reference)
            why = "every observation is clipped"
        elif stepper is not None:
            why = "its observations do not show enough of its state, or its steps are random"
    text = f"not replayed, because {why}; only statistics were looked at"
    findings = (Finding("note", text), *evidence.statistics(demos, names), *always)
    return Check(NOT_REPLAYED, findings, steps=demos.n_steps)


def check_in(env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations, *, every: bool = False) -> Check:
    """Replay demonstrations in an environment by its id. One without a single version is not replayed."""
    model = exact_model(env_id, env_kwargs)
    if model is not None:
        return check(demos, model)
    if find_spec(env_id).entry_point is None:
        note = Finding("note", "not replayed, because the environment has no single version")
        return Check(NOT_REPLAYED, (note, *evidence.statistics(demos), *evidence.shortness(demos, None)))
    env = make(env_id, **env_kwargs)
    try:
        return check(demos, env, every=every)
    finally:
        env.close()


class _Replay:
    """A sample of recorded steps beside what the environment makes of them."""

    def __init__(self, demos: Demonstrations, stepper: Stepper, every: bool, seed: int) -> None:
        self.demos, self.stepper = demos, stepper
        self.before, actions, self.after = evidence.tables(demos)
        self.actions = demos.actions if demos.actions.ndim == 1 else actions
        self.scale = evidence.change_scale(self.before, self.after)
        chosen, at_random = self._chosen(actions, every, np.random.default_rng(seed))
        self.chosen = chosen[stepper.shows(self.before[chosen])]
        self.random = np.flatnonzero(np.isin(self.chosen, at_random))
        """Positions among the chosen steps of those drawn at random."""

    def _chosen(self, actions: Array, every: bool, rng: np.random.Generator) -> tuple[Array, Array]:
        """(steps to replay, those of them that are drawn at random)."""
        demos, at_random = self.demos, rng.permutation(self.demos.n_steps)
        if every:
            return np.sort(at_random), at_random
        at_random = at_random[:SAMPLE]
        suspects = np.argsort(-evidence.residuals(self.before, actions, self.after)[0])[:SUSPECTS]
        ends = rng.permutation(demos.step_offsets + demos.lengths - 1)[:ENDS]
        return np.unique(np.concatenate([at_random, suspects, ends])), at_random

    def check(self, names: Names, always: list[Finding], reference: Demonstrations | None) -> Check:
        """Take the steps, compare, and judge."""
        demos, stepper, chosen = self.demos, self.stepper, self.chosen
        self.outcomes = [stepper.step(self.before[i], self.actions[i]) for i in chosen]
        by_entry = deviations(rows_of(self.outcomes), self.after[chosen], self.scale)
        size = np.sqrt((by_entry**2).mean(axis=1))
        floor = stepper.own_error
        bound = max(TOLERANCE, min(2.0 * floor, LOOSEST))
        self.by_shift = {0: _mean(size[self.random]), **{shift: self._shifted(shift) for shift in (-1, 1)}}
        entry_error = np.median(by_entry[self.random], axis=0)
        labels = names or tuple(f"obs[{i}]" for i in range(self.before.shape[1]))
        entries = tuple((labels[j], float(entry_error[j])) for j in np.argsort(-entry_error))
        stray = chosen[size > (STRAY if floor < 1e-3 else FAR)]
        fits = float(np.median(size[self.random])) <= bound
        verdict, text = self._verdict(fits, stray, labels, reference)
        findings = [Finding({FITS: "good", VERSION: "doubt"}.get(verdict, "wrong"), text)]
        if verdict in (FITS, JOINED):
            findings += self._rewards(bound if verdict == FITS else max(bound, 0.1)) + self._costs() + self._ends()
        if stepper.hidden:
            listed = ", ".join(stepper.hidden[:4])
            findings.append(Finding("note", f"the observations do not show {listed}: that part could not be checked"))
        return Check(verdict, (*findings, *always), len(chosen), demos.n_steps, self.by_shift, entries)

    def _shifted(self, shift: int) -> float:
        """Mean error (1) with the action of a neighbouring row of the same trajectory."""
        steps = self.chosen[self.random][:SHIFTS]
        first, which = self.demos.step_offsets, np.searchsorted(self.demos.step_offsets, steps, side="right") - 1
        other = steps + shift
        inside = (other >= first[which]) & (other < (first + self.demos.lengths)[which])
        steps, other = steps[inside], other[inside]
        if not len(steps):
            return float("nan")
        simulated = self.stepper.steps(self.before[steps], self.actions[other])
        return _mean(error_sizes(simulated, self.after[steps], self.scale))

    def _verdict(
        self, fits: bool, stray: Array, labels: tuple[str, ...], reference: Demonstrations | None
    ) -> tuple[str, str]:
        """(verdict, in words)."""
        by_shift, here = self.by_shift, self.by_shift[0]
        shift = min((-1, 1), key=lambda s: np.nan_to_num(by_shift[s], nan=np.inf))
        if here > TOLERANCE and by_shift[shift] < min(0.4 * here, KNOWN_DYNAMICS):
            row = "next" if shift > 0 else "previous"
            return SHIFTED, (
                f"shifted by one: a step fits with the action of the {row} row (error {by_shift[shift]:.2g}, without "
                f"the shift {here:.2g}). Import the original file with --shift {shift}"
            )
        if fits and len(stray):
            return JOINED, _stray_text(self.demos, stray)
        if fits:
            return FITS, f"fits: a replayed step lands {here:.2g} of a usual change away from the recorded one"
        at_random = self.chosen[self.random]
        sample = Sample(self.before[at_random], self.actions[at_random], self.after[at_random])
        explanation = diagnose(self.stepper, sample, labels, here, reference)
        if explanation is not None:
            return UNITS, f"another unit or order: {explanation} (error {here:.2g})"
        if here <= KNOWN_DYNAMICS and here < 0.7 * np.nan_to_num(by_shift[shift], nan=np.inf):
            return VERSION, (
                f"another simulator version: a replayed step lands {here:.2g} of a usual change away (0 is the same "
                f"simulator, 1 another task). What is learned from it may be off by as much"
            )
        return OTHER, (
            f"not this task: a replayed step lands {here:.2g} usual changes away, with neighbouring actions "
            f"{by_shift[-1]:.2g} and {by_shift[1]:.2g}. Are these the entries of this environment, in its order and "
            "units?"
        )

    # -- rewards, costs, ends -----------------------------------------------------------------------------------------

    def _rewards(self, bound: float) -> list[Finding]:
        demos, recorded = self.demos, self.demos.rewards[self.chosen]
        if not demos.rewards.any():
            return [Finding("doubt", "all recorded rewards are 0: returns cannot be compared")]
        simulated = np.array([outcome.reward for outcome in self.outcomes])
        scale = max(float(demos.rewards.std()), float(simulated.std()), 1e-3 * float(np.abs(simulated).max()), 1e-9)
        off = np.abs(recorded - simulated) / scale
        share = float((off > max(0.05, 3 * bound)).mean())
        if share < 0.05:
            return [Finding("good", "the rewards are the environment's")]
        design = np.column_stack([simulated, np.ones(len(simulated))])
        (factor, offset), *_ = np.linalg.lstsq(design, recorded, rcond=None)
        left = np.abs(design @ [factor, offset] - recorded) / max(float(recorded.std()), 1e-9)
        if factor > 0 and np.quantile(left, 0.9) < 0.05:
            return [Finding("doubt", f"the rewards are {factor:.4g} times the environment's, plus {offset:.3g}")]
        return [
            Finding(
                "doubt",
                f"{percent(share)} of the rewards are not the environment's (recorded {recorded.mean():.4g} per step, "
                f"here {simulated.mean():.4g}): returns cannot be compared (`tacit demos import --rewards env`)",
            )
        ]

    def _costs(self) -> list[Finding]:
        costs = self.demos.costs
        if costs is None or any(outcome.cost is None for outcome in self.outcomes):
            return []
        simulated = np.array([outcome.cost for outcome in self.outcomes], np.float64)
        share = float(((costs[self.chosen] > 0) != (simulated > 0)).mean())
        if share < 0.01:
            return [Finding("good", "the costs are the environment's")]
        words = f"{percent(share)} of the costs are not the environment's: was there another constraint?"
        return [Finding("doubt", words)]

    def _ends(self) -> list[Finding]:
        demos, chosen = self.demos, self.chosen
        which = {int(step): i for i, step in enumerate(demos.step_offsets + demos.lengths - 1)}
        ended = np.array([outcome.terminated for outcome in self.outcomes])
        on_end = np.array([int(step) in which for step in chosen])
        marked = np.array([int(step) in which and bool(demos.terminated[which[int(step)]]) for step in chosen])
        unmarked, untrue = int((ended & on_end & ~marked).sum()), int((~ended & marked).sum())
        findings = [
            Finding("doubt", f"{count} of {int(on_end.sum())} trajectories {what}")
            for count, what in (
                (unmarked, "end in the environment, and are not marked"),
                (untrue, "are marked as ended; the environment goes on"),
            )
            if count
        ]
        goes_on = np.flatnonzero(ended & ~on_end)
        if len(goes_on):
            place = demos.where("actions", int(chosen[goes_on[0]]))
            findings.append(Finding("wrong", f"{place}: the environment ends here, and the trajectory goes on"))
        return findings


def _mean(sizes: Array) -> float:
    """Mean error, each step counted as 2 at most. (A median would miss a shift where actions seldom change.)"""
    return float(np.minimum(sizes, 2.0).mean())


def _stray_text(demos: Demonstrations, steps: Array) -> str:
    more = f" and {len(steps) - 1} more of the replayed ones" if len(steps) > 1 else ""
    return (
        f"steps that do not follow: {demos.where('actions', int(steps[0]))}{more} cannot lead where the file says. "
        "All other replayed steps do. Are episodes joined, or rows missing? Cut the trajectories there"
    )


# ---------------------------------------------------------------------------------------------------------------------
# Gridworlds


def check_grid(demos: Demonstrations, grid: Any) -> Check:
    """Log-probability of every move under the exact model, with the actions of this row and of its neighbours.

    Cells, starts, goals, rewards and costs are checked in `check.problems`, move by move.
    """
    states = grid.states_of(demos.observations)
    short = evidence.shortness(demos, grid.horizon)
    if (states < 0).any() or demos.actions.dtype.kind not in "iu":
        text = "not this task: there are cells or actions that the map does not have"
        return Check(OTHER, (Finding("wrong", text), *short), steps=demos.n_steps)
    before, after = states[demos.rows_before], states[demos.rows_before + 1]
    surprise = {shift: _surprise(demos, grid, before, after, shift) for shift in (-1, 0, 1)}
    best = min(surprise, key=lambda shift: surprise[shift])
    impossible = probability(grid, before, demos.actions, after) <= 0
    if best != 0 and surprise[best] < 0.6 * surprise[0] - 0.05:
        row = "next" if best > 0 else "previous"
        text = f"shifted by one: the moves fit the actions of the {row} row. Import the original with --shift {best}"
        result, level = SHIFTED, "wrong"
    elif impossible.any():
        share = float(impossible.mean())
        place = demos.where("actions", int(np.flatnonzero(impossible)[0]))
        few = share < 0.1
        result, level = JOINED if few else UNITS, "wrong"
        meaning = "are episodes joined, or is the map another?" if few else "are actions numbered differently?"
        text = f"{result}: {percent(share)} of the moves are impossible here, the first at {place}: {meaning}"
    else:
        result, level, text = FITS, "good", "fits: every move is possible in the exact model"
    return Check(result, (Finding(level, text), *short), demos.n_steps, demos.n_steps, surprise)


def probability(grid: Any, before: Array, actions: Array, after: Array) -> Array:
    """(n,) of moving from a state to another with an action, under the exact model."""
    valid = (actions >= 0) & (actions < grid.n_actions)
    safe = np.where(valid, actions, 0)
    reached = grid.targets[before] == after[:, None]
    return np.where(valid, (reached * grid.outcome_probabilities[before, safe]).sum(axis=1), 0.0)


def _surprise(demos: Demonstrations, grid: Any, before: Array, after: Array, shift: int) -> float:
    """Mean of -log(probability): 0 if every move was certain, 6.9 if none was possible."""
    inner = np.ones(demos.n_steps, bool)
    if shift:
        inner[demos.step_offsets if shift < 0 else demos.step_offsets + demos.lengths - 1] = False
    rows = np.flatnonzero(inner)
    if not len(rows):
        return np.inf
    chance = probability(grid, before[rows], demos.actions[rows + shift], after[rows])
    return float(np.log(1.001 / (chance + 0.001)).mean())


# ---------------------------------------------------------------------------------------------------------------------
# Whole episodes


def check_episodes(demos: Demonstrations, replay: Callable[[Array, Array, Array], Replayed]) -> Check:
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
        return Check(OTHER, findings, steps=demos.n_steps)
    before, _, after = evidence.tables(demos)
    size = error_sizes(replayed.observations, after, evidence.change_scale(before, after))
    stray = np.flatnonzero(size > STRAY)
    median = float(np.median(size))
    if median <= TOLERANCE and not len(stray):
        result, level, text = FITS, "good", f"fits: every episode leads where it did (error {median:.2g})"
    elif 0 < len(stray) < 0.2 * len(size):
        result, level = JOINED, "wrong"
        text = f"steps that do not follow: from {demos.where('actions', int(stray[0]))} on an episode leads elsewhere"
    else:
        result, level = OTHER, "wrong"
        text = (
            f"not this task: the episodes lead elsewhere (error {median:.2g}). Other units, order or rows of actions?"
        )
    findings = (Finding(level, text), *(_compared(demos, replayed) if result == FITS else ()), *short)
    return Check(result, findings, demos.n_steps, demos.n_steps, {0: median})


def _compared(demos: Demonstrations, replayed: Replayed) -> list[Finding]:
    findings = []
    different = np.abs(replayed.rewards - demos.rewards) > 1e-3
    if different.any():
        findings.append(Finding("doubt", f"{percent(different.mean())} of the rewards are not the environment's"))
    if demos.costs is not None and ((demos.costs > 0) != (replayed.costs > 0)).any():
        findings.append(Finding("doubt", "the costs are not the environment's: was there another constraint?"))
    count = int((replayed.ended != demos.terminated).sum())
    if count:
        findings.append(Finding("doubt", f"{count} trajectories end differently from what the file says"))
    return findings
