"""An experiment as data: groups (environments) x rows (methods with settings) x seeds, and what is drawn of the runs.

A run's label is "GROUP: ROW", or the group alone where the only row has no name. Jobs with equal settings are the same
run folder, so experiments that have rows in common share their runs, and nothing is trained twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tacit import presets
from tacit.algorithms import find as algorithm
from tacit.reproduce.results import Number, Record, Results
from tacit.run import Run
from tacit.sweep import Job, Task

Settings = Mapping[str, Any]
QUICK: dict[str, Any] = {
    "total_steps": 24_576,
    "bootstrap_steps": 4096,
    "forward_steps": 4096,
    "eval_episodes": 4,
    "minibatches": 20,
    "pretrain_epochs": 1,
    "steps": 200,
}
"""The budget of --quick."""


@dataclass(frozen=True)
class Row:
    """A method with its settings."""

    algo: str = "mce"
    preset: str | None = None
    """The algorithm's own preset unless named."""
    settings: Settings = field(default_factory=dict)
    """What the row is about. Kept with --quick."""
    budget: Settings = field(default_factory=dict)
    """Evaluation episodes and the like, on top of the experiment's. Replaced with --quick."""
    steps: int | Mapping[str, int] | None = None
    """Environment steps, for all groups or by group; the experiment's, or the preset's, unless given."""
    quick: Settings = field(default_factory=dict)
    """Further settings with --quick."""
    engine: str | None = None
    """Another algorithm, whose preset gives the settings of PPO, of the phases and of the cost's inputs."""
    more_seeds: tuple[int, ...] = ()
    """Further seeds of this row, where the experiment's usual seeds are run."""


@dataclass(frozen=True)
class Group:
    """An environment, within which rows are compared."""

    env: str
    env_kwargs: Settings = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    """Of every row, on top of the row's own."""
    demos: str | None = None
    """A file of demonstrations; without one, those that come with Tacit."""
    value: float | None = None
    """The place of the group on the axis of a figure `values`."""


@dataclass(frozen=True)
class Beside:
    """Numbers of other people, for a last column of a table."""

    title: str
    cells: Mapping[str, str] = field(default_factory=dict)
    """By label."""
    note: str = ""
    over: Mapping[str, float] = field(default_factory=dict)
    """Instead of cells: the column has the mean terminated return over this, by label."""


@dataclass(frozen=True)
class Axis:
    """What a figure `values` draws, and against what."""

    label: str = ""
    panels: Mapping[str, Number] = field(default_factory=dict)
    """A panel per number; terminated return and violations unless given."""
    expert: Mapping[str, Number] = field(default_factory=dict)
    """What is drawn of the demonstrators, by the title of its panel."""
    log: bool = False
    ticks: Mapping[float, str] | None = None


