"""How many demonstrations, and how many of them may be wrong: MCE-ICRL and ME-ICRL on Pendulum and Swimmer.

`demos-count`: the first 1, 5, 10, 20 of the 50 that come with Tacit, and all of them.

`demos-violating`: 20, 50 and 80 % of the demonstrations violate the constraint. Who violates is PPO on the reward alone
(preset `reference`, seed 50): of its episodes, sampled with a seed of their own, those that break the constraint at
least once take the place of the last 10, 25 or 40 of the 50. So a violating demonstration is a good one by the reward,
and a whole one; nothing tells it from the others.

Both on the steps of `decisions`, with which they have runs in common. (`robots` has the experiments.)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import RunFailed
from tacit.reproduce import compare, compare_plots
from tacit.reproduce.compare import SHORT, Row
from tacit.reproduce.experiment import Experiment

if TYPE_CHECKING:
    from tacit.demos import Demonstrations
    from tacit.sweep import Job, Task

ROBOTS = ("Pendulum", "Swimmer")
SEEDS = (0, 1, 2)
METHODS = ("mce", "me-icrl")
ROWS = compare.rows_of(METHODS)
ALL = 50
COUNTS = (1, 5, 10, 20, ALL)
SHARES = (0.2, 0.5, 0.8)
VIOLATOR_SEED = 50
MOST_EPISODES = 400
LATER = "(demonstrations of which some violate)"


def env_of(robot: str) -> str:
    return f"tacit/{robot}-v0"


# ---------------------------------------------------------------------------------------------------------------------
# How many

COUNT_GROUPS = {f"{robot}, {count}": float(count) for robot in ROBOTS for count in COUNTS}


def count_jobs(seeds: list[int], quick: bool = False) -> list[Job]:
    """One run a seed, robot, number of demonstrations and method."""
    wanted = []
    for seed in seeds:
        for robot in ROBOTS:
            for count in (COUNTS[1], ALL) if quick else COUNTS:
                # All of them is what everybody learns from: the same runs as in other experiments.
                settings = {} if count == ALL else {"demonstrations": count}
                for algo in METHODS:
                    row = Row(algo, settings=settings)
                    group = f"{robot}, {count}"
                    wanted.append(compare.job(group, algo, row, env_of(robot), seed, quick, budget=SHORT))
    return wanted


# ---------------------------------------------------------------------------------------------------------------------
# How many wrong ones


def share_group(robot: str, share: float) -> str:
    return f"{robot}, {100 * share:g} %"


SHARE_GROUPS = {share_group(robot, share): 100 * share for robot in ROBOTS for share in (0.0, *SHARES)}


def first(seeds: list[int], quick: bool = False) -> list[Job]:
    """Those who violate."""
    return [compare.job(robot, "ppo", Row("ppo"), env_of(robot), VIOLATOR_SEED, quick) for robot in ROBOTS]


def mixed_file(task: Task, share: float) -> Path:
    """Where the mixed demonstrations are, beside the run folders; named after the run that violates."""
    return task.path.parent / "demonstrations" / f"{task.path.name}-{100 * share:g}.npz"


def make(tasks: list[Task]) -> None:
    """Write the mixed demonstrations that are not there yet; what cannot be had is said, and the rest made."""
    from tacit.demos import save
    from tacit.launch import to_stderr

    for task in tasks:
        for share in SHARES:
            file = mixed_file(task, share)
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                try:
                    save(mixed(task, share), file)
                except RunFailed as error:
                    to_stderr(str(error))


def mixed(task: Task, share: float) -> Demonstrations:
    """The demonstrations that come with Tacit, the last `share` of them replaced by episodes that violate."""
    from dataclasses import replace

    from tacit import demos as demonstrations
    from tacit.demos.data import from_trajectories

    included = demonstrations.shipped(task.job.env)
    assert included is not None
    good = demonstrations.load(included)
    wrong = round(share * len(good))
    bad = violating(task, wrong)
    both = [*good.subset(np.arange(len(good) - wrong)), *bad]
    card = {**good.card, "source": f"{good.card.get('source')}; {wrong} of {len(good)} by PPO without cost, violating"}
    return replace(from_trajectories(both, card), card=card)


def violating(task: Task, n: int) -> Demonstrations:
    """n episodes of a finished run's policy in which the constraint is broken at least once."""
    from tacit import demos as demonstrations
    from tacit.forward.collect import make_vec
    from tacit.policy import Policy
    from tacit.run import Run

    policy = Policy.from_arrays(*Run.open(task.path).load_model("policy"))
    env = make_vec(task.job.env, ALL)
    try:
        drawn = demonstrations.collect(env, policy, MOST_EPISODES, seed=30_000)
    finally:
        env.close()
    assert drawn.costs is not None
    broken = np.flatnonzero(np.add.reduceat(drawn.costs, drawn.step_offsets) > 0)
    if len(broken) < n:
        raise RunFailed(f"{task.job}: only {len(broken)} of {MOST_EPISODES} episodes violate, {n} are needed")
    return drawn.subset(broken[:n])


def share_jobs(seeds: list[int], quick: bool = False, made: list[Task] | None = None) -> list[Job]:
    """One run a seed, robot, share and method; `made` are those who violate."""
    by_robot = {task.job.label.partition(":")[0]: task for task in made or []}
    wanted = []
    for seed in seeds:
        for robot in ROBOTS:
            for share in (0.0, SHARES[1]) if quick else (0.0, *SHARES):
                task = by_robot.get(robot)
                later = LATER if task is None else str(mixed_file(task, share))
                for name, row in ROWS.items():
                    demos = later if share else None
                    group = share_group(robot, share)
                    wanted.append(compare.job(group, name, row, env_of(robot), seed, quick, demos=demos, budget=SHORT))
    return wanted


# ---------------------------------------------------------------------------------------------------------------------
# From the numbers


def _of(robot: str, metric: str, scale: float = 1.0) -> compare_plots.Numbers:
    def of(run: Mapping[str, Any]) -> float | None:
        return scale * run["stochastic"][metric] if run["label"].startswith(f"{robot},") else None

    return of


def _panels() -> dict[str, compare_plots.Numbers]:
    panels = {f"{robot}: terminated return": _of(robot, "terminated_return") for robot in ROBOTS}
    return panels | {f"{robot}: violating steps, %": _of(robot, "violation_rate_step", 100.0) for robot in ROBOTS}


def _experiment(groups: Mapping[str, float], jobs: Any, xlabel: str, log: bool, **staged: Any) -> Experiment:
    ticks = {value: f"{value:g}" for value in groups.values()}
    return Experiment(
        SEEDS,
        jobs,
        compare.collect,
        lambda found: compare.table(found, list(groups), METHODS),
        lambda found: compare_plots.against(found, groups, METHODS, _panels(), xlabel, log=log, ticks=ticks),
        **staged,
    )


COUNT = _experiment(COUNT_GROUPS, count_jobs, "demonstrations", True)
VIOLATING = _experiment(SHARE_GROUPS, share_jobs, "violating demonstrations, %", False, first=first, make=make)
