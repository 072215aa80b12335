"""The data that an inverse step compares: weighted rows [observation | action] of demonstrations and of the learner.

A weight w_i makes  sum_i w_i f(row_i)  an estimate of the expectation of f, in one of three senses:

    absorbing    per step of an episode that goes on to the horizon; the weights sum to the share of time that is lived
    normalised   per step that was seen; the weights sum to 1
    sum          the discounted sum over a trajectory, E sum_t gamma^t f_t: the paper's
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.cost import Inputs, LearnedCost, choose_columns
from tacit.cost.objects import Nearest
from tacit.demos import Demonstrations
from tacit.envs.capabilities import capabilities
from tacit.errors import UserError
from tacit.forward import agent
from tacit.forward.collect import Rollout, names_of
from tacit.policy import Interface

Array = NDArray[Any]


@dataclass(frozen=True)
class Settings:
    """Settings of the cost's inputs, and of how the learner starts."""

    start: Literal["nominal", "clone"] = "nominal"
    """Initial policy: one trained on the reward alone (nominal), or a clone of the demonstrations (clone)."""
    clone_log_std: float = -4.0
    """Smallest log standard deviation of a cloned policy, so that it still explores."""
    inputs: tuple[str, ...] = ()
    """Names of the observation entries that the cost reads; empty: all."""
    use_action: bool = False
    """Let the cost read the action too."""
    at: Literal["next", "current"] = "next"
    """State that the cost of a step reads: the one reached (next), or the one in which the action is taken
    (current)."""
    input_scale: Literal["fit", "raw"] = "fit"
    """Scale of the inputs: the narrower of demonstrations and nominal data (fit), or the environment's (raw)."""
    squash: bool = True
    """Apply arsinh to the scaled inputs, see tacit.cost. Raw inputs are not squashed."""
    input_clip: float = 20.0
    """Bound of the scaled inputs."""


def check(config: Settings) -> None:
    """UserError for settings that cannot work."""
    agent.check_choices(config)
    if config.at == "next" and config.use_action:
        raise UserError('a cost of the state that a step reaches cannot read the action: use at="current"')
    if not config.input_clip > 0:
        raise UserError(f"input_clip must be positive, it is {config.input_clip}")


@dataclass(frozen=True)
class Expert:
    """The demonstrations' steps."""

    rows: Array
    """(n, width) float32 rows [observation | action]."""
    times: Array
    """(n,) step number within its trajectory."""
    lengths: Array
    """(trajectories,) number of steps of each."""
    horizon: int
    absorbed: float
    """Share of time in the absorbing state."""
    z: Array | None = None
    """(n, d) the rows as scaled inputs, once their scale is known."""
    mean_return: float | None = None
    """Mean return of a demonstration."""

    def weight(self, moments: str, gamma: float) -> Array:
        if moments == "sum":
            return (gamma**self.times / len(self.lengths)).astype(np.float32)
        mass = 1.0 - self.absorbed if moments == "absorbing" else 1.0
        return np.full(len(self.rows), mass / len(self.rows), np.float32)


@dataclass(frozen=True)
class Phase:
    """The learner's steps of a forward phase, all rollouts end to end."""

    rows: Array
    times: Array
    """(n,) step number within its episode."""
    absorbed: float
    mean_length: float
    """Mean length of the episodes that ended; the horizon if none did."""
    truth: Array
    """(n,) the environment's own cost, NaN if it reports none. It only judges a map; no learner reads it."""

    def weight(self, moments: str, gamma: float) -> Array:
        if moments == "sum":
            # Self-normalised, because the phase cuts episodes at both ends, so their number is not a whole one.
            powers = gamma**self.times
            expected = (1.0 - gamma**self.mean_length) / (1.0 - gamma) if gamma < 1 else self.mean_length
            return (powers * (expected / powers.sum())).astype(np.float32)
        mass = 1.0 - self.absorbed if moments == "absorbing" else 1.0
        return np.full(len(self.rows), mass / len(self.rows), np.float32)


def of_demonstrations(demos: Demonstrations, interface: Interface, inputs: Inputs, at: str, horizon: int) -> Expert:
    obs = interface.encode(demos.observations)
    before = demos.rows_before
    rows = inputs.rows(obs[before + 1 if at == "next" else before], demos.actions)
    times = np.concatenate([np.arange(length) for length in demos.lengths])
    lost = np.where(demos.terminated, horizon - demos.lengths, 0).sum()
    # Logs without rewards have zeros: what their demonstrators earn is not known.
    earned = float(demos.rewards.sum() / len(demos.lengths)) if demos.rewards.any() else None
    absorbed = float(lost / (demos.lengths.sum() + lost))
    return Expert(rows, times, demos.lengths, horizon, absorbed, mean_return=earned)


def of_rollouts(rollouts: Sequence[Rollout], inputs: Inputs, at: str, horizon: int) -> Phase:
    """The steps of consecutive rollouts of the same environments."""
    obs = np.concatenate([r.next_obs if at == "next" else r.obs for r in rollouts])
    sent = np.concatenate([r.sent for r in rollouts])
    done = np.concatenate([r.done for r in rollouts])
    terminated = np.concatenate([r.terminated for r in rollouts])
    times = np.concatenate([r.times for r in rollouts])
    lost = np.maximum(0, horizon - 1 - times)[terminated].sum()
    ended = times[done] + 1
    return Phase(
        rows=inputs.rows(obs.reshape(-1, obs.shape[-1]), sent.reshape(-1, *sent.shape[2:])),
        times=times.reshape(-1),
        absorbed=float(lost / (times.size + lost)),
        mean_length=float(ended.mean()) if len(ended) else float(horizon),
        truth=np.concatenate([np.full(r.done.shape, np.nan) if r.cost is None else r.cost for r in rollouts])
        .reshape(-1)
        .astype(np.float32),
    )