@dataclass(frozen=True)
class Experiment:
    """An experiment that is made of runs. `tables.TABLES`, `figures.FIGURES` and `records.COLLECT` have the names."""

    summary: str
    """One line for the list."""
    groups: Mapping[str, Group]
    rows: Mapping[str, Row]
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int | Mapping[str, int] | None = None
    """Environment steps of every row that has none of its own, for all groups or by group."""
    budget: Settings = field(default_factory=dict)
    """Settings that make a run longer or shorter. What a method lacks is left out, and --quick replaces it."""
    quick: Settings = field(default_factory=lambda: QUICK)
    """The budget of --quick."""
    quick_groups: tuple[str, ...] | None = None
    """The groups of --quick; all of them unless given."""
    quick_rows: tuple[str, ...] | None = None
    collect: str | Callable[[Job, Run], Record] = "policy"
    """What is kept of a finished run. Experiments that collect the same can take over each other's records."""
    table: str | Callable[[Experiment, Results], str] = "comparison"
    figure: str | Callable[[Experiment, Results], bytes] = "curves"
    ours: str = "mce"
    """The row that the others are compared with."""
    beside: tuple[Beside, ...] = ()
    axis: Axis = field(default_factory=Axis)
    levels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Returns to draw as lines in a figure `seeds`: {words: {group: return}}."""
    wide: float = 2.5
    """Inches per group in a figure `curves`."""
    note: str = ""
    """A last sentence of the table."""

    def label(self, group: str, row: str) -> str:
        return f"{group}: {row}" if row else group

    def groups_of(self, quick: bool) -> list[str]:
        """The groups that are run."""
        return [name for name in self.groups if not quick or self.quick_groups is None or name in self.quick_groups]

    def jobs(self, seeds: Sequence[int], quick: bool = False, finished: Sequence[Task] = ()) -> list[Job]:
        """One run per seed, group and row. `finished` are the finished runs of the first stage, where there is one."""
        usual = tuple(seeds) == self.seeds and not quick
        more = {seed for row in self.rows.values() for seed in row.more_seeds} - set(seeds) if usual else ()
        return [
            self.job(group, name, row, seed, quick)
            for seed in (*seeds, *sorted(more))
            for group in self.groups_of(quick)
            for name, row in self.rows.items()
            if not quick or self.quick_rows is None or name in self.quick_rows
            if seed in seeds or seed in row.more_seeds
        ]

    def job(self, name: str, row_name: str, row: Row, seed: int, quick: bool, group: Group | None = None) -> Job:
        """One run. `group` is the one of that name unless given."""
        group = self.groups[name] if group is None else group
        engine = {} if row.engine is None else engine_of(row.engine, group.env)
        budget: dict[str, Any] = {**self.budget, **row.budget}
        steps = self.steps if row.steps is None else row.steps
        if steps is not None:
            budget["total_steps"] = steps[name] if isinstance(steps, Mapping) else steps
        spent = {**self.quick, **row.quick} if quick else budget
        settings = {**accepted(row.algo, {**engine, **spent}), **row.settings, **group.settings}
        label = self.label(name, row_name)
        return Job(row.algo, group.env, group.env_kwargs, seed, row.preset, settings, group.demos, label)


@dataclass(frozen=True)
class Staged(Experiment):
    """An experiment whose runs need what other runs make: demonstrations of an expert, a cost to transfer."""

    def first(self, seeds: Sequence[int], quick: bool = False) -> list[Job]:
        """Those other runs. They are finished before the rest begins."""
        raise NotImplementedError

    def make(self, tasks: Sequence[Task], quick: bool = False) -> None:
        """Write the files that are made of the finished first runs."""


@dataclass(frozen=True)
class Measured:
    """An experiment that is measured in this process, without runs."""

    summary: str
    measure: Callable[[int, Callable[[str], None]], dict[str, Any]]
    """(independent repetitions, progress) -> the numbers: plain JSON, every repetition kept."""
    seconds: Callable[[Mapping[str, Any]], float]
    """What one repetition took, from earlier results."""
    table: Callable[[Mapping[str, Any]], str]
    figure: Callable[[Mapping[str, Any]], bytes]


def rows_of(algos: Iterable[str], preset: str | None = None) -> dict[str, Row]:
    """A row per algorithm, under its name."""
    return {algo: Row(algo, preset) for algo in algos}


def more_seeds(rows: Mapping[str, Row], name: str, seeds: tuple[int, ...]) -> dict[str, Row]:
    """The same rows, one of them with further seeds."""
    return {**rows, name: replace(rows[name], more_seeds=seeds)}


def accepted(algo: str, settings: Settings) -> dict[str, Any]:
    """Those of the settings that the algorithm has."""
    names = {entry.name for entry in fields(algorithm(algo).load().Config)}
    return {key: value for key, value in settings.items() if key in names}


def engine_of(algo: str, env: str) -> dict[str, Any]:
    """What the reference preset of an algorithm says of PPO, phases and the cost's inputs."""
    from tacit.forward import ppo_lagrangian  # JAX

    names = {"inputs", "bootstrap_steps", "forward_steps", *(entry.name for entry in fields(ppo_lagrangian.Config))}
    return {key: value for key, value in presets.load(algo, "reference", env).items() if key in names}
