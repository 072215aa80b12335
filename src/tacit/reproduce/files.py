"""Experiments of the user: a TOML file, or a Python file that defines EXPERIMENT.

    name = "slippery"                        the name of the results; the file's own unless given
    description = "two methods as the world gets slippery"
    seeds = 3                                how many, or a list
    # steps = 100_000                        environment steps; also [steps] with a number per group
    # table = "grid"                         comparison (as it is), seeds, grid or driving
    # figure = "values"                      curves (as it is), seeds, values, changes or driving
    # axis = {label = "slip", log = false}   of the figure `values`
    # ours = "mce-exact"                     the row that all other rows are compared with
    # budget = {eval_episodes = 20}          settings that --quick replaces

    [[group]]                                environments
    name = "slip 0.1"
    env = "tacit/Gridworld-v0"
    env_kwargs = {slip = 0.1}
    # settings = {demonstrations = 5}        of every row
    # demos = "logs.npz"
    # value = 0.1                            the place on the axis

    [[row]]                                  methods
    algo = "mce-exact"                       or "my_package:MyMethod"
    # name = "mine"                          the algorithm's unless given
    # preset = "reference"
    # settings = {beta = 0.1}
    # steps, budget, more_seeds              as above, of this row

A Python file is run, because its path was typed as an argument. A TOML file never runs another file.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tacit.algorithms import find as algorithm
from tacit.algorithms import make_config
from tacit.errors import UserError, did_you_mean
from tacit.reproduce.catalogue import EXPERIMENTS
from tacit.reproduce.experiment import Axis, Experiment, Group, Measured, Row
from tacit.reproduce.figures import FIGURES
from tacit.reproduce.paper import NUMBERED
from tacit.reproduce.tables import TABLES
from tacit.sweep.file import check_keys, read_toml, seeds_of

KEYS = ("name", "description", "seeds", "steps", "table", "figure", "axis", "ours", "budget", "group", "row")
GROUP_KEYS = ("name", "env", "env_kwargs", "settings", "demos", "value")
ROW_KEYS = ("name", "algo", "preset", "settings", "steps", "budget", "more_seeds")
AXIS_KEYS = ("label", "log")
OWN_TABLES = tuple(name for name in TABLES if name != "experts")
OWN_FIGURES = tuple(name for name in FIGURES if name != "experts")


def find(word: str) -> tuple[str, Experiment | Measured]:
    """Find an experiment by its name, by a number of the paper ("figure-2"), or in a .toml or .py file.

    Returns (name, experiment); UserError if there is none.
    """
    word = NUMBERED.get(word, word)
    if word in EXPERIMENTS:
        return word, EXPERIMENTS[word]
    path = Path(word)
    if path.suffix not in (".toml", ".py"):
        raise UserError(f"there is no experiment {word!r}; {did_you_mean(word, [*EXPERIMENTS, *NUMBERED])}")
    if not path.exists():
        raise UserError(f"{path} does not exist")
    try:
        name, experiment = _from_toml(path) if path.suffix == ".toml" else (path.stem, _from_python(path))
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise UserError(f"the name {name!r} must consist of letters, digits, '-', '_' and '.'")
        if name in EXPERIMENTS:
            raise UserError(f"the name {name!r} belongs to an experiment of Tacit: choose another one")
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return name, experiment


def _from_python(path: Path) -> Experiment | Measured:
    try:
        experiment = runpy.run_path(str(path)).get("EXPERIMENT")
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"it raised {type(error).__name__}: {error}") from error
    if not isinstance(experiment, Experiment | Measured):
        raise UserError("it must define EXPERIMENT, a tacit.reproduce.Experiment")
    if isinstance(experiment, Experiment) and experiment.rows and experiment.ours not in experiment.rows:
        experiment = replace(experiment, ours=next(iter(experiment.rows)))  # as in a TOML file
    return experiment


def _from_toml(path: Path) -> tuple[str, Experiment]:
    tables = read_toml(path)
    return str(tables.get("name", path.stem)), from_tables(tables)


def from_tables(tables: Mapping[str, Any]) -> Experiment:
    """The experiment that a TOML file describes; UserError that names a wrong key."""
    check_keys(tables, KEYS)
    groups: dict[str, Group] = _named(tables, "group", Group, GROUP_KEYS, "env")
    rows: dict[str, Row] = _named(tables, "row", Row, ROW_KEYS, "algo")
    for name, row in rows.items():
        _check_steps(row.steps, list(groups))
        try:
            algorithm(row.algo)
        except UserError as error:
            raise UserError(f"row {name!r}: {error}") from None
    table, figure = (_choice(tables, key, names) for key, names in (("table", OWN_TABLES), ("figure", OWN_FIGURES)))
    axis = _table(tables, "axis")
    check_keys(axis, AXIS_KEYS, "axis")
    if figure == "values":
        lacking = [name for name, group in groups.items() if group.value is None]
        if lacking:
            raise UserError(f'figure = "values" needs a number `value` in every group; {lacking[0]!r} has none')
    ours = tables.get("ours", "mce" if "mce" in rows else next(iter(rows)))
    if ours not in rows:
        raise UserError(f"ours: there is no row {ours!r}; {did_you_mean(str(ours), list(rows))}")
    return Experiment(
        str(tables.get("description", "an experiment of your own")),
        groups,
        rows,
        seeds=tuple(seeds_of(tables.get("seeds", 3))),
        steps=_check_steps(tables.get("steps"), list(groups)),
        budget=_table(tables, "budget"),
        collect=table if table in ("grid", "driving") else "policy",
        table=table,
        figure=figure,
        ours=ours,
        axis=Axis(str(axis.get("label", "")), log=bool(axis.get("log", False))),
        presets={},
    )


def _table(tables: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = tables.get(key, {})
    if not isinstance(value, dict):
        raise UserError(f"{key} must be a table, {key} = {{name = value}}, not {value!r}")
    return value


def _choice(tables: Mapping[str, Any], key: str, names: tuple[str, ...]) -> str:
    value = str(tables.get(key, names[0]))
    if value not in names:
        raise UserError(f"there is no {key} {value!r}; {did_you_mean(value, names)}")
    return value


def _check_steps(steps: Any, groups: list[str]) -> int | dict[str, int] | None:
    if steps is None or (type(steps) is int and steps > 0):
        return steps
    if not isinstance(steps, dict) or not all(type(value) is int and value > 0 for value in steps.values()):
        raise UserError(f"steps must be a number, or a table with a number per group, not {steps!r}")
    lacking = [name for name in groups if name not in steps]
    if lacking:
        raise UserError(f"steps has no number for the group {lacking[0]!r}")
    return steps


def _named(tables: Mapping[str, Any], kind: str, made: type, keys: tuple[str, ...], needed: str) -> dict[str, Any]:
    """The [[group]] or [[row]] tables by name, made into a `Group` or `Row` after checking their keys and types."""
    entries = tables.get(kind, [])
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise UserError(f"there is no {kind}: add at least one [[{kind}]] table with `{needed} = ...`")
    named: dict[str, Any] = {}
    for number, entry in enumerate(entries, start=1):
        where = f"{kind} {number}"
        check_keys(entry, keys, where)
        if not isinstance(entry.get(needed), str):
            raise UserError(f"{where}: {needed} is missing, or not a text")
        name = str(entry.get("name", entry[needed].rpartition("/")[2].partition("-v")[0]))
        if not name or ": " in name:
            raise UserError(f"{where}: a name must not be empty or contain ': ', as {name!r} does")
        if name in named:
            raise UserError(f"{where}: the name {name!r} is used twice")
        named[name] = make_config(made, {key: value for key, value in entry.items() if key != "name"}, where)
    return named
