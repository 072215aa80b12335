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
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit.cost import LearnedCost
from tacit.errors import RunFailed, UserError
from tacit.forward import agent, collect, lagrange, normalize, ppo, ppo_lagrangian
from tacit.inverse import clone, constraint_net, loop, samples, trainer
from tacit.inverse.constraint_net import OPTIMISER, Array, Metrics, Net, State, log_feasibility, outputs
from tacit.inverse.samples import Expert
from tacit.policy import Policy

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.demos import Demonstrations
    from tacit.run import Run

__all__ = ["Config", "State", "check", "cost_of", "learn", "policy_of", "run"]


@dataclass(frozen=True)
class Config(trainer.Settings, constraint_net.Settings, ppo.Config):
    """Settings of GACL: those of PPO and of the discriminator."""

    checkpoint_every: int = 20
    """Rollouts between checkpoints."""
    lr_constraint: float = 3e-3
    """Adam's learning rate of the discriminator."""
    layers: tuple[int, ...] = (30,)
    """Hidden ReLU layers of the discriminator."""
    discriminator_steps: int = 1
    """Steps of the discriminator after a rollout."""
    bootstrap_steps: int = 0
    """Environment steps of PPO on the reward alone before the first step of the discriminator; at least one rollout."""
    absorbing: bool = False
    """Where no demonstration ends early, ending an episode is worth as much as staying for ever where log D is lowest
    (the lowest tenth of a rollout); otherwise nothing, and as log D is negative, ending is better than living."""


def loss(net: Net, expert: Any, learner: Any) -> jax.Array:
    """(1): cross-entropy on scaled inputs (n, d) of demonstrations and of the learner; D = sigmoid(-f)."""
    shown, made = outputs(net, expert)[:, 0], outputs(net, learner)[:, 0]
    return jax.nn.softplus(shown).mean() + jax.nn.softplus(-made).mean()


@jax.jit
def descend(net: Net, opt_state: Any, expert: Any, learner: Any, lr: float) -> tuple[Net, Any, dict[str, jax.Array]]:
    """Steps of Adam on (steps, n, d) scaled inputs of each side."""

    def step(carry: Any, part: Any) -> tuple[Any, jax.Array]:
        net, opt_state = carry
        value, gradient = jax.value_and_grad(loss)(net, *part)
        moves, opt_state = OPTIMISER.update(gradient, opt_state)
        return (constraint_net.apply(net, moves, lr), opt_state), value

    (net, opt_state), values = jax.lax.scan(step, (net, opt_state), (expert, learner))
    right = jnp.stack([(outputs(net, z)[:, 0] * sign > 0).mean() for z, sign in ((expert[-1], -1), (learner[-1], 1))])
    return net, opt_state, {"inverse/loss": values.mean(), "inverse/accuracy": right.mean()}


_bonus = jax.jit(log_feasibility)


def price_of_ending(bonus: Array, gamma: float) -> float:
    """What the lowest tenth of these log D would be worth for ever after."""
    return gamma / (1.0 - gamma) * float(np.quantile(bonus, 0.1))


def policy_of(state: State) -> Policy:
    return agent.policy_of(state.forward)


def cost_of(state: State, config: Config) -> LearnedCost:
    """1 - D as an artefact."""
    return constraint_net.to_cost(state.params, state.inputs, config.at)


# ---------------------------------------------------------------------------------------------------------------------
# The loop


