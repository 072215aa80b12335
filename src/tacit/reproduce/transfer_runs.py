"""Frozen costs: the Ant's taken to Point and BrokenAnt, and the re-training test. (`robots` has the experiments.)

`transfer`: the four methods learn a cost of (x, y) on the Ant (preset `reference`; so did earlier work for Point), and
a fresh agent follows the target's reward and that frozen cost (algorithm `retrain`: what exceeds the usual threshold is
charged, 1 at most, with a budget of 0). Beside them PPO without cost, and RCPO that is told the target's true cost.
Everybody has the steps of `decisions`.

`retraining`: the same in the environment where the cost was learned, for mce and me-icrl with the costs of `robots`,
all inputs. Fresh agents have seeds of their own (1000 more): with the same seed they would begin with the same network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.reproduce import compare, compare_plots
from tacit.reproduce.compare import METHODS, REFERENCES, SHORT, Row
from tacit.reproduce.deep_runs import ROBOTS
from tacit.reproduce.experiment import Experiment

if TYPE_CHECKING:
    from tacit.sweep import Job, Task

SEEDS = (0, 1, 2)
SHIFT = 1000
SOURCE = "Ant"
TARGETS = ("Point", "BrokenAnt")
INPUTS = ["x_position", "y_position"]
RETRAINED = ("mce", "me-icrl")
LATER = "(a cost that is still to be learned)"


def env_of(robot: str) -> str:
    return f"tacit/{robot}-v0"


def _fresh(group: str, algo: str, made: list[Task] | None, source: str, seed: int, quick: bool, steps: Any) -> Job:
    """A fresh agent with the cost that a finished run of that method and seed learned."""
    paths = {(task.job.label, task.job.seed): str(task.path) for task in made or []}
    row = Row("retrain", settings={"cost": paths.get((f"{source}: {algo}", seed), LATER)})
    return compare.job(group, algo, row, env_of(group), SHIFT + seed, quick, budget=steps)


def transfer_first(seeds: list[int], quick: bool = False) -> list[Job]:
    """Costs of (x, y) of the Ant."""
    algos = METHODS[:2] if quick else METHODS
    rows = {algo: Row(algo, settings={"inputs": INPUTS}) for algo in algos}
    return [
        compare.job(SOURCE, algo, row, env_of(SOURCE), seed, quick, budget=SHORT)
        for seed in seeds
        for algo, row in rows.items()
    ]


def transfer_jobs(seeds: list[int], quick: bool = False, made: list[Task] | None = None) -> list[Job]:
    """One fresh agent a seed, target and method, and the references."""
    wanted = []
    for seed in seeds:
        for target in TARGETS:
            for algo in METHODS[:2] if quick else METHODS:
                wanted.append(_fresh(target, algo, made, SOURCE, seed, quick, SHORT))
            for algo in REFERENCES:
                wanted.append(compare.job(target, algo, Row(algo), env_of(target), seed, quick, budget=SHORT))
    return wanted


def retraining_first(seeds: list[int], quick: bool = False) -> list[Job]:
    """Runs of `robots`, whose costs are tested."""
    robots = ("Pendulum",) if quick else ROBOTS
    return [
        compare.job(robot, algo, Row(algo), env_of(robot), seed, quick)
        for seed in seeds
        for robot in robots
        for algo in RETRAINED
    ]


def retraining_jobs(seeds: list[int], quick: bool = False, made: list[Task] | None = None) -> list[Job]:
    """One fresh agent a seed, robot and method, and RCPO that is told the true cost."""
    wanted = []
    for seed in seeds:
        for robot in ("Pendulum",) if quick else ROBOTS:
            for algo in RETRAINED:
                wanted.append(_fresh(robot, algo, made, robot, seed, quick, None))
            wanted.append(compare.job(robot, "rcpo", Row("rcpo"), env_of(robot), seed, quick))
    return wanted


def _experiment(groups: tuple[str, ...], rows: tuple[str, ...], first: Any, jobs: Any) -> Experiment:
    return Experiment(
        SEEDS,
        jobs,
        compare.collect,
        lambda found: compare.table(found, groups, rows),
        lambda found: compare_plots.curves(found, groups, rows),
        first,
    )


TRANSFER = _experiment(TARGETS, (*METHODS, *REFERENCES), transfer_first, transfer_jobs)
RETRAINING = _experiment(ROBOTS, (*RETRAINED, "rcpo"), retraining_first, retraining_jobs)
