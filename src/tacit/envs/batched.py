"""What batched environments share: the result of a step, which copies to reset, and how they are seeded."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from tacit.envs.families import Info, Options
from tacit.errors import UserError

Array = NDArray[Any]
Flags = NDArray[np.bool_]
Seeds = int | list[int | None] | None


class Step(NamedTuple):
    """What one step of N copies gives. All arrays are fresh: the next step does not change them."""

    obs: Array
    """(N, obs) what to act on next: of a new episode where the old one ended."""
    reward: Array
    """(N,)"""
    cost: Array
    """(N,) 1.0 where the state reached breaks the true constraint, else 0.0."""
    terminated: Flags
    """(N,)"""
    truncated: Flags
    """(N,)"""
    final_obs: Array
    """(N, obs) the state reached by this step, also where the episode ended. The same array as `obs` if none ended."""


def step_info(cost: Array, ended: Flags, final_obs: Array, start_cost: Any = 0.0, **last: Array) -> Info:
    """The info of a step after which the copies that `ended` (N,) have been reset.

    Their rows of "cost" belong to the new episode (`start_cost`). What their last step gave is in "final_obs" and
    "final_info": the cost, and `last`.
    """
    info: Info = {"cost": cost, "_cost": np.ones(len(ended), np.bool_)}
    if ended.any():
        info["cost"] = np.where(ended, start_cost, cost)
        info["final_obs"], info["_final_obs"] = final_obs, ended
        final: Info = {}
        for name, values in {"cost": cost, **last}.items():
            final[name], final[f"_{name}"] = values, ended.copy()
        info["final_info"], info["_final_info"] = final, ended.copy()
    return info


def reset_mask(options: Options | None, num_envs: int, *, started: bool) -> Flags:
    """(N,) which copies a reset concerns: all of them, or those of options["reset_mask"]."""
    mask = (options or {}).get("reset_mask")
    if mask is None:
        return np.ones(num_envs, np.bool_)
    if not started:
        raise gym.error.ResetNeeded("the first reset must reset every copy: call reset() without a reset_mask")
    mask = np.asarray(mask)
    if mask.dtype != np.bool_ or mask.shape != (num_envs,):
        raise UserError(f"reset_mask must be {num_envs} booleans, not {mask.dtype} of shape {mask.shape}")
    return mask


def seeds_of(seed: Seeds, num_envs: int) -> list[int | None]:
    """The seed of each copy: seed + i, or entry i of a list; None keeps the generator of a copy."""
    if seed is None or isinstance(seed, int | np.integer):
        return [None if seed is None else int(seed) + row for row in range(num_envs)]
    if not isinstance(seed, list | tuple | np.ndarray):
        raise UserError(f"a seed must be a whole number, or a list with one per copy, not {seed!r}")
    if len(seed) != num_envs:
        raise UserError(f"a list of seeds has one entry per copy: {num_envs}, not {len(seed)}")
    return list(seed)
