"""Two steps that take turns: PPO-Lagrangian on the present cost, and a step of the constraint network.

    forward   max_pi J(pi)  s.t.  E_pi[c] <= budget           `tacit.forward.ppo_lagrangian`, for forward_steps
    inverse   the network moves on demonstrations against the learner's last steps: what distinguishes the methods

ME-ICRL, variational ICRL and other classifiers share this loop; each supplies a `Rule`. Before the loop an agent
follows the reward alone for bootstrap_steps (at least one rollout), which gives the first data to compare with.

The learner's side of an inverse step are the last steps of the forward phase, about as many as were demonstrated. The
published code samples fresh episodes instead; that would cost environment steps that PPO does not learn from. The
policy that made them is at most a few updates old.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.cost import LearnedCost
from tacit.demos import Demonstrations
from tacit.errors import UserError
from tacit.forward import agent, collect, ppo_lagrangian
from tacit.inverse import clone, constraint_net, samples, trainer
from tacit.inverse.constraint_net import Metrics, Net, State
from tacit.inverse.samples import Expert
from tacit.policy import Policy

__all__ = ["Config", "Data", "Rule", "State", "check", "learn", "method", "policy_of", "unit_of"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Config(trainer.Settings, constraint_net.Settings, ppo_lagrangian.Config):
    """Settings of the loop: those of PPO-Lagrangian, of the network, and of how they take turns."""

    multiplier: Literal["fixed", "ascent", "softplus", "pid"] = "softplus"
    """Rule by which the multiplier follows the cost; "fixed" is a constant penalty."""
    penalty_unit: Literal["rbar", "reward", "advantage"] = "advantage"
    """Unit of the multiplier, see tacit.forward.ppo_lagrangian."""
    bootstrap_steps: int = 20_480
    """Environment steps of the nominal policy, without cost, before the first inverse step; at least one rollout."""
    forward_steps: int = 16_384
    """Environment steps of PPO between two inverse steps."""
    backward_steps: int = 10
    """Passes over the data in an inverse step."""
    constraint_batch: int = 0
    """Samples of a minibatch there, of each side; 0: all."""
    anneal: float = 0.9
    """Factor on lr_constraint after each inverse step."""


@dataclass(frozen=True)
class Data:
    """What an inverse step sees."""

    expert: Array
    """(n, d) scaled inputs of the demonstrations' steps."""
    learner: Array
    """(m, d) of the learner's last steps."""
    trajectory: Array
    """(m,) which of its trajectories a step of the learner belongs to, numbered from 0."""
    whole: Array
    """(m,) of the trajectory with each number, whether it was seen from its first step to its last."""


@dataclass(frozen=True)
class Rule:
    """What a method supplies."""

    name: str
    step: Callable[[Any, State, Data, np.random.Generator], tuple[Net, Any, Metrics]]
    """(config, state, data, rng) -> (network, optimiser's state, metrics): the inverse step."""
    cost_of: Callable[[State, Any], LearnedCost]
    outputs: int = 1
    """Of the network."""
    charged: Callable[[State, Any, np.random.Generator], ppo_lagrangian.CostFunction] | None = None
    """The cost that the forward step is charged, if not that of `cost_of`."""
    before: Callable[[Any, State, np.random.Generator], ppo_lagrangian.State] | None = None
    """(config, state, rng) -> the forward half with which the next forward step begins, if not the last one's."""
    terminal: Callable[[Any, State, Expert], float] | None = None
    """(config, state, demonstrations) -> cost of ending an episode, if not that of the settings."""
    ceiling: Callable[[Any, LearnedCost, Array], float] = lambda config, cost, rows: 1.0
    """The largest cost that there can be, see `trainer.Method`."""


def policy_of(state: State) -> Policy:
    return ppo_lagrangian.policy_of(state.forward)


def unit_of(state: State, config: Config) -> float:
    """Reward per unit of cost in the last forward step; 1 where the penalty is in units of advantages."""
    if config.penalty_unit == "advantage":
        return 1.0
    unit = (state.forward.rbar or 1.0) if config.penalty_unit == "rbar" else 1.0
    return float(state.forward.multiplier.value * unit)


