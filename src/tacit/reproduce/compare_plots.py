"""Figures of comparisons: curves during training, and numbers against a setting. See `compare`.

A method has the same colour everywhere. Lines are means over seeds, shades their standard errors. What is missing is
written into the figure. (Not an experiment itself.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tacit.reproduce.compare import expert_of, groups_in, rows_in, runs_of

METHOD_COLOURS = {"mce": 0, "gacl": 1, "me-icrl": 2, "vicrl": 3, "bc2l": 4, "irl-correction": 5}
REFERENCE_DASHES = {"ppo": (0, (1, 1.5)), "rcpo": (0, (6, 1.5, 1.5, 1.5)), "bc": (0, (3, 3))}
REFERENCE_DASHES |= {"expert": (0, (5, 1.5, 1, 1.5, 1, 1.5))}
Numbers = Callable[[Mapping[str, Any]], float | None]
"""What is drawn of a run; None where it has no such number."""


def look(row: str, rows: Sequence[str]) -> dict[str, Any]:
    """Colour and dash of a row; references are grey."""
    from tacit.plots import COLOURS, INK, SOFT

    if row in REFERENCE_DASHES:
        return {"color": SOFT, "linestyle": REFERENCE_DASHES[row], "linewidth": 1.3}
    others = [name for name in rows if name not in REFERENCE_DASHES and name not in METHOD_COLOURS]
    place = METHOD_COLOURS[row] if row in METHOD_COLOURS else others.index(row)
    # Exact methods beside the deep ones begin where those end.
    shift = 4 if row not in METHOD_COLOURS and any(name in METHOD_COLOURS for name in rows) else 0
    number = place + shift
    return {"color": COLOURS[number] if number < len(COLOURS) else INK, "linestyle": "-"}


def curves(results: Mapping[str, Any], groups: Sequence[str], rows: Sequence[str], wide: float = 2.5) -> bytes:
    """Return and violating steps during training, a column a group, a line a row, and what the demonstrators do."""
    from tacit.plots import INK, new_figure, render, style

    groups, rows = groups_in(results, groups), rows_in(results, rows)
    with style():
        drawing = new_figure(max(4.6, wide * len(groups) + 0.4), 4.9)
        panels = drawing.subplots(2, len(groups), squeeze=False)
        for column, group in enumerate(groups):
            upper, lower = panels[:, column]
            upper.set_title(group)
            expert = expert_of(results, group)
            level = {"color": INK, "linewidth": 0.9, "linestyle": (0, (1, 2))}
            if expert is not None:
                upper.axhline(expert["return"], label="demonstrations", **level)
                lower.axhline(100 * expert.get("violation_rate_step", 0.0), **level)
            for row in rows:
                chosen = [run["curves"] for run in runs_of(results, group, row) if run.get("curves")]
                style_of = look(row, rows)
                _band(upper, chosen, "return", 1.0, style_of, row)
                _band(lower, chosen, "violations", 100.0, style_of, row)
            if not any(runs_of(results, group, row) for row in rows):
                upper.text(0.5, 0.5, "no run", transform=upper.transAxes, ha="center", va="center")
            lower.set_xlabel("environment steps, millions")
            lower.set_ylim(bottom=0)
        panels[0, 0].set_ylabel("return (rollouts)")
        panels[1, 0].set_ylabel("violating steps, %")
        finish(drawing, panels, results)
        return render(drawing, "png", tight=False)


def _band(axes: Any, found: Sequence[Mapping[str, Any]], key: str, scale: float, style_of: Any, label: str) -> None:
    """Mean and standard error of the seeds, where all of them have a value."""
    pairs = []
    for curve in found:
        x, y = np.array(curve["steps"], dtype=float) / 1e6, scale * np.array(curve[key], dtype=float)
        known = np.isfinite(y)
        if known.any():
            pairs.append((x[known], y[known]))
    if not pairs:
        return
    grid = np.unique(np.concatenate([x for x, _ in pairs]))
    grid = grid[(grid >= max(x[0] for x, _ in pairs)) & (grid <= min(x[-1] for x, _ in pairs))]
    values = np.stack([np.interp(grid, x, y) for x, y in pairs])
    mean, error = values.mean(axis=0), values.std(axis=0, ddof=1 if len(values) > 1 else 0) / np.sqrt(len(values))
    axes.plot(grid, mean, label=label, **style_of)
    if len(values) > 1:
        axes.fill_between(grid, mean - error, mean + error, color=style_of["color"], alpha=0.18, linewidth=0)


def against(
    results: Mapping[str, Any],
    groups: Mapping[str, float],
    rows: Sequence[str],
    panels: Mapping[str, Numbers],
    xlabel: str,
    expert: Mapping[str, Numbers] | None = None,
    log: bool = False,
    ticks: Mapping[float, str] | None = None,
) -> bytes:
    """Numbers of finished runs against the value of their group, a panel each; bars are standard errors.

    `expert` has functions for panels in which the demonstrators are drawn, `ticks` are {value: words}.
    """
    from tacit.plots import INK, new_figure, render, style

    rows, there = rows_in(results, rows), groups_in(results, list(groups))
    with style():
        drawing = new_figure(max(4.6, 3.6 * len(panels)), 3.6)
        axes = drawing.subplots(1, len(panels), squeeze=False)
        reach = np.ptp([groups[group] for group in there]) if len(there) > 1 else 1.0
        for one, (label, number) in zip(axes[0], panels.items(), strict=True):
            for place, row in enumerate(rows):
                points = []
                for group in there:
                    found = [number(run) for run in runs_of(results, group, row)]
                    known = np.array([value for value in found if value is not None and np.isfinite(value)])
                    if len(known):
                        spread = known.std(ddof=1) / np.sqrt(len(known)) if len(known) > 1 else 0.0
                        points.append((groups[group], known.mean(), spread))
                if points:
                    x, y, bars = np.array(points).T
                    # Sideways a little, so that bars do not cover each other.
                    shift = (place - (len(rows) - 1) / 2) * 0.006
                    x = x * (1 + 4 * shift) if log else x + shift * reach
                    one.errorbar(x, y, yerr=bars, marker="o", markersize=3.5, capsize=2, label=row, **look(row, rows))
            level = (expert or {}).get(label)
            if level is not None:
                shown = [(groups[group], level(_any(results, group))) for group in there if _any(results, group)]
                known_levels = [(x, y) for x, y in shown if y is not None]
                if known_levels:
                    one.plot(*np.array(known_levels).T, color=INK, linestyle=(0, (1, 2)), label="demonstrations")
            if log:
                one.set_xscale("log")
            if ticks is not None:
                one.set_xticks(list(ticks), list(ticks.values()))
                one.minorticks_off()
            one.set_xlabel(xlabel)
            one.set_ylabel(label)
        finish(drawing, axes, results)
        return render(drawing, "png", tight=False)


def _any(results: Mapping[str, Any], group: str) -> dict[str, Any]:
    """A run of the group that knows its demonstrators; empty without one."""
    there = (run for run in results["runs"] if run["label"].partition(": ")[0] == group and run.get("expert"))
    return next(there, {})


def finish(drawing: Any, panels: Any, results: Mapping[str, Any]) -> None:
    """One legend for all panels, and below it what is missing."""
    from tacit.plots import SOFT

    handles: dict[str, Any] = {}
    for axes in np.ravel(panels):
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if "demonstrations" in handles:
        handles["demonstrations"] = handles.pop("demonstrations")  # last
    width, height = drawing.get_size_inches()
    lines = -(-len(handles) // max(1, int(width / 1.4)))
    columns = -(-len(handles) // max(1, lines))
    lost = words_of_missing(results)
    if lost:
        drawing.text(0.01, 0.06 / height, lost, ha="left", va="bottom", fontsize=6.5, color=SOFT)
    bottom = (0.2 if lost else 0.05) / height
    if handles:
        drawing.legend(
            handles.values(), handles.keys(), loc="lower center", ncols=max(1, columns), bbox_to_anchor=(0.5, bottom)
        )
    drawing.tight_layout(rect=(0, bottom + 0.2 * lines / height + 0.04 / height, 1, 1))


def words_of_missing(results: Mapping[str, Any], most: int = 6) -> str:
    """A line about runs that are not there; empty when all are."""
    lost = results.get("missing") or []
    if not lost:
        return ""
    named = list(dict.fromkeys(run["label"] for run in lost))
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return f"missing runs ({len(lost)}): {'; '.join(named[:most])}{more}"
