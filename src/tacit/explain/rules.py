"""A learned cost as a short rule over named features: "2 < x < 4 and v > 0.5, or (x, y) within 1.02 of (0, -0.03)".

A rule is a disjunction of clauses, and a clause is a conjunction of conditions: bounds on single features, of which one
feature may have two, and regions in two features (`tacit.explain.regions`). `tacit.explain.search` finds the rule. The
true constraint is never used.

Each condition says how far the demonstrations go on its allowed side, among those that meet the clause's other
conditions. A bound that is a clause of its own has one more number:

    demonstrated   the demonstrations' extreme: no demonstration goes beyond it
    certain        the value beyond which only a tenth of the unconstrained agent's states out there lie

A limit anywhere between the two explains the demonstrations as well as the learned one does: they stay on the allowed
side, and it keeps the agent from nearly all of what it would do. A limit beyond `certain` would hardly be in the way,
and so not explain them. If the constraint is a bound on that feature, everything beyond `certain` is therefore
forbidden, and between the two the data cannot tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.cost.bounds import CLAUSE, Bound
from tacit.explain.regions import Region, interval, region_from_json
from tacit.run.summary import Agreement, ClauseEntry, Record

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Columns = Mapping[str, int]
Condition = Bound | Region
BEYOND = 0.1
ENOUGH = 20
"""Number of states that a quantile needs."""
NOTHING, NO_RULE = "nothing is forbidden", "no short rule says what the cost forbids"


def holds(condition: Condition, rows: Array, columns: Columns) -> Mask:
    """(n,) where a condition holds."""
    if isinstance(condition, Bound):
        return condition.holds(rows[:, columns[condition.feature]])
    return condition.holds(rows, columns)


@dataclass(frozen=True)
class Clause:
    """A conjunction, which holds where all of its conditions hold."""

    conditions: tuple[Condition, ...]
    share: float = 0.0
    """Share of the rejected states that this clause is the first to explain."""

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return tuple(one for one in self.conditions if isinstance(one, Bound))

    @property
    def regions(self) -> tuple[Region, ...]:
        return tuple(one for one in self.conditions if isinstance(one, Region))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features in the clause, in order."""
        named = [(one.feature,) if isinstance(one, Bound) else one.features for one in self.conditions]
        return tuple(dict.fromkeys(name for names in named for name in names))

    @property
    def thin(self) -> bool:
        """Whether the clause is one bound, and agents went beyond it by less than three digits show."""
        alone = self.conditions[0] if len(self.conditions) == 1 else None
        if not isinstance(alone, Bound) or alone.demonstrated is None or alone.certain is None:
            return False
        return alone.open_band is None and not alone.holds(alone.demonstrated)

    @property
    def length(self) -> int:
        """Length of the clause: 1 per bound; see `Region.length`."""
        return sum(1 if isinstance(one, Bound) else one.length for one in self.conditions)

    def holds(self, rows: Array, columns: Columns) -> Mask:
        return np.logical_and.reduce([holds(one, rows, columns) for one in self.conditions])

    def __str__(self) -> str:
        parts = []
        for name in dict.fromkeys(bound.feature for bound in self.bounds):
            own = [bound for bound in self.bounds if bound.feature == name]
            if [bound.below for bound in own] in ([True, False], [False, True]):
                low, high = sorted(bound.value for bound in own)
                parts.append(interval(name, low, high))
            else:
                parts += [f"{bound:.10g}" for bound in own]
        return " and ".join([*map(str, self.regions), *parts])

    def to_json(self) -> ClauseEntry:
        return {
            "bounds": [bound.to_json(CLAUSE) for bound in self.bounds],
            "regions": [region.to_json() for region in self.regions],
            "share": self.share,
            "text": str(self),
        }

    @classmethod
    def from_json(cls, entry: Record) -> Clause:
        """Inverse of `to_json`. It also reads files of older versions, which had no regions."""
        regions = [region_from_json(one) for one in entry.get("regions", ())]
        return cls((*regions, *(Bound.from_json(one) for one in entry["bounds"])), float(entry["share"]))


