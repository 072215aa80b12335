"""From episodes as files have them to trajectories: which action belongs to which row, what is missing, what ended.

A trajectory needs one observation more than actions. Files often have as many. Then one of these holds:

    shift  0    action t was taken in row t: where the last one led was not recorded
    shift  1    row t is where action t led; the first state is missing. In logs of vector environments that reset
                automatically, the last row is already the next episode's first
    shift -1    action t was taken in row t + 1

With an environment that can be replayed, the shift is the one that fits. Without, a file that could be read in two ways
is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tacit.demos.data import Trajectory
from tacit.demos.evidence import change_scale
from tacit.errors import UserError
from tacit.imports.reading import Array, Choices, Reading, Recorded
from tacit.imports.target import Target

TESTED = 80
"""Steps that decide on the shift."""
TERMINATED = ("recorded", "all", "none", "short")
REWARDS = ("step", "sum", "cumulative", "env", "none")


@dataclass
class Draft:
    """A trajectory in the making."""

    where: str
    observations: Array
    actions: Array
    rewards: Array | None
    costs: Array | None
    ended: bool | None
    """Did the environment end it? None: not known."""
    done: bool | None
    length: int
    """Steps that the file has."""
    pending: Array | None = None
    """The last action, if its outcome is missing."""
    pending_reward: float | None = None
    pending_cost: float | None = None


@dataclass
class Facts:
    """What was decided, for the table."""

    shift: str = ""
    last: str = ""
    rewards: str = ""
    ends: str = ""
    notes: list[str] = field(default_factory=list)


# ---------------------------------------------------------------------------------------------------------------------
# Alignment


def drafts(reading: Reading, choices: Choices, target: Target | None, facts: Facts) -> list[Draft]:
    """Align the episodes of a reading."""
    _check_successors(reading)
    _drop_resets(reading, target, facts)
    shift, autoreset = _shift(reading, choices, target, facts)
    result = [_draft(episode, shift, autoreset) for episode in reading.episodes]
    result = [draft for draft in result if len(draft.actions) or draft.pending is not None]
    if not result:
        raise UserError(f"{reading.episodes[0].where}: no episode has a complete step")
    return result


def _check_successors(reading: Reading) -> None:
    """UserError for transitions that are not in the order of time."""
    for episode in reading.episodes:
        if episode.next is None or len(episode.next) < 2 or len(episode.next) != len(episode.actions):
            continue
        if episode.next.shape[1:] != episode.observations.shape[1:]:
            raise UserError(
                f"{episode.where}: its observations have shape {episode.observations.shape[1:]}, and its next "
                f"observations {episode.next.shape[1:]}; choose with --columns observations=NAME next=NAME"
            )
        after = episode.observations[1 : len(episode.next)]
        equal = np.isclose(episode.next[:-1], after, rtol=1e-4, atol=1e-5).reshape(len(after), -1).all(axis=1)
        if equal.mean() < 0.5:
            raise UserError(
                f"{episode.where}: its next observations are not the observations of the next rows: the rows are not "
                "in the order of time (a shuffled replay buffer?), or episodes are not marked. Trajectories are needed"
            )


def _drop_resets(reading: Reading, target: Target | None, facts: Facts) -> None:
    """Vector environments that reset automatically return the next episode's first observation as the last one."""
    if target is None or not target.steps or _as_many(reading) or _surprise(reading, 0, target) > 0.1:
        return
    for episode in reading.episodes:
        if episode.next is not None and len(episode.next) == len(episode.actions) == len(episode.observations):
            episode.observations, episode.next = np.concatenate([episode.observations, episode.next[-1:]]), None
    if _resets_at_the_end(reading, 0, target):
        for episode in reading.episodes:
            episode.observations = episode.observations[: len(episode.actions)]
        facts.notes.append("the last observation of the episodes was the next episode's first and was left out")


def _as_many(reading: Reading) -> bool:
    """Do episodes have as many observations as actions, and nothing more?"""
    return any(e.next is None and len(e.observations) == len(e.actions) for e in reading.episodes)


