"""Large gridworld maps, for benchmarks and tests."""

from __future__ import annotations

import numpy as np

from tacit.envs.gridworld_map import CONSTRAINED, FREE, GOAL, START
from tacit.errors import UserError


def large_map(n: int, seed: int = 0) -> str:
    """Text of an n x n map for benchmarks: a constrained wall from top to bottom between start and goal, with gaps.

    Start and goal face each other close to the wall and the gaps are far from both, so the detour is expensive even
    for eight moves. About one gap for every 40 rows, at random places: above a quarter and below three quarters.
    """
    if n < 8:
        raise UserError(f"a large map needs at least 8 x 8 cells, not {n} x {n}; write a small one by hand")
    rng = np.random.default_rng(seed)
    grid = np.full((n, n), FREE)
    middle, offset, gap = n // 2, max(2, n // 8), max(2, n // 20)
    grid[:, middle] = CONSTRAINED
    for number in range(max(1, n // 40)):
        upper = int(rng.integers(0, max(1, n // 4 - gap + 1)))
        top = upper if number % 2 == 0 else n - gap - upper
        grid[top : top + gap, middle] = FREE
    grid[middle, middle - offset], grid[middle, middle + offset] = START, GOAL
    header = (
        f"description: {n} x {n} cells, a constrained wall with gaps (seed {seed})\nhorizon: {max(200, 10 * n)}\n\n"
    )
    return header + "\n".join("".join(row) for row in grid) + "\n"
