"""Where episodes begin and end: in flat arrays of all steps, and in arrays with an axis of episodes or of copies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tacit.errors import UserError
from tacit.imports.reading import Array, Choices, Reading, Recorded, recorded

Span = tuple[int, int]


# ---------------------------------------------------------------------------------------------------------------------
# Flat arrays


def flat(roles: dict[str, Array], where: str, choices: Choices) -> Reading:
    """Episodes end to end. Observations may have one row more per episode than actions."""
    roles = dict(roles)
    if "starts" in roles and "dones" in roles and len(roles["actions"]) == len(roles["observations"]):
        return _with_dummy_actions(roles, where, choices)
    spans, how, notes = _spans(roles, where, choices)
    count, rows = len(spans), len(roles["observations"])
    steps = len(roles["actions"])
    extra = rows - steps
    if extra not in (0, count):
        raise UserError(
            f"{where} has {rows} observations and {steps} actions in {count} episode{'s' if count > 1 else ''}: "
            "there must be as many, or one observation more per episode"
        )
    one_more = 1 if extra else 0
    rewards = roles.get("rewards", roles.get("sums"))
    sums = rewards is not None and rewards.size == count and steps > count

    def part(role: str, i: int, start: int, stop: int) -> Array | None:
        """The part of episode i: per step, per observation (without the first), or per episode."""
        array, shift = roles.get(role), i * one_more
        if array is None or role == "sums":  # those count only if there is one per episode, see below
            return None
        if len(array) == steps:
            return array[start:stop]
        if len(array) == rows:
            return array[start + shift + 1 : stop + shift + 1]
        if len(array) == count:
            return np.ravel(array)[i : i + 1]
        raise UserError(f"{where}: {role} have {len(array)} rows for {steps} actions and {count} episodes")

    episodes = []
    for i, (start, stop) in enumerate(spans):
        seen = roles["observations"][start + i * one_more : stop + (i + 1) * one_more]
        name = where if count == 1 else f"{where}, episode {i}"
        own = partial(part, i=i, start=start, stop=stop)
        episodes.append(recorded(name, seen, roles["actions"][start:stop], own, _any))
        if sums and rewards is not None:
            episodes[-1].rewards = np.ravel(rewards)[i : i + 1]
    layout = "one episode" if count == 1 and how == "nothing" else f"flat arrays, cut by {how}"
    if sums and "lengths" in roles:
        layout = "rollouts with lengths and sums of rewards, as Malik's"
    return Reading(layout, [_without_blank(e) for e in episodes], notes, sums=sums)


def _any(flags: Array | None) -> bool | None:
    return None if flags is None else bool(np.nan_to_num(flags.astype(np.float64)).any())


def _spans(roles: dict[str, Array], where: str, choices: Choices) -> tuple[list[Span], str, list[str]]:
    """([(first step, after the last step)], what says so, remarks)."""
    steps, rows = len(roles["actions"]), len(roles["observations"])
    if choices.layout == "one-episode":
        return [(0, steps)], "nothing", []
    if choices.layout is not None and choices.layout.startswith("every:"):
        size = choices.layout.removeprefix("every:")
        if not size.isdigit() or int(size) < 1:
            raise UserError(f"--layout every:N cuts every N steps, such as every:1000, not {choices.layout!r}")
        return _between(range(0, steps, int(size)), steps), f"every {size} steps", []
    if "lengths" in roles:
        return _by_lengths(np.ravel(roles["lengths"]), steps, rows, where), "lengths", []
    if "splits" in roles:
        return _between([0, *np.ravel(roles["splits"]).astype(int).tolist()], steps), "indices", []
    if "episode" in roles and len(roles["episode"]) in (steps, rows):
        return _by_label(roles, where), "episode numbers", []
    if "starts" in roles and len(roles["starts"]) == steps:
        return _between([0, *np.flatnonzero(np.ravel(roles["starts"]))[0:].tolist()], steps), "starts", []
    ends = [np.ravel(roles[role]) for role in ("dones", "terminated", "truncated") if role in roles]
    ends = [np.nan_to_num(flags.astype(np.float64)) > 0 for flags in ends if len(flags) == steps]
    if ends:
        last = _behind_blank(np.logical_or.reduce(ends), roles["actions"])
        spans = _between([0, *(np.flatnonzero(last[:-1]) + 1).tolist()], steps)
        notes = [] if last[-1] or len(spans) == 1 else ["the last episode has no mark of its end: it counts as cut off"]
        return spans, "flags", notes
    if "next" in roles and rows == steps and len(roles["next"]) == steps:
        gaps = ~np.isclose(_table(roles["next"])[:-1], _table(roles["observations"])[1:], atol=1e-6).all(axis=1)
        return _between([0, *(np.flatnonzero(gaps) + 1).tolist()], steps), "next observations", []
    if "step" in roles and len(roles["step"]) in (steps, rows):
        counter = np.ravel(roles["step"])
        back = np.flatnonzero(np.diff(counter) <= 0) + 1
        if rows == steps:
            return _between([0, *back.tolist()], steps), "step numbers", []
    if choices.layout == "jumps":
        return _between([0, *jumps(roles["observations"]).tolist()], steps), "jumps", []
    limit = choices.horizon
    if limit is not None and steps > limit and steps % limit == 0 and rows == steps:
        note = f"nothing marks the episodes: cut every {limit} steps, the environment's time limit "
        note += "(if a column numbers them: --columns episode=NAME)"
        return _between(range(0, steps, limit), steps), "the time limit", [note]
    breaks = jumps(roles["observations"][:steps])
    if len(breaks) and not choices.whole:
        raise UserError(
            f"{where} can be read in two ways: one episode of {steps} steps, or {len(breaks) + 1} episodes, because "
            f"the observations jump at row {breaks[0]}{' and elsewhere' if len(breaks) > 1 else ''}. Choose with "
            "--layout one-episode, --layout jumps or --layout every:N"
        )
    return [(0, steps)], "nothing", []


def _behind_blank(last: Array, actions: Array) -> Array:
    """Rows of tables with an observation alone, whose action is no number, belong to the episode before them."""
    if actions.dtype.kind != "f":
        return last
    blank = np.asarray(np.isnan(_table(actions)).all(axis=1))
    return np.where(np.append(blank[1:], False), False, last | blank)


def _between(starts: Sequence[int] | range, steps: int) -> list[Span]:
    begins = sorted({int(start) for start in starts if 0 <= start < steps})
    return list(zip(begins, [*begins[1:], steps], strict=True))


def _by_lengths(lengths: Array, steps: int, rows: int, where: str) -> list[Span]:
    counts = [int(n) for n in lengths]
    if any(n < 1 for n in counts):
        raise UserError(f"{where} has an episode of {min(counts)} steps")
    if sum(counts) == steps + len(counts) and sum(counts) == rows:
        counts = [n - 1 for n in counts]  # of observations
    if sum(counts) != steps:
        raise UserError(f"{where} has {steps} actions, and its lengths sum to {sum(counts)}")
    return _between(np.cumsum([0, *counts[:-1]]).tolist(), steps)


def _by_label(roles: dict[str, Array], where: str) -> list[Span]:
    """Sorts all arrays so that the rows of an episode follow each other."""
    labels = np.ravel(roles["episode"])
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first[inverse], kind="stable")
    if (np.diff(order) < 0).any():
        if len(roles["actions"]) != len(labels):
            raise UserError(f"{where}: the rows of an episode do not follow each other")
        for role, array in roles.items():
            if len(array) == len(labels):
                roles[role] = array[order]
        labels = labels[order]
    if len(roles["actions"]) != len(labels):  # one label per observation
        counts = [len(part) - 1 for part in np.split(labels, np.flatnonzero(np.diff(labels)) + 1)]
        return _between(np.cumsum([0, *counts[:-1]]).tolist(), len(roles["actions"]))
    return _between([0, *(np.flatnonzero(np.diff(labels)) + 1).tolist()], len(labels))


def _without_blank(episode: Recorded) -> Recorded:
    """The last row of a table may have an observation alone: its action is no number."""
    act = episode.actions
    if act.dtype.kind != "f" or not len(act):
        return episode
    blank = np.asarray(np.isnan(_table(act)).all(axis=1))
    if not blank[-1] or blank[:-1].any() or len(episode.observations) != len(act):
        return episode
    for name in ("rewards", "costs"):
        values = getattr(episode, name)
        if values is not None and len(values) == len(act):
            setattr(episode, name, values[:-1])
    episode.actions = act[:-1]
    episode.next = None if episode.next is None else episode.next[:-1]
    return episode


def _with_dummy_actions(roles: dict[str, Array], where: str, choices: Choices) -> Reading:
    """Steps with is_first and is_last: the last one of an episode has an observation and an action of no effect."""
    last = np.ravel(roles["dones"]).astype(bool)
    spans = _between([0, *(np.flatnonzero(last[:-1]) + 1).tolist()], len(last))
    ended = roles.get("terminated")
    episodes = [
        Recorded(
            f"{where}, episode {i}",
            roles["observations"][start:stop],
            roles["actions"][start : stop - 1],
            None,
            roles["rewards"][start : stop - 1] if "rewards" in roles else None,
            roles["costs"][start : stop - 1] if "costs" in roles else None,
            None if ended is None else bool(np.ravel(ended)[stop - 1]),
            None,
            True,
        )
        for i, (start, stop) in enumerate(spans)
        if stop - start > 1
    ]
    return Reading("flat arrays, cut by is_first and is_last", episodes)


def _table(array: Array) -> NDArray[np.float64]:
    return np.asarray(array, np.float64).reshape(len(array), -1)


def jumps(observations: Array) -> NDArray[np.int64]:
    """Rows that do not follow from the one before: their change is many times larger than any usual one."""
    table = _table(observations)
    if len(table) < 20:
        return np.zeros(0, np.int64)
    change = np.abs(np.diff(table, axis=0))
    usual = np.quantile(change, 0.9, axis=0)
    moving = usual > 1e-9
    if not moving.any():
        return np.zeros(0, np.int64)
    size = np.median(change[:, moving] / usual[moving], axis=1)
    far = np.abs(change[:, moving] / usual[moving]).max(axis=1)
    return np.flatnonzero((far > 20) & (size > 1)) + 1


# ---------------------------------------------------------------------------------------------------------------------
# Arrays with two leading axes


def batch(roles: dict[str, Array], where: str, choices: Choices) -> Reading:
    """(episodes, steps, ...) or (steps, copies, ...)."""
    obs, act = roles["observations"], roles["actions"]
    first = _is_episodes_first(roles, where, choices)
    if first:
        parts = [_row(roles, i, f"{where}, episode {i}") for i in range(len(act))]
        return Reading("batch of episodes (episodes, steps, ...)", parts)
    if obs.shape[1] != act.shape[1]:
        raise UserError(f"{where} has {obs.shape[1]} copies in its observations and {act.shape[1]} in its actions")
    episodes: list[Recorded] = []
    notes: list[str] = []
    for copy in range(act.shape[1]):
        column = {
            role: value[:, copy] for role, value in roles.items() if value.ndim > 1 and value.shape[1] == act.shape[1]
        }
        reading = flat(column, f"{where}, copy {copy}", choices)
        episodes += reading.episodes
        notes += [note for note in reading.notes if note not in notes]
    return Reading("rollouts of several copies (steps, copies, ...)", episodes, notes)


def _is_episodes_first(roles: dict[str, Array], where: str, choices: Choices) -> bool:
    """By the user's word, by the shapes, by flags, or by which axis the observations change less along."""
    obs, act = roles["observations"], roles["actions"]
    if choices.layout in ("episodes-first", "steps-first"):
        return choices.layout == "episodes-first"
    if obs.shape[0] != act.shape[0]:
        return False
    if obs.shape[1] == act.shape[1] + 1 or ("lengths" in roles and roles["lengths"].size == len(act)):
        return True
    if "starts" in roles:
        return False
    limits = [size in (choices.horizon, (choices.horizon or 0) + 1) for size in obs.shape[:2]]
    if choices.horizon is not None and limits[0] != limits[1]:
        return limits[1]
    flags = [roles[role] for role in ("dones", "terminated", "truncated") if role in roles and roles[role].ndim == 2]
    if flags:
        ends = np.logical_or.reduce([np.nan_to_num(flag.astype(float)) > 0 for flag in flags])
        if ends[:, -1].all() and not ends[:, :-1].any():
            return True
        if ends[-1].all() and not ends[:-1].any():
            return False
    values = obs.astype(np.float64) if obs.ndim == 3 else obs[..., None].astype(np.float64)
    spread = values.reshape(-1, values.shape[-1]).std(axis=0) + 1e-12
    along = [float(np.median(np.abs(np.diff(values, axis=axis)) / spread)) for axis in (0, 1)]
    if len(values) == 1 or values.shape[1] == 1:
        return len(values) == 1
    if min(along) < 0.5 * max(along):
        return along[1] < along[0]
    raise UserError(
        f"{where} has arrays {obs.shape}, to be read in two ways: {obs.shape[0]} episodes of {obs.shape[1]} steps, "
        f"or {obs.shape[0]} steps of {obs.shape[1]} copies. Choose with --layout episodes-first or --layout steps-first"
    )


