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

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.demos import evidence
from tacit.demos.data import Demonstrations
from tacit.demos.diagnosis import Sample, diagnose
from tacit.demos.evidence import Finding
from tacit.demos.replay_whole import check_episodes, check_grid
from tacit.demos.stepping import Outcome, Stepper, find_stepper, quiet
from tacit.demos.verdict import (
    FAR,
    FITS,
    JOINED,
    KNOWN,
    NOT_REPLAYED,
    OTHER,
    SHIFTED,
    STRAY,
    TOLERANCE,
    UNITS,
    VERSION,
    Check,
    deviations,
    error_sizes,
)
from tacit.envs.capabilities import capabilities
from tacit.envs.options import exact_model
from tacit.envs.registry import feature_names, find_spec, make

Array = NDArray[Any]
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
        if stepper is not None and own_error(stepper) <= KNOWN:
            return _replayed(demos, stepper, names, always, every, seed, reference)
    why = "its state cannot be set"
    if stepper is not None:
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


def own_error(stepper: Stepper) -> float:
    """Error (1) of the environment's own steps, 95th percentile: what it cannot repeat, or does not show."""
    own = stepper.own
    after = np.stack([outcome.observation for outcome in own.after]).astype(np.float64)
    clear = np.flatnonzero(stepper.shows(own.before))
    if len(clear) < 10:
        return float("inf")
    some = clear[np.linspace(0, len(clear) - 1, min(60, len(clear))).astype(int)]
    again = [stepper.step(own.before[i], own.actions[i]) for i in some]
    sizes = error_sizes(_stack(again), after[some], evidence.change_scale(own.before, after))
    return float(np.quantile(sizes, 0.95))


def _stack(outcomes: Sequence[Outcome]) -> Array:
    return np.stack([np.ravel(outcome.observation) for outcome in outcomes]).astype(np.float64)


def _replayed(
    demos: Demonstrations,
    stepper: Stepper,
    names: tuple[str, ...] | None,
    always: list[Finding],
    every: bool,
    seed: int,
    reference: Demonstrations | None,
) -> Check:
    before, actions, after = evidence.tables(demos)
    given = demos.actions if demos.actions.ndim == 1 else actions
    scale = evidence.change_scale(before, after)
    rng = np.random.default_rng(seed)
    chosen, random = _chosen(demos, before, actions, after, every, rng)
    clear = stepper.shows(before[chosen])
    if not clear[random].any():
        note = Finding("note", "not replayed, because every observation is clipped")
        return Check(NOT_REPLAYED, (note, *evidence.statistics(demos, names), *always), steps=demos.n_steps)
    kept = np.flatnonzero(clear)
    chosen, random = chosen[kept], np.flatnonzero(np.isin(kept, random))
    outcomes = [stepper.step(before[i], given[i]) for i in chosen]
    by_entry = deviations(_stack(outcomes), after[chosen], scale)
    size = np.sqrt((by_entry**2).mean(axis=1))
    floor = own_error(stepper)
    bound = max(TOLERANCE, min(2.0 * floor, LOOSEST))
    by_shift = {0: _mean(size[random])}
    for shift in (-1, 1):
        by_shift[shift] = _shifted(demos, stepper, before, given, after, scale, chosen[random][:SHIFTS], shift)
    entry_error = np.median(by_entry[random], axis=0)
    labels = names or tuple(f"obs[{i}]" for i in range(before.shape[1]))
    order = np.argsort(-entry_error)
    entries = tuple((labels[j], float(entry_error[j])) for j in order)
    stray = size > (STRAY if floor < 1e-3 else FAR)
    sample = Sample(before[chosen[random]], given[chosen[random]], after[chosen[random]])
    fits = float(np.median(size[random])) <= bound
    verdict, text = _verdict(demos, stepper, by_shift, fits, stray, chosen, sample, labels, reference)
    level = {FITS: "good", VERSION: "doubt"}.get(verdict, "wrong")
    findings = [Finding(level, text)]
    if verdict in (FITS, JOINED):
        loose = bound if verdict == FITS else max(bound, 0.1)
        findings += _rewards(demos, chosen, outcomes, loose, stepper) + _costs(demos, chosen, outcomes)
        findings += _ends(demos, chosen, outcomes)
    if stepper.hidden:
        listed = ", ".join(stepper.hidden[:4])
        findings.append(Finding("note", f"the observations do not show {listed}: that part could not be checked"))
    return Check(verdict, (*findings, *always), len(chosen), demos.n_steps, by_shift, entries)


def _mean(sizes: Array) -> float:
    """The mean, in which one step that is far off counts 2: actions that seldom change make most steps fit anyhow."""
    return float(np.minimum(sizes, 2.0).mean())


def _chosen(
    demos: Demonstrations, before: Array, actions: Array, after: Array, every: bool, rng: np.random.Generator
) -> tuple[Array, Array]:
    """(steps to replay, positions among them of the ones drawn at random)."""
    drawn = rng.permutation(demos.n_steps)
    if every:
        return np.sort(drawn), np.arange(demos.n_steps)
    drawn = drawn[:SAMPLE]
    suspects = np.argsort(-evidence.residuals(before, actions, after)[0])[:SUSPECTS]
    last = demos.step_offsets + demos.lengths - 1
    ends = rng.permutation(last)[:ENDS]
    chosen = np.unique(np.concatenate([drawn, suspects, ends]))
    return chosen, np.flatnonzero(np.isin(chosen, drawn))


