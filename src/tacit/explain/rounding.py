"""Round a clause to as few digits as say the same, so that the words are exactly the rule that is judged."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tacit.cost.bounds import Bound
from tacit.explain.regions import Distance, Product, Region, Sum
from tacit.explain.rules import Clause, Columns, Condition

if TYPE_CHECKING:
    from tacit.explain.weights import Data

LOST = 0.003
"""Share of the rejected states that rounding may cost."""
FINEST = 6


def rounded(clause: Clause, data: Data, columns: Columns) -> Clause:
    """The clause with the fewest digits that gain (nearly) as much on the states."""
    steps = {name: _step(data.rows[:, columns[name]]) for name in clause.features}
    before = data.gain(clause, columns)
    for finer in range(FINEST):
        # Either to the nearest number, or every end inwards: a demonstrated state just outside stays there.
        options = [
            Clause(tuple(_rounded(one, steps, finer, inwards) for one in clause.conditions), clause.share)
            for inwards in (False, True)
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


def _rounded(condition: Condition, steps: dict[str, float], finer: int, inwards: bool) -> Condition:
    size, up = 10.0**-finer, int(inwards)
    if isinstance(condition, Bound):
        step, side = steps[condition.feature] * size, -up if condition.below else up
        return replace(condition, value=_to_step(condition.value, step, side))
    first, second = (steps[name] * size for name in condition.features)
    region: Region = condition
    if isinstance(region, Distance):
        x, y = region.centre
        ratio = region.ratio if region.ratio == 1.0 else _significant(region.ratio, 2 + finer)
        region = replace(region, centre=(_to_step(x, first), _to_step(y, second)), ratio=ratio)
    elif isinstance(region, Sum):
        region = replace(region, weight=_significant(region.weight, 2 + finer))
    elif isinstance(region, Product):
        x, y = region.offsets
        region = replace(region, offsets=(_to_step(x, first), _to_step(y, second)))
        first *= 10.0 ** math.floor(math.log10(steps[region.features[1]] * 50))  # the unit is that of a product
    low = None if region.low is None else _to_step(region.low, first, up)
    high = None if region.high is None else _to_step(region.high, first, -up)
    return replace(region, low=low, high=high)


def _significant(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
