"""Results on disk: NAME.json has the numbers for tables, NAME.curves.json.xz has further numbers for figures.

NAME.json has one line per run. Commits and versions that several runs share stand once, in "builds"; each run names its
build by number. The second file holds curves, maps and pictures, and is read back together with the first. Both are
JSON, so that reading them runs no code.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

from tacit.errors import UserError
from tacit.run import disk, storage
from tacit.run.summary import Threshold
from tacit.sweep.time import RunRecord

SCHEMA = 2
READABLE = (1, 2)
"""Schema of the files. Schema 1 has everything in one file, with commit and versions in every run."""
BULKY = ("curves", "maps", "strip")
"""Entries that only figures need."""
BUILD = ("commit", "versions")
DIGITS = 9
"""Significant digits of all numbers except those of WHOLE."""
WHOLE = ("provenance", "stochastic", "deterministic", "expert", "exact", "demonstrations", "seconds")
"""Entries that are not rounded, because means of few seeds often lie halfway between two printed numbers."""
MOST_BYTES = 1 << 28

Agent = Literal["stochastic", "deterministic"]
AGENTS: tuple[Agent, ...] = ("stochastic", "deterministic")
Evaluation = dict[str, float]
"""Metrics of an agent: "return", "violation_rate_step" and more, see `records.METRICS`."""
Curves = dict[str, list[float]]
"""{"steps": ..., "return": ..., "violations": ...}: lists of the same length."""


class Record(RunRecord, total=False):
    """The numbers of one finished run."""

    label: str
    """GROUP: ROW, or the group alone."""
    made: int | None
    """Environment steps that the run used."""
    stochastic: Evaluation
    deterministic: Evaluation
    expert: Evaluation | None
    """The demonstrators' numbers."""
    exact: Evaluation
    """Numbers computed from a known model instead of sampled."""
    demonstrations: float
    """Return before violation of the demonstrations, in records of schema 1."""
    typical: float
    """Median return of the demonstrations."""
    slip: float
    cost_quality: dict[str, float | None] | None
    detection: dict[str, Any] | None
    """How well cost and map detect violations; see `tacit.cost.quality`."""
    normalised_return: float
    decided: dict[str, float | None] | None
    """Scores of the cost on decided cells; see `tacit.reproduce.decided`."""
    threshold: Threshold | None
    resets: int | None
    source: dict[str, Any] | None
    """The source of a frozen cost, and how the agent is charged."""
    phases: dict[str, float] | None
    """Seconds of work by phase."""
    curves: Curves
    layout: list[str]
    cells: list[list[int]]
    constrained: list[bool]
    maps: dict[str, list[float] | None]
    strip: dict[str, Any]
    """Pictures of an episode."""


Number = Callable[[Record], float | None]
"""A number of a run; None where it has no such number."""


class Missing(TypedDict):
    """A run without a record."""

    label: str
    seed: int
    run: str
    reason: str


class Results(TypedDict, total=False):
    """The results of an experiment that is made of runs."""

    schema: int
    provenance: dict[str, Any]
    quick: bool
    runs: list[Record]
    missing: list[Missing]


def curves_file(path: str | os.PathLike[str]) -> Path:
    """The path of NAME.curves.json.xz that belongs to NAME.json."""
    path = Path(path)
    name, _, end = path.name.rpartition(".json")
    return path.with_name(f"{name}.curves.json.xz{end}")


def write(path: str | os.PathLike[str], results: Mapping[str, Any]) -> None:
    """Write both files, with rounded numbers (DIGITS)."""
    content = {**cast(dict[str, Any], _rounded(results)), "schema": SCHEMA}
    bulky: dict[str, Any] = {}
    if "runs" in content:
        content["builds"], runs = [], content.pop("runs")
        for record in runs:
            build = {key: record.pop(key) for key in BUILD if key in record}
            large = {key: record.pop(key) for key in BULKY if key in record}
            if large:
                bulky[_key(record)] = large
            if build not in content["builds"]:
                content["builds"].append(build)
            record["build"] = content["builds"].index(build)
        content["runs"] = runs
    beside = curves_file(path)
    if bulky:  # written first, because the other file refers to it
        content["curves"] = beside.name
        data = storage.to_json(bulky).encode()
        storage.atomic_write_bytes(beside, lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
    storage.atomic_write_text(path, _lines({key: _packed(value) for key, value in content.items()}) + "\n")
    if not bulky:
        disk.remove(beside)


def read(path: str | os.PathLike[str], curves: bool = True) -> Any:
    """Read results that `write` wrote, or any other JSON file. Without `curves`, read only the numbers for tables."""
    content = storage.read_json(path)
    if not isinstance(content, dict):
        return content
    try:
        content = {key: _unpacked(value) for key, value in content.items()}
        if "builds" not in content:
            return content
        builds = content.pop("builds")
        promised = content.pop("curves", None) is not None
        bulky = _decompressed(curves_file(path)) if curves and promised else {}
        for record in content["runs"]:
            record |= {**builds[record.pop("build")], **bulky.get(_key(record), {})}
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path} is damaged: {type(error).__name__}: {error}") from None
    return content


