"""Frozen costs in the hands of fresh agents: `fresh` (the same task) and `shift` (a changed task).

`fresh`: every method learns a cost. Then an agent from nothing gets the reward and the frozen cost, as a set of
forbidden steps with a soft edge ("mce"), as a hard set ("mce, set") or as a price ("mce, price"). Beside them stand an
agent that is told the true cost (`rcpo`), one in the box around the demonstrations (`box`), and one without any cost
(`ppo`).

`shift`: the cost is learned in one task and used in another, where start, goal, dynamics, reward or body differ. The
reward correction and the clone of the demonstrations (`bc`) stand beside it. The clone learns from the demonstrations
of the first task and acts in the second; for another body there is none.

Primary numbers: violating episodes, and the return over that of the agent with the true cost in the same task:

    (return - floor) / (return of rcpo - floor)                                                                     (1)

where floor is 0, or what random actions earn where returns are negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from tacit.plots import COLOURS, new_figure, render, style
from tacit.reproduce.columns import (
    COUNT,
    EPISODES,
    RETURN,
    STEPS,
    Cell,
    Column,
    agents_table,
    header,
    line,
    percent_cell,
)
from tacit.reproduce.columns import seeds_cell as every_seed
from tacit.reproduce.experiment import ROBOTS, Experiment, Group, Row, Settings, Staged, robot, robots
from tacit.reproduce.records import agent_of, groups_in, rows_in, runs_of, wanted
from tacit.reproduce.results import Record, Results
from tacit.run import Run
from tacit.run.naming import OTHER_SEED
from tacit.sweep import Job, Task

COST_LATER = "(a cost that is still to be learned)"
DEMOS_LATER = "(demonstrations of the first task)"
TRUE, NONE, BOX = "rcpo", "ppo", "box"
ENDINGS = {"": "soft", ", set": "set", ", price": "price"}
"""How a cost is used, by the ending of the row's name."""
INVERSE = ("mce", "gacl", "me-icrl", "vicrl", "bc2l", "irl-correction")
VELOCITY = ("HalfCheetahVelocity", "HopperVelocity", "SwimmerVelocity")
"""Robots with a limit on speed, where they are registered."""
FEW_GROUPS = ("HalfCheetah", "Swimmer", "Pendulum", VELOCITY[0], "Nav, disc", "Reactor")
"""Groups in which methods other than mce are run, too."""
FEW_SEEDS = (0, 1, 2)
"""Seeds of everything but mce."""
FLOORS = {"Reactor": -54.8, "Gridworld": -104.4}
"""Mean return of random actions, by the beginning of the group's name; 0 for all others."""


def frozen(settings: Settings, path: str | None) -> Row:
    """A fresh agent with the cost of a finished run."""
    return Row("retrain", settings={"cost": path or COST_LATER, "free": True, **settings})


def paths_of(finished: Sequence[Task]) -> dict[tuple[str, int], str]:
    return {(task.job.label, task.job.seed): str(task.path) for task in finished}


def algorithm_of(row: str) -> str:
    """The method of a row, without the way its cost is used."""
    return row.partition(", ")[0]


# ---------------------------------------------------------------------------------------------------------------------
# Fresh agents in the same task


