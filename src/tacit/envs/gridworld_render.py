"""Pictures of a gridworld, drawn with NumPy alone.

Shapes are signed distances (in cells, negative inside) turned into coverage, which gives smooth edges at any size.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tacit.envs.gridworld_map import CONSTRAINED, FREE, GOAL, START, WALL
from tacit.envs.gridworld_spec import GridworldSpec

AGENT = "@"
PAPER, LINE = (252, 252, 250), (214, 216, 220)
RED, BLUE, GREEN, ORANGE, WHITE = (206, 38, 38), (44, 98, 178), (30, 134, 78), (240, 140, 20), (255, 255, 255)
FILL = {WALL: (66, 70, 79), CONSTRAINED: (253, 232, 229), START: (230, 238, 250), GOAL: (227, 244, 233), FREE: PAPER}


def render_text(grid: GridworldSpec, state: int | None = None) -> str:
    """The map as text, with the agent as @."""
    rows = [list(row) for row in grid.rows]
    if state is not None:
        row, column = grid.position_of(state)
        rows[row][column] = AGENT
    return "\n".join("".join(row) for row in rows) + "\n"


def render_image(grid: GridworldSpec, state: int | None = None) -> np.ndarray:
    """(height, width, 3) uint8: red crosses are constrained, I is the start, O the goal, the orange disc the agent."""
    cell = int(np.clip(1200 // max(grid.shape), 6, 48))  # pixels per cell; fewer on large maps
    kinds = FREE + CONSTRAINED + WALL + START + GOAL
    tiles = np.stack([_tile(kind, cell) for kind in kinds])
    lookup = np.zeros(128, dtype=int)
    lookup[[ord(kind) for kind in kinds]] = np.arange(len(kinds))
    codes = np.array([[ord(character) for character in row] for row in grid.rows])
    height, width = grid.shape
    image = tiles[lookup[codes]].transpose(0, 2, 1, 3, 4).reshape(height * cell, width * cell, 3)
    if state is not None:
        row, column = grid.position_of(state)
        window = image[row * cell : (row + 1) * cell, column * cell : (column + 1) * cell]
        window[:] = _with_agent(window)
    # Tiles carry a line on their top and left; close the frame on the other two sides.
    framed = np.empty((height * cell + 1, width * cell + 1, 3))
    framed[:] = LINE
    framed[:-1, :-1] = image
    return framed.round().astype(np.uint8)


def _grid_of(cell: int) -> tuple[np.ndarray, np.ndarray]:
    """x to the right and y down over one tile, in cells from its centre."""
    y, x = (np.mgrid[0:cell, 0:cell] + 0.5) / cell - 0.5
    return x, y


def _paint(tile: np.ndarray, distance: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    """`tile` with `colour` laid over it wherever the signed distance is negative."""
    coverage = np.clip(0.5 - distance * len(tile), 0, 1)[..., None]
    return tile * (1 - coverage) + np.array(colour) * coverage


def _bar(along: np.ndarray, across: np.ndarray, length: float, width: float) -> np.ndarray:
    """Distance to a bar with round ends."""
    return np.hypot(np.maximum(np.abs(along) - length / 2, 0), across) - width / 2


@lru_cache(maxsize=64)
def _tile(kind: str, cell: int) -> np.ndarray:
    """(cell, cell, 3) one empty cell of the map."""
    x, y = _grid_of(cell)
    tile = np.empty((cell, cell, 3))
    tile[:] = FILL[kind]
    if kind == CONSTRAINED:
        for sign in (1, -1):
            diagonal, across = (x + sign * y) / np.sqrt(2), (x - sign * y) / np.sqrt(2)
            tile = _paint(tile, _bar(diagonal, across, 0.62, 0.12), RED)
    elif kind == START:
        tile = _paint(tile, _bar(y, x, 0.48, 0.13), BLUE)
        for end in (-0.26, 0.26):
            tile = _paint(tile, _bar(x, y - end, 0.26, 0.11), BLUE)
    elif kind == GOAL:
        tile = _paint(tile, np.abs(np.hypot(x / 0.85, y) - 0.28) - 0.065, GREEN)
    tile[0], tile[:, 0] = LINE, LINE
    return tile


def _with_agent(tile: np.ndarray) -> np.ndarray:
    """The agent over whatever is in its cell, with a white rim so that marks below it stay legible."""
    x, y = _grid_of(len(tile))
    radius = np.hypot(x, y)
    return _paint(_paint(tile, radius - 0.33, WHITE), radius - 0.28, ORANGE)
