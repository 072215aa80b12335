"""MCE-ICRL with a cost of terms: whom the demonstrations are compared with, the inverse step, and the price.

The demonstrations D are compared with agents P that follow the reward. Two kinds, because each says what the other
cannot, and later phases of the learner itself, which close what is still open:

    nominal    trained on the reward alone, from nothing. It shows what is worth forbidding, in a style of its own
    tempted    a clone of the demonstrations, then trained on the reward alone. It has the demonstrators' style, and
               leaves them where the reward draws it

The noise of the clone is the largest that does not spoil its return (`forgiving_clone`): more explores better, and only
the task can say how much it forgives. The cost is `tacit.inverse.terms`. The learner is charged price x cost, and the
price rises until the learner's cost is no longer above that of held-out demonstrations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.cost import Inputs, LearnedCost
from tacit.forward import agent, collect, nets, ppo_lagrangian
from tacit.inverse import samples, screen, terms, trials
from tacit.inverse.loop import Evidence, no_cost
from tacit.inverse.samples import Expert, Phase
from tacit.inverse.terms import Fitted, Table
from tacit.inverse.trials import Trials
from tacit.run.trainer import Metrics

if TYPE_CHECKING:
    from tacit.inverse.mce import Config, State

Array = NDArray[Any]
NOISE = (-2.5, -1.5, -0.5, 0.5)
"""Log standard deviations that are tried for the clone, beside its own."""
FORGIVEN = 0.8
"""Share of the clone's gain over a random policy that must be left with more noise."""
WORTH_CLONING = 0.5
"""Share of the demonstrators' gain over a random policy, or of the nominal agent's if that is less, that a clone must
have. Otherwise the nominal agent takes its place."""
HELD_ROLLOUTS = 2
"""Rollouts in which the critics learn the clone's values before it is tempted."""
FIRST_SHARE, LAST_SHARE = 0.2, 0.3
"""Shares of the nominal agent's training whose steps stand for a beginner, and for the agent: its last behaviour."""
CLEARANCE = 0.5
"""How far the learner keeps from the edge of the cost, in usual steps. Time is not finer, and edges are not sharper."""
KEPT = ("beginners", "steps")
"""Arrays of the first inverse step that later ones need."""
SEEKER_ROWS = 8192
"""Number of steps to keep of the nominal and of the tempted agent, each."""
LEARNER_SHARE, RICH_SHARE, LEARNER_PHASES, LEARNER_ROWS = 0.1, 0.2, 8, 2048
"""Weight of the learner's own steps in P, and that of a RICH learner; how many of its last phases they come from, and
steps of the last phase. What does not pay is style, no sign of a rule."""
RICH = 0.03
"""What a rich learner earns more than the demonstrators, as a share of their return."""
MOST_EXPERT_ROWS = 20_000
SEARCHES, SEARCH_EVERY, LAST_SEARCH = (0, 2, 5, 10), 10, 0.9
"""Inverse steps that look for other terms; later every so many, in this share of the run. The others only refit."""
FIRST_PRICE, PRICE_STEP, PRICE_BACK, HIGHEST_PRICE = 1.0, 1.6, 1.25, 20.0
"""The price at first, the factors by which it rises and falls, and its bound. It falls again, because a term that comes
back raises it for as long as the learner has not learned to keep to it."""
SPARED = 0.01
"""Share of the learner's steps that may be above the threshold, beyond the demonstrations', before the price rises."""
FALLS_MORE = 0.01
"""Ending an episode is priced if the learner spends more than twice as much time beyond the end, and so much more."""


# ---------------------------------------------------------------------------------------------------------------------
# Agents that follow the reward


