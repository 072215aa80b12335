"""The record of tuning: four trials per method on robots and in the gridworld, with seeds that no evaluation uses.

Trial 1 is the preset `reference` as it was; each of the others changes what matters most in that method. A trial is
chosen without looking at the true constraint, only by the demonstrators' return, which a user knows as well. An agent
that keeps to the constraint cannot earn much more than they do. An agent that avoids the wrong things earns less:

    score = max(0, 1 - |return / median return of the demonstrations - 1|),    mean over the worlds               (1)

(It is the median because three of HalfCheetah's ten demonstrations tumble, and their mean would favour tumbling.)

The trial with the largest (1) is chosen. The table also shows the true violations and the trial that they would have
chosen, so that readers can judge the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tacit.plots import COLOURS, INK, new_figure, render, style
from tacit.reproduce import records
from tacit.reproduce.columns import header, line
from tacit.reproduce.experiment import Experiment, Row, Settings, slip_name
from tacit.reproduce.figures import finish
from tacit.reproduce.records import rows_in, runs_of
from tacit.reproduce.results import Record, Results
from tacit.run import Run
from tacit.sweep import Job

Number = Callable[[Record], float]
Trials = Mapping[str, Sequence[Settings]]
MOST = 2.0
"""Largest drawn ratio to the median demonstration. Some agents stand still in a world where every step costs."""


@dataclass(frozen=True)
class Tuning:
    """Trials of several methods in several worlds (the groups of a comparison)."""

    groups: tuple[str, ...]
    trials: Trials
    before: Mapping[str, Settings]
    """Settings of the presets when the trials were made, if the chosen trial has replaced them since."""
    earned: Number
    """The return of a run."""
    truth: Number
    """A score of a run from the true constraint; larger is better."""
    columns: Mapping[str, Callable[[Sequence[Record]], str]]
    """Columns of the table beside the score."""
    marks: Mapping[str, Number] = field(default_factory=dict)
    """Further marks in the figure, relative to the demonstrations' return."""

    @property
    def changed(self) -> dict[str, Settings]:
        """The settings that each trial changes, by its name."""
        return {
            f"{algo}, trial {number}": change
            for algo, changes in self.trials.items()
            for number, change in enumerate(changes, start=1)
        }

    @property
    def rows(self) -> dict[str, Row]:
        """A row per trial."""
        algos = {name: name.partition(",")[0] for name in self.changed}
        return {
            name: Row(algos[name], settings={**self.before.get(algos[name], {}), **change})
            for name, change in self.changed.items()
        }

    @property
    def quick_rows(self) -> tuple[str, ...]:
        """The first two trials of each method."""
        return tuple(name for name in self.changed if name.endswith(("1", "2")))

    def score(self, run: Record) -> float:
        """How good a run is by what a user can see: equation (1)."""
        return max(0.0, 1.0 - abs(self.earned(run) / run["typical"] - 1.0))

    def chosen(self, results: Results, algo: str, by: Number | None = None) -> str | None:
        """The trial with the largest mean score, among those that have runs in all worlds."""
        means = {}
        for name, row in self.rows.items():
            runs_by_group = [runs_of(results, group, name) for group in self.groups]
            if row.algo == algo and all(runs_by_group):
                means[name] = np.mean([np.mean([(by or self.score)(run) for run in runs]) for runs in runs_by_group])
        return max(means, key=lambda name: means[name]) if means else None

    def table(self, experiment: Experiment, results: Results) -> str:
        """A table of the chosen trials, and one of all trials."""
        head = ("method", "chosen", "settings", "the truth would choose")
        lines = ["**chosen without the truth**", "", *header(head)]
        for algo in self.trials:
            best, true = self.chosen(results, algo), self.chosen(results, algo, self.truth)
            words = "-" if best is None else _words(self.changed[best])
            lines.append(f"| {algo} | {_trial(best)} | {words} | {_trial(true)} |")
        columns = {"score (1)": lambda runs: f"{np.mean([self.score(run) for run in runs]):.3f}", **self.columns}
        titles = ("", "changed", *(f"{group}: {what}" for group in self.groups for what in columns))
        lines += ["", "**every trial**", "", *header(titles)]
        for name in rows_in(results, list(self.changed)):
            cells = [name, _words(self.changed[name])]
            for group in self.groups:
                runs = runs_of(results, group, name)
                cells += [of(runs) if runs else "-" for of in columns.values()]
            lines.append(line(cells))
        note = "Score (1): max(0, 1 - |return / median return of the demonstrations - 1|)."
        return "\n".join([*lines, "", note]) + "\n"

    def figure(self, experiment: Experiment, results: Results) -> bytes:
        """The return of every trial divided by that of the median demonstration."""
        names, algos = rows_in(results, list(self.changed)), list(self.trials)
        marks = {"return": ("o", self.earned), **{label: ("x", of) for label, of in self.marks.items()}}
        with style():
            drawing = new_figure(8.5, 0.24 * len(names) + 1.5)
            panels = drawing.subplots(1, len(self.groups), sharey=True, squeeze=False)[0]
            best = {self.chosen(results, algo) for algo in algos}
            for axes, group in zip(panels, self.groups, strict=True):
                for place, name in enumerate(names):
                    colour = COLOURS[algos.index(name.partition(",")[0])]
                    for label, (mark, of) in marks.items():
                        ratio = [min(of(run) / run["typical"], MOST) for run in runs_of(results, group, name)]
                        first = {"label": label} if place == 0 else {}
                        axes.plot(ratio, [place] * len(ratio), mark, color=colour, fillstyle="none", **first)
                axes.axvline(1.0, color=INK, linewidth=0.8, linestyle=(0, (4, 2)), label="median demonstration")
                axes.set_xlabel(f"{group}: over the median demonstration ({MOST:g}: or more)")
            panels[0].set_yticks(range(len(names)), [f"{name} *" if name in best else name for name in names])
            panels[0].invert_yaxis()
            finish(drawing, panels, results)
            return render(drawing, "png", tight=False)


