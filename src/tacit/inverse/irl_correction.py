"""Inverse RL that learns a correction of the reward, with its stabilisers (after Hugessen et al. 2024).

    tacit learn irl-correction ENV

If costs may be scaled by any positive number, the multiplier of a constraint is part of the cost, and the game of
constraint, multiplier and policy is one of two players: inverse reinforcement learning on what must be taken from the
reward,

    max_c min_pi   J(pi_D, r - c) - J(pi, r - c)  =  max_c min_pi  E_pi[c] - E_D[c] + (terms without c)              (1)

so that no Lagrangian is needed. The forward step is PPO on r - c (`ppo_lagrangian` with a fixed multiplier of 1), and
the inverse step descends

    L(c) = E_D[c] - E_N[c] + expert_square E_D[c^2]                                                                (2)

on demonstrations D and the learner's last steps N. It is MCE-ICRL's dual with one network for the cost and a square on
the demonstrations alone: what no demonstration does costs more with every step, without a ceiling. The stabilisers,
each a setting:

    head            c = leaky ReLU(f), not a bounded sigmoid (which breaks the scaling), f = 0 at the start
    expert_square   costs of demonstrations stay near 0
    critics         one of the reward and one of the cost: when c moves, the reward's stays right
    few steps       one step of a large batch between short forward phases, so that (2) moves slowly
    ending          where demonstrations live on, ending an episode costs as much as costly living for ever (ours)
    resets          the last layers of policy and cost critic are reinitialised now and then, because c has moved
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tacit.cost import LEAK, LearnedCost
from tacit.forward import agent, nets, ppo_lagrangian
from tacit.inverse import constraint_net, loop
from tacit.inverse.clone import revision_of_clones
from tacit.inverse.constraint_net import Data, Net, outputs
from tacit.inverse.loop import State
from tacit.inverse.samples import Expert
from tacit.run.naming import History
from tacit.run.trainer import Metrics

__all__ = ["Config", "State", "check", "cost_of", "learn", "loss", "policy_of", "train"]

OWN_SCALE = "the correction carries its own scale"


@dataclass(frozen=True)
class Config(constraint_net.Settings, loop.Config, ppo_lagrangian.FixedConfig):
    """Settings of the reward correction."""

    forward_steps: int = 4096
    """Environment steps of PPO between two inverse steps."""
    backward_steps: int = 1
    """Adam steps per inverse step, each on a batch of constraint_batch."""
    constraint_batch: int = 5000
    """Samples of the demonstrations, and of the learner, per step; 0: all."""
    anneal: float = 1.0
    """Factor on lr_constraint after each inverse step."""
    expert_square: float = 0.1
    """Weight of the squared cost of demonstrations in (2)."""
    reset_actor: int = 0
    """Re-initialise the policy's last layer after this many inverse steps, in the first half of the run; 0: never."""
    reset_critic: int = 0
    """Re-initialise the cost critic's last layer after this many inverse steps, during the whole run; 0: never."""

    HISTORY: ClassVar[History] = History(
        added={"inverse_first": True},
        retired={
            "multiplier": ("fixed", OWN_SCALE),
            "budget": (0.0, OWN_SCALE),
            "budget_per": ("step", OWN_SCALE),
            "multiplier_lr": (0.05, OWN_SCALE),
            "multiplier_max": (100.0, OWN_SCALE),
            "pid_gains": ((10.0, 0.1, 0.0), OWN_SCALE),
            "pid_smoothing": (0.5, OWN_SCALE),
        },
        revision=revision_of_clones,
    )


def loss(net: Net, expert: Any, learner: Any, expert_square: Any) -> jax.Array:
    """(2) on scaled inputs (n, d) of demonstrations and (m, d) of the learner."""
    ours, theirs = correction(net, expert), correction(net, learner)
    return ours.mean() - theirs.mean() + expert_square * (ours**2).mean()


def correction(net: Net, z: Any) -> jax.Array:
    """Cost c (B,) of scaled inputs (B, d)."""
    return jax.nn.leaky_relu(outputs(net, z)[:, 0], LEAK)


@jax.jit
def descend(
    net: Net, opt_state: Any, expert: Any, learner: Any, hyper: tuple[Any, Any]
) -> tuple[Net, Any, dict[str, jax.Array]]:
    """Adam on minibatches (M, B, d) of both sides; hyper is (lr, expert_square)."""
    lr, square = hyper
    weighted = partial(loss, expert_square=square)
    net, opt_state, values = constraint_net.descend(weighted, net, opt_state, (expert, learner), lr)
    return net, opt_state, {"inverse/loss": values[-1]}


