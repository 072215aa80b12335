"""Variational inverse constrained reinforcement learning (Liu et al. 2023): `tacit learn vicrl ENV`.

As in ME-ICRL (`tacit.inverse.me_icrl`) a step has a feasibility x in (0, 1), but what is learned is a distribution of
it: a network gives  a(s, a), b(s, a)  (soft-plus of its two outputs) and  x ~ Beta(a, b).  The inverse step takes
backward_steps of Adam on

    - E_D log x + E_N log x + delta ( E_D KL(Beta(a, b) || prior) + E_N KL(Beta(a, b) || prior) )                  (1)

with x sampled anew each time, differentiated through the sample (implicit reparametrisation), and log x not below
log 1e-5. The divergence of two Beta distributions is

    KL(Beta(a, b) || Beta(p, q)) = ln B(p, q) - ln B(a, b)
                                   + (a - p) (psi(a) - psi(a + b)) + (b - q) (psi(b) - psi(a + b))

The forward step (PPO-Lagrangian, `tacit.inverse.loop`) is charged 1 - x with x sampled for each step, or its
mean b / (a + b), which is also the cost that is saved.

The published a and b have no floor, and priors such as (0.009, 0.001) pull them towards 0, where densities and
gradients overflow. Here a and b are at least 1e-4 (`tacit.cost.BETA_FLOOR`), samples are kept as logarithms of gamma
variates, and everything has finite gradients down to there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln, digamma

from tacit.cost import BETA_FLOOR, LearnedCost
from tacit.errors import UserError
from tacit.forward import agent
from tacit.forward.ppo_lagrangian import CostFunction
from tacit.inverse import constraint_net
from tacit.inverse.constraint_net import EPSILON, Data, Net, outputs
from tacit.inverse.loop import State
from tacit.run.trainer import Metrics

__all__ = ["Config", "State", "check", "cost_of", "learn", "policy_of", "train"]


@dataclass(frozen=True)
class Config(constraint_net.Config):
    """Settings of variational ICRL."""

    delta: float = 0.5
    """Weight of the divergence from the prior."""
    prior: tuple[float, float] = (0.9, 0.1)
    """Parameters of the Beta prior on the feasibility of a step."""
    cost: Literal["sample", "mean"] = "sample"
    """What the learner is charged in a forward step: 1 - a sample of the feasibility, or 1 - its mean."""
    replay_share: float = 0.0
    """Share of the learner's samples in an inverse step that comes from earlier forward phases."""


# ---------------------------------------------------------------------------------------------------------------------
# The posterior


def parameters(net: Net, z: Any) -> tuple[jax.Array, jax.Array]:
    """a, b (B,) of scaled inputs (B, d)."""
    both = jax.nn.softplus(outputs(net, z)) + BETA_FLOOR
    return both[:, 0], both[:, 1]


def log_sample(key: Any, a: Any, b: Any) -> jax.Array:
    """log x (B,) for x ~ Beta(a, b), differentiable in a and b."""
    gammas = log_gamma(key, jnp.concatenate([a, b]))
    return jax.nn.log_sigmoid(gammas[: len(a)] - gammas[len(a) :])


@jax.custom_vjp
def log_gamma(key: Any, shape: jax.Array) -> jax.Array:
    """log g (B,) for g ~ Gamma(shape, 1)."""
    return jax.random.loggamma(key, shape)