def horizon_of(env: VectorEnv, demos: Demonstrations) -> int:
    """The time limit of the environment if it has one, else the length of the longest demonstration."""
    return max(capabilities(env).horizon or 0, int(demos.lengths.max()))


# ---------------------------------------------------------------------------------------------------------------------
# Inputs


def unscaled_inputs(
    env: VectorEnv,
    interface: Interface,
    config: Settings,
    *,
    may_squash: bool = True,
    derived: Sequence[Nearest] = (),
    instead_of: Collection[str] = (),
) -> Inputs:
    """The inputs of the cost before scaling. UserError for a name that the environment does not have.

    Unless the settings name inputs, they are `derived` ones and all entries of an observation but `instead_of`.
    """
    names = (*names_of(env, interface), *(one.name for one in derived))
    if config.inputs:
        columns = choose_columns(names, config.inputs)
    else:
        columns = tuple(i for i, name in enumerate(names) if name not in instead_of)
    chosen = [names[column] for column in columns]
    if config.use_action:
        chosen += [f"action[{i}]" for i in range(interface.act_size)]
        columns += tuple(range(len(names), len(names) + interface.act_size))
    return Inputs(
        names=tuple(chosen),
        columns=columns,
        obs_size=interface.obs_size,
        act_size=interface.act_size if config.use_action else 0,
        centre=np.zeros(len(columns), np.float32),
        scale=np.ones(len(columns), np.float32),
        squash=config.squash and config.input_scale == "fit" and may_squash,
        clip=config.input_clip,
        n_actions=interface.n_actions,
        derived=tuple(derived),
    )


def fit_scale(inputs: Inputs, expert: Array, learner: Array) -> Inputs:
    """Centre and scale of each input: those of the narrower of the two distributions.

    For example, if demonstrations run 200 m and the nominal policy stays near the start, the boundary is near the
    start. The narrow distribution has the resolution there, and arsinh keeps the values of the wide one apart.
    """
    columns = list(inputs.columns)
    pair = [(rows[:, columns].mean(axis=0), rows[:, columns].std(axis=0)) for rows in (expert, learner)]
    # An input that is constant in one of them says nothing about scale there.
    spreads = np.stack([np.where(std > 1e-6, std, np.inf) for _, std in pair])
    narrow = np.argmin(spreads, axis=0)
    scale = spreads.min(axis=0)
    centre = np.where(narrow == 0, pair[0][0], pair[1][0])
    scale = np.where(np.isfinite(scale), scale, 1.0)
    return replace(inputs, centre=centre.astype(np.float32), scale=scale.astype(np.float32))


def unit_scale(inputs: Inputs, expert: Array) -> Inputs:
    """The inputs unscaled, because they are features themselves. UserError if one is negative in a demonstration."""
    require_features(inputs, expert, "a demonstration")
    return replace(inputs, squash=False, clip=float("inf"))


def require_features(inputs: Inputs, rows: Array, where: str) -> None:
    """UserError if an input that is a feature itself is negative in one of the rows: its cost would be a bonus."""
    low = rows[:, list(inputs.columns)].min(axis=0)
    if (low < 0).any():
        name = inputs.names[int(np.argmin(low))]
        raise UserError(
            f"a linear cost needs features >= 0, and {name} is {low.min():g} in {where}: use thresholds or joint, "
            "other inputs, or an observation wrapper that makes it two features, max(0, x) and max(0, -x)"
        )


def thinned(rows: Array, most: int) -> Array:
    """At most `most` of the rows. The choice depends only on the number of rows.

    Copies of the environment take turns in rows, so every fourth row would come from only two of eight copies.
    """
    return rows if len(rows) <= most else rows[np.random.default_rng(0).permutation(len(rows))[:most]]


def warn_without_reward(rollouts: Sequence[Rollout]) -> None:
    """Warn if the nominal policy has never received a reward."""
    if not any(rollout.rew.any() for rollout in rollouts):
        warnings.warn(
            f"no reward in {sum(map(len, rollouts)):,} steps of the nominal policy: a constraint is what keeps agents "
            "from a reward, and without a reward everything that is not demonstrated looks forbidden",
            stacklevel=1,
        )


COST_METRICS = {"dual/expert_cost", "dual/expert_cost_99", "dual/learner_cost", "dual/clipped"}
"""Metrics of every inverse step. The loop adds them where a method does not log them."""


def cost_metrics(cost: LearnedCost, inputs: Inputs, expert: Array, learner: Array) -> dict[str, float]:
    """COST_METRICS, on rows of demonstrations and of the learner."""
    expert, learner = (thinned(rows, 4096) for rows in (expert, learner))
    expert_cost = cost.of_rows(expert)
    return {
        "dual/expert_cost": float(expert_cost.mean()),
        "dual/expert_cost_99": float(np.quantile(expert_cost, 0.99)),
        "dual/learner_cost": float(cost.of_rows(learner).mean()),
        "dual/clipped": inputs.clipped_share(learner),
    }