def _minibatches(rng: np.random.Generator, rows: NDArray[Any], config: Config) -> NDArray[Any]:
    """Minibatches (backward_steps, batch, d)."""
    if not config.constraint_batch or config.constraint_batch >= len(rows):
        return np.broadcast_to(rows, (config.backward_steps, *rows.shape))
    return rows[rng.integers(len(rows), size=(config.backward_steps, config.constraint_batch))]


def zeroed(net: Net) -> Net:
    """The network with its output set to 0 everywhere. It still gets a gradient."""
    return Net((*net.weights[:-1], 0.0 * net.weights[-1]), (*net.biases[:-1], 0.0 * net.biases[-1]))


def _with_fresh(state: ppo_lagrangian.State, net_of: Any, gain: float, rng: np.random.Generator) -> Any:
    """The training state with a fresh last layer of one network, and a fresh optimiser.

    (With fresh moments for this layer and the old step count, Adam's next steps would be far too long.)
    """
    learner = state.agent

    def last(tree: Any) -> Any:
        return net_of(tree).weights[-1], net_of(tree).biases[-1]

    n_in, n_out = net_of(learner.params).weights[-1].shape
    fresh = (jnp.asarray(nets.orthogonal(rng, n_in, n_out, gain)), jnp.zeros(n_out, jnp.float32))
    params = eqx.tree_at(last, learner.params, fresh)
    return replace(state, agent=replace(learner, params=params, opt_state=agent.optimiser().init(params)))


# ---------------------------------------------------------------------------------------------------------------------
# The method


class RewardCorrection(constraint_net.Classifier):
    """`tacit learn irl-correction ENV`. The cost is c."""

    name = "irl-correction"
    config_type = Config

    def descend(self, config: Config, state: State, data: Data, rng: np.random.Generator) -> tuple[Net, Any, Metrics]:
        both = [_minibatches(rng, rows, config) for rows in (data.expert, data.learner)]
        hyper = constraint_net.learning_rate(config, state), config.expert_square
        net, opt_state, info = descend(state.params, state.opt_state, *both, hyper)
        return net, opt_state, {key: float(value) for key, value in info.items()}

    def begin(self, *given: Any) -> tuple[Any, Net, Any, Metrics]:
        inputs, net, opt_state, metrics = super().begin(*given)
        return inputs, zeroed(net), opt_state, metrics

    def cost_of(self, state: State, config: Config) -> LearnedCost:
        unit = constraint_net.unit_of(state, config)
        return constraint_net.to_cost(state.params, state.inputs, config.at, unit=unit, head="leaky")

    def before_forward(self, config: Config, state: State, rng: np.random.Generator) -> ppo_lagrangian.State:
        """The forward half, with fresh last layers if they are due."""
        forward: ppo_lagrangian.State = state.forward

        def due(every: int) -> bool:
            return bool(every) and state.iteration > 1 and state.iteration % every == 0

        if due(config.reset_critic) and config.critics == "separate":
            forward = _with_fresh(forward, lambda params: params.critics[1], 1.0, rng)
        if due(config.reset_actor) and state.steps < 0.5 * config.total_steps:
            forward = _with_fresh(forward, lambda params: params.actor.net, 0.01, rng)
        return forward

    def terminal_cost(self, config: Config, state: State, expert: Expert) -> float:
        """Cost of ending an episode. If no demonstration ends early, it includes the 90th percentile of the cost of the
        learner's last steps, paid for ever after, as in MCE-ICRL. A negative percentile is not charged."""
        gamma = config.discount_of_cost
        if expert.absorbed or gamma == 1 or not len(state.replay):
            return config.terminal_cost
        high = float(np.quantile(self.cost_of(state, config).of_rows(state.replay[-1]), 0.9))
        return config.terminal_cost + gamma / (1.0 - gamma) * max(0.0, high)

    def ceiling(self, config: Config, cost: LearnedCost, rows: NDArray[Any]) -> float:
        """Scale of the cost, which is unbounded: twice the 90th percentile over the states that the learner tried."""
        return 2.0 * max(0.0, float(np.quantile(cost.of_rows(rows), 0.9)))

    def check_settings(self, config: Config) -> None:
        super().check_settings(config)
        agent.check_ranges(config, ("expert_square", "reset_actor", "reset_critic"), 0)


METHOD = RewardCorrection()
learn, train, check = METHOD.learn, METHOD.train, METHOD.check
cost_of, policy_of = METHOD.cost_of, METHOD.policy_of
