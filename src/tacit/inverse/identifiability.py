"""Identifiability: what the data cannot say about the cost.

The Hessian of the dual, (1/beta) sum_s d(s) Cov_a M(s,a), is the information that the demonstrators' actions carry
about the weights. Directions in which it vanishes change no policy anywhere that the expert goes: no amount of
demonstrations reveals them (potential shaping, states that cannot be reached, a constant cost when all episodes last
equally long). With N demonstrations a direction is *revealed* when moving the cost along it by one unit of reward would
change their log-likelihood by at least half a nat: N v'Fv >= 1 with the Fisher information F = Hess / beta of one
trajectory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.inverse.exact_objectives import Geometry, MomentsDual, sum_over_time
from tacit.tabular import MDP, Solution

LARGEST = 3000  # features up to which the eigenvectors are computed
NULL = 1e-10  # eigenvalues below this share of the largest are zero


@dataclass(frozen=True)
class Identifiability:
    """The result of `identifiability`. Shapes: k features, r null directions."""

    eigenvalues: np.ndarray
    """(k,) eigenvalues of the dual's Hessian, ascending."""
    null_space: np.ndarray
    """(k, r) orthonormal directions of the weights that no demonstration can reveal."""
    unknown: np.ndarray
    """(k,) in [0, 1]: the part of each weight that lies in directions that the given data do not reveal."""
    n_demonstrations: int | None

    @property
    def rank(self) -> int:
        return len(self.eigenvalues) - self.null_space.shape[1]


def identifiability(mdp: MDP, solution: Solution, n_demonstrations: int | None = None) -> Identifiability:
    """Null space of the data at a solution, and the part of each weight that the data do not determine.

    n_demonstrations: how many there were; None asks what infinitely many would leave open.
    """
    size = solution.weights.shape[0]
    if solution.status == "infeasible":
        raise ValueError("an infeasible problem has no solution whose identifiability could be asked for")
    if size > LARGEST:
        raise ValueError(f"identifiability needs the eigenvectors of a {size} x {size} matrix; the limit is {LARGEST}")
    hessian, size_of_features = _hessian(mdp, solution)
    values, vectors = np.linalg.eigh(hessian)
    # If there is nothing to decide, all eigenvalues are mere rounding, small compared with the features themselves.
    null = values <= max(NULL * float(values[-1]), 1e-14 * size_of_features)
    hidden = null if n_demonstrations is None else (n_demonstrations * values / solution.beta < 1.0) | null
    unknown = np.clip((vectors[:, hidden] ** 2).sum(axis=1), 0.0, 1.0)
    return Identifiability(np.maximum(values, 0.0), vectors[:, null], unknown, n_demonstrations)


def _hessian(mdp: MDP, solution: Solution) -> tuple[np.ndarray, float]:
    """(k, k) Hessian, and max_i (1/beta) sum rho phi_i^2: its size if no feature depended on earlier steps."""
    geometry = Geometry(mdp, solution.features)
    point: Any = MomentsDual(geometry, solution.expert_moments + solution.budget).at(
        solution.weights, solution.beta, None
    )
    squares = geometry.transposed.power(2) @ sum_over_time(point.occupancy).ravel()
    return point.hessian, float(squares.max(initial=0.0)) / solution.beta