def nominal_steps(config: Config) -> int:
    """Environment steps of the nominal agent."""
    return min(config.bootstrap_steps, config.total_steps // 5)


def tempted_steps(config: Config) -> int:
    """Environment steps of the tempted clone."""
    return min(config.tempted_steps, config.total_steps // 10)


def reward_seekers(
    env: VectorEnv,
    config: Config,
    clone: ppo_lagrangian.State,
    nominal: Sequence[collect.Rollout],
    horizon: int,
    nominal_agent: ppo_lagrangian.State,
    demonstrated: float | None,
) -> tuple[ppo_lagrangian.State, list[collect.Rollout], list[collect.Rollout], Metrics]:
    """(the clone with the noise that it can bear, last rollouts of nominal agent and tempted clone, metrics).

    `clone` stands at the beginning of its training. The returned state has the same policy, critics that know it, and
    environments, random numbers and a count of steps that go on where the tempted clone has left them.
    """
    last = nominal[-max(1, round(LAST_SHARE * len(nominal))) :]
    random = returns_of(nominal[:1], horizon)
    held, kept = warmed(env, config, forgiving_clone(env, config, clone, random, horizon))
    cloned = returns_of(kept, horizon)
    best = returns_of(last, horizon)
    best = best if demonstrated is None else min(best, demonstrated)
    if cloned - random < WORTH_CLONING * (best - random):
        # Too few demonstrations to clone: the copy has neither their skill nor their style.
        held, _ = warmed(env, config, replace(nominal_agent, agent=_gone_on(nominal_agent, held)))
    held = ppo_lagrangian.freeze_reward_scale(held)
    tempted, rollouts = held, []
    for _ in range(max(1, tempted_steps(config) // config.rollout_steps)):
        tempted, _, rollout = ppo_lagrangian.iterate(env, config, tempted, no_cost, 0.0)
        rollouts.append(rollout)
    state = replace(held, agent=_gone_on(held, tempted))
    noise = _log_std(held)
    metrics = {
        "seekers/random_return": random,
        "seekers/cloned_return": cloned,
        "seekers/nominal_return": returns_of(last, horizon),
        "seekers/tempted_return": returns_of(rollouts[len(rollouts) // 2 :], horizon),
        "seekers/noise": 0.0 if noise is None else float(noise.mean()),
    }
    return state, list(last), rollouts[len(rollouts) // 2 :], metrics


def forgiving_clone(
    env: VectorEnv, config: Config, clone: ppo_lagrangian.State, random: float, horizon: int
) -> ppo_lagrangian.State:
    """The clone with the most noise that leaves FORGIVEN of its return; the critics learn meanwhile."""

    def tried(state: ppo_lagrangian.State) -> tuple[ppo_lagrangian.State, float]:
        state, _, rollout = ppo_lagrangian.iterate(env, config, state, no_cost, 0.0, hold_policy=True)
        return state, returns_of([rollout], horizon)

    state, usual = tried(clone)
    own = _log_std(clone)
    if own is None:
        return state
    chosen = own
    for level in NOISE:
        state, reached = tried(_with_log_std(state, np.maximum(own, level)))
        if reached - random < FORGIVEN * (usual - random):
            break
        chosen = np.maximum(own, level)
    return _with_log_std(state, chosen)


def warmed(
    env: VectorEnv, config: Config, state: ppo_lagrangian.State
) -> tuple[ppo_lagrangian.State, list[collect.Rollout]]:
    """(the same policy with critics that know it, the rollouts that they have learned from)."""
    rollouts = []
    for _ in range(HELD_ROLLOUTS):
        state, _, rollout = ppo_lagrangian.iterate(env, config, state, no_cost, 0.0, hold_policy=True)
        rollouts.append(rollout)
    return state, rollouts


def _gone_on(state: ppo_lagrangian.State, later: ppo_lagrangian.State) -> agent.State:
    """The agent of a state, with environments, random numbers and a count of steps as a later state left them."""
    left = {name: getattr(later.agent, name) for name in ("carry", "rng", "steps", "iteration")}
    return replace(state.agent, **left)


def _log_std(state: ppo_lagrangian.State) -> Array | None:
    log_std = state.agent.params.actor.log_std
    return None if log_std is None else np.asarray(log_std)


def _with_log_std(state: ppo_lagrangian.State, log_std: Any) -> ppo_lagrangian.State:
    params = state.agent.params
    params = nets.Params(nets.Actor(params.actor.net, jnp.asarray(log_std, jnp.float32)), params.critics)
    return replace(state, agent=replace(state.agent, params=params))


def returns_of(rollouts: Sequence[collect.Rollout], horizon: int) -> float:
    """Mean return of an episode, from pieces of episodes: mean reward of a step times mean length (renewal reward)."""
    steps, ends = sum(map(len, rollouts)), sum(int(rollout.done.sum()) for rollout in rollouts)
    return float(np.mean([rollout.rew.mean() for rollout in rollouts]) * min(horizon, steps / max(1, ends)))


def competence(reached: float, metrics: Mapping[str, float], expert: Expert) -> float:
    """Return of an agent between that of a random policy and the demonstrators', at least 0.1 and at most 1."""
    random = metrics["seekers/random_return"]
    if expert.mean_return is None or expert.mean_return <= random:
        return 1.0
    return float(np.clip((reached - random) / (expert.mean_return - random), 0.1, 1.0))


def both_phases(nominal: Phase, tempted: Phase, metrics: Mapping[str, float], expert: Expert) -> Phase:
    """Steps of both as one phase, in proportion to their competence: what a beginner does is no sign of a rule."""
    size = min(len(nominal.rows), len(tempted.rows), SEEKER_ROWS)
    skills = [competence(metrics[f"seekers/{name}_return"], metrics, expert) for name in ("nominal", "tempted")]
    kept = [max(1, round(size * skill / max(skills))) for skill in skills]
    parts = list(zip((nominal, tempted), kept, strict=True))
    return replace(
        tempted,
        rows=np.concatenate([samples.thinned(one.rows, n)[:n] for one, n in parts]),
        truth=np.concatenate([samples.thinned(one.truth, n)[:n] for one, n in parts]),
        times=np.zeros(sum(kept), np.int64),
        absorbed=max(nominal.absorbed, tempted.absorbed),
    )


# ---------------------------------------------------------------------------------------------------------------------
# The inverse step


def inverse_step(config: Config, state: State, seen: Evidence, number: int) -> tuple[State, Metrics]:
    """Choose or fit the terms anew, then the price. `number` counts the inverse steps from 0."""
    expert, phase = seen.expert, seen.phase
    if number == 0:
        kept = {"beginners": beginners(config, state, seen), "steps": usual_steps(state, expert)}
        state = replace(state, params=kept)
    earned = income(seen)
    data = comparison(config, state, expert, phase if number else None, RICH_SHARE if earned > RICH else LEARNER_SHARE)
    before = fitted_of(state)
    charged = float(_costs(before, data.learner[-LEARNER_ROWS:]).mean()) if number else 0.0
    searched = number in SEARCHES or number % SEARCH_EVERY == 0
    searched = searched and (number == 0 or state.steps < LAST_SEARCH * config.total_steps)
    tries = trials_of(state)
    if number == 0:
        assert seen.tempted is not None
        tries = trials.begin(data, seen.tempted[:, list(state.inputs.columns)].astype(np.float64))
    elif number > 1:
        agents, done = comparison(config, state, expert, None), state.steps / config.total_steps
        tries = tries.after(agents, data.learner[-LEARNER_ROWS:], number, done)
    searched = searched or tries.changed == number
    fitted = terms.search(data, before, tries.in_force, tries.aside) if searched else terms.refit(data, before)
    fitted = replace(fitted, tables=tuple(_rounded(table) for table in fitted.tables))
    price = state.price if number else FIRST_PRICE
    # A clone that is still frozen does not answer to any price.
    if number > 1:
        trespasses = _above(before, data.learner[-LEARNER_ROWS:]) > _above(before, data.expert) + SPARED
        dearer = charged > before.held_out_cost or trespasses
        price = min(price * PRICE_STEP, HIGHEST_PRICE) if dearer else max(price / PRICE_BACK, FIRST_PRICE)
    learner = _costs(fitted, data.learner[-LEARNER_ROWS:])
    falls = phase.absorbed > 2.0 * expert.absorbed + FALLS_MORE
    state = replace(
        state,
        params=to_params(fitted, tries) | {name: value for name, value in state.params.items() if name in KEPT},
        price=price,
        share=fitted.share if searched else state.share,
        threshold=fitted.threshold,
        held_out_cost=fitted.held_out_cost,
        smoothness=fitted.smoothness,
        absorbing=float(np.quantile(learner, config.absorbing_quantile)) if falls else 0.0,
    )
    expert_cost = _costs(fitted, data.expert)
    return state, {
        "dual/share": state.share,
        "dual/terms": float(len(fitted.tables)),
        "dual/price": price,
        "dual/threshold": fitted.threshold,
        "dual/held_out_cost": fitted.held_out_cost,
        "dual/expert_cost": float(expert_cost.mean()),
        "dual/expert_cost_99": float(np.quantile(expert_cost, 0.99)),
        "dual/learner_cost": float(learner.mean()),
        "dual/expert_above": float((expert_cost > fitted.threshold).mean()),
        "dual/learner_above": float((learner > fitted.threshold).mean()),
        "dual/absorbing": state.absorbing,
        "dual/clipped": 0.0,
    }


def beginners(config: Config, state: State, seen: Evidence) -> Array:
    """(n, d) first steps of the nominal agent's training."""
    first = seen.rollouts[: max(1, round(FIRST_SHARE * len(seen.rollouts)))]
    rows = samples.of_rollouts(first, state.inputs, config.at, seen.expert.horizon).rows
    return samples.thinned(rows, LEARNER_ROWS)[:, list(state.inputs.columns)]


def usual_steps(state: State, expert: Expert) -> Array:
    """(d,) how much each input usually changes in a demonstrated step: the median."""
    rows = expert.rows[:, list(state.inputs.columns)]
    changes = np.abs(np.diff(rows, axis=0))[expert.times[1:] > 0]
    return np.median(changes, axis=0) if len(changes) else np.zeros(rows.shape[1])


def cautious(state: State, cost: LearnedCost) -> LearnedCost:
    """The cost that the learner is charged: what it forbids reaches out by CLEARANCE."""
    steps = dict(zip(cost.inputs.names, np.asarray(state.params.get("steps", ()), np.float64), strict=False))
    read = {name for term in cost.terms for name in term.names}
    margins = {name: CLEARANCE * float(size) for name, size in steps.items() if name in read and size > 0}
    return cost.with_margin(margins) if margins else cost


def income(seen: Evidence) -> float:
    """What the learner earns more than the demonstrators, as a share of their return."""
    theirs = seen.expert.mean_return
    if not theirs:
        return 0.0
    return (returns_of(seen.rollouts, seen.expert.horizon) - theirs) / abs(theirs)


def comparison(
    config: Config, state: State, expert: Expert, phase: Phase | None, share: float = LEARNER_SHARE
) -> screen.Samples:
    """Demonstrations in folds, against the agents that follow the reward and a share of the learner's last phases."""
    columns = list(state.inputs.columns)
    every = -(-len(expert.rows) // MOST_EXPERT_ROWS)
    folds = screen.folds_of(expert.lengths)
    parts, shares = [state.nominal[:, columns]], [1.0]
    if phase is not None:
        earlier = state.replay[1 - LEARNER_PHASES :, :, columns].reshape(-1, len(columns))
        parts += [np.concatenate([earlier, samples.thinned(phase.rows, LEARNER_ROWS)[:, columns]])]
        shares = [1.0 - share, share]
    weight = np.concatenate([np.full(len(p), s / len(p)) for p, s in zip(parts, shares, strict=True)])
    return screen.Samples(
        expert.rows[::every, columns].astype(np.float64),
        folds[::every],
        np.concatenate(parts).astype(np.float64),
        weight,
        config.expert_square,
        config.learner_square,
        np.asarray(state.params["beginners"], np.float64) if "beginners" in state.params else None,
    )


def _costs(fitted: Fitted, x: Array) -> Array:
    total = np.zeros(len(x))
    for table in fitted.tables:
        total += terms.design(table.inputs, table.knots, x) @ table.values.ravel()
    return total


def _above(fitted: Fitted, x: Array) -> float:
    """Share of steps (n, d) above the threshold."""
    return float((_costs(fitted, x) > fitted.threshold).mean()) if fitted.tables else 0.0


def _rounded(table: Table) -> Table:
    """As it is saved, so that a resumed run goes on from the same numbers."""
    return Table(
        table.inputs,
        tuple(knots.astype(np.float32).astype(np.float64) for knots in table.knots),
        table.values.astype(np.float32).astype(np.float64),
    )


# ---------------------------------------------------------------------------------------------------------------------
# As parameters of a state, and as a cost


def to_params(fitted: Fitted, tries: Trials) -> dict[str, Array]:
    """Arrays (float32) that say everything about the tables and their trials."""
    arrays = {"trials": tries.to_array()}
    for i, table in enumerate(fitted.tables):
        arrays[f"{i}/inputs"] = np.array(table.inputs, np.float32)
        arrays[f"{i}/values"] = table.values.astype(np.float32)
        arrays |= {f"{i}/knots{axis}": knots.astype(np.float32) for axis, knots in enumerate(table.knots)}
    return arrays


def fitted_of(state: State) -> Fitted:
    """What the state holds. The shares of the folds are not kept: a search finds them anew."""
    params: Mapping[str, Any] = {name: np.asarray(array) for name, array in state.params.items()}
    tables = []
    for i in range(sum(name.endswith("/inputs") for name in params)):
        inputs = tuple(int(j) for j in params[f"{i}/inputs"])
        knots = tuple(params[f"{i}/knots{axis}"].astype(np.float64) for axis in range(len(inputs)))
        tables.append(Table(inputs, knots, params[f"{i}/values"].astype(np.float64)))
    known = Fitted(tuple(tables), state.smoothness, threshold=state.threshold)
    return replace(known, held_out_cost=state.held_out_cost)


def trials_of(state: State) -> Trials:
    """The trials of the state's terms."""
    rows = state.params.get("trials")
    return Trials() if rows is None else Trials.from_array(np.asarray(rows))


def to_cost(state: State, inputs: Inputs, **fields: Any) -> LearnedCost:
    """The learned cost as an artefact. Costs above its threshold are those that held-out demonstrations hardly have."""
    none = np.zeros((len(inputs.names), 0), np.float32)
    named = tuple(table.named(inputs.names, inputs.columns) for table in fitted_of(state).tables)
    threshold = state.threshold if named else None
    return LearnedCost(inputs, np.zeros(0, np.float32), none, none, terms=named, threshold=threshold, **fields)
