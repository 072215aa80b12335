"""Maximum causal entropy inverse constrained reinforcement learning, deep: the paper's Algorithm 1.

Given a reward R and demonstrations D of agents that respect hidden constraints, find

    max_pi  J(pi) + beta H(pi)     s.t.   mu_pi <= mu_D + budget,       mu = E phi_zeta                          (1)

where phi_zeta >= 0 are learned features and mu their expectations. The multipliers lam >= 0 of (1) price the features,
and  c = lam . phi_zeta  is the cost. Two steps take turns:

    forward   PPO improves the policy on  R - c  with causal entropy (`tacit.forward.ppo_lagrangian`, penalty 1)
    inverse   lam and zeta descend the dual:   lam . (mu_D + budget - mu_pi)
                                               + expert_square E_D[c^2] + learner_square E_pi[c^2]               (2)

The squares are 0 in the paper. With them the dual is bounded: in the space of all functions its minimum is

    c* = (rho_pi - rho_D)_+ / (2 (expert_square rho_D + learner_square rho_pi))                                  (3)

which is near 0 wherever demonstrations go (expert_square large) and at most 1 / (2 learner_square), the ceiling,
elsewhere: a constraint rather than an imitation reward. Without them nothing but the alternation bounds the scale of
c, and where episodes can end, ending becomes cheaper than living.

Episodes that end early are continued in an absorbing state up to the horizon (moments = "absorbing"), so that learner
and demonstrations have equal mass and dying is priced like any other feature, by (3) for that single state, but no
higher than most of the learner's living (see `absorbing_cost`). A trap guard re-initialises the policy when it sits
where the cost is at its ceiling everywhere and has no slope to follow (mean c above `guard` times the ceiling,
`guard_iterations` times running). Nothing here looks at the true cost; it is logged as truth/... when the environment
knows it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.cost import Inputs, LearnedCost
from tacit.demos import Demonstrations
from tacit.forward import collect, ppo_lagrangian
from tacit.inverse import clone, features, samples
from tacit.inverse.dual import OPTIMISER, Batches, Hyper, costs, dual_loss, dual_steps, feature_means
from tacit.inverse.mce_config import Config, check, is_linear
from tacit.inverse.samples import Expert
from tacit.policy import Policy

__all__ = [
    "OPTIMISER",
    "Batches",
    "Config",
    "Hyper",
    "State",
    "check",
    "cost_of",
    "dual_loss",
    "dual_steps",
    "is_linear",
    "learn",
    "policy_of",
]

Array = NDArray[Any]
Metrics = dict[str, float]


@dataclass(frozen=True)
class State:
    """What a checkpoint holds."""

    forward: ppo_lagrangian.State
    params: features.Params
    opt_state: Any
    inputs: Inputs
    replay: Array
    """(phases, rows, width): rows of earlier forward phases, oldest first."""
    nominal: Array
    """(rows, width) of the bootstrap, for the constraint map."""
    replay_truth: Array
    nominal_truth: Array
    """(phases, rows) and (rows,): the environment's own cost there, for judging the map; NaN if unknown."""
    absorbing: float
    """Cost of a step in the absorbing state."""
    rng: dict[str, Any]
    iteration: int = 0
    saturated: int = 0
    """Inverse steps in a row with a mean cost near the ceiling."""
    resets: int = 0
    """How often the guard has re-initialised the policy."""

    @property
    def steps(self) -> int:
        return self.forward.steps


REPLAY_ROWS = 2048
"""Kept of each forward phase."""
REPLAY_CANDIDATES = 8192
"""Rows of the replay from which an inverse step draws."""
THINNED = 4096
"""Rows that tell the mean and the quantiles of a phase's costs."""
NOMINAL_ROWS = 8192
"""Kept of the bootstrap."""


def policy_of(state: State) -> Policy:
    return ppo_lagrangian.policy_of(state.forward)


def cost_of(state: State, config: Config) -> LearnedCost:
    """The current cost as an artefact."""
    unit = (state.forward.rbar or 1.0) if config.penalty_unit == "rbar" else 1.0
    return features.to_cost(state.params, state.inputs, at=config.at, unit=unit)


# ---------------------------------------------------------------------------------------------------------------------
# The inverse step


