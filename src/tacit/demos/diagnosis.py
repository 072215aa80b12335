"""Why steps do not fit: undo the usual mistakes one by one, and see which one makes the error vanish."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from tacit.demos.data import Demonstrations
from tacit.demos.evidence import change_scale, error_sizes, tables
from tacit.demos.stepping import Stepper, rows_of

Array = NDArray[Any]
FACTORS = (np.pi / 180, 180 / np.pi, 1e-3, 1e3, 1e-2, 1e2, 3.6, 1 / 3.6, -1.0)
"""Factors between recorded numbers and the environment's: degrees, milli-, centi-, km/h, and the sign."""
STEPS, SECONDS = 24, 2.0
"""Steps that are compared, and processor time: on a busy machine the verdict stays the same."""
FITS = 0.1
"""Median error that may be left for an explanation to be believed."""
FEW = 5
"""Entries of which every order is tried."""


class Sample(NamedTuple):
    """Recorded steps."""

    before: Array
    actions: Array
    after: Array


def diagnose(
    stepper: Stepper, sample: Sample, labels: tuple[str, ...], error: float, reference: Demonstrations | None
) -> str | None:
    """The mistake in words; None if none of those known here explains the error."""
    shortened = Sample(*(part[:STEPS] for part in sample))
    base = median_error(stepper, shortened)
    deadline = time.process_time() + SECONDS
    best, words = np.inf, None
    for text, candidate in _candidates(sample, labels, stepper, reference):
        left = median_error(stepper, Sample(*(part[:STEPS] for part in candidate)))
        if left < best:
            best, words = left, text
        if left < 0.1 * FITS or time.process_time() > deadline:
            break
    if words is not None and best < min(FITS, 0.3 * max(base, error)):
        return words
    if _looks_normalised(sample, stepper):
        return "the observations look normalised (mean about 0, spread about 1); look for the original ones"
    return None


def median_error(stepper: Stepper, sample: Sample) -> float:
    """Median error of the steps, as in `replay`."""
    scale = change_scale(sample.before, sample.after)
    return float(np.median(error_sizes(stepper.steps(sample.before, sample.actions), sample.after, scale)))


def _candidates(
    sample: Sample, labels: tuple[str, ...], stepper: Stepper, reference: Demonstrations | None
) -> Iterator[tuple[str, Sample]]:
    size = sample.before.shape[1]
    likely = _assignment(sample, stepper, reference)
    for order in (likely, *(map(np.array, itertools.permutations(range(size))) if size <= FEW else ())):
        if (order == np.arange(size)).all():
            continue
        moved = [f"{labels[j]} is entry {int(i)}" for j, i in enumerate(order) if i != j]
        text = f"the entries look like another order ({', '.join(moved[:6])}{', ...' if len(moved) > 6 else ''})"
        yield text, _columns(sample, order)
    for factor in FACTORS:
        yield f"all observations look multiplied by {1 / factor:.4g}", _scaled(sample, slice(None), factor)
    box = isinstance(stepper.env.action_space, gym.spaces.Box)
    if box and sample.actions.ndim == 2:
        yield from _of_actions(sample)
    for factor in FACTORS:
        for j in range(size):
            yield f"{labels[j]} looks multiplied by {1 / factor:.4g}", _scaled(sample, j, factor)
    for i, j in itertools.combinations(range(size), 2):
        order = np.arange(size)
        order[[i, j]] = j, i
        yield f"{labels[i]} and {labels[j]} look exchanged", _columns(sample, order)


def _of_actions(sample: Sample) -> Iterator[tuple[str, Sample]]:
    size = sample.actions.shape[1]
    for i, j in itertools.combinations(range(size), 2):
        order = np.arange(size)
        order[[i, j]] = j, i
        yield f"actions {i} and {j} look exchanged", sample._replace(actions=sample.actions[:, order])
    if size > 1:
        yield "the actions look reversed in order", sample._replace(actions=sample.actions[:, ::-1])
    for factor in (-1.0, 0.5, 2.0, 0.1, 10.0, 0.01, 100.0):
        yield f"the actions look multiplied by {1 / factor:.4g}", sample._replace(actions=sample.actions * factor)


def _columns(sample: Sample, order: Array) -> Sample:
    return sample._replace(before=sample.before[:, order], after=sample.after[:, order])


def _scaled(sample: Sample, which: Any, factor: float) -> Sample:
    before, after = sample.before.copy(), sample.after.copy()
    before[:, which] *= factor
    after[:, which] *= factor
    return sample._replace(before=before, after=after)


def _assignment(sample: Sample, stepper: Stepper, reference: Demonstrations | None) -> Array:
    """For every entry of the environment, the recorded entry whose values and changes look most like it."""
    if reference is not None and reference.observations[0].size == sample.before.shape[1]:
        before, _, after = tables(reference)
    else:
        before, after = stepper.own.before, rows_of(stepper.own.after)
    wanted, given = _marks(before, after), _marks(sample.before, sample.after)
    scale = np.maximum(np.abs(wanted).max(axis=1, keepdims=True), 1e-9)
    distance = np.stack([np.abs(np.arcsinh((wanted[j] - given) / scale[j])).sum(axis=1) for j in range(len(wanted))])
    same = np.arange(len(wanted))
    distance[same, same] -= 1e-6
    return np.asarray(linear_sum_assignment(distance)[1])


def _marks(before: Array, after: Array) -> Array:
    """(entries, marks) quantiles of an entry's values and of its changes."""
    quantiles = (0.05, 0.25, 0.5, 0.75, 0.95)
    values, changes = np.quantile(before, quantiles, axis=0), np.quantile(after - before, quantiles, axis=0)
    ratio = np.abs(values).max(axis=0) / np.maximum(np.abs(changes).max(axis=0), 1e-12)
    return np.concatenate([values, np.minimum(ratio, 100.0) * changes]).T


def _looks_normalised(sample: Sample, stepper: Stepper) -> bool:
    rows = sample.before
    spread, own = rows.std(axis=0), stepper.own.before.std(axis=0)
    moving = spread > 1e-6
    if moving.sum() < 2:
        return False
    centred = (np.abs(rows.mean(axis=0)) < 1.0) & (spread > 0.2) & (spread < 5.0)
    unlike = np.abs(np.log(np.maximum(spread, 1e-9) / np.maximum(own, 1e-9))) > 0.7
    return bool(centred[moving].mean() > 0.8 and unlike[moving].mean() > 0.3)
