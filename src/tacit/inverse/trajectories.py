"""Demonstrations on a finite MDP, as (states, actions) integer arrays: checks, counts, moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from tacit.errors import UserError
from tacit.forward.soft_policy_iteration import plan
from tacit.tabular import MDP

Trajectories = list[tuple[np.ndarray, np.ndarray]]


def check_demonstrations(mdp: MDP, demonstrations: Any) -> Trajectories:
    """Trajectories as (states, actions) integer arrays with possible transitions; UserError that names a wrong one."""
    if isinstance(demonstrations, (str, bytes)) or not isinstance(demonstrations, Sequence):
        raise TypeError("demonstrations must be a sequence of (states, actions) pairs of integer arrays")
    if len(demonstrations) == 0:
        raise UserError("there are no demonstrations: give at least one (states, actions) pair")
    checked = []
    for i, trajectory in enumerate(demonstrations):
        try:
            states, actions = trajectory
        except (TypeError, ValueError):
            raise TypeError(f"demonstration {i} is not a (states, actions) pair") from None
        states, actions = np.asarray(states), np.asarray(actions)
        for name, array in (("states", states), ("actions", actions)):
            if array.ndim != 1 or (len(array) and not np.issubdtype(array.dtype, np.integer)):
                raise TypeError(f"{name} of demonstration {i} must be a one-dimensional array of integers")
        if len(actions) == 0:
            raise UserError(f"demonstration {i} is empty: it has no action")
        if len(states) - len(actions) not in (0, 1):
            raise UserError(
                f"demonstration {i} has {len(states)} states and {len(actions)} actions: "
                "expected as many states as actions, or one more (the final state)"
            )
        for name, array, size in (("state", states, mdp.n_states), ("action", actions, mdp.n_actions)):
            outside = (array < 0) | (array >= size)
            if outside.any():
                step = int(np.argmax(outside))
                raise UserError(
                    f"demonstration {i}, step {step}: {name} {array[step]} is outside the space 0..{size - 1}"
                )
        if mdp.terminal[states[: len(actions)]].any():
            step = int(np.argmax(mdp.terminal[states[: len(actions)]]))
            raise UserError(f"demonstration {i}, step {step}: acts in terminal state {states[step]}")
        if mdp.horizon is not None and len(actions) > mdp.horizon:
            raise UserError(f"demonstration {i} has {len(actions)} steps, more than the horizon {mdp.horizon}")
        _check_possible(mdp, i, states, actions)
        checked.append((states.astype(np.int64), actions.astype(np.int64)))
    return checked


def _check_possible(mdp: MDP, i: int, states: np.ndarray, actions: np.ndarray) -> None:
    if mdp.initial[states[0]] == 0:
        raise UserError(f"demonstration {i} starts in state {states[0]}, which has initial probability 0")
    steps = len(states) - 1
    rows = states[:steps] * mdp.n_actions + actions[:steps]
    likely = np.asarray(mdp.transitions[rows, states[1:]]).ravel() if steps else np.zeros(0)
    if (likely == 0).any():
        step = int(np.argmax(likely == 0))
        raise UserError(
            f"demonstration {i}, step {step}: state {states[step]} with action {actions[step]} cannot lead to "
            f"state {states[step + 1]} (probability 0 in the transitions)"
        )


def discounted_counts(mdp: MDP, demonstrations: Trajectories) -> np.ndarray:
    """(1/N) sum_i sum_t gamma^t 1[s_t=s, a_t=a]: (S, A), or (T, S, A) with a horizon."""
    shape = (mdp.n_states, mdp.n_actions) if mdp.horizon is None else (mdp.horizon, mdp.n_states, mdp.n_actions)
    counts = np.zeros(shape)
    for states, actions in demonstrations:
        t = np.arange(len(actions))
        where = (states[: len(actions)], actions) if mdp.horizon is None else (t, states[: len(actions)], actions)
        np.add.at(counts, where, mdp.discount**t)
    return counts / len(demonstrations)


def estimated_policy(mdp: MDP, demonstrations: Trajectories, beta: float, pseudo_count: float) -> np.ndarray:
    """The expert's policy from counts, smoothed by `pseudo_count` visits of the unconstrained soft-optimal policy.

    With a horizon, the counts of each time step are smoothed in turn by the estimate from all steps together.
    """
    counts = np.zeros((mdp.horizon or 1, mdp.n_states, mdp.n_actions))
    for states, actions in demonstrations:
        steps = np.arange(len(actions)) if mdp.horizon is not None else np.zeros(len(actions), dtype=int)
        np.add.at(counts, (steps, states[: len(actions)], actions), 1.0)

    def mixed(counted: np.ndarray, prior: np.ndarray) -> np.ndarray:
        smoothed = counted + pseudo_count * prior
        return smoothed / smoothed.sum(axis=-1, keepdims=True)

    pooled = mixed(counts.sum(axis=0), plan(mdp, mdp.rewards, beta).policy)
    return pooled if mdp.horizon is None else mixed(counts, pooled)


def trajectory_moments(mdp: MDP, features: sp.csr_array, demonstrations: Trajectories) -> np.ndarray:
    """(N, k) the discounted feature sum of each trajectory."""
    rows, columns, values = [], [], []
    for i, (states, actions) in enumerate(demonstrations):
        rows.append(np.full(len(actions), i))
        columns.append(states[: len(actions)] * mdp.n_actions + actions)
        values.append(mdp.discount ** np.arange(len(actions)))
    weights = sp.csr_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(len(demonstrations), mdp.n_states * mdp.n_actions),
    )
    return (weights @ features).toarray()
