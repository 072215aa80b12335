"""The report's sections about the constraint: the rule in words, and the learned cost of a deep run beside the truth.

The rule comes from `tacit explain`. The section on the constraint shows the boundaries, and the cost along the features
that matter. How much a feature matters is its part of the difference in cost between learner and demonstrations,

    E_tried c(x_j, rest of a demonstrated state) - E_demonstrated c(x_j, ...),

as a share of the sum over features. Of the map and of the cost that drove the policy, the larger share counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tacit.cost import LearnedCost
from tacit.cost.bounds import Bound
from tacit.errors import UserError
from tacit.explain import in_words
from tacit.explain.explanation import sample_of
from tacit.explain.findings import boundaries, clauses_of, true_bound
from tacit.explain.pictures import pictures_of
from tacit.metrics import Metric, percent
from tacit.plots.features import cost_along
from tacit.plots.rules import PARTS, cells
from tacit.report.data import RunData
from tacit.report.html import Section, define, details, emphasised, esc, figure, number, table
from tacit.run.summary import (
    CalibrationEntry,
    CellExplanation,
    Explanation,
    FeatureExplanation,
    as_mapping,
    is_number,
    value_of,
)

MOST_PANELS = 6
LEAST_SHARE = 0.03
"""Features with a smaller share of the difference in cost are folded away."""
MOST_FOLDED = 120
LABELS = {"cost": "cost of the policy", "map": "constraint map"}
VISITORS = {"expert": "demonstrations", "learner": "learner", "nominal": "reward alone"}
GRID, AROUND = 400, 32
"""Number of values along a feature, and of demonstrated states to average the cost over."""
Window = tuple[float, float]
COLUMNS = (
    Metric("forbidden", "Where the map costs more than demonstrations do, with the other features as demonstrated."),
    Metric("demonstrated", "The nearest value that occurs in a demonstration."),
    Metric(
        "between demonstrations and boundary",
        "The distance between the two. No demonstration goes there, so the data cannot tell whether the true limit "
        "lies there, or where.",
    ),
    Metric("tried beyond", "Share of the states that the learner tried (with the bootstrap) beyond the boundary."),
    Metric("truth", "The environment's own bound on that side, which the learner never sees."),
)
"""Columns of the table of boundaries."""


def constraint(data: RunData, anchor: str) -> Section | None:
    """The section about forbidden values, in the features' own units."""
    # The rule says the same boundaries at the threshold of the cost: one statement about each is enough.
    body = "" if clauses_of(data.explanation) is not None else _boundary_table(data)
    figures, others = _figures(data, anchor) if data.costs else ([], [])
    if figures:
        body += f'<p>{_legend(data)}</p><div class="figures wide">{"".join(figures)}</div>'
    if figures and others:
        body += details(
            f"the cost along the other features ({len(others)}), which make less of the difference",
            f'<div class="figures wide">{"".join(others)}</div>',
        )
    return Section("The learned constraint", body) if body else None


def _legend(data: RunData) -> str:
    """How to read the pictures along one feature."""
    words = [
        "Each picture changes one feature; the other features are those of demonstrated states.",
        "Green is where the demonstrations go.",
    ]
    if _bounds(data):
        words.append("Amber lies between them and a learned boundary, where no demonstration goes.")
    joint = [clause for clause in clauses_of(data.explanation) or () if len(clause.features) > 1]
    if joint:
        names = " and ".join(joint[0].features)
        words.append(f"The rule joins {names}, so a picture of one of them alone shows little: see the one above.")
    words.append("Below: where demonstrations, learner and an agent that follows the reward alone spend their time.")
    return esc(" ".join(words))


def _bounds(data: RunData) -> list[Bound]:
    """The learned bounds on single features: of the rule, or of the map if there is no rule."""
    clauses = clauses_of(data.explanation)
    if clauses is not None:
        return [bound for clause in clauses if len(clause.features) == 1 for bound in clause.bounds]
    return boundaries(data.summary)


