"""A gridworld as data: the map's geometry, the dynamics as one table, and the exact model made from that table.

The simulators in `tacit.envs.gridworld` sample from the very same table, so model and simulator cannot drift apart.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tacit.envs.families import Options
from tacit.envs.gridworld_map import (
    CONSTRAINED,
    GOAL,
    MOVE_NAMES,
    MOVES,
    START,
    WALL,
    check_reachable,
    check_rows,
    layout_names,
    read_layout,
)
from tacit.errors import UserError

if TYPE_CHECKING:
    from tacit.demos import Demonstrations
    from tacit.tabular import MDP

REWARDS = {
    # scheme: (reward of an ordinary step, reward of the step that reaches the goal, horizon unless given)
    "paper": (-1.0, 1.0, 200),
    "liu": (0.0, 1.0, 50),
    "road": (-1.0, 1.0, 200),
}
ROAD = -0.2
"""Reward of a step into the lowest row with reward "road"."""


@dataclass(frozen=True)
class GridworldSpec:
    """A gridworld. Its states are the cells that are not walls, numbered row by row, the goal among them."""

    rows: tuple[str, ...]
    """The map, one string per row; see `tacit.envs.gridworld_map`."""
    moves: int = 4
    """4 (right, left, down, up) or 8 (and the diagonals)."""
    slip: float = 0.1
    """Probability in [0, 1] that the action is ignored."""
    slip_rule: str = "paper"
    """"paper", or "liu": impossible moves dropped, the rest renormalised (slip = 1 - their transition_prob)."""
    reward: str = "paper"
    """"paper": -1 per step, +1 for reaching the goal; "liu": 0 and 1; "road": as "paper", but
    only -0.2 per step in the lowest row."""
    horizon: int = 200
    """Steps after which an episode is truncated."""
    discount: float = 0.99
    """Discount factor of the exact model."""
    name: str = field(default="custom", compare=False)
    description: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_rows(self.rows)
        for name, value, allowed in (
            ("moves", self.moves, (4, 8)),
            ("slip_rule", self.slip_rule, ("paper", "liu")),
            ("reward", self.reward, tuple(REWARDS)),
        ):
            if value not in allowed:
                raise UserError(f"{name} must be {' or '.join(map(repr, allowed))}, not {value!r}")
        if not 0 <= self.slip <= 1:
            raise UserError(f"slip must be a probability between 0 and 1, not {self.slip}")
        if isinstance(self.horizon, bool) or not isinstance(self.horizon, int | np.integer) or self.horizon < 1:
            raise UserError(f"horizon must be a whole number of steps, at least 1, not {self.horizon!r}")
        if not 0 < self.discount <= 1:
            raise UserError(f"discount must be in (0, 1], not {self.discount}")
        check_reachable(self.grid, self.moves)

    # -- geometry -----------------------------------------------------------------------------------------------------

    @cached_property
    def grid(self) -> np.ndarray:
        """(height, width) of single characters."""
        return np.array([list(row) for row in self.rows])

    @cached_property
    def cells(self) -> np.ndarray:
        """(S, 2) row and column of every state."""
        return np.argwhere(self.grid != WALL)

    @cached_property
    def index(self) -> np.ndarray:
        """(height, width) state of every cell, -1 for walls."""
        index = np.full(self.grid.shape, -1)
        index[tuple(self.cells.T)] = np.arange(self.n_states)
        return index

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width)."""
        return len(self.rows), len(self.rows[0])

    @property
    def n_states(self) -> int:
        return len(self.cells)

    @property
    def n_actions(self) -> int:
        return self.moves

    @property
    def action_names(self) -> tuple[str, ...]:
        return MOVE_NAMES[: self.moves]

    @cached_property
    def start(self) -> int:
        return int(self.index[self.grid == START][0])

    @cached_property
    def goal(self) -> int:
        return int(self.index[self.grid == GOAL][0])

    @cached_property
    def constrained(self) -> np.ndarray:
        """(S,) True for the cells of the hidden constraint."""
        return self.grid[tuple(self.cells.T)] == CONSTRAINED

    def state_of(self, row: int, column: int) -> int:
        """The state of a cell; UserError for a wall or a cell outside the grid."""
        state = int(self.states_of(np.array([[row, column]]))[0])
        if state < 0:
            raise UserError(
                f"row {row}, column {column} is a wall or lies outside the {self.shape[0]} x {self.shape[1]} grid"
            )
        return state

    def position_of(self, state: int) -> tuple[int, int]:
        """(row, column) of a state."""
        if not 0 <= state < self.n_states:
            raise UserError(f"state {state} does not exist: there are {self.n_states}, counted from 0")
        row, column = self.cells[state]
        return int(row), int(column)

    def states_of(self, observations: np.ndarray) -> np.ndarray:
        """States of a batch of positions (n, ..., 2) or of cell indices (n,); -1 where there is no such cell."""
        observations = np.asarray(observations)
        if observations.ndim == 1:
            valid = (observations >= 0) & (observations < self.n_states) & (observations == np.floor(observations))
            return np.where(valid, observations, -1).astype(int)
        row, column = observations[..., 0], observations[..., 1]
        inside = (row >= 0) & (row < self.shape[0]) & (column >= 0) & (column < self.shape[1])
        whole = (row == np.floor(row)) & (column == np.floor(column))
        valid = inside & whole  # NaN fails both
        at = np.where(valid, row, 0).astype(int), np.where(valid, column, 0).astype(int)
        return np.where(valid, self.index[at], -1)

    # -- dynamics: one table for the exact model and for both simulators -----------------------------------------------

    @cached_property
    def targets(self) -> np.ndarray:
        """(S, moves + 1) the state that each move leads to, -1 where impossible; the last column is staying put."""
        ends = self.cells[:, None, :] + MOVES[: self.moves]
        neighbours = self.states_of(ends)
        return np.concatenate([neighbours, np.arange(self.n_states)[:, None]], axis=1)

    @cached_property
    def outcome_probabilities(self) -> np.ndarray:
        """(S, A, moves + 1) probability of each column of `targets` when taking an action in a state."""
        n = self.moves
        legal = self.targets[:, :n] >= 0  # (S, n)
        intended = np.eye(n)  # (A, n)
        if self.slip_rule == "liu":
            moved = ((1 - self.slip) * intended + self.slip / n) * legal[:, None, :]
            total = moved.sum(axis=2, keepdims=True)
            moved = np.divide(moved, total, out=np.zeros_like(moved), where=total > 0)
        else:
            neighbours = legal.sum(axis=1, keepdims=True)
            anywhere = np.divide(legal, neighbours, out=np.zeros(legal.shape), where=neighbours > 0)
            moved = (1 - self.slip) * intended * legal[:, None, :] + self.slip * anywhere[:, None, :]
        stay = np.maximum(0.0, 1.0 - moved.sum(axis=2, keepdims=True))
        stay[stay < 1e-12] = 0.0  # rounding, not a chance to stay
        return np.concatenate([moved, stay], axis=2)

    @cached_property
    def _cumulative(self) -> np.ndarray:
        """(S, A, moves): an outcome is the number of entries <= u for u uniform in [0, 1)."""
        cumulative = self.outcome_probabilities.cumsum(axis=2)[..., :-1]
        # Rounding must not leave a sliver of probability to the impossible outcomes after the last possible one.
        cumulative[cumulative > 1 - 1e-12] = 1.0
        return cumulative

    def sample_next(self, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(n,) next states for (n,) states and actions."""
        u = rng.random(len(states))
        outcome = (self._cumulative[states, actions] <= u[:, None]).sum(axis=1)
        return self.targets[states, outcome]

    @cached_property
    def entry_rewards(self) -> np.ndarray:
        """(S,) reward of a step that ends in each state."""
        step, goal, _ = REWARDS[self.reward]
        lowest = self.cells[:, 0] == self.shape[0] - 1
        ordinary = np.where(lowest & (self.reward == "road"), ROAD, step)
        return np.where(np.arange(self.n_states) == self.goal, goal, ordinary)

    @cached_property
    def entry_costs(self) -> np.ndarray:
        """(S,) true cost of a step that ends in each state."""
        return self.constrained.astype(np.float64)

    def expected(self, entry_values: np.ndarray) -> np.ndarray:
        """(S, A) expectation over the next state of (S,) values collected on entering it; 0 from the goal."""
        values = np.einsum("sak,sk->sa", self.outcome_probabilities, entry_values[self.targets])
        values[self.goal] = 0.0
        return values

    def model(self, *, horizon: int | None = None, finite: bool = False, discount: float | None = None) -> MDP:
        """The exact model: discounted and infinite, or with `horizon` steps (`finite=True`: the simulator's).

        The goal is terminal: the reward for reaching it belongs to the step that enters it.
        """
        import scipy.sparse as sp

        from tacit.tabular import MDP

        n_states, n_actions, n_outcomes = self.outcome_probabilities.shape
        probabilities = self.outcome_probabilities.copy()
        probabilities[self.goal] = np.eye(n_outcomes)[-1]  # a self-loop keeps the rows summing to one
        pairs = np.broadcast_to(np.arange(n_states * n_actions)[:, None], (n_states * n_actions, n_outcomes))
        targets = np.broadcast_to(self.targets[:, None, :], probabilities.shape).reshape(pairs.shape)
        possible = probabilities.reshape(pairs.shape) > 0
        transitions = sp.csr_array(
            (probabilities.reshape(pairs.shape)[possible], (pairs[possible], targets[possible])),
            shape=(n_states * n_actions, n_states),
        )
        is_goal = np.arange(n_states) == self.goal
        return MDP(
            transitions,
            self.expected(self.entry_rewards),
            (np.arange(n_states) == self.start).astype(np.float64),
            self.discount if discount is None else discount,
            horizon=self.horizon if finite and horizon is None else horizon,
            terminal=is_goal,
        )

    def to_tabular(self, demos: Demonstrations) -> list[tuple[np.ndarray, np.ndarray]]:
        """Demonstrations as integer pairs (states (T+1,), actions (T,)). UserError if they do not fit."""
        from tacit.demos import validate

        validate(demos, self)
        return [(self.states_of(t.observations), np.asarray(t.actions, dtype=np.int64)) for t in demos]

    def env_kwargs(self) -> Options:
        """Keyword arguments (plain JSON) with which `gymnasium.make` builds this gridworld again, on any machine."""
        built_in = self.name in layout_names() and read_layout(self.name)[1] == self.rows
        return {
            "layout": self.name if built_in else "\n".join(self.rows) + "\n",
            "slip": float(self.slip),
            "moves": int(self.moves),
            "reward": self.reward,
            "horizon": int(self.horizon),
            "discount": float(self.discount),
            "slip_rule": self.slip_rule,
        }


def make_spec(
    layout: str | os.PathLike[str] | GridworldSpec = "paper",
    *,
    slip: float | None = None,
    moves: int | None = None,
    reward: str | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    slip_rule: str | None = None,
) -> GridworldSpec:
    """A gridworld from a built-in layout's name, a map file, a map's text, or another gridworld.

    What is None comes from the map's header, then from the reward scheme (for the horizon), then from `GridworldSpec`.
    """
    given = {
        "slip": slip,
        "moves": moves,
        "reward": reward,
        "horizon": horizon,
        "discount": discount,
        "slip_rule": slip_rule,
    }
    chosen: Options = {key: value for key, value in given.items() if value is not None}
    if isinstance(layout, GridworldSpec):
        return replace(layout, **chosen)
    name, rows, header = read_layout(layout)
    settings: Options = header | chosen
    scheme = settings.get("reward", "paper")
    if scheme in REWARDS:
        settings.setdefault("horizon", REWARDS[scheme][2])
    return GridworldSpec(rows, name=name, **settings)
