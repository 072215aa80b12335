"""Step an environment from any observation, to see whether it leads where a demonstration says.

    stepper = find_stepper(env)                 None if the environment's state cannot be set
    stepper.step(observation, action)           what the environment makes of it

An observation has to be turned into a state. An environment may declare how (`state_of`). Otherwise it is found out:
the environment is run for a moment, and every number of its state is looked for among the entries of the observation,
as a sum of them, or as the angle of a cosine and a sine. What is not shown (a robot's x, say) stays as after a reset.
How much that matters is measured on steps of the environment's own: `Stepper.own_error`.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from tacit.demos.evidence import change_scale, error_sizes
from tacit.envs.capabilities import StateAccess, capabilities
from tacit.envs.registry import is_flat

Array = NDArray[Any]
PROBES = 120
"""Number of the environment's own steps that are taken, plus three per entry of an observation."""
VISIBLE = 1e-4
"""Largest deviation, in units of its spread, of a number of the state that an observation shows."""
NOT_PHYSICAL = ("rng", "steps", "step", "time", "elapsed", "seed", "episode")
"""Parts of a state that no observation shows and that do not matter for one step."""


class Outcome(NamedTuple):
    """The result of one step."""

    observation: Array
    reward: float
    cost: float | None
    terminated: bool


class Own(NamedTuple):
    """Steps of the environment's own: rows before and after, actions, outcomes."""

    before: Array
    actions: list[Any]
    after: list[Outcome]


class Stepper:
    """An environment that is put into the state of an observation before every step."""

    def __init__(self, env: gym.Env[Any, Any], put: Callable[[Array], None], own: Own, hidden: tuple[str, ...]) -> None:
        self.env, self._put, self.own, self.hidden = env, put, own, hidden
        self._limits = _clipped_at(own.before)
        self.whole = isinstance(env.observation_space, gym.spaces.Discrete)

    def shows(self, observations: Array) -> NDArray[np.bool_]:
        """(n,) which observations (n, entries) are not clipped, as velocities of some robots are."""
        table = observations.reshape(len(observations), -1)
        return ~np.asarray(np.isclose(np.abs(table), self._limits, rtol=1e-6, atol=0.0).any(axis=1))

    def step(self, observation: Array, action: Any) -> Outcome:
        """The result of an action from this observation. The environment's randomness is part of it."""
        self._put(np.atleast_1d(np.asarray(observation, np.float64)))
        outcome = _step(self.env, action)
        if outcome.terminated:
            _reset(self.env, None)
        return outcome

    def steps(self, observations: Array, actions: Sequence[Any] | Array) -> Array:
        """(n, entries) observations that the actions lead to."""
        outcomes = [self.step(o, a) for o, a in zip(observations, actions, strict=True)]
        return rows_of(outcomes)

    @cached_property
    def own_error(self) -> float:
        """Error of the environment's own steps, 95th percentile: what it cannot repeat, or does not show."""
        own, after = self.own, rows_of(self.own.after)
        clear = np.flatnonzero(self.shows(own.before))
        if len(clear) < 10:
            return float("inf")
        subset = clear[np.linspace(0, len(clear) - 1, min(60, len(clear))).astype(int)]
        again = self.steps(own.before[subset], [own.actions[i] for i in subset])
        return float(np.quantile(error_sizes(again, after[subset], change_scale(own.before, after)), 0.95))


def rows_of(outcomes: Sequence[Outcome]) -> Array:
    """(n, entries) the observations of outcomes, as numbers."""
    return np.stack([np.ravel(outcome.observation) for outcome in outcomes]).astype(np.float64)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence MuJoCo's warnings (stderr and log file) about states in which no robot can be."""
    mujoco: Any = sys.modules.get("mujoco")
    if mujoco is None:
        yield
        return
    handler = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(handler)


