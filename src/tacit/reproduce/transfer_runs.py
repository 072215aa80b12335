"""Frozen costs: the Ant's taken to Point and BrokenAnt, and the re-training test. (`robots` has the experiments.)

`transfer`: the four methods learn a cost of (x, y) on the Ant (preset `reference`; so did earlier work for Point), and
a fresh agent follows the target's reward and that frozen cost (algorithm `retrain`: what exceeds the usual threshold is
charged, 1 at most, with a budget of 0). For Point also costs of x alone: the Ant's demonstrations all run one way and
hardly know y > 0, through which Point must travel. Beside them PPO without cost, and RCPO that is told the target's
true cost. A cost that forbids nothing that its learner tried is charged as nothing: such a seed counts as any other.
Everybody has the steps of `decisions`. The group Ant has the runs in which the costs were learned.

`retraining`: the same in the environment where the cost was learned, for mce and me-icrl with the costs of `robots`,
all inputs; also charged as they are, with a budget of what the demonstrations cost ("budget"). PPO without cost and
RCPO with the true one are those of `robots`. Fresh agents have seeds of their own
(1000 more): with the same seed they would begin with the same network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tacit.reproduce import compare, compare_plots, overall, records
from tacit.reproduce.compare import METHODS, REFERENCES, SHORT, Row, short_rows
from tacit.reproduce.deep_runs import ROBOTS
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.published import EARLIER

if TYPE_CHECKING:
    from tacit.sweep import Job, Task

SEEDS = (0, 1, 2)
SHIFT = 1000
SOURCE = "Ant"
TARGETS = ("Point", "BrokenAnt")
X_ALONE = ", x alone"
INPUTS = {"": ["x_position", "y_position"], X_ALONE: ["x_position"]}
"""What the costs read, by the end of the row's name."""
RETRAINED = ("mce", "me-icrl")
BUDGET = ", budget"
"""The end of the name of a row whose agents are charged the cost itself (`retrain.Config.charge`)."""
RETRAINED_ROWS = tuple(algo + end for algo in RETRAINED for end in ("", BUDGET))
LATER = "(a cost that is still to be learned)"


def env_of(robot: str) -> str:
    return f"tacit/{robot}-v0"


def _fresh(group: str, name: str, made: list[Task] | None, source: str, seed: int, quick: bool, steps: Any) -> Job:
    """A fresh agent with the cost that a finished run of that row and seed learned."""
    paths = {(task.job.label, task.job.seed): str(task.path) for task in made or []}
    learned = name.removesuffix(BUDGET)
    settings = {"cost": paths.get((f"{source}: {learned}", seed), LATER), "free": True}
    row = Row("retrain", settings=settings if learned == name else {**settings, "charge": "budget"})
    return compare.job(group, name, row, env_of(group), SHIFT + seed, quick, budget=steps)


def sources(quick: bool) -> dict[str, Row]:
    """Methods and what their costs read."""
    rows = short_rows(METHODS[:2] if quick else METHODS, env_of(SOURCE))
    return {
        algo + end: Row(algo, settings={**row.settings, "inputs": inputs})
        for end, inputs in INPUTS.items()
        for algo, row in rows.items()
    }


def transfer_first(seeds: list[int], quick: bool = False) -> list[Job]:
    """Costs of the Ant."""
    return [
        compare.job(SOURCE, name, row, env_of(SOURCE), seed, quick, budget=SHORT)
        for seed in seeds
        for name, row in sources(quick).items()
    ]


def transfer_jobs(seeds: list[int], quick: bool = False, made: list[Task] | None = None) -> list[Job]:
    """One fresh agent a seed, target and cost, and the references; and where the costs come from."""
    wanted = transfer_first(seeds, quick)
    for seed in seeds:
        for target in TARGETS:
            for name in sources(quick):
                if target == "Point" or name in METHODS:
                    wanted.append(_fresh(target, name, made, SOURCE, seed, quick, SHORT))
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
    """Two fresh agents a seed, robot and method, and the references of `robots`."""
    wanted = []
    for seed in seeds:
        for robot in ("Pendulum",) if quick else ROBOTS:
            for name in RETRAINED_ROWS:
                wanted.append(_fresh(robot, name, made, robot, seed, quick, None))
            for algo in REFERENCES:
                wanted.append(compare.job(robot, algo, Row(algo), env_of(robot), seed, quick))
    return wanted


def by_inputs(results: Mapping[str, Any]) -> dict[str, Any]:
    """The results with costs of x alone as groups of their own, and Point's references in both of its groups."""

    def moved(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = []
        for record in records:
            group, _, row = record["label"].partition(": ")
            plain = row.removesuffix(X_ALONE)
            if plain == row:
                found.append(record)
            if plain != row or (group == TARGETS[0] and row in REFERENCES):
                found.append({**record, "label": f"{group}{X_ALONE}: {plain}"})
        return found

    return {**results, "runs": moved(results["runs"]), "missing": moved(results.get("missing") or [])}


GROUPS = (TARGETS[0], TARGETS[0] + X_ALONE, TARGETS[1], SOURCE, SOURCE + X_ALONE)

# Costs of (x, y), as theirs; what they report of the Ant itself had more steps and all inputs.
EARLIER_TARGETS = replace(EARLIER, cells={k: v for k, v in EARLIER.cells.items() if k.partition(":")[0] in TARGETS})


def transfer_table(results: dict[str, Any]) -> str:
    found, rows = by_inputs(results), (*METHODS, *REFERENCES)
    # The targets have no demonstrations, and Point's references are the same runs whatever a cost reads.
    together = overall.table(found, TARGETS, rows, scores=[overall.BROKEN])
    return together + compare.table(found, GROUPS, rows, EARLIER_TARGETS)


def retraining_table(results: dict[str, Any]) -> str:
    rows = (*RETRAINED_ROWS, *REFERENCES)
    return overall.table(results, ROBOTS, rows) + compare.table(results, ROBOTS, rows)


TRANSFER = Experiment(
    SEEDS,
    transfer_jobs,
    records.collect,
    transfer_table,
    lambda found: compare_plots.curves(by_inputs(found), GROUPS, (*METHODS, *REFERENCES)),
    transfer_first,
)
RETRAINING = Experiment(
    SEEDS,
    retraining_jobs,
    records.collect,
    retraining_table,
    lambda found: compare_plots.curves(found, ROBOTS, (*RETRAINED_ROWS, *REFERENCES)),
    retraining_first,
)