def learn(
    env: VectorEnv, demos: Demonstrations, config: Config, seed: int = 0, state: State | None = None
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
    face = forward.interface
    inputs = constraint_net.inputs_of(env, face, config)
    samples.warn_without_reward(rollouts)
    expert = samples.of_demonstrations(demos, face, inputs, config.at, samples.horizon_of(env, demos))
    phase = samples.of_rollouts(rollouts, inputs, config.at, expert.horizon)
    inputs = constraint_net.scaled_inputs(inputs, face, config, expert.rows, phase.rows)
    net = constraint_net.init(rng, (len(inputs.names), *config.layers, 1))
    if config.start == "clone":
        whole = ppo_lagrangian.State(forward, lagrange.start(1.0), normalize.return_scale(env.num_envs))
        forward = clone.start_from(whole, demos, rng, config.clone_log_std).agent
    state = constraint_net.fresh_state(forward, net, inputs, phase, rng)
    state = replace(constraint_net.remember(state, phase, rng), iteration=1)
    found = constraint_net.cost_metrics(cost_of(state, config), inputs, expert.rows, phase.rows)
    seconds["time/setup_seconds"] = time.perf_counter() - began - sum(seconds.values())
    return state, loop.named(metrics) | found | seconds


def _iterate(env: VectorEnv, config: Config, state: State, expert: Expert) -> tuple[State, Metrics]:
    """A rollout, a step of the discriminator, and PPO on the reward with its bonus."""
    started = time.perf_counter()
    rng = constraint_net.generator(state)
    forward, rollout = ppo.gather(env, config, state.forward)
    collected = time.perf_counter()
    phase = samples.of_rollouts([rollout], state.inputs, config.at, expert.horizon)
    expert_z, learner_z = state.inputs.scaled(expert.rows), state.inputs.scaled(phase.rows)
    size = min(len(expert_z), len(learner_z))

    def drawn(z: Array) -> Array:
        return z[np.stack([rng.permutation(len(z))[:size] for _ in range(config.discriminator_steps)])]

    net, opt_state, info = descend(
        state.params, state.opt_state, drawn(expert_z), drawn(learner_z), config.lr_constraint
    )
    between = time.perf_counter()
    bonus = np.asarray(_bonus(net, learner_z), np.float64)
    if not np.isfinite(bonus).all():
        raise RunFailed(f"training diverged after {forward.steps} steps: the discriminator is no longer finite")
    forward, reward = ppo.scale_reward(config, forward, rollout.rew, rollout.done)
    signal = reward + bonus.reshape(reward.shape)
    if config.absorbing and expert.absorbed == 0:
        signal += price_of_ending(bonus, config.gamma) * rollout.terminated
    # The critics know nothing of a cloned policy yet; their first errors would spoil it.
    number, each = state.iteration - 1, config.rollout_steps
    forward, metrics = ppo.improve(config, forward, rollout, [signal], hold_policy=clone.held(config, number, each))
    if clone.released(config, number, each):
        forward = agent.freeze_reward_scale(forward)
    metrics |= loop.named(collect.metrics(rollout, forward.carry, forward.steps))
    kept = max(config.rollout_steps, config.total_steps // constraint_net.REPLAY_PHASES)
    if forward.steps // kept > state.steps // kept:
        state = constraint_net.remember(state, phase, rng)
    state = replace(
        state,
        forward=forward,
        params=net,
        opt_state=opt_state,
        rng=dict(rng.bit_generator.state),
        iteration=state.iteration + 1,
    )
    metrics |= constraint_net.cost_metrics(cost_of(state, config), state.inputs, expert.rows, phase.rows)
    metrics |= {key: float(value) for key, value in info.items()} | {"inverse/bonus": float(bonus.mean())}
    times = collect.times(len(rollout), started, collected)
    times |= {
        "time/inverse_seconds": between - collected,
        "time/update_seconds": times["time/update_seconds"] - (between - collected),
    }
    return state, metrics | times


# ---------------------------------------------------------------------------------------------------------------------
# In a run folder


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Config) -> None:
    """UserError for settings that cannot work, before anything is written."""
    constraint_net.check(config)
    agent.check(config, config.n_envs)
    for name in ("total_steps", "discriminator_steps"):
        if getattr(config, name) < 1:
            raise UserError(f"{name} is at least 1, not {getattr(config, name)}")
    if config.bootstrap_steps < 0:
        raise UserError(f"bootstrap_steps cannot be negative, it is {config.bootstrap_steps}")
    if config.absorbing and config.gamma == 1:
        raise UserError("absorbing needs a gamma below 1: for ever would be worth infinitely much")
    trainer.check(env_id, env_kwargs, config)


def state_to_arrays(state: State) -> tuple[dict[str, Array], dict[str, Any]]:
    return constraint_net.to_arrays("gacl", state, agent.state_to_arrays(state.forward))


def state_from_arrays(arrays: Mapping[str, Array], metadata: Mapping[str, Any]) -> State:
    return constraint_net.from_arrays("gacl", arrays, metadata, agent.state_from_arrays)


def _iterations(config: Config) -> int:
    return 1 + max(0, -(-(config.total_steps - config.bootstrap_steps) // config.rollout_steps))


METHOD = trainer.Method(learn, policy_of, cost_of, state_to_arrays, state_from_arrays, _iterations)


def run(
    run: Run, env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations, config: Config, seed: int
) -> dict[str, Any]:
    """Learn inside a run folder; continues from the newest checkpoint if there is one."""
    return trainer.run(METHOD, run, env_id, env_kwargs, demos, config, seed)
