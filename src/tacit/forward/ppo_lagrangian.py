"""PPO under a constraint on the expected cost: PPO-Lagrangian, a fixed penalty, and RCPO.

    max_pi  E sum_t gamma^t ( R_t - beta log pi(a_t|s_t) )      s.t.   E[c] <= budget                        (1)

The Lagrangian  reward - lam cost  is improved by the steps of `ppo`, and after each of them lam follows the measured
cost (`tacit.forward.lagrange`). Reward and cost have a critic each, and the policy's advantage is

    A = A_reward - lam u A_cost ,      standardised (which makes a division by 1 + lam superfluous)          (2)

where u is the unit of the multiplier:

    "rbar"       the largest mean |reward| per step so far: lam = 1 lets a unit of cost cancel an average step of
                 reward, whatever the task's scale (it does not fall when the agent gives up reward to save cost)
    "reward"     the environment's reward
    "advantage"  standard deviation of A_reward, with the cost over the running standard deviation of its discounted
                 sum: the units of the earlier constraint-inference code

With critics="single" the reward itself becomes  R - lam u c  with one critic: reward-constrained policy optimisation
(RCPO) in Tessler's form.

With forfeit = p > 0, a step of cost c ends the agent's income with probability  e = p min(c, 1): from then on it pays
d + lam u  per step for ever, where d is the loss per step of the worst rollout so far (0 if rewards are not negative).
In expectation, with one critic,

    r~ = R - lam u c - e (d + lam u) gamma / (1 - gamma) ,      V(s) = E[ r~ + gamma (1 - e) V(s') ]             (3)

so the first violation counts most. With (1) alone the least bad way through a forbidden stretch is the fastest one, and
the agent never learns to go slowly or around.

The cost is the environment's info["cost"], or any function cost(obs, act, next_obs) of
batches, which may change between iterations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.errors import RunFailed, UserError
from tacit.forward import agent, collect, lagrange, normalize, ppo
from tacit.policy import Policy

Metrics = dict[str, float]
CostFunction = Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], NDArray[Any]]
"""(obs (B, obs_size), action sent to the environment (B, A) or (B,), next_obs (B, obs_size)) -> cost (B,)."""
RBAR_HORIZON = 10
"""Iterations over which the mean |reward| is averaged for rbar."""
FALL = 3.0
"""Price of a fall in units of the price of a lost income. Above 1, so that a violation is better than a fall, and the
agent first learns not to fall, then not to violate."""


@dataclass(frozen=True)
class PenaltyConfig(ppo.Config):
    """Settings of PPO on reward - price x cost with a constant price of 1, as learned costs need it."""

    penalty_unit: Literal["rbar", "reward", "advantage"] = "rbar"
    """Unit of the multiplier: the largest mean |reward| per step so far (rbar), the environment's reward, or the spread
    of the reward's advantage."""
    critics: Literal["separate", "single"] = "separate"
    """Separate critics for reward and cost, or a single critic for the penalised reward (RCPO)."""
    cost_gamma: float = 0.99
    """Discount of the cost critic."""
    cost_gae_lambda: float = 0.95
    """Decay of the trace in the cost's advantage estimation."""

    @property
    def discount_of_cost(self) -> float:
        """The discount of the critic that sees the cost; a single critic uses the reward's."""
        return self.gamma if self.critics == "single" else self.cost_gamma


@dataclass(frozen=True)
class FixedConfig(PenaltyConfig):
    """Settings of PPO with a constant penalty of any size."""

    multiplier_init: float = 1.0
    """Initial multiplier (the penalty if it is fixed), in units of penalty_unit."""
    multiplier_ramp: int = 0
    """Steps over which a fixed penalty grows from 0, with the cube of time; 0: full penalty from the start. An agent
    that must learn to balance first learns to fall instead if it is punished too early."""
    terminal_cost: float = 0.0
    """Cost added when an episode terminates, in place of the cost of living on. Without it an agent may learn to fall,
    because that ends the costs. A value of about 1 / (1 - cost_gamma) times the worst cost of a step prevents that."""


