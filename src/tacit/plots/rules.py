"""A rule drawn: each bound as a strip of its feature's values, or the cells of a map. See plots.py for the conventions.

draw(explain(run)) -> bytes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.explain.rules import short
from tacit.plots import COLOURS, INK, Format, new_figure, plain, render, style

PARTS = ("map", "forbidden")
"""Of the picture of cells."""
_SHOWN, _OPEN, _FORBIDDEN = COLOURS[2], COLOURS[4], COLOURS[1]


def draw(found: Mapping[str, Any], *, format: Format = "svg") -> bytes:
    """The picture of an explanation (see `tacit.explain`)."""
    return cells(found, format=format) if found["kind"] == "cells" else strips(found, format=format)


def strips(found: Mapping[str, Any], *, format: Format = "svg") -> bytes:
    """One strip a bound: demonstrated, not known, forbidden; the learned boundary with its interval; the true one."""
    from matplotlib.patches import Patch

    bounds = [(bound, k) for k, clause in enumerate(found["clauses"]) for bound in clause["bounds"]]
    with style():
        rows = max(1, len(bounds))
        figure = new_figure(6.2, 0.75 + 0.8 * rows)
        axes = np.atleast_1d(figure.subplots(rows, 1, gridspec_kw={"hspace": 1.9}))
        if not bounds:
            axes[0].text(0.5, 0.5, "nothing is forbidden", ha="center", va="center", transform=axes[0].transAxes)
            axes[0].set_axis_off()
        for axis, (bound, clause), view in zip(axes, bounds, found["views"], strict=False):
            _strip(axis, bound, view, found["truth"])
            joined = clause > 0 and bound is found["clauses"][clause]["bounds"][0]
            within = bound is not found["clauses"][clause]["bounds"][0]
            word = "and " if within else ("or " if joined else "")
            axis.set_title(
                plain(f"{word}{bound['feature']} {bound['relation']} {short(bound['value'])}"), loc="left", pad=13
            )
        handles = [
            Patch(color=_SHOWN, alpha=0.55, linewidth=0, label="demonstrated"),
            Patch(color=_OPEN, alpha=0.6, linewidth=0, label="not known: no demonstration goes there"),
            Patch(color=_FORBIDDEN, alpha=0.75, linewidth=0, label="forbidden"),
        ]
        figure.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.12, 0.98), ncols=3, handlelength=1.2)
        return render(figure, format)


def _strip(axes: Any, bound: Mapping[str, Any], view: Mapping[str, Any], truth: Mapping[str, Any] | None) -> None:
    low, high = view["window"]
    below = bound["relation"] == "<"
    value = bound["value"]
    edge = value if bound["demonstrated"] is None else bound["demonstrated"]
    sure = value if bound["certain"] is None else (min if below else max)(bound["certain"], value)
    end, inside = (low, high) if below else (high, low)
    shown = view["shown"]
    reach = (max if not below else min)(inside, shown[0] if not below else shown[1])
    for start, stop, colour, alpha in (
        (edge, reach, _SHOWN, 0.55),
        (sure, edge, _OPEN, 0.6),
        (end, sure, _FORBIDDEN, 0.75),
    ):
        axes.axvspan(*sorted((start, stop)), color=colour, alpha=alpha, linewidth=0)
    axes.axvline(value, color=INK, linewidth=1.6)
    axes.annotate("learned", (value, 1.0), xycoords=("data", "axes fraction"), ha="center", va="bottom", fontsize=7)
    if bound.get("low") is not None:
        axes.plot([bound["low"], bound["high"]], [0.5, 0.5], color=INK, linewidth=2.2, solid_capstyle="butt")
    true = _true_value(bound, truth)
    if true is not None:
        if not low < true < high:
            low, high = min(low, true - 0.04 * (high - low)), max(high, true + 0.04 * (high - low))
        axes.axvline(true, color=INK, linewidth=1.6, linestyle=(0, (1, 1.3)))
        axes.annotate("true", (true, 1.0), xycoords=("data", "axes fraction"), ha="center", va="bottom", fontsize=7)
    axes.set(xlim=(low, high), ylim=(0, 1), yticks=[])
    axes.grid(False)
    axes.spines["left"].set_visible(False)


def _true_value(bound: Mapping[str, Any], truth: Mapping[str, Any] | None) -> float | None:
    """Of the true constraint, if it is a bound on the same side of the same feature."""
    parts = str((truth or {}).get("constraint")).rsplit(" ", 2)
    if len(parts) != 3 or parts[0] != bound["feature"] or parts[1][:1] != bound["relation"]:
        return None
    try:
        return float(parts[2])
    except ValueError:
        return None


def cells(found: Mapping[str, Any], parts: Sequence[str] = PARTS, *, format: Format = "svg") -> bytes:
    """The map, and what each cell costs, forbidden ones outlined, those that are not known struck through."""
    from tacit.plots.grids import Panel, grid_figure

    layout = found["layout"]
    places = [(r, c) for r, line in enumerate(layout) for c, mark in enumerate(line) if mark != "#"]
    row, col = np.array(places).T
    marked, unknown = ({tuple(cell) for cell in found[key]} for key in ("cells", "unknown"))
    several = len(parts) > 1  # one alone is named by whoever shows it
    panels = {
        "map": Panel(title="the map" if several else ""),
        "forbidden": Panel(
            np.asarray(found["costs"]),
            label="learned cost; lines: forbidden; strokes: not known",
            hatch=np.array([float(place in unknown) for place in places]),
            title="forbidden" if several else "",
        ),
    }
    outline = np.array([place in marked for place in places])
    return grid_figure(layout, [panels[part] for part in parts], row=row, col=col, outline=outline, format=format)
