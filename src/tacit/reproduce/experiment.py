"""An experiment as data: groups (environments) x rows (methods with settings) x seeds, a table and a figure.

A run's label is "GROUP: ROW", or the group alone where the only row has no name. Jobs with equal settings are the same
run folder, so experiments that have rows in common share their runs, and nothing is trained twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tacit import presets
from tacit.algorithms import find as algorithm
from tacit.algorithms import unused
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
MEASURED_WITH = {"mce": "thresholds"}
"""Presets with which the committed tables were measured, where the default preset has changed since."""


@dataclass(frozen=True)
class Row:
    """A method with its settings."""

    algo: str = "mce"
    preset: str | None = None
    """Preset of the algorithm; None: its default preset."""
    settings: Settings = field(default_factory=dict)
    """Settings that define the row. `--quick` keeps them."""
    budget: Settings = field(default_factory=dict)
    """Settings such as the evaluation episodes, on top of the experiment's budget. `--quick` replaces them."""
    steps: int | Mapping[str, int] | None = None
    """Environment steps, for all groups or by group; None: those of the experiment, or else of the preset."""
    quick: Settings = field(default_factory=dict)
    """Further settings for `--quick`."""
    engine: str | None = None
    """Another algorithm, whose preset supplies the settings of PPO, of the phases and of the cost's inputs."""
    more_seeds: tuple[int, ...] = ()
    """Further seeds of this row. They are run when the experiment runs its usual seeds."""


@dataclass(frozen=True)
class Group:
    """An environment in which rows are compared."""

    env: str
    env_kwargs: Settings = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    """Settings of every row in this group, on top of the row's own."""
    demos: str | None = None
    """Demonstration file; None: the demonstrations that come with Tacit."""
    value: float | None = None
    """Position of the group on the axis of a `values` figure."""


@dataclass(frozen=True)
class Beside:
    """Published numbers for a last column of a table."""

    title: str
    cells: Mapping[str, str] = field(default_factory=dict)
    """Text of the column by label."""
    note: str = ""
    over: Mapping[str, float] = field(default_factory=dict)
    """Reference returns by label. If given, the column shows the mean return before violation divided by them."""


@dataclass(frozen=True)
class Axis:
    """The panels and the axis of a `values` figure."""

    label: str = ""
    panels: Mapping[str, Number] = field(default_factory=dict)
    """A panel per number; empty: return before violation and violations."""
    expert: Mapping[str, Number] = field(default_factory=dict)
    """The demonstrators' numbers to draw, by the title of the panel."""
    log: bool = False
    ticks: Mapping[float, str] | None = None


@dataclass(frozen=True)
class Experiment:
    """An experiment made of runs. `tables.TABLES`, `figures.FIGURES` and `records.COLLECT` list the valid names."""

    summary: str
    """One line for `tacit reproduce --list`."""
    groups: Mapping[str, Group]
    rows: Mapping[str, Row]
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int | Mapping[str, int] | None = None
    """Environment steps of every row that does not set its own, for all groups or by group."""
    budget: Settings = field(default_factory=dict)
    """Settings that make a run longer or shorter. A method ignores those it does not have. `--quick` replaces them."""
    quick: Settings = field(default_factory=lambda: QUICK)
    """The budget of `--quick`."""
    quick_groups: tuple[str, ...] | None = None
    """Groups of `--quick`; None: all groups."""
    quick_rows: tuple[str, ...] | None = None
    collect: str | Callable[[Job, Run], Record] = "policy"
    """Numbers to keep from a finished run. Experiments that collect the same numbers can reuse each other's records."""
    table: str | Callable[[Experiment, Results], str] = "comparison"
    figure: str | Callable[[Experiment, Results], bytes] = "curves"
    ours: str = "mce"
    """The row that all other rows are compared with."""
    beside: tuple[Beside, ...] = ()
    axis: Axis = field(default_factory=Axis)
    levels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Returns to draw as lines in a `seeds` figure: {label: {group: return}}."""
    wide: float = 2.5
    """Inches per group in a `curves` figure."""
    note: str = ""
    """Last sentence of the table."""
    presets: Mapping[str, str] = field(default_factory=lambda: MEASURED_WITH)
    """Preset by algorithm, for rows that name none; empty: the algorithm's default preset."""

    def label(self, group: str, row: str) -> str:
        return f"{group}: {row}" if row else group

    def groups_of(self, quick: bool) -> list[str]:
        """The groups that are run."""
        return [name for name in self.groups if not quick or self.quick_groups is None or name in self.quick_groups]

    def jobs(self, seeds: Sequence[int], quick: bool = False, finished: Sequence[Task] = ()) -> list[Job]:
        """One run per seed, group and row. `finished` are the finished runs of the first stage, if there is one."""
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
        """One run. `group` replaces the experiment's group of that name."""
        group = self.groups[name] if group is None else group
        engine = {} if row.engine is None else engine_of(row.engine, group.env)
        budget: dict[str, Any] = {**self.budget, **row.budget}
        steps = self.steps if row.steps is None else row.steps
        if steps is not None:
            budget["total_steps"] = steps[name] if isinstance(steps, Mapping) else steps
        spent = {**self.quick, **row.quick} if quick else budget
        label = self.label(name, row_name)
        preset = row.preset or self.presets.get(row.algo)
        own = {**row.settings, **group.settings}
        settings = {**accepted(row.algo, group.env, preset, own, {**engine, **spent}), **own}
        return Job(row.algo, group.env, group.env_kwargs, seed, preset, settings, group.demos, label)


