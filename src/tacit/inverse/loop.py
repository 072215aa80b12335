"""The loop that the inverse methods share: forward phases with the present cost alternate with steps of the cost.

    bootstrap   an agent follows the reward alone: the nominal policy, which gives the first data to compare with
    forward     PPO improves the policy on reward and cost for `forward_steps` (`tacit.forward.ppo_lagrangian`)
    inverse     the cost moves on demonstrations against the learner's last phase: this tells the methods apart

A method derives from `Method`. The published codes sample fresh episodes for the inverse step; here it uses the steps
that PPO has just learned from, which costs no environment steps. Their policy is at most a few updates old.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.cost import Inputs
from tacit.demos import Demonstrations
from tacit.forward import agent, collect, ppo_lagrangian
from tacit.inverse import clone, samples, trainer
from tacit.inverse.samples import Expert, Phase
from tacit.inverse.state import (
    NOMINAL_ROWS,
    REPLAY_PHASES,
    Saving,
    State,
    fresh_state,
    from_arrays,
    generator,
    remember,
    to_arrays,
)
from tacit.policy import Interface, Policy
from tacit.run.trainer import Metrics, Saved

__all__ = ["Config", "Evidence", "Method", "State", "learn"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Config(trainer.Settings, samples.Settings, ppo_lagrangian.PenaltyConfig):
    """Settings of the loop: of PPO with a cost, of the cost's inputs, and of how their steps alternate."""

    bootstrap_steps: int = 20_480
    """Environment steps of the nominal policy, without cost, before the first inverse step; at least one rollout."""
    forward_steps: int = 16_384
    """Environment steps of PPO between two inverse steps."""
    inverse_first: bool = True
    """Take the first inverse step after the bootstrap. Otherwise it follows the first forward phase, as in the
    paper."""


@dataclass(frozen=True)
class Evidence:
    """The data of an inverse step."""

    expert: Expert
    phase: Phase
    """The learner's steps of the last forward phase."""
    rollouts: Sequence[collect.Rollout]
    """The rollouts that these steps come from."""
    charged: float
    """Mean cost charged to the learner per step; 0 in the bootstrap."""
    tempted: Array | None = None
    """(n, width) steps of a clone that follows the reward, for methods that have one; in the bootstrap only."""


