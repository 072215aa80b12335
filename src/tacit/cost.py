"""A learned cost as an artefact: named observations (and actions) in, numbers >= 0 out, NumPy only.

    cost = LearnedCost.load("runs/.../model/cost.safetensors")
    cost(obs)                     # one observation or a batch of them
    cost(obs, act)                # a cost that reads actions too
    cost.of_steps(obs, act, next_obs)      # of whole steps: state costs are those of the state that a step reaches

The cost is  c(z) = lam . phi(z)  with lam >= 0 and features phi in (0, 1) of the inputs

    z = squash((x - centre) / scale),      squash(u) = arsinh(u) or u,      within +-clip                        (1)

x are the entries of the observation and the action that the cost names. arsinh is linear near the centre and
logarithmic far away, so that one metre at a wall and a hundred metres of open road both keep their resolution. Two
kinds of features, whose values are put side by side:

    thresholds   phi_jk = sigmoid(slope_jk z_j + offset_jk): soft thresholds on single inputs, an additive cost
    joint        sigmoid outputs of a ReLU network on all inputs

If there are none of either, the inputs themselves are the features: a linear cost of features that the user gives.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit import storage
from tacit.errors import UserError

Array = NDArray[Any]
VERSION = 1
ACTION = "action"
"""Actions are named action[0], action[1], ... unless the environment names them."""
CLIPPED_TOO_OFTEN = 0.01
"""Share of steps with an input beyond the clip from which a cost is no longer to be trusted."""


@dataclass(frozen=True)
class Inputs:
    """What a cost reads and how it is scaled, see (1). Frozen: the same numbers during and after training."""

    names: tuple[str, ...]
    columns: tuple[int, ...]
    """Of [observation | action], one for each name."""
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

    @property
    def reads_actions(self) -> bool:
        return any(column >= self.obs_size for column in self.columns)

    def rows(self, obs: ArrayLike, act: ArrayLike | None = None) -> Array:
        """[observation | action] (B, obs_size + act_size) float32; without the action if none is read."""
        obs = np.asarray(obs, dtype=np.float32)
        if obs.shape[-1:] != (self.obs_size,):
            raise UserError(f"the cost reads observations of {self.obs_size} numbers, not of shape {obs.shape}")
        if not self.act_size:
            return obs
        if act is None:
            raise UserError("this cost reads actions: call cost(obs, act)")
        act = np.asarray(act)
        act = np.eye(self.n_actions, dtype=np.float32)[act] if self.n_actions else act.astype(np.float32)
        if act.shape != (*obs.shape[:-1], self.act_size):
            raise UserError(f"the cost reads actions of {self.act_size} numbers for each observation, not {act.shape}")
        return np.concatenate([obs, act], axis=-1)

    def scaled(self, rows: Array) -> Array:
        """z (B, d) float32 of rows (B, obs_size + act_size)."""
        u = (rows[..., list(self.columns)] - self.centre) / self.scale
        if self.squash:
            u = np.arcsinh(u)
        return np.clip(u, -self.clip, self.clip)

    def clipped_share(self, rows: Array) -> float:
        """Share of rows in which some input is beyond the clip."""
        return float((np.abs(self.scaled(rows)) >= self.clip).any(axis=-1).mean())


def sigmoid(x: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


@dataclass(frozen=True)
class LearnedCost:
    """c = lam . phi(z), see the module's docstring."""

    inputs: Inputs
    lam: Array
    """(k,) float32, >= 0: of the thresholds first (input by input), then of the joint features."""
    slopes: Array
    offsets: Array
    """(d, m) float32: m soft thresholds for each input; m may be 0."""
    weights: tuple[Array, ...] = ()
    biases: tuple[Array, ...] = ()
    """Of the joint network, (in, out) and (out,); none if there are no joint features."""
    at: Literal["next", "current"] = "next"
    """Which observation of a step the cost is about: the one that it reaches, or the one acted in."""
    unit: float = 1.0
    """Reward per unit of cost during training: the policy maximised  reward - unit * cost."""
    threshold: float | None = None
    """Costs above it count as forbidden."""
    card: Mapping[str, Any] = field(default_factory=dict)

    @property
    def linear(self) -> bool:
        """The inputs themselves are the features."""
        return self.slopes.size == 0 and not self.weights

    def features(self, z: Array) -> Array:
        """phi (B, k) of scaled inputs (B, d)."""
        if self.linear:
            return z
        parts = [sigmoid(z[..., None] * self.slopes + self.offsets).reshape(*z.shape[:-1], -1)]
        if self.weights:
            x = z
            for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
                x = np.maximum(x @ weight + bias, 0.0)
            parts.append(sigmoid(x @ self.weights[-1] + self.biases[-1]))
        return np.concatenate(parts, axis=-1)

    def of_rows(self, rows: Array) -> Array:
        """Cost (B,) of rows [observation | action]."""
        return self.features(self.inputs.scaled(rows)) @ self.lam

    def __call__(self, obs: ArrayLike, act: ArrayLike | None = None) -> Array:
        """Cost (...) of observations (..., obs_size), and of actions (..., A) if the cost reads them."""
        return self.of_rows(self.inputs.rows(obs, act))

    def of_steps(self, obs: ArrayLike, act: ArrayLike, next_obs: ArrayLike) -> Array:
        """Cost (B,) of steps: the form that PPO-Lagrangian asks for."""
        return self(next_obs if self.at == "next" else obs, act)

    def profile(self, name: str, values: ArrayLike, around: ArrayLike) -> Array:
        """Cost (n,) along one named input, the other entries of [observation | action] as in the row `around`."""
        if name not in self.inputs.names:
            raise UserError(f"the cost does not read {name!r}; it reads {', '.join(self.inputs.names)}")
        rows = np.tile(np.asarray(around, dtype=np.float32), (len(np.asarray(values)), 1))
        rows[:, self.inputs.columns[self.inputs.names.index(name)]] = values
        return self.of_rows(rows)

    # ------------------------------------------------------------ saving

    def to_arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """(arrays, JSON card) for `storage.save_arrays`."""
        arrays = {"lam": self.lam, "slopes": self.slopes, "offsets": self.offsets}
        arrays |= {"centre": self.inputs.centre, "scale": self.inputs.scale}
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            arrays |= {f"weight{i}": weight, f"bias{i}": bias}
        inputs = self.inputs
        return arrays, {
            **self.card,
            "kind": "cost",
            "version": VERSION,
            "inputs": list(inputs.names),
            "columns": list(inputs.columns),
            "obs_size": inputs.obs_size,
            "act_size": inputs.act_size,
            "n_actions": inputs.n_actions,
            "squash": inputs.squash,
            "clip": inputs.clip,
            "at": self.at,
            "unit": self.unit,
            "threshold": self.threshold,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], card: Mapping[str, Any]) -> LearnedCost:
        """What `to_arrays` gave; UserError if the arrays do not fit together or are something else."""
        if card.get("kind") != "cost" or card.get("version") != VERSION:
            raise UserError("this file does not hold a learned cost of this version of Tacit")
        try:
            inputs = Inputs(
                names=tuple(card["inputs"]),
                columns=tuple(card["columns"]),
                centre=arrays["centre"],
                scale=arrays["scale"],
                **{key: card[key] for key in ("obs_size", "act_size", "squash", "clip", "n_actions")},
            )
            layers = sum(name.startswith("weight") for name in arrays)
            cost = cls(
                inputs=inputs,
                weights=tuple(arrays[f"weight{i}"] for i in range(layers)),
                biases=tuple(arrays[f"bias{i}"] for i in range(layers)),
                card=dict(card),
                lam=arrays["lam"],
                slopes=arrays["slopes"],
                offsets=arrays["offsets"],
                **{key: card[key] for key in ("at", "unit", "threshold")},
            )
        except KeyError as error:
            raise UserError(f"this cost file lacks {error}") from None
        cost._check()
        return cost

    def _check(self) -> None:
        """UserError unless shapes fit and numbers are finite."""
        d, layers = len(self.inputs.names), (*self.weights, *self.biases)
        sizes = [d, *(weight.shape[-1] for weight in self.weights)]
        shapes = [weight.shape for weight in self.weights] == list(itertools.pairwise(sizes))
        k = d if self.linear else self.slopes.size + (sizes[-1] if self.weights else 0)
        total = self.inputs.obs_size + self.inputs.act_size
        fits = (
            shapes
            and [bias.shape for bias in self.biases] == [(size,) for size in sizes[1:]]
            and self.slopes.shape == self.offsets.shape
            and self.slopes.shape[:1] == self.inputs.centre.shape == self.inputs.scale.shape == (d,)
            and self.lam.shape == (k,)
            and len(self.inputs.columns) == d
            and all(isinstance(column, int) and 0 <= column < total for column in self.inputs.columns)
            and self.at in ("next", "current")
        )
        numbers = (self.lam, self.slopes, self.offsets, self.inputs.centre, self.inputs.scale, *layers)
        if not fits or not all(np.isfinite(array).all() for array in numbers) or (self.lam < 0).any():
            raise UserError("the arrays of this cost file do not fit together: it is damaged")

    def save(self, path: str | os.PathLike[str]) -> None:
        storage.save_arrays(path, *self.to_arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LearnedCost:
        return cls.from_arrays(*storage.load_arrays(path))

    def with_card(self, **entries: Any) -> LearnedCost:
        return replace(self, card={**self.card, **entries})


def choose_columns(names: Sequence[str], wanted: Sequence[str]) -> tuple[int, ...]:
    """Positions of the wanted names; UserError with the nearest name for one that is not there."""
    import difflib

    columns = []
    for name in wanted:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
            raise UserError(f"the environment has no feature {name!r}; {hint}")
        columns.append(list(names).index(name))
    return tuple(columns)
