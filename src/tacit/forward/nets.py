"""Networks and action distributions in JAX, on batches and differentiable. `tacit.policy` runs the same ones in NumPy.

Hidden layers are tanh, weights orthogonal (gain sqrt 2; 0.01 for the policy's output, 1 for a critic's).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

_LOG_2PI = math.log(2 * math.pi)
_THREADS = "NPROC"


def use_threads(number: int) -> None:
    """Set the number of XLA's threads, unless JAX is already in use or NPROC is set.

    A PPO update is a long chain of small matrix products. Handing them to a pool of two threads made an update 1.4
    times slower and kept both cores busy, which takes the core from a second seed running beside it: one is right
    unless policy and critics learn at the same time.
    """
    before = os.environ.get(_THREADS)
    os.environ.setdefault(_THREADS, str(number))  # read by XLA when its client is made
    try:
        jax.devices("cpu")
    finally:
        if before is None:
            del os.environ[_THREADS]


class MLP(eqx.Module):
    """tanh network (batch, in) -> (batch, out)."""

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]

    def __call__(self, x: jax.Array) -> jax.Array:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = jnp.tanh(x @ weight + bias)
        return x @ self.weights[-1] + self.biases[-1]


class Actor(eqx.Module):
    """Policy network: a diagonal Gaussian with a log_std (A,) independent of the state, or categorical if it is
    None."""

    net: MLP
    log_std: jax.Array | None


class Params(eqx.Module):
    """Everything that PPO learns: a policy and one value network for each signal (reward, cost)."""

    actor: Actor
    critics: tuple[MLP, ...]


def orthogonal(rng: np.random.Generator, n_in: int, n_out: int, gain: float) -> np.ndarray:
    """(n_in, n_out) float32 with orthogonal rows or columns, uniformly distributed, times gain."""
    q, r = np.linalg.qr(rng.standard_normal((max(n_in, n_out), min(n_in, n_out))))
    q = q * np.sign(np.diag(r))
    return np.ascontiguousarray(gain * (q if n_in >= n_out else q.T), dtype=np.float32)


def make_mlp(rng: np.random.Generator, sizes: Sequence[int], out_gain: float) -> MLP:
    gains = [math.sqrt(2.0)] * (len(sizes) - 2) + [out_gain]
    shapes = zip(sizes[:-1], sizes[1:], gains, strict=True)
    layers = [orthogonal(rng, n_in, n_out, gain) for n_in, n_out, gain in shapes]
    return MLP(tuple(map(jnp.asarray, layers)), tuple(jnp.zeros(size, jnp.float32) for size in sizes[1:]))


def make_params(
    rng: np.random.Generator,
    obs_size: int,
    act_size: int,
    hidden: Sequence[int],
    *,
    n_critics: int = 1,
    log_std: float | None = 0.0,
) -> Params:
    """Fresh networks; `log_std` is the initial value of a Gaussian policy, None makes a categorical one."""
    net = make_mlp(rng, (obs_size, *hidden, act_size), 0.01)
    actor = Actor(net, None if log_std is None else jnp.full(act_size, log_std, jnp.float32))
    return Params(actor, tuple(make_mlp(rng, (obs_size, *hidden, 1), 1.0) for _ in range(n_critics)))


def log_prob(actor: Actor, obs: jax.Array, act: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(log pi(act | obs), entropy of pi(. | obs)), each (batch,).

    obs (batch, obs_size) normalised; act (batch, A) in the policy's own coordinates, or (batch,) integers.
    """
    return log_prob_of_head(actor, actor.net(obs), act)


def log_prob_of_head(actor: Actor, head: jax.Array, act: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The same, given the output of the policy network."""
    if actor.log_std is None:
        log_pi = jax.nn.log_softmax(head)
        entropy = -jnp.sum(jnp.exp(log_pi) * log_pi, axis=-1)
        return jnp.take_along_axis(log_pi, act[:, None], axis=-1)[:, 0], entropy
    z = (act - head) * jnp.exp(-actor.log_std)
    log_density = jnp.sum(-0.5 * (z * z + _LOG_2PI) - actor.log_std, axis=-1)
    entropy = jnp.sum(actor.log_std + 0.5 * (1.0 + _LOG_2PI))
    return log_density, jnp.broadcast_to(entropy, log_density.shape)
