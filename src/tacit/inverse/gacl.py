"""Generative adversarial constraint learning: `tacit learn gacl ENV`.

A discriminator D(s, a) in (0, 1) tells demonstrated steps (1) from the learner's (0), and the learner is paid for being
taken for a demonstrator on top of the known reward:

    min_D   - E_D log D - E_N log(1 - D)                        one step of Adam after every rollout             (1)
    max_pi  E sum_t gamma^t ( r_t + log(D_t + eps) )            PPO on that rollout                                (2)

There is no multiplier and no constrained forward step; r is the normalised reward. It is generative adversarial
imitation with the reward known, and a baseline for constraint learning in Malik et al. (2021) and Liu et al. (2023).

The cost that is saved is 1 - D: the same ranking of states as the penalty -log D, and between 0 and 1. In (1) at
equilibrium D = rho_D / (rho_D + rho_N), which is 1/2 wherever the learner goes as often as the demonstrations: such a
cost is not 0 where everything is fine, and it marks what the learner of the moment does, not what is forbidden.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from tacit.cost import LearnedCost
from tacit.errors import RunFailed, UserError
from tacit.forward import agent, collect, lagrange, normalize, ppo, ppo_lagrangian
from tacit.inverse import clone, constraint_net, samples, trainer
from tacit.inverse.clone import revision_of_clones
from tacit.inverse.constraint_net import OPTIMISER, Array, Net, log_feasibility, outputs
from tacit.inverse.samples import Expert
from tacit.inverse.state import REPLAY_PHASES, State, fresh_state, from_arrays, generator, remember, to_arrays
from tacit.policy import Policy
from tacit.run.naming import History
from tacit.run.trainer import Metrics, Saved

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.demos import Demonstrations

__all__ = ["Config", "State", "check", "cost_of", "learn", "policy_of", "train"]


@dataclass(frozen=True)
class Config(trainer.Settings, constraint_net.Settings, ppo.Config):
    """Settings of GACL: of PPO and of the discriminator."""

    checkpoint_every: int = 20
    """Rollouts between checkpoints."""
    lr_constraint: float = 3e-3
    """Adam's learning rate of the discriminator."""
    layers: tuple[int, ...] = (30,)
    """Hidden ReLU layers of the discriminator."""
    discriminator_steps: int = 1
    """Discriminator steps after each rollout."""
    bootstrap_steps: int = 0
    """Environment steps of PPO on the reward alone before the first discriminator step; at least one rollout."""
    absorbing: bool = False
    """If no demonstration ends early, charge the learner for ending an episode as much as staying for ever where log D
    is low (the lowest tenth of a rollout). Without this charge, the agent prefers to end episodes, because log D is
    negative."""

    HISTORY: ClassVar[History] = History(revision=revision_of_clones)


def loss(net: Net, expert: Any, learner: Any) -> jax.Array:
    """(1): cross-entropy on scaled inputs (n, d) of demonstrations and of the learner; D = sigmoid(-f)."""
    of_expert, of_learner = outputs(net, expert)[:, 0], outputs(net, learner)[:, 0]
    return jax.nn.softplus(of_expert).mean() + jax.nn.softplus(-of_learner).mean()


@jax.jit
def descend(net: Net, opt_state: Any, expert: Any, learner: Any, lr: float) -> tuple[Net, Any, dict[str, jax.Array]]:
    """Steps of Adam on (steps, n, d) scaled inputs of each side."""
    net, opt_state, values = constraint_net.descend(loss, net, opt_state, (expert, learner), lr)
    right = jnp.stack([(outputs(net, z)[:, 0] * sign > 0).mean() for z, sign in ((expert[-1], -1), (learner[-1], 1))])
    return net, opt_state, {"inverse/loss": values.mean(), "inverse/accuracy": right.mean()}


_bonus = jax.jit(log_feasibility)


def price_of_ending(bonus: Array, gamma: float) -> float:
    """Discounted value of staying for ever at the lowest tenth of these log D."""
    return gamma / (1.0 - gamma) * float(np.quantile(bonus, 0.1))


# ---------------------------------------------------------------------------------------------------------------------
# The loop


def cost_of(state: State, config: Config) -> LearnedCost:
    """The cost 1 - D as an artefact."""
    return constraint_net.to_cost(state.params, state.inputs, config.at)


def _learn(
    env: VectorEnv, demos: Demonstrations, config: Config, seed: int, state: State | None
) -> Iterator[tuple[State, Metrics]]:
    """Train until config.total_steps; yields (state, metrics) after the bootstrap and after every rollout.

    With a `state` (of this or another process) training continues from there, exactly as if it had not stopped.
    """
    if state is None:
        state, metrics = _init(env, demos, config, seed)
        yield state, metrics
    else:
        state = replace(state, forward=agent.resume(env, config, state.forward))
    horizon = samples.horizon_of(env, demos)
    expert = samples.of_demonstrations(demos, state.forward.interface, state.inputs, config.at, horizon)
    while state.steps < config.total_steps:
        state, metrics = _iterate(env, config, state, expert)
        yield state, metrics


