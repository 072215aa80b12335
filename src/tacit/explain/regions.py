"""Regions in two features: discs, rings and ellipses (`Distance`), half-planes and bands (`Sum`), and `Product`.

    (x, y) within 1.02 of (0.01, -0.03)          Distance(("x", "y"), centre=(0.01, -0.03), high=1.02)
    x + 2.1 y > 3                                Sum(("x", "y"), weight=2.1, low=3.0)
    x (y - 300) > 30                             Product(("x", "y"), offsets=(0.0, 300.0), low=30.0)

Each is an interval of one number that is computed from two features. An end that is None is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import UserError
from tacit.run.summary import Record

Array = NDArray[Any]
Mask = NDArray[np.bool_]


def digits(value: float) -> str:
    """A number as it is written in a rule. A rule is rounded before it is judged, so nothing is lost here."""
    brief = f"{value + 0.0:.6g}"
    return brief if float(brief) == value else f"{value:.10g}"


@dataclass(frozen=True)
class Region:
    """low < value of two features < high."""

    features: tuple[str, str]
    low: float | None = None
    high: float | None = None
    demonstrated: tuple[float | None, float | None] = (None, None)
    """The nearest demonstrated values outside, on the side of `low` and of `high`."""

    def values(self, rows: Array, columns: Mapping[str, int]) -> Array:
        """(n,) the number that the interval is about, of rows (n, width)."""
        raise NotImplementedError

    @property
    def quantity(self) -> str:
        """The name of that number."""
        raise NotImplementedError

    def holds(self, rows: Array, columns: Mapping[str, int]) -> Mask:
        """(n,) which rows (n, width) are inside."""
        return within(self.values(rows, columns), self.low, self.high)

    @property
    def length(self) -> int:
        """Number of numbers in the words, plus 1, because a region is harder to read than a bound."""
        return 1 + (self.low is not None) + (self.high is not None)

    def to_json(self) -> dict[str, Any]:
        ends = {"low": self.low, "high": self.high, "demonstrated": list(self.demonstrated)}
        return {"features": list(self.features), **ends}


def within(values: Array, low: float | None, high: float | None) -> Mask:
    inside = np.ones(len(values), dtype=bool)
    if low is not None:
        inside &= values > low
    if high is not None:
        inside &= values < high
    return inside


@dataclass(frozen=True)
class Distance(Region):
    """Distance from a centre, in units of the first feature; `ratio` times as many units of the second are as far."""

    centre: tuple[float, float] = (0.0, 0.0)
    ratio: float = 1.0
    """1 is a disc, anything else an ellipse parallel to the axes."""

    def values(self, rows: Array, columns: Mapping[str, int]) -> Array:
        first, second = (rows[:, columns[name]].astype(np.float64) for name in self.features)
        return np.hypot(first - self.centre[0], (second - self.centre[1]) / self.ratio)

    @property
    def length(self) -> int:
        return super().length + 2 + (self.ratio != 1.0)

    def to_json(self) -> dict[str, Any]:
        return {"shape": "distance", **super().to_json(), "centre": list(self.centre), "ratio": self.ratio}

    @property
    def quantity(self) -> str:
        return f"distance from ({digits(self.centre[0])}, {digits(self.centre[1])})"

    def __str__(self) -> str:
        place = f"({digits(self.centre[0])}, {digits(self.centre[1])})"
        pair = f"({', '.join(self.features)})"
        if self.ratio == 1.0:
            if self.low is None:
                return f"{pair} within {digits(self.high or 0.0)} of {place}"
            if self.high is None:
                return f"{pair} more than {digits(self.low)} from {place}"
            return f"{pair} between {digits(self.low)} and {digits(self.high)} from {place}"
        where = [] if self.high is None else [f"inside {self._ellipse(place, self.high)}"]
        where += [] if self.low is None else [f"outside {self._ellipse(place, self.low)}"]
        return f"{pair} {' and '.join(where)}"

    def _ellipse(self, place: str, radius: float) -> str:
        second = float(f"{radius * self.ratio:.3g}")
        return f"the ellipse around {place} with half-axes {digits(radius)} and {digits(second)}"


@dataclass(frozen=True)
class Sum(Region):
    """first + weight * second."""

    weight: float = 1.0

    def values(self, rows: Array, columns: Mapping[str, int]) -> Array:
        first, second = (rows[:, columns[name]].astype(np.float64) for name in self.features)
        return first + self.weight * second

    @property
    def length(self) -> int:
        return super().length + 1

    def to_json(self) -> dict[str, Any]:
        return {"shape": "sum", **super().to_json(), "weight": self.weight}

    @property
    def quantity(self) -> str:
        size = "" if abs(self.weight) == 1.0 else f"{digits(abs(self.weight))} "
        return f"{self.features[0]} {'-' if self.weight < 0 else '+'} {size}{self.features[1]}"

    def __str__(self) -> str:
        return interval(self.quantity, self.low, self.high)


@dataclass(frozen=True)
class Product(Region):
    """(first - offset) (second - offset): a limit on one feature that depends on the other."""

    offsets: tuple[float, float] = (0.0, 0.0)

    def values(self, rows: Array, columns: Mapping[str, int]) -> Array:
        first, second = (rows[:, columns[name]].astype(np.float64) for name in self.features)
        return (first - self.offsets[0]) * (second - self.offsets[1])

    @property
    def length(self) -> int:
        return super().length + sum(offset != 0.0 for offset in self.offsets)

    def to_json(self) -> dict[str, Any]:
        return {"shape": "product", **super().to_json(), "offsets": list(self.offsets)}

    @property
    def quantity(self) -> str:
        factors = [
            name if not offset else f"({name} {'-' if offset > 0 else '+'} {digits(abs(offset))})"
            for name, offset in zip(self.features, self.offsets, strict=True)
        ]
        return " ".join(factors)

    def __str__(self) -> str:
        return interval(self.quantity, self.low, self.high)


def interval(name: str, low: float | None, high: float | None) -> str:
    """'x > 2', 'x < 4' or '2 < x < 4'."""
    if low is None and high is None:
        return f"any {name}"
    if high is None:
        return f"{name} > {digits(low or 0.0)}"
    return f"{name} < {digits(high)}" if low is None else f"{digits(low)} < {name} < {digits(high)}"


def region_from_json(entry: Record) -> Region:
    """Inverse of `to_json`. KeyError, TypeError or ValueError if it is no region."""
    first, second = (str(name) for name in entry["features"])
    low, high = (None if entry[end] is None else float(entry[end]) for end in ("low", "high"))
    lower, upper = (None if value is None else float(value) for value in entry["demonstrated"])
    if entry["shape"] == "distance":
        x, y = (float(value) for value in entry["centre"])
        return Distance((first, second), low, high, (lower, upper), (x, y), float(entry["ratio"]))
    if entry["shape"] == "sum":
        return Sum((first, second), low, high, (lower, upper), float(entry["weight"]))
    if entry["shape"] == "product":
        x, y = (float(value) for value in entry["offsets"])
        return Product((first, second), low, high, (lower, upper), (x, y))
    raise UserError(f"a region has the shape distance, sum or product, not {entry['shape']!r}")