def _boundary_table(data: RunData) -> str:
    bounds, truth = boundaries(data.summary), true_bound(data.summary)
    if not bounds:
        return ""
    columns = COLUMNS if truth is not None else COLUMNS[:-1]
    head = [define(column.label, column.definition) for column in columns]
    rows = []
    for bound in bounds:
        true = truth if truth is not None and truth.side == bound.side else None
        cells = [
            f'<span class="num">{emphasised(str(bound))}</span>',
            "–" if bound.demonstrated is None else number(bound.demonstrated),
            "–" if bound.demonstrated is None else number(abs(bound.value - bound.demonstrated)),
            "–" if bound.share is None else percent(bound.share),
        ]
        if truth is not None:
            cells.append("–" if true is None else f"{esc(true.relation)} {number(true.value)}")
        rows.append((cells, "main" if true is not None else ""))
    return table("boundaries of the map, in the features' units", head, rows)


# ---------------------------------------------------------------------------------------------------------------------
# Which features


def important(data: RunData) -> list[str]:
    """Names of the features to draw: those with a boundary, the truly constrained one, and those that matter most."""
    names = next(iter(data.costs.values())).inputs.names
    shares = np.max([_shares(data, cost) for cost in data.costs.values()], axis=0)
    ranked = [names[i] for i in np.argsort(-shares, kind="stable") if shares[i] >= LEAST_SHARE]
    truth = true_bound(data.summary)
    marked = [bound.feature for bound in _bounds(data)] + ([truth.feature] if truth else [])
    return list(dict.fromkeys([*(name for name in marked if name in names), *ranked]))[:MOST_PANELS]


def _shares(data: RunData, cost: LearnedCost) -> np.ndarray:
    """(d,) share of each input in the difference in cost, see the module's docstring; zeros if there is none."""
    expert = data.samples["expert"]
    tried = np.concatenate([data.samples["nominal"], data.samples["learner"]])
    around = np.median(expert, axis=0)
    made = np.array(
        [
            cost.profile(name, tried[:, column], around).mean() - cost.profile(name, expert[:, column], around).mean()
            for name, column in zip(cost.inputs.names, cost.inputs.columns, strict=True)
        ]
    )
    made = np.maximum(made, 0.0)
    return made / made.sum() if made.sum() > 0 else made


# ---------------------------------------------------------------------------------------------------------------------
# Pictures


@dataclass(frozen=True)
class View:
    """One feature in a window of its values."""

    feature: str
    title: str
    window: Window
    demonstrated: Window
    bounds: list[Bound]
    """Learned bounds."""
    truth: Bound | None

    @property
    def caption(self) -> str:
        words = [f"Demonstrated: {self.demonstrated[0]:.4g} to {self.demonstrated[1]:.4g}."]
        if self.bounds:
            words.append(f"Learned: forbidden {' and '.join(f'{b.relation} {b.value:.6g}' for b in self.bounds)}.")
        if self.truth is not None:
            words.append(f"The truth: forbidden {self.truth.relation} {self.truth.value:.4g}.")
        return " ".join(words)


def rest(data: RunData) -> list[str]:
    """Names of the features that are folded away, at most MOST_FOLDED. One-hot states are not drawn."""
    names = next(iter(data.costs.values())).inputs.names
    main = set(important(data))
    return [name for name in names if name not in main and not name.startswith("state[")][:MOST_FOLDED]


def views(data: RunData, features: list[str] | None = None) -> Iterator[View]:
    """Windows of each feature: its whole range, and a closer one if a boundary is too narrow to see there.

    By default the features that matter.
    """
    inputs = next(iter(data.costs.values())).inputs
    limits = data.samples.get("expert_range", data.samples["expert"])
    true = true_bound(data.summary)
    for name in important(data) if features is None else features:
        column = inputs.columns[inputs.names.index(name)]
        demonstrated = float(limits[:, column].min()), float(limits[:, column].max())
        bounds = [bound for bound in _bounds(data) if bound.feature == name]
        truth = true if true is not None and true.feature == name else None
        values = np.concatenate([*(data.samples[key][:, column] for key in VISITORS), demonstrated])
        whole = _whole(values, bounds, truth)
        yield View(name, name, whole, demonstrated, bounds, truth)
        near = _near(whole, demonstrated, bounds, truth)
        if near is not None:
            title = f"{name}, near the {'' if bounds else 'true '}boundary"
            yield View(name, title, near, demonstrated, bounds, truth)