@dataclass(frozen=True)
class Config(FixedConfig):
    """Settings of PPO and of the constraint."""

    budget: float = 0.0
    """Largest mean cost allowed."""
    budget_per: Literal["step", "episode"] = "step"
    """Whether the budget is for the mean cost of a step or of an episode."""
    multiplier: Literal["fixed", "ascent", "softplus", "pid"] = "ascent"
    """How the multiplier follows the cost; "fixed" is a constant penalty."""
    multiplier_lr: float = 0.05
    """Step size of "ascent" (multiplier per unit of excess cost) or Adam's learning rate of "softplus"."""
    ascent_by: Literal["sum", "factor"] = "sum"
    """Whether "ascent" adds its step to the multiplier, or multiplies it by exp(multiplier_lr min(error, 1)), which
    needs no scale."""
    multiplier_max: float = 100.0
    """Upper bound of the multiplier."""
    pid_gains: tuple[float, float, float] = (10.0, 0.1, 0.0)
    """Proportional, integral and derivative gain of "pid"."""
    pid_smoothing: float = 0.5
    """Weight of the past in the average that the proportional and derivative parts of "pid" see."""
    forfeit: float = 0.0
    """Probability that a step of cost 1 ends the agent's income for good. Needs critics = "single"."""
    falls: Literal["free", "forfeit"] = "free"
    """With "forfeit", the end of an episode ends the income too, three times as badly, so that no agent falls in order
    not to violate. An episode whose last step pays more than any other step of the rollout has reached a goal and is
    exempt. This has no effect if forfeit is 0."""

    ADDED: ClassVar[Mapping[str, Any]] = {"ascent_by": "sum", "forfeit": 0.0, "falls": "free"}
    """Settings that were added later, for the names of runs; see `tacit.run.naming.History`."""


@dataclass(frozen=True)
class State:
    """What a checkpoint holds."""

    agent: agent.State
    multiplier: lagrange.Multiplier
    cost_scale: normalize.ReturnScale
    """Running scale that the cost critic's signal is divided by."""
    reward_size: float = 0.0
    """Mean |reward| per step of the last iterations."""
    rbar: float = 0.0
    """The largest mean |reward| so far; frozen together with the reward scale."""
    worst_loss: float = 0.0
    """The largest mean loss (negative reward) per step of a rollout so far; 0 without any."""

    @property
    def steps(self) -> int:
        return self.agent.steps

    @property
    def iteration(self) -> int:
        return self.agent.iteration


def check(config: PenaltyConfig) -> None:
    """UserError for settings of the constraint that cannot work."""
    agent.check_choices(config)
    if config.critics == "single" and config.penalty_unit == "advantage":
        raise UserError('a single critic has no advantage of the reward alone: use penalty_unit "rbar" or "reward"')
    agent.check_ranges(config, ("cost_gae_lambda",), 0, 1)
    agent.check_ranges(config, ("cost_gamma",), 0, 1, open_low=True)
    if isinstance(config, FixedConfig):
        agent.check_ranges(config, ("multiplier_init", "multiplier_ramp"), 0)
    if not isinstance(config, Config):
        return
    agent.check_ranges(config, ("budget", "multiplier_lr", "multiplier_max"), 0)
    agent.check_ranges(config, ("pid_smoothing", "forfeit"), 0, 1)
    if config.forfeit > 0 and (config.critics != "single" or config.gamma == 1):
        raise UserError('forfeit needs critics "single" and a gamma below 1')
    if config.multiplier_init == 0 and (config.multiplier == "softplus" or grows_by_factor(config)):
        rule = "softplus" if config.multiplier == "softplus" else "factor"
        raise UserError(f'a "{rule}" multiplier cannot start at 0 (it would stay there): use a small positive number')


def init(env: VectorEnv, config: PenaltyConfig, seed: int) -> State:
    """Fresh networks and multiplier, freshly reset environments."""
    check(config)
    return State(
        agent.init(env, config, seed, n_critics=1 if config.critics == "single" else 2),
        _first_multiplier(config),
        normalize.return_scale(env.num_envs),
    )


def _first_multiplier(config: PenaltyConfig) -> lagrange.Multiplier:
    if isinstance(config, Config):
        first = penalty_after(config, 0) if config.multiplier == "fixed" else config.multiplier_init
        return lagrange.start(first, config.pid_gains[1])
    return lagrange.start(penalty_after(config, 0), Config.pid_gains[1])


def resume(env: VectorEnv, config: PenaltyConfig, state: State) -> State:
    """Restore the environments to the state."""
    return replace(state, agent=agent.resume(env, config, state.agent))


def policy_of(state: State) -> Policy:
    """The current policy as an artefact (NumPy)."""
    return agent.policy_of(state.agent)


def freeze_reward_scale(state: State) -> State:
    """Freeze the unit of rewards (their scale and mean size) at its present value."""
    return replace(state, agent=agent.freeze_reward_scale(state.agent))


