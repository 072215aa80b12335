"""Cells of a gridworld in words: a few rectangles, by a greedy cover.

"rows 2 to 4, columns 3 to 5" says more than fifteen pairs of numbers. A rectangle may contain walls, nothing else that
is not marked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
MOST_RECTANGLES = 8


@dataclass(frozen=True)
class Rectangle:
    """Rows top ... bottom and columns left ... right, ends included."""

    top: int
    bottom: int
    left: int
    right: int

    def contains(self, cells: NDArray[Any]) -> Mask:
        """(n,) whether cells (n, 2) are in the rectangle."""
        row, column = cells[:, 0], cells[:, 1]
        return (row >= self.top) & (row <= self.bottom) & (column >= self.left) & (column <= self.right)

    def __str__(self) -> str:
        if self.top == self.bottom and self.left == self.right:
            return f"cell ({self.top}, {self.left})"
        rows = f"row {self.top}" if self.top == self.bottom else f"rows {self.top} to {self.bottom}"
        columns = f"column {self.left}" if self.left == self.right else f"columns {self.left} to {self.right}"
        return f"{rows}, {columns}"


def cover(cells: NDArray[Any], marked: Mask, most: int = MOST_RECTANGLES) -> list[Rectangle]:
    """Rectangles that together contain the marked ones of cells (S, 2), the largest first; at most `most`."""
    height, width = (int(x) + 1 for x in cells.max(axis=0))
    # 1 marked and not covered yet, 0 free to include (wall or covered), -1 not to be included.
    value = np.zeros((height, width), dtype=np.int64)
    value[tuple(cells.T)] = np.where(marked, 1, -1)
    rectangles: list[Rectangle] = []
    while (value > 0).any() and len(rectangles) < most:
        best = _largest(value)
        rectangles.append(best)
        inside = value[best.top : best.bottom + 1, best.left : best.right + 1]
        inside[inside > 0] = 0
    return rectangles


def _largest(value: NDArray[np.int64]) -> Rectangle:
    """The rectangle without -1 that contains the most ones; the smallest if there are several."""
    gains = _summed(np.maximum(value, 0))
    losses = _summed(value < 0)
    height, width = value.shape
    best, chosen = (0, 0), Rectangle(0, 0, 0, 0)
    for top in range(height):
        for bottom in range(top + 1, height + 1):
            strip = losses[bottom] - losses[top]
            for left in range(width):
                # Wider is only worse once an unmarked cell is inside.
                allowed = np.flatnonzero(strip[left + 1 :] - strip[left] == 0)
                if not len(allowed):
                    continue
                ends = left + 1 + allowed
                counts = (gains[bottom] - gains[top])[ends] - (gains[bottom] - gains[top])[left]
                end = int(ends[np.argmax(counts)])
                score = int(counts.max()), -(bottom - top) * (end - left)
                if score[0] > 0 and score > best:
                    best, chosen = score, Rectangle(top, bottom - 1, left, end - 1)
    return chosen


def _summed(array: NDArray[Any]) -> NDArray[np.int64]:
    """(h + 1, w + 1) sums of all entries above and to the left."""
    total = np.zeros((array.shape[0] + 1, array.shape[1] + 1), dtype=np.int64)
    total[1:, 1:] = array.cumsum(axis=0).cumsum(axis=1)
    return total


def covered(cells: NDArray[Any], rectangles: Iterable[Rectangle]) -> Mask:
    """(S,) which of the cells (S, 2) are in any of the rectangles."""
    inside = np.zeros(len(cells), dtype=bool)
    for rectangle in rectangles:
        inside |= rectangle.contains(cells)
    return inside


def cell_list(cells: NDArray[Any], marked: Mask, most: int = MOST_RECTANGLES) -> str:
    """The marked cells as text: 'rows 2 to 4, columns 3 to 5; cell (6, 1)'."""
    rectangles = cover(cells, marked, most)
    left = int((marked & ~covered(cells, rectangles)).sum())
    words = "; ".join(map(str, rectangles)) or "no cell"
    return words + (f"; and {left} more cells" if left else "")
