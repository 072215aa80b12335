"""Convert demonstrations from and to CSV tables (columns in docs/files.md#demonstrations) and plain .npz arrays."""

from __future__ import annotations

import csv
import io
import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from tacit.demos.data import Demonstrations, Trajectory, from_trajectories, make_card
from tacit.demos.files import build, load, read_npz, save
from tacit.envs.families import find_format, load_function
from tacit.envs.registry import feature_names
from tacit.errors import UserError
from tacit.run.disk import read_text
from tacit.run.storage import atomic_write_text

FALSE, TRUE = ("", "0", "false", "no"), ("1", "true", "yes")


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    card: Mapping[str, Any] | None = None,
    drop_unfinished: bool = False,
) -> Demonstrations:
    """Read `source` (.csv, plain .npz or a demonstration file), write `target` (.npz or .csv), return the content.

    The target may also have the file format of a family of environments, such as something.replay.safetensors.
    """
    demos = read_any(source, card=card, drop_unfinished=drop_unfinished)
    if Path(target).suffix.lower() == ".csv":
        to_csv(demos, target)
    elif (own_format := find_format(target)) is not None:
        load_function(own_format.save)(demos, target)
    else:
        save(demos, target)
    return demos


def read_any(
    source: str | os.PathLike[str], *, card: Mapping[str, Any] | None = None, drop_unfinished: bool = False
) -> Demonstrations:
    """Read a .csv table, .npz arrays, a demonstration file, or (minari:ID) a Minari dataset."""
    kind = Path(source).suffix.lower()
    if os.fspath(source).startswith("minari:"):
        from tacit.interop.minari import from_minari

        demos = from_minari(os.fspath(source))
        return replace(demos, card={**demos.card, **(card or {})})
    if kind == ".csv":
        return from_csv(source, card=card, drop_unfinished=drop_unfinished)
    if kind == ".npz":
        return from_npz(source, card=card)
    if kind == ".safetensors":
        return load(source)
    raise UserError(
        f"cannot read {os.fspath(source)!r}: only .csv and .npz files are converted; `tacit demos import` reads more"
    )


def for_environment(data: Demonstrations, env: Any, env_id: str, env_kwargs: Mapping[str, Any]) -> Demonstrations:
    """The demonstrations with an environment on their card, and its names and action type where they have none.

    env: the environment, or its exact model. Whole numbers written as floats become the integers of a Discrete space.
    """
    card = {**data.card, "env": env_id, "env_kwargs": dict(env_kwargs)}
    actions = data.actions
    if isinstance(env, gym.Env):
        if card.get("feature_names") is None and data.observations.ndim == 2:
            names = feature_names(env)
            card["feature_names"] = None if names is None or len(names) != data.observations[0].size else list(names)
        discrete = isinstance(env.action_space, gym.spaces.Discrete)
        column = actions.reshape(len(actions), -1)
        if discrete and column.shape[1] == 1 and (column == np.floor(column)).all():
            actions = column[:, 0].astype(np.int64)
    return replace(data, actions=actions, card=card)


def from_npz(path: str | os.PathLike[str], *, card: Mapping[str, Any] | None = None) -> Demonstrations:
    """Read a demonstration file, or arrays written with numpy.savez under the same names and without a card."""
    arrays, own = read_npz(path)
    if own is not None:
        demos = load(path)
        return build(path, demos.arrays(), {**demos.card, **(card or {})})
    if (
        "terminated" in arrays
        and arrays["terminated"].dtype.kind in "iu"
        and np.isin(arrays["terminated"], (0, 1)).all()
    ):
        arrays["terminated"] = arrays["terminated"].astype(bool)
    return build(path, arrays, {**make_card(source=f"imported from {Path(path).name}"), **(card or {})})


def from_csv(
    path: str | os.PathLike[str], *, card: Mapping[str, Any] | None = None, drop_unfinished: bool = False
) -> Demonstrations:
    """Read a table with the columns episode, step, obs_*, act_*, reward, terminated and (optional) cost.

    One row per observation: the last row of an episode has an observation but no action, reward or cost. If the last
    observations were never recorded, `drop_unfinished` drops the actions whose outcome is unknown.
    """
    table = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    episodes: dict[str, list[tuple[int, dict[str, str]]]] = {}
    try:
        names = next((row for row in table if row), [])
        columns = _Columns(path, names)
        for line, row in enumerate((row for row in table if row), start=2):
            # Before anything is made of it: a wide header over many short rows must not become a wide table.
            if len(row) != len(names):
                raise UserError(f"{path}, row {line}: it does not have as many cells as the header; complete it")
            record = dict(zip(names, row, strict=True))
            episodes.setdefault(record["episode"].strip(), []).append((line, record))
    except csv.Error as error:
        raise UserError(f"{path}, line {table.line_num}: not a CSV table: {error}") from None
    if not episodes:
        raise UserError(f"{path} has no rows: there are no demonstrations in it")
    trajectories = [columns.trajectory(episode, rows, drop_unfinished) for episode, rows in episodes.items()]
    basis = make_card(feature_names=columns.feature_names, source=f"imported from {Path(path).name}")
    try:
        return from_trajectories(trajectories, {**basis, **(card or {})})
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