@dataclass(frozen=True)
class Rule:
    """A disjunction, which holds where any of its clauses holds."""

    clauses: tuple[Clause, ...]
    otherwise: str = NOTHING
    """The words for a rule without clauses."""

    def holds(self, rows: Array, columns: Columns) -> Mask:
        """(n,) whether rows (n, width) are forbidden."""
        held = np.zeros(len(rows), dtype=bool)
        for clause in self.clauses:
            held |= clause.holds(rows, columns)
        return held

    def __str__(self) -> str:
        parts = [f"({c})" if len(c.conditions) > 1 and len(self.clauses) > 1 else str(c) for c in self.clauses]
        return " or ".join(parts) or self.otherwise

    @property
    def bounds(self) -> list[Bound]:
        """The bounds of all clauses, in order."""
        return [bound for clause in self.clauses for bound in clause.bounds]

    def map_bounds(self, change: Callable[[Bound], Bound]) -> Rule:
        """The rule with every bound changed."""

        def changed(clause: Clause) -> Clause:
            conditions = (change(one) if isinstance(one, Bound) else one for one in clause.conditions)
            return replace(clause, conditions=tuple(conditions))

        return replace(self, clauses=tuple(map(changed, self.clauses)))

    def to_json(self) -> list[ClauseEntry]:
        return [clause.to_json() for clause in self.clauses]


@dataclass(frozen=True)
class Sample:
    """States [observation | action] (n, width) to read a rule from."""

    expert: Array
    expert_range: Array
    """(2, width) extremes of all demonstrated states; `expert` may be a part of them."""
    nominal: Array
    """States of an agent that follows only the reward."""
    learner: Array
    """States of the learned agent."""
    history: Array | None = None
    """States of the learned agent from the first to the last phase of its training."""
    nominal_truth: Array | None = None
    history_truth: Array | None = None
    """(n,) the environment's own cost, only for judging; None if it is not reported."""
    fresh: Array | None = None
    """Demonstrated states that nothing was fitted to; None if no demonstration was held out."""

    @property
    def tried(self) -> Array:
        """All states that the learner tried, from the beginning of its training."""
        return np.concatenate([self.nominal, self.learner if self.history is None else self.history])

    @property
    def truth(self) -> Mask | None:
        """(n,) which tried states truly violate; None if that is not known for all of them."""
        if self.nominal_truth is None or self.history_truth is None:
            return None
        truth = np.concatenate([self.nominal_truth, self.history_truth])
        return truth > 0 if np.isfinite(truth).all() and len(truth) == len(self.tried) else None


# ---------------------------------------------------------------------------------------------------------------------
# What the demonstrations leave open


def with_evidence(clause: Clause, sample: Sample, columns: Columns) -> Clause:
    """The clause, where each condition says how far the demonstrations go."""
    conditions: list[Condition] = []
    for i, condition in enumerate(clause.conditions):
        others = clause.conditions[:i] + clause.conditions[i + 1 :]
        if isinstance(condition, Region):
            there = sample.expert[_all_hold(others, sample.expert, columns)]
            conditions.append(replace(condition, demonstrated=_outside(condition, condition.values(there, columns))))
        elif others:
            there = sample.expert[_all_hold(others, sample.expert, columns), columns[condition.feature]]
            allowed = there[~condition.holds(there)]
            nearest = None if not len(allowed) else float(allowed.min() if condition.below else allowed.max())
            conditions.append(replace(condition, demonstrated=nearest))
        else:
            conditions.append(_with_band(condition, sample, columns[condition.feature]))
    return replace(clause, conditions=tuple(conditions))


def _all_hold(conditions: Sequence[Condition], rows: Array, columns: Columns) -> Mask:
    return Clause(tuple(conditions)).holds(rows, columns) if conditions else np.ones(len(rows), dtype=bool)


def _outside(region: Region, values: Array) -> tuple[float | None, float | None]:
    """The nearest of the values outside the region, on either side."""
    below = values[values <= (-np.inf if region.low is None else region.low)]
    above = values[values >= (np.inf if region.high is None else region.high)]
    return (float(below.max()) if len(below) else None), (float(above.min()) if len(above) else None)


def _with_band(bound: Bound, sample: Sample, column: int) -> Bound:
    """A bound that stands alone, with the band that the demonstrations leave open."""
    extreme = float(sample.expert_range[0 if bound.below else 1, column])
    for rows in (sample.nominal, sample.tried):
        values = rows[:, column]
        beyond = values[values < extreme if bound.below else values > extreme]
        if len(beyond) >= ENOUGH:
            certain = float(np.quantile(beyond, BEYOND if bound.below else 1.0 - BEYOND))
            return replace(bound, demonstrated=extreme, certain=certain)
    return replace(bound, demonstrated=extreme)


# ---------------------------------------------------------------------------------------------------------------------
# How good it is


def agreement(held: Mask, target: Mask) -> Agreement:
    """How far two sets of states (n,) agree."""
    both = float((held & target).sum())
    return {
        "agreement": float((held == target).mean()),
        "precision": both / float(held.sum()) if held.any() else float("nan"),
        "recall": both / float(target.sum()) if target.any() else float("nan"),
        "n": len(held),
    }