def _shift(reading: Reading, choices: Choices, target: Target | None, facts: Facts) -> tuple[int, bool]:
    """(shift, is the last row the next episode's first?)."""
    if not _as_many(reading):
        facts.shift = "0: every episode has one observation more than actions"
        shift = choices.shift or 0
        if choices.shift:
            facts.shift = f"{shift}, as chosen"
        return shift, bool(shift == 1 and (reading.autoreset or _resets_at_the_end(reading, shift, target)))
    if choices.shift is not None:
        facts.shift = f"{choices.shift}, as chosen"
        shift = choices.shift
    elif target is not None and target.steps:
        surprises = {s: _surprise(reading, s, target) for s in (0, 1, -1)}
        shift = min(surprises, key=lambda s: surprises[s])
        rest = min(value for s, value in surprises.items() if s != shift)
        if shift and surprises[shift] > 0.6 * rest:
            shift = 0
        errors = ", ".join(f"{s}: {value:.2g}" for s, value in sorted(surprises.items()))
        facts.shift = f"{shift}, found by replaying (errors {errors})"
    elif reading.autoreset or (reading.sums and _resets_at_the_end(reading, 1, None)):
        facts.shift = "1: rows hold the state that the action led to, the last one the next episode's first"
        return 1, True
    elif reading.sums:
        raise UserError(
            f"{reading.episodes[0].where} can be read in two ways: action t was taken in row t (--shift 0), or row t "
            "is where action t led, as in rollouts of this layout with `save_scheme` (--shift 1). Choose, or give "
            "--env: replaying tells"
        )
    else:
        told = (
            "with --env replaying tells" if target is None else f"steps of {target.id} cannot be replayed to check it"
        )
        facts.shift = f"0 (assumed: action t was taken in row t; {told})"
        return 0, False
    return shift, shift == 1 and (bool(reading.autoreset) or _resets_at_the_end(reading, shift, target))


def _pairs(reading: Reading) -> list[tuple[Recorded, int]]:
    """Inner rows t of episodes: row t, row t + 1, and the actions of t - 1, t and t + 1 exist."""
    return [
        (episode, t)
        for episode in reading.episodes
        for t in range(1, min(len(episode.observations), len(episode.actions)) - 2)
    ]


def _surprise(reading: Reading, shift: int, target: Target) -> float:
    pairs = _pairs(reading)
    if not pairs:
        return 1.0 if shift else 0.5
    subset = np.random.default_rng(0).permutation(len(pairs))[:TESTED]
    scale = _scale(reading)
    values = [
        target.surprise(e.observations[t], e.actions[t + shift], e.observations[t + 1], scale)
        for e, t in (pairs[i] for i in subset)
    ]
    return float(np.mean(values))


def _scale(reading: Reading) -> Array:
    rows = [e.observations.reshape(len(e.observations), -1).astype(np.float64) for e in reading.episodes]
    before = np.concatenate([row[:-1] for row in rows])
    return change_scale(before, np.concatenate([row[1:] for row in rows]))


def _resets_at_the_end(reading: Reading, shift: int, target: Target | None) -> bool:
    """Is the last row of nearly every episode far from where the one before leads?"""
    episodes = [e for e in reading.episodes if len(e.observations) > 3 and len(e.actions) > 3][:40]
    if not episodes:
        return False
    if target is not None and target.steps:
        scale = _scale(reading)
        off = [
            target.surprise(e.observations[-2], e.actions[min(len(e.observations) - 2 + shift, len(e.actions) - 1)],
                            e.observations[-1], scale)
            for e in episodes
        ]  # fmt: skip
        return float(np.mean([value > 0.7 for value in off])) > 0.6
    far = []
    for episode in episodes:
        rows = episode.observations.reshape(len(episode.observations), -1).astype(np.float64)
        change = np.abs(np.diff(rows, axis=0))
        usual = np.quantile(change[:-1], 0.95, axis=0) + 1e-9
        far.append(float(np.quantile(change[-1] / usual, 0.8)) > 1.5 and float((change[-1] / usual).max()) > 5)
    return float(np.mean(far)) > 0.6


def _draft(episode: Recorded, shift: int, autoreset: bool) -> Draft:
    obs, act = episode.observations, episode.actions
    rewards, costs = episode.rewards, episode.costs
    steps = len(act)
    if episode.next is not None and len(episode.next) == steps and len(obs) == steps:
        obs = np.concatenate([obs, episode.next[-1:]])
    if len(obs) not in (steps, steps + 1):
        raise UserError(
            f"{episode.where} has {len(obs)} observations and {steps} actions: there must be as many, or one more"
        )
    per_step = rewards is not None and len(np.ravel(rewards)) in (steps, steps + 1) and steps > 1
    if rewards is not None and per_step:
        rewards = np.ravel(rewards)[-steps:]
    if costs is not None:
        costs = np.ravel(costs)[-steps:] if len(np.ravel(costs)) >= steps else None
    draft = Draft(episode.where, obs, act, rewards, costs, _ended(episode), episode.done, steps)
    if shift == 1:
        first, last = 0, len(obs[:steps]) - (1 if autoreset else 0)
        draft.observations, draft.actions = obs[first:last], act[1:last]
        parts = slice(1, last)
        draft.ended = False if autoreset else draft.ended
    elif shift == -1:
        draft.observations, draft.actions = obs[1:], act[: max(len(obs) - 2, 0)]
        parts = slice(0, len(draft.actions))
    elif len(obs) == steps:
        draft.actions, draft.pending = act[:-1], act[-1]
        parts = slice(0, steps - 1)
        if per_step and rewards is not None:
            draft.pending_reward = float(rewards[-1])
        if costs is not None:
            draft.pending_cost = float(costs[-1])
    else:
        return draft
    draft.rewards = rewards[parts] if per_step and rewards is not None else rewards
    draft.costs = None if costs is None else costs[parts]
    return draft