@dataclass(frozen=True)
class Fresh(Staged):
    """Costs are learned, then agents from nothing are trained with these costs frozen."""

    def included(self, group: str, row: str, seed: int) -> bool:
        """Whether a run belongs to the experiment: mce everywhere, references on three seeds, the rest on few tasks."""
        algo = algorithm_of(row)
        return algo == "mce" or (seed in FEW_SEEDS and (algo in (TRUE, NONE, BOX) or group in FEW_GROUPS))

    def first(self, seeds: Sequence[int], quick: bool = False) -> list[Job]:
        """The runs that learn costs."""
        learned = dict.fromkeys(map(algorithm_of, self.rows))
        return [
            self.job(group, algo, Row(algo), seed, quick)
            for seed in seeds
            for group in self.groups_of(quick)
            for algo in learned
            if algo in (*INVERSE, BOX) and self.included(group, algo, seed)
        ]

    def needed_by(self, labels: Iterable[str]) -> set[str]:
        """The runs that learn the costs of these agents."""
        parts = [label.split(": ", 1) for label in labels]
        return {f"{group}: {algorithm_of(row)}" for group, row in parts if row not in (TRUE, NONE, BOX)}

    def jobs(self, seeds: Sequence[int], quick: bool = False, finished: Sequence[Task] = ()) -> list[Job]:
        """One fresh agent for each cost and way to use it, and the references."""
        paths = paths_of(finished)
        jobs = []
        for seed in seeds:
            for group in self.groups_of(quick):
                for name in self.rows:
                    algo = algorithm_of(name)
                    if not self.included(group, name, seed) or not self._wanted(name, quick):
                        continue
                    if name in (TRUE, NONE, BOX):
                        jobs.append(self.job(group, name, Row(name), seed, quick))
                        continue
                    row = frozen({"charge": ENDINGS[name.removeprefix(algo)]}, paths.get((f"{group}: {algo}", seed)))
                    jobs.append(self.job(group, name, row, OTHER_SEED + seed, quick))
        return jobs

    def _wanted(self, row: str, quick: bool) -> bool:
        return not quick or self.quick_rows is None or row in self.quick_rows


def fresh_groups() -> dict[str, Group]:
    """Robots, those with a limit on speed, and the tasks with regions and relations."""
    limited = [name for name in VELOCITY if f"tacit/{name}-v0" in gymnasium.registry]
    return {
        **robots((*ROBOTS, *limited)),
        "Nav, disc": Group("tacit/Nav-v0", {"shape": "disc"}),
        "Nav, wall": Group("tacit/Nav-v0", {"shape": "wall"}),
        "SlowZone": Group("tacit/SlowZone-v0"),
        "Reactor": Group("tacit/Reactor-v0", {"rule": "product"}),
    }


FRESH_ROWS = {
    **{method + ending: Row("retrain") for method in INVERSE for ending in ENDINGS},
    BOX: Row(BOX),
    f"{BOX}, price": Row("retrain"),
    TRUE: Row(TRUE),
    NONE: Row(NONE),
}


# ---------------------------------------------------------------------------------------------------------------------
# A changed task


@dataclass(frozen=True)
class Changed(Group):
    """A task in which a cost is tested that was learned in another one."""

    source: Group = field(default_factory=lambda: Group(""))
    """The task with the demonstrations."""
    inputs: tuple[str, ...] = ()
    """Inputs that the cost may read; empty: all."""


SHIFT_LEARNED = ("mce", "irl-correction")
SOURCE = " (source)"
"""Ending of the group of a source in labels."""


@dataclass(frozen=True)
class Shift(Staged):
    """Costs are learned in the source task, then agents from nothing are trained with them in the changed task."""

    def first(self, seeds: Sequence[int], quick: bool = False) -> list[Job]:
        """The runs in the source tasks, which learn costs."""
        return [
            self.job(f"{name}{SOURCE}", algo, Row(algo, settings=_inputs(group)), seed, quick, group.source)
            for seed in seeds
            for name, group in self._changed(quick)
            for algo in SHIFT_LEARNED
        ]

    def needed_by(self, labels: Iterable[str]) -> set[str]:
        """The runs that learn the costs of these agents; the clone uses the demonstrations of mce's."""
        parts = [label.split(": ", 1) for label in labels]
        algos = {(group, "mce" if row == "bc" else algorithm_of(row)) for group, row in parts}
        return {f"{group}{SOURCE}: {algo}" for group, algo in algos if algo not in (TRUE, NONE)}

    def jobs(self, seeds: Sequence[int], quick: bool = False, finished: Sequence[Task] = ()) -> list[Job]:
        """One fresh agent for each cost and way to use it in the changed task; the references; the clone."""
        paths = paths_of(finished)
        jobs = []
        for seed in seeds:
            for name, group in self._changed(quick):
                for row in self.rows:
                    algo = algorithm_of(row)
                    if row in (TRUE, NONE):
                        jobs.append(self.job(name, row, Row(row), seed, quick))
                        continue
                    if algo == "bc":
                        if group.env == group.source.env:
                            world = replace(group, demos=_demonstrations(paths.get((f"{name}{SOURCE}: mce", seed))))
                            jobs.append(self.job(name, row, Row("bc"), seed, quick, world))
                        continue
                    source = paths.get((f"{name}{SOURCE}: {algo}", seed))
                    agent = frozen({"charge": ENDINGS[row.removeprefix(algo)]}, source)
                    jobs.append(self.job(name, row, agent, OTHER_SEED + seed, quick))
        return jobs

    def _changed(self, quick: bool) -> list[tuple[str, Changed]]:
        chosen = ((name, self.groups[name]) for name in self.groups_of(quick))
        return [(name, group) for name, group in chosen if isinstance(group, Changed)]