def reinitialise(config: PenaltyConfig, state: State) -> State:
    """Re-initialise policy, critics and optimiser. Statistics, multiplier, environments and counters stay."""
    return replace(state, agent=agent.reinitialise(config, state.agent))


def iterate(
    env: VectorEnv,
    config: PenaltyConfig,
    state: State,
    cost: CostFunction | None = None,
    terminal_cost: float | None = None,
    *,
    hold_policy: bool = False,
) -> tuple[State, Metrics, collect.Rollout]:
    """One rollout, one update of the networks, one of the multiplier. `terminal_cost` overrides the setting.

    With `hold_policy` only the critics learn, for a policy that comes from elsewhere; the multiplier waits, too.
    """
    started = time.perf_counter()
    learner, rollout = ppo.gather(env, config, state.agent)
    collected = time.perf_counter()
    costs = costs_of(rollout, cost)
    if terminal_cost is None:
        terminal_cost = config.terminal_cost if isinstance(config, FixedConfig) else 0.0
    charged = costs + terminal_cost * rollout.terminated
    size, rbar = state.reward_size, state.rbar
    worst_loss = max(state.worst_loss, -float(rollout.rew.mean()))
    if not learner.reward_scale.stats.frozen:
        size += (float(np.abs(rollout.rew).mean()) - size) / min(learner.iteration + 1, RBAR_HORIZON)
        rbar = max(rbar, size)
    # Without any reward so far, rbar is 0 and cannot be a unit.
    unit = (rbar or 1.0) if config.penalty_unit == "rbar" else 1.0
    penalty = state.multiplier.value * unit
    cost_scale = state.cost_scale

    if isinstance(config, Config) and config.forfeit > 0:
        ended = income_ended(config, rollout, charged)
        learner, reward = ppo.scale_reward(config, learner, rollout.rew, rollout.done)
        for_ever = (worst_loss + penalty) * config.gamma / (1.0 - config.gamma)
        price = (penalty * charged + for_ever * ended) / (learner.reward_scale.std if config.normalize_reward else 1.0)
        kept = 1.0 - np.minimum(ended, 1.0)
        learner, metrics = ppo.improve(config, learner, rollout, [reward - price], kept=kept, hold_policy=hold_policy)
    elif config.critics == "single":
        learner, signal = ppo.scale_reward(config, learner, rollout.rew - penalty * charged, rollout.done)
        learner, metrics = ppo.improve(config, learner, rollout, [signal], hold_policy=hold_policy)
    else:
        learner, reward = ppo.scale_reward(config, learner, rollout.rew, rollout.done)
        # Critics learn values of ordinary size. The weight corrects for their scales.
        cost_scale = normalize.track_returns(cost_scale, charged, rollout.done, config.cost_gamma)
        if config.penalty_unit != "advantage":
            penalty *= cost_scale.std / (learner.reward_scale.std if config.normalize_reward else 1.0)
        learner, metrics = ppo.improve(
            config,
            learner,
            rollout,
            [reward, charged / cost_scale.std],
            weights=(1.0, -penalty),
            gammas=(config.gamma, config.cost_gamma),
            lambdas=(config.gae_lambda, config.cost_gae_lambda),
            relative=config.penalty_unit == "advantage",
            hold_policy=hold_policy,
        )

    metrics |= collect.metrics(rollout, learner.carry, learner.steps)
    metrics |= {
        "train/multiplier": state.multiplier.value,
        "train/penalty": state.multiplier.value * unit,
        "train/cost_mean": float(costs.mean()),
    }
    multiplier = state.multiplier
    if not hold_policy:
        multiplier = follow(config, multiplier, costs, learner)
    new = State(learner, multiplier, cost_scale, size, rbar, worst_loss)
    return new, metrics | collect.times(len(rollout), started, collected), rollout


def income_ended(config: Config, rollout: collect.Rollout, charged: NDArray[Any]) -> NDArray[Any]:
    """(T, N) probability e of (3) that a step ends the income; FALL where an episode ended without a bonus."""
    ended = config.forfeit * np.clip(charged, 0.0, 1.0)
    # Where rewards are negative, an early end is a relief, or the goal.
    if config.falls == "forfeit" and rollout.rew.mean() > 0 and not rollout.terminated.all():
        usual = rollout.rew[~rollout.terminated].max()
        ended = np.where(rollout.terminated & (rollout.rew <= usual), FALL, ended)
    return np.asarray(ended)