def _ended(episode: Recorded) -> bool | None:
    """Did the environment end it? None if the file does not say."""
    if episode.terminated is not None:
        return episode.terminated
    if episode.truncated is not None and episode.done is not None:
        return episode.done and not episode.truncated
    return False if episode.truncated or episode.done is False else None


# ---------------------------------------------------------------------------------------------------------------------
# Completion


def complete(parts: Sequence[Draft], choices: Choices, target: Target | None, facts: Facts) -> list[Trajectory]:
    """Last observations, ends, rewards and costs; by the environment's word where the file has none."""
    trusted = target is not None and (target.exact or target.grid is not None) and _trusted(parts, target)
    pending = [draft for draft in parts if draft.pending is not None]
    words: dict[int, bool] = {}
    completed = 0
    for i, draft in enumerate(parts):
        room = target is None or target.horizon is None or len(draft.actions) < target.horizon
        if draft.pending is not None and trusted and target is not None and room:
            stopped = target.horizon is not None and draft.length < target.horizon
            outcome = target.step(draft.observations[-1], draft.pending, stopped=stopped)
            if outcome is not None:
                completed += 1
                words[i] = outcome.terminated
                _append(draft, outcome.observation, outcome.reward, outcome.cost)
        elif trusted and target is not None and len(draft.actions):
            last = target.reached(draft.observations[-1]) or target.step(draft.observations[-2], draft.actions[-1])
            if last is not None:
                words[i] = last.terminated
    kept = [(i, draft) for i, draft in enumerate(parts) if len(draft.actions)]
    if not kept:
        raise UserError(f"{parts[0].where}: no episode has a complete step")
    if pending:
        lost = len(pending) - completed
        facts.last = f"{completed} last observations computed by the environment" if completed else ""
        if lost:
            text = f"the last action of {lost} episodes was dropped: where it led was not recorded"
            facts.last = f"{facts.last}; {text}" if facts.last else text
    ends = _ends(kept, words, choices, target, facts)
    rewards = _rewards([draft for _, draft in kept], choices, target, trusted, facts)
    costs = [draft.costs for _, draft in kept]
    use_costs = all(cost is not None and len(cost) == len(d.actions) for cost, (_, d) in zip(costs, kept, strict=True))
    return [
        Trajectory(draft.observations, draft.actions, reward, draft.costs if use_costs else None, end)
        for (_, draft), reward, end in zip(kept, rewards, ends, strict=True)
    ]


def _trusted(parts: Sequence[Draft], target: Target) -> bool:
    """Do the recorded steps fit the environment so well that it may complete them?"""
    reading = Reading("", [Recorded(d.where, d.observations, d.actions) for d in parts if len(d.actions) > 3])
    bound = 0.05 if target.exact else 0.5  # a slippery grid: its moves must be possible
    return bool(reading.episodes) and _surprise(reading, 0, target) < bound


def _append(draft: Draft, observation: Array, reward: float, cost: float | None) -> None:
    row = np.asarray(observation, draft.observations.dtype).reshape((1, *draft.observations.shape[1:]))
    draft.observations = np.concatenate([draft.observations, row])
    draft.actions = np.concatenate([draft.actions, np.asarray(draft.pending)[None]])
    if draft.rewards is not None and len(draft.rewards) == len(draft.actions) - 1:
        draft.rewards = np.append(draft.rewards, reward if draft.pending_reward is None else draft.pending_reward)
    if draft.costs is not None:
        last = draft.pending_cost if draft.pending_cost is not None else cost
        draft.costs = None if last is None else np.append(draft.costs, last)
    draft.pending = None