def _inputs(group: Changed) -> dict[str, Any]:
    return {"inputs": list(group.inputs)} if group.inputs else {}


def _demonstrations(source: str | None) -> str:
    """The file that a finished run has learned from."""
    if source is None:
        return DEMOS_LATER
    own = Path(source) / "demos.npz"
    return str(own if own.exists() else Run.open(source).config["demos"]["path"])


def _gridworld(**options: Any) -> Group:
    return Group("tacit/Gridworld-v0", {"layout": "paper", "slip": 0.1, **options})


def _nav(**options: Any) -> Group:
    return Group("tacit/Nav-v0", {"shape": "disc", **options})


SWAPPED = "\n".join([*["." * 9] * 3, *["....X...."] * 3, "..G.X.S..", *["....X...."] * 2, ""])
LEFT, RIGHT, LOW, HIGH = [-3, -3, -1.5, 3], [1.5, -3, 3, 3], [-3, -3, 3, -1.5], [-3, 1.5, 3, 3]
"""Parts of Nav's arena: demonstrations go from the left to the right."""
ACROSS = {"starts": LEFT, "goals": RIGHT}


def _changed(
    source: Group, env_kwargs: Mapping[str, Any] | None = None, env: str | None = None, **more: Any
) -> Changed:
    options = dict(source.env_kwargs if env is None else {}) | dict(env_kwargs or {})
    return Changed(env or source.env, options, source=source, **more)


SHIFT_GROUPS: dict[str, Group] = {
    "Gridworld, start and goal swapped": _changed(_gridworld(), {"layout": SWAPPED, "moves": 8}),
    "Gridworld, slip 0.5": _changed(_gridworld(), {"slip": 0.5}),
    "Gridworld, an extra reward": _changed(_gridworld(), {"reward": "road"}),
    "Nav, other starts": _changed(_nav(**ACROSS), {"starts": LOW}),
    "Nav, other goals": _changed(_nav(**ACROSS), {"starts": HIGH, "goals": LOW}),
    "Nav, a faster body": _changed(_nav(), {"top_speed": 2.0}),
    "HalfCheetah, another gait": _changed(robot("HalfCheetah"), env="tacit/LevelHalfCheetah-v0"),
    "Ant to Point": _changed(robot("Ant"), env="tacit/Point-v0", inputs=("x_position", "y_position")),
    "Swimmer, twice as long": _changed(robot("Swimmer"), {"horizon": 1000}),
}
SHIFT_ROWS = {
    **{f"mce{ending}": Row("retrain") for ending in ENDINGS},
    "irl-correction, price": Row("retrain"),
    "bc": Row("bc"),
    TRUE: Row(TRUE),
    NONE: Row(NONE),
}


# ---------------------------------------------------------------------------------------------------------------------
# Table and figure

COLUMNS = (
    COUNT,
    STEPS,
    EPISODES,
    Column("violating steps", percent_cell("violation_rate_step")),
    RETURN,
    Column("return (violating episodes) of each seed", every_seed("return")),
)
NOTE = (
    "Every agent starts from nothing, except the clone (bc). A row without an ending uses the cost as a set with a "
    "soft edge; *set* has a hard edge, *price* subtracts the cost from the reward. *rcpo* is told the true cost, *ppo* "
    "knows of none, *box* stays within the demonstrations' range of every input. *Over the true cost's* is (return - "
    "floor) / (mean return of rcpo - floor) with the policy's noise; the floor is 0, on Reactor and gridworld what "
    "random actions earn. A return that violations have earned counts in full: read both columns together."
)


def floor_of(group: str) -> float:
    return next((floor for name, floor in FLOORS.items() if group.startswith(name)), 0.0)


