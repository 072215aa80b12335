"""The constraint map: a readable cost, fitted to the states that a run has seen.

The cost that drives the policy may read all inputs jointly. The map is additive, soft thresholds on single named
inputs, and sparse. It minimises the same dual as the run, on the demonstrations against all states that the learner
tried (bootstrap and every forward phase), with a budget on every feature that acts as an L1 penalty: a threshold that
does not earn its price is not used. A cost of one or two inputs can be read as a picture; then the map has a network on
all inputs if the run's cost has one. `tacit.cost.bounds.boundaries` reads a map one input at a time.
"""

from __future__ import annotations

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
"""Settings for a run whose method has none for a map."""
SPARSITY = 0.002
"""Penalty per unit of lam, in units of a feature's mean."""
READABLE, HIDDEN = 2, (64, 64)
"""Largest number of inputs that can be drawn together, and hidden layers of the network on them."""


def fit(config: Any, state: Any, driving: LearnedCost, expert: Expert, seed: int) -> LearnedCost | None:
    """The map of a run whose cost is `driving`; None for a linear cost, which is readable without a map."""
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
    """The largest cost that the map can have. The driving cost may be unbounded."""
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
    """Fit a map to rows (n, width) of the demonstrations and of the learner; additive apart from `joint` features.

    cost: (n,) the driving cost of the learner's rows. Costly rows are sampled more often: they tell where a limit is.
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
    # Draw half of the learner's rows evenly and half by cost, because the few beyond a boundary say where it is.
    likely = np.cumsum(np.maximum(cost, 0.0) + 1e-6)
    by_cost = np.searchsorted(likely, rng.random((MINIBATCHES, BATCH // 2)) * likely[-1]).clip(0, len(learner) - 1)
    evenly = rng.integers(len(learner), size=(MINIBATCHES, BATCH - BATCH // 2))
    expert_batches = expert_z[rng.integers(len(expert_z), size=(MINIBATCHES, BATCH))]
    batches = Batches(expert_batches, ones, learner_z[np.concatenate([evenly, by_cost], axis=1)], ones)
    params, _, _ = dual_steps(params, OPTIMISER.init(params), batches, hyper, once=False)
    return features.to_cost(params, inputs, at=at)