class Method(Saving, trainer.Method):
    """An inverse method on the shared loop. Methods differ in `config_type`, `begin`, `step`, `cost_of` and hooks."""

    hidden_metrics: ClassVar[tuple[str, ...]] = ()
    """Metrics of PPO-Lagrangian that have no meaning in this method."""

    def begin(
        self, config: Any, interface: Interface, inputs: Inputs, expert: Array, nominal: Array, rng: np.random.Generator
    ) -> tuple[Inputs, Any, Any, Metrics]:
        """(scaled inputs, first parameters, optimiser's state, metrics), from rows of demonstrations and bootstrap."""
        raise NotImplementedError

    def seekers(
        self,
        env: VectorEnv,
        config: Any,
        forward: ppo_lagrangian.State,
        evidence: Evidence,
        inputs: Inputs,
        nominal: ppo_lagrangian.State,
    ) -> tuple[ppo_lagrangian.State, Evidence, Metrics]:
        """Train further agents to compare with after the bootstrap, and choose the steps that stand for them.

        `nominal` is the agent of the bootstrap, and `forward` the one to go on with: the same, or a clone.
        """
        return forward, evidence, {}

    def bootstrap_steps(self, config: Any) -> int:
        """Environment steps of the nominal policy."""
        return int(config.bootstrap_steps)

    def nominal_rows(self, config: Any) -> int:
        """Number of steps of the bootstrap to keep."""
        return NOMINAL_ROWS

    def step(self, config: Any, state: Any, evidence: Evidence, rng: np.random.Generator) -> tuple[Any, Metrics]:
        """The inverse step: (state with a new cost, metrics). By default the cost stays as it is."""
        return state, {}

    def policy_of(self, state: Any) -> Policy:
        return ppo_lagrangian.policy_of(state.forward)

    def recent(self, config: Any, state: Any, expert: Expert, rollouts: list[collect.Rollout]) -> list[collect.Rollout]:
        """The rollouts of a phase that represent the present policy."""
        return rollouts

    def charged(self, config: Any, state: Any, rng: np.random.Generator) -> ppo_lagrangian.CostFunction:
        """The cost that the next forward phase is charged."""
        return self.cost_of(state, config).of_steps

    def terminal_cost(self, config: Any, state: Any, expert: Expert) -> float | None:
        """The cost of ending an episode; None: that of the settings."""
        return None

    def before_forward(self, config: Any, state: Any, rng: np.random.Generator) -> ppo_lagrangian.State:
        """The forward half at the start of the next phase."""
        forward: ppo_lagrangian.State = state.forward
        return forward

    def after_bootstrap(
        self, config: Any, first: ppo_lagrangian.State, forward: ppo_lagrangian.State
    ) -> ppo_lagrangian.State:
        """The forward half after the bootstrap; `first` is the one before it."""
        # Steps without cost say nothing about the size of later costs.
        return replace(forward, cost_scale=first.cost_scale, multiplier=first.multiplier)

    def replay_phases(self, config: Any) -> int:
        return REPLAY_PHASES

    # In a run folder

    def learn(
        self, env: VectorEnv, demos: Demonstrations, config: Any, seed: int = 0, state: Any = None
    ) -> Iterator[tuple[Any, Metrics]]:
        return learn(self, env, demos, config, seed, state)

    def iterations(self, config: Any) -> int:
        return 1 + max(0, -(-(config.total_steps - self.bootstrap_steps(config)) // config.forward_steps))

    def check(self, env_id: str, env_kwargs: Mapping[str, Any], config: Any) -> None:
        self.check_settings(config)
        super().check(env_id, env_kwargs, config)

    def check_settings(self, config: Any) -> None:
        """UserError for settings that cannot work, whatever the environment."""
        samples.check(config)
        ppo_lagrangian.check(config)
        agent.check(config, config.n_envs)
        agent.check_ranges(config, ("forward_steps",), 1)
        agent.check_ranges(config, ("bootstrap_steps",), 0)

    def to_arrays(self, state: Any) -> Saved:
        return to_arrays(self, state, ppo_lagrangian.state_to_arrays(state.forward))

    def from_arrays(self, arrays: Mapping[str, Array], metadata: Mapping[str, Any]) -> Any:
        return from_arrays(self, arrays, metadata, ppo_lagrangian.state_from_arrays)


# ---------------------------------------------------------------------------------------------------------------------
# Algorithm 1


def learn(
    method: Method, env: VectorEnv, demos: Demonstrations, config: Any, seed: int = 0, state: Any = None
) -> Iterator[tuple[Any, Metrics]]:
    """Train until config.total_steps; yields (state, metrics) after the bootstrap and after every outer iteration.

    With a `state` (of this or another process) training continues from there, exactly as if it had not stopped.
    """
    if state is None:
        state, metrics = bootstrap(method, env, demos, config, seed)
        yield state, metrics
    else:
        state = replace(state, forward=ppo_lagrangian.resume(env, config, state.forward))
    interface = state.forward.agent.interface
    expert = samples.of_demonstrations(demos, interface, state.inputs, config.at, samples.horizon_of(env, demos))
    expert = replace(expert, z=state.inputs.scaled(expert.rows))
    while state.steps < config.total_steps:
        state, metrics = iterate(method, env, config, state, expert)
        yield state, metrics


def bootstrap(method: Method, env: VectorEnv, demos: Demonstrations, config: Any, seed: int) -> tuple[Any, Metrics]:
    """Lines 1 to 3: the nominal policy, the inputs' scale, a fresh cost, and the first inverse step."""
    method.check_settings(config)
    began = time.perf_counter()
    first = ppo_lagrangian.init(env, config, seed)
    steps = method.bootstrap_steps(config)
    forward, rollouts, metrics, charged = forward_phase(method, env, config, first, steps, no_cost)
    samples.warn_without_reward(rollouts)
    forward = method.after_bootstrap(config, first, forward)
    rng = np.random.default_rng([seed, 3])
    interface = forward.agent.interface
    inputs = method.inputs_of(env, interface, config, demos)
    expert = samples.of_demonstrations(demos, interface, inputs, config.at, samples.horizon_of(env, demos))
    phase = samples.of_rollouts(rollouts, inputs, config.at, expert.horizon)
    inputs, params, opt_state, beginning = method.begin(config, interface, inputs, expert.rows, phase.rows, rng)
    nominal = forward
    if config.start == "clone":
        forward = clone.start_from(forward, demos, rng, config.clone_log_std)
    evidence = Evidence(expert, phase, rollouts, charged)
    forward, evidence, seekers = method.seekers(env, config, forward, evidence, inputs, nominal)
    kept = method.nominal_rows(config)
    state = fresh_state(method, forward, params, opt_state, inputs, evidence.phase, rng, kept)
    between = time.perf_counter()
    state, inverse = inverse_step(method, config, state, evidence, rng, moves=config.inverse_first)
    spent = metrics["time/rollout_seconds"] + metrics["time/update_seconds"]
    return state, metrics | beginning | seekers | inverse | {
        "time/setup_seconds": between - began - spent,
        "time/inverse_seconds": time.perf_counter() - between,
    }


def iterate(method: Method, env: VectorEnv, config: Any, state: Any, expert: Expert) -> tuple[Any, Metrics]:
    """Lines 4 to 7: a forward phase with the present cost, and an inverse step."""
    started = time.perf_counter()
    rng = generator(state)
    cost = method.charged(config, state, rng)
    first = method.before_forward(config, state, rng)
    ending = method.terminal_cost(config, state, expert)
    # The critics do not know a cloned policy yet, and their first errors would spoil it.
    phase_number, steps = state.iteration - 1, config.forward_steps
    hold = clone.held(config, phase_number, steps)
    forward, rollouts, metrics, charged = forward_phase(method, env, config, first, steps, cost, ending, hold=hold)
    if clone.released(config, phase_number, steps):
        forward = ppo_lagrangian.freeze_reward_scale(forward)
    between, steps_made = time.perf_counter(), sum(map(len, rollouts))
    rollouts = method.recent(config, state, expert, rollouts)
    phase = samples.of_rollouts(rollouts, state.inputs, config.at, expert.horizon)
    evidence = Evidence(expert, phase, rollouts, charged)
    state, inverse = inverse_step(method, config, replace(state, forward=forward), evidence, rng)
    now = time.perf_counter()
    return state, metrics | inverse | {
        "time/inverse_seconds": now - between,
        "time/iteration_seconds": now - started,
        "time/fps": steps_made / (now - started),
    }


def forward_phase(
    method: Method,
    env: VectorEnv,
    config: Any,
    state: ppo_lagrangian.State,
    steps: int,
    cost: ppo_lagrangian.CostFunction,
    terminal_cost: float | None = None,
    *,
    hold: bool = False,
) -> tuple[ppo_lagrangian.State, list[collect.Rollout], Metrics, float]:
    """PPO for `steps` environment steps; returns its state, the rollouts, the last metrics and the mean charge."""
    rollouts, costs = [], []
    seconds = {"time/rollout_seconds": 0.0, "time/update_seconds": 0.0}
    for _ in range(max(1, steps // config.rollout_steps)):
        state, metrics, rollout = ppo_lagrangian.iterate(env, config, state, cost, terminal_cost, hold_policy=hold)
        rollouts.append(rollout)
        costs.append(metrics["train/cost_mean"])
        seconds = {name: total + metrics[name] for name, total in seconds.items()}
    metrics = {key: value for key, value in metrics.items() if key not in method.hidden_metrics}
    return state, rollouts, trainer.truth_apart(metrics) | seconds, float(np.mean(costs))


def no_cost(obs: Array, act: Array, next_obs: Array) -> Array:
    return np.zeros(len(obs))


def inverse_step(
    method: Method, config: Any, state: Any, evidence: Evidence, rng: np.random.Generator, *, moves: bool = True
) -> tuple[Any, Metrics]:
    """The method's inverse step, unless the cost is to stay as it is. A sample of the phase is kept."""
    state, metrics = method.step(config, state, evidence, rng) if moves else (state, {})
    if not metrics.keys() >= samples.COST_METRICS:
        cost = method.cost_of(state, config)
        metrics = samples.cost_metrics(cost, state.inputs, evidence.expert.rows, evidence.phase.rows) | metrics
    state = remember(state, evidence.phase, rng, method.replay_phases(config))
    return replace(state, iteration=state.iteration + 1), metrics


def steps_before(config: Any, state: Any) -> int:
    """Number of inverse steps so far, for decaying rates."""
    return int(state.iteration - (not config.inverse_first))
