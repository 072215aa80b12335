"""Find the rule (`tacit.explain.rules`) that says which states a cost rejects.

The rule is learned from states that agents tried and from demonstrated states. Clauses are added one at a time. The
gain of a clause is a share of the rejected states,

    (rejected states that no other clause covers - accepted ones that it covers) / rejected states - PRICE * length

less DEMONSTRATED times the share of the demonstrations that it covers; `length` is how many numbers its words have, so
the shorter of two clauses wins unless the longer one says clearly more. Candidates are intervals of single features and
boxes in two (exact over quantiles, then exact over the states), boxes in three, discs and ellipses, half-planes and
bands, limits on products, and conjunctions of these.

Half of the tried states are for fitting. A quarter chooses the shape and the number of the clauses; then both place
their ends once more. The last quarter is left for judging, see `parts`. Nothing is random.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.cost.bounds import Bound
from tacit.explain import planar
from tacit.explain.regions import Region, Sum
from tacit.explain.rounding import rounded
from tacit.explain.rules import NO_RULE, Clause, Columns, Condition, Mask, Rule, Sample, with_evidence
from tacit.explain.weights import PRICE, Data, best_interval

Array = NDArray[Any]
MOST_CLAUSES, MOST_CONDITIONS = 6, 4
LEAST_GAIN = 0.02
"""Smallest share of the rejected states that a further clause must explain, beyond the price of its length."""
ENOUGH = 20
"""Number of rejected states from which a quarter of the data may choose between clauses."""
BLOCKS, BINS, CELLS = 40, 24, 12
MOST_FEATURES, MOST_PAIRS = 8, 5
SHORTEST_REGION = 3
"""Length of a half-plane."""


class Term(Protocol):
    """A part of a cost that reads one or two inputs."""

    names: tuple[str, ...]

    def of_rows(self, rows: Array) -> Array: ...


def parts(n: int) -> Array:
    """(n,) the part 0 ... 3 of each of n states in the order of time: 0 and 1 fit, 2 chooses, 3 judges.

    Neighbours in time are alike, so whole blocks of them are in one part.
    """
    return (np.arange(n) * BLOCKS // max(n, BLOCKS)) % 4


def fit(forbidden: Mask, sample: Sample, columns: Columns, cost: Any = None) -> Rule:
    """The rule that describes which states of `sample.tried` are `forbidden` (n,); columns: {feature: column}.

    cost: what rejects them. It tells which features matter, by its `terms` if it has any.
    """
    if not forbidden.any():
        return Rule(())
    tried = sample.tried
    part, theirs = parts(len(tried)), parts(len(sample.expert))
    fit_and_choose = Data.of(tried[part < 3], forbidden[part < 3], sample.expert)
    fitted = choosing = fit_and_choose
    if forbidden[part < 2].any() and forbidden[part == 2].sum() >= ENOUGH:
        fitted = Data.of(tried[part < 2], forbidden[part < 2], sample.expert[theirs != 2])
        choosing = Data.of(tried[part == 2], forbidden[part == 2], sample.expert[theirs == 2])
    features, pairs = _worth_trying(cost, tried, columns, fitted, choosing)
    best: tuple[float, list[Clause]] = (0.0, [])
    for planar_too in (False, True):  # several bounds may be shorter than one region that covers them all
        search = _Search(columns, features, pairs, planar_too)
        clauses = _pruned(search.clauses(fitted, choosing), choosing, columns)
        gain = choosing.total(clauses, columns)
        best = (gain, clauses) if gain > best[0] else best
    clauses = search.improved(best[1], fit_and_choose)
    clauses = [
        rounded(clause, _others(clauses, i, fit_and_choose, columns), columns) for i, clause in enumerate(clauses)
    ]
    clauses = [with_evidence(clause, sample, columns) for clause in clauses]
    return Rule(tuple(_in_order(clauses, tried[forbidden], columns)), otherwise=NO_RULE)


def _others(clauses: Sequence[Clause], i: int, data: Data, columns: Columns) -> Data:
    return data.without([*clauses[:i], *clauses[i + 1 :]], columns)


def _pruned(clauses: list[Clause], choosing: Data, columns: Columns) -> list[Clause]:
    """The rule without clauses that its other clauses make superfluous."""
    while clauses:
        gains = [_others(clauses, i, choosing, columns).gain(clause, columns) for i, clause in enumerate(clauses)]
        least = int(np.argmin(gains))
        if gains[least] >= LEAST_GAIN - PRICE:
            break
        clauses = [*clauses[:least], *clauses[least + 1 :]]
    return clauses


def _in_order(clauses: list[Clause], rejected: Array, columns: Columns) -> list[Clause]:
    """The clauses with the share of the rejected states that each is the first to cover.

    The largest comes first. Thin ones come last: a hair's breadth beyond the demonstrations says little about a rule.
    """
    left = np.ones(len(rejected), dtype=bool)
    ordered: list[Clause] = []
    waiting = list(clauses)
    while waiting:
        covers = [clause.holds(rejected, columns) & left for clause in waiting]
        first = max(range(len(waiting)), key=lambda i: (not waiting[i].thin, covers[i].sum()))
        ordered.append(replace(waiting.pop(first), share=float(covers[first].mean())))
        left &= ~covers[first]
    return ordered


# ---------------------------------------------------------------------------------------------------------------------
# Which features, and which pairs of them


def _worth_trying(
    cost: Any, tried: Array, columns: Columns, fitted: Data, choosing: Data
) -> tuple[list[str], list[tuple[str, str]]]:
    """(features that the cost reads, pairs of those that it reads most): the named pairs of its terms come first."""
    varying = [name for name in columns if np.ptp(fitted.rows[:, columns[name]]) > 0]
    if cost is None:
        evenly = fitted.balanced(), choosing.balanced()
        worth = {name: _by_cells([name], columns, *evenly) for name in varying}
    else:
        worth = _reading(cost, tried, {name: columns[name] for name in varying})
        varying = [name for name in varying if worth[name] > 0] or varying
    most = sorted(varying, key=lambda name: -worth[name])[:MOST_FEATURES]
    terms: Sequence[Term] = getattr(cost, "terms", ())
    named = [(a, b) for a, b in (term.names for term in terms if len(term.names) == 2) if {a, b} <= set(varying)]
    every = list(itertools.combinations(sorted(most, key=varying.index), 2))
    return varying, named if len(named) >= MOST_PAIRS else list(dict.fromkeys([*named, *every]))


def _reading(cost: Any, tried: Array, columns: Columns) -> dict[str, float]:
    """How much the cost changes if one input is exchanged between states, as a mean over pairs of states."""
    rows = tried[:: max(1, len(tried) // 1000)].copy()
    usual = cost.of_rows(rows)
    reading = {}
    for name, column in columns.items():
        kept = rows[:, column].copy()
        rows[:, column] = np.roll(kept, len(rows) // 2 + 1)
        reading[name] = float(np.abs(cost.of_rows(rows) - usual).mean())
        rows[:, column] = kept
    return reading


def _by_cells(names: Sequence[str], columns: Columns, fitted: Data, choosing: Data) -> float:
    """What any region of these features could gain: cells are taken by the fitted states, judged by the others."""
    counts = []
    edges = [np.unique(np.quantile(fitted.rows[:, columns[name]], np.arange(1, CELLS) / CELLS)) for name in names]
    for data in (fitted, choosing):
        cell = np.zeros(len(data.rows), dtype=np.intp)
        for name, edge in zip(names, edges, strict=True):
            cell = cell * CELLS + np.searchsorted(edge, data.rows[:, columns[name]])
        counts.append(np.bincount(cell, data.weights, minlength=CELLS ** len(names)))
    return float(counts[1][counts[0] > 0].sum())


# ---------------------------------------------------------------------------------------------------------------------
# One clause


def bounds(feature: str, low: float | None, high: float | None) -> tuple[Bound, ...]:
    above = () if low is None else (Bound(feature, ">", low),)
    return above if high is None else (*above, Bound(feature, "<", high))


@dataclass(frozen=True)
class _Search:
    columns: Columns
    features: list[str]
    pairs: list[tuple[str, str]]
    planar: bool
    """Whether to try regions in a plane, beside intervals and boxes."""

    def clauses(self, fitted: Data, choosing: Data) -> list[Clause]:
        """One clause after the other, as long as each of them gains."""
        chosen: list[Clause] = []
        while len(chosen) < MOST_CLAUSES:
            rest, held = fitted.without(chosen, self.columns), choosing.without(chosen, self.columns)
            best = max(self.candidates(rest, held), key=lambda one: held.gain(one, self.columns), default=None)
            if best is None or held.gain(best, self.columns) < LEAST_GAIN - PRICE:
                break
            chosen = self.improved([*chosen, best], fitted)
        return chosen

    def candidates(self, data: Data, choosing: Data) -> list[Clause]:
        """Clauses of every shape that gain something."""
        columns = self.columns
        singles = self._best(data, (Clause(self._interval(data, name)) for name in self.features), 4)
        worth = {pair: _by_cells(pair, columns, data, choosing) for pair in self.pairs}
        pairs = sorted(self.pairs, key=lambda pair: -worth[pair])[:MOST_PAIRS]
        boxes = {pair: self._box(data, *pair) for pair in pairs}
        simple = [*singles, *self._best(data, (self.tuned(box, data) for box in boxes.values()), 3)]
        # No region is shorter than this: if a bound or a box says nearly everything, nothing else can win.
        enough = float(choosing.weights[choosing.weights > 0].sum()) - PRICE * SHORTEST_REGION
        if max((choosing.gain(one, columns) for one in simple), default=-np.inf) >= enough:
            return simple
        regions, coarse = [], []
        thin, evenly = data.thinned(), data.balanced()
        for pair in pairs:
            # What contains nearly all that is rejected, and much else that a further condition may exclude.
            coarse.append(self._box(evenly, *pair))
            if self.planar:
                regions += [Clause((one,)) for one in planar.regions(thin, pair, boxes[pair], columns)]
                coarse += [Clause((one,)) for one in planar.discs(thin.balanced(), pair, coarse[-1], columns)[:1]]
        regions = self._best(data, (self.tuned(one, data) for one in self._best(data, regions, 4)), 3)
        grown = [self._grown(one, data) for one in (*simple[:1], *simple[-2:], *regions[:2], *coarse[:6])]
        return self._best(data, [*simple, *regions, *grown], 16)

    def _best(self, data: Data, clauses: Iterable[Clause], most: int) -> list[Clause]:
        gains = {clause: data.gain(clause, self.columns) for clause in clauses if clause.conditions}
        return sorted((clause for clause, gain in gains.items() if gain > 0), key=lambda one: -gains[one])[:most]

    def improved(self, clauses: list[Clause], data: Data) -> list[Clause]:
        """Each clause tuned again, now that the others cover their part."""
        for i, clause in enumerate(clauses):
            rest = _others(clauses, i, data, self.columns)
            simple = [Clause(self._interval(rest, name)) for name in clause.features]
            clauses[i] = next(iter(self._best(rest, [self.tuned(clause, rest), *simple], 1)), clause)
        return clauses

    def tuned(self, clause: Clause, data: Data) -> Clause:
        """The clause with its conditions moved, one after the other, while it gains."""
        best = data.gain(clause, self.columns)
        for _ in range(3):
            before = best
            for name in self._parts(clause):
                moved = self._moved(clause, name, data)
                gain = data.gain(moved, self.columns) if moved.conditions else -np.inf
                if gain > best:
                    clause, best = moved, gain
            if best <= before + PRICE / 10:
                break
        return clause

    def _parts(self, clause: Clause) -> list[str | Region]:
        """Features with bounds, and regions: what can be moved."""
        return [*dict.fromkeys(bound.feature for bound in clause.bounds), *clause.regions]

    def _moved(self, clause: Clause, part: str | Region, data: Data) -> Clause:
        """The clause with the best ends of one of its parts, the others fixed."""
        others = tuple(one for one in clause.conditions if one != part and getattr(one, "feature", None) != part)
        inside = Clause(others).holds(data.rows, self.columns) if others else np.ones(len(data.rows), dtype=bool)
        there = replace(data, rows=data.rows[inside], weights=data.weights[inside])
        if isinstance(part, str):
            return Clause((*others, *self._interval(there, part)))
        part = planar.walk(part, there.thinned(), self.columns)
        _, low, high = best_interval(part.values(there.rows, self.columns), there.weights)
        region = () if low is None and high is None else (replace(part, low=low, high=high),)
        return Clause((*region, *others))

    def _interval(self, data: Data, feature: str) -> tuple[Bound, ...]:
        _, low, high = best_interval(data.rows[:, self.columns[feature]], data.weights)
        return bounds(feature, low, high)

    def _box(self, data: Data, first: str, second: str) -> Clause:
        """The best box in two features, its sides at quantiles: exact over all boxes of that grid."""
        edges = [_quantiles(data, self.columns[name]) for name in (first, second)]
        codes = [np.searchsorted(e, data.rows[:, self.columns[n]]) for e, n in zip(edges, (first, second), strict=True)]
        height, width = (len(edge) + 1 for edge in edges)
        cells = np.bincount(codes[0] * width + codes[1], data.weights, minlength=height * width).reshape(height, width)
        sums = np.concatenate([np.zeros((1, width)), cells.cumsum(axis=0)])
        top, bottom = np.triu_indices(height + 1, 1)
        strips = np.concatenate([np.zeros((len(top), 1)), (sums[bottom] - sums[top]).cumsum(axis=1)], axis=1)
        gains = strips[:, 1:] - np.minimum.accumulate(strips[:, :-1], axis=1)
        strip, end = np.unravel_index(int(np.argmax(gains)), gains.shape)
        start = int(np.argmin(strips[strip, : end + 1]))
        box: list[Bound] = []
        for name, edge, low, high in (
            (first, edges[0], int(top[strip]), int(bottom[strip])),
            (second, edges[1], start, int(end) + 1),
        ):
            ends = None if low == 0 else float(edge[low - 1]), None if high > len(edge) else float(edge[high - 1])
            box += bounds(name, *ends)
        return Clause(tuple(box))

    def _grown(self, clause: Clause, data: Data) -> Clause:
        """The clause with further conditions, as long as each of them pays for itself."""
        best = data.gain(clause, self.columns)
        while len(self._parts(clause)) < MOST_CONDITIONS - 1:
            inside = clause.holds(data.rows, self.columns)
            there = replace(data, rows=data.rows[inside], weights=data.weights[inside])
            more: list[tuple[Condition, ...]] = [
                self._interval(there, name) for name in self.features if name not in clause.features
            ]
            slopes = [one.features for one in clause.regions if isinstance(one, Sum)]
            more += [(planar.slope(there.thinned(), pair, self.columns),) for pair in slopes]
            options = [Clause((*clause.conditions, *one)) for one in more if one]
            longer = max(options, key=lambda one: data.gain(one, self.columns), default=clause)
            longer = self.tuned(longer, data)
            gain = data.gain(longer, self.columns)
            if gain <= best:
                break
            clause, best = longer, gain
        return clause


def _quantiles(data: Data, column: int) -> Array:
    """Values of a feature to put the sides of a box at: quantiles of what is to be covered, and of everything."""
    values, wanted = data.rows[:, column], data.weights > 0
    shares = np.arange(1, BINS) / BINS
    parts_ = [np.quantile(one, shares) for one in (values, values[wanted]) if len(one)]
    return np.unique(np.concatenate(parts_)) if parts_ else np.zeros(0)