def _row(roles: dict[str, Array], i: int, where: str) -> Recorded:
    """Episode i of a batch, without its padding."""
    obs, act = roles["observations"][i], roles["actions"][i]
    steps = _length(roles, i)
    one_more = 1 if len(obs) == len(act) + 1 else 0

    def part(role: str) -> Array | None:
        value = roles.get(role)
        if value is None:
            return None
        if value.ndim == 1:
            return value[i : i + 1] if len(value) == len(roles["actions"]) else None
        return value[i][:steps] if value.shape[1] == len(act) else value[i][1 : steps + 1]

    return recorded(where, obs[: steps + one_more], act[:steps], part, _any)


def _length(roles: dict[str, Array], i: int) -> int:
    """Steps of episode i: as it says, up to its end, or without rows of nothing but zeros or NaN."""
    act = roles["actions"][i]
    if "lengths" in roles:
        return int(np.ravel(roles["lengths"])[i])
    if "mask" in roles and roles["mask"].ndim == 2:
        return int(np.count_nonzero(roles["mask"][i][: len(act)]))
    for role in ("dones", "terminated", "truncated"):
        if role in roles and roles[role].ndim == 2:
            ends = np.flatnonzero(np.nan_to_num(roles[role][i].astype(float)))
            if len(ends):
                return int(ends[0]) + 1
    both = np.concatenate([_table(roles["observations"][i])[: len(act)], _table(act)], axis=1)
    content = np.flatnonzero(~((both == 0) | np.isnan(both)).all(axis=1))
    return int(content[-1]) + 1 if len(content) else len(act)
