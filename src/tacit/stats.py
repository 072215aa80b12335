"""Statistics for reporting results: aggregates over runs, intervals, and the quality of a cost as a detector.

Pure functions of arrays. Scores are arranged as (runs, tasks), one run a seed; a plain (runs,) array is one task. The
definitions of the aggregates are those of Agarwal et al. 2021 ("Deep reinforcement learning at the edge of the
statistical precipice", rliable). Nothing here uses global random state: what resamples takes a numpy Generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import UserError

Floats = NDArray[np.float64]
# Resampled scores held in memory at once; the bootstrap works in chunks of this many numbers.
_CHUNK = 4_000_000


class Interval(NamedTuple):
    """An estimate with its confidence limits; floats, or arrays of one shape."""

    value: Any
    low: Any
    high: Any


def _finite(values: ArrayLike, what: str, ndim: int | None = None) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        raise UserError(f"{what} are empty: there is nothing to average")
    if ndim is not None and array.ndim != ndim:
        raise UserError(f"{what} must have {ndim} dimension(s), got an array of shape {array.shape}")
    if not np.isfinite(array).all():
        raise UserError(f"{what} contain NaN or infinite entries; leave failed runs out explicitly or score them")
    return array


def _check_confidence(confidence: float) -> None:
    if not 0.0 < confidence < 1.0:
        raise UserError(f"confidence must lie strictly between 0 and 1, got {confidence}")


# ---------------------------------------------------------------------------------------------------------------------
# One sample


def mean_and_standard_error(values: ArrayLike, axis: int = 0) -> tuple[Any, Any]:
    """Mean and its standard error s/sqrt(n), s with n - 1 in the denominator; the error of one value is NaN."""
    array = _finite(values, "values")
    n = array.shape[axis]
    mean = array.mean(axis=axis)
    spread = np.full_like(mean, np.nan) if n < 2 else array.std(axis=axis, ddof=1) / math.sqrt(n)
    return (float(mean), float(spread)) if np.ndim(mean) == 0 else (mean, spread)


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Mean of a (n,) sample with Student's t interval; infinitely wide for a single value."""
    from scipy.stats import t

    _check_confidence(confidence)
    array = _finite(values, "values", ndim=1)
    mean, error = mean_and_standard_error(array)
    if len(array) < 2:
        return Interval(mean, -math.inf, math.inf)
    half = float(t.ppf(0.5 + confidence / 2, len(array) - 1)) * error
    return Interval(mean, mean - half, mean + half)


def clopper_pearson(
    successes: int, trials: int, confidence: float = 0.95, side: Literal["two-sided", "upper", "lower"] = "two-sided"
) -> Interval:
    """Exact binomial interval of a proportion; it never claims more than the count supports, also at 0 or all.

    `side="upper"` gives the one-sided bound: 0 of 100 shows "at most 3.0 %" at 95 % confidence (about 3/n), where the
    two-sided interval ends at 3.6 %.
    """
    from scipy.stats import beta

    _check_confidence(confidence)
    if trials < 1 or not 0 <= successes <= trials:
        raise UserError(f"a proportion needs 0 <= successes <= trials and trials >= 1, got {successes} of {trials}")
    tail = (1 - confidence) / 2 if side == "two-sided" else 1 - confidence
    low, high = 0.0, 1.0
    if side != "upper" and successes > 0:
        low = float(beta.ppf(tail, successes, trials - successes + 1))
    if side != "lower" and successes < trials:
        high = float(beta.ppf(1 - tail, successes + 1, trials - successes))
    return Interval(successes / trials, low, high)


def rate_over_runs(
    counts: ArrayLike, trials: ArrayLike, *, rng: np.random.Generator, resamples: int = 20_000, confidence: float = 0.95
) -> Interval:
    """Mean rate of several runs, with one-sided bounds that respect both the runs and their episodes.

    counts, trials: (runs,). The bounds resample the runs, then the episodes of each. Redrawing k of n episodes would
    never leave 0, so the rate of a run is drawn from the distributions that bound it in `clopper_pearson`, Beta(k, n -
    k + 1) below and Beta(k + 1, n - k) above. For a single run the bounds are those of `clopper_pearson`, one-sided.
    """
    _check_confidence(confidence)
    k, n = _finite(counts, "counts", ndim=1), _finite(trials, "trials", ndim=1)
    if k.shape != n.shape or (n < 1).any() or (k < 0).any() or (k > n).any():
        raise UserError("rates need 0 <= counts <= trials and trials >= 1 in every run")
    chosen = rng.integers(len(k), size=(resamples, len(k)))
    k, n, value = k[chosen], n[chosen], float((k / n).mean())
    low = np.where(k > 0, rng.beta(np.maximum(k, 1.0), n - k + 1.0), 0.0).mean(axis=1)
    high = np.where(k < n, rng.beta(k + 1.0, np.maximum(n - k, 1.0)), 1.0).mean(axis=1)
    return Interval(value, float(np.quantile(low, 1 - confidence)), float(np.quantile(high, confidence)))


