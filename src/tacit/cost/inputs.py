"""What a learned cost reads: named entries of observation and action, derived ones, and their scale.

    z = squash((x - centre) / scale),      squash(u) = arsinh(u) or u,      within +-clip                        (1)

arsinh is linear near the centre and logarithmic far away, so that one metre at a wall and a hundred metres of open road
both keep their resolution.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.cost.objects import Nearest
from tacit.errors import UserError

Array = NDArray[Any]
MOST_INPUTS = 1 << 20
"""Entries of an observation or an action that a file may announce."""
CLIPPED_TOO_OFTEN = 0.01
"""Share of steps with an input beyond the clip from which a cost is no longer to be trusted."""


@dataclass(frozen=True)
class Inputs:
    """What a cost reads and how it is scaled, see (1). Frozen: the same numbers during and after training."""

    names: tuple[str, ...]
    columns: tuple[int, ...]
    """Columns of [observation | derived | action], one for each name."""
    obs_size: int
    act_size: int
    """0 if no action is read."""
    centre: Array
    scale: Array
    """(d,) float32 each."""
    squash: bool = True
    clip: float = 20.0
    n_actions: int = 0
    """Number of discrete actions, which are read one-hot; 0 for continuous ones."""
    derived: tuple[Nearest, ...] = ()
    """Inputs that are computed from the whole observation (`tacit.cost.objects`)."""

    @property
    def first_action(self) -> int:
        """Number of columns before those of the action."""
        return self.obs_size + len(self.derived)

    @property
    def width(self) -> int:
        """Number of columns of a row."""
        return self.first_action + self.act_size

    @property
    def reads_actions(self) -> bool:
        return any(column >= self.first_action for column in self.columns)

    def rows(self, obs: ArrayLike, act: ArrayLike | None = None) -> Array:
        """[observation | derived | action] (B, width) float32; without the action if none is read.

        Numbers of states (B,), integers, are read one-hot by a cost whose inputs are state[0], state[1], ...
        """
        seen: Array = np.asarray(obs)
        if seen.dtype.kind in "iu" and self._numbered:
            if seen.size and not 0 <= seen.min() <= seen.max() < self.obs_size:
                raise UserError(f"the states of this cost are numbered 0 ... {self.obs_size - 1}, not {seen}")
            seen = one_hot(seen, self.obs_size)
        obs = seen.astype(np.float32, copy=False)
        if obs.shape[-1:] != (self.obs_size,):
            raise UserError(f"the cost reads observations of {self.obs_size} numbers, not of shape {obs.shape}")
        if self.derived:
            parts = [one.of_rows(obs)[..., None] for one in self.derived]
            seen = np.concatenate([obs, *parts], axis=-1)
        else:
            seen = obs
        if not self.act_size:
            return seen
        if act is None:
            raise UserError("this cost reads actions: call cost(obs, act)")
        act = np.asarray(act)
        if self.n_actions:
            if act.dtype.kind not in "iu" or (act.size and not 0 <= act.min() <= act.max() < self.n_actions):
                raise UserError(f"the actions of this cost are numbered 0 ... {self.n_actions - 1}, not {act}")
            act = one_hot(act, self.n_actions)
        act = act.astype(np.float32, copy=False)
        if act.shape != (*obs.shape[:-1], self.act_size):
            raise UserError(f"the cost reads actions of {self.act_size} numbers for each observation, not {act.shape}")
        return np.concatenate([seen, act], axis=-1)

    @cached_property
    def _numbered(self) -> bool:
        """Whether it is a cost of the states of a Discrete space."""
        named = zip(self.names, self.columns, strict=True)
        return bool(self.names) and all(name == f"state[{column}]" for name, column in named)

    @cached_property
    def _chosen(self) -> Array | None:
        """Columns as an index; None if they are all of them in order."""
        everything = self.columns == tuple(range(self.width))
        return None if everything else np.array(self.columns, dtype=np.intp)

    def scaled(self, rows: Array) -> Array:
        """z (B, d) float32 of rows (B, width)."""
        chosen = self._chosen
        u = ((rows if chosen is None else rows.take(chosen, axis=-1)) - self.centre) / self.scale
        if self.squash:
            u = np.arcsinh(u)
        return np.minimum(np.maximum(u, -self.clip), self.clip)

    def of_names(self, names: Sequence[str]) -> Inputs:
        """The same inputs, looked up by name among an environment's entries; UserError if one is not there."""
        read = [name for name, column in zip(self.names, self.columns, strict=True) if column < self.obs_size]
        places = iter(choose_columns(names, read))
        # Derived inputs that are not read need not be there.
        kept = [i for i in range(len(self.derived)) if self.obs_size + i in self.columns]
        moved = {self.obs_size + i: len(names) + place for place, i in enumerate(kept)}
        moved |= {self.first_action + i: len(names) + len(kept) + i for i in range(self.act_size)}
        columns = tuple(next(places) if column < self.obs_size else moved[column] for column in self.columns)
        derived = tuple(self.derived[i].of_names(names) for i in kept)
        return replace(self, columns=columns, obs_size=len(names), derived=derived)

    def is_in(self, name: str, column: int, names: Sequence[str], act_size: int) -> bool:
        """Can this input be computed in an environment with these entries and this size of an action?"""
        if column >= self.first_action:
            return self.act_size == act_size
        if column < self.obs_size:
            return name in names
        try:
            self.derived[column - self.obs_size].of_names(names)
        except UserError:
            return False
        return True

    def clipped_share(self, rows: Array) -> float:
        """Share of rows with an input beyond the clip."""
        return float((np.abs(self.scaled(rows)) >= self.clip).any(axis=-1).mean())


def one_hot(numbers: Array, size: int) -> Array:
    """(..., size) float32 of numbers (...) below `size`. It makes no size * size matrix: a file announces the size."""
    rows = np.zeros((*numbers.shape, size), dtype=np.float32)
    np.put_along_axis(rows, numbers[..., None], np.float32(1.0), axis=-1)
    return rows


def choose_columns(names: Sequence[str], wanted: Sequence[str]) -> tuple[int, ...]:
    """Positions of the wanted names; UserError with the nearest name for one that is not there."""
    columns = []
    for name in wanted:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
            raise UserError(f"the environment has no feature {name!r}; {hint}")
        columns.append(list(names).index(name))
    return tuple(columns)
