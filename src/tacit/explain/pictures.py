"""The two or three pictures that matter most: the cost along one feature, or over two, with the rule in it.

Each clause asks for one picture: of its feature, or of the plane of two of its features. A cost that is a sum of named
terms asks for those of its largest terms. Other features are at the demonstrations' median. Those that the clause names
and the picture does not show are at the median of the rejected states that the clause covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.cost import LearnedCost
from tacit.cost.bounds import Bound
from tacit.explain.regions import Distance
from tacit.explain.rules import Clause, Columns, Rule, Sample
from tacit.plots.features import Window, cost_along, cost_over
from tacit.plots.style import Format
from tacit.run.summary import FeatureExplanation, PictureEntry

Array = NDArray[Any]
MOST_PICTURES = 3
LARGE = 0.2
"""Spread of a term that deserves a picture, as a share of that of the largest."""
POINTS, FINE = 121, 361
"""Values along each axis: of the cost, and of the rule's outline."""
AROUND = 32
"""Number of demonstrated states to average a curve over."""
MARGIN = 0.04


@dataclass(frozen=True)
class Picture:
    """One picture of a cost and a rule."""

    features: tuple[str, ...]
    """One or two."""
    cost: LearnedCost
    rule: Rule
    threshold: float
    sample: Sample
    base: Array
    """(width,) values of the features that are not drawn."""
    fixed: tuple[str, ...] = ()
    """Features that are not drawn, but that the clause names."""
    truth: Bound | None = None

    @property
    def columns(self) -> Columns:
        return dict(zip(self.cost.inputs.names, self.cost.inputs.columns, strict=True))

    @property
    def title(self) -> str:
        return f"The cost {'along' if len(self.features) == 1 else 'over'} {' and '.join(self.features)}"

    @property
    def caption(self) -> str:
        """Caption: what the picture shows."""
        words = []
        if len(self.features) == 2:
            words.append("Darker is more costly. Dots are demonstrated states, crosses are states that agents tried.")
            words.append(f"The dashed line is where the cost passes its threshold, {self.threshold:.3g}.")
        else:
            words.append("Green is where demonstrations go. Amber is where none goes, so the limit may lie there.")
            words.append("Below: where demonstrations and agents spend their time.")
        own = [clause for clause in self.rule.clauses if set(clause.features) <= {*self.features, *self.fixed}]
        if own:
            line = "The solid line is the rule" if len(self.features) == 2 else "Vertical lines are the rule"
            words.append(f"{line}: {Rule(tuple(own))}.")
        if self.fixed:
            listed = ", ".join(f"{name} = {self.base[self.columns[name]]:.3g}" for name in self.fixed)
            words.append(f"Drawn for {listed}, as in the states that the cost rejects there.")
        return " ".join(words)

    def to_json(self) -> PictureEntry:
        return {"features": list(self.features), "title": self.title, "caption": self.caption}

    def draw(self, format: Format = "svg", described: bool = True) -> bytes:
        """The picture as bytes. With `described`, the file has a description for people who cannot see it."""
        description = f"{self.title}. {self.caption}" if described else ""
        return self._curve(format, description) if len(self.features) == 1 else self._plane(format, description)

    # -------------------------------------------------------------- one feature

    def _curve(self, format: Format, description: str) -> bytes:
        (name,) = self.features
        column, sample = self.columns[name], self.sample
        bounds = [bound for clause in self.rule.clauses if clause.features == (name,) for bound in clause.bounds]
        low, high = (float(x) for x in sample.expert_range[:, column])
        window = _ends(np.concatenate([sample.tried[:, column], [low, high], [bound.value for bound in bounds]]))
        x = np.linspace(*window, 401)
        around = sample.expert[:: max(1, len(sample.expert) // AROUND)][:AROUND].copy()
        for other in self.fixed:
            around[:, self.columns[other]] = self.base[self.columns[other]]
        y = np.mean([self.cost.profile(name, x, row) for row in around], axis=0)
        return cost_along(
            name,
            window,
            curves={"cost": (x, y)},
            visits={
                "demonstrations": sample.expert[:, column],
                "learner": sample.learner[:, column],
                "reward alone": sample.nominal[:, column],
            },
            demonstrated=(low, high),
            bounds=bounds,
            truth=self.truth if self.truth is not None and self.truth.feature == name else None,
            threshold=self.threshold,
            format=format,
            description=description,
        )

    # -------------------------------------------------------------- two features

    def _plane(self, format: Format, description: str) -> bytes:
        first, second = self.features
        places = [self.columns[name] for name in (first, second)]
        window = self._window(places)
        return cost_over(
            (first, second),
            window,
            costs=self.cost.of_rows(self._grid(places, window, POINTS)).reshape(POINTS, POINTS),
            threshold=self.threshold,
            forbidden=self.rule.holds(self._grid(places, window, FINE), self.columns).reshape(FINE, FINE),
            demonstrated=self.sample.expert[:, places],
            tried=self.sample.tried[:, places],
            format=format,
            description=description,
        )

    def _window(self, places: Sequence[int]) -> Window:
        """Nearly all states, and every disc that the rule puts into this plane."""
        along = [np.concatenate([self.sample.tried[:, place], self.sample.expert[:, place]]) for place in places]
        ends = [_ends(values) for values in along]
        for region in (region for clause in self.rule.clauses for region in clause.regions):
            outer = region.high or region.low
            if isinstance(region, Distance) and set(region.features) == set(self.features) and outer is not None:
                radii = outer, outer * region.ratio
                for name, centre, radius in zip(region.features, region.centre, radii, strict=True):
                    low, high = ends[self.features.index(name)]
                    around = min(low, centre - 1.05 * radius), max(high, centre + 1.05 * radius)
                    ends[self.features.index(name)] = around
        return ends[0], ends[1]

    def _grid(self, places: Sequence[int], window: Window, points: int) -> Array:
        """(points * points, width) rows, the first feature varying fastest."""
        x, y = np.meshgrid(*(np.linspace(*ends, points) for ends in window))
        rows = np.repeat(self.base[None].astype(np.float32), points * points, axis=0)
        rows[:, places[0]], rows[:, places[1]] = x.ravel(), y.ravel()
        return rows


def _ends(values: Array) -> tuple[float, float]:
    low, high = (float(x) for x in np.quantile(values, [0.002, 0.998]))
    room = MARGIN * (high - low) or 0.5 * abs(high) or 1.0
    return low - room, high + room


def pictures_of(explanation: FeatureExplanation, cost: LearnedCost, sample: Sample) -> list[Picture]:
    """The pictures of an explanation, the most important one first."""
    rule = Rule(tuple(Clause.from_json(entry) for entry in explanation["clauses"]))
    columns = dict(zip(cost.inputs.names, cost.inputs.columns, strict=True))
    stated = explanation["truth"]
    truth = None if stated is None else Bound.parse(stated["constraint"])
    median = np.median(sample.expert, axis=0)
    tried = sample.tried
    rejected = tried[cost.of_rows(tried) > explanation["threshold"]]
    chosen: dict[tuple[str, ...], Picture] = {}
    for clause in rule.clauses:
        pair = _features_to_draw(clause, columns)
        fixed = tuple(name for name in clause.features if name not in pair)
        base, covered = median.copy(), rejected[clause.holds(rejected, columns)]
        for name in fixed if len(covered) else ():
            base[columns[name]] = np.median(covered[:, columns[name]])
        chosen.setdefault(pair, Picture(pair, cost, rule, explanation["threshold"], sample, base, fixed, truth))
    for names in [_ordered(term, columns) for term in _terms(cost, tried)] or (
        [] if chosen else [_widest(cost, tried, columns)]
    ):
        chosen.setdefault(names, Picture(names, cost, rule, explanation["threshold"], sample, median, (), truth))
    planes = [set(names) for names in chosen if len(names) == 2]
    # A plane shows the bounds on its own two features as well.
    kept = [one for names, one in chosen.items() if len(names) == 2 or not any(set(names) <= p for p in planes)]
    return kept[:MOST_PICTURES]


def _features_to_draw(clause: Clause, columns: Columns) -> tuple[str, ...]:
    """The feature or the two features of a clause that are drawn, in the order of the cost's inputs."""
    return _ordered(clause.regions[0].features if clause.regions else clause.features[:2], columns)


def _ordered(names: Sequence[str], columns: Columns) -> tuple[str, ...]:
    return tuple(name for name in columns if name in names)


def _terms(cost: Any, tried: Array) -> list[tuple[str, ...]]:
    """The names of the largest terms of a cost that is a sum of named terms."""
    terms = getattr(cost, "terms", ())
    spread = [float(np.std(term.of_rows(tried))) for term in terms]
    order = np.argsort([-one for one in spread], kind="stable")
    return [tuple(terms[i].names) for i in order if spread[i] >= LARGE * max(spread) > 0]


def _widest(cost: LearnedCost, tried: Array, columns: Columns) -> tuple[str, ...]:
    """The two features along which the cost changes most."""
    base = np.median(tried, axis=0)
    subset = tried[:: max(1, len(tried) // 500)]
    change = {name: float(np.std(cost.profile(name, subset[:, column], base))) for name, column in columns.items()}
    most = sorted(columns, key=lambda name: -change[name])[:2]
    return _ordered(most, columns)