def records_in(folder: str | os.PathLike[str]) -> list[Record]:
    """The records of all results in a folder, without curves. Damaged files and results of `--quick` are skipped."""
    records: list[Record] = []
    for file in sorted(Path(folder).glob("*.json")):
        try:
            content = read(file, curves=False)
        except UserError:
            continue
        # A quick run spends its time on start-up, so it says nothing about how long other runs take.
        runs = content.get("runs") if isinstance(content, dict) and not content.get("quick") else None
        records += runs if isinstance(runs, list) else []
    return records


def _decompressed(path: Path) -> dict[str, Any]:
    data = storage.read_bytes(path)
    limit = storage.may_unpack(len(data), MOST_BYTES)
    try:
        decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MOST_BYTES)
        text = decompressor.decompress(data, max_length=limit)
        if not decompressor.eof:
            raise ValueError(f"it ends early, or holds more than {limit} bytes")
        content = storage.from_json(text)
        if not isinstance(content, dict):
            raise ValueError("it holds no JSON object")
    except (lzma.LZMAError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error}") from None
    return content


def _key(record: Mapping[str, Any]) -> str:
    return f"{record.get('label')}, seed {record.get('seed')}: {record.get('run')}"


def _rounded(value: Any) -> Any:
    """A copy of the object with rounded numbers."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: entry if key in WHOLE else _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(entry) for entry in value]
    return value


# ---------------------------------------------------------------------------------------------------------------------
# Records as a table: {"columns": [names, ...], "rows": [[which names, value, ...], ...]}. Names of nested entries are
# joined by dots. Records with different entries have different lists of names, so a missing entry differs from a null.


def _packed(value: Any) -> Any:
    """The object with its lists of records written as tables."""
    if isinstance(value, dict):
        return {key: _packed(entry) if isinstance(entry, list) else entry for key, entry in value.items()}
    if not isinstance(value, list) or len(value) < 2 or not all(isinstance(entry, dict) for entry in value):
        return value
    columns: list[list[str]] = []
    rows = []
    for record in value:
        flat = dict(_flat(record))
        names = list(flat)
        if names not in columns:
            columns.append(names)
        rows.append([columns.index(names), *flat.values()])
    return {"columns": columns, "rows": rows}


def _flat(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, dict) and value and not any("." in name for name in value):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"columns", "rows"}:
        return [_nested(value["columns"][row[0]], row[1:]) for row in value["rows"]]
    if isinstance(value, dict):
        return {key: _unpacked(entry) if isinstance(entry, dict) else entry for key, entry in value.items()}
    return value


def _nested(names: list[str], values: list[Any]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        *path, last = name.split(".")
        place = record
        for key in path:
            place = place.setdefault(key, {})
        place[last] = value
    return record


def _lines(value: Any, depth: int = 3) -> str:
    """JSON with one line per row of a table, so files are small and a run is one line of a diff."""
    nested = isinstance(value, dict | list) and any(isinstance(entry, dict | list) for entry in _entries(value))
    if depth == 0 or not nested:
        return storage.to_json(value)
    parts = [_lines(entry, depth - 1) for entry in _entries(value)]
    if isinstance(value, list):
        return "[\n" + ",\n".join(parts) + "\n]"
    return "{\n" + ",\n".join(f"{storage.to_json(key)}: {part}" for key, part in zip(value, parts, strict=True)) + "\n}"


def _entries(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value)
