"""The figures of experiments as PNG, drawn from saved numbers. `FIGURES` lists them by name.

curves     return and violations during training: a column per group, a line per row, shades are standard errors
seeds      the same with a line per seed
driving    the same for the highway: means, each seed thinly, the expert
values     numbers of finished runs against the value of their group
changes    a dot per seed: return before violation over the demonstrations', and violating episodes

A method has the same colour everywhere. What is missing is written into the figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tacit.envs.traffic import SIMULATED
from tacit.errors import listed
from tacit.plots import COLOURS, INK, SOFT, new_figure, render, style
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.records import demonstrated, expert_of, group_of, groups_in, labelled, number, rows_in, runs_of
from tacit.reproduce.results import Curves, Number, Record, Results
from tacit.reproduce.tables import EXPERT, mean_of_agent, rows_with_runs

METHOD_COLOURS = {"mce": 0, "gacl": 1, "me-icrl": 2, "vicrl": 3, "bc2l": 4, "irl-correction": 5}
REFERENCE_DASHES = {"ppo": (0, (1, 1.5)), "rcpo": (0, (6, 1.5, 1.5, 1.5)), "bc": (0, (3, 3))}
REFERENCE_DASHES |= {"expert": (0, (5, 1.5, 1, 1.5, 1, 1.5))}
PANELS: dict[str, Number] = {
    "return before violation": number("stochastic", "terminated_return"),
    "violating steps, %": number("stochastic", "violation_rate_step", scale=100.0),
    "violating episodes, %": number("stochastic", "violation_rate_episode", scale=100.0),
}
"""Panels of a `values` figure by default."""
PANELS_EXPERT: dict[str, Number] = {"return before violation": number("expert", "return")}


def look(row: str, rows: Sequence[str]) -> dict[str, Any]:
    """Colour and dash of a row; references are grey."""
    if row in REFERENCE_DASHES:
        return {"color": SOFT, "linestyle": REFERENCE_DASHES[row], "linewidth": 1.3}
    others = [name for name in rows if name not in REFERENCE_DASHES and name not in METHOD_COLOURS]
    place = METHOD_COLOURS[row] if row in METHOD_COLOURS else others.index(row)
    # Exact methods in a figure with deep ones get the colours after theirs.
    shift = 4 if row not in METHOD_COLOURS and any(name in METHOD_COLOURS for name in rows) else 0
    index = place + shift
    return {"color": COLOURS[index] if index < len(COLOURS) else INK, "linestyle": "-"}


# ---------------------------------------------------------------------------------------------------------------------
# Figures of training


def training(
    groups: Sequence[str], width: float, height: float, fill: Callable[[str, Any, Any], None]
) -> tuple[Any, Any]:
    """Make (figure, panels): return above, violating steps below, a column per group; `fill(group, upper, lower)`."""
    drawing = new_figure(width, height)
    panels = drawing.subplots(2, len(groups), squeeze=False)
    for column, group in enumerate(groups):
        upper, lower = panels[:, column]
        upper.set_title(group)
        fill(group, upper, lower)
        lower.set_xlabel("environment steps, millions")
        lower.set_ylim(bottom=0)
    panels[0, 0].set_ylabel("return (rollouts)")
    panels[1, 0].set_ylabel("violating steps, %")
    return drawing, panels


def _points(curves: Curves, key: str, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    return np.array(curves["steps"], dtype=float) / 1e6, scale * np.array(curves[key], dtype=float)


def _no_run(axes: Any, height: float) -> None:
    axes.text(0.5, height, "no run", transform=axes.transAxes, ha="center", va="center")


def curves(experiment: Experiment, results: Results) -> bytes:
    """Means over seeds, and the level of the demonstrators."""
    return curves_of(results, list(experiment.groups), list(experiment.rows), experiment.wide)


def curves_of(results: Results, groups: Sequence[str], rows: Sequence[str], wide: float = 2.5) -> bytes:
    groups, rows = groups_in(results, groups), rows_in(results, rows)

    def fill(group: str, upper: Any, lower: Any) -> None:
        expert = expert_of(results, group)
        level = {"color": INK, "linewidth": 0.9, "linestyle": (0, (1, 2))}
        if expert is not None:
            upper.axhline(expert["return"], label="demonstrations", **level)
            lower.axhline(100 * expert.get("violation_rate_step", 0.0), **level)
        for row in rows:
            chosen = [run["curves"] for run in runs_of(results, group, row) if run.get("curves")]
            _band(upper, chosen, "return", 1.0, look(row, rows), row)
            _band(lower, chosen, "violations", 100.0, look(row, rows), row)
        if not any(runs_of(results, group, row) for row in rows):
            _no_run(upper, 0.5)

    with style():
        drawing, panels = training(groups, max(4.6, wide * len(groups) + 0.4), 4.9, fill)
        finish(drawing, panels, results)
        return render(drawing, "png", tight=False)


def _band(axes: Any, chosen: Sequence[Curves], key: str, scale: float, style_of: Any, label: str) -> None:
    """Mean and standard error over the seeds at the steps where all of them have a value."""
    pairs = []
    for x, y in (_points(curve, key, scale) for curve in chosen):
        finite = np.isfinite(y)
        if finite.any():
            pairs.append((x[finite], y[finite]))
    if not pairs:
        return
    grid = np.unique(np.concatenate([x for x, _ in pairs]))
    grid = grid[(grid >= max(x[0] for x, _ in pairs)) & (grid <= min(x[-1] for x, _ in pairs))]
    values = np.stack([np.interp(grid, x, y) for x, y in pairs])
    mean, error = values.mean(axis=0), values.std(axis=0, ddof=1 if len(values) > 1 else 0) / np.sqrt(len(values))
    axes.plot(grid, mean, label=label, **style_of)
    if len(values) > 1:
        axes.fill_between(grid, mean - error, mean + error, color=style_of["color"], alpha=0.18, linewidth=0)


def seeds(experiment: Experiment, results: Results, from_zero: bool = False) -> bytes:
    """A line per seed, the demonstrations, and the levels of the experiment; `from_zero` shows a return of 0."""
    row = next(iter(experiment.rows))

    def fill(group: str, upper: Any, lower: Any) -> None:
        runs = labelled(results, experiment.label(group, row))
        level = {"color": SOFT, "linewidth": 1.0}
        if runs and demonstrated(runs[0]) is not None:
            upper.axhline(demonstrated(runs[0]), label="demonstrations", **level)
        for words, returns in experiment.levels.items():
            upper.axhline(returns[group], linestyle="--", label=words, **level)
        for run in runs:
            colour = COLOURS[run["seed"] % len(COLOURS)]
            upper.plot(*_points(run["curves"], "return"), color=colour, label=f"seed {run['seed']}")
            lower.plot(*_points(run["curves"], "violations", 100.0), color=colour)
        if from_zero:
            upper.set_ylim(bottom=min(0.0, upper.get_ylim()[0]) if runs else 0.0)
        if not runs:
            _no_run(upper, 0.3)

    with style():
        groups = list(experiment.groups)
        drawing, panels = training(groups, 2.5 * len(groups), 4.6, fill)
        handles = handles_of(panels)
        drawing.legend(handles.values(), handles.keys(), loc="lower center", ncols=max(1, len(handles)))
        drawing.tight_layout(rect=(0, 0.06, 1, 1))
        return render(drawing, "png", tight=False)


def driving(experiment: Experiment, results: Results) -> bytes:
    """Means over seeds, each seed as a thin line, and the expert's level. A note says that the traffic is simulated."""
    rows = rows_with_runs(experiment, results)

    def fill(task: str, upper: Any, lower: Any) -> None:
        upper.set_title(f"{task} rule")
        experts = runs_of(results, task, EXPERT)
        level = {"color": SOFT, "linewidth": 1.0}
        if experts:
            upper.axhline(mean_of_agent(experts, "stochastic", "return"), label="expert, at the end", **level)
            lower.axhline(100 * mean_of_agent(experts, "stochastic", "violation_rate_step"), **level)
            starts = mean_of_agent(experts, "stochastic", "initial_violation_rate")
            lower.axhline(100 * starts, linestyle=":", label="violating starts", **level)
        for index, row in enumerate(rows):
            if row != EXPERT:
                turn, colour = divmod(index, len(COLOURS))
                style_of = {"color": COLOURS[colour], "linestyle": ("-", "--", ":")[turn % 3]}
                chosen = [run["curves"] for run in runs_of(results, task, row) if run["curves"]]
                _mean_and_seeds(upper, chosen, "return", 1.0, style_of, row)
                _mean_and_seeds(lower, chosen, "violations", 100.0, style_of, row)

    with style():
        drawing, panels = training(list(experiment.groups), 8.4, 5.4, fill)
        handles = handles_of(panels)
        drawing.legend(handles.values(), handles.keys(), loc="lower center", ncols=4)
        drawing.text(0.995, 0.995, SIMULATED, ha="right", va="top", fontsize=7, color=SOFT)
        lines_of_legend = -(-len(handles) // 4)
        drawing.tight_layout(rect=(0, 0.02 + 0.035 * lines_of_legend, 1, 0.98))
        return render(drawing, "png", tight=False)


def _mean_and_seeds(axes: Any, chosen: Sequence[Curves], key: str, scale: float, style_of: Any, label: str) -> None:
    for curve in chosen:
        axes.plot(*_points(curve, key, scale), linewidth=0.4, alpha=0.3, **style_of)
    if chosen:
        shortest = min(len(curve["steps"]) for curve in chosen)
        values = np.mean([_points(curve, key, scale)[1][:shortest] for curve in chosen], axis=0)
        axes.plot(_points(chosen[0], key)[0][:shortest], values, linewidth=1.8, label=label, **style_of)


# ---------------------------------------------------------------------------------------------------------------------
# Figures of finished runs


def values(experiment: Experiment, results: Results) -> bytes:
    """Numbers of finished runs against the value of their group, a panel per number; bars are standard errors."""
    axis = experiment.axis
    panels = axis.panels or PANELS
    expert = axis.expert if axis.panels else PANELS_EXPERT
    rows, groups = rows_in(results, list(experiment.rows)), groups_in(results, list(experiment.groups))
    places = {group: experiment.groups[group].value or 0.0 for group in groups}
    with style():
        drawing = new_figure(max(4.6, 3.6 * len(panels)), 3.6)
        all_axes = drawing.subplots(1, len(panels), squeeze=False)
        reach = float(np.ptp(list(places.values()))) if len(groups) > 1 else 1.0
        for axes, (label, of) in zip(all_axes[0], panels.items(), strict=True):
            for index, row in enumerate(rows):
                # Shift each row sideways a little, so that bars do not cover each other.
                shift = (index - (len(rows) - 1) / 2) * 0.006
                points = _means(results, places, row, of)
                if len(points):
                    x, y, bars = points.T
                    x = x * (1 + 4 * shift) if axis.log else x + shift * reach
                    axes.errorbar(x, y, yerr=bars, marker="o", markersize=3.5, capsize=2, label=row, **look(row, rows))
            levels = _expert_levels(results, places, expert.get(label))
            if len(levels):
                axes.plot(*levels.T, color=INK, linestyle=(0, (1, 2)), label="demonstrations")
            if axis.log:
                axes.set_xscale("log")
            if axis.ticks is not None:
                axes.set_xticks(list(axis.ticks), list(axis.ticks.values()))
                axes.minorticks_off()
            axes.set_xlabel(axis.label)
            axes.set_ylabel(label)
        finish(drawing, all_axes, results)
        return render(drawing, "png", tight=False)


def _means(results: Results, places: Mapping[str, float], row: str, of: Number) -> np.ndarray:
    """Place, mean and standard error of every group that has the number: (groups, 3)."""
    points = []
    for group, place in places.items():
        numbers = [of(run) for run in runs_of(results, group, row)]
        finite = np.array([value for value in numbers if value is not None and np.isfinite(value)])
        if len(finite):
            spread = finite.std(ddof=1) / np.sqrt(len(finite)) if len(finite) > 1 else 0.0
            points.append((place, finite.mean(), spread))
    return np.array(points)


def _expert_levels(results: Results, places: Mapping[str, float], of: Number | None) -> np.ndarray:
    """Place and the demonstrators' number of every group, taken from a run that recorded it: (groups, 2)."""
    points = []
    for group, place in places.items() if of is not None else ():
        run = next((run for run in results["runs"] if group_of(run["label"]) == group and run.get("expert")), None)
        value = None if run is None or of is None else of(run)
        if value is not None:
            points.append((place, value))
    return np.array(points)


def changes(experiment: Experiment, results: Results) -> bytes:
    """Return before violation over the demonstrations', and violating episodes: a dot per seed, a line per row."""
    rows = list(experiment.rows)

    def ratio(run: Record) -> float:
        return run["stochastic"]["terminated_return"] / (demonstrated(run) or np.nan)

    with style():
        drawing = new_figure(11.0, 0.36 * len(rows) + 1.4)
        left, right = drawing.subplots(1, 2, sharey=True)
        for shift, group in enumerate(experiment.groups):
            for place, row in enumerate(rows):
                runs = [run for run in results["runs"] if run["label"] == f"{group}: {row}"]
                heights = np.full(len(runs), place + 0.22 * (shift - 1))
                broken = [100 * run["stochastic"]["violation_rate_episode"] for run in runs]
                dots = {"color": COLOURS[shift], "markersize": 4}
                left.plot([*map(ratio, runs)], heights, "o", label=group if place == 0 else None, **dots)
                right.plot(broken, heights, "o", **dots)
        left.set_yticks(range(len(rows)), rows)
        left.invert_yaxis()
        left.set_xlabel("return before violation over the demonstrations'")
        right.set_xlabel("violating episodes, %")
        left.legend(loc="lower left")
        drawing.tight_layout()
        return render(drawing, "png", tight=False)


# ---------------------------------------------------------------------------------------------------------------------
# Legend


def handles_of(panels: Any) -> dict[str, Any]:
    """{label: line} of all panels, for one legend."""
    handles: dict[str, Any] = {}
    for axes in np.ravel(panels):
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    return handles


def finish(drawing: Any, panels: Any, results: Results) -> None:
    """Draw one legend for all panels, and below it the list of missing runs."""
    handles = handles_of(panels)
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


def words_of_missing(results: Results, most: int = 6) -> str:
    """A line that names missing runs; empty if there are none."""
    lost = results.get("missing") or []
    names = dict.fromkeys(run["label"] for run in lost)
    return f"missing runs ({len(lost)}): {listed(names, most, '; ')}" if lost else ""


FIGURES: Mapping[str, Callable[[Experiment, Results], bytes]] = {
    "curves": curves,
    "seeds": seeds,
    "experts": partial(seeds, from_zero=True),
    "driving": driving,
    "values": values,
    "changes": changes,
}
