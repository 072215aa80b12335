"""A bound on one named feature, and where a learned cost draws such bounds.

A bound forbids one side of a value: `x_position > 0.5`. Rules, the boundaries of a constraint map and the true
constraints of environments are made of the same class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import UserError
from tacit.run.summary import Record

if TYPE_CHECKING:
    from tacit.cost.learned import LearnedCost

Array = NDArray[Any]
RELATIONS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
BOUNDARY = ("feature", "relation", "value", "demonstrated", "share")
"""Entries of a boundary in summary.json."""
CLAUSE = ("feature", "relation", "value", "demonstrated", "certain", "low", "high")
"""Entries of a bound in explanation.json."""
GRID = 801
"""Values along a feature at which a cost is compared with its level."""


@dataclass(frozen=True)
class Bound:
    """Forbidden: every state in which `feature relation value` holds."""

    feature: str
    relation: str
    """The forbidden side, one of `RELATIONS`."""
    value: float
    """Limit, in the feature's own unit."""
    demonstrated: float | None = None
    """The demonstrations' extreme on the forbidden side. Between it and `value` the data decide nothing."""
    certain: float | None = None
    """Every bound that is consistent with the data forbids what lies beyond this value; see `tacit.explain.rules`."""
    low: float | None = None
    high: float | None = None
    """Interval of `value` over an ensemble of costs."""
    share: float | None = None
    """Share of the learner's states that lie beyond `value`: how much this bound explains."""

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise UserError(f"the relation of a bound is one of {', '.join(RELATIONS)}, not {self.relation!r}")

    @property
    def below(self) -> bool:
        """Whether small values are forbidden."""
        return self.relation.startswith("<")

    @property
    def side(self) -> tuple[str, bool]:
        """(feature, below): what two bounds share that forbid the same side of the same feature."""
        return self.feature, self.below

    def holds(self, values: ArrayLike) -> NDArray[np.bool_]:
        """Which values of the feature are forbidden, in the shape of `values`."""
        return np.asarray(RELATIONS[self.relation](values, self.value))

    @property
    def open_band(self) -> tuple[float, float] | None:
        """The values between which the data decide nothing; None if there are none that three digits tell apart.

        They begin at the demonstrations' extreme, also where the bound forbids some of the demonstrations.
        """
        if self.demonstrated is None:
            return None
        ends = [self.value] + ([] if self.certain is None else [self.certain])
        low, high = (min(ends), self.demonstrated) if self.below else (self.demonstrated, max(ends))
        return None if low >= high or short(low) == short(high) else (low, high)

    def __format__(self, spec: str) -> str:
        """`f"{bound:.3g}"`: the value with three digits."""
        return f"{self.feature} {self.relation} {self.value:{spec or '.4g'}}"

    def __str__(self) -> str:
        return format(self, ".4g")

    def to_json(self, entries: Sequence[str]) -> dict[str, str | float | None]:
        """`entries` are `BOUNDARY` or `CLAUSE`, the shapes of the two files that hold bounds."""
        return {name: getattr(self, name) for name in entries}

    @classmethod
    def from_json(cls, entry: Record) -> Bound:
        """Inverse of `to_json`. KeyError if it is no bound; entries that are no numbers are left out."""
        numbers = {name: _number(entry.get(name)) for name in ("demonstrated", "certain", "low", "high", "share")}
        return cls(str(entry["feature"]), str(entry["relation"]), float(entry["value"]), **numbers)

    @classmethod
    def parse(cls, text: object) -> Bound | None:
        """The bound that is written as 'x_position > 0.5'; None for any other text."""
        parts = str(text).rsplit(" ", 2)
        try:
            return cls(parts[0], parts[1], float(parts[2]))
        except (IndexError, ValueError, UserError):
            return None


def short(value: float) -> str:
    """The number with three digits, for people."""
    return f"{value:.3g}"


def beside(value: float, *others: float) -> str:
    """Three digits, or as many more as leave the value on its side of the others: never 'reach 2' beside '> 1.998'."""
    for digits in range(3, 10):
        text = f"{value:.{digits}g}"
        if all(value == other or (float(text) - other) * (value - other) > 0 for other in others):
            return text
    return f"{value:.10g}"


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not math.isnan(value) else None


def boundaries(cost: LearnedCost, expert: Array, learner: Array, ceiling: float) -> list[Bound]:
    """Every bound that a cost draws along one input, the one that explains most of the learner's states first.

    expert, learner: rows (n, width) [observation | action]. The other inputs are at the demonstrations' median. A
    bound lies where the cost passes its level: what 99.9 % of the demonstrated steps stay below, or a tenth of
    `ceiling`, the largest cost that is possible, if that is more.
    """
    around = np.median(expert, axis=0)
    level = max(float(np.quantile(cost.of_rows(expert), 0.999)), 0.1 * ceiling)
    bounds = []
    for name, column in zip(cost.inputs.names, cost.inputs.columns, strict=True):
        low, high = float(expert[:, column].min()), float(expert[:, column].max())
        ends = np.quantile(learner[:, column], [0.001, 0.999])
        for relation, start, end in (("<", low, float(min(ends[0], low))), (">", high, float(max(ends[1], high)))):
            values = np.linspace(start, end, GRID)
            over = cost.profile(name, values, around) > level
            if start == end or not over.any():
                continue
            value = float(values[np.argmax(over)])
            share = float(RELATIONS[relation](learner[:, column], value).mean())
            bounds.append(Bound(name, relation, value, demonstrated=start, share=share))
    return sorted(bounds, key=lambda bound: -(bound.share or 0.0))


def threshold_error(bound: Bound, true_value: float) -> float:
    """Distance of a learned bound from the band between the demonstrations' extreme and the true limit, 0 inside it.

    Demonstrations that go beyond the true limit leave no band. Then it is the distance from the limit.
    """
    extreme = true_value if bound.demonstrated is None else bound.demonstrated
    legal = max if bound.below else min
    low, high = sorted((legal(extreme, true_value), true_value))
    return max(0.0, low - bound.value, bound.value - high)