def costs_of(rollout: collect.Rollout, cost: CostFunction | None) -> NDArray[Any]:
    """(T, N) cost of every step, from the environment or from a function."""
    if cost is None:
        if rollout.cost is None:
            raise UserError(
                'the environment does not report info["cost"] at every step, and no cost function was given'
            )
        return rollout.cost
    costs = np.asarray(cost(*rollout.flat()), dtype=np.float64)
    if costs.shape != (len(rollout),):
        raise UserError(f"the cost function must return one number per row, {(len(rollout),)}, not shape {costs.shape}")
    if not np.isfinite(costs).all():
        raise RunFailed("the cost function returned a number that is not finite")
    return costs.reshape(rollout.done.shape)


def penalty_after(config: PenaltyConfig, steps: int) -> float:
    """The fixed penalty after `steps` environment steps."""
    if not isinstance(config, FixedConfig):
        return 1.0
    share = min(1.0, steps / config.multiplier_ramp) if config.multiplier_ramp else 1.0
    return config.multiplier_init * share**3


def follow(
    config: PenaltyConfig, multiplier: lagrange.Multiplier, costs: NDArray[Any], learner: agent.State
) -> lagrange.Multiplier:
    """The multiplier after a rollout with these costs (T, N)."""
    if not isinstance(config, Config) or config.multiplier == "fixed":
        return replace(multiplier, value=penalty_after(config, learner.steps))
    measured = measure(config, costs, learner.carry)
    if measured is None:
        return multiplier
    error, maximum = measured - config.budget, config.multiplier_max
    if config.multiplier == "pid":
        return lagrange.pid(multiplier, error, config.pid_gains, config.pid_smoothing, maximum)
    ascent = lagrange.growth if grows_by_factor(config) else lagrange.ascent
    rule = ascent if config.multiplier == "ascent" else lagrange.softplus
    return rule(multiplier, error, config.multiplier_lr, maximum)


def grows_by_factor(config: Config) -> bool:
    """Whether the multiplier is multiplied instead of added to."""
    return config.multiplier == "ascent" and config.ascent_by == "factor"


def measure(config: Config, costs: NDArray[Any], carry: collect.Carry) -> float | None:
    """The cost to compare with the budget; None before the first episode ends if the budget is per episode.

    The mean cost of an episode is the mean cost of a step times the mean length of an episode (renewal reward), which
    also counts the episodes that are still running.
    """
    if config.budget_per == "step":
        return float(costs.mean())
    return float(costs.mean() * carry.recent[:, 1].mean()) if len(carry.recent) else None


def learn(
    env: VectorEnv,
    config: Config,
    seed: int = 0,
    state: State | None = None,
    cost: CostFunction | None = None,
    terminal_cost: float | None = None,
) -> Iterator[tuple[State, Metrics]]:
    """Train until config.total_steps; yields (state, metrics) after every iteration.

    With a `state` (of this or another process) training continues from there, exactly as if it had not stopped.
    """
    state = init(env, config, seed) if state is None else resume(env, config, state)
    while state.steps < config.total_steps:
        state, metrics, _ = iterate(env, config, state, cost, terminal_cost)
        yield state, metrics


# ---------------------------------------------------------------------------------------------------------------------
# Saving


def state_to_arrays(state: State) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """(arrays, JSON metadata) of the whole state."""
    arrays, inner = agent.state_to_arrays(state.agent)
    stats = state.cost_scale.stats
    arrays["cost_scale/returns"] = state.cost_scale.returns
    return arrays, {
        "kind": "ppo-lagrangian",
        "version": agent.VERSION,
        "agent": inner,
        "multiplier": asdict(state.multiplier),
        "cost_scale": [float(stats.mean), float(stats.var), stats.count, stats.frozen],
        "reward_size": state.reward_size,
        "rbar": state.rbar,
        "worst_loss": state.worst_loss,
    }


def state_from_arrays(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> State:
    """The state that `state_to_arrays` saved. UserError if the file holds something else."""
    if metadata.get("kind") != "ppo-lagrangian" or metadata.get("version") != agent.VERSION:
        raise UserError("this checkpoint does not hold a PPO-Lagrangian agent of this version of Tacit")
    mean, var, count, frozen = metadata["cost_scale"]
    stats = normalize.Running(np.array(mean), np.array(var), count, frozen)
    return State(
        agent.state_from_arrays(arrays, metadata["agent"]),
        lagrange.Multiplier(**metadata["multiplier"]),
        normalize.ReturnScale(arrays["cost_scale/returns"], stats),
        metadata["reward_size"],
        metadata["rbar"],
        metadata.get("worst_loss", 0.0),
    )
