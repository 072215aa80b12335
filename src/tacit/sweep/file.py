"""Sweep files: TOML in which any value may be a list. The jobs are the product of all lists.

    algo = "mce-exact"
    env = "tacit/Gridworld-v0"             one, or several in a list
    seeds = 5                              0 to 4, or a list
    # preset = "reference"                 where the algorithm has presets
    # demos = "logs.npz"                   as with --demos

    [settings]                             of the algorithm: `tacit learn ALGORITHM --help`
    beta = [0.1, 0.01]
    objective = "likelihood"

    [env_kwargs]                           options of the environment
    slip = [0.0, 0.1, 0.3]

A setting that is a list itself, such as hidden = [64, 64], is varied by a list of lists.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import re
import tomllib
from collections.abc import Mapping
from typing import Any, get_args, get_origin, get_type_hints

from tacit.algorithms import find
from tacit.errors import UserError, did_you_mean
from tacit.run import storage
from tacit.sweep import Job

KEYS = ("algo", "env", "seeds", "preset", "demos", "settings", "env_kwargs")
MOST_JOBS = 100_000
MOST_BYTES = 1 << 20
MOST_DOTS = 100


def read(path: str | os.PathLike[str]) -> list[Job]:
    """The jobs of a sweep file; UserError that names the file and a wrong key."""
    tables = read_toml(path)
    try:
        return jobs_of(tables)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a TOML file; UserError if it is too large, damaged, or built to be slow to parse."""
    data = storage.read_bytes(path, max_bytes=MOST_BYTES)
    try:
        text = data.decode("utf-8")
        _check_lengths(text)
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOML, UTF-8, numbers of thousands of digits
        raise UserError(f"{path} is not valid TOML: {error}") from None


def _check_lengths(text: str) -> None:
    """ValueError for a key of very many parts (a.a.a...), which takes Python's parser minutes."""
    for number, line in enumerate(text.split("\n"), start=1):
        pieces = line.split("=")[:-1]  # what stands before an equals sign ends in a key
        if line.lstrip().startswith("[") and "," not in line:
            pieces.append(line)
        if any(re.split("[{,]", piece)[-1].count(".") > MOST_DOTS for piece in pieces):
            raise ValueError(f"line {number} has a key of more than {MOST_DOTS} parts")


def check_keys(table: Mapping[str, Any], keys: tuple[str, ...], where: str = "") -> None:
    """UserError for a key of a table that is not one of `keys`."""
    for key in table:
        if key not in keys:
            raise UserError(f"{where}{': ' if where else ''}there is no key {key!r}; {did_you_mean(key, keys)}")


def jobs_of(tables: Mapping[str, Any]) -> list[Job]:
    """The jobs that the content of a sweep file describes."""
    check_keys(tables, KEYS)
    for key in ("algo", "env"):
        if key not in tables:
            raise UserError(f"{key} is missing")
    for key in ("settings", "env_kwargs"):
        if not isinstance(tables.get(key, {}), dict):
            raise UserError(f"{key} must be a table: a line [{key}] and its values below")
    if not isinstance(tables["algo"], str):
        raise UserError(f"algo must be one name, not {_repr(tables['algo'])}")
    axes: dict[tuple[str, str], list[Any]] = {}
    for key in ("env", "preset", "demos"):
        if key in tables:
            axes["", key] = _names(key, tables[key])
    for name, value in tables.get("settings", {}).items():
        axes["settings", name] = _values(f"settings.{name}", value, _is_list(tables["algo"], name))
    for name, value in tables.get("env_kwargs", {}).items():
        axes["env_kwargs", name] = _values(f"env_kwargs.{name}", value)
    seeds = seeds_of(tables.get("seeds", 1))
    if math.prod(map(len, axes.values())) * len(seeds) > MOST_JOBS:
        raise UserError(f"that would be more than {MOST_JOBS} jobs")
    varied = {axis: values for axis, values in axes.items() if len(values) > 1}
    # By identity: equal values need no two names, and a search for each job would take hours on a long axis.
    places = {axis: {id(value): i for i, value in enumerate(values, start=1)} for axis, values in varied.items()}
    jobs = []
    for point in itertools.product(*axes.values()):
        chosen: dict[str, dict[str, Any]] = {"": {}, "settings": {}, "env_kwargs": {}}
        for (table, name), value in zip(axes, point, strict=True):
            chosen[table][name] = value
        label = " ".join(_label(name, chosen[table][name], places[table, name]) for table, name in varied)
        job = Job(
            tables["algo"],
            **chosen[""],
            settings=chosen["settings"],
            env_kwargs=chosen["env_kwargs"],
            label=label or f"{tables['algo']} {_short(chosen['']['env'])}",
        )
        jobs += [dataclasses.replace(job, seed=seed) for seed in seeds]
    return jobs


def _names(key: str, value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(name, str) for name in values):
        raise UserError(f"{key} must be a name or a list of names, not {_repr(value)}")
    return values


def seeds_of(value: Any) -> list[int]:
    """Seeds from a file, given as a number of seeds or as a list; UserError otherwise."""
    seeds = list(range(value)) if type(value) is int and 0 < value <= MOST_JOBS else value
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise UserError(f"seeds must be a number of seeds or a list of seeds from 0 on, not {_repr(value)}")
    return seeds


def _values(name: str, value: Any, is_list: bool = False) -> list[Any]:
    """The values on an axis. If a value is a list itself, only a list of lists is an axis."""
    values = [value]
    if isinstance(value, list) and (not is_list or (value and all(isinstance(entry, list) for entry in value))):
        values = value
    if not values:
        raise UserError(f"{name} is an empty list: there is nothing to run")
    try:
        storage.to_json(values)
    except (TypeError, ValueError):
        raise UserError(
            f"{name} must be a number, a text, true or false, or a list of them, not {_repr(value)}"
        ) from None
    return values


def _is_list(algo: str, setting: str) -> bool:
    kind = get_type_hints(find(algo).load().Config).get(setting)
    return any(get_origin(part) is tuple for part in (kind, *get_args(kind)))


def _label(name: str, value: Any, places: Mapping[int, int]) -> str:
    if name == "env":
        return _short(value)
    text = str(value)
    return f"{name}={text if len(text) <= 30 and text.isprintable() else f'#{places[id(value)]}'}"


def _repr(value: Any) -> str:
    """A value for a message. Python refuses to print integers of thousands of digits, which TOML can hold."""
    try:
        return repr(value)[:200]
    except ValueError:
        return "that number"


def _short(env: str) -> str:
    return env.rpartition("/")[2].partition("-v")[0]