def check(config: Config) -> None:
    """UserError for settings that cannot work."""
    constraint_net.check(config)
    ppo_lagrangian.check(config)
    agent.check(config, config.n_envs)
    for name in ("total_steps", "forward_steps", "backward_steps"):
        if getattr(config, name) < 1:
            raise UserError(f"{name} is at least 1, not {getattr(config, name)}")
    for name in ("bootstrap_steps", "constraint_batch"):
        if getattr(config, name) < 0:
            raise UserError(f"{name} cannot be negative, it is {getattr(config, name)}")
    if not 0 < config.anneal <= 1:
        raise UserError(f"anneal is above 0 and at most 1, not {config.anneal}")


# ---------------------------------------------------------------------------------------------------------------------
# The loop


def learn(
    rule: Rule, env: VectorEnv, demos: Demonstrations, config: Config, seed: int = 0, state: State | None = None
) -> Iterator[tuple[State, Metrics]]:
    """Train until config.total_steps; yields (state, metrics) after the bootstrap and after every outer iteration.

    With a `state` (of this or another process) training continues from there, exactly as if it had not stopped.
    """
    if state is None:
        state, metrics = _init(rule, env, demos, config, seed)
        yield state, metrics
    else:
        state = replace(state, forward=ppo_lagrangian.resume(env, config, state.forward))
    face = state.forward.agent.interface
    expert = samples.of_demonstrations(demos, face, state.inputs, config.at, samples.horizon_of(env, demos))
    while state.steps < config.total_steps:
        state, metrics = _iterate(rule, env, config, state, expert)
        yield state, metrics


def _init(rule: Rule, env: VectorEnv, demos: Demonstrations, config: Config, seed: int) -> tuple[State, Metrics]:
    """The nominal policy, the inputs' scale, a fresh network, and the first inverse step."""
    constraint_net.check(config)
    began = time.perf_counter()
    first = ppo_lagrangian.init(env, config, seed)
    forward, rollouts, metrics = _forward(env, config, first, config.bootstrap_steps, _nothing, hold_policy=False)
    samples.warn_without_reward(rollouts)
    # Steps without cost say nothing about the size of costs to come.
    forward = replace(forward, cost_scale=first.cost_scale, multiplier=first.multiplier)
    rng = np.random.default_rng([seed, 3])
    face = forward.agent.interface
    inputs = constraint_net.inputs_of(env, face, config)
    expert = samples.of_demonstrations(demos, face, inputs, config.at, samples.horizon_of(env, demos))
    phase = samples.of_rollouts(rollouts, inputs, config.at, expert.horizon)
    inputs = constraint_net.scaled_inputs(inputs, face, config, expert.rows, phase.rows)
    net = constraint_net.init(rng, (len(inputs.names), *config.layers, rule.outputs))
    if config.start == "clone":
        forward = clone.start_from(forward, demos, rng, config.clone_log_std)
    state = constraint_net.fresh_state(forward, net, inputs, phase, rng)
    between = time.perf_counter()
    state, inverse = _inverse(rule, config, state, expert, rollouts, rng)
    learned = metrics["time/rollout_seconds"] + metrics["time/update_seconds"]
    return state, metrics | inverse | {
        "time/setup_seconds": between - began - learned,
        "time/inverse_seconds": time.perf_counter() - between,
    }


def _iterate(rule: Rule, env: VectorEnv, config: Config, state: State, expert: Expert) -> tuple[State, Metrics]:
    """A forward phase with the current cost, and an inverse step."""
    started = time.perf_counter()
    rng = constraint_net.generator(state)
    cost = rule.cost_of(state, config).of_steps if rule.charged is None else rule.charged(state, config, rng)
    first = state.forward if rule.before is None else rule.before(config, state, rng)
    terminal = config.terminal_cost if rule.terminal is None else rule.terminal(config, state, expert)
    # The critics know nothing of a cloned policy yet; their first errors would spoil it.
    phase, each = state.iteration - 1, config.forward_steps
    holds = clone.held(config, phase, each)
    forward, rollouts, metrics = _forward(env, config, first, each, cost, terminal, hold_policy=holds)
    if clone.released(config, phase, each):
        forward = ppo_lagrangian.freeze_reward_scale(forward)
    between = time.perf_counter()
    state, inverse = _inverse(rule, config, replace(state, forward=forward), expert, rollouts, rng)
    now = time.perf_counter()
    return state, metrics | inverse | {
        "time/inverse_seconds": now - between,
        "time/iteration_seconds": now - started,
        "time/fps": sum(map(len, rollouts)) / (now - started),
    }


