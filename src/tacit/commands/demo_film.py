"""Two agents on the same map, walking in the terminal. (Not a command itself.)"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from itertools import zip_longest

import numpy as np

from tacit.envs.gridworld_spec import GridworldSpec
from tacit.plots.video import Actor
from tacit.run.terminal import raw

SHADES = " .:-=+*#%@"
GAP, FRAME_SECONDS, MOST_STEPS = 6, 0.25, 24


def shaded(spec: GridworldSpec, values: np.ndarray) -> list[str]:
    """Values (S,) as a map of characters, darker for more; walls, start and goal as they are."""
    rows = [list(row.replace("X", " ")) for row in spec.rows]
    top = max(float(values.max()), 1e-12)
    for (row, column), value in zip(spec.cells.tolist(), values, strict=True):
        if rows[row][column] not in "SG":
            rows[row][column] = SHADES[min(int(value / top * len(SHADES)), len(SHADES) - 1)]
    return ["".join(row) for row in rows]


def side_by_side(left: list[str], right: list[str], titles: tuple[str, str]) -> str:
    """Two blocks of text next to each other."""
    wide = max(map(len, (titles[0], *left))) + GAP
    lines = [f"{a:<{wide}}{b}" for a, b in zip_longest((titles[0], *left), (titles[1], *right), fillvalue="")]
    return "\n".join(line.rstrip() for line in lines)


def play(spec: GridworldSpec, agents: Mapping[str, Actor], seed: int) -> None:
    """Show both walk, one picture after the other in the same place; nothing where there is no terminal."""
    stream = raw(sys.stdout)
    if not stream.isatty():
        return
    (one, first), (other, second) = ((name, _walk(spec, policy, seed)) for name, policy in agents.items())
    for step in range(min(MOST_STEPS, max(len(first), len(second)))):
        pictures = [_picture(spec, path[: step + 1]) for path in (first, second)]
        text = side_by_side(pictures[0], pictures[1], (one, other))
        stream.write(("" if step == 0 else f"\x1b[{text.count(chr(10)) + 1}A\x1b[J") + text + "\n")
        stream.flush()
        time.sleep(FRAME_SECONDS)
    stream.write("\n")


def _walk(spec: GridworldSpec, policy: Actor, seed: int) -> list[int]:
    rng = np.random.default_rng(seed)
    path = [spec.start]
    while path[-1] != spec.goal and len(path) < MOST_STEPS:
        here = np.array(path[-1:])
        action = policy(spec.cells[here].astype(float), rng)
        path.append(int(spec.sample_next(here, action, rng)[0]))
    return path


def _picture(spec: GridworldSpec, path: list[int]) -> list[str]:
    rows = [list(row) for row in spec.rows]
    for state, mark in [*((state, "o") for state in path[:-1]), (path[-1], "@")]:
        row, column = spec.position_of(state)
        if rows[row][column] != "G":
            rows[row][column] = mark
    return ["".join(row) for row in rows]
