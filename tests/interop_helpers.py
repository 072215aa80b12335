"""Random policies and costs of every kind, without training any."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.cost import Inputs, LearnedCost
from tacit.policy import Interface, Policy


def random_policy(face: Interface, seed: int = 0, hidden: tuple[int, ...] = (16, 8), clip: float = 5.0) -> Policy:
    rng = np.random.default_rng(seed)
    sizes = [face.obs_size, *hidden, face.act_size]
    pairs = list(itertools.pairwise(sizes))
    whole = face.n_states > 0
    return Policy(
        interface=face,
        weights=tuple(rng.normal(0, 1.0, pair).astype(np.float32) for pair in pairs),
        biases=tuple(rng.normal(0, 0.5, pair[1]).astype(np.float32) for pair in pairs),
        log_std=None if face.n_actions else rng.normal(-1, 0.5, face.act_size).astype(np.float32),
        obs_mean=np.zeros(face.obs_size, np.float32) if whole else rng.normal(0, 3, face.obs_size).astype(np.float32),
        obs_scale=np.ones(face.obs_size, np.float32)
        if whole
        else np.exp(rng.normal(0, 1, face.obs_size)).astype(np.float32),
        obs_clip=np.inf if whole else clip,
    )


POLICIES = {
    "box": random_policy(Interface(4, 2, low=(-1.0, -3.0), high=(2.0, 1.0))),
    "box, own units": random_policy(Interface(4, 2, low=(-1.0, -3.0), high=(2.0, 1.0), scaled=False), 1),
    "discrete": random_policy(Interface(3, 5, n_actions=5), 2),
    "states": random_policy(Interface(6, 3, n_states=6, n_actions=3), 3),
    "states, continuous": random_policy(Interface(6, 1, n_states=6, low=(0.0,), high=(4.0,)), 4),
    "not normalised, one layer": random_policy(Interface(2, 2, n_actions=2), 5, hidden=(4,), clip=np.inf),
}


def random_cost(
    seed: int = 0,
    *,
    thresholds: int = 3,
    layers: tuple[int, ...] = (8, 4),
    head: str = "sigmoid",
    act: int = 0,
    n_actions: int = 0,
    **more: Any,
) -> LearnedCost:
    """Of five observations, of which it reads three in another order."""
    rng = np.random.default_rng(seed)
    columns = (3, 0, 4, *range(5, 5 + act))
    d = len(columns)
    sizes = [d, *layers]
    pairs = list(itertools.pairwise(sizes))
    joint = 0 if not layers else 1 if head == "beta" else layers[-1]
    linear = not thresholds and not layers
    inputs = Inputs(
        names=tuple(f"x{i}" for i in range(d)),
        columns=columns,
        obs_size=5,
        act_size=act,
        centre=np.zeros(d, np.float32) if linear else rng.normal(0, 2, d).astype(np.float32),
        scale=np.ones(d, np.float32) if linear else np.exp(rng.normal(0, 1, d)).astype(np.float32),
        squash=not linear,
        clip=np.inf if linear else 3.0,
        n_actions=n_actions,
    )
    return LearnedCost(
        inputs=inputs,
        lam=rng.exponential(1.0, d if linear else d * thresholds + joint).astype(np.float32),
        slopes=rng.normal(0, 4, (d, thresholds)).astype(np.float32),
        offsets=rng.normal(0, 2, (d, thresholds)).astype(np.float32),
        weights=tuple(rng.normal(0, 1, pair).astype(np.float32) for pair in pairs),
        biases=tuple(rng.normal(0, 1, pair[1]).astype(np.float32) for pair in pairs),
        head=head,  # type: ignore[arg-type]
        **more,
    )


COSTS = {
    "thresholds and network": random_cost(0),
    "thresholds": random_cost(1, layers=()),
    "network": random_cost(2, thresholds=0),
    "beta": random_cost(3, thresholds=0, layers=(8, 2), head="beta"),
    "leaky": random_cost(7, thresholds=0, head="leaky"),
    "linear": random_cost(4, thresholds=0, layers=()),
    "of actions": random_cost(5, act=2, at="current"),
    "of discrete actions": random_cost(6, act=4, n_actions=4),
}


def with_threshold(cost: LearnedCost) -> LearnedCost:
    """In the middle of what it gives."""
    rng = np.random.default_rng(0)
    rows = 5 * rng.standard_normal((400, 5 + cost.inputs.act_size)).astype(np.float32)
    return replace(cost, threshold=float(np.median(cost.of_rows(rows))))


COSTS |= {f"{kind}, with threshold": with_threshold(COSTS[kind]) for kind in ("network", "of actions")}
