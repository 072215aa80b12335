"""The joint test: does an agent go where reward draws agents, and no demonstrator goes? It needs no truth.

Each input alone may look right although an agent crosses a forbidden region. So inputs are compared in pairs. A *box*
is a range of two inputs, and a trajectory *enters* it with at least STAY steps. A box is suspicious if

    no demonstration touches it                                                                                  (1)
    agents that follow the reward spend at least PULL times as much of their time in it as the agent does        (2)

and among these the one that most episodes of the agent enter is chosen. (2) sets style apart: a learner that is faster
or noisier than the demonstrators leaves them, too, but nothing draws other agents there.

With few demonstrations there are always boxes that happen to be empty. So a box is chosen with four of five parts of
the trajectories, and entries are counted on the fifth, of demonstrations as of the agent's episodes. Chance alone
gives equal rates, and Fisher's exact test compares them. Rates are means over several splits.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact

from tacit.cost.terms import first_knots
from tacit.run.summary import JointTest
from tacit.stats import clopper_pearson

Array = NDArray[Any]
CELLS = 16, 28
"""Candidates for the number of cells of each input, at whose ends boxes begin and end. Coarse boxes suit wide regions,
fine ones narrow strips."""
STAY = 2
"""Steps that a trajectory must spend in a box to enter it."""
PULL = (0.5, 1.0)
"""Candidates for (2). Weak agents, which are not drawn far, show a region with the first; the second suppresses style
better. The smallest p-value of all candidates counts, times their number (Bonferroni)."""
FOLDS, SPLITS = 5, 8
MOST_INPUTS = 12
"""Number of inputs whose pairs are compared: those that differ most alone."""
MOST_TRAJECTORIES = 400
NOWHERE = -1
"""The cell of agents that follow the reward beyond the range of demonstrations and agent: no box reaches them."""


@dataclass(frozen=True)
class Candidate:
    """The box that is chosen without one part of the trajectories, and what it says about that part."""

    score: float
    """Share of the agent's other episodes that enter it."""
    plane: tuple[int, int] = (0, 0)
    ranges: tuple[tuple[int, int], tuple[int, int]] = ((0, 1), (0, 1))
    agent: float = 0.0
    """Number of the agent's held-out episodes that enter it."""
    demos: float = 0.0
    """Number of held-out demonstrations that enter it."""


def joint_test(
    demos: Sequence[Array], agent: Sequence[Array], names: Sequence[str], seekers: Array | None = None
) -> JointTest | None:
    """Compare trajectories (steps, inputs); None with too few of them, or if nothing varies.

    seekers: (n, inputs) steps of agents that follow the reward. Without them the agent is one itself.
    """
    demos, agent = _thinned(demos), _thinned(agent)
    if min(len(demos), len(agent)) < 2:
        return None
    rows = [np.concatenate(part).astype(np.float64) for part in (demos, agent)]
    rows.append(rows[1] if seekers is None else np.asarray(seekers, np.float64))
    lengths = [len(one) for one in (*demos, *agent)]
    whose = np.repeat(np.arange(len(lengths) + 1), [*lengths, len(rows[2])])
    splits = _Splits(len(demos), len(agent))
    results = []
    for cells in CELLS:
        grid = _Grid(rows, cells)
        chosen = [[Candidate(0.0) for _ in range(splits.columns)] for _ in PULL]
        for plane in grid.planes():
            _search(grid, plane, whose, splits, chosen)
        results += [_judged(candidates, splits, grid, names) for candidates in chosen]
    best = min(results, key=lambda one: one["p"])
    return {**best, "p": min(1.0, len(results) * best["p"])}


