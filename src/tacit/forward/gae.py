"""Generalised advantage estimation, for episodes that terminate and episodes that are cut off.

    delta_t = r_t + gamma (1 - terminated_t) k_t V(s'_t) - V(s_t)
    A_t     = delta_t + gamma lambda (1 - done_t) k_t A_{t+1},    A after the last step of the rollout = 0
    target  = A_t + V(s_t)

k_t = 1 unless a step forfeits a share of its future: k_t in [0, 1] is the share that is kept (`kept`).

s'_t is the state that the step really reached, also where the environment has already begun a new episode. A time
limit (done without terminated) is no property of the state: it bootstraps with V(s'_t) as if the episode went on, and
only cuts the trace, because the next sample belongs to another episode.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def gae(
    rewards: jax.Array,
    values: jax.Array,
    next_values: jax.Array,
    terminated: jax.Array,
    done: jax.Array,
    gamma: jax.Array | float,
    lam: jax.Array | float,
    kept: jax.Array | None = None,
) -> jax.Array:
    """Advantages (T, N) from rewards, V(s_t), V(s'_t), terminated and done, each (T, N).

    `kept` (T, N) is the share of its future that each step keeps; None: all of it.
    """
    if kept is not None:
        next_values = kept * next_values
    deltas = rewards + gamma * jnp.where(terminated, 0.0, next_values) - values
    decay = gamma * lam * jnp.where(done, 0.0, 1.0 if kept is None else kept)

    def back(advantage: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        delta, weight = step
        advantage = delta + weight * advantage
        return advantage, advantage

    _, advantages = jax.lax.scan(back, jnp.zeros_like(deltas[0]), (deltas, decay), reverse=True)
    return advantages
