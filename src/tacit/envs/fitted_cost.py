"""A learned cost fitted to one environment: it finds its inputs by name, and tells what it knows nothing about.

A cost is an estimate from what was seen. It has no say about an observation that is not finite (a broken sensor) or
that lies outside of everything seen. Such an observation is *unknown*, and unknown counts as forbidden.

    fitted = FittedCost(cost, env)
    judgement = fitted.judge(rows)         # costs, and which rows are unknown and why
    judgement.forbidden(threshold)

A cost is used as a *price*, reward - price x cost, or as a *set*: a step is forbidden or it is not. For a set, all that
lies well outside of what the run of the cost has seen is unknown (`limits`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import iterate
from numpy.typing import ArrayLike, NDArray

from tacit.cost import LearnedCost
from tacit.cost.table import TableCost
from tacit.envs.registry import feature_names
from tacit.errors import UserError

Array = NDArray[Any]
Flags = NDArray[np.bool_]
Cost = LearnedCost | TableCost
Seen = tuple[ArrayLike, ArrayLike]
"""(low, high): the lowest and highest value of each input of a cost that was ever seen, in the order of its names."""
Limits = Mapping[str, Sequence[float]]
"""{input: (low, high)}; an input that is not named has no limits."""
MARGIN = 0.1
"""How far beyond the seen range of an input a set reaches, in widths of that range. A run keeps only some steps."""


@dataclass(frozen=True)
class Judgement:
    """What a cost says about n steps."""

    cost: Array
    """(n,) finite numbers. Of an observation that is not finite: the highest cost that there can be."""
    reasons: tuple[str, ...]
    """Why the cost of a step is unknown; "" where it is known."""

    @property
    def unknown(self) -> Flags:
        """(n,) Is the step one that the cost knows nothing about?"""
        return np.array([reason != "" for reason in self.reasons], dtype=bool)

    def forbidden(self, threshold: float | None) -> Flags:
        """(n,) Does it cost more than the threshold, or is it unknown?"""
        return self.unknown if threshold is None else self.unknown | (self.cost > threshold)


class Judge:
    """What a cost says about rows of observations that have its own layout.

    Args:
        cost: a learned cost.
        seen: (low, high) of the inputs; what lies outside is unknown. Without it, `cost.card["seen"]` if there is one.
            `(-inf, inf)` turns the check off.
    """

    def __init__(self, cost: Cost, seen: Seen | None = None) -> None:
        self.cost = cost
        self.low, self.high = _seen_range(cost, seen)

    def judge(self, obs: Array, act: Array | None = None) -> Judgement:
        """Judge rows of observations (n, ...) and, if the cost reads them, of actions (n, ...)."""
        if isinstance(self.cost, TableCost):
            return self._judge_table(self.cost, np.asarray(obs), act)
        cost = self.cost
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite
            rows = cost.inputs.rows(obs, act if cost.reads_actions else None)
        finite = np.isfinite(rows)
        sound: Flags = np.all(finite, axis=-1)
        values = np.asarray(cost.of_rows(np.where(sound[:, None], rows, np.float32(0.0))), dtype=np.float64)
        read = rows[:, list(cost.inputs.columns)]
        inside = (read >= self.low) & (read <= self.high)
        reasons = [""] * len(rows)
        for i in np.flatnonzero(~(sound & inside.all(axis=-1) & np.isfinite(values))):
            reasons[i] = self._reason(rows[i], finite[i], inside[i])
        return Judgement(np.where(sound, values, highest(cost)), tuple(reasons))

    def _judge_table(self, cost: TableCost, obs: Array, act: Array | None) -> Judgement:
        sound: Flags = np.all(np.isfinite(obs).reshape(len(obs), -1), axis=-1)
        sound_obs = obs if sound.all() else np.where(sound.reshape(-1, *[1] * (obs.ndim - 1)), obs, cost.cells[0])
        values = np.asarray(cost(sound_obs, act if cost.reads_actions else None), dtype=np.float64)
        reasons = tuple("" if fine else "the observation is not finite" for fine in sound)
        return Judgement(np.where(sound, values, highest(cost)), reasons)

    def _reason(self, row: Array, finite: Flags, inside: Flags) -> str:
        assert isinstance(self.cost, LearnedCost)
        inputs = self.cost.inputs
        if not finite.all():
            column = int(np.flatnonzero(~finite)[0])
            name = dict(zip(inputs.columns, inputs.names, strict=True)).get(column, f"entry {column}")
            return f"{name} is {row[column]}"
        if inside.all():
            return "the cost is not a number"
        i = int(np.flatnonzero(~inside)[0])
        value = row[inputs.columns[i]]
        return f"{inputs.names[i]} = {value:.6g} is outside of what was seen ({self.low[i]:.6g} to {self.high[i]:.6g})"


class FittedCost(Judge):
    """A cost with its inputs in the columns of an environment. UserError if they do not fit."""

    def __init__(self, cost: Cost, env: gym.Env[Any, Any] | VectorEnv, seen: Seen | None = None) -> None:
        super().__init__(fitted(cost, env), seen)
        self.space, _ = _spaces(env)

    def row(self, obs: Any) -> Any:
        """One observation as the cost reads it."""
        space = self.space
        plain = isinstance(space, gym.spaces.Discrete) or (isinstance(space, gym.spaces.Box) and len(space.shape) == 1)
        return obs if plain else gym.spaces.flatten(space, obs)

    def rows(self, env: VectorEnv, obs: Any) -> Array:
        """The observations of the copies of a vector environment as the cost reads them."""
        if isinstance(self.space, gym.spaces.Dict | gym.spaces.Tuple):
            return np.stack([self.row(one) for one in iterate(env.observation_space, obs)])
        rows = np.asarray(obs)
        return rows if isinstance(self.space, gym.spaces.Discrete) else rows.reshape(env.num_envs, -1)


def fitted(cost: Cost, env: gym.Env[Any, Any] | VectorEnv) -> Cost:
    """The cost with its inputs in the columns of this environment. UserError if it does not fit."""
    space, actions = _spaces(env)
    names = feature_names(env, declared=True)
    derived = feature_names(env) if names is None else None
    if derived is not None and set(cost.names) & set(derived):
        names = derived  # the cost was learned in such a structure, and knows its names
    if isinstance(cost, TableCost):
        return cost if names is None else cost.of_names(names)
    if cost.inputs.act_size:
        size = int(actions.n) if isinstance(actions, gym.spaces.Discrete) else gym.spaces.flatdim(actions)
        if size != cost.inputs.act_size:
            raise UserError(
                f"the cost reads actions of {cost.inputs.act_size} numbers, those of the environment have {size}"
            )
    if names is not None and not isinstance(space, gym.spaces.Discrete):
        return cost.of_names(names)
    if gym.spaces.flatdim(space) != cost.inputs.obs_size:
        raise UserError(
            f"the cost reads observations of {cost.inputs.obs_size} numbers ({', '.join(cost.names[:6])}, ...), those "
            f"of the environment have {gym.spaces.flatdim(space)} and no names; give it feature_names, or another cost"
        )
    return cost


def limits(cost: Cost, ranges: Limits) -> dict[str, tuple[float, float]]:
    """{input: (low, high)} beyond which a set forbids: the seen ranges, widened by MARGIN. Unread inputs have none."""
    if isinstance(cost, TableCost):
        return {}
    ends = {name: (float(ranges[name][0]), float(ranges[name][1])) for name in cost.read_names if name in ranges}
    return {name: (low - MARGIN * (high - low), high + MARGIN * (high - low)) for name, (low, high) in ends.items()}


def seen_of(cost: Cost, named: Limits) -> Seen | None:
    """Limits in the form that `Judge` takes; None for a table, which knows all of its states."""
    if isinstance(cost, TableCost):
        return None
    ends = [named.get(name, (-math.inf, math.inf)) for name in cost.names]
    return [end[0] for end in ends], [end[1] for end in ends]


def seen_of_set(cost: Cost) -> Seen | None:
    """What a set takes for known: `cost.card["seen"]`, or else what its run has seen, widened."""
    recorded = cost.card.get("ranges")
    if "seen" in cost.card or not isinstance(recorded, Mapping):
        return None
    try:
        return seen_of(cost, limits(cost, recorded))
    except (TypeError, ValueError, IndexError):
        raise UserError('the card of this cost is damaged: "ranges" must have two numbers for each input') from None


def threshold_of(cost: Cost, given: float | None) -> float | None:
    """The threshold that was given, or else the cost's own. UserError for NaN, which nothing exceeds."""
    threshold = cost.threshold if given is None else given
    if threshold is not None and math.isnan(threshold):
        raise UserError("the threshold is NaN: nothing would be forbidden")
    return threshold


