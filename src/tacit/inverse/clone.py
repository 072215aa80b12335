"""Behaviour cloning: the policy that makes the demonstrated actions most likely."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tacit import nets, normalize
from tacit.demos import Demonstrations
from tacit.forward import agent, ppo_lagrangian

EPOCHS, BATCH, LR = 60, 256, 1e-3
SMALLEST_LOG_STD = -3.0


def fit(actor: nets.Actor, obs: np.ndarray, act: np.ndarray, rng: np.random.Generator, epochs: int = EPOCHS) -> Any:
    """The actor that maximises the likelihood of actions (n, A) given normalised observations (n, obs_size)."""
    opt_state = optax.adam(LR).init(actor)
    batch = min(BATCH, len(obs))
    for _ in range(epochs):
        order = rng.permutation(len(obs))[: len(obs) // batch * batch].reshape(-1, batch)
        actor, opt_state = _epoch(actor, opt_state, obs[order], act[order])
    return actor


@partial(jax.jit, donate_argnums=(1,))
def _epoch(actor: Any, opt_state: Any, obs: Any, act: Any) -> tuple[Any, Any]:
    adam = optax.adam(LR)

    def loss(actor: Any, obs: Any, act: Any) -> jax.Array:
        return -nets.log_prob(actor, obs, act)[0].mean()

    def step(carry: tuple[Any, Any], part: tuple[Any, Any]) -> tuple[tuple[Any, Any], None]:
        actor, opt_state = carry
        moves, opt_state = adam.update(jax.grad(loss)(actor, *part), opt_state)
        actor = optax.apply_updates(actor, moves)
        if actor.log_std is not None:
            bounded = jnp.maximum(actor.log_std, SMALLEST_LOG_STD)
            actor = nets.Actor(actor.net, bounded)
        return (actor, opt_state), None

    return jax.lax.scan(step, (actor, opt_state), (obs, act))[0]


def start_from(
    state: ppo_lagrangian.State, demos: Demonstrations, rng: np.random.Generator, smallest_log_std: float
) -> ppo_lagrangian.State:
    """The same training with a policy cloned from the demonstrations, whose observations join the statistics."""
    learner = state.agent
    obs = learner.interface.encode(demos.observations[demos.rows_before])
    act = learner.interface.from_env(demos.actions)
    stats = learner.obs_stats if learner.interface.n_states else normalize.update(learner.obs_stats, obs)
    actor = fit(learner.params.actor, normalize.standardise(stats, obs, learner.obs_clip), act, rng)
    if actor.log_std is not None:
        actor = nets.Actor(actor.net, jnp.maximum(actor.log_std, smallest_log_std))
    params = nets.Params(actor, learner.params.critics)
    return replace(
        state, agent=replace(learner, params=params, obs_stats=stats, opt_state=agent.optimiser().init(params))
    )
