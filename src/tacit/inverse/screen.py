"""What a cost of terms is fitted to, and which inputs are worth a fit: S of histograms.

`tacit.inverse.terms` has the problem and the score S. Here S of every input and of every pair is estimated roughly, by
smoothed histograms, where the minimiser (3) of `tacit.inverse.mce` is known cell by cell.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.cost.terms import first_knots

Array = NDArray[Any]
Inputs = tuple[int, ...]
"""Positions of one or two inputs."""
FOLDS = 5
MOST_INPUTS = 120
"""Number of inputs whose pairs are screened: those that differ most alone."""
CELLS = 20
CELL_HINGES = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)


@dataclass(frozen=True)
class Samples:
    """The data of (1): inputs (n, d) float64 of demonstrated steps and of the agents that they are compared with."""

    expert: Array
    folds: NDArray[np.intp]
    """(n,) the fold of each demonstrated step; steps of a trajectory are in the same one."""
    learner: Array
    weight: Array
    """(m,) of the learner's steps; they sum to 1."""
    expert_square: float
    learner_square: float
    beginners: Array | None = None
    """(k, d) early steps of an agent that learns to follow the reward."""

    @property
    def n_folds(self) -> int:
        return int(self.folds.max()) + 1


def folds_of(lengths: Array) -> NDArray[np.intp]:
    """(steps,) the fold of each step of trajectories of these lengths. A single trajectory is cut into pieces."""
    if len(lengths) == 1:
        return np.arange(lengths[0]) * min(FOLDS, int(lengths[0])) // int(lengths[0])
    order = np.random.default_rng(len(lengths)).permutation(len(lengths))
    return np.repeat(order % min(FOLDS, len(lengths)), lengths)


def _kernel(width: float) -> Array:
    """(CELLS, CELLS) Gaussian smoothing along one input, which keeps the weight of every step."""
    kernel = np.exp(-0.5 * (np.subtract.outer(np.arange(CELLS), np.arange(CELLS)) / width) ** 2)
    return np.asarray(kernel / kernel.sum(axis=0))


KERNELS = [_kernel(width) for width in (0.7, 1.2, 2.0, 3.0)]


def screen(samples: Samples, expert_cost: Array, learner_cost: Array) -> dict[Inputs, float]:
    """{inputs: what a term on them would add to S, roughly}, given the present costs (out of fold) of both sides.

    With a present cost c0 the minimiser (3) of `mce` becomes, cell by cell,
    c = (E_P[1 - 2 b c0] - E_D[1 + 2 a c0])_+ / (2 (a rho_D + b rho_P)), with the expectations over the cell.
    """
    a, b = samples.expert_square, samples.learner_square
    expert_pull = 1.0 + 2.0 * a * expert_cost
    learner_pull = samples.weight * np.maximum(0.0, 1.0 - 2.0 * b * learner_cost)
    expert, learner = _cells(samples)
    n = samples.n_folds
    counts = np.bincount(samples.folds, minlength=n)
    gone = (counts.sum() - counts).clip(1)

    def gain(chosen: Inputs) -> float:
        shape = (CELLS,) * len(chosen)
        size = math.prod(shape)
        of_expert = np.ravel_multi_index(tuple(expert[:, j] for j in chosen), shape) + samples.folds * size
        of_learner = np.ravel_multi_index(tuple(learner[:, j] for j in chosen), shape)
        pull = np.bincount(of_expert, expert_pull, n * size).reshape(n, *shape)
        mass = np.bincount(of_expert, minlength=n * size).reshape(n, *shape).astype(float)
        learner_force = np.bincount(of_learner, learner_pull, size).reshape(shape)
        learner_mass = np.bincount(of_learner, samples.weight, size).reshape(shape)
        per_fold = gone.reshape(n, *[1] * len(shape))
        best = 0.0
        for kernel in KERNELS:

            def smooth(x: Array, kernel: Array = kernel) -> Array:
                return np.asarray(x @ kernel.T if len(shape) == 1 else kernel @ x @ kernel.T)

            density = smooth((mass.sum(0) - mass) / per_fold)
            force = smooth(learner_force) - smooth((pull.sum(0) - pull) / per_fold)
            cost = np.maximum(force, 0.0) / (2.0 * (a * density + b * smooth(learner_mass)) + 1e-12)
            mean = cost.mean(axis=0)
            for h in CELL_HINGES:
                high, learner_high = np.maximum(cost - h, 0.0), np.maximum(mean - h, 0.0)
                gap = (learner_force * learner_high).sum() - (pull * high).sum() / counts.sum()
                squares = a * (mass * high**2).sum() / counts.sum() + b * (learner_mass * learner_high**2).sum()
                if gap > 0 and squares > 0:
                    best = max(best, float(b * gap * gap / squares))
        return best

    varying = [j for j in range(expert.shape[1]) if max(expert[:, j].max(), learner[:, j].max()) > 0]
    gains = {(j,): gain((j,)) for j in varying}
    most = sorted(sorted(varying, key=lambda j: -gains[(j,)])[:MOST_INPUTS])
    return gains | {pair: gain(pair) for pair in itertools.combinations(most, 2)}


def _cells(samples: Samples) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Cells (n, d) and (m, d) of both sides."""
    sides: tuple[list[Any], list[Any]] = ([], [])
    for j in range(samples.expert.shape[1]):
        columns = samples.expert[:, j], samples.learner[:, j]
        knots = first_knots(*columns, CELLS + 1)
        edges = knots[1:-1] if len(knots) > CELLS else (knots[1:] + knots[:-1]) / 2.0
        for side, column in zip(sides, columns, strict=True):
            side.append(np.searchsorted(edges, column, side="right"))
    return np.stack(sides[0], axis=1), np.stack(sides[1], axis=1)