def _init(env: VectorEnv, demos: Demonstrations, config: Config, seed: int) -> tuple[State, Metrics]:
    """The nominal policy, the inputs' scale and a fresh discriminator."""
    constraint_net.check(config)
    began = time.perf_counter()
    forward = agent.init(env, config, seed)
    rollouts, seconds = [], {"time/rollout_seconds": 0.0, "time/update_seconds": 0.0}
    for _ in range(max(1, config.bootstrap_steps // config.rollout_steps)):
        forward, metrics, rollout = ppo.iterate(env, config, forward)
        rollouts.append(rollout)
        seconds = {name: total + metrics[name] for name, total in seconds.items()}
    rng = np.random.default_rng([seed, 3])
    interface = forward.interface
    inputs = METHOD.inputs_of(env, interface, config)
    samples.warn_without_reward(rollouts)
    expert = samples.of_demonstrations(demos, interface, inputs, config.at, samples.horizon_of(env, demos))
    phase = samples.of_rollouts(rollouts, inputs, config.at, expert.horizon)
    inputs = constraint_net.scaled_inputs(inputs, interface, config, expert.rows, phase.rows)
    net = constraint_net.init(rng, (len(inputs.names), *config.layers, 1))
    if config.start == "clone":
        whole = ppo_lagrangian.State(forward, lagrange.start(1.0), normalize.return_scale(env.num_envs))
        forward = clone.start_from(whole, demos, rng, config.clone_log_std).agent
    state = fresh_state(METHOD, forward, net, OPTIMISER.init(net), inputs, phase, rng)
    state = replace(remember(state, phase, rng), iteration=1)
    of_cost = samples.cost_metrics(cost_of(state, config), inputs, expert.rows, phase.rows)
    seconds["time/setup_seconds"] = time.perf_counter() - began - sum(seconds.values())
    return state, trainer.truth_apart(metrics) | of_cost | seconds


def _iterate(env: VectorEnv, config: Config, state: State, expert: Expert) -> tuple[State, Metrics]:
    """One rollout, one discriminator step, and PPO on the reward plus its bonus."""
    started = time.perf_counter()
    rng = generator(state)
    forward, rollout = ppo.gather(env, config, state.forward)
    collected = time.perf_counter()
    phase = samples.of_rollouts([rollout], state.inputs, config.at, expert.horizon)
    expert_z, learner_z = state.inputs.scaled(expert.rows), state.inputs.scaled(phase.rows)
    size = min(len(expert_z), len(learner_z))

    def batches(z: Array) -> Array:
        return z[np.stack([rng.permutation(len(z))[:size] for _ in range(config.discriminator_steps)])]

    net, opt_state, info = descend(
        state.params, state.opt_state, batches(expert_z), batches(learner_z), config.lr_constraint
    )
    between = time.perf_counter()
    bonus = np.asarray(_bonus(net, learner_z), np.float64)
    if not np.isfinite(bonus).all():
        raise RunFailed(f"training diverged after {forward.steps} steps: the discriminator is no longer finite")
    forward, reward = ppo.scale_reward(config, forward, rollout.rew, rollout.done)
    signal = reward + bonus.reshape(reward.shape)
    if config.absorbing and expert.absorbed == 0:
        signal += price_of_ending(bonus, config.gamma) * rollout.terminated
    # The critics do not know a cloned policy yet, and their first errors would spoil it.
    number, steps = state.iteration - 1, config.rollout_steps
    forward, metrics = ppo.improve(config, forward, rollout, [signal], hold_policy=clone.held(config, number, steps))
    if clone.released(config, number, steps):
        forward = agent.freeze_reward_scale(forward)
    metrics |= trainer.truth_apart(collect.metrics(rollout, forward.carry, forward.steps))
    kept = max(config.rollout_steps, config.total_steps // REPLAY_PHASES)
    if forward.steps // kept > state.steps // kept:
        state = remember(state, phase, rng)
    state = replace(
        state,
        forward=forward,
        params=net,
        opt_state=opt_state,
        rng=dict(rng.bit_generator.state),
        iteration=state.iteration + 1,
    )
    metrics |= samples.cost_metrics(cost_of(state, config), state.inputs, expert.rows, phase.rows)
    metrics |= {key: float(value) for key, value in info.items()} | {"inverse/bonus": float(bonus.mean())}
    times = collect.times(len(rollout), started, collected)
    times |= {
        "time/inverse_seconds": between - collected,
        "time/update_seconds": times["time/update_seconds"] - (between - collected),
    }
    return state, metrics | times


# ---------------------------------------------------------------------------------------------------------------------
# The method


class GACL(constraint_net.Classifier):
    """`tacit learn gacl ENV`. It has a loop of its own: discriminator and PPO take a step after every rollout."""

    name = "gacl"
    config_type = Config

    def learn(
        self, env: VectorEnv, demos: Demonstrations, config: Config, seed: int = 0, state: State | None = None
    ) -> Iterator[tuple[State, Metrics]]:
        return _learn(env, demos, config, seed, state)

    def policy_of(self, state: State) -> Policy:
        return agent.policy_of(state.forward)

    def cost_of(self, state: State, config: Config) -> LearnedCost:
        return cost_of(state, config)

    def iterations(self, config: Config) -> int:
        return 1 + max(0, -(-(config.total_steps - config.bootstrap_steps) // config.rollout_steps))

    def check_settings(self, config: Config) -> None:
        constraint_net.check(config)
        agent.check(config, config.n_envs)
        agent.check_ranges(config, ("discriminator_steps",), 1)
        agent.check_ranges(config, ("bootstrap_steps",), 0)
        if config.absorbing and config.gamma == 1:
            raise UserError("absorbing needs a gamma below 1, because staying for ever would be worth infinitely much")

    def to_arrays(self, state: State) -> Saved:
        return to_arrays(self, state, agent.state_to_arrays(state.forward))

    def from_arrays(self, arrays: Mapping[str, Array], metadata: Mapping[str, Any]) -> State:
        state: State = from_arrays(self, arrays, metadata, agent.state_from_arrays)
        return state


METHOD = GACL()
learn, train, check, policy_of = METHOD.learn, METHOD.train, METHOD.check, METHOD.policy_of
