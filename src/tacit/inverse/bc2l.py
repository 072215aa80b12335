"""BC2L, a binary classifier as cost: `tacit learn bc2l ENV`. It is ME-ICRL's baseline without a model of behaviour.

A network says how likely a step is the learner's and not demonstrated; that is the cost, c = sigmoid(f) in (0, 1). The
alternating steps are those of ME-ICRL (`tacit.inverse.loop`), and the inverse step is logistic regression,

    J = - E_D log(1 - c) - E_N log c                                                                               (1)

on demonstrations D against the learner's last steps N. Its minimum over all functions is c = rho_N / (rho_N + rho_D):
1/2 wherever the learner does what was demonstrated, so that with budget 0 the multiplier grows without end; and where
the learner has learned to stay away, nothing holds the cost up. That is why it works badly (docs/algorithms.md#bc2l).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.inverse import constraint_net
from tacit.inverse.constraint_net import Data, Net, outputs
from tacit.inverse.loop import State
from tacit.run.trainer import Metrics

__all__ = ["Config", "State", "check", "cost_of", "learn", "loss", "policy_of", "train"]


@dataclass(frozen=True)
class Config(constraint_net.Config):
    """Settings of BC2L."""


def loss(net: Net, expert: Any, learner: Any) -> jax.Array:
    """(1) on scaled inputs (n, d) of demonstrations and (m, d) of the learner."""
    return jax.nn.softplus(outputs(net, expert)).mean() + jax.nn.softplus(-outputs(net, learner)).mean()


@jax.jit
def descend(
    net: Net, opt_state: Any, data: tuple[Any, Any], orders: tuple[Any, Any], lr: Any
) -> tuple[Net, Any, jax.Array]:
    """The inverse step on (expert (n, d), learner (m, d)); returns network, optimiser's state and last loss."""

    def on_rows(net: Net, expert_rows: Any, learner_rows: Any) -> jax.Array:
        return loss(net, data[0][expert_rows], data[1][learner_rows])

    def one_pass(carry: tuple[Net, Any], rows: tuple[Any, Any]) -> tuple[tuple[Net, Any], jax.Array]:
        net, opt_state, values = constraint_net.descend(on_rows, *carry, rows, lr)
        return (net, opt_state), values.mean()

    (net, opt_state), values = jax.lax.scan(one_pass, (net, opt_state), orders)
    return net, opt_state, values[-1]


class BC2L(constraint_net.Classifier):
    """`tacit learn bc2l ENV`. The cost is the probability of not being a demonstration."""

    name = "bc2l"
    config_type = Config

    def descend(self, config: Config, state: State, data: Data, rng: np.random.Generator) -> tuple[Net, Any, Metrics]:
        lr = constraint_net.learning_rate(config, state)
        sizes = len(data.expert), len(data.learner)
        orders = constraint_net.orders(rng, *sizes, config.constraint_batch, config.backward_steps)
        both = (jnp.asarray(data.expert), jnp.asarray(data.learner))
        net, opt_state, value = descend(state.params, state.opt_state, both, orders, lr)
        right = float((outputs(net, both[0]) < 0).mean()), float((outputs(net, both[1]) >= 0).mean())
        return net, opt_state, {"inverse/loss": float(value), "inverse/accuracy": 0.5 * sum(right)}


METHOD = BC2L()
learn, train, check = METHOD.learn, METHOD.train, METHOD.check
cost_of, policy_of = METHOD.cost_of, METHOD.policy_of