def _shifted(
    demos: Demonstrations,
    stepper: Stepper,
    before: Array,
    actions: Array,
    after: Array,
    scale: Array,
    some: Array,
    shift: int,
) -> float:
    """Mean error (1) with the action of a neighbouring row of the same trajectory."""
    which = np.searchsorted(demos.step_offsets, some, side="right") - 1
    other = some + shift
    inside = (other >= demos.step_offsets[which]) & (other < (demos.step_offsets + demos.lengths)[which])
    some, other = some[inside], other[inside]
    if not len(some):
        return float("nan")
    simulated = _stack([stepper.step(before[i], actions[j]) for i, j in zip(some, other, strict=True)])
    return _mean(error_sizes(simulated, after[some], scale))


def _verdict(
    demos: Demonstrations,
    stepper: Stepper,
    by_shift: dict[int, float],
    fits: bool,
    stray: Array,
    chosen: Array,
    sample: Sample,
    labels: tuple[str, ...],
    reference: Demonstrations | None,
) -> tuple[str, str]:
    """(verdict, in words)."""
    here = by_shift[0]
    shift = min((-1, 1), key=lambda s: np.nan_to_num(by_shift[s], nan=np.inf))
    if here > TOLERANCE and by_shift[shift] < min(0.4 * here, KNOWN):
        row = "next" if shift > 0 else "previous"
        return SHIFTED, (
            f"shifted by one: a step fits with the action of the {row} row (error {by_shift[shift]:.2g}, without the "
            f"shift {here:.2g}). Import the original file with --shift {shift}"
        )
    if fits:
        if stray.any():
            return JOINED, _stray_text(demos, chosen[stray])
        return FITS, f"fits: a replayed step lands {here:.2g} of a usual change away from the recorded one"
    explanation = diagnose(stepper, sample, labels, here, reference)
    if explanation is not None:
        return UNITS, f"another unit or order: {explanation} (error {here:.2g})"
    if here <= KNOWN and here < 0.7 * np.nan_to_num(by_shift[shift], nan=np.inf):
        return VERSION, (
            f"another simulator version: a replayed step lands {here:.2g} of a usual change away (0 is the same "
            f"simulator, 1 another task). What is learned from it may be off by as much"
        )
    return OTHER, (
        f"not this task: a replayed step lands {here:.2g} usual changes away, with neighbouring actions "
        f"{by_shift[-1]:.2g} and {by_shift[1]:.2g}. Are these the entries of this environment, in its order and units?"
    )


def _stray_text(demos: Demonstrations, steps: Array) -> str:
    more = f" and {len(steps) - 1} more of the replayed ones" if len(steps) > 1 else ""
    return (
        f"steps that do not follow: {demos.where('actions', int(steps[0]))}{more} cannot lead where the file says. "
        "The others do. Are episodes joined, or rows missing? Cut the trajectories there"
    )


# ---------------------------------------------------------------------------------------------------------------------
# Rewards, costs, ends


def _rewards(
    demos: Demonstrations, chosen: Array, outcomes: Sequence[Outcome], bound: float, stepper: Stepper
) -> list[Finding]:
    recorded = demos.rewards[chosen]
    simulated = np.array([outcome.reward for outcome in outcomes])
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
            f"{share:.0%} of the rewards are not the environment's (recorded {recorded.mean():.4g} per step, here "
            f"{simulated.mean():.4g}): returns cannot be compared. `tacit demos import --rewards env` replaces them",
        )
    ]


def _costs(demos: Demonstrations, chosen: Array, outcomes: Sequence[Outcome]) -> list[Finding]:
    if demos.costs is None or any(outcome.cost is None for outcome in outcomes):
        return []
    simulated = np.array([outcome.cost for outcome in outcomes], np.float64)
    share = float(((demos.costs[chosen] > 0) != (simulated > 0)).mean())
    if share < 0.01:
        return [Finding("good", "the costs are the environment's")]
    return [Finding("doubt", f"{share:.0%} of the costs are not the environment's: was there another constraint?")]


def _ends(demos: Demonstrations, chosen: Array, outcomes: Sequence[Outcome]) -> list[Finding]:
    last = demos.step_offsets + demos.lengths - 1
    which = {int(step): i for i, step in enumerate(last)}
    findings = []
    ended = np.array([outcome.terminated for outcome in outcomes])
    on_end = np.array([int(step) in which for step in chosen])
    marked = np.array([bool(demos.terminated[which[int(step)]]) if int(step) in which else False for step in chosen])
    unmarked, untrue = int((ended & on_end & ~marked).sum()), int((~ended & marked).sum())
    if unmarked:
        findings.append(
            Finding(
                "doubt", f"{unmarked} of {int(on_end.sum())} trajectories end in the environment, and are not marked"
            )
        )
    if untrue:
        findings.append(
            Finding(
                "doubt", f"{untrue} of {int(on_end.sum())} trajectories are marked as ended; the environment goes on"
            )
        )
    goes_on = np.flatnonzero(ended & ~on_end)
    if len(goes_on):
        place = demos.where("actions", int(chosen[goes_on[0]]))
        findings.append(Finding("wrong", f"{place}: the environment ends here, and the trajectory goes on"))
    return findings
