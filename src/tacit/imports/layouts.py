"""From the content of a file to episodes as the file has them: which entries are what, and where episodes begin.

    understand(content, where, choices) -> Reading

The layouts of the field's public data are recognised by the names and shapes of their entries:

    list of episodes      dicts, or tuples (states, actions, ...), one per episode; also one dict with lists of episodes
    one episode           a dict of arrays without marks
    flat arrays           all episodes end to end, with lengths, flags (done, terminal, timeout), starts or numbers
    batch                 arrays (episodes, steps, ...) or (steps, copies, ...), padded or not
    list of steps         dicts or tuples, one per step
    rollouts with sums    flat with lengths and one reward an episode, as in Malik's data: see `episodes`

Nothing is aligned, completed or compared with an environment here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.errors import UserError, listed
from tacit.imports.contents import natural
from tacit.imports.names import WRAPPERS, plain, role_of, roles_of, same, selected
from tacit.imports.reading import Array, Choices, NoEpisodes, Reading, Recorded, recorded
from tacit.imports.splitting import batch, flat

TUPLES = range(2, 8)
"""Sizes of tuples without names."""


def understand(content: Any, where: str, choices: Choices) -> Reading:
    """The episodes in a content, as `contents.content` or `tables.read_table` give it."""
    content = _unwrapped(content)
    if isinstance(content, dict):
        if _has_roles(content, choices):
            return _from_dict(content, where, choices)
        inner = [(name, entry) for name, entry in sorted(content.items(), key=lambda item: natural(item[0]))]
        inner = [(name, _unwrapped(entry)) for name, entry in inner if isinstance(entry, dict | list)]
        inner = [(name, entry) for name, entry in inner if not isinstance(entry, dict) or _has_roles(entry, choices)]
        if inner:
            one_episode = replace(choices, whole=True)
            parts = [understand(entry, f"{where}, {name}", one_episode) for name, entry in inner]
            return _joined("list of episodes", parts)
        raise NoEpisodes(f"{where} has no observations and actions; it has {listed(content) or 'nothing'}")
    if isinstance(content, np.ndarray):
        return _from_dict({"observations": content, "actions": None}, where, choices)
    if not isinstance(content, list) or not content:
        raise NoEpisodes(f"{where} holds no episodes")
    return _from_list(content, where, choices)


def _unwrapped(content: Any) -> Any:
    """The data without dicts around it, such as {"data": {...}}."""
    while isinstance(content, dict) and not _has_roles(content, Choices()):
        inner = [name for name, entry in content.items() if isinstance(entry, dict | list) and plain(name) in WRAPPERS]
        if len(inner) != 1:
            return content
        content = content[inner[0]]
    return content


def _has_roles(content: Mapping[str, Any], choices: Choices) -> bool:
    roles = {role_of(name) for name, entry in content.items() if entry is not None} | set(choices.columns)
    return bool({"observations", "original"} & roles) and "actions" in roles


def joined(layout: str, readings: Sequence[Reading], autoreset: bool | None) -> Reading:
    """The episodes of several readings, as one."""
    notes = list(dict.fromkeys(note for reading in readings for note in reading.notes))
    episodes = [episode for reading in readings for episode in reading.episodes]
    return Reading(layout, episodes, notes, readings[0].entry_names, readings[0].sums, autoreset)


def _joined(layout: str, readings: Sequence[Reading]) -> Reading:
    return joined(layout, readings, readings[0].autoreset)


# ---------------------------------------------------------------------------------------------------------------------
# Lists


def _from_list(content: list[Any], where: str, choices: Choices) -> Reading:
    inner = replace(choices, whole=True)
    if all(isinstance(entry, dict) for entry in content):
        if all(_is_step(entry) for entry in content):
            return _from_steps(content, where, choices)
        parts = [understand(entry, f"{where}, episode {i}", inner) for i, entry in enumerate(content)]
        return _joined("list of episodes", parts)
    if not all(isinstance(entry, list | np.ndarray) for entry in content):
        raise NoEpisodes(f"{where} holds a list of things that are not episodes")
    if all(isinstance(entry, list) and entry and all(isinstance(step, dict) for step in entry) for entry in content):
        parts = [_from_dict(_columns(entry, where), f"{where}, episode {i}", inner) for i, entry in enumerate(content)]
        return _joined("list of episodes, each a list of steps", parts)
    if all(isinstance(entry, np.ndarray) for entry in content):
        if len(content) not in TUPLES:
            raise NoEpisodes(f"{where} holds {len(content)} arrays without names: it does not say what they are")
        return _from_dict(_named(content), where, choices)
    if all(isinstance(entry, list) and len(entry) in TUPLES for entry in content):
        named = [_named(entry) for entry in content]
        if all(_is_step(entry) for entry in named):
            return _from_steps(named, where, choices)
        if _stacks(named[0]["observations"]) is not None:
            parts = [_from_dict(entry, f"{where}, episode {i}", inner) for i, entry in enumerate(named)]
            return _joined("list of episodes (states, actions, ...)", parts)
    # A list of episodes, each a list of tuples, one per step.
    parts = [_from_list(list(entry), f"{where}, episode {i}", inner) for i, entry in enumerate(content)]
    return _joined("list of episodes, each a list of steps", parts)


def _from_steps(steps: Sequence[Mapping[str, Any]], where: str, choices: Choices) -> Reading:
    reading = _from_dict(_columns(steps, where), where, choices)
    reading.layout = f"list of steps, {reading.layout}"
    return reading


def _named(entries: Sequence[Any]) -> dict[str, Any]:
    """Names for (s, a), (s, a, r), (s, a, s'), (s, a, r, s', done), (s, a, s', r), (s, a, r, ended, cut off), ...

    By what they look like: something of the shape of s is s', truth values are flags, other numbers are rewards.
    """
    result = {"observations": entries[0], "actions": entries[1]}
    first = _stacks(entries[0])
    flags = []
    for entry in entries[2:]:
        array = _stacks(entry)
        if isinstance(entry, dict):
            result["info"] = entry
        elif array is None or first is None:
            continue
        elif array.dtype.kind == "b":
            flags.append(array)
        elif "next" not in result and array.shape == first.shape and (first.size > 1 or _whole(array, first)):
            result["next"] = array
        elif "rewards" not in result:
            result["rewards"] = array
        else:
            flags.append(array)
    names = ("dones",) if len(flags) == 1 else ("terminated", "truncated")
    return result | dict(zip(names, flags, strict=False))


def _whole(one: Array, other: Array) -> bool:
    return one.dtype.kind in "iu" and other.dtype.kind in "iu"


def _is_step(entry: Mapping[str, Any]) -> bool:
    """One step: an observation of at most one axis, an action that is one number or of another size."""
    roles = {role_of(name): value for name, value in entry.items() if isinstance(value, np.ndarray)}
    obs, act = roles.get("observations", roles.get("original")), roles.get("actions")
    if obs is None or act is None or obs.ndim > 1 or act.ndim > 1:
        return False
    flags = [roles[role] for role in ("rewards", "dones", "terminated") if role in roles]
    if flags:
        return all(flag.size == 1 for flag in flags) and (act.ndim == 0 or obs.ndim == 1)
    return act.ndim == 0 or len(obs) - len(act) not in (0, 1)


def _columns(steps: Sequence[Mapping[str, Any]], where: str) -> dict[str, Any]:
    """One dict of arrays from a list of dicts, one per step. The last step may have an observation alone."""
    names = [name for name, value in steps[0].items() if isinstance(value, np.ndarray)]
    result: dict[str, Any] = {}
    for name in names:
        values = [step.get(name) for step in steps]
        while values and values[-1] is None:
            values.pop()
        arrays = [value for value in values if isinstance(value, np.ndarray)]
        if len(arrays) < len(values) or len({array.shape for array in arrays}) > 1:
            if role_of(name) in ("observations", "actions", "rewards"):
                raise UserError(f"{where}: {name!r} is missing in a step, or changes its shape")
            continue
        result[name] = np.stack(arrays)
    costs = [_cost_of(step) for step in steps]
    if "cost" not in result and costs and all(cost is not None for cost in costs):
        result["cost"] = np.array(costs)
    return result


def _cost_of(step: Mapping[str, Any]) -> float | None:
    info = step.get("info", step.get("infos"))
    cost = info.get("cost") if isinstance(info, dict) else None
    return float(cost) if isinstance(cost, np.ndarray) and cost.size == 1 else None


# ---------------------------------------------------------------------------------------------------------------------
# Dicts


def _from_dict(content: Mapping[str, Any], where: str, choices: Choices) -> Reading:
    if content.get("actions") is None and "observations" in content and len(content) == 2:
        content = _split(content["observations"], where, choices)
        choices = replace(choices, columns={})
    roles = roles_of(content, choices.columns, where)
    notes, names = [], None
    if "original" in roles:
        if "observations" in roles and not same(_stacks(roles["observations"]), _stacks(roles["original"])):
            notes.append("original observations taken, not the normalised ones beside them, as in Liu's data")
        roles["observations"] = roles.pop("original")
    for role in ("observations", "next"):
        if isinstance(roles.get(role), dict):
            roles[role], names = _flattened(roles[role], where)
    costs = _info_costs(content)
    if costs is not None and "costs" not in roles:
        roles["costs"] = costs
    obs, act = _field(roles["observations"]), _field(roles["actions"])
    if isinstance(obs, list) and isinstance(act, list):
        parts = [_one_of(roles, i, len(obs), f"{where}, episode {i}") for i in range(len(obs))]
        reading = Reading("lists of episodes", parts, notes, names)
    elif isinstance(obs, np.ndarray) and isinstance(act, np.ndarray):
        roles = {role: _stacks(value) for role, value in roles.items()}
        reading = _from_arrays(_squeezed({**roles, "observations": obs, "actions": act}), where, choices)
        reading.notes, reading.entry_names = notes + reading.notes, names
    else:
        raise UserError(f"{where}: its observations and actions have different layouts")
    if "save_scheme" in content and reading.sums:
        reading.autoreset = True
    return reading


def _split(array: Any, where: str, choices: Choices) -> dict[str, Any]:
    """A bare array whose columns the user has to name."""
    chosen = {role: text for role, text in choices.columns.items() if text.startswith("[")}
    if not isinstance(array, np.ndarray) or array.ndim < 2 or not {"observations", "actions"} <= set(chosen):
        shape = array.shape if isinstance(array, np.ndarray) else "no"
        raise NoEpisodes(
            f"{where} is an array of shape {shape} without names. Say which entries are what, for instance "
            "--columns 'observations=[:4]' 'actions=[4:6]' 'rewards=[6]'"
        )
    parts = {role: selected(array, text, where) for role, text in chosen.items()}
    return {role: part if role in ("observations", "actions", "next") else part[..., 0] for role, part in parts.items()}


def _flattened(parts: Mapping[str, Any], where: str) -> tuple[Array, list[str] | None]:
    """A Dict observation as one array, its entries in the order of their names, as Gymnasium has it."""
    arrays = {name: part for name, part in sorted(parts.items()) if isinstance(part, np.ndarray) and part.ndim <= 2}
    if not arrays or len({len(part) for part in arrays.values()}) != 1:
        raise UserError(f"{where}: its observations are a dict of unequal parts: {listed(parts)}")
    columns = [part.reshape(len(part), -1) for part in arrays.values()]
    names = [
        name if part.shape[1] == 1 else f"{name}[{i}]"
        for name, part in zip(arrays, columns, strict=True)
        for i in range(part.shape[1])
    ]
    return np.concatenate(columns, axis=1), names


def _info_costs(content: Mapping[str, Any]) -> Any:
    """Costs in infos: {"cost": (T,)}, or a list of dicts."""
    info = content.get("infos", content.get("info"))
    if isinstance(info, dict):
        return next((info[name] for name in ("cost", "costs") if isinstance(info.get(name), np.ndarray)), None)
    if isinstance(info, list) and info and all(isinstance(entry, dict) for entry in info):
        costs = [_cost_of({"info": entry}) for entry in info]
        return np.array(costs) if all(cost is not None for cost in costs) else None
    return None


def _stacks(value: Any) -> Array | None:
    """The array that a list of equal arrays is; None for a list of unequal ones."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, list) and value and all(isinstance(part, np.ndarray) for part in value):
        return np.stack(value) if len({part.shape for part in value}) == 1 else None
    return None


def _field(value: Any) -> Any:
    """An array, or a list of arrays, one per episode."""
    if isinstance(value, list) and value and all(isinstance(_stacks(part), np.ndarray) for part in value):
        if isinstance(value[0], np.ndarray) and value[0].ndim == 1 and _stacks(value) is not None:
            return _stacks(value)  # a few long observations, not a few episodes of discrete ones
        return [_stacks(part) for part in value]
    return value


def _one_of(roles: Mapping[str, Any], i: int, count: int, where: str) -> Recorded:
    """Episode i of a dict of lists."""

    def part(role: str) -> Array | None:
        value = roles.get(role)
        if value is None or (isinstance(value, np.ndarray) and not value.ndim) or len(value) != count:
            return None
        part = _stacks(value[i]) if isinstance(value, list) else value[i]
        return None if part is None else np.atleast_1d(part)

    obs, act = part("observations"), part("actions")
    if obs is None or act is None:
        raise UserError(f"{where}: there are not as many lists of actions as of observations")
    return recorded(where, obs, act, part, _last)


def _last(flags: Array | None) -> bool | None:
    """Is one of the last two flags set? None if there are none."""
    return None if flags is None or not flags.size else bool(np.nan_to_num(np.ravel(flags)[-2:]).any())


def _squeezed(roles: Mapping[str, Array | None]) -> dict[str, Array]:
    """The arrays without axes of one copy: (T, 1, d) becomes (T, d), and flags and rewards (T, 1) become (T,)."""
    result = {role: np.atleast_1d(value) for role, value in roles.items() if value is not None}
    obs, act = result["observations"], result["actions"]
    if obs.ndim == 3 and obs.shape[1] == 1 and act.ndim >= 2 and act.shape[1] == 1:
        result = {
            role: value[:, 0] if value.ndim > 1 and value.shape[1] == 1 else value for role, value in result.items()
        }
    for role, value in result.items():
        if role not in ("observations", "actions", "next") and value.ndim == 2 and value.shape[1] == 1:
            result[role] = value[:, 0]
    return result


def _from_arrays(roles: dict[str, Array], where: str, choices: Choices) -> Reading:
    obs, act = roles["observations"], roles["actions"]
    marks = [roles[role] for role in ("rewards", "dones", "terminated", "mask") if role in roles]
    two_axes = obs.ndim == 3 or (obs.ndim == 2 and act.ndim == 2 and any(mark.ndim == 2 for mark in marks))
    return batch(roles, where, choices) if two_axes else flat(roles, where, choices)