def _step(env: gym.Env[Any, Any], action: Any) -> Outcome:
    space = env.action_space
    kind: Any = space.dtype
    action = kind.type(action) if isinstance(space, gym.spaces.Discrete) else np.asarray(action, kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        observation, reward, terminated, _, info = env.step(action)
    cost = info.get("cost") if isinstance(info, dict) else None
    usable = isinstance(cost, int | float | np.number)
    return Outcome(np.atleast_1d(observation), float(reward), float(cost) if usable else None, bool(terminated))  # type: ignore[arg-type]


def _reset(env: gym.Env[Any, Any], seed: int | None) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.atleast_1d(env.reset(seed=seed)[0])


def find_stepper(env: gym.Env[Any, Any]) -> Stepper | None:
    """A stepper for an environment whose state can be set and is shown by its observations; else None."""
    spaces = (gym.spaces.Box, gym.spaces.Discrete)
    if not is_flat(env.observation_space) or not isinstance(env.action_space, spaces):
        return None
    if not isinstance(env.observation_space, spaces) or len(env.observation_space.shape or ()) > 1:
        return None
    can = capabilities(env)
    access = can.physical_state or can.state or _attribute_state(env)
    if access is None:
        return None
    try:
        own, states = _probe(env, access)
    except Exception:  # somebody's environment, whose state is not what we take it for
        return None
    state_of = can.state_of
    if can.state is not None and state_of is not None:
        setter = can.state.set

        def declared(observation: Array) -> None:
            setter(state_of(observation))

        return Stepper(env, declared, own, ())
    mapping = _Mapping(own, states)
    if not mapping.useful:
        return None

    def inferred(observation: Array) -> None:
        access.set(mapping.state(observation))

    return Stepper(env, inferred, own, mapping.hidden)


def _attribute_state(env: gym.Env[Any, Any]) -> StateAccess | None:
    """The attribute `state` of Gymnasium's classic environments."""
    inner: Any = env.unwrapped
    _reset(env, 0)
    state = getattr(inner, "state", None)
    if not isinstance(state, tuple | list | np.ndarray) or np.asarray(state).dtype.kind != "f":
        return None

    def put(values: Any) -> None:
        inner.state = np.array(values["state"], np.float64)

    return StateAccess(lambda: {"state": np.array(inner.state, np.float64)}, put)


def _probe(env: gym.Env[Any, Any], access: StateAccess) -> tuple[Own, list[dict[str, Array]]]:
    """(steps of the environment's own, the states before them): several short episodes of random actions."""
    space = env.action_space
    size = int(np.prod(env.observation_space.shape or (1,)))
    rng = np.random.default_rng(0)
    before, actions, after, states = [], [], [], []
    steps, episodes = PROBES + 3 * size, 12
    for episode in range(episodes):
        observation = _reset(env, episode)
        for _ in range(-(-steps // episodes)):
            action = _random_action(space, rng)
            states.append({name: np.array(value) for name, value in access.get().items()})
            outcome = _step(env, action)
            before.append(np.asarray(observation, np.float64))
            actions.append(action)
            after.append(outcome)
            observation = outcome.observation
            if outcome.terminated:
                break
    _reset(env, 0)
    return Own(np.stack(before), actions, after), states


def _random_action(space: gym.Space[Any], rng: np.random.Generator) -> Any:
    if isinstance(space, gym.spaces.Discrete):
        return int(space.start + rng.integers(space.n))
    assert isinstance(space, gym.spaces.Box)
    low, high = np.maximum(space.low, -1e3), np.minimum(space.high, 1e3)
    return rng.uniform(low, high).astype(space.dtype)


class _Mapping:
    """How the numbers of a state follow from an observation: state = matrix @ (observation, 1), where they do."""

    def __init__(self, own: Own, states: list[dict[str, Array]]) -> None:
        self.template = states[0]
        self.names = [name for name in self.template if not any(word in name.lower() for word in NOT_PHYSICAL)]
        self.circles = _circles(own.before)
        rows = self._row(own.before)
        clipped = np.abs(own.before) >= _clipped_at(own.before)
        clipped[:, clipped.mean(axis=0) > 0.9] = False
        table = np.stack([self._flat(state) for state in states])
        self.matrix = np.zeros((table.shape[1], rows.shape[1]))
        self.visible = np.zeros(table.shape[1], bool)
        solution = np.linalg.lstsq(rows, table, rcond=None)[0].T if table.size else self.matrix
        rounded = np.where(np.abs(solution - np.round(solution)) < 1e-3, np.round(solution), solution)
        for k in range(table.shape[1]):
            spread = max(float(table[:, k].std()), 1e-9)
            difference = rows - table[:, k : k + 1]
            difference[:, own.before.shape[1] : -1] = _wrapped(difference[:, own.before.shape[1] : -1])
            difference[:, : own.before.shape[1]][clipped] = 0.0
            equal = np.abs(difference).max(axis=0) <= VISIBLE * spread
            if equal[:-1].any():
                self.matrix[k], self.visible[k] = np.eye(rows.shape[1])[np.argmax(equal)], True
                continue
            for weights in (rounded[k], solution[k]):
                if np.abs(rows @ weights - table[:, k]).max() <= VISIBLE * spread:
                    self.matrix[k], self.visible[k] = weights, True
                    break
        labels = [f"{name}[{i}]" for name in self.names for i in range(np.size(self.template[name]))]
        self.hidden = tuple(label for label, visible in zip(labels, self.visible, strict=True) if not visible)
        self.useful = bool(self.visible.any())

    def _row(self, observations: Array) -> Array:
        """(n, entries + angles + 1)"""
        angles = [np.arctan2(observations[:, j], observations[:, i]) for i, j in self.circles]
        return np.column_stack([observations, *angles, np.ones(len(observations))])

    def _flat(self, state: dict[str, Array]) -> Array:
        parts = [np.ravel(state[name]).astype(np.float64) for name in self.names]
        return np.concatenate(parts) if parts else np.zeros(0)

    def state(self, observation: Array) -> dict[str, Array]:
        visible = self.matrix @ self._row(observation[None])[0]
        values = np.where(self.visible, visible, self._flat(self.template))
        state, at = dict(self.template), 0
        for name in self.names:
            old = self.template[name]
            state[name] = values[at : at + old.size].reshape(old.shape).astype(old.dtype)
            at += old.size
        return state


def _circles(observations: Array) -> list[tuple[int, int]]:
    """Pairs of entries that are the cosine and the sine of an angle."""
    pairs = list(itertools.permutations(range(observations.shape[1]), 2)) if observations.shape[1] <= 40 else []
    lengths = [np.abs(np.hypot(observations[:, i], observations[:, j]) - 1.0).max() for i, j in pairs]
    return [pair for pair, off in zip(pairs, lengths, strict=True) if off < 1e-5]


def _clipped_at(observations: Array) -> Array:
    """(entries,) the size at which an entry is clipped; infinite where it is not."""
    largest = np.abs(observations).max(axis=0)
    often = (np.abs(observations) == largest).sum(axis=0) > 1
    return np.where(often & (largest > 1.0) & (observations.std(axis=0) > 1e-6), largest, np.inf)


def _wrapped(angles: Array) -> Array:
    return np.asarray((angles + np.pi) % (2 * np.pi) - np.pi)