# ---------------------------------------------------------------------------------------------------------------------
# Aggregates over runs and tasks


def iqm(scores: ArrayLike, axis: int | tuple[int, ...] | None = None) -> Any:
    """Interquartile mean: the mean of what is left when a quarter of the values is cut off at each end.

    floor(n / 4) values are cut at each end of the n values pooled over `axis` (all runs and tasks by default).
    """
    array = np.asarray(scores, dtype=np.float64)
    axes = tuple(range(array.ndim)) if axis is None else tuple(np.atleast_1d(axis) % array.ndim)
    kept = [i for i in range(array.ndim) if i not in axes]
    pooled = array.transpose(*kept, *axes).reshape(*(array.shape[i] for i in kept), -1)
    cut = pooled.shape[-1] // 4
    middle = np.sort(pooled, axis=-1)[..., cut : pooled.shape[-1] - cut]
    result = middle.mean(axis=-1)
    return float(result) if np.ndim(result) == 0 else result


def optimality_gap(scores: ArrayLike, target: float = 1.0, axis: int | tuple[int, ...] | None = None) -> Any:
    """How far the scores fall short of `target` on average; a score above it does not make up for one below."""
    result = target - np.minimum(np.asarray(scores, dtype=np.float64), target).mean(axis=axis)
    return float(result) if np.ndim(result) == 0 else result


def bootstrap_interval(
    scores: ArrayLike,
    statistic: Callable[..., Any] = iqm,
    *,
    rng: np.random.Generator,
    resamples: int = 50_000,
    confidence: float = 0.95,
) -> Interval:
    """Percentile interval of `statistic` by stratified bootstrap: runs are redrawn within each task.

    scores: (runs, tasks) or (runs,). `statistic(batch, axis=(-2, -1))` reduces (..., runs, tasks) to (...), like
    `numpy.mean`, `numpy.median` or `iqm`; it may append an axis (a profile), and then value, low and high are arrays.
    """
    array = _finite(scores, "scores")
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise UserError(f"scores must have shape (runs,) or (runs, tasks), got {array.shape}")
    draws = _resample([array], lambda batch: statistic(batch, axis=(-2, -1)), rng, resamples)
    return _percentiles(statistic(array, axis=(-2, -1)), draws, confidence)