def _words(settings: Settings) -> str:
    return ", ".join(f"{key} = {value}" for key, value in settings.items()) or "as the preset was"


def _trial(name: str | None) -> str:
    return "-" if name is None else name.partition(", ")[2]


# ---------------------------------------------------------------------------------------------------------------------
# Robots


def _stopped(run: Record) -> float:
    return float(run["stochastic"]["terminated_return"] / (run["expert"] or {})["return"])


def _violating_episodes(runs: Sequence[Record]) -> str:
    broken, episodes = (sum(int(run["stochastic"][key]) for run in runs) for key in ("count", "n"))
    return f"{broken} of {episodes}"


ROBOTS = Tuning(
    groups=("HalfCheetah", "Swimmer"),
    trials={
        "mce": ({}, {"lr_zeta": 1e-3}, {"expert_square": 5.0}, {"forward_steps": 8192}),
        "gacl": ({}, {"lr_constraint": 1e-3}, {"lr_constraint": 1e-2}, {"discriminator_steps": 5}),
        "me-icrl": (
            {},
            {"lr_constraint": 0.05},
            {"multiplier_lr": 0.02},
            {"anneal": 1.0},
            # Four more trials. The first four do not change the setting that makes the cost vanish after a cloned start
            # (results/tuning.md).
            {"lr_constraint": 0.05, "delta": 0.0},
            {"delta": 0.0},
            {"lr_constraint": 0.05, "delta": 0.05},
            {"start": "nominal"},
        ),
        "vicrl": ({}, {"lr_constraint": 0.05}, {"multiplier_lr": 0.02}, {"anneal": 1.0}),
        "bc2l": ({}, {"lr_constraint": 0.05}, {"multiplier_lr": 0.02}, {"anneal": 1.0}),
        "irl-correction": ({}, {"lr_constraint": 1e-3}, {"expert_square": 1.0}, {"backward_steps": 10}),
    },
    before={
        "gacl": {"discriminator_steps": 1},
        "me-icrl": {"lr_constraint": 5e-3, "delta": 0.5},
        "vicrl": {"anneal": 0.95},
        "bc2l": {"anneal": 0.95},
        "irl-correction": {"expert_square": 0.1},
    },
    earned=lambda run: run["stochastic"]["return"],
    truth=_stopped,
    columns={
        "over demonstrations": lambda runs: f"{np.mean([_stopped(run) for run in runs]):.3f}",
        "violating episodes": _violating_episodes,
    },
    marks={"return before violation": lambda run: run["stochastic"]["terminated_return"]},
)


# ---------------------------------------------------------------------------------------------------------------------
# Gridworld

SLIPS = (0.1, 0.3)
GRID = Tuning(
    groups=tuple(map(slip_name, SLIPS)),
    # In the gridworld all methods begin untrained and soon walk straight through the wall. Either the cost of the wall
    # is learned by then, or the policy has to begin as a clone of the demonstrators.
    trials={
        "mce": ({}, {"lr_zeta": 1e-3}, {"minibatches": 300}, {"start": "clone"}),
        "gacl": (
            {},
            {"discriminator_steps": 5},
            {"discriminator_steps": 20, "lr_constraint": 1e-2},
            {"discriminator_steps": 5, "start": "clone"},
        ),
        **{
            algo: (
                {},
                {"lr_constraint": 0.02, "multiplier_init": 10.0},
                {"lr_constraint": 0.02, "multiplier_init": 10.0, "penalty_unit": "rbar"},
                {"multiplier_init": 10.0, "start": "clone"},
            )
            for algo in ("me-icrl", "vicrl", "bc2l")
        },
        "irl-correction": ({}, {"lr_constraint": 0.02}, {"backward_steps": 20}, {"start": "clone"}),
    },
    before={
        "mce": {"lr_zeta": 3e-3},
        "gacl": {"discriminator_steps": 1, "lr_constraint": 3e-3},
        **{algo: {"multiplier_init": 1.0, "start": "nominal"} for algo in ("me-icrl", "vicrl", "bc2l")},
        "irl-correction": {"start": "nominal"},
    },
    earned=lambda run: run["exact"]["return"],
    truth=lambda run: -run["exact"]["excess_violation_occupancy"],
    columns={
        "return": lambda runs: f"{np.mean([run['exact']['return'] for run in runs]):.2f}",
        "violating steps": lambda runs: f"{100 * np.mean([run['exact']['violation_rate_step'] for run in runs]):.1f} %",
    },
)


def collect(job: Job, run: Run) -> Record:
    """The numbers of a run on a robot, and the median return of its demonstrations."""
    return {**records.collect(job, run), "typical": float(np.median(run.demonstrations().returns))}


def collect_grid(job: Job, run: Run) -> Record:
    """The numbers of a run in the gridworld, and the median return of its demonstrations."""
    return {**records.collect_grid(job, run), "typical": float(np.median(run.demonstrations().returns))}
