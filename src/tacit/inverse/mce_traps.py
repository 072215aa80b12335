"""Two traps of MCE-ICRL that the paper does not mention, and what is done about them.

Ending an episode. Without a price on it, ending becomes cheaper than living. Episodes that end early are continued in
an absorbing state up to the horizon (moments = "absorbing"), so that learner and demonstrations have equal mass and
dying is priced like any other feature, by (3) of `tacit.inverse.mce` for that single state, but no higher than most of
the learner's living.

A cost without a slope. The policy may sit where the cost is at its ceiling everywhere. The guard re-initialises it when
its mean cost has been above `guard` times the ceiling for `guard_iterations` iterations in a row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tacit.forward import ppo_lagrangian
from tacit.run.trainer import Metrics

if TYPE_CHECKING:
    from tacit.inverse.mce import Config, State


def absorbing_cost(config: Config, expert: float, learner: float, living: float) -> float:
    """Cost of a step in the absorbing state, where demonstrations and learner spend these shares of their time.

    It follows (3), but is at most the `absorbing_quantile` of the costs of the learner's living steps. Ending an
    episode must not be cheaper than living as the learner does now (from the costliest tenth of its steps it still is).
    The ceiling, paid for ever after, would be a thousand times the reward of a step, and a learner that sometimes falls
    by chance would learn nothing else.
    """
    if config.moments != "absorbing":
        return 0.0
    spread = config.expert_square * expert + config.learner_square * learner
    gap = max(0.0, learner - expert)
    if expert == 0.0 or (gap and not spread):  # without squares (3) has no bound
        return min(config.ceiling, living)
    return min(gap / (2.0 * spread) if gap else 0.0, living)


def guarded(config: Config, state: State, mean_cost: float) -> tuple[State, Metrics]:
    """Re-initialise the policy if it is trapped, judged only by the cost that it was charged."""
    limit = config.guard * config.ceiling
    saturated = state.saturated + 1 if 0 < limit <= mean_cost else 0
    early = state.steps < 0.7 * config.total_steps
    if saturated >= config.guard_iterations and early:
        forward = ppo_lagrangian.reinitialise(config, state.forward)
        state = replace(state, forward=forward, saturated=0, resets=state.resets + 1)
    else:
        state = replace(state, saturated=saturated)
    return state, {"guard/mean_cost": mean_cost, "guard/resets": float(state.resets)}
