"""Running statistics that are saved with the agent: of observations, and of the size of returns.

Both are updated once per rollout from the whole batch, never per step, so that the policy that collected a rollout is
exactly the policy that the update starts from. Frozen statistics do not change any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
EPSILON = 1e-8


@dataclass(frozen=True)
class Running:
    """Mean and variance of all samples so far (float64); (0, 1) before the first."""

    mean: Array
    var: Array
    count: float = 0.0
    frozen: bool = False

    @property
    def scale(self) -> Array:
        """1 / standard deviation."""
        return 1.0 / np.sqrt(self.var + EPSILON)


def running(shape: tuple[int, ...] = ()) -> Running:
    """Statistics of no samples."""
    return Running(np.zeros(shape), np.ones(shape))


def update(stats: Running, batch: Array) -> Running:
    """Add samples (n, *shape). Afterwards mean and variance are those of all samples together (Chan et al.)."""
    if stats.frozen or len(batch) == 0:
        return stats
    batch = np.asarray(batch, dtype=np.float64)
    mean, var, n = batch.mean(axis=0), batch.var(axis=0), float(len(batch))
    if stats.count == 0:
        return replace(stats, mean=mean, var=var, count=n)
    total = stats.count + n
    shift = mean - stats.mean
    squares = stats.var * stats.count + var * n + shift**2 * (stats.count * n / total)
    return replace(stats, mean=stats.mean + shift * (n / total), var=squares / total, count=total)


def standardise(stats: Running, x: Array, clip: float) -> Array:
    """(x - mean) / std clipped to +-clip, as float32: the same arithmetic as `Policy.head`."""
    scaled = (x - stats.mean.astype(np.float32)) * stats.scale.astype(np.float32)
    return np.clip(scaled, -clip, clip)


@dataclass(frozen=True)
class ReturnScale:
    """Standard deviation of the discounted return, by which rewards are divided.

    The return of environment i runs as R <- gamma R + r and starts again at 0 with every episode.
    """

    returns: Array
    """(N,) present discounted return R of each environment."""
    stats: Running
    """Statistics of all R so far, a scalar."""

    @property
    def std(self) -> float:
        return float(np.sqrt(self.stats.var + EPSILON))


def return_scale(n_envs: int) -> ReturnScale:
    return ReturnScale(np.zeros(n_envs), running())


def track_returns(scale: ReturnScale, rewards: Array, done: Array, gamma: float) -> ReturnScale:
    """Add the rewards (T, N) of a rollout; done (T, N) marks the last step of an episode."""
    returns, seen = scale.returns, np.empty(rewards.shape)
    for t in range(len(rewards)):
        returns = gamma * returns + rewards[t]
        seen[t] = returns
        returns = np.where(done[t], 0.0, returns)
    return ReturnScale(returns, update(scale.stats, seen.reshape(-1)))


def freeze(stats: Running) -> Running:
    return replace(stats, frozen=True)
