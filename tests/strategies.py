"""Random finite MDPs for the property tests: a plain record of arrays, its maker, and hypothesis strategies.

The shape of a problem (kind of dynamics, kind of features, terminal states, horizon, scales) is drawn by hypothesis, so
that a failing example shrinks to a small and simple one; the numbers come from a seeded NumPy generator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tacit.tabular import MDP

DYNAMICS = ("dense", "sparse", "deterministic", "slip", "loops", "absorbing", "disconnected", "chain")
FEATURES = ("gaussian", "positive", "binary", "states", "pairs", "duplicate", "zeros", "constant", "many")


@dataclass(frozen=True, eq=False)
class Case:
    """An MDP with features as dense arrays: what the oracles read, and what the package is given."""

    transitions: np.ndarray
    """(S, A, S)"""
    rewards: np.ndarray
    """(S, A)"""
    initial: np.ndarray
    """(S,)"""
    discount: float
    terminal: np.ndarray
    """(S,) bool"""
    features: np.ndarray
    """(S, A, k)"""
    horizon: int | None
    seed: int

    @property
    def mdp(self) -> MDP:
        return MDP(self.transitions, self.rewards, self.initial, self.discount, self.horizon, self.terminal)

    @property
    def n_features(self) -> int:
        return self.features.shape[2]

    def rng(self, salt: int = 0) -> np.random.Generator:
        return np.random.default_rng([self.seed, salt, 7])

    def random_policy(self, salt: int = 0, sharpness: float = 1.0) -> np.ndarray:
        """(S, A), or (T, S, A) with a horizon."""
        shape = self.rewards.shape if self.horizon is None else (self.horizon, *self.rewards.shape)
        logits = sharpness * self.rng(100 + salt).normal(size=shape)
        policy = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return policy / policy.sum(axis=-1, keepdims=True)

    def changed(self, **changes: Any) -> Case:
        return replace(self, **changes)


def make_case(
    seed: int,
    n_states: int = 5,
    n_actions: int = 3,
    n_features: int = 3,
    dynamics: str = "dense",
    features: str = "gaussian",
    discount: float = 0.9,
    n_terminal: int = 0,
    horizon: int | None = None,
    reward_scale: float = 1.0,
    feature_scale: float = 1.0,
) -> Case:
    rng = np.random.default_rng(seed)
    transitions = _transitions(rng, n_states, n_actions, dynamics)
    terminal = np.zeros(n_states, dtype=bool)
    if n_terminal:
        terminal[-min(n_terminal, n_states - 1) :] = True
    initial = rng.dirichlet(np.ones(n_states))
    if dynamics in ("deterministic", "chain", "disconnected") or seed % 2:
        initial = np.eye(n_states)[0]
    return Case(
        transitions=transitions,
        rewards=reward_scale * rng.normal(size=(n_states, n_actions)),
        initial=initial,
        discount=discount,
        terminal=terminal,
        features=feature_scale * _features(rng, n_states, n_actions, n_features, features),
        horizon=horizon,
        seed=seed,
    )


def _transitions(rng: np.random.Generator, n_states: int, n_actions: int, kind: str) -> np.ndarray:
    """(S, A, S)"""
    every = np.eye(n_states)
    target = rng.integers(n_states, size=(n_states, n_actions))
    if kind == "dense":
        return rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    if kind == "sparse":
        share = rng.random((n_states, n_actions, 1))
        return share * every[target] + (1 - share) * every[rng.integers(n_states, size=target.shape)]
    if kind == "deterministic":
        return every[target]
    if kind == "slip":
        return 0.8 * every[target] + 0.2 / n_states
    if kind == "loops":  # half of all actions do nothing
        stay = rng.random((n_states, n_actions)) < 0.5
        return every[np.where(stay, np.arange(n_states)[:, None], target)]
    if kind == "absorbing":  # the last state is never left; it is not terminal unless the case says so
        moves = 0.9 * every[target] + 0.1 / n_states
        moves[-1] = every[-1]
        return moves
    if kind == "disconnected":  # the upper half cannot be reached from the lower
        half = max(1, n_states // 2)
        upper = rng.integers(half, max(half + 1, n_states), size=(n_states, n_actions)) % n_states
        low = np.arange(n_states)[:, None] < half
        return 0.7 * every[np.where(low, target % half, upper)] + 0.3 * every[np.where(low, 0, n_states - 1)]
    if kind == "chain":  # action 0 goes back, the others forward
        step = np.where(np.arange(n_actions) == 0, -1, 1)
        return every[np.clip(np.arange(n_states)[:, None] + step, 0, n_states - 1)]
    raise ValueError(kind)


def _features(rng: np.random.Generator, n_states: int, n_actions: int, size: int, kind: str) -> np.ndarray:
    """(S, A, k)"""
    pairs = n_states * n_actions
    if kind == "states":
        return np.repeat(np.eye(n_states)[:, None, :], n_actions, axis=1)
    if kind == "pairs":
        return np.eye(pairs).reshape(n_states, n_actions, pairs)
    if kind == "many":  # more features than state-action pairs
        return rng.random((n_states, n_actions, pairs + 2))
    normal = rng.normal(size=(n_states, n_actions, size))
    if kind == "positive":
        return np.abs(normal)
    if kind == "binary":
        return (normal > 0.3).astype(float)
    if kind == "duplicate":
        normal[..., -1] = normal[..., 0]
    if kind == "zeros":
        normal[..., -1] = 0.0
    if kind == "constant":
        normal[..., -1] = 1.0
    return normal


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    dynamics: tuple[str, ...] = DYNAMICS,
    features: tuple[str, ...] = FEATURES,
    discounts: tuple[float, ...] = (0.5, 0.9, 0.97),
    horizons: tuple[int | None, ...] = (None, None, 1, 4),
    max_states: int = 6,
    max_actions: int = 3,
    reward_scales: tuple[float, ...] = (1.0,),
    feature_scales: tuple[float, ...] = (1.0,),
) -> Case:
    n_states = draw(st.integers(1, max_states))
    return make_case(
        seed=draw(st.integers(0, 2**20)),
        n_states=n_states,
        n_actions=draw(st.integers(1, max_actions)),
        n_features=draw(st.integers(1, 4)),
        dynamics=draw(st.sampled_from(dynamics)),
        features=draw(st.sampled_from(features)),
        discount=draw(st.sampled_from(discounts)),
        n_terminal=draw(st.integers(0, min(2, n_states - 1))),
        horizon=draw(st.sampled_from(horizons)),
        reward_scale=draw(st.sampled_from(reward_scales)),
        feature_scale=draw(st.sampled_from(feature_scales)),
    )


def simulate(case: Case, policy: np.ndarray, number: int, length: int, salt: int = 0) -> list[tuple[Any, Any]]:
    """Trajectories (states, actions) of a policy, one more state than actions; they stop at terminals or `length`.

    Episodes that would start in a terminal state are drawn again: a demonstration has at least one action.
    """
    rng = case.rng(200 + salt)
    live_start = np.where(case.terminal, 0.0, case.initial)
    live_start = live_start / live_start.sum()
    steps = length if case.horizon is None else min(length, case.horizon)
    out = []
    for _ in range(number):
        state = rng.choice(len(live_start), p=live_start)
        states, actions = [state], []
        for t in range(steps):
            action = rng.choice(policy.shape[-1], p=policy[state] if policy.ndim == 2 else policy[t, state])
            state = rng.choice(len(live_start), p=case.transitions[state, action])
            actions.append(action)
            states.append(state)
            if case.terminal[state]:
                break
        out.append((np.array(states), np.array(actions)))
    return out