def over_true(results: Results, group: str, runs: Sequence[Record]) -> list[float]:
    """Return of each run over that of the agent that knows the true cost, (1). Empty if no such agent is finished."""
    told = [agent_of(run, "stochastic")["return"] for run in runs_of(results, group, TRUE)]
    if not told:
        return []
    floor = floor_of(group)
    return [(agent_of(run, "stochastic")["return"] - floor) / (float(np.mean(told)) - floor) for run in runs]


def violating(runs: Sequence[Record]) -> list[float]:
    """Violating episodes of each run, in percent."""
    return [100 * agent_of(run, "stochastic")["violation_rate_episode"] for run in runs]


def with_runs(experiment: Experiment, results: Results) -> tuple[list[str], list[str]]:
    """(groups, rows) that have a finished run. The others appear only in the list of missing runs."""
    groups, rows = groups_in(results, list(experiment.groups)), rows_in(results, list(experiment.rows))
    rows = [row for row in rows if any(runs_of(results, group, row) for group in groups)]
    return [group for group in groups if any(runs_of(results, group, row) for row in rows)], rows


def table(experiment: Experiment, results: Results) -> str:
    """Violating episodes and return of all groups side by side, then a table per group."""
    groups, rows = with_runs(experiment, results)
    labels = wanted(results)
    lines = [
        "**violating episodes / return over the true cost's, means over seeds**",
        "",
        *header(["", *groups]),
        *(line([row, *(_both(results, group, runs_of(results, group, row)) for group in groups)]) for row in rows),
    ]
    parts = ["\n".join(lines)]
    for group in groups:
        columns = (*COLUMNS[:3], Column("over the true cost's", _over_cell(results, group)), *COLUMNS[3:])
        names = [row for row in rows if f"{group}: {row}" in labels]
        entries = [(row, f"{group}: {row}", runs_of(results, group, row)) for row in names]
        parts.append(agents_table(group, columns, entries, "stochastic"))
    return "\n\n".join([*parts, NOTE]) + "\n"


def _over_cell(results: Results, group: str) -> Cell:
    return lambda runs, agent: _over(results, group, runs)


def _over(results: Results, group: str, runs: Sequence[Record]) -> str:
    scores = over_true(results, group, runs)
    return f"{np.mean(scores):.2f}" if scores else "-"


def _both(results: Results, group: str, runs: Sequence[Record]) -> str:
    return f"{np.mean(violating(runs)):.0f} % / {_over(results, group, runs)}" if runs else "-"


def figure(experiment: Experiment, results: Results) -> bytes:
    """Violating episodes above, return over the true cost's below: a column per group, a dot per seed."""
    groups, done = with_runs(experiment, results)
    with style():
        drawing = new_figure(2.0 + 1.6 * len(groups), 1.2 + 0.4 * len(done))
        panels = drawing.subplots(2, len(groups), sharey=True, squeeze=False)
        for column, group in enumerate(groups):
            for place, row in enumerate(done):
                runs = runs_of(results, group, row)
                numbers = (violating(runs), over_true(results, group, runs))
                for axes, values in zip(panels[:, column], numbers, strict=True):
                    axes.plot(values, [place] * len(values), "o", color=COLOURS[place % len(COLOURS)], markersize=4)
            panels[0, column].set_title(group, fontsize=8)
            panels[0, column].set_xlim(-5, 105)
        panels[0, 0].set_yticks(range(len(done)), done)
        panels[0, 0].invert_yaxis()
        panels[0, 0].set_xlabel("violating episodes, %")
        panels[1, 0].set_xlabel("return over the true cost's")
        drawing.tight_layout()
        return render(drawing, "png", tight=False)


FRESH = Fresh(
    "fresh agents on frozen costs of all methods, beside the true cost, the box and no cost",
    fresh_groups(),
    FRESH_ROWS,
    seeds=(0, 1, 2, 3, 4),
    quick_groups=("Pendulum",),
    quick_rows=("mce", "mce, set", BOX, TRUE, NONE),
    table=table,
    figure=figure,
    presets={},
)
SHIFT = Shift(
    "costs learned in one task and used in a changed one: start, goal, dynamics, reward, body",
    SHIFT_GROUPS,
    SHIFT_ROWS,
    seeds=(0, 1, 2, 3, 4),
    quick_groups=("Gridworld, slip 0.5",),
    table=table,
    figure=figure,
    presets={},
)
