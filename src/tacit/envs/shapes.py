"""Discs and boxes in the plane: which points lie inside, which lines cross them, and the way around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import UserError

Array = NDArray[Any]
Flags = NDArray[np.bool_]
Shape = dict[str, list[float]]
"""{"disc": [x, y, r]} or {"box": [x0, y0, x1, y1]}"""
CORNERS = 16
"""Way-points around a disc."""


@dataclass(frozen=True)
class Shapes:
    """A union of discs and boxes."""

    discs: Array
    """(d, 3) x, y, radius"""
    boxes: Array
    """(b, 4) x0, y0, x1, y1"""

    def inside(self, points: Array, margin: float = 0.0) -> Flags:
        """(...,) which points (..., 2) lie in a shape, or nearer to one than `margin`."""
        x, y = points[..., 0], points[..., 1]
        inside = np.zeros(x.shape, np.bool_)
        for cx, cy, radius in self.discs:
            inside |= (x - cx) ** 2 + (y - cy) ** 2 < (radius + margin) ** 2
        for x0, y0, x1, y1 in self.boxes:
            inside |= (x > x0 - margin) & (x < x1 + margin) & (y > y0 - margin) & (y < y1 + margin)
        return inside

    def crossed(self, start: Array, end: Array, margin: float = 0.0) -> Flags:
        """(...,) which lines from `start` (..., 2) to `end` (..., 2) pass through a shape widened by `margin`."""
        along = end - start
        crossed = np.zeros(np.broadcast_shapes(start.shape, end.shape)[:-1], np.bool_)
        length = np.maximum((along**2).sum(axis=-1), 1e-12)
        for cx, cy, radius in self.discs:
            to_centre = np.array([cx, cy]) - start
            nearest = np.clip((to_centre * along).sum(axis=-1) / length, 0.0, 1.0)
            crossed |= ((to_centre - nearest[..., None] * along) ** 2).sum(axis=-1) < (radius + margin) ** 2
        safe = np.where(np.abs(along) < 1e-12, 1e-12, along)
        for x0, y0, x1, y1 in self.boxes:
            first = (np.array([x0 - margin, y0 - margin]) - start) / safe
            second = (np.array([x1 + margin, y1 + margin]) - start) / safe
            enters = np.maximum(np.minimum(first, second).max(axis=-1), 0.0)
            leaves = np.minimum(np.maximum(first, second).min(axis=-1), 1.0)
            crossed |= enters < leaves
        return crossed

    def corners(self, margin: float) -> Array:
        """(w, 2) points around the shapes from which one can see around them, outside of all of them."""
        angles = np.linspace(0.0, 2 * np.pi, CORNERS, endpoint=False)
        around = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        points = [np.zeros((0, 2))]
        # The polygon's sides, not its corners, are to keep the distance.
        points += [disc[:2] + around * (disc[2] + margin) / np.cos(np.pi / CORNERS) for disc in self.discs]
        for x0, y0, x1, y1 in self.boxes:
            xs, ys = (x0 - margin, x1 + margin), (y0 - margin, y1 + margin)
            points.append(np.array([[x, y] for x in xs for y in ys]))
        everything = np.concatenate(points)
        return np.asarray(everything[~self.inside(everything, 0.95 * margin)])


def read_shapes(given: Any) -> Shapes:
    """The shapes of a list such as [{"disc": [0, 0, 1]}, {"box": [-1, -1, 1, 0]}]."""
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise UserError(f'shapes are a list such as [{{"disc": [0, 0, 1]}}, {{"box": [-1, -1, 1, 0]}}], not {given!r}')
    discs, boxes = [], []
    for shape in given:
        kind, numbers = next(iter(shape.items())) if isinstance(shape, dict) and len(shape) == 1 else (None, None)
        try:
            values = np.asarray(numbers, np.float64)
        except (TypeError, ValueError):
            values = np.zeros(0)
        finite = bool(np.isfinite(values).all())
        if kind == "disc" and finite and values.shape == (3,) and values[2] > 0:
            discs.append(values)
        elif kind == "box" and finite and values.shape == (4,) and (values[:2] < values[2:]).all():
            boxes.append(values)
        else:
            raise UserError(
                f'a shape is {{"disc": [x, y, radius]}} or {{"box": [x0, y0, x1, y1]}} with x0 < x1, y0 < y1, '
                f"not {shape!r}"
            )
    return Shapes(np.array(discs).reshape(-1, 3), np.array(boxes).reshape(-1, 4))


class ShortestWay:
    """The way around shapes in a square arena, by a visibility graph that is built once."""

    def __init__(self, shapes: Shapes, half_width: float, margin: float) -> None:
        self.shapes, self.margin = shapes, margin
        corners = shapes.corners(margin)
        self.corners = corners[(np.abs(corners) < half_width).all(axis=1)]
        n = len(self.corners)
        apart = np.linalg.norm(self.corners[:, None] - self.corners[None], axis=-1)
        hidden = shapes.crossed(self.corners[:, None], self.corners[None], 0.9 * margin)
        self.distances = np.where(hidden & ~np.eye(n, dtype=bool), np.inf, apart)
        for k in range(n):  # Floyd and Warshall
            self.distances = np.minimum(self.distances, self.distances[:, k : k + 1] + self.distances[k : k + 1])

    def next_point(self, position: Array, goal: Array) -> Array:
        """(N, 2) where to steer from `position` (N, 2): the goal if it is in sight, else the best visible corner."""
        if not len(self.corners):
            return goal
        seen_from_goal = ~self.shapes.crossed(goal[:, None], self.corners[None], 0.8 * self.margin)
        last = np.where(seen_from_goal, np.linalg.norm(self.corners[None] - goal[:, None], axis=-1), np.inf)
        to_go = (self.distances[None] + last[:, None, :]).min(axis=2)
        target = goal.copy()
        unseen = self.shapes.crossed(position, goal, 0.8 * self.margin)
        # Close to a shape nothing is in sight with the full distance: then look with less.
        for margin in (0.8 * self.margin, 0.3 * self.margin, 0.0):
            seen = ~self.shapes.crossed(position[:, None], self.corners[None], margin)
            total = np.where(seen, np.linalg.norm(self.corners[None] - position[:, None], axis=-1), np.inf) + to_go
            best = total.argmin(axis=1)
            visible = unseen & np.isfinite(total[np.arange(len(best)), best])
            target[visible] = self.corners[best[visible]]
            unseen &= ~visible
        return target