def _figures(data: RunData, anchor: str) -> tuple[list[str], list[str]]:
    """(figures of the features that matter, figures of the others)"""
    inputs = next(iter(data.costs.values())).inputs
    main = important(data)
    if not main:
        return [], []
    panels = [(view, np.linspace(*view.window, GRID)) for view in views(data, [*main, *rest(data)])]
    costs = {label: data.costs[key] for key, label in LABELS.items() if key in data.costs}
    curves = [
        {label: _along(cost, view.feature, x, data.samples["expert"]) for label, cost in costs.items()}
        for view, x in panels
    ]
    tops = [max(float(y.max()) for y in lines.values()) for lines in curves]
    # One scale for all, so that a feature that hardly matters looks like it.
    highest = max(top for top, (view, _) in zip(tops, panels, strict=True) if view.feature in main) or 1.0
    figures = []
    for i, ((view, x), lines) in enumerate(zip(panels, curves, strict=True)):
        column = inputs.columns[inputs.names.index(view.feature)]
        svg = cost_along(
            view.feature,
            view.window,
            curves={label: (x, y) for label, y in lines.items()},
            visits={label: data.samples[key][:, column] for key, label in VISITORS.items()},
            demonstrated=view.demonstrated,
            bounds=view.bounds,
            truth=view.truth,
            highest=max(highest, tops[i]),
        )
        figures.append(figure(svg, f"{anchor}-feature-{i}", view.title, emphasised(view.caption)))
    first = sum(view.feature in main for view, _ in panels)
    return figures[:first], figures[first:]


