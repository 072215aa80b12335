"""A scene of the playground: everything that the page sends, checked before anything is computed.

A scene is also what the page saves as a file, a JSON object:

    {"format": "tacit-playground", "version": 1, "name": "...", "rows": ["S.X.G", ...], "moves": 8, "slip": 0.1,
     "beta": 0.1, "budget": 0.003, "objective": "auto", "expert": {"n": 20, "seed": 0, "beta": 0.1},
     "demonstrations": [{"cells": [[row, column], ...], "actions": [0, ...]}]}

A demonstration of T steps has T + 1 cells and T actions (right, left, down, up, then the diagonals). The expert's own
demonstrations are not in it: they follow from the map, the number and the seed.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tacit.envs.gridworld_map import CONSTRAINED, FREE
from tacit.envs.gridworld_spec import GridworldSpec
from tacit.errors import UserError, did_you_mean
from tacit.inverse.mce_exact import OBJECTIVES as EXACT
from tacit.run import storage

OBJECTIVES = ("auto", "rule", *EXACT)
"""The smallest rule for walks by hand and the plug-in moments for the expert's (auto), or one of them for all."""
FORMAT, VERSION = "tacit-playground", 1
SMALLEST_SIDE, LARGEST_SIDE = 2, 20
LARGEST_SLIP = 0.9
BETAS = (0.005, 1.0)
LARGEST_BUDGET = 10.0
MOST_EXPERT = 200
MOST_OWN = 100
MOST_STEPS = 200
"""Largest number of steps of a demonstration, and of an episode."""
LONGEST_NAME = 80
LARGEST_SEED = 2**31 - 1
SceneEntry = dict[str, Any]
"""A scene as JSON, see above."""
PathEntry = dict[str, list[Any]]
"""One demonstration as JSON: cells and actions."""


@dataclass(frozen=True)
class Expert:
    """Demonstrations to be sampled from the exact expert, who knows the hidden constraint."""

    n: int = 0
    seed: int = 0
    beta: float = 0.1


@dataclass(frozen=True)
class Path:
    """One demonstration by hand."""

    cells: tuple[tuple[int, int], ...]
    actions: tuple[int, ...]


