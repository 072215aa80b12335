"""Round a clause to as few digits as say the same, so that the words are exactly the rule that is judged."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tacit.cost.bounds import Bound
from tacit.explain.regions import Distance, Product, Region, Sum
from tacit.explain.rules import Clause, Columns, Condition
from tacit.explain.weights import Data, best_interval

LOST = 0.005
"""Share of the rejected states that rounding may cost."""
FINEST = 6


def rounded(clause: Clause, data: Data, columns: Columns) -> Clause:
    """The clause with the fewest digits that gain (nearly) as much on the states."""
    steps = {name: _step(data.rows[:, columns[name]]) for name in clause.features}
    before = data.gain(clause, columns)
    for finer in range(FINEST):
        sizes = {name: step * 10.0**-finer for name, step in steps.items()}
        shaped = _with_shapes(clause, sizes, finer, data, columns)
        # Every end to the nearest number, or inwards: a demonstrated state just outside stays there.
        options = [
            replace(clause, conditions=tuple(_with_ends(one, sizes, inwards) for one in shaped.conditions))
            for inwards in (0, 1)
        ]
        shorter = max(options, key=lambda one: data.gain(one, columns))
        if data.gain(shorter, columns) >= before - LOST:
            return shorter
    return clause


def _step(values: np.ndarray) -> float:
    """A power of ten, between 0.2 and 2 % of the range of nearly all values."""
    low, high = np.quantile(values, [0.01, 0.99]) if len(values) else (0.0, 1.0)
    span = float(high - low) or float(np.ptp(values)) or 1.0
    return 10.0 ** math.floor(math.log10(0.02 * span))


def _to_step(value: float, step: float, side: int = 0) -> float:
    """The nearest multiple of a power of ten, as a person would write it; or the next one above (1) or below (-1)."""
    places = -round(math.log10(step))
    return round(value + 0.5 * side * step, places) + 0.0


def _with_shapes(clause: Clause, sizes: dict[str, float], finer: int, data: Data, columns: Columns) -> Clause:
    """The clause with rounded centres, slopes and offsets. The ends of their intervals follow."""
    conditions = list(clause.conditions)
    for i, condition in enumerate(conditions):
        if isinstance(condition, Bound):
            continue
        region = _shaped(condition, sizes, finer)
        others = (*conditions[:i], *conditions[i + 1 :])
        inside = Clause(others).holds(data.rows, columns) if others else np.ones(len(data.rows), dtype=bool)
        _, low, high = best_interval(region.values(data.rows[inside], columns), data.weights[inside])
        if (low is None, high is None) == (region.low is None, region.high is None):
            region = replace(region, low=low, high=high)
        conditions[i] = region
    return replace(clause, conditions=tuple(conditions))


def _shaped(region: Region, sizes: dict[str, float], finer: int) -> Region:
    first, second = (sizes[name] for name in region.features)
    if isinstance(region, Distance):
        x, y = region.centre
        ratio = region.ratio if region.ratio == 1.0 else _significant(region.ratio, 2 + finer)
        return replace(region, centre=(_to_step(x, first), _to_step(y, second)), ratio=ratio)
    if isinstance(region, Product):
        x, y = region.offsets
        return replace(region, offsets=(_to_step(x, first), _to_step(y, second)))
    assert isinstance(region, Sum)
    return replace(region, weight=_significant(region.weight, 2 + finer))


def _with_ends(condition: Condition, sizes: dict[str, float], inwards: int) -> Condition:
    if isinstance(condition, Bound):
        side = -inwards if condition.below else inwards
        return replace(condition, value=_to_step(condition.value, sizes[condition.feature], side))
    size = sizes[condition.features[0]]
    if isinstance(condition, Product):  # its unit is that of both features
        size *= 10.0 ** math.floor(math.log10(sizes[condition.features[1]]) + 2)
    low = None if condition.low is None else _to_step(condition.low, size, inwards)
    high = None if condition.high is None else _to_step(condition.high, size, -inwards)
    return replace(condition, low=low, high=high)


def _significant(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
