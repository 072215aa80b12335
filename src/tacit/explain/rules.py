"""A learned cost as a short rule over named features: "x < -2.4, or pitch > 5 and z < 0.1".

A rule is a disjunction of clauses. A clause is a conjunction of one or two bounds on single features. The rule is
fitted to the set  {cost > threshold}  on states that the learner tried, one clause at a time: each step adds the clause
that puts most further states on the right side, as long as it gains a few per cent. A second bound must pay for itself.
A clause may hold for almost no demonstrated state. Half of the states are for fitting, the other half for measuring how
faithful the rule is to the cost. The true constraint is never used.

Each bound has two more numbers, which delimit what the data cannot decide. They are taken along its feature, for states
that satisfy the clause's other bound:

    demonstrated   the demonstrations' extreme: no demonstration goes beyond it
    certain        the value beyond which only a tenth of the unconstrained agent's states out there lie

A limit anywhere between the two explains the demonstrations as well as the learned one does: they stay on the allowed
side, and it keeps the agent from nearly all of what it would do. A limit beyond `certain` would hardly be in the way,
and so not explain them. If the constraint is a bound on that feature, everything beyond `certain` is therefore
forbidden, and between the two the data cannot tell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.cost.bounds import CLAUSE, Bound
from tacit.run.summary import Agreement, ClauseEntry

Array = NDArray[Any]
Mask = NDArray[np.bool_]
MOST_CLAUSES = 4
LEAST_GAIN = 0.02
"""Smallest share of the rejected states that a further clause must explain."""
SECOND_BOUND = 0.05
"""Smallest share of the rejected states that a second bound in a clause must gain."""
DEMONSTRATED = 1e-3
"""Largest share of the demonstrated states that may satisfy a clause."""
BEYOND = 0.1
SINGLE_VALUES, PAIR_VALUES, PAIR_FEATURES = 48, 10, 12
ENOUGH = 20
"""Number of states that a quantile needs."""


@dataclass(frozen=True)
class Clause:
    """A conjunction, which holds where all of its bounds hold."""

    bounds: tuple[Bound, ...]
    share: float = 0.0
    """Share of the rejected states that this clause is the first to explain."""

    def holds(self, rows: Array, columns: dict[str, int]) -> Mask:
        return np.logical_and.reduce([bound.holds(rows[:, columns[bound.feature]]) for bound in self.bounds])

    def __str__(self) -> str:
        return " and ".join(f"{bound:.3g}" for bound in self.bounds)


@dataclass(frozen=True)
class Rule:
    """A disjunction, which holds where any of its clauses holds."""

    clauses: tuple[Clause, ...]

    def holds(self, rows: Array, columns: dict[str, int]) -> Mask:
        """(n,) whether rows (n, width) are forbidden."""
        held = np.zeros(len(rows), dtype=bool)
        for clause in self.clauses:
            held |= clause.holds(rows, columns)
        return held

    def __str__(self) -> str:
        parts = [f"({c})" if len(c.bounds) > 1 and len(self.clauses) > 1 else str(c) for c in self.clauses]
        return " or ".join(parts) or "nothing is forbidden"

    @property
    def bounds(self) -> list[Bound]:
        """The bounds of all clauses, in order."""
        return [bound for clause in self.clauses for bound in clause.bounds]

    def map_bounds(self, change: Callable[[Bound], Bound]) -> Rule:
        """The rule with every bound changed."""
        return Rule(tuple(replace(clause, bounds=tuple(map(change, clause.bounds))) for clause in self.clauses))

    def to_json(self) -> list[ClauseEntry]:
        return [
            {"bounds": [bound.to_json(CLAUSE) for bound in clause.bounds], "share": clause.share, "text": str(clause)}
            for clause in self.clauses
        ]


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


def fit(forbidden: Mask, sample: Sample, columns: dict[str, int]) -> Rule:
    """The rule that describes which states of `sample.tried` are `forbidden` (n,); columns: {feature: column}."""
    rows, target = sample.tried[::2], forbidden[::2]
    if not target.any():
        return Rule(())
    held = np.zeros(len(rows), dtype=bool)
    clauses: list[Clause] = []
    for _ in range(MOST_CLAUSES):
        gain = np.where(held, 0, np.where(target, 1, -1)).astype(np.float32)
        best = _best_clause(rows, gain, sample, columns, least=LEAST_GAIN * target.sum())
        if best is None:
            break
        fresh = best.holds(rows, columns) & ~held
        clauses.append(Clause(best.bounds, float((fresh & target).sum() / target.sum())))
        held |= fresh
    return Rule(tuple(_with_band(clause, sample, columns) for clause in clauses))


def _best_clause(rows: Array, gain: Array, sample: Sample, columns: dict[str, int], least: float) -> Clause | None:
    singles = [
        bound
        for feature, column in columns.items()
        for bound in _outside(feature, column, rows, sample)
        if _allowed((bound,), sample, columns)
    ]
    scores = np.array([gain[bound.holds(rows[:, columns[bound.feature]])].sum() for bound in singles])
    best: tuple[float, Clause | None] = (least, None)
    if len(singles) and scores.max() > best[0]:
        best = float(scores.max()), Clause((singles[int(np.argmax(scores))],))
    pair = _best_pair(rows, gain, sample, columns)
    margin = max(best[0], SECOND_BOUND / LEAST_GAIN * least + (best[0] if best[1] is not None else 0.0))
    return pair[1] if pair is not None and pair[0] > margin else best[1]


def _outside(feature: str, column: int, rows: Array, sample: Sample) -> list[Bound]:
    """Bounds beyond the demonstrations, at quantiles of the learner's values there."""
    low, high = (float(x) for x in sample.expert_range[:, column])
    bounds = []
    for relation, extreme, beyond in (
        ("<", low, rows[rows[:, column] < low, column]),
        (">", high, rows[rows[:, column] > high, column]),
    ):
        if len(beyond):
            values = np.quantile(beyond, np.linspace(0.0, 1.0, SINGLE_VALUES))
            bounds += [Bound(feature, relation, float(value)) for value in (extreme, *np.unique(values))]
    return bounds


