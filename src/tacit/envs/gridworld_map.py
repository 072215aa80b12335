"""Read, check and make gridworld maps, which are text.

    description: what the picture shows       <- optional header, one `key: value` per line (see HEADER_KEYS)
    moves: 4

    .....                                     <- the map, one character per cell
    .SX.G
    .....

`S` start and `G` goal (each exactly once), `.` free, `X` constrained (hidden: it can be entered), `#` wall (it
cannot). Rows and columns are counted from 0 at the top left.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from tacit.envs.families import Options
from tacit.errors import UserError, did_you_mean
from tacit.run import disk

START, GOAL, FREE, CONSTRAINED, WALL = "S", "G", ".", "X", "#"
CHARACTERS = START + GOAL + FREE + CONSTRAINED + WALL
HEADER_KEYS = ("description", "moves", "reward", "horizon")
LAYOUTS = Path(__file__).parent / "layouts"
MAX_CHARACTERS = 16_000_000
"""Largest map file. A wrong path (a recording) is refused before it is read into memory."""
MAX_SIDE = 1_000
MAX_CELLS = 100_000
"""Largest map. What is computed on one takes time by its cells and by the length of its ways, not by its bytes."""

# (row, column) steps in Liu et al.'s order; the first four are the moves of a four-move grid.
MOVES = np.array([(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)])
MOVE_NAMES = ("right", "left", "down", "up", "down-right", "up-right", "down-left", "up-left")


def layout_names() -> list[str]:
    """Names of the built-in layouts."""
    return sorted(path.stem for path in LAYOUTS.glob("*.txt"))


def read_layout(layout: str | os.PathLike[str]) -> tuple[str, tuple[str, ...], Options]:
    """(name, rows, header) of a built-in layout, a map file, or a map's text (anything with a line break)."""
    if isinstance(layout, str) and "\n" in layout:
        return "custom", *parse_map(layout, "the map given as text")
    name = os.fspath(layout)
    if name in layout_names():
        return name, *parse_map((LAYOUTS / f"{name}.txt").read_text("utf-8"), f"layout {name!r}")
    path = Path(name)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        is_file = False
    if not is_file:
        hint = did_you_mean(name, layout_names())
        raise UserError(f"layout {name!r} is neither a built-in layout nor a map file; {hint}")
    try:
        text = disk.read_bytes(path, max_bytes=MAX_CHARACTERS).decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file in UTF-8; a map is made of the characters {CHARACTERS}") from None
    return path.stem, *parse_map(text, str(path))


def names_a_file(layout: object) -> bool:
    """Whether a layout is neither the name of a built-in one nor a map's text."""
    return isinstance(layout, str | os.PathLike) and "\n" not in str(layout) and str(layout) not in layout_names()


def parse_map(text: str, where: str = "the map") -> tuple[tuple[str, ...], Options]:
    """(rows, header) of a map's text. A UserError names the row and column, and how to fix it."""
    # Only "\n" and "\r\n" end a line: str.splitlines would hide form feeds and the like inside a ragged map.
    lines = [line.rstrip(" \t\r") for line in text.split("\n")]
    header: Options = {}
    first = 0
    for first, line in enumerate(lines):
        match = re.match(r"\s*([A-Za-z_]+)\s*:(.*)", line)
        if match:
            key, value = match[1].lower(), match[2].strip()
            header[key] = _header_value(key, value, f"{where}, line {first + 1}")
        elif line:
            break
    rows = tuple(lines[first:])
    while rows and not rows[-1]:
        rows = rows[:-1]
    check_rows(rows, where)
    return rows, header


def _header_value(key: str, value: str, where: str) -> Any:
    if key not in HEADER_KEYS:
        raise UserError(f"{where}: unknown setting {key!r}; a map's header may set {', '.join(HEADER_KEYS)}")
    if key in ("moves", "horizon"):
        if not re.fullmatch("[0-9]{1,9}", value):
            raise UserError(f"{where}: {key} must be a whole number, not {value!r}")
        return int(value)
    return value


def check_rows(rows: tuple[str, ...], where: str = "the map") -> None:
    """UserError unless the rows make a rectangle of known characters with one start and one goal."""
    if not rows:
        raise UserError(f"{where} is empty: draw it with the characters {CHARACTERS}, one line per row")
    width = len(rows[0])
    if max(len(rows), width) > MAX_SIDE or len(rows) * width > MAX_CELLS:
        raise UserError(
            f"{where} has {len(rows)} x {width} cells, too many: at most {MAX_SIDE} in a row or column and {MAX_CELLS} "
            "in all are read"
        )
    for number, row in enumerate(rows):
        unknown = re.search(f"[^{re.escape(CHARACTERS)}]", row)
        if unknown:
            raise UserError(
                f"{where}: unknown character {unknown[0]!r} at row {number}, column {unknown.start()}; "
                f"use S start, G goal, . free, X constrained, # wall"
            )
        if len(row) != width:
            raise UserError(
                f"{where} is ragged: row {number} has {len(row)} cells, row 0 has {width}; "
                "make all rows equally long (pad with '.' or '#')"
            )
    for character, role in ((START, "start"), (GOAL, "goal")):
        places = [(i, match.start()) for i, row in enumerate(rows) for match in re.finditer(character, row)]
        if not places:
            raise UserError(f"{where} has no {role}: put one {character!r} on it")
        if len(places) > 1:
            row_number, column = places[1]
            raise UserError(
                f"{where} has {len(places)} cells marked as {role}, the second at row {row_number}, column {column}; "
                f"keep one {character!r}"
            )


def check_reachable(grid: np.ndarray, moves: int) -> None:
    """UserError unless the goal can be reached from the start. grid: (height, width) of single characters."""
    from scipy import ndimage

    neighbours = np.ones((3, 3)) if moves == 8 else None
    regions, _ = ndimage.label(grid != WALL, structure=neighbours)
    start, goal = _locate(grid, START), _locate(grid, GOAL)
    if regions[start] != regions[goal]:
        raise UserError(
            f"the goal at row {goal[0]}, column {goal[1]} cannot be reached from the start at row {start[0]}, "
            f"column {start[1]} with {moves} moves: open the wall (#) between them"
        )


def _locate(grid: np.ndarray, character: str) -> tuple[int, int]:
    row, column = np.argwhere(grid == character)[0]
    return int(row), int(column)