@dataclass(frozen=True)
class Staged(Experiment):
    """An experiment whose runs need files from a first stage of runs, such as demonstrations or a learned cost."""

    def first(self, seeds: Sequence[int], quick: bool = False) -> list[Job]:
        """The runs of the first stage. They finish before the other runs start."""
        raise NotImplementedError

    def needed_by(self, labels: Iterable[str]) -> set[str] | None:
        """Labels of the runs of the first stage that these runs need; None if that is not known."""
        return None

    def make(self, tasks: Sequence[Task], quick: bool = False) -> None:
        """Write the files that are made from the finished runs of the first stage."""


@dataclass(frozen=True)
class Measured:
    """An experiment that is measured in this process instead of in runs."""

    summary: str
    measure: Callable[[int, Callable[[str], None]], dict[str, Any]]
    """(independent repetitions, progress) -> the numbers: plain JSON, every repetition kept."""
    seconds: Callable[[Mapping[str, Any]], float]
    """Seconds that one repetition took, from earlier results."""
    table: Callable[[Mapping[str, Any]], str]
    figure: Callable[[Mapping[str, Any]], bytes]


def rows_of(algos: Iterable[str], preset: str | None = None) -> dict[str, Row]:
    """Make one row per algorithm, called like the algorithm."""
    return {algo: Row(algo, preset) for algo in algos}


def more_seeds(rows: Mapping[str, Row], name: str, seeds: tuple[int, ...]) -> dict[str, Row]:
    """The same rows, with further seeds for one of them."""
    return {**rows, name: replace(rows[name], more_seeds=seeds)}


def accepted(algo: str, env: str, preset: str | None, own: Settings, settings: Settings) -> dict[str, Any]:
    """Those of the settings that the algorithm has, and uses with its preset and the settings of its `own`."""
    method = algorithm(algo)
    config_class, preset = method.load().Config, preset or method.preset
    usual = {} if preset is None else presets.load(algo, preset, env)
    names = {entry.name for entry in fields(config_class)} - unused(config_class, {**usual, **own}).keys()
    return {key: value for key, value in settings.items() if key in names}


def engine_of(algo: str, env: str) -> dict[str, Any]:
    """Settings of PPO, of the phases and of the cost's inputs in the preset that an algorithm was measured with."""
    from tacit.forward import ppo_lagrangian  # JAX

    names = {"inputs", "bootstrap_steps", "forward_steps", *(entry.name for entry in fields(ppo_lagrangian.Config))}
    return {
        key: value
        for key, value in presets.load(algo, MEASURED_WITH.get(algo, "reference"), env).items()
        if key in names
    }


# ---------------------------------------------------------------------------------------------------------------------
# Rows and groups that several experiments have in common


METHODS = ("mce", "gacl", "me-icrl", "vicrl")
REFERENCES = ("ppo", "rcpo")
CONTROLS = {
    # This agent begins as a clone and follows only the reward. It shows how much of a method's result is due to its
    # start. It runs in ME-ICRL's loop with a multiplier of 0, so the learned cost has no effect.
    "ppo, cloned": Row(
        "me-icrl",
        settings={"multiplier": "fixed", "multiplier_init": 0.0, "start": "clone", "lr_constraint": 0.05, "delta": 0.5},
    ),
    "bc": Row("bc"),
}
PAPER_BETAS = (1e-5, 1e-4, 1e-3, 1e-2)
PRETRAINED = "with pre-training"
ROBOTS = ("Ant", "HalfCheetah", "Swimmer", "Walker", "Pendulum")
SHORT: dict[str, Any] = {"total_steps": 300_000, "eval_episodes": 40}
"""Budget for experiments that compare conditions instead of ranking methods: at most half the steps of `robots`."""


def robot(name: str, **settings: Any) -> Group:
    return Group(f"tacit/{name}-v0", settings=settings)


def robots(names: Iterable[str] = ROBOTS) -> dict[str, Group]:
    """Make one group per robot."""
    return {name: robot(name) for name in names}


def slip_name(slip: float) -> str:
    return f"slip {slip:g}"


def slips(values: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)) -> dict[str, Group]:
    """A group per stochasticity of the gridworld `paper`, with 50 demonstrations of the built-in expert per seed."""
    world = {slip: {"layout": "paper", "slip": slip} for slip in values}
    return {slip_name(slip): Group("tacit/Gridworld-v0", kwargs, value=slip) for slip, kwargs in world.items()}


def with_budget(rows: Mapping[str, Row], budget: Settings) -> dict[str, Row]:
    return {name: replace(row, budget=budget) for name, row in rows.items()}


def betas(values: Iterable[float], preset: str | None = None) -> dict[str, Row]:
    """Make one row per entropy weight."""
    return {f"beta {beta:g}": Row("mce", preset, {"beta": beta}) for beta in values}


def with_and_without_pretraining(preset: str | None = None) -> dict[str, Row]:
    epochs = {PRETRAINED: 20, "without": 0}
    return {name: Row("mce", preset, {"pretrain_epochs": number}) for name, number in epochs.items()}


def shortened(algo: str, env: str) -> dict[str, Any]:
    """Settings for runs with the budget SHORT. The preset's rates are for whole runs, so they are adapted."""
    usual = presets.load(algo, MEASURED_WITH.get(algo, "reference"), env)
    longer = usual["total_steps"] / SHORT["total_steps"]
    rates = {"multiplier_lr": lambda rate: rate * longer, "anneal": lambda rate: rate**longer}
    return {key: round(convert(usual[key]), 6) for key, convert in rates.items() if key in usual}