def _ends(
    kept: Sequence[tuple[int, Draft]], words: dict[int, bool], choices: Choices, target: Target | None, facts: Facts
) -> list[bool]:
    """Which episodes the environment ended."""
    horizon = None if target is None else target.horizon
    longest = max(draft.length for _, draft in kept)
    if choices.terminated in ("all", "none", "short"):
        facts.ends = f"{choices.terminated}, as chosen"
        limit = horizon or longest
        return [choices.terminated == "all" or (choices.terminated == "short" and d.length < limit) for _, d in kept]
    recorded = [draft.ended is not None for _, draft in kept]
    if all(recorded):
        facts.ends = "as recorded"
    elif all(i in words for i, draft in kept if draft.ended is None):
        facts.ends = "by the environment's word"
    elif any(draft.done for _, draft in kept):
        if target is None and len({draft.length for _, draft in kept}) > 1:
            lengths = [draft.length for _, draft in kept]
            raise UserError(
                f"{kept[0][1].where}: its episodes of {min(lengths)} to {max(lengths)} steps are marked as done, which "
                "can be read in two ways: the environment ended them (--terminated all, or short for all but the "
                "longest), or were cut off (--terminated none). Choose, or give --env: its time limit tells"
            )
        limit = horizon or (longest if target is None else longest + 1)
        facts.ends = f"those that are done before step {limit}"
        marked = [d.ended if d.ended is not None else bool(d.done) and d.length < limit for _, d in kept]
        return [end and d.pending is None for end, (_, d) in zip(marked, kept, strict=True)]
    else:
        facts.ends = "not recorded: all count as cut off (--terminated all or short says otherwise)"
    result = []
    for i, draft in kept:
        ended = draft.ended if draft.ended is not None else words.get(i, False)
        result.append(bool(ended) and draft.pending is None)
    if any(draft.ended and draft.pending is not None for _, draft in kept):
        facts.ends += ", but not where the last step was dropped"
    return result


def _rewards(
    parts: Sequence[Draft], choices: Choices, target: Target | None, trusted: bool, facts: Facts
) -> list[Array]:
    """(T,) rewards of every episode."""
    recorded = [None if draft.rewards is None else np.ravel(draft.rewards).astype(np.float64) for draft in parts]
    per_step = all(r is not None and len(r) == len(d.actions) for r, d in zip(recorded, parts, strict=True))
    sums = all(r is not None and len(r) == 1 for r in recorded) and max(len(d.actions) for d in parts) > 1
    mode = choices.rewards or ("step" if per_step and not sums else "sum" if sums else "env")
    if mode == "none":
        facts.rewards = "0, as chosen"
        return [np.zeros(len(draft.actions)) for draft in parts]
    if mode in ("step", "cumulative"):
        if not per_step:
            raise UserError(f"{parts[0].where} has no reward for every step: choose --rewards sum, env or none")
        facts.rewards = "as recorded" if mode == "step" else "differences of what was recorded, as chosen"
        rewards = [reward for reward in recorded if reward is not None]
        return rewards if mode == "step" else [np.diff(reward, prepend=0.0) for reward in rewards]
    computed = _computed(parts, target) if target is not None and trusted else None
    if mode == "env" or (mode == "sum" and choices.rewards is None and computed is not None):
        if computed is None:
            missing = (
                "no environment is given that could compute them (--env)"
                if target is None
                else f"{target.id} cannot compute them: it lacks get_state and set_state, or its steps are random, or "
                "the file does not fit it"
            )
            raise UserError(
                f"{parts[0].where} has no rewards, and {missing}. "
                "--rewards none writes zeros: learners do not read them, reports then lack returns"
            )
        facts.rewards = "computed by the environment" + (" (the file has sums)" if mode == "sum" else "")
        return computed
    if not sums:
        raise UserError(f"{parts[0].where} does not have one reward per episode: choose --rewards step, env or none")
    facts.rewards = "the episode's sum, put on its last step"
    return [np.append(np.zeros(len(d.actions) - 1), r) for d, r in zip(parts, recorded, strict=True) if r is not None]


def _computed(parts: Sequence[Draft], target: Target) -> list[Array] | None:
    result = []
    for draft in parts:
        rewards, costs = np.zeros(len(draft.actions)), np.zeros(len(draft.actions))
        for t, action in enumerate(draft.actions):
            outcome = target.reached(draft.observations[t + 1]) or target.step(draft.observations[t], action)
            if outcome is None:
                return None
            rewards[t], costs[t] = outcome.reward, np.nan if outcome.cost is None else outcome.cost
        if draft.costs is None and not np.isnan(costs).any():
            draft.costs = costs
        result.append(rewards)
    return result
