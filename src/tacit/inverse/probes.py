"""Probes: fresh agents that follow the reward, trained from nothing against the present cost.

The learner began as a clone, and demonstrators' habits may keep it from what the cost does not forbid. A probe has no
such habits: what it does beyond the demonstrations' ground, an agent of somebody else's will do, too. So its last
behaviour joins the agents that the demonstrations are compared with, for good. A probe that earns less than the
demonstrators shows what it has not learned yet, and is no evidence.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.cost import LearnedCost
from tacit.forward import ppo_lagrangian, retrain
from tacit.inverse import samples
from tacit.inverse.samples import Expert
from tacit.presets import load
from tacit.run.trainer import Metrics

if TYPE_CHECKING:
    from tacit.inverse.mce import Config, State

Array = NDArray[Any]
FIRST, EVERY = 0.55, 0.15
"""Shares of the run after which the first probe is trained, and between probes. Trials of terms are over by then."""
LAST_SHARE = 0.3
"""Share of a probe's training whose steps count: its last behaviour."""
ROWS = 8192
ABLE = 0.1
"""Part of the demonstrators' return that a probe may lack, to be evidence."""
OWN = ("n_envs", "rollout_steps", "batch_size", "epochs", "hidden", "gamma", "gae_lambda", "scale_actions")
"""Settings of the run that a probe has, too; the others are those of `tacit retrain`."""


def probe_steps(config: Config) -> int:
    """Environment steps of a probe."""
    return min(config.probe_steps, config.total_steps // 5)


def is_due(config: Config, state: State) -> bool:
    """Whether the next probe is to be trained now."""
    done = count(state)
    return done < config.probes and state.steps >= (FIRST + EVERY * done) * config.total_steps


def count(state: State) -> int:
    """Number of probes so far."""
    return int(state.params["probed"][0]) if "probed" in state.params else 0


def is_new(state: State) -> bool:
    """Whether a probe has been trained since the last inverse step."""
    return "probed" in state.params and bool(state.params["probed"][1])


def probe(
    env: VectorEnv, config: Config, state: State, cost: LearnedCost, expert: Expert, seed: int
) -> tuple[State, Metrics]:
    """(the state with what the probe has shown, metrics). Its environment steps count as the run's."""
    settings = engine(config)
    charged = charge(state, cost).of(cost)
    agent = ppo_lagrangian.init(env, settings, seed)
    rollouts = []
    while agent.steps < settings.total_steps:
        agent, _, rollout = ppo_lagrangian.iterate(env, settings, agent, charged)
        rollouts.append(rollout)
    last = rollouts[-max(1, round(LAST_SHARE * len(rollouts))) :]
    phase = samples.of_rollouts(last, state.inputs, config.at, expert.horizon)
    earned = samples.returns_of(last, expert.horizon)
    able = expert.mean_return is None or earned >= expert.mean_return - ABLE * abs(expert.mean_return)
    kept = dict(state.params) | {"probed": np.array([count(state) + 1, 1.0], np.float32)}
    if able:
        rows = samples.thinned(phase.rows, ROWS).astype(np.float32)
        kept["probes"] = np.concatenate([kept["probes"], rows]) if "probes" in kept else rows
    own = state.forward.agent
    steps = own.steps + agent.steps
    forward = replace(state.forward, agent=replace(own, carry=agent.agent.carry, rng=agent.agent.rng, steps=steps))
    above = float((cost.of_rows(phase.rows) > state.threshold).mean())
    return replace(state, params=kept, forward=forward), {
        "probe/return": earned,
        "probe/above": above,
        "probe/evidence": float(able),
    }


def charge(state: State, cost: LearnedCost) -> retrain.Charge:
    """How a probe is charged: as a fresh agent of `tacit retrain` is."""
    top = float(cost.of_rows(state.nominal).max()) if cost.terms else 0.0
    return retrain.Charge("soft", state.threshold, top, 0.0)


def engine(config: Config) -> retrain.Config:
    """The settings of a probe's training."""
    recipe = retrain.Config(**load("retrain", "reference", ""))
    shared = {field.name: getattr(config, field.name) for field in fields(config) if field.name in OWN}
    return replace(recipe, **shared, total_steps=probe_steps(config))
