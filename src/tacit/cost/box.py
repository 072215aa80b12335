"""The box around the demonstrations: the simplest constraint there is, and a control for every learned one.

    c(x) = number of inputs outside of their demonstrated range,      forbidden: c > 1/2                            (1)

No learning is involved: the range of an input is its smallest and largest demonstrated value. c rises from 0 to 1
within a hundredth of the range's width, so a step is forbidden half of that beyond the range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.cost.learned import Inputs, LearnedCost
from tacit.cost.terms import Term

Array = NDArray[Any]
EDGE = 0.01
"""Width of the edge in widths of the range; an input that never changes has an edge of EDGE itself."""


def box_cost(names: Sequence[str], rows: ArrayLike, unit: float = 1.0) -> LearnedCost:
    """The cost (1) of demonstrated observations (n, d) whose entries have these names.

    unit: reward per unit of cost, for those who use it as a price.
    """
    demonstrated: Array = np.asarray(rows, np.float32)
    low, high = demonstrated.min(axis=0), demonstrated.max(axis=0)
    d = len(names)
    inputs = Inputs(tuple(names), tuple(range(d)), d, 0, np.zeros(d, np.float32), np.ones(d, np.float32), squash=False)
    none = np.zeros((d, 0), np.float32)
    terms = tuple(Term((name,), (i,), *_table(low[i], high[i])) for i, name in enumerate(names))
    return LearnedCost(inputs, np.zeros(0, np.float32), none, none, terms=terms, threshold=0.5, unit=unit)


def _table(low: np.float32, high: np.float32) -> tuple[tuple[Array], Array]:
    """(knots, values) of one input: 0 between its ends, 1 beyond them."""
    edge = EDGE * (float(high) - float(low) or 1.0)
    # In 32 bits, a value far from 0 may swallow a small edge.
    below = min(np.float32(low - edge), np.nextafter(low, np.float32(-np.inf)))
    above = max(np.float32(high + edge), np.nextafter(high, np.float32(np.inf)))
    if low == high:
        return (np.array([below, low, above], np.float32),), np.array([1, 0, 1], np.float32)
    return (np.array([below, low, high, above], np.float32),), np.array([1, 0, 0, 1], np.float32)
