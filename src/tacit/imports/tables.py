"""Tables: CSV with any separator and Parquet, one row per step, as the dict of arrays that `layouts` reads."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.demos.files import MAX_BYTES
from tacit.errors import UserError, listed
from tacit.imports.contents import content
from tacit.imports.names import IGNORED, PREFIXES, plain, role_of
from tacit.run.disk import read_text

SEPARATORS = ",;\t|"
WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
Names = dict[str, list[str]]
"""{role: names of its columns}, "left out" among them."""
MISSING = ("", "nan", "na", "none", "null")
MOST_ACTIONS = 4
"""Columns that a message proposes as actions, because nothing else is left."""


def read_table(path: str, chosen: Mapping[str, str], features: Sequence[str] | None) -> tuple[dict[str, Any], Names]:
    """({name of a role: array}, what became of the columns). `features` are the environment's names of its entries."""
    if Path(path).suffix.lower() == ".parquet":
        columns: dict[str, Any] = content(path)
        arrays = {name: _column(path, name, values) for name, values in columns.items()}
    else:
        arrays = _csv(path)
    return _grouped(path, {name: array for name, array in arrays.items() if array is not None}, chosen, features)


def _csv(path: str) -> dict[str, np.ndarray | None]:
    text = read_text(path, max_bytes=MAX_BYTES)
    first = text.partition("\n")[0]
    separator = max(SEPARATORS, key=first.count) if any(first.count(c) for c in SEPARATORS) else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        names = [name.strip() for name in next((row for row in reader if row), [])]
        if names and all(_number(name, separator) is not None for name in names):
            raise UserError(
                f"{path} has no header: its first row is {listed(names, 4)}; add a row with the names of the columns"
            )
        if len(set(names)) != len(names):
            raise UserError(f"{path} has the column {Counter(names).most_common(1)[0][0][:80]!r} twice")
        columns: list[list[str]] = [[] for _ in names]
        for line, row in enumerate((row for row in reader if row), start=2):
            if len(row) != len(names):
                raise UserError(f"{path}, row {line}: it does not have as many cells as the header; complete it")
            for column, cell in zip(columns, row, strict=True):
                column.append(cell)
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: not a table: {error}") from None
    if not columns or not columns[0]:
        raise UserError(f"{path} has no rows: there are no demonstrations in it")
    return {name: _numbers(path, name, cells, separator) for name, cells in zip(names, columns, strict=True)}


def _number(cell: str, separator: str) -> float | None:
    """The number in a cell, NaN for an empty one, None for a word. Decimal commas are read if they separate nothing."""
    word = cell.strip().lower()
    if word in WORDS:
        return WORDS[word]
    if word in MISSING:
        return float("nan")
    try:
        return float(word.replace(",", ".") if separator != "," else word)
    except ValueError:
        return None


def _numbers(path: str, name: str, cells: list[str], separator: str) -> np.ndarray | None:
    """A column as numbers; labels of episodes as counted numbers; None for other words."""
    values = [_number(cell, separator) for cell in cells]
    bad = next((i for i, value in enumerate(values) if value is None), None)
    if bad is None:
        return np.array(values)
    if role_of(name) == "episode":
        order = {label: float(i) for i, label in enumerate(dict.fromkeys(cells))}
        return np.array([order[cell] for cell in cells])
    if sum(value is None for value in values) <= len(values) / 2 and plain(name) not in IGNORED:
        raise UserError(f"{path}, row {bad + 2}, column {name!r}: {cells[bad][:40]!r} is not a number")
    return None


def _column(path: str, name: str, values: Any) -> np.ndarray | None:
    if isinstance(values, list) and values and all(isinstance(v, np.ndarray) for v in values):
        raise UserError(f"{path}, column {name!r}: its lists are of unequal length")
    return np.asarray(values) if isinstance(values, np.ndarray) else None


def _grouped(
    path: str, arrays: Mapping[str, np.ndarray], chosen: Mapping[str, str], features: Sequence[str] | None
) -> tuple[dict[str, Any], Names]:
    """Columns put together to arrays: as chosen, by their names and prefixes, or by the environment's names."""
    names: Names = {}
    for role, listing in chosen.items():
        wanted = [name.strip() for name in listing.split(",")]
        missing = [name for name in wanted if name not in arrays]
        if missing:
            raise UserError(f"{path} has no column of numbers {missing[0]!r}; it has {listed(arrays)}")
        names[role] = wanted
    taken = {name for wanted in names.values() for name in wanted}
    for name in arrays:
        if name in taken:
            continue
        role = (
            (_by_prefix(name) if _numbered(name, arrays) else None) or role_of(name) or _by_prefix(name) or "left out"
        )
        by_name = features is not None and name in features and role not in ("rewards", "costs")
        if by_name and "observations" not in chosen:
            role = "observations"
        if role in chosen:
            role = "left out"
        names.setdefault(role, []).append(name)
    if features is not None and sorted(names.get("observations", [])) == sorted(features):
        names["observations"] = list(features)
    if not {"observations", "actions"} <= set(names):
        lacking = "observations" if "observations" not in names else "actions"
        free = [name for name in names.get("left out", []) if plain(name) not in IGNORED] or list(arrays)
        half = max(1, len(free) // 2)
        example = f"observations={','.join(free[:half])} actions={','.join(free[half:] or free[-1:])}"
        more = ""
        if lacking == "actions":
            # Beside the names of an environment, what is left over is likely to be the action.
            example = f"actions={','.join(free[-1:] if features is None or len(free) > MOST_ACTIONS else free)}"
        elif features is None:
            more = ". With --env ENV, columns with that environment's own names are found"
        raise UserError(
            f"{path} does not say which columns are its {lacking}; it has {listed(arrays, 20)}. "
            f"Say which, for instance --columns {example}{more}"
        )
    result: dict[str, Any] = {}
    for role, group in names.items():
        if role == "left out":
            continue
        several = role in ("observations", "actions", "next")
        if len(group) > 1 and not several:
            raise UserError(
                f"{path} has {len(group)} columns for its {role}: {' and '.join(group)}; "
                f"choose with --columns {role}={group[0]}"
            )
        columns = [arrays[name] for name in group]
        whole = several and len(group) == 1 and (columns[0].ndim > 1 or role_of(group[0]) == role)
        result[role] = columns[0] if not several or whole else np.stack(columns, axis=1)
    return result, names


def _numbered(name: str, arrays: Mapping[str, np.ndarray]) -> bool:
    """Is it one of several, such as s2 beside s0 and s1? Alone, s2 is the state after s."""
    stem = plain(name).rstrip("0123456789")
    return stem != plain(name) and sum(plain(other).rstrip("0123456789") == stem for other in arrays) > 1


def _by_prefix(name: str) -> str | None:
    """The role of obs_x, action_0, s1, next_state[3], ...: the longest prefix counts."""
    word = plain(name)
    fits = [
        (len(prefix), role)
        for role, prefixes in PREFIXES.items()
        for prefix in prefixes
        if word.startswith(f"{prefix}_") or (word.startswith(prefix) and word[len(prefix) :].isdigit())
    ]
    return max(fits)[1] if fits else None


def entry_names(columns: Sequence[str]) -> list[str] | None:
    """Names of an observation's entries from names of columns, without their common prefix."""
    words = []
    for name in columns:
        lower = name.lower()
        prefix = next(
            (p for p in ("obs_", "observation_", "observation.", "state_", "obs.") if lower.startswith(p)), ""
        )
        words.append(name[len(prefix) :])
    return words if len(set(words)) == len(words) and not all(word.isdigit() for word in words) else None