def _log_gamma_forward(key: Any, shape: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    sample = log_gamma(key, shape)
    return sample, (sample, shape)


def _log_gamma_backward(kept: tuple[jax.Array, jax.Array], gradient: jax.Array) -> tuple[None, jax.Array]:
    """Implicit reparametrisation as in JAX, but for all samples at once. JAX's own works sample by sample on a CPU and
    takes ten times as long. Where g underflows, its distribution function is g^shape / Gamma(shape + 1)."""
    sample, shape = kept
    g = jnp.exp(jnp.maximum(sample, SMALLEST))
    slope = jnp.where(
        sample > SMALLEST, jax.lax.random_gamma_grad(shape, g) / g, (digamma(shape + 1.0) - sample) / shape
    )
    return None, gradient * slope


log_gamma.defvjp(_log_gamma_forward, _log_gamma_backward)
SMALLEST = -60.0
"""Logarithm below which a gamma variate counts as small."""


def divergence(a: Any, b: Any, p: Any, q: Any) -> jax.Array:
    """KL(Beta(a, b) || Beta(p, q))."""
    both = digamma(a + b)
    return betaln(p, q) - betaln(a, b) + (a - p) * (digamma(a) - both) + (b - q) * (digamma(b) - both)


class Hyper(NamedTuple):
    lr: float
    delta: float
    p: float
    q: float


def loss(net: Net, key: Any, expert: Any, learner: Any, hyper: Hyper) -> tuple[jax.Array, jax.Array]:
    """The loss (1) on scaled inputs (n, d) of demonstrations and (m, d) of the learner, and the two divergences."""

    # Both sides at once: compiling the sampler and its derivative takes longer than an inverse step.
    a, b = parameters(net, jnp.concatenate([expert, learner]))
    log_x = jnp.maximum(log_sample(key, a, b), math.log(EPSILON))
    kl, n = divergence(a, b, hyper.p, hyper.q), len(expert)
    both = jnp.stack([kl[:n].mean(), kl[n:].mean()])
    return log_x[n:].mean() - log_x[:n].mean() + hyper.delta * both.sum(), both


@jax.jit
def descend(
    net: Net, opt_state: Any, key: Any, data: tuple[Any, Any], orders: tuple[Any, Any], hyper: Hyper
) -> tuple[Net, Any, dict[str, jax.Array]]:
    """The inverse step on (expert (n, d), learner (m, d)); orders are those of `constraint_net`."""
    expert, learner = data
    flat = tuple(jnp.reshape(order, (-1, order.shape[-1])) for order in orders)

    def on_rows(net: Net, key: Any, expert_rows: Any, learner_rows: Any) -> tuple[jax.Array, jax.Array]:
        return loss(net, key, expert[expert_rows], learner[learner_rows], hyper)

    keys = jax.random.split(key, len(flat[0]))
    net, opt_state, (values, kls) = constraint_net.descend(
        on_rows, net, opt_state, (keys, *flat), hyper.lr, has_aux=True
    )
    a, b = parameters(net, learner)
    info = {
        "inverse/loss": values.mean(),
        "inverse/expert_divergence": kls[-1, 0],
        "inverse/learner_divergence": kls[-1, 1],
        "inverse/concentration": (a + b).mean(),
    }
    return net, opt_state, info


# ---------------------------------------------------------------------------------------------------------------------
# The method


_parameters = jax.jit(parameters)


class VICRL(constraint_net.Classifier):
    """`tacit learn vicrl ENV`. The cost is the mean of 1 - x."""

    name = "vicrl"
    config_type = Config
    outputs = 2

    def descend(self, config: Config, state: State, data: Data, rng: np.random.Generator) -> tuple[Net, Any, Metrics]:
        learner = data.learner
        old = round(config.replay_share * len(learner)) if len(state.replay) else 0
        if old:
            rows = state.replay.reshape(-1, state.replay.shape[-1])
            past = state.inputs.scaled(rows[rng.integers(len(rows), size=old)])
            learner = np.concatenate([learner[rng.permutation(len(learner))[old:]], past])
        orders = constraint_net.orders(
            rng, len(data.expert), len(learner), config.constraint_batch, config.backward_steps
        )
        net, opt_state, info = descend(
            state.params,
            state.opt_state,
            jax.random.key(int(rng.integers(2**31))),
            (data.expert, learner),
            orders,
            Hyper(constraint_net.learning_rate(config, state), config.delta, *config.prior),
        )
        return net, opt_state, {key: float(value) for key, value in info.items()}

    def cost_of(self, state: State, config: Config) -> LearnedCost:
        unit = constraint_net.unit_of(state, config)
        return constraint_net.to_cost(state.params, state.inputs, config.at, head="beta", unit=unit)

    def charged(self, config: Config, state: State, rng: np.random.Generator) -> CostFunction:
        """The mean cost, or a cost sampled from the posterior."""
        if config.cost == "mean":
            return self.cost_of(state, config).of_steps
        noise = np.random.default_rng(int(rng.integers(2**63)))

        def sampled(obs: Any, act: Any, next_obs: Any) -> Any:
            rows = state.inputs.rows(next_obs if config.at == "next" else obs, act)
            a, b = (np.asarray(x, np.float64) for x in _parameters(state.params, state.inputs.scaled(rows)))
            return noise.beta(b, a)  # 1 - x ~ Beta(b, a)

        return sampled

    def check_settings(self, config: Config) -> None:
        super().check_settings(config)
        if not min(config.prior) > 0:
            raise UserError(f"the parameters of the prior must be positive, not {config.prior}")
        agent.check_ranges(config, ("delta",), 0)
        if not 0 <= config.replay_share < 1:
            raise UserError(f"replay_share must be at least 0 and below 1, not {config.replay_share}")


METHOD = VICRL()
learn, train, check = METHOD.learn, METHOD.train, METHOD.check
cost_of, policy_of = METHOD.cost_of, METHOD.policy_of