def needed_threshold(cost: Cost, given: float | None, why: str) -> float:
    """The same; UserError if there is none, saying what needs it."""
    threshold = threshold_of(cost, given)
    if threshold is None:
        raise UserError(f"{why} needs a threshold: give one, or choose it with a guarantee by `tacit calibrate RUN`")
    return threshold


def _spaces(env: gym.Env[Any, Any] | VectorEnv) -> tuple[gym.Space[Any], gym.Space[Any]]:
    if isinstance(env, VectorEnv):
        return env.single_observation_space, env.single_action_space
    return env.observation_space, env.action_space


def _seen_range(cost: Cost, seen: Seen | None) -> tuple[Array, Array]:
    """(low, high), (d,) float32 as the rows of a cost are; infinite where nothing is known about what was seen."""
    if isinstance(cost, TableCost):
        if seen is not None:
            raise UserError("a cost that is a table of states knows all of them: `seen` is for costs of features")
        return np.zeros(0), np.zeros(0)
    size = len(cost.names)
    if seen is not None:
        try:
            low, high = (np.broadcast_to(np.asarray(end, dtype=np.float32), (size,)) for end in seen)
        except (TypeError, ValueError):
            names = ", ".join(cost.names)
            raise UserError(f"seen is (low, high) with {size} numbers each, one for each of {names}") from None
        return low, high
    recorded = cost.card.get("seen")
    if recorded is None:
        return np.full(size, -np.inf, np.float32), np.full(size, np.inf, np.float32)
    try:
        # A part of a cost (`LearnedCost.only`) has the card of the whole, which names the inputs of the whole.
        order = list(cost.card.get("inputs", cost.names))
        columns = [order.index(name) for name in cost.names]
        ends = [np.asarray(recorded[key], dtype=np.float32) for key in ("low", "high")]
        if any(end.shape != (len(order),) for end in ends):
            raise ValueError
        return ends[0][columns], ends[1][columns]
    except (KeyError, TypeError, ValueError):
        raise UserError('the card of this cost is damaged: "seen" must have a low and a high for each input') from None


def highest(cost: Cost) -> float:
    """The highest cost that there can be; for features without a ceiling, that of one at the clip."""
    if isinstance(cost, TableCost):
        return float(cost.table.max())
    endless = cost.linear or cost.head == "leaky"
    highest = float(cost.lam.sum(dtype=np.float64)) * (float(cost.inputs.clip) if endless else 1.0)
    highest += sum(term.highest for term in cost.terms)
    return highest if cost.threshold is None else max(highest, float(cost.threshold))
