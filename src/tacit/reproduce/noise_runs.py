"""HalfCheetah with process noise: the four methods, preset `reference`. (`robots` has the experiment.)

After every step a Gaussian of standard deviation 1e-3, 1e-2 or 1e-1 is added to each coordinate of position and
velocity, for the demonstrator as for the learner: experts are trained in the noise first (preset `expert`, seed 0),
also in none, and their violation-free episodes are the demonstrations of all methods and seeds; their own row has all
of their episodes. All others learn on the steps of `decisions`. The controls are the clone with which they begin
(`bc`), and one that follows the reward alone. VICRL's prior in the noise is the published one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.reproduce import compare, compare_plots, overall, records
from tacit.reproduce.compare import CONTROLS, METHODS, SHORT, Row, short_rows
from tacit.reproduce.experiment import Experiment

if TYPE_CHECKING:
    from tacit.sweep import Job, Task

ENV = "tacit/HalfCheetah-v0"
NOISES = (1e-1, 1e-2, 1e-3, 0.0)
"""The largest first: whether its expert finds legal episodes at all is the first thing to know."""
SEEDS = (0, 1, 2)
EXPERT = "expert"
NAMES = (EXPERT, *METHODS, *CONTROLS)
NOISY = {"vicrl": {"prior": [9.0, 1.0]}}
LOWEST = 1e-4
"""Where no noise is drawn on a logarithmic axis."""
GROUPS = {(f"noise {noise:g}" if noise else "no noise"): noise or LOWEST for noise in sorted(NOISES)}
LATER = "(demonstrations of the expert in the noise)"


def first(seeds: list[int], quick: bool = False) -> list[Job]:
    """An expert for each noise."""
    row = Row("expert", "expert", {"demonstrations": 5} if quick else {})
    return [compare.job(group, EXPERT, row, ENV, SEEDS[0], quick, world) for group, world in _worlds(quick).items()]


def _worlds(quick: bool) -> dict[str, dict[str, float]]:
    """The environment's arguments for each group."""
    return {
        (f"noise {noise:g}" if noise else "no noise"): {"noise": noise} if noise else {}
        for noise in (NOISES[1:2] if quick else NOISES)
    }


def jobs(seeds: list[int], quick: bool = False, made: list[Task] | None = None) -> list[Job]:
    """One run a seed, noise and method, and the experts; `made` are the finished ones of these."""
    files = {task.job.label.partition(":")[0]: str(task.path / "demos.npz") for task in made or []}
    rows = {**short_rows(METHODS, ENV), **CONTROLS}
    wanted = first(seeds, quick) if SEEDS[0] in seeds else []
    for seed in seeds:
        for name, row in rows.items():
            for group, world in _worlds(quick).items():
                demos = files.get(group, LATER)
                settings = {**row.settings, **(NOISY.get(name, {}) if world else {})}
                wanted.append(
                    compare.job(group, name, Row(row.algo, settings=settings), ENV, seed, quick, world, demos, SHORT)
                )
    return wanted


def table(results: dict[str, Any]) -> str:
    return overall.table(results, list(GROUPS), NAMES) + compare.table(results, list(GROUPS), NAMES)


def figure(results: dict[str, Any]) -> bytes:
    """Terminated return and violations against the noise."""
    panels = {
        "terminated return": lambda run: run["stochastic"]["terminated_return"],
        "violating steps, %": lambda run: 100 * run["stochastic"]["violation_rate_step"],
        "violating episodes, %": lambda run: 100 * run["stochastic"]["violation_rate_episode"],
    }
    expert = {"terminated return": lambda run: run["expert"]["return"]}
    ticks = {value: "none" if value == LOWEST else f"{value:g}" for value in GROUPS.values()}
    label = "standard deviation of the process noise"
    return compare_plots.against(results, GROUPS, NAMES, panels, label, expert, log=True, ticks=ticks)


EXPERIMENT = Experiment(SEEDS, jobs, records.collect, table, figure, first)