def inverse_step(config: Config, state: State, expert: Expert, phase: samples.Phase) -> tuple[State, Metrics]:
    """Descend the dual on the demonstrations and the learner's last phase (and earlier ones)."""
    rng = np.random.default_rng()
    rng.bit_generator.state = state.rng
    expert_z = state.inputs.scaled(expert.rows) if expert.z is None else expert.z
    learner_z = state.inputs.scaled(phase.rows)
    count = config.minibatches or max(1, -(-len(expert_z) // config.dual_batch))

    def draw(z: Array, weight: Array, size: int, likely: Array | None = None) -> tuple[Array, Array]:
        if likely is None:
            chosen = rng.integers(len(z), size=(count, size))
        else:
            chosen = np.searchsorted(np.cumsum(likely), rng.random((count, size)) * likely.sum()).clip(0, len(z) - 1)
        return z.take(chosen, axis=0), (len(z) * weight[chosen]).astype(np.float32)

    demo = draw(expert_z, expert.weight(config.moments, config.gamma), config.dual_batch)
    old = round(config.replay_share * config.dual_batch) if len(state.replay) else 0
    new = draw(learner_z, phase.weight(config.moments, config.gamma), config.dual_batch - old)
    if old:
        # Earlier phases stand in for the present one: the same total mass. Those of their rows that cost something are
        # drawn more often: where no demonstration goes, (3) does not depend on how often the learner does.
        rows = state.replay.reshape(-1, state.replay.shape[-1])
        rows = rows[rng.integers(len(rows), size=REPLAY_CANDIDATES)]
        mass = phase.weight(config.moments, config.gamma).sum()
        z = state.inputs.scaled(rows)
        likely = None
        if config.replay_by_cost:
            dear = np.asarray(costs(state.params, z))
            likely = dear + 0.02 * (config.ceiling if np.isfinite(config.ceiling) else dear.mean() + 1e-6)
        past = draw(z, np.full(len(rows), mass / len(rows)), old, likely)
        new = np.concatenate([new[0], past[0]], axis=1), np.concatenate([new[1], past[1]], axis=1)
    lr_zeta = config.lr_zeta * config.zeta_decay**state.iteration
    hyper = Hyper(lr_zeta, config.lr_lam, config.budget, config.expert_square, config.learner_square)
    once = config.lam_update == "once"
    params, opt_state, loss = dual_steps(state.params, state.opt_state, Batches(*demo, *new), hyper, once=once)

    mu_expert = feature_means(params.phi, expert_z, expert.weight(config.moments, config.gamma))
    mu_learner = feature_means(params.phi, learner_z, phase.weight(config.moments, config.gamma))
    gap = np.asarray(mu_learner - mu_expert)
    if once:
        params = params._replace(lam=jnp.maximum(0.0, params.lam + config.lr_lam * (gap - config.budget)))
    lam = np.asarray(params.lam)
    new_state = replace(
        state,
        params=params,
        opt_state=opt_state,
        iteration=state.iteration + 1,
        **_remember(config, state, phase, rng),
    )
    some = samples.thinned(learner_z, THINNED)
    learner_cost = np.asarray(costs(params, some))
    expert_cost = np.asarray(costs(params, samples.thinned(expert_z, THINNED)))
    living = float(np.quantile(learner_cost, config.absorbing_quantile))
    absorbing = absorbing_cost(config, expert.absorbed, phase.absorbed, living)
    return replace(new_state, absorbing=absorbing), {
        "dual/loss": float(loss),
        "dual/feature_gap": float(np.maximum(gap, 0.0).max()),
        "dual/expert_cost": float(expert_cost.mean()),
        "dual/expert_cost_99": float(np.quantile(expert_cost, 0.99)),
        "dual/learner_cost": float(learner_cost.mean()),
        "dual/lam_mean": float(lam.mean()),
        "dual/lam_max": float(lam.max()),
        "dual/absorbing": absorbing,
        "dual/absorbed": phase.absorbed,
        "dual/clipped": float((np.abs(some) >= state.inputs.clip).any(axis=-1).mean()),
    }


def absorbing_cost(config: Config, expert: float, learner: float, living: float) -> float:
    """Cost of a step in the absorbing state, where demonstrations and learner spend these shares of their time.

    By (3); but no more than the cost that most (`absorbing_quantile`) of the learner's living steps stay below. Ending
    an episode must not be cheaper than living as it does now (from the dearest tenth of its steps it still is), and the
    ceiling for ever after is a thousand times the reward of a step: a learner that now and then falls by chance would
    learn of nothing else.
    """
    if config.moments != "absorbing":
        return 0.0
    spread = config.expert_square * expert + config.learner_square * learner
    gap = max(0.0, learner - expert)
    if expert == 0.0 or (gap and not spread):  # without squares (3) has no bound
        return min(config.ceiling, living)
    return min(gap / (2.0 * spread) if gap else 0.0, living)


def _remember(config: Config, state: State, phase: samples.Phase, rng: np.random.Generator) -> dict[str, Any]:
    """Replay with a sample of this phase at its end, and the generator after drawing it."""
    chosen = rng.integers(len(phase.rows), size=REPLAY_ROWS)
    first = max(0, len(state.replay) + 1 - config.replay_phases)
    return {
        "replay": np.concatenate([state.replay, phase.rows[chosen][None]])[first:],
        "replay_truth": np.concatenate([state.replay_truth, phase.truth[chosen][None]])[first:],
        "rng": dict(rng.bit_generator.state),
    }


# ---------------------------------------------------------------------------------------------------------------------
# The loop


def init(env: VectorEnv, demos: Demonstrations, config: Config, seed: int) -> tuple[State, Metrics]:
    """Lines 1 to 3: the nominal policy, without cost; the inputs' scale; features, pre-trained."""
    check(config)
    began = time.perf_counter()
    forward = ppo_lagrangian.init(env, config, seed)
    zero = lambda obs, act, next_obs: np.zeros(len(obs))  # noqa: E731
    forward, rollouts, metrics, _ = _forward(env, config, forward, config.bootstrap_steps, zero, 0.0)
    samples.warn_without_reward(rollouts)
    rng = np.random.default_rng([seed, 3])
    face = forward.agent.interface
    inputs = samples.unscaled_inputs(env, face, config.inputs, config.use_action, config.squash, config.input_clip)
    expert = samples.of_demonstrations(demos, face, inputs, config.at, samples.horizon_of(env, demos))
    phase = samples.of_rollouts(rollouts, inputs, config.at, expert.horizon)
    linear = is_linear(config, face)
    thresholds = 0 if face.n_states else config.thresholds  # one-hot states are features already
    if linear:
        inputs = samples.unit_scale(inputs, expert.rows)
        samples.require_features(inputs, phase.rows, "a step of the learner")
    else:
        inputs = samples.fit_scale(inputs, expert.rows, phase.rows)
    z = np.concatenate([inputs.scaled(expert.rows), inputs.scaled(phase.rows)])
    params = features.init(
        rng,
        z,
        thresholds=thresholds,
        hidden=config.feature_hidden,
        joint=config.joint,
        lam=config.lam_init,
        bias=config.feature_bias,
    )
    phi, losses = features.pretrain(
        rng, params.phi, z, epochs=config.pretrain_epochs, lr=config.pretrain_lr, batch_size=config.dual_batch
    )
    params = params._replace(phi=phi)
    if losses:
        metrics |= {"dual/reconstruction_first": losses[0], "dual/reconstruction_last": losses[-1]}
    if config.start == "clone":
        forward = clone.start_from(forward, demos, rng, config.clone_log_std)
    elif config.critics == "separate":  # a single critic's scale is that of R - c, and there has been no c yet
        forward = ppo_lagrangian.freeze_reward_scale(forward)
    state = State(
        forward=forward,
        params=params,
        opt_state=OPTIMISER.init(params),
        inputs=inputs,
        replay=np.zeros((0, REPLAY_ROWS, phase.rows.shape[1]), np.float32),
        nominal=samples.thinned(phase.rows, NOMINAL_ROWS),
        replay_truth=np.zeros((0, REPLAY_ROWS), np.float32),
        nominal_truth=samples.thinned(phase.truth, NOMINAL_ROWS),
        absorbing=0.0,
        rng=dict(rng.bit_generator.state),
    )
    started = time.perf_counter()
    if config.moments != "absorbing" and phase.absorbed > 0 == expert.absorbed:
        warnings.warn(
            f"the learner's episodes end early, the demonstrations' do not, and with moments \"{config.moments}\" "
            'nothing prices that: it may learn to end them (survival bias); moments "absorbing" prices it',
            stacklevel=1,
        )
    state, dual = inverse_step(config, state, expert, phase)
    now = time.perf_counter()
    learned = metrics["time/rollout_seconds"] + metrics["time/update_seconds"]
    return state, metrics | dual | {
        "time/setup_seconds": started - began - learned,
        "time/inverse_seconds": now - started,
    }


def iterate(env: VectorEnv, config: Config, state: State, expert: Expert) -> tuple[State, Metrics]:
    """A forward phase with the current cost, and an inverse step."""
    started = time.perf_counter()
    cost = cost_of(state, config)
    # The critics know nothing of a cloned policy yet; their first errors would spoil it.
    phase, each = state.iteration - 1, config.forward_steps
    gamma = config.discount_of_cost
    forward, rollouts, metrics, mean_cost = _forward(
        env,
        config,
        state.forward,
        config.forward_steps,
        cost.of_steps,
        gamma * state.absorbing / (1.0 - gamma) if state.absorbing else 0.0,
        hold_policy=clone.held(config, phase, each),
    )
    if clone.released(config, phase, each):
        forward = ppo_lagrangian.freeze_reward_scale(forward)
    state = replace(state, forward=forward)
    between, made = time.perf_counter(), sum(map(len, rollouts))
    if config.moments == "sum":
        # Expectations of the present policy: its last steps, about as many as were demonstrated.
        rollouts = rollouts[-max(1, -(-len(expert.rows) // config.rollout_steps)) :]
    seen = samples.of_rollouts(rollouts, state.inputs, config.at, expert.horizon)
    if is_linear(config, state.forward.agent.interface):
        samples.require_features(state.inputs, seen.rows, "a step of the learner")
    state, dual = inverse_step(config, state, expert, seen)
    state, guard = _guarded(config, state, mean_cost)
    now = time.perf_counter()
    return state, metrics | dual | guard | {
        "time/inverse_seconds": now - between,
        "time/iteration_seconds": now - started,
        "time/fps": made / (now - started),
    }


def _forward(
    env: VectorEnv,
    config: Config,
    state: ppo_lagrangian.State,
    steps: int,
    cost: ppo_lagrangian.CostFunction,
    terminal_cost: float,
    hold_policy: bool = False,
) -> tuple[ppo_lagrangian.State, list[collect.Rollout], Metrics, float]:
    """PPO for so many steps; the rollouts, the last metrics, the mean cost that was charged."""
    rollouts, rollout_seconds, update_seconds, costs = [], 0.0, 0.0, []
    for _ in range(max(1, steps // config.rollout_steps)):
        state, metrics, rollout = ppo_lagrangian.iterate(
            env, config, state, cost, terminal_cost, hold_policy=hold_policy
        )
        rollouts.append(rollout)
        costs.append(metrics["train/cost_mean"])
        rollout_seconds += metrics["time/rollout_seconds"]
        update_seconds += metrics["time/update_seconds"]
    truth = {
        "rollout/cost_mean": "truth/violation_rate_step",
        "rollout/ep_violation_rate": "truth/violation_rate_episode",
    }
    dropped = ("rollout/ep_cost_mean", "train/multiplier", "train/penalty")
    named = {truth.get(key, key): value for key, value in metrics.items() if key not in dropped}
    named |= {"time/rollout_seconds": rollout_seconds, "time/update_seconds": update_seconds}
    return state, rollouts, named, float(np.mean(costs))


def _guarded(config: Config, state: State, mean_cost: float) -> tuple[State, Metrics]:
    """Re-initialise the policy if it is trapped: judged by the cost that it was charged alone."""
    limit = config.guard * config.ceiling
    saturated = state.saturated + 1 if 0 < limit <= mean_cost else 0
    early = state.steps < 0.7 * config.total_steps
    if saturated >= config.guard_iterations and early:
        forward = ppo_lagrangian.reinitialise(config, state.forward)
        state = replace(state, forward=forward, saturated=0, resets=state.resets + 1)
    else:
        state = replace(state, saturated=saturated)
    return state, {"guard/mean_cost": mean_cost, "guard/resets": float(state.resets)}


def learn(
    env: VectorEnv, demos: Demonstrations, config: Config, seed: int = 0, state: State | None = None
) -> Iterator[tuple[State, Metrics]]:
    """Train until config.total_steps; yields (state, metrics) after the bootstrap and after every outer iteration.

    With a `state` (of this or another process) training continues from there, exactly as if it had not stopped.
    """
    if state is None:
        state, metrics = init(env, demos, config, seed)
        yield state, metrics
    else:
        state = replace(state, forward=ppo_lagrangian.resume(env, config, state.forward))
    face = state.forward.agent.interface
    expert = samples.of_demonstrations(demos, face, state.inputs, config.at, samples.horizon_of(env, demos))
    expert = replace(expert, z=state.inputs.scaled(expert.rows))
    while state.steps < config.total_steps:
        state, metrics = iterate(env, config, state, expert)
        yield state, metrics
