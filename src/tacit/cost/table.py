"""The learned cost of an exact run: a table over the states of a gridworld. NumPy only, used like `tacit.cost`.

    cost = tacit.load_cost("runs/mce-exact-...")
    cost(obs)            # (row, column), or the number of a state if the environment shows that
    cost(obs, act)       # if it was learned for state-action pairs

The cost of a step is that of the state in which its action is taken, in units of reward.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import UserError
from tacit.run import storage
from tacit.run.summary import Card, Record

Array = NDArray[Any]
MOST_CELLS = 1 << 24
"""Largest number of cells of a map, walls included. No map file has as many."""
LARGEST = 1e30
"""Largest threshold of a file, and largest number that may come up in computing a cost: far beyond, float32 overflows.
An infinite threshold, or a cost that is not a number, would forbid nothing."""


@dataclass(frozen=True)
class TableCost:
    """One number >= 0 for each state and action."""

    cells: Array
    """(S, 2) integers: row and column of each state."""
    table: Array
    """(S, A) costs."""
    weights: Array
    """(k,) of the features, from which the table follows."""
    threshold: float | None = None
    """Costs above it count as forbidden."""
    card: Record = field(default_factory=dict)
    names: ClassVar[tuple[str, ...]] = ("row", "column")
    at: ClassVar[Literal["next", "current"]] = "current"
    unit: ClassVar[float] = 1.0

    @property
    def numbered(self) -> bool:
        """Whether its environment observes the number of the state instead of row and column."""
        options = self.card.get("env_kwargs")
        return isinstance(options, Mapping) and options.get("observation") == "index"

    @property
    def reads_actions(self) -> bool:
        return bool((self.table != self.table[:, :1]).any())

    @cached_property
    def _number_of(self) -> Array:
        """(rows, columns) the state of each cell, -1 for a wall."""
        numbers = np.full(self.cells.max(axis=0) + 1, -1, dtype=np.int32)
        numbers[tuple(self.cells.T)] = np.arange(len(self.cells))
        return numbers

    def states_of(self, obs: ArrayLike) -> Array:
        """Numbers (...) of the states that are observed as (row, column) (..., 2) or, if `numbered`, by number."""
        seen = np.asarray(obs)
        if self.numbered and seen.dtype.kind in "iu":
            if seen.size and not (seen.min() >= 0 and seen.max() < len(self.cells)):
                raise UserError(f"states are numbered 0 ... {len(self.cells) - 1}, not {seen}")
            return seen
        if seen.shape[-1:] != (2,) or not np.isfinite(seen).all():
            kind = "the number of a state" if self.numbered else "(row, column)"
            raise UserError(f"the cost reads {kind}, not {seen.dtype} of shape {seen.shape}")
        place = np.rint(seen).astype(np.int64)
        inside = ((place >= 0) & (place < self._number_of.shape)).all(axis=-1)
        numbers = np.where(
            inside, self._number_of[tuple(np.moveaxis(np.where(inside[..., None], place, 0), -1, 0))], -1
        )
        if (numbers < 0).any():
            where = place[numbers < 0][0] if place.ndim > 1 else place
            raise UserError(f"({where[0]}, {where[1]}) is a wall or outside the map of this cost")
        return numbers

    def __call__(self, obs: ArrayLike, act: ArrayLike | None = None) -> Array:
        """Cost (...) of observations, and of actions (...) if the cost reads them."""
        states = self.states_of(obs)
        if act is None:
            if self.reads_actions:
                raise UserError("this cost reads actions: call cost(obs, act)")
            return self.table[states, 0]
        actions = np.asarray(act)
        if actions.dtype.kind not in "iu" or (
            actions.size and not 0 <= actions.min() <= actions.max() < self.n_actions
        ):
            raise UserError(f"actions are numbered 0 ... {self.n_actions - 1}")
        return self.table[states, actions]

    def of_steps(self, obs: ArrayLike, act: ArrayLike, next_obs: ArrayLike) -> Array:
        """Cost (B,) of steps."""
        return self(obs, act)

    @property
    def n_actions(self) -> int:
        return int(self.table.shape[1])

    def of_names(self, names: Sequence[str]) -> TableCost:
        if tuple(names) not in (self.names, ("state",)):
            raise UserError(f"this cost reads row and column of a gridworld, not {', '.join(names)}")
        return self

    # ------------------------------------------------------------ saving

    def to_arrays(self) -> tuple[dict[str, Array], Card]:
        arrays = {"weights": self.weights, "cost": self.table, "cells": self.cells}
        return arrays, {**self.card, "threshold": self.threshold}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], card: Record) -> TableCost:
        if card.get("kind") != "tabular" or not {"cost", "cells", "weights"} <= arrays.keys():
            raise UserError("this file does not hold a tabular cost")
        table, cells, threshold = arrays["cost"], arrays["cells"], card.get("threshold")
        fits = (
            table.ndim == 2
            and table.size > 0
            and cells.shape == (len(table), 2)
            and cells.dtype.kind in "iu"
            and 0 <= cells.min() <= cells.max() < 1 << 15
            and math.prod(int(side) + 1 for side in cells.max(axis=0)) <= MOST_CELLS
            and table.dtype.kind == "f"
            and bool(((table >= 0) & (table <= LARGEST)).all())
            and (threshold is None or (isinstance(threshold, int | float) and 0 <= threshold <= LARGEST))
        )
        if not fits:
            raise UserError("the arrays of this cost file do not fit together: it is damaged")
        return cls(cells, table, arrays["weights"], threshold, dict(card))

    def save(self, path: str | os.PathLike[str]) -> None:
        storage.save_arrays(path, *self.to_arrays())

    def with_card(self, **entries: Any) -> TableCost:
        return replace(self, card={**self.card, **entries})