def _best_pair(rows: Array, gain: Array, sample: Sample, columns: dict[str, int]) -> tuple[float, Clause] | None:
    """The best conjunction of two bounds on different features, anywhere in their ranges."""
    bounds: list[Bound] = []
    worth: dict[str, float] = {}
    for feature, column in columns.items():
        levels = np.unique(np.quantile(rows[:, column], np.linspace(0.03, 0.97, PAIR_VALUES)))
        own = [Bound(feature, relation, float(level)) for relation in "<>" for level in levels]
        worth[feature] = max(float(gain[bound.holds(rows[:, column])].sum()) for bound in own)
        bounds += own
    chosen = sorted(worth, key=lambda feature: -worth[feature])[:PAIR_FEATURES]
    bounds = [bound for bound in bounds if bound.feature in chosen]
    if len(chosen) < 2:
        return None
    holds = np.stack([bound.holds(rows[:, columns[bound.feature]]) for bound in bounds]).astype(np.float32)
    expert = np.stack([b.holds(sample.expert[:, columns[b.feature]]) for b in bounds]).astype(np.float32)
    scores = (holds * gain) @ holds.T
    same = np.array([[a.feature == b.feature for b in bounds] for a in bounds])
    scores[same | ((expert @ expert.T) > DEMONSTRATED * expert.shape[1])] = -np.inf
    first, second = np.unravel_index(int(np.argmax(scores)), scores.shape)
    value = float(scores[first, second])
    return (value, Clause((bounds[first], bounds[second]))) if value > 0 else None


def _allowed(bounds: tuple[Bound, ...], sample: Sample, columns: dict[str, int]) -> bool:
    return bool(Clause(bounds).holds(sample.expert, columns).mean() <= DEMONSTRATED)


def _with_band(clause: Clause, sample: Sample, columns: dict[str, int]) -> Clause:
    """The clause with the band that the demonstrations leave open along each of its bounds."""
    bounds = []
    for i, bound in enumerate(clause.bounds):
        rest = Clause(clause.bounds[:i] + clause.bounds[i + 1 :])
        column, below = columns[bound.feature], bound.below
        if rest.bounds:
            values = sample.expert[rest.holds(sample.expert, columns), column]
            extreme = None if not len(values) else float(values.min() if below else values.max())
        else:
            extreme = float(sample.expert_range[0 if below else 1, column])
        certain = None
        for rows in (sample.nominal, sample.tried):
            there = rows[rest.holds(rows, columns)] if rest.bounds else rows
            edge = bound.value if extreme is None else extreme
            beyond = there[there[:, column] < edge if below else there[:, column] > edge, column]
            if len(beyond) >= ENOUGH:
                certain = float(np.quantile(beyond, BEYOND if below else 1.0 - BEYOND))
                break
        bounds.append(replace(bound, demonstrated=extreme, certain=certain))
    return Clause(tuple(bounds), clause.share)


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
