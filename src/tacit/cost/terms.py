"""Terms of a cost: tables on one or two named inputs, linear between their knots.

    c(x) = sum over terms S of  sum_i values_i hat_i(x_S),        values >= 0                                     (1)

hat_i are the hat functions of the knots of one input, or the products of those of two inputs. So a term is linear (or
bilinear) between knots, and constant beyond the outermost ones. A term of one input is a curve, a term of two inputs a
picture: a cost that is a short sum of terms can be looked at. It can say a region in a plane, a limit that depends on
where one is, and a relation between two measured quantities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import UserError

Array = NDArray[Any]
MOST_NODES = 1 << 16
"""Number of values that a term in a file may have."""


@dataclass(frozen=True)
class Term:
    """A table on one or two inputs."""

    names: tuple[str, ...]
    columns: tuple[int, ...]
    """Entries of a row [observation | action] that it reads, one for each name."""
    knots: tuple[Array, ...]
    """Rising values of each input."""
    values: Array
    """Cost at the knots, >= 0, with one axis for each input."""

    def of_rows(self, rows: Array) -> Array:
        """Cost (n,) float32 of rows (n, width)."""
        places = [place(rows[..., column], knots) for column, knots in zip(self.columns, self.knots, strict=True)]
        if len(places) == 1:
            (i, t), values = places[0], self.values
            return values[i] + (values[np.minimum(i + 1, len(values) - 1)] - values[i]) * t
        (i, s), (j, t) = places
        above, right = (np.minimum(k + 1, n - 1) for k, n in zip((i, j), self.values.shape, strict=True))
        low = self.values[i, j] + (self.values[i, right] - self.values[i, j]) * t
        high = self.values[above, j] + (self.values[above, right] - self.values[above, j]) * t
        return np.asarray(low + (high - low) * s)

    def widened(self, margins: Mapping[str, float]) -> Term:
        """A term that is at least the largest cost within these margins: what costs reaches out so much further.

        It is exact at the new knots. Between them it is linear, which is never below the largest cost in reach.
        """
        knots, values = list(self.knots), self.values
        for axis, name in enumerate(self.names):
            margin = margins.get(name, 0.0)
            if margin > 0 and len(knots[axis]) > 1:
                old = knots[axis].astype(np.float64)
                new = np.unique(np.r_[old - margin, old, old + margin].astype(np.float32))
                moved = np.moveaxis(values, axis, 0)
                reach = [_largest(old, moved, float(x) - margin, float(x) + margin) for x in new]
                knots[axis], values = new, np.moveaxis(np.stack(reach), 0, axis)
        return Term(self.names, self.columns, tuple(knots), np.ascontiguousarray(values, np.float32))

    @property
    def highest(self) -> float:
        """The largest cost that it can have."""
        return float(self.values.max(initial=0.0))


def _largest(knots: Array, values: Array, low: float, high: float) -> Array:
    """Largest value between two places of what is linear between the knots of its first axis."""
    below, share = place(np.array([low, high]), knots)
    above = np.minimum(below + 1, len(knots) - 1)
    share = share.reshape(-1, *[1] * (values.ndim - 1))
    ends = values[below] * (1.0 - share) + values[above] * share
    return np.asarray(np.concatenate([ends, values[(knots >= low) & (knots <= high)]]).max(axis=0))


def place(x: Array, knots: Array) -> tuple[NDArray[np.intp], Array]:
    """(number of the knot below, share of the way to the next one) of values x; beyond the ends those of the ends."""
    if len(knots) == 1:
        return np.zeros(np.shape(x), np.intp), np.zeros(np.shape(x), knots.dtype)
    x = np.clip(x, knots[0], knots[-1])
    below = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    return below, (x - knots[below]) / (knots[below + 1] - knots[below])


def between(knots: Array) -> tuple[Array, Array, Array]:
    """(the knots before, the knots, the knots after) as float64, for hat functions in closed form.

    The hat of a knot rises from the one before and falls to the one after. Beyond the ends there is a knot as far away
    as the last one inside, which values between the ends do not feel.
    """
    knots = np.asarray(knots, np.float64)
    gaps = np.diff(knots) if len(knots) > 1 else np.ones(1)
    return np.r_[knots[0] - gaps[0], knots[:-1]], knots, np.r_[knots[1:], knots[-1] + gaps[-1]]


# ---------------------------------------------------------------------------------------------------------------------
# Saving


def to_arrays(terms: Sequence[Term]) -> dict[str, Array]:
    """The numbers of the terms; which inputs they read is in `names_of`."""
    arrays = {}
    for i, term in enumerate(terms):
        arrays[f"term{i}_values"] = term.values
        arrays |= {f"term{i}_knots{axis}": knots for axis, knots in enumerate(term.knots)}
    return arrays


def names_of(terms: Sequence[Term]) -> list[list[str]]:
    return [list(term.names) for term in terms]


def from_arrays(arrays: Mapping[str, Array], names: Any, columns: Mapping[str, int]) -> tuple[Term, ...]:
    """The terms that `to_arrays` and `names_of` described. UserError if they do not fit together."""
    damaged = UserError("the terms of this cost file do not fit together: it is damaged")
    if not isinstance(names, list) or not all(
        isinstance(one, list) and len(one) in (1, 2) and all(isinstance(name, str) for name in one) for one in names
    ):
        raise damaged
    terms = []
    for i, one in enumerate(names):
        if any(name not in columns for name in one) or len(set(one)) < len(one):
            raise damaged
        knots = tuple(arrays[f"term{i}_knots{axis}"] for axis in range(len(one)))
        values = arrays[f"term{i}_values"]
        sound = values.size <= MOST_NODES and values.shape == tuple(knot.size for knot in knots)
        sound = sound and all(knot.ndim == 1 and knot.size for knot in knots)
        sound = sound and all(array.dtype == np.float32 and np.isfinite(array).all() for array in (*knots, values))
        if not sound or (values < 0).any() or any((np.diff(knot) <= 0).any() for knot in knots):
            raise damaged
        terms.append(Term(tuple(one), tuple(columns[name] for name in one), knots, values))
    return tuple(terms)


def first_knots(expert: Array, learner: Array, n: int) -> Array:
    """At most n knots of an input: all of its values if they are so few, else where the data are and evenly between."""
    both = np.concatenate([expert, learner])
    values = np.unique(both)
    if len(values) <= n:
        return values
    grid = np.linspace(values[0], values[-1], 2001)
    low, high = np.quantile(both, [0.005, 0.995])
    if not low < high:
        low, high = values[0], values[-1]
    of_expert, of_learner = (np.searchsorted(np.sort(x), grid, side="right") / len(x) for x in (expert, learner))
    evenly = np.clip((grid - low) / (high - low), 0.0, 1.0)
    rank = (of_expert + of_learner + 2.0 * evenly) / 4.0 + 1e-9 * np.arange(len(grid))
    knots = np.interp(np.linspace(rank[0], rank[-1], n), rank, grid)
    knots[0], knots[-1] = values[0], values[-1]
    # As float32, which costs are saved in, two of them may be the same.
    return np.unique(knots.astype(np.float32)).astype(np.float64)
