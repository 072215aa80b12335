"""The features phi_zeta and multipliers lam of MCE-ICRL in JAX, and descent on its dual.

`tacit.cost.LearnedCost` computes the same cost in NumPy. Equations (1) to (3) are in `tacit.inverse.mce`.

Features start near 0 (negative output bias) and lam small, so that the first cost is near 0 everywhere; with lam = 0
phi would get no gradient. Pre-training as an auto-encoder makes the features say something about the inputs before
any of them is priced (the paper's section on learning features).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from tacit.cost import Inputs, LearnedCost
from tacit.inverse import soft_thresholds

Array = NDArray[Any]


class Phi(NamedTuple):
    """Parameters zeta of the features; see `tacit.cost`."""

    slopes: Any
    offsets: Any
    """(d, m) slopes and offsets of the thresholds."""
    weights: tuple[Any, ...]
    biases: tuple[Any, ...]
    """Parameters of the joint network."""


class Params(NamedTuple):
    """Parameters of the dual: zeta, and the multipliers lam."""

    phi: Phi
    lam: Any


def init(
    rng: np.random.Generator,
    z: Array,
    *,
    thresholds: int,
    hidden: tuple[int, ...],
    joint: int,
    lam: float,
    bias: float,
) -> Params:
    """Fresh features for inputs like z (n, d): `thresholds` per input, and `joint` outputs of a network on all inputs.

    `bias` is the joint features' output bias. The paper's features are `joint` alone.
    """
    d = z.shape[1]
    slopes, offsets = soft_thresholds.initial(z, thresholds)
    weights, biases = [], []
    sizes = [d, *hidden, joint] if joint else []
    for n_in, n_out in itertools.pairwise(sizes):
        weights.append(rng.standard_normal((n_in, n_out)) * math.sqrt(2.0 / n_in))
        biases.append(np.zeros(n_out))
    if joint:
        biases[-1] = np.full(joint, bias)
    linear = not thresholds and not joint
    arrays = Params(
        Phi(slopes, offsets, tuple(weights), tuple(biases)), np.full(d if linear else thresholds * d + joint, lam)
    )
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), arrays)


def blank(n_inputs: int, thresholds: int, layers: Sequence[int]) -> Params:
    """Parameters of these shapes, to be filled from a checkpoint; `layers` are the sizes of the joint network."""
    hidden, joint = tuple(layers[:-1]), layers[-1] if layers else 0
    rng = np.random.default_rng(0)
    return init(rng, np.zeros((2, n_inputs)), thresholds=thresholds, hidden=hidden, joint=joint, lam=0.0, bias=0.0)


def features(phi: Phi, z: jax.Array) -> jax.Array:
    """phi (B, k) of scaled inputs (B, d)."""
    if phi.slopes.size == 0 and not phi.weights:
        return z
    parts = [jax.nn.sigmoid(z[:, :, None] * phi.slopes + phi.offsets).reshape(len(z), -1)]
    if phi.weights:
        parts.append(_joint(phi, z))
    return jnp.concatenate(parts, axis=1)


def _joint(phi: Phi, z: jax.Array) -> jax.Array:
    x = z
    for weight, bias in zip(phi.weights[:-1], phi.biases[:-1], strict=True):
        x = jax.nn.relu(x @ weight + bias)
    return jax.nn.sigmoid(x @ phi.weights[-1] + phi.biases[-1])


def costs(params: Params, z: jax.Array) -> jax.Array:
    """lam . phi (B,) of scaled inputs (B, d), quick to differentiate."""
    phi, lam = params
    if phi.slopes.size == 0:
        return features(phi, z) @ lam
    single = soft_thresholds.costs(phi.slopes, phi.offsets, lam[: phi.slopes.size].reshape(phi.slopes.shape), z)
    return single + _joint(phi, z) @ lam[phi.slopes.size :] if phi.weights else single


def to_cost(params: Params, inputs: Inputs, **fields: Any) -> LearnedCost:
    """The learned cost as an artefact."""
    phi, lam = jax.tree.map(np.asarray, params)
    return LearnedCost(inputs, lam, phi.slopes, phi.offsets, phi.weights, phi.biases, **fields)


# ---------------------------------------------------------------------------------------------------------------------
# The dual, (2) of `tacit.inverse.mce`


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


def dual_loss(params: Params, part: Batches, hyper: Hyper) -> jax.Array:
    """The loss (2) on a minibatch."""
    both = costs(params, jnp.concatenate([part.expert, part.learner]))
    expert, learner = both[: len(part.expert)], both[len(part.expert) :]
    gap = jnp.mean(part.expert_weight * expert) - jnp.mean(part.learner_weight * learner)
    squares = hyper.expert_square * jnp.mean(part.expert_weight * expert**2)
    squares += hyper.learner_square * jnp.mean(part.learner_weight * learner**2)
    return gap + hyper.budget * jnp.sum(params.lam) + squares


compiled_costs = jax.jit(costs)
OPTIMISER = optax.scale_by_adam()


@partial(jax.jit, static_argnames="once")
def dual_steps(
    params: Params, opt_state: Any, batches: Batches, hyper: Hyper, *, once: bool
) -> tuple[Params, Any, jax.Array]:
    """Adam on zeta and lam, with lam projected to >= 0; returns the mean loss. With `once`, lam does not move here."""

    def step(carry: tuple[Params, Any], part: Batches) -> tuple[tuple[Params, Any], jax.Array]:
        params, opt_state = carry
        loss, gradient = jax.value_and_grad(dual_loss)(params, part, hyper)
        moves, opt_state = OPTIMISER.update(gradient, opt_state)
        phi = jax.tree.map(lambda p, move: p - hyper.lr_zeta * move, params.phi, moves.phi)
        lam = params.lam if once else jnp.maximum(0.0, params.lam - hyper.lr_lam * moves.lam)
        return (Params(phi, lam), opt_state), loss

    (params, opt_state), losses = jax.lax.scan(step, (params, opt_state), batches)
    return params, opt_state, losses.mean()


@jax.jit
def feature_means(phi: Phi, z: Any, weight: Any) -> jax.Array:
    """sum_i weight_i phi(z_i), (k,)."""
    return jnp.asarray(weight) @ features(phi, z)


# ---------------------------------------------------------------------------------------------------------------------
# Auto-encoder


def pretrain(
    rng: np.random.Generator, phi: Phi, z: Array, *, epochs: int, lr: float, batch_size: int
) -> tuple[Phi, list[float]]:
    """Pre-train phi as the encoder of z (n, d) with a mirrored ReLU decoder; returns the mean loss of each epoch."""
    if not epochs or (phi.slopes.size == 0 and not phi.weights):
        return phi, []
    k = phi.slopes.size + (len(phi.biases[-1]) if phi.weights else 0)
    hidden = [len(bias) for bias in phi.biases[:-1]][::-1]
    sizes = [k, *hidden, z.shape[1]]
    decoder = [
        (
            jnp.asarray(rng.standard_normal((n_in, n_out)) * math.sqrt(2.0 / n_in), jnp.float32),
            jnp.zeros(n_out, jnp.float32),
        )
        for n_in, n_out in itertools.pairwise(sizes)
    ]
    params = (phi, decoder)
    opt_state = optax.adam(lr).init(params)
    batch_size = min(batch_size, len(z))
    losses = []
    for _ in range(epochs):
        order = rng.permutation(len(z))[: len(z) // batch_size * batch_size].reshape(-1, batch_size)
        params, opt_state, loss = _encode(params, opt_state, z[order], lr)
        losses.append(float(loss))
    return params[0], losses


@partial(jax.jit, donate_argnums=(1,))
def _encode(params: Any, opt_state: Any, batches: Any, lr: float) -> tuple[Any, Any, jax.Array]:
    """One epoch of pre-training over batches (M, B, d)."""
    adam = optax.adam(lr)

    def reconstruction_error(params: Any, z: jax.Array) -> jax.Array:
        phi, decoder = params
        x = features(phi, z)
        for weight, bias in decoder[:-1]:
            x = jax.nn.relu(x @ weight + bias)
        return jnp.mean((x @ decoder[-1][0] + decoder[-1][1] - z) ** 2)

    def step(carry: tuple[Any, Any], z: jax.Array) -> tuple[tuple[Any, Any], jax.Array]:
        params, opt_state = carry
        loss, gradient = jax.value_and_grad(reconstruction_error)(params, z)
        updates, opt_state = adam.update(gradient, opt_state)
        return (optax.apply_updates(params, updates), opt_state), loss

    (params, opt_state), losses = jax.lax.scan(step, (params, opt_state), batches)
    return params, opt_state, losses.mean()
