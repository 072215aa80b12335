"""Search for regions in two features: discs and ellipses, half-planes and bands, limits on a product.

A centre, a slope or an offset is moved in ever smaller steps while the region gains (see `tacit.explain.weights`). The
ends of its interval are exact at every step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.explain.regions import Distance, Product, Region, Sum
from tacit.explain.rules import Clause, Columns
from tacit.explain.weights import Data, best_interval

Array = NDArray[Any]
R = TypeVar("R", bound=Region)
Pair = tuple[str, str]
FIRST, FINEST = 0.25, 0.001
"""First and last step, as a share of the spread of a feature."""
COARSE = 400
"""Number of states of each kind for the first steps."""
STEEPEST = 0.1
"""Smallest angle between a slope and an axis, as its sine."""
ROUND = 0.1
"""Logarithm of the ratio of an ellipse's axes below which it is a disc."""
LARGEST = 0.75
"""Largest radius, as a share of the spread of a feature: a larger disc would only be a clumsy way to say a slope."""


def regions(data: Data, pair: Pair, box: Clause, columns: Columns) -> list[Region]:
    """The best region of each kind."""
    return [*discs(data, pair, box, columns), slope(data, pair, columns), *_products(data, pair, columns)]


def discs(data: Data, pair: Pair, box: Clause, columns: Columns) -> list[Region]:
    """The best disc, and the best ellipse; none if there is nothing to cover."""
    plane = _Plane.of(data, pair, columns)
    wanted = data.weights > 0
    inside = wanted & (box.holds(data.rows, columns) if box.conditions else wanted)
    if not inside.any():
        return []
    corner = np.quantile(plane.points[inside], [0.02, 0.98], axis=0)
    starts = [corner.mean(axis=0)] + ([np.median(plane.points[~wanted], axis=0)] if (~wanted).any() else [])
    width, height = corner[1] - corner[0]

    coarse = _Plane.of(data.thinned(COARSE), pair, columns)

    def best(ratio: float) -> Distance:
        options = [Distance(pair, centre=(float(x), float(y)), ratio=ratio) for x, y in starts]
        near = max((coarse.walk(one, finest=0.02) for one in options), key=plane.score)
        return plane.walk(near, first=0.04)

    ellipse = best(float(height / width) if width > 0 and height > 0 else 1.0)
    starts.append(np.array(ellipse.centre))
    return [best(1.0)] if abs(np.log(ellipse.ratio)) < ROUND else [best(1.0), ellipse]


def slope(data: Data, pair: Pair, columns: Columns) -> Region:
    """The best half-plane or band that is not parallel to an axis."""
    plane = _Plane.of(data, pair, columns)
    angles = np.tan(np.deg2rad(np.arange(7.5, 90.0, 7.5))) * plane.spread[0] / plane.spread[1]
    return plane.walk(max((Sum(pair, weight=float(w)) for w in (*angles, *-angles)), key=plane.score))


def _products(data: Data, pair: Pair, columns: Columns) -> list[Region]:
    """The best limits on a product of the features, each of them less 0 or less an offset beyond which nobody goes."""
    plane = _Plane.of(data, pair, columns)
    low, high = plane.ends
    room = 0.1 * (high - low)
    beyond = [[float(one) for one in ends] for ends in zip(low - room, high + room, strict=True)]
    zero = [[0.0] if low[i] >= 0 or high[i] <= 0 else [] for i in (0, 1)]
    best: list[Region] = []
    for first, second in itertools.product(*zip(beyond, zero, strict=True)):
        options = [Product(pair, offsets=one) for one in itertools.product(first, second)]
        best += [plane.walk(max(options, key=plane.score))] if options else []
    return best


def walk(region: R, data: Data, columns: Columns) -> R:
    """The region after moves, each of which gains."""
    return _Plane.of(data, region.features, columns).walk(region, first=0.04) if len(data.rows) else region


@dataclass(frozen=True)
class _Plane:
    """States (n, 2) in the plane of two features."""

    pair: Pair
    points: Array
    weights: Array
    spread: Array
    """(2,) how far the states spread along each feature."""
    ends: Array
    """(2, 2) the lowest and the highest values."""
    middle: Array
    """(2, 2) the ends of where nearly all states are."""

    @classmethod
    def of(cls, data: Data, pair: Pair, columns: Columns) -> _Plane:
        points = data.rows[:, [columns[name] for name in pair]]
        occupied = points if len(points) else np.zeros((1, 2))
        ends = np.stack([occupied.min(axis=0), occupied.max(axis=0)])
        middle = np.quantile(occupied, [0.01, 0.99], axis=0)
        spread = middle[1] - middle[0]
        spread = np.where(spread > 0, spread, np.where(ends[1] > ends[0], ends[1] - ends[0], 1.0))
        return cls(pair, points, data.weights, spread, ends, middle)

    def _interval(self, region: Region) -> tuple[float, float | None, float | None]:
        values = region.values(self.points, {self.pair[0]: 0, self.pair[1]: 1})
        return best_interval(values, self.weights)

    def score(self, region: Region) -> float:
        gain, low, high = self._interval(region)
        if isinstance(region, Distance):
            largest = LARGEST * min(self.spread[0], self.spread[1] / region.ratio)
            return -np.inf if max(low or 0.0, high or 0.0) > largest else gain
        return gain

    def with_ends(self, region: R) -> R:
        _, low, high = self._interval(region)
        return replace(region, low=low, high=high)

    def walk(self, region: R, first: float = FIRST, finest: float = FINEST) -> R:
        best, size = self.score(region), first
        while size > finest:
            options = [one for one in self._neighbours(region, size) if self._sensible(one)]
            scores = [self.score(one) for one in options]
            if max(scores, default=-np.inf) > best + 1e-9:
                best, region = max(scores), options[int(np.argmax(scores))]
            else:
                size /= 2
        return self.with_ends(region)

    def _sensible(self, region: Region) -> bool:
        """Whether a centre lies where the states are, and the offsets of a product beyond them."""
        if isinstance(region, Distance):
            return bool(((self.middle[0] <= region.centre) & (region.centre <= self.middle[1])).all())
        if isinstance(region, Product):
            return bool(((region.offsets <= self.ends[0]) | (region.offsets >= self.ends[1])).all())
        return True

    def _neighbours(self, region: R, size: float) -> Iterator[R]:
        first, second = (float(spread) for spread in self.spread)
        for step in (size, -size):
            if isinstance(region, Distance):
                x, y = region.centre
                yield replace(region, centre=(x + step * first, y))
                yield replace(region, centre=(x, y + step * second))
                if region.ratio != 1.0:
                    yield replace(region, ratio=region.ratio * float(np.exp(2 * step)))
            elif isinstance(region, Product):
                x, y = region.offsets
                # An offset of 0 stays, because it is shorter.
                yield from () if x == 0.0 else (replace(region, offsets=(x + step * first, y)),)
                yield from () if y == 0.0 else (replace(region, offsets=(x, y + step * second)),)
            elif isinstance(region, Sum):
                angle = np.arctan(region.weight * second / first) + step / 2
                if min(abs(np.cos(angle)), abs(np.sin(angle))) > STEEPEST:
                    yield replace(region, weight=float(np.tan(angle) * first / second))
