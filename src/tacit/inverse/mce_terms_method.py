"""The default way of MCE-ICRL: how a run with a cost of terms differs from `tacit.inverse.mce`.

It compares with more agents (`tacit.inverse.mce_terms`), finds its cost as a convex problem (`tacit.inverse.terms`),
and charges it times a price. Settings, state and the loop are the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.cost import Inputs, LearnedCost
from tacit.forward import ppo_lagrangian
from tacit.inverse import loop, mce_checks, mce_terms, samples
from tacit.inverse.loop import Evidence
from tacit.inverse.samples import Expert
from tacit.policy import Interface
from tacit.run.trainer import Metrics

if TYPE_CHECKING:
    from tacit.inverse.mce import Config, State

Array = NDArray[Any]


class OfTerms(loop.Method):
    """The hooks of the loop for a cost of terms; `tacit.inverse.mce.MCEOfTerms` is the method."""

    def begin(
        self, config: Config, interface: Interface, inputs: Inputs, expert: Array, nominal: Array, rng: Any
    ) -> tuple[Inputs, Any, Any, Metrics]:
        """No terms yet: they are chosen in the first inverse step."""
        return samples.fit_scale(inputs, expert, nominal), {}, (), {}

    def bootstrap_steps(self, config: Config) -> int:
        return mce_terms.nominal_steps(config)

    def seekers(
        self,
        env: VectorEnv,
        config: Config,
        forward: ppo_lagrangian.State,
        seen: Evidence,
        inputs: Inputs,
        nominal: ppo_lagrangian.State,
    ) -> tuple[ppo_lagrangian.State, Evidence, Metrics]:
        horizon = seen.expert.horizon
        forward, last, tempted, metrics = mce_terms.reward_seekers(
            env, config, forward, seen.rollouts, horizon, nominal, seen.expert.mean_return
        )
        mce_checks.warn_of_beginner(metrics, seen.expert)
        first, second = (samples.of_rollouts(rollouts, inputs, config.at, horizon) for rollouts in (last, tempted))
        both = mce_terms.both_phases(first, second, metrics, seen.expert)
        return forward, replace(seen, phase=both, tempted=second.rows), metrics

    def nominal_rows(self, config: Config) -> int:
        return 2 * mce_terms.SEEKER_ROWS

    def iterations(self, config: Config) -> int:
        spent = mce_terms.nominal_steps(config) + mce_terms.tempted_steps(config)
        return 1 + max(0, -(-(config.total_steps - spent) // config.forward_steps))

    def step(self, config: Config, state: State, evidence: Evidence, rng: np.random.Generator) -> tuple[State, Metrics]:
        return mce_terms.inverse_step(config, state, evidence, loop.steps_before(config, state))

    def charged(self, config: Config, state: State, rng: np.random.Generator) -> ppo_lagrangian.CostFunction:
        cost = mce_terms.cautious(state, self.cost_of(state, config))
        return lambda obs, act, next_obs: state.price * cost.of_steps(obs, act, next_obs)

    def terminal_cost(self, config: Config, state: State, expert: Expert) -> float:
        gamma = config.discount_of_cost
        return state.price * gamma * state.absorbing / (1.0 - gamma) if state.absorbing else 0.0

    def cost_of(self, state: State, config: Config) -> LearnedCost:
        unit = (state.forward.rbar or 1.0) if config.penalty_unit == "rbar" else 1.0
        return mce_terms.to_cost(state, state.inputs, at=config.at, unit=unit * state.price)

    def map_of(self, config: Config, state: State, expert: Expert, seed: int) -> LearnedCost | None:
        return None  # the cost is readable without a map

    def ceiling(self, config: Config, cost: LearnedCost, rows: Array) -> float:
        return config.ceiling

    shapes, blank = loop.Method.shapes, loop.Method.blank  # tables are a plain dict of arrays