def _nothing(obs: Array, act: Array, next_obs: Array) -> Array:
    return np.zeros(len(obs))


def _forward(
    env: VectorEnv,
    config: Config,
    state: ppo_lagrangian.State,
    steps: int,
    cost: ppo_lagrangian.CostFunction,
    terminal_cost: float | None = None,
    *,
    hold_policy: bool,
) -> tuple[ppo_lagrangian.State, list[collect.Rollout], Metrics]:
    """PPO-Lagrangian for so many steps; the rollouts, and the last metrics with what belongs to the truth named so."""
    rollouts, seconds = [], {"time/rollout_seconds": 0.0, "time/update_seconds": 0.0}
    for _ in range(max(1, steps // config.rollout_steps)):
        state, metrics, rollout = ppo_lagrangian.iterate(
            env, config, state, cost, terminal_cost, hold_policy=hold_policy
        )
        rollouts.append(rollout)
        seconds = {name: total + metrics[name] for name, total in seconds.items()}
    return state, rollouts, named(metrics) | seconds


def named(metrics: Mapping[str, float]) -> Metrics:
    """Metrics of PPO with those of the environment's own cost, which the learner must not see, under truth/."""
    truth = {
        "rollout/cost_mean": "truth/violation_rate_step",
        "rollout/ep_violation_rate": "truth/violation_rate_episode",
    }
    return {truth.get(key, key): value for key, value in metrics.items() if key != "rollout/ep_cost_mean"}


def _inverse(
    rule: Rule,
    config: Config,
    state: State,
    expert: Expert,
    rollouts: Sequence[collect.Rollout],
    rng: np.random.Generator,
) -> tuple[State, Metrics]:
    phase = samples.of_rollouts(rollouts, state.inputs, config.at, expert.horizon)
    last = min(len(rollouts), max(1, -(-len(expert.rows) // config.rollout_steps))) * config.rollout_steps
    data = Data(
        state.inputs.scaled(expert.rows),
        state.inputs.scaled(phase.rows[-last:]),
        *trajectories(phase.times[-last:].reshape(-1, rollouts[0].done.shape[1]), rollouts[-1].done[-1]),
    )
    net, opt_state, metrics = rule.step(config, state, data, rng)
    state = constraint_net.remember(replace(state, params=net, opt_state=opt_state), phase, rng)
    state = replace(state, iteration=state.iteration + 1)
    cost = rule.cost_of(state, config)
    return state, metrics | constraint_net.cost_metrics(cost, state.inputs, expert.rows, phase.rows[-last:])


def trajectories(times: Array, ended: Array) -> tuple[Array, Array]:
    """(T * N,) numbers of the trajectories in T steps of N environments, and (T * N,) whether one of a number is whole.

    The steps' own numbers are times (T, N), and ended (N,) marks the episodes that end with the last of them. An
    episode that began before the first of these steps, or goes on after the last, is a trajectory as far as it is seen,
    but not a whole one.
    """
    starts = times == 0
    starts[0] = True
    counts = starts.sum(axis=0)
    last = np.cumsum(counts) - 1
    first = last + 1 - counts
    whole = np.arange(times.size) <= last[-1]
    whole[np.concatenate([first[times[0] != 0], last[~ended]])] = False
    return (np.cumsum(starts, axis=0) - 1 + first).reshape(-1).astype(np.int32), whole


# ---------------------------------------------------------------------------------------------------------------------
# In a run folder


def method(rule: Rule) -> trainer.Method:
    """The method as a run folder wants it."""

    def to_arrays(state: State) -> tuple[dict[str, Array], dict[str, Any]]:
        return constraint_net.to_arrays(rule.name, state, ppo_lagrangian.state_to_arrays(state.forward))

    def from_arrays(arrays: Mapping[str, Array], metadata: Mapping[str, Any]) -> State:
        return constraint_net.from_arrays(rule.name, arrays, metadata, ppo_lagrangian.state_from_arrays)

    def all_iterations(config: Config) -> int:
        return 1 + max(0, -(-(config.total_steps - config.bootstrap_steps) // config.forward_steps))

    return trainer.Method(
        learn=lambda *given: learn(rule, *given),
        policy_of=policy_of,
        cost_of=rule.cost_of,
        to_arrays=to_arrays,
        from_arrays=from_arrays,
        iterations=all_iterations,
        ceiling=rule.ceiling,
    )
