"""Pictures of an explanation: each bound as a strip of its feature's values, or the cells of a map.

draw(explain(run)) -> bytes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tacit.cost.bounds import Bound
from tacit.plots.grids import Panel, grid_figure
from tacit.plots.style import COLOURS, INK, Format, new_figure, plain, render, style
from tacit.run.summary import BoundView, CellExplanation, Explanation, FeatureExplanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = ("map", "forbidden")
"""Parts of the picture of cells."""
_DEMONSTRATED, _OPEN, _FORBIDDEN = COLOURS[2], COLOURS[4], COLOURS[1]


def draw(explanation: Explanation, *, format: Format = "svg") -> bytes:
    """The picture of an explanation (see `tacit.explain`)."""
    if explanation["kind"] == "cells":
        return cells(explanation, format=format)
    return strips(explanation, format=format)


def strips(explanation: FeatureExplanation, *, format: Format = "svg") -> bytes:
    """One strip per bound: demonstrated, unknown and forbidden values; the learned boundary, its interval, the
    truth."""
    from matplotlib.patches import Patch

    bounds = [
        ("and " if place else "or " if number else "", Bound.from_json(entry))
        for number, clause in enumerate(explanation["clauses"])
        for place, entry in enumerate(clause["bounds"])
    ]
    stated = explanation["truth"]
    truth = None if stated is None else Bound.parse(stated["constraint"])
    with style():
        rows = max(1, len(bounds))
        figure = new_figure(6.2, 0.75 + 0.8 * rows)
        axes = np.atleast_1d(figure.subplots(rows, 1, gridspec_kw={"hspace": 1.9}))
        if not bounds:
            axes[0].text(0.5, 0.5, "nothing is forbidden", ha="center", va="center", transform=axes[0].transAxes)
            axes[0].set_axis_off()
        for axis, (word, bound), view in zip(axes, bounds, explanation["views"], strict=False):
            _strip(axis, bound, view, truth)
            axis.set_title(plain(f"{word}{bound:.3g}"), loc="left", pad=13)
        handles = [
            Patch(color=_DEMONSTRATED, alpha=0.55, linewidth=0, label="demonstrated"),
            Patch(color=_OPEN, alpha=0.6, linewidth=0, label="not known: no demonstration goes there"),
            Patch(color=_FORBIDDEN, alpha=0.75, linewidth=0, label="forbidden"),
        ]
        figure.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.12, 0.98), ncols=3, handlelength=1.2)
        return render(figure, format)


def _strip(axes: Axes, bound: Bound, view: BoundView, truth: Bound | None) -> None:
    low, high = view["window"]
    below, value = bound.below, bound.value
    edge = value if bound.demonstrated is None else bound.demonstrated
    sure = value if bound.certain is None else (min if below else max)(bound.certain, value)
    end, inside = (low, high) if below else (high, low)
    lowest, highest = view["shown"]
    reach = min(inside, highest) if below else max(inside, lowest)
    for start, stop, colour, alpha in (
        (edge, reach, _DEMONSTRATED, 0.55),
        (sure, edge, _OPEN, 0.6),
        (end, sure, _FORBIDDEN, 0.75),
    ):
        axes.axvspan(*sorted((start, stop)), color=colour, alpha=alpha, linewidth=0)
    axes.axvline(value, color=INK, linewidth=1.6)
    axes.annotate("learned", (value, 1.0), xycoords=("data", "axes fraction"), ha="center", va="bottom", fontsize=7)
    if bound.low is not None and bound.high is not None:
        axes.plot([bound.low, bound.high], [0.5, 0.5], color=INK, linewidth=2.2, solid_capstyle="butt")
    if truth is not None and truth.side == bound.side:
        true = truth.value
        if not low < true < high:
            low, high = min(low, true - 0.04 * (high - low)), max(high, true + 0.04 * (high - low))
        axes.axvline(true, color=INK, linewidth=1.6, linestyle=(0, (1, 1.3)))
        axes.annotate("true", (true, 1.0), xycoords=("data", "axes fraction"), ha="center", va="bottom", fontsize=7)
    axes.set(xlim=(low, high), ylim=(0, 1), yticks=[])
    axes.grid(False)
    axes.spines["left"].set_visible(False)


def cells(explanation: CellExplanation, parts: Sequence[str] = PARTS, *, format: Format = "svg") -> bytes:
    """The map with the cost of each cell. Forbidden cells are outlined, unknown ones struck through."""
    layout = explanation["layout"]
    places = [(r, c) for r, line in enumerate(layout) for c, mark in enumerate(line) if mark != "#"]
    row, col = np.array(places).T
    marked, unknown = ({tuple(cell) for cell in part} for part in (explanation["cells"], explanation["unknown"]))
    several = len(parts) > 1  # a single picture gets its title from the page
    panels = {
        "map": Panel(title="the map" if several else ""),
        "forbidden": Panel(
            np.asarray(explanation["costs"]),
            label="learned cost; lines: forbidden; strokes: not known",
            hatch=np.array([float(place in unknown) for place in places]),
            title="forbidden" if several else "",
        ),
    }
    outline = np.array([place in marked for place in places])
    return grid_figure(layout, [panels[part] for part in parts], row=row, col=col, outline=outline, format=format)
