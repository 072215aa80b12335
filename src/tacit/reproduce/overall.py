"""Statistics over all groups of a comparison: means, interquartile means, chances of improvement, performance profiles.

Groups are tasks (robots, stochasticities); only seeds that a row has in all of them count. Intervals come from
resampling the seeds within each group: a single seed has no spread, and gets no interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.reproduce.columns import header, line
from tacit.reproduce.records import demonstrated, groups_in, number, rows_in, runs_of
from tacit.reproduce.results import Number, Record, Results
from tacit.stats import (
    Interval,
    bootstrap_interval,
    iqm,
    performance_profile_interval,
    probability_of_improvement_interval,
)

RESAMPLES = 50_000


@dataclass(frozen=True)
class Score:
    """A number of a run that rows are compared by."""

    title: str
    of: Number
    levels: tuple[float, ...]
    """Levels of the performance profile: the share of runs above each, or at most each if less is better."""
    less_is_better: bool = False
    digits: int = 2


def _ratio(run: Record) -> float | None:
    own, earned = run.get("stochastic", {}).get("terminated_return"), demonstrated(run)
    return own / earned if own is not None and earned else None


VIOLATING = number("stochastic", "violation_rate_episode", scale=100.0)
RATIO = Score("return before violation over demonstrations", _ratio, (0.25, 0.5, 0.75, 0.9, 1.0))
BROKEN = Score("violating episodes, %", VIOLATING, (0.0, 1.0, 5.0, 20.0), less_is_better=True, digits=1)


def table(
    results: Results,
    groups: Sequence[str],
    rows: Sequence[str],
    ours: str = "mce",
    scores: Sequence[Score] = (RATIO, BROKEN),
) -> str:
    """A table and a profile per score, comparing `ours` with the other rows; "" if no row has a score in all groups."""
    groups, rows = groups_in(results, groups), rows_in(results, rows)
    parts = []
    for score in scores:
        values = {row: values_of(results, groups, row, score) for row in rows}
        if any(array is not None for array in values.values()):
            parts += [_means(groups, values, score, ours), _profile(values, score)]
    return "\n\n".join(parts) + "\n\n" if parts else ""


def values_of(results: Results, groups: Sequence[str], row: str, score: Score) -> np.ndarray | None:
    """Scores (seeds, groups) of the seeds that every group has; None if there are none."""
    columns = []
    for group in groups:
        scores = {run["seed"]: score.of(run) for run in runs_of(results, group, row)}
        columns.append({seed: value for seed, value in scores.items() if value is not None})
    seeds = sorted(set.intersection(*map(set, columns))) if columns else []
    return np.array([[column[seed] for column in columns] for seed in seeds]) if seeds else None


def _means(groups: Sequence[str], values: Mapping[str, np.ndarray | None], score: Score, ours: str) -> str:
    word = "lower" if score.less_is_better else "higher"
    lines = [f"**all of {'; '.join(groups)}: {score.title}**", ""]
    lines += header(["", "seeds x groups", "mean [95 %]", "IQM [95 %]", f"P({ours} {word}), ties half [95 %]"])
    sign = -1.0 if score.less_is_better else 1.0
    against = values.get(ours)
    for row, scores in values.items():
        if scores is None:
            lines.append(f"| {row} | - | - | - | - |")
            continue
        cells = [row, f"{scores.shape[0]} x {scores.shape[1]}"]
        for statistic in (np.mean, iqm):
            middle = bootstrap_interval(scores, statistic, rng=_rng(), resamples=RESAMPLES)
            cells += _ranges(middle, len(scores), score.digits)
        if row == ours or against is None:
            cells.append("-")
        else:
            both = sign * against, sign * scores
            chance = probability_of_improvement_interval(*both, rng=_rng(), resamples=RESAMPLES)
            cells += _ranges(chance, min(len(against), len(scores)))
        lines.append(line(cells))
    return "\n".join(lines)


def _profile(values: Mapping[str, np.ndarray | None], score: Score) -> str:
    word = "not above" if score.less_is_better else "above"
    lines = [f"**performance profile**: share of runs with {score.title.removesuffix(', %')} {word}", ""]
    unit = " %" if score.title.endswith("%") else ""
    lines += header(["", *(f"{level:g}{unit}" for level in score.levels)])
    for row, scores in values.items():
        if scores is not None:
            share = performance_profile_interval(scores, score.levels, rng=_rng(), resamples=RESAMPLES)
            if score.less_is_better:
                share = Interval(1.0 - share.value, 1.0 - share.high, 1.0 - share.low)
            lines.append(line([row, *_ranges(share, len(scores))]))
    return "\n".join(lines)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _ranges(interval: Interval, seeds: int, digits: int = 2) -> list[str]:
    """Values with their intervals, if there are at least two seeds to estimate them from."""
    ends = (np.atleast_1d(getattr(interval, name)) + 0.0 for name in ("value", "low", "high"))  # + 0: no -0.00
    return [
        f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]" if seeds > 1 else f"{value:.{digits}f}"
        for value, low, high in zip(*ends, strict=True)
    ]
