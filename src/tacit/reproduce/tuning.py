"""The record of tuning: four trials a method on HalfCheetah and Swimmer, with a seed that no evaluation uses.

Trial 1 is the preset `reference` as it was; each of the others changes what matters most in that method. A trial is
chosen without looking at the true constraint, by the only thing that a user has as well: what demonstrators earn. Who
keeps to the constraint cannot earn much more than they do; who fears the wrong things earns less:

    score = max(0, 1 - |return / median return of the demonstrations - 1|),    mean over the two robots           (1)

(The median, because three of HalfCheetah's ten demonstrations tumble: by their mean, tumbling now and then is right.)

The trial with the largest (1) is chosen. The true violations stand beside it, and the trial that they would have chosen
(by the terminated return), so that one sees what the choice was worth. (`robots` has the experiment.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.reproduce import compare, records
from tacit.reproduce.compare import Row, header, runs_of
from tacit.reproduce.experiment import Experiment

if TYPE_CHECKING:
    from tacit.run import Run
    from tacit.sweep import Job

SEEDS = (100,)
ROBOTS = ("HalfCheetah", "Swimmer")
TRIALS: dict[str, tuple[dict[str, Any], ...]] = {
    "mce": ({}, {"lr_zeta": 1e-3}, {"expert_square": 5.0}, {"forward_steps": 8192}),
    "gacl": ({}, {"lr_constraint": 1e-3}, {"lr_constraint": 1e-2}, {"discriminator_steps": 5}),
    "me-icrl": ({}, {"lr_constraint": 0.05}, {"multiplier_lr": 0.02}, {"anneal": 1.0}),
    "vicrl": ({}, {"lr_constraint": 0.05}, {"multiplier_lr": 0.02}, {"anneal": 1.0}),
    "bc2l": ({}, {"lr_constraint": 0.05}, {"multiplier_lr": 0.02}, {"anneal": 1.0}),
    "irl-correction": ({}, {"lr_constraint": 1e-3}, {"expert_square": 1.0}, {"backward_steps": 10}),
}
BEFORE: dict[str, dict[str, Any]] = {
    "gacl": {"discriminator_steps": 1},
    "me-icrl": {"lr_constraint": 5e-3},
    "vicrl": {"anneal": 0.95},
    "bc2l": {"anneal": 0.95},
    "irl-correction": {"expert_square": 0.1},
}
"""What the presets had when the trials were made, where the chosen trial has replaced it since."""
CHANGED = {f"{algo}, trial {number}": change for algo in TRIALS for number, change in enumerate(TRIALS[algo], start=1)}
ROWS = {
    name: Row(algo := name.partition(",")[0], settings={**BEFORE.get(algo, {}), **change})
    for name, change in CHANGED.items()
}


def jobs(seeds: list[int], quick: bool = False) -> list[Job]:
    """One run a seed, robot, method and trial."""
    rows = {name: row for name, row in ROWS.items() if not quick or name.endswith(("1", "2"))}
    return [
        compare.job(robot, name, row, f"tacit/{robot}-v0", seed, quick)
        for seed in seeds
        for robot in ROBOTS
        for name, row in rows.items()
    ]


def collect(job: Job, run: Run) -> dict[str, Any]:
    """As everywhere, with the median return of the demonstrations."""
    return {**records.collect(job, run), "typical": float(np.median(run.demonstrations().returns))}


def score(run: Mapping[str, Any]) -> float:
    """Equation (1) for one run."""
    return max(0.0, 1.0 - abs(run["stochastic"]["return"] / run["typical"] - 1.0))


def chosen(results: Mapping[str, Any], algo: str, by: Any = score) -> str | None:
    """The trial with the largest mean, among those that have runs on all robots."""
    means = {}
    for name, row in ROWS.items():
        if row.algo == algo:
            found = [runs_of(results, robot, name) for robot in ROBOTS]
            if all(found):
                means[name] = np.mean([np.mean([by(run) for run in runs]) for runs in found])
    return max(means, key=lambda name: means[name]) if means else None


def _stopped(run: Mapping[str, Any]) -> float:
    return float(run["stochastic"]["terminated_return"] / run["expert"]["return"])


def table(results: dict[str, Any]) -> str:
    lines = ["**chosen without the truth**", "", *header(("method", "chosen", "settings", "the truth would choose"))]
    for algo in TRIALS:
        best, true = chosen(results, algo), chosen(results, algo, _stopped)
        changed = "-" if best is None else _words(CHANGED[best])
        lines.append(f"| {algo} | {_trial(best)} | {changed} | {_trial(true)} |")
    head = ["", "changed", *(f"{robot}: {what}" for robot in ROBOTS for what in ("score (1)", "over demonstrations"))]
    head += [f"{robot}: violating episodes" for robot in ROBOTS]
    lines += ["", "**every trial**", "", *header(head)]
    for name in compare.rows_in(results, list(ROWS)):
        cells = [name, _words(CHANGED[name])]
        broken = []
        for robot in ROBOTS:
            runs = runs_of(results, robot, name)
            cells += [f"{np.mean([of(run) for run in runs]):.3f}" if runs else "-" for of in (score, _stopped)]
            broken.append(
                f"{sum(int(run['stochastic']['count']) for run in runs)} of "
                f"{sum(int(run['stochastic']['n']) for run in runs)}"
                if runs
                else "-"
            )
        lines.append("| " + " | ".join([*cells, *broken]) + " |")
    return "\n".join([*lines, "", "Score (1): max(0, 1 - |return / median return of the demonstrations - 1|)."]) + "\n"


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in settings.items()) or "as the preset was"


def _trial(name: str | None) -> str:
    return "-" if name is None else name.partition(", ")[2]


def figure(results: dict[str, Any]) -> bytes:
    """Return and terminated return of every trial over the demonstrations'."""
    from tacit.plots import COLOURS, INK, new_figure, render, style
    from tacit.reproduce.compare_plots import finish

    names = compare.rows_in(results, list(ROWS))
    with style():
        drawing = new_figure(8.5, 0.24 * len(names) + 1.5)
        panels = drawing.subplots(1, len(ROBOTS), sharey=True, squeeze=False)[0]
        best = {chosen(results, algo) for algo in TRIALS}
        for axes, robot in zip(panels, ROBOTS, strict=True):
            for place, name in enumerate(names):
                for run in runs_of(results, robot, name):
                    colour = COLOURS[list(TRIALS).index(ROWS[name].algo)]
                    full = run["stochastic"]["return"] / run["expert"]["return"]
                    first = {"label": "return"} if place == 0 else {}
                    axes.plot(full, place, "o", color=colour, markersize=5, fillstyle="none", **first)
                    first = {"label": "terminated return"} if place == 0 else {}
                    axes.plot(_stopped(run), place, "x", color=colour, markersize=5, **first)
            axes.axvline(1.0, color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
            typical = [
                run["typical"] / run["expert"]["return"] for name in names for run in runs_of(results, robot, name)
            ]
            if typical:
                axes.axvline(typical[0], color=INK, linewidth=0.8, linestyle=(0, (4, 2)), label="median demonstration")
            axes.set_xlabel(f"{robot}: over the demonstrations'")
        panels[0].set_yticks(range(len(names)), [f"{name} *" if name in best else name for name in names])
        panels[0].invert_yaxis()
        finish(drawing, panels, results)
        return render(drawing, "png", tight=False)


EXPERIMENT = Experiment(SEEDS, jobs, collect, table, figure)
