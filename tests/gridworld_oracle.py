"""Gridworld rules written out a second time, from the words of the description."""

from __future__ import annotations

from collections import deque

WALLED = "S.#.\n.X#G\n....\n"
RIGHT, LEFT, DOWN, UP = range(4)
STEPS = {4: [(0, 1), (0, -1), (1, 0), (-1, 0)]}
STEPS[8] = [*STEPS[4], (1, 1), (-1, 1), (1, -1), (-1, -1)]


def legal_neighbours(rows, cell, moves):
    near = [(cell[0] + dr, cell[1] + dc) for dr, dc in STEPS[moves]]
    return [(r, c) for r, c in near if 0 <= r < len(rows) and 0 <= c < len(rows[0]) and rows[r][c] != "#"]


def chances(rows, cell, action, moves, slip):
    """{cell: probability} after one step of the paper's rule."""
    near = legal_neighbours(rows, cell, moves)
    step = STEPS[moves][action]
    aim = (cell[0] + step[0], cell[1] + step[1])
    result = {aim if aim in near else cell: 1 - slip}
    for other in near:
        result[other] = result.get(other, 0.0) + slip / len(near)
    return result


def shortest(rows, moves, forbidden=""):
    """Fewest moves from S to G without entering the forbidden characters."""
    cells = {rows[r][c]: (r, c) for r in range(len(rows)) for c in range(len(rows[0]))}
    queue, seen = deque([(cells["S"], 0)]), {cells["S"]}
    while queue:
        cell, distance = queue.popleft()
        if cell == cells["G"]:
            return distance
        for other in legal_neighbours(rows, cell, moves):
            if other not in seen and rows[other[0]][other[1]] not in forbidden:
                seen.add(other)
                queue.append((other, distance + 1))
    return None


def dense(mdp):
    return mdp.transitions.toarray().reshape(mdp.n_states, mdp.n_actions, mdp.n_states)