def _resample(
    samples: Sequence[Floats], statistic: Callable[..., Any], rng: np.random.Generator, resamples: int
) -> Floats:
    """`statistic` of bootstrap copies (B, runs, tasks) of each sample, resampled independently: (resamples, ...)."""
    if resamples < 1:
        raise UserError(f"resamples must be at least 1, got {resamples}")
    chunk = max(1, _CHUNK // max(sample.size for sample in samples))
    parts = []
    for start in range(0, resamples, chunk):
        size = min(chunk, resamples - start)
        batches = []
        for sample in samples:
            runs, tasks = sample.shape
            rows = rng.integers(runs, size=(size, runs, tasks))
            batches.append(sample[rows, np.arange(tasks)])
        parts.append(np.asarray(statistic(*batches), dtype=np.float64))
    return np.concatenate(parts)


def _percentiles(value: Any, draws: Floats, confidence: float) -> Interval:
    _check_confidence(confidence)
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return Interval(value, float(low), float(high)) if np.ndim(low) == 0 else Interval(value, low, high)


def probability_of_improvement(x: ArrayLike, y: ArrayLike) -> float:
    """P(a run of X scores higher than a run of Y), ties counted half, averaged over tasks.

    x: (runs_x, tasks), y: (runs_y, tasks), or one task each as (runs,). Per task it is the Mann-Whitney U statistic
    over runs_x * runs_y.
    """
    return float(_improvement(*_paired_tasks(x, y)))


def probability_of_improvement_interval(
    x: ArrayLike, y: ArrayLike, *, rng: np.random.Generator, resamples: int = 2_000, confidence: float = 0.95
) -> Interval:
    """`probability_of_improvement` with a stratified bootstrap interval; X and Y are resampled independently."""
    first, second = _paired_tasks(x, y)
    return _percentiles(
        float(_improvement(first, second)), _resample([first, second], _improvement, rng, resamples), confidence
    )


def mean_difference_interval(
    x: ArrayLike, y: ArrayLike, *, rng: np.random.Generator, resamples: int = 10_000, confidence: float = 0.95
) -> Interval:
    """Mean of X less mean of Y, averaged over tasks, with a stratified bootstrap interval; shapes as above."""
    first, second = _paired_tasks(x, y)

    def difference(a: Floats, b: Floats) -> Any:
        return a.mean(axis=(-2, -1)) - b.mean(axis=(-2, -1))

    draws = _resample([first, second], difference, rng, resamples)
    return _percentiles(float(difference(first, second)), draws, confidence)


def _paired_tasks(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    first, second = (_finite(a, "scores") for a in (x, y))
    first, second = (a[:, None] if a.ndim == 1 else a for a in (first, second))
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        raise UserError(f"scores of X and Y must cover the same tasks, got shapes {first.shape} and {second.shape}")
    return first, second


def _improvement(x: Floats, y: Floats) -> Any:
    """(..., runs_x, tasks), (..., runs_y, tasks) -> (...)"""
    wins = np.zeros(x.shape[:-2])
    # One run of Y at a time: the full comparison would need runs_x * runs_y numbers for each resample.
    for run in range(y.shape[-2]):
        wins += ((np.sign(x - y[..., run, None, :]) + 1) / 2).mean(axis=(-2, -1))
    return wins / y.shape[-2]


def performance_profile(
    scores: ArrayLike, thresholds: ArrayLike, axis: int | tuple[int, ...] | None = None
) -> NDArray[np.float64]:
    """Share of scores strictly above each threshold, over all runs and tasks: (..., len(thresholds))."""
    array = np.asarray(scores, dtype=np.float64)
    return np.stack([(array > tau).mean(axis=axis) for tau in np.atleast_1d(thresholds)], axis=-1)


def performance_profile_interval(
    scores: ArrayLike,
    thresholds: ArrayLike,
    *,
    rng: np.random.Generator,
    resamples: int = 2_000,
    confidence: float = 0.95,
) -> Interval:
    """`performance_profile` with pointwise stratified bootstrap intervals."""
    statistic = partial(performance_profile, thresholds=thresholds)
    return bootstrap_interval(scores, statistic, rng=rng, resamples=resamples, confidence=confidence)


# ---------------------------------------------------------------------------------------------------------------------
# A cost as a detector of the true constraint


def auroc(scores: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Probability that a positive scores higher than a negative, ties counted half; NaN when a class is absent.

    scores, labels (bool) and weights (>= 0, the distribution over states) have one shape.
    """
    positive, negative, _ = _by_score(scores, labels, weights)
    below = np.concatenate([[0.0], np.cumsum(negative)[:-1]])
    total = positive.sum() * negative.sum()
    return float(positive @ (below + negative / 2) / total) if total > 0 else math.nan


def auprc(scores: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Average precision: sum of precision times the gain in recall as the threshold falls; NaN without positives.

    Equal scores enter together, so the value does not depend on their order. The level of a useless score is the share
    of positives, not one half.
    """
    positive, negative, _ = _by_score(scores, labels, weights)
    if not positive.sum() > 0:
        return math.nan
    hits, alarms = np.cumsum(positive[::-1]), np.cumsum((positive + negative)[::-1])
    precision = np.divide(hits, alarms, out=np.zeros_like(hits), where=alarms > 0)
    return float(precision @ positive[::-1] / hits[-1])


def iou_at(scores: ArrayLike, labels: ArrayLike, threshold: float, weights: ArrayLike | None = None) -> float:
    """Intersection over union of {score > threshold} and the true set; NaN when both are empty."""
    positive, negative, levels = _by_score(scores, labels, weights)
    marked = levels > threshold
    union = positive.sum() + negative[marked].sum()
    return float(positive[marked].sum() / union) if union > 0 else math.nan


def best_iou(
    scores: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None, floor: float = -math.inf
) -> tuple[float, float]:
    """Largest `iou_at` over all thresholds >= `floor`, and the smallest threshold that attains it.

    With floor=0 a score of 0 is never marked: a cost that is zero everywhere then has IoU 0 instead of the share of
    positives.
    """
    positive, negative, levels = _by_score(scores, labels, weights)
    if not positive.sum() > 0:
        return math.nan, math.nan
    # Marking the levels from index i upwards, for every i that the floor allows, down to marking nothing.
    start = np.arange(int(np.searchsorted(levels, floor, side="right")), len(levels) + 1)
    hits = np.append(np.cumsum(positive[::-1])[::-1], 0.0)[start]
    alarms = np.append(np.cumsum(negative[::-1])[::-1], 0.0)[start]
    values = hits / (positive.sum() + alarms)
    best = int(np.argmax(values))
    below = np.concatenate([[np.nextafter(levels[0], -np.inf)], levels])[start[best]]
    return float(values[best]), float(max(below, floor))


def _by_score(scores: ArrayLike, labels: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats, Floats]:
    """Weight of the positives and of the negatives at each distinct score, and those scores, ascending."""
    values = _finite(scores, "scores").ravel()
    truth = np.asarray(labels)
    if truth.dtype != np.bool_:
        raise UserError(f"labels must be booleans (is the state constrained?), got dtype {truth.dtype}")
    mass = np.ones_like(values) if weights is None else _finite(weights, "weights").ravel()
    if truth.size != values.size or mass.size != values.size:
        raise UserError(f"scores, labels and weights must match, got {values.size}, {truth.size} and {mass.size}")
    if (mass < 0).any():
        raise UserError("weights must not be negative")
    levels, group = np.unique(values, return_inverse=True)
    positive, negative = np.zeros((2, len(levels)))
    np.add.at(positive, group, mass * truth.ravel())
    np.add.at(negative, group, mass * ~truth.ravel())
    return positive, negative, levels
