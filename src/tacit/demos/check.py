"""Check whether demonstrations fit an environment. Every problem names the trajectory and the step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import gymnasium as gym
import numpy as np

from tacit.demos.data import Demonstrations
from tacit.envs.capabilities import capabilities
from tacit.envs.gridworld_spec import GridworldSpec
from tacit.envs.options import check_standalone
from tacit.envs.registry import feature_names, flat_space, make
from tacit.errors import UserError

TOLERANCE = 1e-5
"""Relative slack on the bounds of a Box: demonstrations may have passed through float32 or text."""


def validate(demos: Demonstrations, target: Any) -> None:
    """Raise UserError with the first problem unless the demonstrations fit the environment; see `problems`."""
    misfits = problems(demos, target)
    if misfits:
        more = f" (and {len(misfits) - 1} more problems)" if len(misfits) > 1 else ""
        raise UserError(f"the demonstrations do not fit the environment: {misfits[0]}{more}")


def problems(demos: Demonstrations, target: Any, limit: int = 20) -> list[str]:
    """The problems of the demonstrations, one sentence each, at most `limit` of them; [] if they fit.

    target: an environment (single or vectorised), an exact model (`GridworldSpec`), or an environment's id. An id is
    built with the card's env_kwargs when the card is about the same id. Where there is an exact model, every step is
    checked against it.
    """
    return list(islice(_all_problems(demos, target), limit))


def _all_problems(demos: Demonstrations, target: Any) -> Iterator[str]:
    if isinstance(target, GridworldSpec):
        yield from _model_problems(demos, target)
        return
    if isinstance(target, str):
        target = _make(demos, target)
    if not isinstance(target, gym.Env | gym.vector.VectorEnv):
        raise TypeError(f"expected an environment, its id or a GridworldSpec, not {type(target).__name__}")
    if isinstance(target, gym.vector.VectorEnv):
        spaces = {"observations": flat_space(target.single_observation_space), "actions": target.single_action_space}
    else:
        spaces = {"observations": flat_space(target.observation_space), "actions": target.action_space}
    misfits = [problem for name, space in spaces.items() for problem in _space_problems(demos, name, space)]
    yield from misfits
    yield from _name_problems(demos, feature_names(target))
    can = capabilities(target)
    if can.model is None:
        yield from _horizon_problems(demos, can.horizon)
    elif not misfits:
        yield from _model_problems(demos, can.model)


def _make(demos: Demonstrations, env_id: str) -> gym.Env[Any, Any]:
    same = demos.card.get("env") == env_id
    if same:
        check_standalone(env_id, demos.card.get("env_kwargs"), "the card of the demonstrations")
    return make(env_id, **(demos.card.get("env_kwargs") or {} if same else {}))


def _space_problems(demos: Demonstrations, name: str, space: gym.Space[Any]) -> Iterator[str]:
    array = getattr(demos, name)
    if isinstance(space, gym.spaces.Discrete):
        if array.dtype.kind not in "iu" or array.ndim != 1:
            yield f"{name} are {array.dtype} of shape {array.shape[1:]}, the environment's are integers ({space})"
            return
        bad = (array < space.start) | (array >= space.start + space.n)
        allowed = f"{space.start} ... {space.start + space.n - 1}"
    elif isinstance(space, gym.spaces.Box):
        if array.shape[1:] != space.shape:
            yield f"{name} have shape {array.shape[1:]}, the environment's have {space.shape}"
            return
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        slack = TOLERANCE * np.maximum(1.0, np.where(np.isfinite(high - low), high - low, 1.0))
        outside = (array < low - slack) | (array > high + slack)
        bad = outside.reshape(len(array), -1).any(axis=1)
        allowed = str(space)
    else:
        bad = np.array([not space.contains(row) for row in array])
        allowed = str(space)
    for row in np.flatnonzero(bad):
        yield f"{name} of {demos.where(name, int(row))} are {array[row]}, outside {allowed}"


def _name_problems(demos: Demonstrations, names: Any) -> Iterator[str]:
    given = demos.card.get("feature_names")
    if names is not None and given is not None and tuple(names) != tuple(given):
        yield (
            f"its feature names are {', '.join(given)}, the environment's are {', '.join(names)}: "
            "give its entries these names, in this order"
        )


def _horizon_problems(demos: Demonstrations, horizon: int | None) -> Iterator[str]:
    if horizon is not None:
        for i in np.flatnonzero(demos.lengths > horizon):
            yield f"trajectory {i} has {demos.lengths[i]} steps, more than the environment's horizon of {horizon}"


def _model_problems(demos: Demonstrations, grid: GridworldSpec) -> Iterator[str]:
    """Against the exact model: cells, actions, start, moves, goal, rewards, costs, horizon."""
    positions = demos.observations.ndim == 2 and demos.observations.shape[1] == 2
    if not positions and (demos.observations.ndim != 1 or demos.observations.dtype.kind not in "iu"):
        yield f"observations have shape {demos.observations.shape[1:]}, expected (2,): row and column"
        return
    if demos.actions.ndim != 1 or demos.actions.dtype.kind not in "iu":
        yield f"actions are {demos.actions.dtype} of shape {demos.actions.shape[1:]}, expected integers"
        return
    yield from _name_problems(demos, ("row", "column") if positions else ("state",))
    states = grid.states_of(demos.observations)
    misfit = False
    for row in np.flatnonzero(states < 0):
        misfit = True
        yield f"{demos.where('observations', int(row))}: {demos.observations[row]} is a wall or outside the grid"
    for row in np.flatnonzero((demos.actions < 0) | (demos.actions >= grid.n_actions)):
        misfit = True
        yield f"{demos.where('actions', int(row))}: action {demos.actions[row]} is not in 0 ... {grid.n_actions - 1}"
    if misfit:
        return
    before, after = states[demos.rows_before], states[demos.rows_before + 1]
    start, goal = grid.position_of(grid.start), grid.position_of(grid.goal)
    for i in np.flatnonzero(states[demos.row_offsets] != grid.start):
        yield f"trajectory {i} starts at {grid.position_of(int(states[demos.row_offsets[i]]))}, not at {start}"
    for row in np.flatnonzero(before == grid.goal):
        yield f"{demos.where('actions', int(row))}: goes on after reaching the goal at {goal}"
    reached = grid.targets[before] == after[:, None]
    possible = (reached & (grid.outcome_probabilities[before, demos.actions] > 0)).any(axis=1)
    for row in np.flatnonzero(~possible & (before != grid.goal)):
        yield (
            f"{demos.where('actions', int(row))}: the move {grid.action_names[demos.actions[row]]!r} cannot lead from "
            f"{grid.position_of(int(before[row]))} to {grid.position_of(int(after[row]))} with slip {grid.slip:g}"
        )
    last = after[demos.step_offsets + demos.lengths - 1]
    for i in np.flatnonzero((last == grid.goal) != demos.terminated):
        there = (
            "ends at the goal but is not marked" if last[i] == grid.goal else "does not end at the goal but is marked"
        )
        yield f"trajectory {i} {there} as terminated"
    for name, recorded, expected in (
        ("reward", demos.rewards, grid.entry_rewards[after]),
        ("cost", demos.costs, grid.entry_costs[after]),
    ):
        if recorded is not None:
            for row in np.flatnonzero(np.abs(recorded - expected) > TOLERANCE):
                yield f"{demos.where('actions', int(row))}: {name} {recorded[row]:g}, here it is {expected[row]:g}"
    yield from _horizon_problems(demos, grid.horizon)
