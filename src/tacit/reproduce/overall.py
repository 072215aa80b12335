"""All groups of a comparison together: interquartile means, who is likely the better one, performance profiles.

Groups are tasks (robots, stochasticities); only seeds that a row has in all of them count. Intervals come from
resampling the seeds within each group: with a single seed nothing is known of the spread, and none is given.
(Not an experiment itself.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.reproduce.compare import groups_in, rows_in, runs_of
from tacit.reproduce.records import header, shown

if TYPE_CHECKING:
    from tacit.reproduce.compare_plots import Numbers
    from tacit.stats import Interval

RESAMPLES = 50_000


@dataclass(frozen=True)
class Score:
    """A number of a run by which rows are judged."""

    title: str
    of: Numbers
    levels: tuple[float, ...]
    """Where the profile is read off: share of runs above a level, or not above it where less is better."""
    less_is_better: bool = False
    digits: int = 2


def _ratio(run: Mapping[str, Any]) -> float | None:
    own, earned = run.get("stochastic", {}).get("terminated_return"), shown(run)
    return own / earned if own is not None and earned else None


def _broken(run: Mapping[str, Any]) -> float | None:
    share = run.get("stochastic", {}).get("violation_rate_episode")
    return None if share is None else 100.0 * share


RATIO = Score("terminated return over demonstrations", _ratio, (0.25, 0.5, 0.75, 0.9, 1.0))
BROKEN = Score("violating episodes, %", _broken, (0.0, 1.0, 5.0, 20.0), less_is_better=True, digits=1)


def table(
    results: Mapping[str, Any],
    groups: Sequence[str],
    rows: Sequence[str],
    ours: str = "mce",
    scores: Sequence[Score] = (RATIO, BROKEN),
) -> str:
    """A table a score and its profile; "" where no row has it in all groups. `ours` is compared with the others."""
    groups, rows = groups_in(results, groups), rows_in(results, rows)
    parts = []
    for score in scores:
        values = {row: values_of(results, groups, row, score) for row in rows}
        if any(found is not None for found in values.values()):
            parts += [_means(groups, values, score, ours), _profile(values, score)]
    return "\n\n".join(parts) + "\n\n" if parts else ""


def values_of(results: Mapping[str, Any], groups: Sequence[str], row: str, score: Score) -> np.ndarray | None:
    """(seeds, groups) of the seeds that all groups have; None where there are none."""
    columns = []
    for group in groups:
        found = {run["seed"]: score.of(run) for run in runs_of(results, group, row)}
        columns.append({seed: value for seed, value in found.items() if value is not None})
    seeds = sorted(set.intersection(*map(set, columns))) if columns else []
    return np.array([[column[seed] for column in columns] for seed in seeds]) if seeds else None


def _means(groups: Sequence[str], values: Mapping[str, np.ndarray | None], score: Score, ours: str) -> str:
    from tacit.stats import bootstrap_interval, probability_of_improvement_interval

    word = "lower" if score.less_is_better else "higher"
    lines = [f"**all of {'; '.join(groups)}: {score.title}**", ""]
    lines += header(["", "seeds x groups", "IQM [95 %]", f"P({ours} {word}), ties half [95 %]"])
    sign = -1.0 if score.less_is_better else 1.0
    against = values.get(ours)
    for row, found in values.items():
        if found is None:
            lines.append(f"| {row} | - | - | - |")
            continue
        cells = [row, f"{found.shape[0]} x {found.shape[1]}"]
        cells += _ranges(bootstrap_interval(found, rng=_rng(), resamples=RESAMPLES), len(found), score.digits)
        if row == ours or against is None:
            cells.append("-")
        else:
            chance = probability_of_improvement_interval(sign * against, sign * found, rng=_rng(), resamples=RESAMPLES)
            cells += _ranges(chance, min(len(against), len(found)))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _profile(values: Mapping[str, np.ndarray | None], score: Score) -> str:
    from tacit.stats import Interval, performance_profile_interval

    word = "not above" if score.less_is_better else "above"
    lines = [f"**performance profile**: share of runs with {score.title.removesuffix(', %')} {word}", ""]
    unit = " %" if score.title.endswith("%") else ""
    lines += header(["", *(f"{level:g}{unit}" for level in score.levels)])
    for row, found in values.items():
        if found is not None:
            share = performance_profile_interval(found, score.levels, rng=_rng(), resamples=RESAMPLES)
            if score.less_is_better:
                share = Interval(1.0 - share.value, 1.0 - share.high, 1.0 - share.low)
            lines.append("| " + " | ".join([row, *_ranges(share, len(found))]) + " |")
    return "\n".join(lines)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _ranges(interval: Interval, seeds: int, digits: int = 2) -> list[str]:
    """Values with their intervals, if there are at least two seeds to know them by."""
    three = (np.atleast_1d(getattr(interval, name)) + 0.0 for name in ("value", "low", "high"))  # + 0: no -0.00
    return [
        f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]" if seeds > 1 else f"{value:.{digits}f}"
        for value, low, high in zip(*three, strict=True)
    ]
