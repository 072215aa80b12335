"""The constraint map: a cost that a person can read, fitted again on what a run has seen.

The cost that drives the policy may read everything at once. The map is additive, soft thresholds on single named
inputs, and sparse: the same dual as the run's, on the demonstrations against all the states that the learner tried
(bootstrap and every forward phase), with a budget on every feature, which acts as an L1 penalty: a threshold that does
not earn its price is not used. (Of one or two inputs a person can read any cost, as a picture: if the run's has a
network on all of them, so has the map.) It is read off one input at a time:

    boundaries(...)   where the cost of an input, the others as in the demonstrations, passes what demonstrations ever
                      cost, and the band between there and the nearest demonstration, about which nothing can be known
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.cost import Inputs, LearnedCost
from tacit.inverse import features
from tacit.inverse.features import OPTIMISER, Batches, Hyper, dual_steps
from tacit.inverse.samples import Expert

Array = NDArray[Any]
MINIBATCHES, BATCH = 1500, 512
THRESHOLDS = 24
EXPERT_SQUARE, LEARNER_SQUARE = 20.0, 0.1
"""For the map of a run that has none of its own."""
SPARSITY = 0.002
"""Price of a unit of lam, in units of a feature's mean."""
GRID = 801
READABLE, HIDDEN = 2, (64, 64)
"""So many inputs make a picture; layers of the network on both."""


def fit(config: Any, state: Any, driving: LearnedCost, expert: Expert, seed: int) -> LearnedCost | None:
    """The map of this run's data; None for a linear cost, which can be read as it is."""
    if driving.linear:
        return None
    learner = np.concatenate([state.nominal, state.replay.reshape(-1, state.replay.shape[-1])])
    return fit_rows(
        state.inputs,
        expert.rows,
        learner,
        driving.of_rows(learner),
        np.random.default_rng([seed, 5]),
        at=config.at,
        expert_square=config.expert_square,
        learner_square=config.learner_square,
        joint=config.joint if len(state.inputs.columns) <= READABLE else 0,
    )


def ceiling(config: Any) -> float:
    """The largest cost that the map can have; the driving cost may have no such bound."""
    return 0.5 / (config.learner_square or LEARNER_SQUARE)


def fit_rows(
    inputs: Inputs,
    expert: Array,
    learner: Array,
    cost: Array,
    rng: np.random.Generator,
    *,
    at: Literal["next", "current"],
    expert_square: float = 0.0,
    learner_square: float = 0.0,
    joint: int = 0,
) -> LearnedCost:
    """The cost of rows (n, width) of the demonstrations against rows of the learner; additive but for `joint` features.

    cost: (n,) what is known of the cost of the learner's rows, to look more often at those that lie beyond a boundary.
    """
    expert_z, learner_z = inputs.scaled(expert), inputs.scaled(learner)
    params = features.init(
        rng,
        np.concatenate([expert_z, learner_z[rng.integers(len(learner_z), size=len(expert_z))]]),
        thresholds=THRESHOLDS,
        hidden=HIDDEN,
        joint=joint,
        lam=0.01,
        bias=-3.0,
    )
    hyper = Hyper(
        lr_zeta=3e-3,
        lr_lam=1e-2,
        budget=SPARSITY,
        expert_square=expert_square or EXPERT_SQUARE,
        learner_square=learner_square or LEARNER_SQUARE,
    )

    ones = np.ones((MINIBATCHES, BATCH), np.float32)
    # Half of the learner's rows evenly, half by their cost: the few that lie beyond a boundary say where it is.
    likely = np.cumsum(np.maximum(cost, 0.0) + 1e-6)
    by_cost = np.searchsorted(likely, rng.random((MINIBATCHES, BATCH // 2)) * likely[-1]).clip(0, len(learner) - 1)
    evenly = rng.integers(len(learner), size=(MINIBATCHES, BATCH - BATCH // 2))
    shown = expert_z[rng.integers(len(expert_z), size=(MINIBATCHES, BATCH))]
    batches = Batches(shown, ones, learner_z[np.concatenate([evenly, by_cost], axis=1)], ones)
    params, _, _ = dual_steps(params, OPTIMISER.init(params), batches, hyper, once=False)
    return features.to_cost(params, inputs, at=at)


@dataclass(frozen=True)
class Boundary:
    """One end of what the demonstrations keep to, along one input."""

    feature: str
    relation: str
    """"<" or ">": the forbidden side."""
    value: float
    """Where the map's cost passes the level, in the feature's own unit."""
    demonstrated: float
    """The demonstrations' extreme on that side: between it and `value` nothing can be known."""
    share: float
    """Share of the learner's states that lie beyond `value`: how much this boundary explains."""

    def __str__(self) -> str:
        return f"{self.feature} {self.relation} {self.value:.4g}"


def boundaries(cost: LearnedCost, expert: Array, learner: Array, ceiling: float) -> list[Boundary]:
    """Every boundary that the map draws, the one that explains most of the learner's states first.

    The level is the cost that 99.9 % of the demonstrated steps stay below, or a tenth of the ceiling if that is more.
    """
    around = np.median(expert, axis=0)
    level = max(float(np.quantile(cost.of_rows(expert), 0.999)), 0.1 * ceiling)
    found = []
    for name, column in zip(cost.inputs.names, cost.inputs.columns, strict=True):
        low, high = float(expert[:, column].min()), float(expert[:, column].max())
        ends = np.quantile(learner[:, column], [0.001, 0.999])
        for relation, start, end in (("<", low, float(min(ends[0], low))), (">", high, float(max(ends[1], high)))):
            values = np.linspace(start, end, GRID)
            over = cost.profile(name, values, around) > level
            if start == end or not over.any():
                continue
            value = float(values[np.argmax(over)])
            beyond = learner[:, column] < value if relation == "<" else learner[:, column] > value
            found.append(Boundary(name, relation, value, start, float(beyond.mean())))
    return sorted(found, key=lambda boundary: -boundary.share)


def threshold_error(boundary: Boundary, true_value: float) -> float:
    """Distance of a boundary from the band between the demonstrations' extreme and the true wall, 0 inside it.

    Demonstrations that go beyond the wall leave no band: then it is the distance from the wall.
    """
    legal = max if boundary.relation == "<" else min
    low, high = sorted((legal(boundary.demonstrated, true_value), true_value))
    return max(0.0, low - boundary.value, boundary.value - high)
