"""States with weights: what a clause gains by covering them (see `tacit.explain.search`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.explain.rules import Clause, Columns, Mask, Rule

Array = NDArray[Any]
PRICE = 0.01
"""Share of the rejected states that each unit of a clause's length must explain."""
DEMONSTRATED = 20.0
"""Weight of the demonstrations: a clause that covers 0.1 % of them must explain 2 % more of what is rejected."""
SEARCHED = 2000
"""Number of states of each kind with which centres and slopes are searched."""


@dataclass(frozen=True)
class Data:
    """Tried and demonstrated states (n, width) with their weights (n,), of which the rejected ones sum to 1."""

    rows: Array
    weights: Array
    rejected: float
    """Number of rejected states."""

    @classmethod
    def of(cls, tried: Array, forbidden: Mask, expert: Array) -> Data:
        rejected = max(1.0, float(forbidden.sum()))
        ours = np.where(forbidden, 1.0, -1.0) / rejected
        theirs = np.full(len(expert), -DEMONSTRATED / max(1, len(expert)))
        rows = np.concatenate([tried, expert]).astype(np.float64)
        return cls(rows, np.concatenate([ours, theirs]), rejected)

    def without(self, clauses: Sequence[Clause], columns: Columns) -> Data:
        """The states that these clauses do not cover."""
        covered = Rule(tuple(clauses)).holds(self.rows, columns)
        return replace(self, rows=self.rows[~covered], weights=self.weights[~covered])

    def gain(self, clause: Clause, columns: Columns) -> float:
        return float(self.weights[clause.holds(self.rows, columns)].sum()) - PRICE * clause.length

    def total(self, clauses: Sequence[Clause], columns: Columns) -> float:
        """The gain of all clauses together."""
        covered = Rule(tuple(clauses)).holds(self.rows, columns)
        return float(self.weights[covered].sum()) - PRICE * sum(clause.length for clause in clauses)

    def balanced(self) -> Data:
        """The data with more weight on the rejected states, so that they count as much as all others together."""
        wanted = self.weights > 0
        factor = -self.weights[~wanted].sum() / max(float(self.weights[wanted].sum()), 1e-12)
        return replace(self, weights=np.where(wanted, max(factor, 1.0), 1.0) * self.weights)

    def thinned(self, most: int = SEARCHED) -> Data:
        """A part of the states to cover, and of the others, with the same total weight."""
        kept, weights = [], self.weights.copy()
        for kind in (self.weights > 0, self.weights <= 0):
            places = np.flatnonzero(kind)
            step = max(1, -(-len(places) // most))
            kept.append(places[::step])
            weights[kept[-1]] *= len(places) / max(1, len(kept[-1]))
        chosen = np.sort(np.concatenate(kept))
        return replace(self, rows=self.rows[chosen], weights=weights[chosen])


Interval = tuple[float, float | None, float | None]
"""(gain, low, high): the gain less the price of the ends."""


def best_interval(values: Array, weights: Array) -> Interval:
    """The interval with the largest sum of weights less PRICE for each end; an end that is not needed is None."""
    if not len(values):
        return 0.0, None, None
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    last = np.flatnonzero(np.diff(ordered) > 0)  # states with the same value stay together
    sums = np.concatenate([[0.0], np.cumsum(weights[order])[last], [weights.sum()]])
    middle = (ordered[last] + ordered[last + 1]) / 2
    if not len(middle):
        return float(sums[-1]), None, None
    lowest = np.minimum.accumulate(sums[:-1])
    end = int(np.argmax(sums[1:] - lowest)) + 1
    start = int(np.argmin(sums[:end]))
    below, above = int(np.argmax(sums[1:-1])), int(np.argmin(sums[1:-1]))
    options: list[Interval] = [
        (float(sums[-1]), None, None),
        (float(sums[1 + below]) - PRICE, None, float(middle[below])),
        (float(sums[-1] - sums[1 + above]) - PRICE, float(middle[above]), None),
    ]
    if start > 0 and end < len(sums) - 1:
        both = float(sums[end] - sums[start]) - 2 * PRICE
        options.append((both, float(middle[start - 1]), float(middle[end - 1])))
    return max(options, key=lambda one: one[0])