@dataclass(frozen=True)
class Scene:
    """A checked scene; `parse` makes it from what a page or a file says."""

    rows: tuple[str, ...]
    moves: int = 8
    slip: float = 0.1
    beta: float = 0.1
    budget: float = 0.003
    objective: str = "auto"
    expert: Expert = field(default_factory=Expert)
    demonstrations: tuple[Path, ...] = ()
    name: str = ""

    @cached_property
    def truth(self) -> GridworldSpec:
        """The world with its hidden constraint."""
        return GridworldSpec(self.rows, moves=self.moves, slip=self.slip, horizon=MOST_STEPS)

    @cached_property
    def world(self) -> GridworldSpec:
        """The world as the learner sees it: the constraint is not on the map."""
        return replace(self.truth, rows=tuple(row.replace(CONSTRAINED, FREE) for row in self.rows))

    def own_demonstrations(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The paths as (states (T+1,), actions (T,)); UserError for a path that leaves the map or enters a wall."""
        pairs, spec = [], self.truth
        for number, path in enumerate(self.demonstrations):
            states = spec.states_of(np.array(path.cells))
            if (states < 0).any():
                row, column = path.cells[int(np.argmax(states < 0))]
                raise UserError(f"demonstration {number} passes row {row}, column {column}, where the map has no cell")
            pairs.append((states, np.array(path.actions)))
        return pairs

    def to_json(self) -> SceneEntry:
        """As saved in a file; `parse` reads it back."""
        return {"format": FORMAT, "version": VERSION, **storage.from_json(storage.to_json(asdict(self)))}


def parse(data: object) -> Scene:
    """The scene that `data` (plain JSON) describes; UserError saying what is wrong and what would be right."""
    keys = ("format", "version", "name", "rows", "moves", "slip", "beta", "budget", "objective", "expert")
    given = _object("a scene", data, (*keys, "demonstrations"))
    if given.get("format", FORMAT) != FORMAT:
        raise UserError(f'this is no map of the playground: its format is {short(given["format"])}, not "{FORMAT}"')
    if given.get("version", VERSION) != VERSION or isinstance(given.get("version"), bool):
        raise UserError(f"version {short(given['version'])} cannot be read; this program reads version {VERSION}")
    if "rows" not in given:
        raise UserError('a scene needs "rows": the map, one string a row')
    rows = _rows(given["rows"])
    moves = given.get("moves", 8)
    if type(moves) is not int or moves not in (4, 8):
        raise UserError(f"moves must be 4 or 8, not {short(moves)}")
    objective = given.get("objective", "auto")
    if not isinstance(objective, str) or objective not in OBJECTIVES:
        raise UserError(f"objective must be one of {', '.join(OBJECTIVES)}, not {short(objective)}")
    name = given.get("name", "")
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not name.isprintable():
        raise UserError(f"name must be text of at most {LONGEST_NAME} characters on one line, not {short(name)}")
    scene = Scene(
        rows=rows,
        moves=moves,
        slip=_number("slip", given.get("slip", 0.1), 0.0, LARGEST_SLIP),
        beta=_number("beta", given.get("beta", 0.1), *BETAS),
        budget=_number("budget", given.get("budget", 0.003), 0.0, LARGEST_BUDGET),
        objective=objective,
        expert=_expert(given.get("expert", {})),
        demonstrations=_paths(given.get("demonstrations", []), moves),
        name=name,
    )
    scene.own_demonstrations()  # builds and checks the world, too
    return scene


def _expert(data: object) -> Expert:
    given = _object("expert", data, ("n", "seed", "beta"))
    return Expert(
        n=_whole("the number of expert demonstrations", given.get("n", 0), 0, MOST_EXPERT),
        seed=_whole("the expert's seed", given.get("seed", 0), 0, LARGEST_SEED),
        beta=_number("the expert's beta", given.get("beta", 0.1), *BETAS),
    )


def _rows(data: object) -> tuple[str, ...]:
    sizes = f"{SMALLEST_SIDE} to {LARGEST_SIDE}"
    if not isinstance(data, list) or not all(isinstance(row, str) for row in data):
        raise UserError("rows must be a list of strings, one a row of the map")
    if not SMALLEST_SIDE <= len(data) <= LARGEST_SIDE:
        raise UserError(f"the map has {len(data)} rows; the playground takes {sizes}")
    for number, row in enumerate(data):
        if not SMALLEST_SIDE <= len(row) <= LARGEST_SIDE:
            raise UserError(f"row {number} of the map has {len(row)} cells; the playground takes {sizes}")
    return tuple(data)


def _paths(data: object, moves: int) -> tuple[Path, ...]:
    if not isinstance(data, list):
        raise UserError(f"demonstrations must be a list, not {short(data)}")
    if len(data) > MOST_OWN:
        raise UserError(f"there are {len(data)} demonstrations; the playground takes at most {MOST_OWN} of your own")
    paths = []
    for number, entry in enumerate(data):
        what = f"demonstration {number}"
        given = _object(what, entry, ("cells", "actions"))
        cells, actions = given.get("cells"), given.get("actions")
        if not isinstance(cells, list) or not isinstance(actions, list):
            raise UserError(f'{what} needs two lists, "cells" and "actions"')
        if not 1 <= len(actions) <= MOST_STEPS or len(cells) != len(actions) + 1:
            raise UserError(
                f"{what} has {len(actions)} actions and {len(cells)} cells; expected 1 to {MOST_STEPS} actions and one "
                "cell more"
            )
        for cell in cells:
            if not isinstance(cell, list) or len(cell) != 2:
                raise UserError(f"{what}: a cell is [row, column], not {short(cell)}")
        checked = tuple(
            (_whole(f"{what}: a row", row, 0, LARGEST_SIDE - 1), _whole(f"{what}: a column", col, 0, LARGEST_SIDE - 1))
            for row, col in cells
        )
        paths.append(Path(checked, tuple(_whole(f"{what}: an action", action, 0, moves - 1) for action in actions)))
    return tuple(paths)


def _object(what: str, data: object, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise UserError(f"{what} must be a JSON object, not {short(data)}")
    for key in data:
        if key not in names:
            raise UserError(f"{what} has an unknown entry {short(key)}; {did_you_mean(str(key)[:50], names)}")
    return data


def _number(what: str, value: object, low: float, high: float) -> float:
    # Compared first, converted afterwards: an int may be too large for a float. NaN is within no limits.
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise UserError(f"{what} must be a number from {low:g} to {high:g}, not {short(value)}")
    return float(value)


def _whole(what: str, value: object, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise UserError(f"{what} must be a whole number from {low} to {high}, not {short(value)}")
    return value


def short(value: object) -> str:
    """A value in a message, however large it is."""
    return reprlib.repr(value)[:80]