def _along(cost: LearnedCost, name: str, x: np.ndarray, expert: np.ndarray) -> np.ndarray:
    """Cost (n,) with that feature at x and the others as in demonstrated states, averaged over those."""
    chosen = expert[:: max(1, len(expert) // AROUND)][:AROUND]
    return np.mean([cost.profile(name, x, row) for row in chosen], axis=0)


def _whole(values: np.ndarray, bounds: list[Bound], truth: Bound | None) -> Window:
    """A window with nearly all values and every boundary, except a true one that is very far away."""
    low, high = np.quantile(values, (0.001, 0.999))
    span = max(float(high - low), 1e-6)
    points = [bound.value for bound in bounds]
    if truth is not None and low - span < truth.value < high + span:
        points.append(truth.value)
    return float(min(low, *points, math.inf)) - 0.02 * span, float(max(high, *points, -math.inf)) + 0.02 * span


def _near(whole: Window, demonstrated: Window, bounds: list[Bound], truth: Bound | None) -> Window | None:
    """A window around the learned boundary, or else around the true one; None if the whole range shows it well."""
    span = whole[1] - whole[0]
    if bounds:
        edge = bounds[0].demonstrated
        points = [bounds[0].value] + ([] if edge is None else [edge])
    elif truth is not None:
        points = [truth.value, demonstrated[0 if truth.below else 1]]
    else:
        return None
    if truth is not None and min(abs(truth.value - point) for point in points) < 0.1 * span:
        points.append(truth.value)
    pad = max(max(points) - min(points), 0.02 * span)
    window = min(points) - pad, max(points) + pad
    return window if window[1] - window[0] < 0.25 * span else None


# ---------------------------------------------------------------------------------------------------------------------
# The section "The rule": in words and one picture, what is not known, how far to trust it


def rule(data: RunData, anchor: str) -> Section | None:
    """The section about the rule: the explanation of `tacit explain` and the guarantees of `tacit calibrate`."""
    words = "" if data.explanation is None else _rule(data, data.explanation, anchor)
    body = words + _thresholds(data.calibration)
    return Section("The rule", body) if body else None


def _rule(data: RunData, explanation: Explanation, anchor: str) -> str:
    try:
        sentence, *facts = in_words(explanation)
        drawings = _cell_figures(explanation, anchor) if explanation["kind"] == "cells" else []
        if explanation["kind"] == "features":
            drawings = _feature_figures(data, explanation, anchor)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, UserError):  # a damaged file
        return ""
    css = "figures maps" if explanation["kind"] == "cells" else "figures wide"
    figures = f'<div class="{css}">{"".join(drawings)}</div>' if drawings else ""
    return f'<p class="rule"><b>{emphasised(sentence)}</b></p>{figures}{_list(facts)}'


def _cell_figures(explanation: CellExplanation, anchor: str) -> list[str]:
    # One picture per map, because maps side by side would be too small to read on a phone.
    map_itself, forbidden = (cells(explanation, (part,)) for part in PARTS)
    crossed = "Red crosses, if any, are the hidden constraint. The learner never sees them."
    outlined = (
        "Outlined cells are forbidden. Neither the demonstrations nor an agent that follows only the reward enters the "
        "cells that are struck through."
    )
    return [
        figure(map_itself, f"{anchor}-rule-map", "The map", crossed),
        figure(forbidden, f"{anchor}-rule", "What is forbidden", outlined),
    ]


def _feature_figures(data: RunData, explanation: FeatureExplanation, anchor: str) -> list[str]:
    """The two or three pictures that matter most; none if the folder lacks what they are drawn from."""
    cost = data.costs.get(explanation["of"])
    if cost is None:
        return []
    pictures = pictures_of(explanation, cost, sample_of({"expert_range": _limits(data), **data.samples}, cost))
    return [
        figure(one.draw(described=False), f"{anchor}-rule-{i}", one.title, emphasised(one.caption))
        for i, one in enumerate(pictures)
    ]


def _limits(data: RunData) -> np.ndarray:
    expert = data.samples["expert"]
    return np.stack([expert.min(axis=0), expert.max(axis=0)])


def _list(lines: list[str]) -> str:
    """The lines as a list; indented ones are a list of their own, below the line before them."""
    items: list[tuple[str, list[str]]] = []
    for line in filter(None, lines):
        if line.startswith(" ") and items:
            items[-1][1].append(line.strip())
        else:
            items.append((line.strip(), []))

    def listed(texts: list[str]) -> str:
        return f"<ul>{''.join(f'<li>{text}</li>' for text in texts)}</ul>" if texts else ""

    return listed([emphasised(line) + listed([emphasised(one) for one in below]) for line, below in items])


def _thresholds(calibration: Mapping[str, CalibrationEntry]) -> str:
    rows = []
    for name, label in LABELS.items():
        entry = as_mapping(calibration.get(name))
        if not all(is_number(entry.get(key)) for key in ("threshold", "accepts", "accepts_at_least", "demonstrations")):
            continue
        caught = as_mapping(entry.get("power"))
        whole, steps = value_of(caught.get("trajectories")), value_of(caught.get("steps"))
        cells = [
            esc(label),
            number(entry["threshold"]),
            number(entry["demonstrations"]),
            percent(entry["accepts"]),
            percent(entry["accepts_at_least"]),
            "–" if whole is None else percent(whole),
            "–" if steps is None else percent(steps),
        ]
        rows.append((cells, ""))
    if not rows:
        return ""
    head = ["", "threshold", "held out", "accepts at least", "with 95 % confidence", "rejects: trajectories", "steps"]
    words = (
        "A demonstration drawn like those that were held out stays below the threshold at every step with the given "
        "probability: a guarantee about false alarms. The share that it rejects of an unconstrained agent is its power."
    )
    return f"<h3>Thresholds with a guarantee</h3><p>{words}</p>" + table("thresholds", head, rows)
