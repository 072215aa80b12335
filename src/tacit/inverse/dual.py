"""The dual of MCE-ICRL on minibatches, and descent on features and multipliers. Equations in `tacit.inverse.mce`."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tacit.inverse import features


class Batches(NamedTuple):
    """M minibatches of B samples: scaled inputs (M, B, d); weights (M, B) whose mean of weight * f estimates E f."""

    expert: Any
    expert_weight: Any
    learner: Any
    learner_weight: Any


class Hyper(NamedTuple):
    lr_zeta: float
    lr_lam: float
    budget: float
    expert_square: float
    learner_square: float


def dual_loss(params: features.Params, part: Batches, hyper: Hyper) -> jax.Array:
    """(2) on a minibatch."""
    both = features.costs(params, jnp.concatenate([part.expert, part.learner]))
    expert, learner = both[: len(part.expert)], both[len(part.expert) :]
    gap = jnp.mean(part.expert_weight * expert) - jnp.mean(part.learner_weight * learner)
    squares = hyper.expert_square * jnp.mean(part.expert_weight * expert**2)
    squares += hyper.learner_square * jnp.mean(part.learner_weight * learner**2)
    return gap + hyper.budget * jnp.sum(params.lam) + squares


costs = jax.jit(features.costs)
OPTIMISER = optax.scale_by_adam()


@partial(jax.jit, static_argnames="once")
def dual_steps(
    params: features.Params, opt_state: Any, batches: Batches, hyper: Hyper, *, once: bool
) -> tuple[features.Params, Any, jax.Array]:
    """Adam on zeta and lam (on zeta alone if lam moves `once`, elsewhere), lam projected to >= 0; the mean loss."""

    def step(carry: tuple[features.Params, Any], part: Batches) -> tuple[tuple[features.Params, Any], jax.Array]:
        params, opt_state = carry
        loss, gradient = jax.value_and_grad(dual_loss)(params, part, hyper)
        moves, opt_state = OPTIMISER.update(gradient, opt_state)
        phi = jax.tree.map(lambda p, move: p - hyper.lr_zeta * move, params.phi, moves.phi)
        lam = params.lam if once else jnp.maximum(0.0, params.lam - hyper.lr_lam * moves.lam)
        return (features.Params(phi, lam), opt_state), loss

    (params, opt_state), losses = jax.lax.scan(step, (params, opt_state), batches)
    return params, opt_state, losses.mean()


@jax.jit
def feature_means(phi: features.Phi, z: Any, weight: Any) -> jax.Array:
    """sum_i weight_i phi(z_i), (k,)."""
    return jnp.asarray(weight) @ features.features(phi, z)