def _thinned(trajectories: Sequence[Array]) -> list[Array]:
    every = -(-len(trajectories) // MOST_TRAJECTORIES)
    return list(trajectories[::every])


class _Grid:
    """The cells of all steps: of demonstrations, of the agent, of agents that follow the reward."""

    def __init__(self, rows: list[Array], size: int) -> None:
        self.size = size
        self.low, high = np.triu_indices(size)
        self.high = high + 1
        """All ranges of cells: from low to before high."""
        self.bounds, columns = [], []
        both = np.concatenate(rows)
        for j in range(both.shape[1]):
            knots = first_knots(rows[0][:, j], rows[1][:, j], size + 1)
            edges = knots[1:-1] if len(knots) > size else (knots[1:] + knots[:-1]) / 2.0
            self.bounds.append(np.concatenate([knots[:1], edges, knots[-1:]]))
            compared = both[: len(rows[0]) + len(rows[1]), j]
            outside = (both[:, j] < compared.min()) | (both[:, j] > compared.max())
            columns.append(np.where(outside, NOWHERE, np.searchsorted(edges, both[:, j], side="right")))
        self.cells = np.stack(columns, axis=1)
        self.ends = len(rows[0]), len(rows[0]) + len(rows[1])

    def planes(self) -> list[tuple[int, int]]:
        """Pairs of the inputs that differ most alone; a single one that varies is paired with itself."""
        varying = [j for j, bounds in enumerate(self.bounds) if len(bounds) > 2]
        most = sorted(sorted(varying, key=lambda j: -self._difference(j))[:MOST_INPUTS])
        return list(itertools.combinations(most, 2)) or [(j, j) for j in most]

    def _difference(self, j: int) -> float:
        first, second = self.ends
        demos, agent = (
            np.bincount(part, minlength=self.size) / len(part)
            for part in (self.cells[:first, j], self.cells[first:second, j])
        )
        return float(np.abs(demos - agent).sum())


class _Splits:
    """Which trajectories are held out together: one column per part of every split, and a last one with none."""

    def __init__(self, n_demos: int, n_agent: int) -> None:
        self.n_demos, self.n_agent = n_demos, n_agent
        parts = min(FOLDS, n_demos, n_agent)
        rng = np.random.default_rng([n_demos, n_agent])
        kinds: tuple[list[Array], list[Array]] = ([], [])
        for _ in range(SPLITS):
            for kind, n in zip(kinds, (n_demos, n_agent), strict=True):
                kind.append(np.eye(parts, dtype=np.float32)[rng.permutation(n) % parts])
        none = [np.zeros((n, 1), np.float32) for n in (n_demos, n_agent)]
        self.demos, self.agent = (np.concatenate([*kind, zero], 1) for kind, zero in zip(kinds, none, strict=True))

    @property
    def columns(self) -> int:
        return int(self.demos.shape[1])


def _search(grid: _Grid, plane: tuple[int, int], whose: Array, splits: _Splits, chosen: list[list[Candidate]]) -> None:
    """Go through all boxes of a plane, and keep in `chosen` what is better, for each PULL and each column of splits."""
    first, second = (grid.cells[:, j] for j in plane)
    size, low, high = grid.size, grid.low, grid.high
    n, kinds = splits.n_demos, splits.n_demos + splits.n_agent + 1
    placed = (first != NOWHERE) & (second != NOWHERE)
    flat = np.ravel_multi_index((first[placed], second[placed], whose[placed]), (size, size, kinds))
    steps = np.bincount(flat, minlength=size * size * kinds).reshape(size, size, kinds)
    totals = np.bincount(whose, minlength=kinds)
    # Summed-area table: the steps of every trajectory in every box are differences of its corners.
    corners = np.pad(steps.cumsum(0).cumsum(1), ((1, 0), (1, 0), (0, 0))).astype(np.float32)
    others = splits.n_agent - splits.agent.sum(axis=0)
    for begin, end in zip(low, high, strict=True):
        slab = corners[end] - corners[begin]
        inside = slab[high] - slab[low]
        touched, entered = inside[:, :n] > 0, inside[:, n:-1] >= STAY
        time = inside[:, n:-1].sum(axis=1) / totals[n:-1].sum()
        drawn = inside[:, -1] / totals[-1]
        possible = (touched.sum(axis=1) <= splits.demos.sum(axis=0).max()) & entered.any(axis=1)
        possible &= drawn >= min(PULL) * time
        if not possible.any():
            continue
        boxes = np.flatnonzero(possible)
        touches, enters = touched[boxes].astype(np.float32), entered[boxes].astype(np.float32)
        untouched = touches.sum(axis=1, keepdims=True) - touches @ splits.demos <= 0
        held = enters @ splits.agent
        share = np.where(untouched, (enters.sum(axis=1, keepdims=True) - held) / others, -1.0)
        for pull, best in zip(PULL, chosen, strict=True):
            scores = np.where((drawn >= pull * time)[boxes, None], share, -1.0)
            for column, i in enumerate(scores.argmax(axis=0)):
                if scores[i, column] > best[column].score:
                    box = boxes[i]
                    stays = (inside[box, :n] >= STAY) @ splits.demos[:, column]
                    ranges = (int(begin), int(end)), (int(low[box]), int(high[box]))
                    best[column] = Candidate(
                        float(scores[i, column]), plane, ranges, float(held[i, column]), float(stays)
                    )


def _judged(chosen: list[Candidate], splits: _Splits, grid: _Grid, names: Sequence[str]) -> JointTest:
    *parts, last = chosen
    counts = [round(sum(getattr(one, kind) for one in parts) / SPLITS) for kind in ("agent", "demos")]
    sizes = splits.n_agent, splits.n_demos
    table = [[count, size - count] for count, size in zip(counts, sizes, strict=True)]
    p = float(fisher_exact(table, alternative="greater")[1])
    rates = [clopper_pearson(count, size) for count, size in zip(counts, sizes, strict=True)]
    ours, theirs = (rate._asdict() | {"n": n, "count": k} for rate, n, k in zip(rates, sizes, counts, strict=True))
    # Of an episode that enters against one that does not; its interval holds if both rates are within theirs.
    auroc = [(1.0 + a - b) / 2.0 for a, b in zip(rates[0], (rates[1].value, rates[1].high, rates[1].low), strict=True)]
    box = []
    for j, (low, high) in zip(last.plane, last.ranges, strict=True):
        bounds = grid.bounds[j]
        box.append([float(bounds[min(end, len(bounds) - 1)]) for end in (low, high)])
    return {
        "inputs": [names[j] for j in last.plane],
        "box": box,
        "learner": ours,
        "demonstrations": theirs,
        "auroc": dict(zip(("value", "low", "high"), auroc, strict=True)),
        "p": p,
    }
