"""Demonstrations from arrays in memory: one pair (observations, actions) per trajectory, or more if more is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tacit.demos.data import Demonstrations, Trajectory, from_trajectories, make_card
from tacit.errors import UserError
from tacit.run.log import logger

FIELDS = ("observations", "actions", "rewards", "terminated", "costs")
"""Parts of an entry, in this order or by name."""


def from_arrays(trajectories: Iterable[Any], *, card: Mapping[str, Any] | None = None) -> Demonstrations:
    """Demonstrations from one entry per trajectory: a tuple or a dict of observations, actions, rewards, terminated.

    Observations are (T + 1, ...), the last one included, for (T, ...) actions. With only T of them the last action is
    left out, because nobody knows where it led. Rewards and `terminated` (False: cut off by a time limit) may be
    missing; without rewards, returns of the demonstrations mean nothing.
    """
    if isinstance(trajectories, Mapping | str) or not isinstance(trajectories, Iterable):
        raise UserError(
            f"demonstrations must be a list with one (observations, actions) per trajectory, not {_named(trajectories)}"
        )
    entries = [_entry(i, one) for i, one in enumerate(trajectories)]
    if not entries:
        raise UserError("there are no demonstrations: at least one trajectory is needed")
    if any("rewards" not in one for one in entries):
        logger.warning(
            "the demonstrations have no rewards, which count as 0: their return means nothing. "
            "(observations, actions, rewards) has them"
        )
    made = [_trajectory(i, one) for i, one in enumerate(entries)]
    return from_trajectories(made, {**make_card(source="arrays in memory"), **(card or {})})


def _entry(i: int, one: Any) -> dict[str, Any]:
    if isinstance(one, Trajectory):
        return {name: getattr(one, name) for name in FIELDS if getattr(one, name) is not None}
    if isinstance(one, Mapping):
        unknown = [name for name in one if name not in FIELDS]
        if unknown:
            raise UserError(f"trajectory {i} has {unknown[0]!r}; its entries are {', '.join(FIELDS)}")
        entry = dict(one)
    elif isinstance(one, tuple | list) and 2 <= len(one) <= len(FIELDS):
        entry = dict(zip(FIELDS, one, strict=False))
    else:
        raise UserError(f"trajectory {i} is {_named(one)}, not a pair (observations, actions)")
    missing = [name for name in FIELDS[:2] if name not in entry]
    if missing:
        raise UserError(f"trajectory {i} has no {missing[0]}")
    return entry


def _trajectory(i: int, entry: Mapping[str, Any]) -> Trajectory:
    try:
        observations, actions = np.asarray(entry["observations"]), np.asarray(entry["actions"])
        arrays = [observations, actions]
    except ValueError as error:
        raise UserError(f"trajectory {i} is no array of numbers: {error}") from None
    if any(array.ndim == 0 or array.dtype.kind not in "biuf" for array in arrays):
        raise UserError(f"trajectory {i} holds {arrays[0].dtype} and {arrays[1].dtype}, not arrays of numbers")
    if len(observations) == len(actions):
        actions = actions[:-1]
    steps = len(actions)
    if len(observations) != steps + 1 or steps < 1:
        raise UserError(
            f"trajectory {i} has {len(observations)} observations for {len(entry['actions'])} actions: there is one "
            "more observation than actions, or as many"
        )
    rewards = np.asarray(entry.get("rewards", np.zeros(steps)), dtype=np.float64)[:steps]
    costs = entry.get("costs")
    ended = np.asarray(entry.get("terminated", False))
    return Trajectory(
        observations,
        actions,
        rewards,
        None if costs is None else np.asarray(costs, dtype=np.float64)[:steps],
        bool(ended.reshape(-1)[-1]) and len(entry["actions"]) == steps,
    )


def _named(one: Any) -> str:
    return f"{type(one).__name__} of length {len(one)}" if isinstance(one, tuple | list) else type(one).__name__
