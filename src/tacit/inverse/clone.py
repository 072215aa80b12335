"""Behaviour cloning: the policy that makes the demonstrated actions most likely."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tacit.demos import Demonstrations
from tacit.forward import agent, nets, normalize, ppo_lagrangian

STEPS, BATCH, LR = 6000, 256, 1e-3
PIECES = 10
"""Number of pieces in which the steps are compiled and run."""


def fit(
    actor: nets.Actor, obs: np.ndarray, act: np.ndarray, rng: np.random.Generator, steps: int = STEPS
) -> nets.Actor:
    """The actor that maximises the likelihood of actions (n, A) given normalised observations (n, obs_size)."""
    *_, last = pieces(actor, obs, act, rng, steps)
    return last


def pieces(
    actor: nets.Actor,
    obs: np.ndarray,
    act: np.ndarray,
    rng: np.random.Generator,
    steps: int = STEPS,
    batch: int = BATCH,
    lr: float = LR,
) -> Iterator[nets.Actor]:
    """Yield the actor ten times during the fit."""
    opt_state = optax.scale_by_adam().init(actor)
    steps_per_piece = max(1, steps // PIECES)
    for piece in range(PIECES):
        chosen = rng.integers(len(obs), size=(steps_per_piece, min(batch, len(obs))))
        actor, opt_state = _fit(actor, opt_state, obs[chosen], act[chosen], lr * (1.0 - piece / PIECES))
        yield actor


@partial(jax.jit, donate_argnums=(1,))
def _fit(actor: Any, opt_state: Any, obs: Any, act: Any, lr: float) -> tuple[Any, Any]:
    """Adam on minibatches obs (M, B, obs_size), act (M, B, A)."""
    adam = optax.scale_by_adam()

    def loss(actor: Any, obs: Any, act: Any) -> jax.Array:
        return -nets.log_prob(actor, obs, act)[0].mean()

    def step(carry: tuple[Any, Any], part: tuple[Any, Any]) -> tuple[tuple[Any, Any], None]:
        actor, opt_state = carry
        moves, opt_state = adam.update(jax.grad(loss)(actor, *part), opt_state)
        return (jax.tree.map(lambda p, move: p - lr * move, actor, moves), opt_state), None

    return jax.lax.scan(step, (actor, opt_state), (obs, act))[0]


HELD_STEPS = 16_384
"""Environment steps during which a clone is frozen while the value networks warm up; at most a tenth of a run."""


def held(config: Any, phase: int, steps: int) -> bool:
    """Whether the clone is frozen in this phase of the loop (the first is 0). A phase has `steps` environment steps."""
    return bool(config.start == "clone" and phase * steps < min(HELD_STEPS, config.total_steps // 10))


def released(config: Any, phase: int, steps: int) -> bool:
    """Whether this phase is the last one with a frozen clone. The scale of rewards is known by then, and is frozen."""
    return held(config, phase, steps) and not held(config, phase + 1, steps)


def revision_of_clones(config: Mapping[str, Any]) -> int:
    """Revision of the settings: 2 for runs that begin as a clone, which earlier versions did not freeze at first."""
    return 2 if config.get("start") == "clone" else 1


def start_from(
    state: ppo_lagrangian.State, demos: Demonstrations, rng: np.random.Generator, smallest_log_std: float
) -> ppo_lagrangian.State:
    """The same training with a policy cloned from the demonstrations, and with the scale of their observations.

    The nominal agent may have been elsewhere, or have fallen over. Then its scale of observations is too coarse for the
    experts' movements, and its rewards say nothing about theirs. So the scale of returns is estimated again. The scale
    of observations is frozen from now on, because demonstrations are few: every rollout would move the scale, and with
    it the policy, which is a function of scaled observations. Inputs that demonstrators hardly move get a hundredth of
    the nominal agent's scale.
    """
    learner = state.agent
    obs = learner.interface.view(learner.interface.encode(demos.observations[demos.rows_before]))
    act = learner.interface.from_env(demos.actions)
    stats = learner.obs_stats
    if stats.count:
        demonstrated = normalize.update(normalize.running(stats.mean.shape), obs)
        stats = normalize.freeze(replace(demonstrated, var=np.maximum(demonstrated.var, 1e-4 * stats.var)))
    actor = fit(learner.params.actor, normalize.standardise(stats, obs, learner.obs_clip), act, rng)
    if actor.log_std is not None:
        actor = nets.Actor(actor.net, jnp.maximum(actor.log_std, smallest_log_std))
    params = nets.Params(actor, learner.params.critics)
    reward_size = float(np.abs(demos.rewards).mean())
    return replace(
        state,
        agent=replace(
            learner,
            params=params,
            obs_stats=stats,
            opt_state=agent.optimiser().init(params),
            reward_scale=normalize.return_scale(len(learner.carry.obs)),
        ),
        reward_size=reward_size,
        rbar=max(state.rbar, reward_size),
    )
