"""The environment that imported data are for: what its observations and actions look like, and where a step leads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from tacit.demos.evidence import KNOWN_DYNAMICS, error_sizes
from tacit.demos.replay import probability
from tacit.demos.stepping import Outcome, Stepper, find_stepper
from tacit.envs.capabilities import capabilities
from tacit.envs.registry import feature_names
from tacit.imports.reading import Array
from tacit.metrics import percent

EXACT = 1e-3
"""Error of an environment's own steps below which it may complete a record."""


class Fitted(NamedTuple):
    """Arrays in the form of the environment, and what was done to them."""

    arrays: list[Array]
    notes: list[str]


class Target:
    """An environment, or the exact model of one."""

    def __init__(self, env_id: str, env_kwargs: dict[str, Any], built: Any) -> None:
        self.id, self.kwargs, self.built = env_id, env_kwargs, built
        self.grid: Any = built if hasattr(built, "states_of") else capabilities(built).model
        self.positions = env_kwargs.get("observation", "position") == "position"

    @cached_property
    def names(self) -> tuple[str, ...] | None:
        if self.grid is not None:
            return ("row", "column") if self.positions else ("state",)
        return feature_names(self.built)

    @cached_property
    def horizon(self) -> int | None:
        return int(self.grid.horizon) if self.grid is not None else capabilities(self.built).horizon

    @cached_property
    def stepper(self) -> Stepper | None:
        if self.grid is not None:
            return None
        stepper = find_stepper(self.built)
        return None if stepper is None or stepper.own_error > KNOWN_DYNAMICS else stepper

    @cached_property
    def exact(self) -> bool:
        """Can a missing outcome be computed?"""
        if self.grid is not None:
            return bool(self.grid.slip == 0)
        return self.stepper is not None and self.stepper.own_error < EXACT

    @property
    def steps(self) -> bool:
        """Can steps be replayed?"""
        return self.grid is not None or self.stepper is not None

    # -- where a step leads ---------------------------------------------------------------------------------------

    def surprise(self, before: Array, action: Any, after: Array, scale: Array) -> float:
        """How far a recorded step is from the environment's: about 0 if it fits, about 1 or more if not."""
        if self.grid is not None:
            states = self.grid.states_of(np.stack([before, after]))
            valid = not (states < 0).any()
            chance = probability(self.grid, states[:1], np.array([int(action)]), states[1:])[0] if valid else 0.0
            return float(min(2.0, -np.log(chance + 1e-3) / 2.0))
        assert self.stepper is not None
        simulated = self.stepper.steps(before[None], [action])
        return float(min(2.0, error_sizes(simulated, np.ravel(after)[None], scale)[0]))

    def step(self, before: Array, action: Any, *, stopped: bool = False) -> Outcome | None:
        """What the environment makes of an action; None if that is not certain.

        stopped: the episode stopped there, before its time limit. On a grid it has then reached the goal.
        """
        if self.stepper is not None:
            return self.stepper.step(before, action) if self.exact else None
        state = int(self.grid.states_of(np.asarray(before)[None])[0])
        if state < 0 or not 0 <= int(action) < self.grid.n_actions:
            return None
        chances = self.grid.outcome_probabilities[state, int(action)]
        to_goal = (self.grid.targets[state] == self.grid.goal) & (chances > 0)
        if not self.exact and not (stopped and to_goal.any()):
            return None
        likely = int(np.argmax(to_goal)) if stopped and to_goal.any() else int(np.argmax(chances))
        reached = int(self.grid.targets[state, likely])
        cell: Any = np.asarray(self.grid.cells[reached], np.asarray(before).dtype) if self.positions else reached
        return self._outcome(np.asarray(cell), reached)

    def _outcome(self, cell: Array, state: int) -> Outcome:
        """The outcome of a step on a grid that leads to this cell."""
        grid = self.grid
        return Outcome(cell, float(grid.entry_rewards[state]), float(grid.entry_costs[state]), state == grid.goal)

    def reached(self, after: Array) -> Outcome | None:
        """Reward, cost and end of a step on a grid, which depend on the cell that it leads to alone."""
        if self.grid is None:
            return None
        state = int(self.grid.states_of(np.asarray(after)[None])[0])
        return None if state < 0 else self._outcome(after, state)

    # -- the form of observations and actions ---------------------------------------------------------------------

    def observations(self, arrays: Sequence[Array]) -> Fitted:
        """Observations without entries that are always 0 and that the environment lacks; cells for their numbers."""
        if self.grid is not None:
            return self._cells(arrays)
        space = self.built.observation_space
        if isinstance(space, gym.spaces.Discrete):
            flat = [array.reshape(len(array), -1) for array in arrays]
            whole = all(part.shape[1] == 1 and (part == np.floor(part)).all() for part in flat)
            return Fitted([part[:, 0].astype(np.int64) for part in flat] if whole else list(arrays), [])
        size = int(np.prod(space.shape or (1,)))
        tables = [array.reshape(len(array), -1) for array in arrays]
        given = tables[0].shape[1]
        if given <= size or any(table.shape[1] != given for table in tables):
            return Fitted(tables if len(space.shape or ()) == 1 else list(arrays), [])
        used = np.any([(table != 0).any(axis=0) for table in tables], axis=0)
        if used[size:].any() and used.sum() != size:
            return Fitted(tables, [])
        keep = np.flatnonzero(used) if used[size:].any() else np.arange(size)
        note = f"{given - size} of {given} entries are always 0 and were left out"
        return Fitted([table[:, keep] for table in tables], [note])

    def _cells(self, arrays: Sequence[Array]) -> Fitted:
        """Positions (row, column) from numbers of cells, or the other way round, whichever numbering fits the moves."""
        numbers = all(array.ndim == 1 or array.shape[1] == 1 for array in arrays)
        if numbers and self.positions:
            flat = [np.ravel(array).astype(np.int64) for array in arrays]
            rows, columns = self.grid.shape
            every = np.concatenate(flat)
            ways = {}
            if every.min() >= 0 and every.max() < self.grid.n_states:
                ways["free cells counted row by row"] = [self.grid.cells[array] for array in flat]
            if every.min() >= 0 and every.max() < rows * columns:
                ways["cells counted row by row"] = [np.stack(np.divmod(array, columns), axis=1) for array in flat]
            if len(ways) > 1:
                ways = dict(sorted(ways.items(), key=lambda way: self._off_the_grid(way[1])))
            if ways:
                name, cells = next(iter(ways.items()))
                return Fitted([np.asarray(c, np.float32) for c in cells], [f"observations are numbers: {name}"])
        if not numbers and not self.positions and all(array.ndim == 2 and array.shape[1] == 2 for array in arrays):
            return Fitted([self.grid.states_of(array) for array in arrays], ["positions were made numbers of cells"])
        flat = [np.ravel(array) if numbers else array for array in arrays]
        return Fitted([a.astype(np.int64) if numbers and not self.positions else a for a in flat], [])

    def _off_the_grid(self, arrays: Sequence[Array]) -> float:
        """Share of moves farther than a neighbouring cell, and of cells that are walls."""
        far = np.concatenate([np.abs(np.diff(array, axis=0)).max(axis=1) > 1 for array in arrays if len(array) > 1])
        walls = np.concatenate([self.grid.states_of(np.asarray(array, np.float32)) < 0 for array in arrays])
        return float(far.mean() + walls.mean())

    def actions(self, arrays: Sequence[Array]) -> Fitted:
        """Whole numbers for discrete actions (also of one-hot rows), columns for continuous ones, within the box."""
        space = None if self.grid is not None else self.built.action_space
        if space is None or isinstance(space, gym.spaces.Discrete):
            n = self.grid.n_actions if space is None else int(space.n)
            if all(_is_one_hot(array, n) for array in arrays):
                return Fitted([array.argmax(axis=1) for array in arrays], ["one-hot actions were made numbers"])
            flat = [array.reshape(len(array), -1) for array in arrays]
            if all(part.shape[1] == 1 and (part == np.floor(part)).all() for part in flat):
                return Fitted([part[:, 0].astype(np.int64) for part in flat], [])
            return Fitted(list(arrays), [])
        if not isinstance(space, gym.spaces.Box):
            return Fitted(list(arrays), [])
        tables = [array.reshape(len(array), -1) if len(space.shape) == 1 else array for array in arrays]
        if any(table.shape[1:] != space.shape for table in tables):
            return Fitted(tables, [])
        outside = np.concatenate([((t < space.low - 1e-5) | (t > space.high + 1e-5)).any(axis=1) for t in tables])
        if outside.any() and self.stepper is not None:
            note = (
                f"{percent(outside.mean())} of the actions lay outside of {space} and were clipped, as the environment "
                "does"
            )
            return Fitted([np.clip(table, space.low, space.high) for table in tables], [note])
        return Fitted(tables, [])


def _is_one_hot(array: Array, n: int) -> bool:
    shaped = array.ndim == 2 and array.shape[1] == n > 1
    return shaped and bool(((array == 0) | (array == 1)).all() and (array.sum(axis=1) == 1).all())
