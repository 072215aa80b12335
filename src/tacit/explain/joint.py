"""Regions where an agent goes and demonstrators do not, in one input or in a pair of inputs.

An agent may cross a forbidden region although each of its coordinates alone looks like the demonstrators'. So single
inputs and pairs of them are compared. For a set S of one or two inputs with smoothed densities rho_A of the agent and
rho_D of the demonstrations, cells are ordered by

    rho_A / (rho_A + rho_D)                                                                                      (1)

and the highest are taken until they hold a share of ALLOWED of the demonstrated steps. The share of the agent's steps
in them, less ALLOWED, is the *share* of S: what it does where demonstrators hardly ever are. Both shares are measured
on trajectories that took no part in (1), so chance alone gives about 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ALLOWED = 0.01
"""Share of demonstrated steps that the agent's own region may contain."""
FOLDS = 5
GRID = 32
"""Number of cells per input. All steps together fill them evenly, so the grid is fine where the data are."""
WIDTHS = (1.0, 2.0, 4.0)
"""Candidate widths of the smoothing, in cells; the held-out trajectories choose one."""
MOST_INPUTS = 12
"""Number of inputs whose pairs are compared: those that differ most alone."""
PERMUTATIONS = 99
SIGNIFICANT = 0.05
SMALLEST_SHARE = 0.01
"""Share of the agent's steps below which a difference is too small to report."""


@dataclass(frozen=True)
class Apart:
    """One or two inputs in which the agent goes where demonstrators do not."""

    inputs: tuple[str, ...]
    share: float
    """Share of the agent's steps, on held-out trajectories; see the module's docstring."""
    p: float
    """p-value, adjusted for the number of inputs and pairs."""

    @property
    def clear(self) -> bool:
        """Whether the difference is significant and large enough to report."""
        return self.p <= SIGNIFICANT and self.share > SMALLEST_SHARE

    def __str__(self) -> str:
        return " and ".join(self.inputs)


def compare_jointly(
    demos: Sequence[Array], agent: Sequence[Array], names: Sequence[str], rng: np.random.Generator
) -> list[Apart]:
    """Compare trajectories (steps, inputs) in single inputs and in pairs; the largest share comes first.

    Steps of one trajectory are correlated, so the test permutes the labels of whole trajectories. The p-value of a set
    is the share of permutations in which the largest share of any set reaches its own (Westfall and Young).
    """
    cells = _cells([*demos, *agent])
    varying = [j for j in range(len(names)) if len(np.unique(np.concatenate([rows[:, j] for rows in cells]))) > 1]
    visits = cache(lambda chosen: _visits(cells, chosen))

    def shares(is_agent: Array) -> dict[tuple[int, ...], float]:
        """Shares of all inputs, and of the pairs of those that differ most alone."""
        folds = _folds(is_agent, rng)
        singles = {(j,): _share(visits((j,)), is_agent, folds) for j in varying}
        most = sorted(sorted(varying, key=lambda j: -singles[(j,)])[:MOST_INPUTS])
        return singles | {pair: _share(visits(pair), is_agent, folds) for pair in itertools.combinations(most, 2)}

    labels = np.arange(len(cells)) >= len(demos)
    observed = shares(labels)
    largest = np.array([max(shares(rng.permutation(labels)).values(), default=0.0) for _ in range(PERMUTATIONS)])
    listed = [
        Apart(tuple(names[j] for j in one), share, float((1 + (largest >= share).sum()) / (1 + PERMUTATIONS)))
        for one, share in observed.items()
    ]
    return sorted(listed, key=lambda one: -one.share)


def _cells(trajectories: Sequence[Array]) -> list[Array]:
    """The cell of every step in every input, (steps, inputs) per trajectory. All steps together fill them evenly."""
    rows = np.concatenate(trajectories)
    edges = np.quantile(rows, np.arange(1, GRID) / GRID, axis=0)
    columns = [np.searchsorted(edges[:, j], rows[:, j], side="right") for j in range(rows.shape[1])]
    return np.split(np.stack(columns, axis=1), np.cumsum([len(one) for one in trajectories])[:-1])


def _visits(cells: Sequence[Array], chosen: tuple[int, ...]) -> Array:
    """(trajectories, GRID) or (trajectories, GRID, GRID): steps of each trajectory in each cell."""
    shape = (GRID,) * len(chosen)
    flat = [np.ravel_multi_index(tuple(rows[:, j] for j in chosen), shape) for rows in cells]
    counts = [np.bincount(places, minlength=int(np.prod(shape))).reshape(shape) for places in flat]
    return np.stack(counts).astype(np.float32)


def _folds(is_agent: Array, rng: np.random.Generator) -> Array:
    """(trajectories,) the fold of each trajectory. Both kinds are spread evenly over the folds."""
    folds = np.empty(len(is_agent), dtype=int)
    for kind in (False, True):
        members = np.flatnonzero(is_agent == kind)
        folds[members] = rng.permutation(len(members)) % FOLDS
    return folds


def _share(visits: Array, is_agent: Array, folds: Array) -> float:
    """The share of these cells on held-out trajectories, with the smoothing that suits them best."""
    members = np.stack([[(folds == fold) & (is_agent == kind) for fold in range(FOLDS)] for kind in (False, True)])
    counts = np.tensordot(members.astype(float), visits, axes=(2, 0))  # (kind, fold, cells ...)
    if not counts.any(axis=tuple(range(2, counts.ndim))).all():
        return -np.inf  # a fold without trajectories of one kind
    return max(_held_out(counts, kernel) for kernel in KERNELS)


def _held_out(counts: Array, kernel: Array) -> float:
    """The share, where (1) of every fold comes from the other folds; counts (kind, fold, cells ...)."""
    axes = tuple(range(2, counts.ndim))
    others = counts.sum(axis=1, keepdims=True) - counts
    density = others / others.sum(axis=axes, keepdims=True)
    density = density @ kernel.T if len(axes) == 1 else kernel @ density @ kernel.T
    demos, agent = density
    order = np.argsort(-(agent / (agent + demos + 1e-15)), axis=None, kind="stable")
    rejected, reached = (np.cumsum(kind.ravel()[order]) / kind.sum() for kind in counts)
    taken = int(np.searchsorted(rejected, ALLOWED, side="right"))
    return float(reached[taken - 1] if taken else 0.0) - ALLOWED


def _kernel(width: float) -> Array:
    """(GRID, GRID) Gaussian smoothing along one input. It preserves the weight of every step."""
    distance = np.subtract.outer(np.arange(GRID), np.arange(GRID)) / width
    kernel = np.exp(-0.5 * distance**2)
    return np.asarray(kernel / kernel.sum(axis=0))


KERNELS = [_kernel(width) for width in WIDTHS]
