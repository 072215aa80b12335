"""Observations of a crowd, their slots in another order, and a cost on its objects, for the tests of several rooms."""

from __future__ import annotations

import numpy as np

from tacit.cost import Inputs, LearnedCost
from tacit.cost.terms import Term
from tacit.envs.crowd import OF_OBJECT, OWN, SLOTS, Crowd
from tacit.envs.registry import make_vec

NAMES = Crowd.feature_names
SHY = "distance to the nearest shy object"


def observations(steps: int = 30) -> np.ndarray:
    """(n, 62) observations of who goes straight to the goal, through all objects."""
    env = make_vec("tacit/Crowd-v0", 20, objects=[3, 8])
    seen = [env.reset(seed=3)[0]]
    for _ in range(steps):
        seen.append(env.step(np.clip(seen[-1][:, 4:6], -1.0, 1.0))[0])
    return np.concatenate(seen).astype(np.float32)


def permuted(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same observations with the slots of each in another order."""
    slots = obs[:, len(OWN) :].reshape(len(obs), SLOTS, len(OF_OBJECT))
    order = np.argsort(rng.random((len(obs), SLOTS)), axis=1)
    moved = np.take_along_axis(slots, order[..., None], axis=1)
    return np.concatenate([obs[:, : len(OWN)], moved.reshape(len(obs), -1)], axis=1)


def crowd_inputs(obs: np.ndarray) -> Inputs:
    """The inputs of a cost on the crowd: the agent's own entries, and three distances."""
    derived = Crowd.objects.nearest(NAMES, obs)
    columns = (*range(len(OWN)), *(len(NAMES) + i for i in range(len(derived))))
    names = (*OWN, *(one.name for one in derived))
    ones = np.ones(len(names), np.float32)
    return Inputs(names, columns, len(NAMES), 0, 0 * ones, ones, derived=derived)


def crowd_cost(obs: np.ndarray) -> LearnedCost:
    """Forbids what is nearer than 0.8 to a shy object, and a little what is fast."""
    inputs = crowd_inputs(obs)
    column = inputs.columns[inputs.names.index(SHY)]
    knots, values = np.array([0.0, 0.8, 0.9, 5.0], np.float32), np.array([5.0, 4.0, 0.0, 0.0], np.float32)
    speed = Term(("vx", "vy"), (2, 3), (np.array([-1, 1], np.float32),) * 2, np.eye(2, dtype=np.float32))
    none = np.zeros((len(inputs.names), 0), np.float32)
    terms = (Term((SHY,), (column,), (knots,), values), speed)
    return LearnedCost(inputs, np.zeros(0, np.float32), none, none, terms=terms, threshold=2.0)
