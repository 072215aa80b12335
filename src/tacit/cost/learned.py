"""A learned cost as an artefact: named observations (and actions) in, numbers >= 0 out, NumPy only.

    cost = tacit.load_cost("runs/...")                    # a run folder, or a file: model/cost.safetensors
    cost(obs)                     # one observation or a batch of them
    cost(obs, act)                # a cost that reads actions too
    cost.of_steps(obs, act, next_obs)      # of whole steps: state costs are those of the state that a step reaches

The cost is  c(z) = lam . phi(z)  with lam >= 0 and features phi in (0, 1) of the inputs

    z = squash((x - centre) / scale),      squash(u) = arsinh(u) or u,      within +-clip                        (1)

x are the entries of the observation and the action that the cost names (`tacit.cost.inputs`). Two kinds of features,
whose values are put side by side:

    thresholds   phi_jk = sigmoid(slope_jk z_j + offset_jk): soft thresholds on single inputs, an additive cost
    joint        sigmoid outputs of a ReLU network on all inputs. Or (head "beta") one feature, b / (a + b), where a and
                 b are the soft-plus of its two outputs and a floor: the mean of 1 - x for x ~ Beta(a, b). Or (head
                 "leaky") its outputs themselves, those below 0 made 100 times smaller: a cost that can be negative

If there are none of either, the inputs themselves are the features: a linear cost of features that the user gives.
A cost may also be made of terms (`tacit.cost.terms`), tables on one or two inputs, instead of these features. They read
the inputs as they are, without (1).
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.cost import terms as tables
from tacit.cost.inputs import MOST_INPUTS, Inputs
from tacit.cost.objects import Nearest
from tacit.cost.table import LARGEST, TableCost
from tacit.errors import UserError
from tacit.run import disk, storage
from tacit.run.summary import Card, Record

if TYPE_CHECKING:
    from tacit.run import Run

Array = NDArray[Any]
VERSION = 1


def sigmoid(x: Array) -> Array:
    # In place: for one observation the allocations would cost as much as the arithmetic.
    x = np.multiply(x, 0.5)
    np.tanh(x, out=x)
    x += 1.0
    x *= 0.5
    return x


LEAK = 0.01
"""Slope of the head "leaky" below 0."""
BETA_FLOOR = 1e-4
"""Smallest parameter of a Beta distribution: without one, densities and their gradients overflow."""


def leaky(outputs: Array) -> Array:
    """The outputs; negative ones are multiplied by LEAK."""
    kept: Array = np.maximum(outputs, np.float32(LEAK) * outputs)
    return kept


def beta_mean(outputs: Array) -> Array:
    """(..., 1): b / (a + b) for a, b = softplus(outputs) + floor, outputs (..., 2)."""
    a_b = np.logaddexp(outputs, 0.0) + np.float32(BETA_FLOOR)
    mean: Array = a_b[..., 1:] / a_b.sum(axis=-1, keepdims=True)
    return mean


@dataclass(frozen=True)
class LearnedCost:
    """c = lam . phi(z), see the module's docstring."""

    inputs: Inputs
    lam: Array
    """(k,) float32, >= 0: multipliers of the thresholds (input by input), then of the joint features."""
    slopes: Array
    offsets: Array
    """(d, m) float32: m soft thresholds for each input; m may be 0."""
    weights: tuple[Array, ...] = ()
    biases: tuple[Array, ...] = ()
    """Layers of the joint network, (in, out) and (out,). There are none without joint features."""
    head: Literal["sigmoid", "beta", "leaky"] = "sigmoid"
    """Function that turns the joint network's outputs into features."""
    at: Literal["next", "current"] = "next"
    """Observation of a step that the cost reads: the one reached (next), or the one acted in (current)."""
    unit: float = 1.0
    """Reward per unit of cost during training: the policy maximised  reward - unit * cost."""
    threshold: float | None = None
    """Costs above it count as forbidden."""
    terms: tuple[tables.Term, ...] = ()
    """Tables on one or two inputs, whose sum is the cost; then it has no other features."""
    card: Record = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return self.inputs.names

    @property
    def read_names(self) -> tuple[str, ...]:
        """The inputs that the cost depends on: of a sum of terms, only those of its terms."""
        if not self.is_sum:
            return self.names
        return tuple(name for name in self.names if any(name in term.names for term in self.terms))

    @property
    def reads_actions(self) -> bool:
        return self.inputs.reads_actions

    @property
    def linear(self) -> bool:
        """Whether the inputs themselves are the features."""
        return self.slopes.size == 0 and not self.weights and not self.is_sum

    @property
    def is_sum(self) -> bool:
        """Whether the cost is a sum of terms. Without a single one it is 0: no constraint was found."""
        return self.lam.size == 0

    def features(self, z: Array) -> Array:
        """phi (B, k) of scaled inputs (B, d)."""
        if self.linear:
            return z
        parts = []
        if self.slopes.size:
            parts.append(sigmoid(z[..., None] * self.slopes + self.offsets).reshape(*z.shape[:-1], -1))
        if self.weights:
            x = z
            for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
                x = x @ weight
                x += bias
                x = np.maximum(x, 0.0, out=x)
            outputs = x @ self.weights[-1] + self.biases[-1]
            heads = {"sigmoid": sigmoid, "beta": beta_mean, "leaky": leaky}
            parts.append(heads[self.head](outputs))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def of_rows(self, rows: Array) -> Array:
        """Cost (B,) of rows [observation | derived | action], see `Inputs.rows`."""
        if self.is_sum:
            return np.sum([term.of_rows(rows) for term in self.terms] or np.zeros((1, *rows.shape[:-1])), axis=0)
        return self.features(self.inputs.scaled(rows)) @ self.lam

    def __call__(self, obs: ArrayLike, act: ArrayLike | None = None) -> Array:
        """Cost (...) of observations (..., obs_size), and of actions (..., A) if the cost reads them."""
        return self.of_rows(self.inputs.rows(obs, act))

    def of_steps(self, obs: ArrayLike, act: ArrayLike, next_obs: ArrayLike) -> Array:
        """Cost (B,) of steps: the form that PPO-Lagrangian asks for."""
        return self(next_obs if self.at == "next" else obs, act)

    def of_names(self, names: Sequence[str]) -> LearnedCost:
        """The same cost for observations whose entries have these names, in any order; UserError if one is missing."""
        inputs = self.inputs.of_names(names)
        columns = dict(zip(inputs.names, inputs.columns, strict=True))
        moved = tuple(replace(term, columns=tuple(columns[name] for name in term.names)) for term in self.terms)
        return replace(self, inputs=inputs, terms=moved)

    def only(self, names: Sequence[str]) -> LearnedCost:
        """The part of an additive cost that is about these of its inputs; UserError if it is not additive.

        Every input adds terms of its own, none of them negative: inputs that are left out cost nothing any more. The
        threshold of the whole does not carry over.
        """
        if self.weights:
            raise UserError(
                f"this cost is a network on all of its {len(self.names)} inputs together, so it has no part that "
                "reads only a few of them"
            )
        kept = [i for i, name in enumerate(self.names) if name in names]
        if len(kept) < len(set(names)):
            raise UserError(f"the cost reads {', '.join(self.names)}, not all of {', '.join(names)}")
        columns = tuple(self.inputs.columns[i] for i in kept)
        inputs = replace(
            self.inputs,
            names=tuple(self.names[i] for i in kept),
            columns=columns,
            act_size=self.inputs.act_size if any(column >= self.inputs.first_action for column in columns) else 0,
            centre=self.inputs.centre[kept],
            scale=self.inputs.scale[kept],
        )
        lam = self.lam if self.is_sum else self.lam.reshape(len(self.names), -1)[kept].reshape(-1)
        slopes, offsets = self.slopes[kept], self.offsets[kept]
        terms = tuple(term for term in self.terms if set(term.names) <= set(names))
        return replace(self, inputs=inputs, threshold=None, lam=lam, slopes=slopes, offsets=offsets, terms=terms)

    def profile(self, name: str, values: ArrayLike, around: ArrayLike) -> Array:
        """Cost (n,) along one named input, the other entries of [observation | action] as in the row `around`."""
        if name not in self.inputs.names:
            raise UserError(f"the cost does not read {name!r}; it reads {', '.join(self.inputs.names)}")
        rows = np.tile(np.asarray(around, dtype=np.float32), (len(np.asarray(values)), 1))
        rows[:, self.inputs.columns[self.inputs.names.index(name)]] = values
        return self.of_rows(rows)

    # ------------------------------------------------------------ saving

    def to_arrays(self) -> tuple[dict[str, Array], Card]:
        """(arrays, JSON card) for `storage.save_arrays`."""
        arrays = {"lam": self.lam, "slopes": self.slopes, "offsets": self.offsets}
        arrays |= {"centre": self.inputs.centre, "scale": self.inputs.scale}
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            arrays |= {f"weight{i}": weight, f"bias{i}": bias}
        arrays |= tables.to_arrays(self.terms)
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
            **({"derived": [one.to_json() for one in inputs.derived]} if inputs.derived else {}),
            **({} if self.head == "sigmoid" else {"head": self.head}),
            **({"terms": tables.names_of(self.terms)} if self.is_sum else {}),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], card: Record) -> LearnedCost:
        """Inverse of `to_arrays`; UserError if the arrays do not fit together or are something else."""
        if card.get("kind") != "cost" or card.get("version") != VERSION:
            raise UserError("this file does not hold a learned cost of this version of Tacit")
        try:
            inputs = Inputs(
                names=tuple(card["inputs"]),
                columns=tuple(card["columns"]),
                centre=arrays["centre"],
                scale=arrays["scale"],
                **{key: card[key] for key in ("obs_size", "act_size", "squash", "clip", "n_actions")},
                derived=tuple(Nearest.from_json(one, card["obs_size"]) for one in card.get("derived", [])),
            )
            layers = sum(name.startswith("weight") for name in arrays)
            cost = cls(
                inputs=inputs,
                weights=tuple(arrays[f"weight{i}"] for i in range(layers)),
                biases=tuple(arrays[f"bias{i}"] for i in range(layers)),
                card=dict(card),
                head=card.get("head", "sigmoid"),
                terms=tables.from_arrays(
                    arrays, card.get("terms", []), dict(zip(inputs.names, inputs.columns, strict=False))
                ),
                lam=arrays["lam"],
                slopes=arrays["slopes"],
                offsets=arrays["offsets"],
                **{key: card[key] for key in ("at", "unit", "threshold")},
            )
        except KeyError as error:
            raise UserError(f"this cost file lacks {error}") from None
        except TypeError:
            raise UserError("the card of this cost file is damaged") from None
        if any(array.ndim == 0 for array in arrays.values()):
            raise UserError("the arrays of this cost file do not fit together: it is damaged")
        cost._check()
        return cost

    def _check(self) -> None:
        """UserError unless shapes fit and numbers are finite."""
        inputs = self.inputs
        sizes_known = all(
            isinstance(size, int) and 0 <= size <= MOST_INPUTS
            for size in (inputs.obs_size, inputs.act_size, inputs.n_actions)
        )
        plain = (
            sizes_known
            and all(isinstance(name, str) for name in inputs.names)
            and isinstance(inputs.squash, bool)
            and isinstance(inputs.clip, int | float)
            and 0 < inputs.clip <= LARGEST
            and isinstance(self.unit, int | float)
            and math.isfinite(self.unit)
            and (self.threshold is None or (isinstance(self.threshold, int | float) and 0 <= self.threshold <= LARGEST))
            and (not inputs.n_actions or inputs.act_size in (0, inputs.n_actions))
        )
        if not plain or any(array.dtype.kind != "f" for array in self.to_arrays()[0].values()):
            raise UserError("the card of this cost file is damaged")
        d, layers = len(self.inputs.names), (*self.weights, *self.biases)
        sizes = [d, *(weight.shape[-1] for weight in self.weights)]
        shapes = [weight.shape for weight in self.weights] == list(itertools.pairwise(sizes))
        joint = 0 if not self.weights else 1 if self.head == "beta" else sizes[-1]
        k = d if self.linear else self.slopes.size + joint
        alone = not self.is_sum or not (self.slopes.size or self.weights)
        total = self.inputs.width
        fits = (
            shapes
            and alone
            and [bias.shape for bias in self.biases] == [(size,) for size in sizes[1:]]
            and self.slopes.shape == self.offsets.shape
            and self.slopes.shape[:1] == self.inputs.centre.shape == self.inputs.scale.shape == (d,)
            and self.lam.shape == (k,)
            and len(self.inputs.columns) == d
            and all(isinstance(column, int) and 0 <= column < total for column in self.inputs.columns)
            and self.at in ("next", "current")
            and (self.head in ("sigmoid", "leaky") or (self.head == "beta" and sizes[-1] == 2))
        )
        numbers = (self.lam, self.slopes, self.offsets, self.inputs.centre, self.inputs.scale, *layers)
        sound = all(np.isfinite(array).all() for array in numbers) and (self.inputs.scale > 0).all()
        if not fits or not sound or (self.lam < 0).any():
            raise UserError("the arrays of this cost file do not fit together: it is damaged")
        if not self._bound() <= LARGEST:
            raise UserError("the weights of this cost file are so large that its cost would not be a number")

    def _bound(self) -> float:
        """No number that comes up in computing a cost is larger in size: |z| <= clip, features <= 1, layer by layer."""
        clip = float(self.inputs.clip)
        numbers = [clip]
        size: Array = np.full(len(self.names), clip)
        with np.errstate(over="ignore"):  # infinite is too large as well
            if self.slopes.size:
                numbers.append(float((np.abs(self.slopes.astype(np.float64)) * clip + np.abs(self.offsets)).max()))
            for weight, bias in zip(self.weights, self.biases, strict=True):
                size = size @ np.abs(weight.astype(np.float64)) + np.abs(bias)
                numbers.append(float(size.max(initial=0.0)))
            largest = max(numbers) if self.linear or self.head == "leaky" else 1.0
            numbers.append(float(self.lam.sum(dtype=np.float64)) * max(largest, 1.0))
            numbers.append(sum(term.highest for term in self.terms))
        return max(numbers)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file with the card inside."""
        storage.save_arrays(path, *self.to_arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LearnedCost:
        return cls.from_arrays(*storage.load_arrays(path))

    def with_margin(self, margins: Mapping[str, float]) -> LearnedCost:
        """A more cautious cost: what it forbids reaches out so much further, in units of each input: {"v": 0.02}.

        Demonstrators whose limit is blurred by noise stay a little away from it. So should whoever obeys their cost.
        """
        if not self.terms:
            raise UserError("only a cost of terms can have a margin: learn it with `tacit learn mce` and its default")
        read = sorted({name for term in self.terms for name in term.names})
        for name, margin in margins.items():
            if name not in read:
                raise UserError(f"there is no margin in {name!r}: the cost reads {', '.join(read)}")
            if not (math.isfinite(margin) and margin > 0):
                raise UserError(f"the margin in {name} is {margin}; it must be a positive number")
        wide = replace(self, terms=tuple(term.widened(margins) for term in self.terms))
        return wide.with_card(margin=dict(margins))

    def with_card(self, **entries: Any) -> LearnedCost:
        return replace(self, card={**self.card, **entries})


def load_cost(source: str | os.PathLike[str] | Run, which: str = "cost") -> LearnedCost | TableCost:
    """The learned cost of a run (its folder, or a `Run`) or of a file of its own.

    `which` is "cost", what drove the policy, or "map", the additive cost that a deep run fits for reading. Exact runs
    have a table of the states instead of features, with the same methods.
    """
    path = Path(source if isinstance(source, str | os.PathLike) else source.path)
    if path.is_dir():
        disk.guard(path)
        file = path / "model" / f"{which}.safetensors"
        if not disk.exists(file):
            there = [f.stem for f in disk.listed(path / "model", "*.safetensors")]
            hint = f"its models are {', '.join(there)}" if there else "is it a finished run?"
            if "frozen" in there:
                source = storage.load_arrays(path / "model" / "frozen.safetensors")[1].get("frozen", {}).get("run")
                hint = f"it trained an agent on the frozen cost of {source}: name that run"
            raise UserError(f"{path} has no {which} (model/{which}.safetensors): {hint}")
        path = file
    arrays, card = storage.load_arrays(path)
    try:
        if card.get("kind") == "tabular":
            return TableCost.from_arrays(arrays, card)
        return LearnedCost.from_arrays(arrays, card)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
