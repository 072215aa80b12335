"""Several costs learned from resampled demonstrations, and where they disagree. NumPy only.

    ensemble = CostEnsemble.load("runs/.../model/ensemble.safetensors")
    ensemble(obs)            # mean cost
    ensemble.spread(obs)     # standard deviation over the members
    ensemble.votes(obs)      # share of the members that forbid it
    ensemble.doubtful(obs)   # True where they disagree: do not trust the cost there

Each member is a cost with its own threshold, fitted to a bootstrap sample of the demonstrations: whole trajectories,
drawn with replacement, because the steps of one trajectory are correlated. Differences between members come from the
sample of demonstrations. Agreement is no proof: all members see the same learner, and share the assumption that what
demonstrations avoid is forbidden.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.cost import LearnedCost
from tacit.errors import UserError
from tacit.run import storage
from tacit.run.summary import Card, Record

Array = NDArray[Any]
DOUBT = (0.1, 0.9)
"""Members disagree if the share of them that forbids lies strictly between these."""
STACKED = ("lam", "slopes", "offsets")
MOST_MEMBERS = 1000


@dataclass(frozen=True)
class CostEnsemble:
    """Additive costs of the same inputs, each with its threshold."""

    members: tuple[LearnedCost, ...]
    card: Record = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.members or any(member.threshold is None for member in self.members):
            raise UserError("an ensemble needs members, each with a threshold")

    def costs(self, obs: ArrayLike, act: ArrayLike | None = None) -> Array:
        """(members, ...) the cost by each member."""
        return self.costs_of_rows(self.members[0].inputs.rows(obs, act))

    def costs_of_rows(self, rows: Array) -> Array:
        return np.stack([member.of_rows(rows) for member in self.members])

    def __call__(self, obs: ArrayLike, act: ArrayLike | None = None) -> Array:
        return self.costs(obs, act).mean(axis=0)

    def spread(self, obs: ArrayLike, act: ArrayLike | None = None) -> Array:
        return self.costs(obs, act).std(axis=0)

    def votes(self, obs: ArrayLike, act: ArrayLike | None = None) -> Array:
        """(...) share of the members that forbid it."""
        return self._votes(self.costs(obs, act))

    def votes_of_rows(self, rows: Array) -> Array:
        return self._votes(self.costs_of_rows(rows))

    def _votes(self, costs: Array) -> Array:
        levels = np.array([member.threshold for member in self.members])
        return (costs > levels.reshape(-1, *([1] * (costs.ndim - 1)))).mean(axis=0)

    def doubtful(self, obs: ArrayLike, act: ArrayLike | None = None) -> Array:
        return disagree(self.votes(obs, act))

    # ------------------------------------------------------------ saving

    def to_arrays(self) -> tuple[dict[str, Array], Card]:
        arrays = {name: np.stack([getattr(member, name) for member in self.members]) for name in STACKED}
        arrays["thresholds"] = np.array([member.threshold for member in self.members], dtype=np.float64)
        one, card = self.members[0].to_arrays()
        arrays |= {name: one[name] for name in ("centre", "scale")}
        return arrays, {**card, **self.card, "kind": "ensemble"}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], card: Record) -> CostEnsemble:
        """Inverse of `to_arrays`; UserError for anything else."""
        if card.get("kind") != "ensemble" or not {*STACKED, "thresholds"} <= arrays.keys():
            raise UserError("this file does not hold an ensemble of costs")
        levels = arrays["thresholds"]
        sizes = {len(arrays[name]) if arrays[name].ndim else 0 for name in (*STACKED, "thresholds")}
        if levels.ndim != 1 or len(sizes) != 1 or not 0 < len(levels) <= MOST_MEMBERS:
            raise UserError("the arrays of this ensemble do not fit together: it is damaged")
        rest = {name: array for name, array in arrays.items() if name not in (*STACKED, "thresholds")}
        members = []
        for i, level in enumerate(levels):
            own = {**rest, **{name: arrays[name][i] for name in STACKED}}
            members.append(LearnedCost.from_arrays(own, {**card, "kind": "cost", "threshold": float(level)}))
        return cls(tuple(replace(member, card={}) for member in members), dict(card))

    def save(self, path: str | os.PathLike[str]) -> None:
        storage.save_arrays(path, *self.to_arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CostEnsemble:
        return cls.from_arrays(*storage.load_arrays(path))


def disagree(votes: Array) -> NDArray[np.bool_]:
    """Whether the members of an ensemble disagree about a state."""
    return (votes > DOUBT[0]) & (votes < DOUBT[1])