class _Columns:
    """The header of a CSV table, and reading an episode with it."""

    def __init__(self, path: str | os.PathLike[str], names: list[str]) -> None:
        self.path = path
        if len(set(names)) != len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise UserError(f"{path} has the column {twice[:80]!r} twice")
        self.observations = ["obs"] if "obs" in names else [name for name in names if name.startswith("obs_")]
        self.actions = ["act"] if "act" in names else [name for name in names if name.startswith("act_")]
        self.has_cost = "cost" in names
        lacking = [name for name in ("episode", "step", "reward", "terminated") if name not in names]
        lacking += ["obs_NAME (or obs)"] if not self.observations else []
        lacking += ["act_NAME (or act)"] if not self.actions else []
        if lacking:
            raise UserError(
                f"{path} lacks the column {lacking[0]}: see docs/files.md#demonstrations for the columns of a table"
            )
        # The names after obs_; a single column "obs" is the index of a discrete observation.
        self.feature_names = ["state"] if self.observations == ["obs"] else [c[4:] for c in self.observations]

    def trajectory(self, episode: str, rows: list[tuple[int, dict[str, str]]], drop_unfinished: bool) -> Trajectory:
        for expected, (line, record) in enumerate(rows):
            if self._number(line, record, "step") != expected:
                raise UserError(
                    f"{self.path}, row {line}: episode {episode!r} has step {record['step']!r} where {expected} should "
                    "follow; sort the rows and count the steps from 0"
                )
        last_line, last = rows[-1]
        if any(last[name].strip() for name in self.actions):
            if not drop_unfinished:
                raise UserError(
                    f"{self.path}, row {last_line}: episode {episode!r} ends with an action of unknown outcome; "
                    "add a row with the last observation alone, or drop these actions (drop_unfinished)"
                )
            # The step that ended the episode is lost with its outcome.
            terminated = False
        else:
            terminated = any(self._flag(line, record) for line, record in rows[-2:])
        moves = rows[:-1]
        if not moves:
            raise UserError(f"{self.path}, row {last_line}: episode {episode!r} has no complete step; remove it")
        for line, record in rows[:-2]:
            if self._flag(line, record):
                raise UserError(f"{self.path}, row {line}: episode {episode!r} goes on after it terminated")
        return Trajectory(
            self._table(rows, self.observations),
            self._table(moves, self.actions),
            self._table(moves, ["reward"])[:, 0],
            self._table(moves, ["cost"])[:, 0] if self.has_cost else None,
            terminated,
        )

    def _table(self, rows: list[tuple[int, dict[str, str]]], names: list[str]) -> np.ndarray:
        """(rows, names) floats; (rows,) integers for the discrete columns "obs" and "act"."""
        values = np.array([[self._number(line, record, name) for name in names] for line, record in rows])
        if names not in (["obs"], ["act"]):
            return values
        values = values[:, 0]
        bad = (values != np.floor(values)) | (np.abs(values) > 2**53)
        if bad.any():
            line = rows[int(np.argmax(bad))][0]
            raise UserError(f"{self.path}, row {line}: the column {names[0]!r} must hold whole numbers")
        return values.astype(np.int64)

    def _number(self, line: int, record: dict[str, str], name: str) -> float:
        try:
            value = float(record[name])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise UserError(f"{self.path}, row {line}, column {name!r}: {record[name][:40]!r} is not a finite number")
        return value

    def _flag(self, line: int, record: dict[str, str]) -> bool:
        word = record["terminated"].strip().lower()
        if word not in FALSE + TRUE:
            raise UserError(f"{self.path}, row {line}, column 'terminated': {word[:40]!r} is neither true nor false")
        return word in TRUE


def to_csv(demos: Demonstrations, path: str | os.PathLike[str]) -> None:
    """Write the table of `from_csv`, with every digit. The card is not part of it."""
    if demos.observations.ndim > 2 or demos.actions.ndim > 2:
        raise UserError("only flat observations and actions fit into a table")
    size = demos.observations[0].size
    names = demos.card.get("feature_names") or [str(i) for i in range(size)]
    obs = ["obs"] if demos.observations.ndim == 1 else [f"obs_{name}" for name in names]
    act = ["act"] if demos.actions.ndim == 1 else [f"act_{i}" for i in range(demos.actions.shape[1])]
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    cost = [] if demos.costs is None else ["cost"]
    writer.writerow(["episode", "step", *obs, *act, "reward", "terminated", *cost])
    blank = [""] * (len(act) + 1)
    for i, t in enumerate(demos):
        for step in range(len(t)):
            ends = int(t.terminated and step == len(t) - 1)
            costs = [] if t.costs is None else [_digits(t.costs[step])]
            numbers = [*_row(t.observations[step]), *_row(t.actions[step]), _digits(t.rewards[step])]
            writer.writerow([i, step, *numbers, ends, *costs])
        writer.writerow([i, len(t), *_row(t.observations[-1]), *blank, "", *([] if t.costs is None else [""])])
    atomic_write_text(path, out.getvalue())


def _row(values: Any) -> list[str]:
    return [_digits(value) for value in np.atleast_1d(values)]


def _digits(value: Any) -> str:
    """Shortest text that reads back as the same number."""
    return repr(value.item())
