"""How many demonstrations, and how many of them may be wrong: MCE-ICRL and ME-ICRL on Pendulum and Swimmer.

`demos-count`: the first 1, 5, 10, 20 of the 50 that come with Tacit, and all of them; the same for every seed.

`demos-violating`: 20, 50 and 80 % of the demonstrations violate the constraint. Who violates is PPO on the reward alone
(preset `reference`, seeds 50 to 52): of their episodes, sampled with seeds of their own, those that break the
constraint at least once take the place of the last 10, 25 or 40 of the 50. So a violating demonstration is a good one
by the reward, and a whole one; nothing tells it from the others. Returns are compared with the clean 50. MCE-ICRL is
there twice: the preset's large square on demonstrations forgives whatever was ever demonstrated; with a small one, as
small as the learner's, it matters how often.

Both on the steps of `robots`, with which they have runs in common; `bc` is the clone with which the two methods begin.
(`robots` has the experiments.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import RunFailed
from tacit.reproduce import compare, compare_plots, overall, records
from tacit.reproduce.compare import Row
from tacit.reproduce.experiment import Experiment
from tacit.run import storage

if TYPE_CHECKING:
    from tacit.demos import Demonstrations
    from tacit.demos.data import Trajectory
    from tacit.sweep import Job, Task

ROBOTS = ("Pendulum", "Swimmer")
SEEDS = (0, 1, 2)
METHODS = ("mce", "me-icrl", "bc")
ROWS = compare.rows_of(METHODS)
EVEN = "mce, equal squares"
SHARE_ROWS = {"mce": ROWS["mce"], EVEN: Row("mce", settings={"expert_square": 0.1})} | ROWS
ALL = 50
COUNTS = (1, 5, 10, 20, ALL)
SHARES = (0.2, 0.5, 0.8)
VIOLATORS = (50, 51, 52)
MOST_EPISODES = 400
"""Of each of them."""
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
                    wanted.append(compare.job(group, algo, row, env_of(robot), seed, quick))
    return wanted


# ---------------------------------------------------------------------------------------------------------------------
# How many wrong ones


def share_group(robot: str, share: float) -> str:
    return f"{robot}, {100 * share:g} %"


SHARE_GROUPS = {share_group(robot, share): 100 * share for robot in ROBOTS for share in (0.0, *SHARES)}


def first(seeds: list[int], quick: bool = False) -> list[Job]:
    """Those who violate."""
    violators = VIOLATORS[:1] if quick else VIOLATORS
    return [compare.job(robot, "ppo", Row("ppo"), env_of(robot), seed, quick) for robot in ROBOTS for seed in violators]


def by_robot(tasks: list[Task], quick: bool) -> dict[str, list[Task]]:
    """Those who violate, of robots where they are all there: a mixture of some of them would be another experiment."""
    found: dict[str, list[Task]] = {}
    for task in tasks:
        found.setdefault(task.job.label.partition(":")[0], []).append(task)
    return {robot: made for robot, made in found.items() if len(made) == (1 if quick else len(VIOLATORS))}


def mixed_file(tasks: list[Task], share: float) -> Path:
    """Where the mixed demonstrations are, beside the run folders; named after the policies that violate."""
    policies = [storage.sha256_of_file(task.path / "model" / "policy.safetensors") for task in tasks]
    digest = storage.sha256_of_bytes("".join([clean(tasks[0].job.env).sha256, *policies]).encode())[:8]
    robot = tasks[0].job.label.partition(":")[0].lower()
    return tasks[0].path.parent / "demonstrations" / f"{robot}-{digest}-{100 * share:g}.npz"


def make(tasks: list[Task], quick: bool = False) -> None:
    """Write the mixed demonstrations that are not there yet; what cannot be had is said, and the rest made."""
    from tacit.demos import save
    from tacit.launch import to_stderr

    for violators in by_robot(tasks, quick).values():
        files = {share: mixed_file(violators, share) for share in SHARES}
        wanted = {share: file for share, file in files.items() if not file.exists()}
        bad = violating(violators) if wanted else []
        for share, file in wanted.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                save(mixed(violators[0].job.env, bad, share), file)
            except RunFailed as error:
                to_stderr(str(error))


def clean(env: str) -> Demonstrations:
    """The demonstrations that come with Tacit."""
    from tacit import demos as demonstrations

    included = demonstrations.shipped(env)
    assert included is not None
    return demonstrations.load(included)


def mixed(env: str, bad: Sequence[Trajectory], share: float) -> Demonstrations:
    """The clean demonstrations, the last `share` of them replaced by the first of those that violate."""
    from dataclasses import replace

    from tacit.demos.data import from_trajectories

    good = clean(env)
    wrong = round(share * len(good))
    if len(bad) < wrong:
        raise RunFailed(f"{env}: only {len(bad)} episodes of PPO without cost violate, {wrong} are needed")
    both = [*good.subset(np.arange(len(good) - wrong)), *bad[:wrong]]
    card = {**good.card, "source": f"{good.card.get('source')}; {wrong} of {len(good)} by PPO without cost, violating"}
    return replace(from_trajectories(both, card), card=card)


def violating(tasks: list[Task]) -> list[Trajectory]:
    """Episodes in which the constraint is broken at least once, of the policies of finished runs by turns."""
    from itertools import chain, zip_longest

    each = [_violating(task) for task in tasks]
    return [one for one in chain.from_iterable(zip_longest(*each)) if one is not None]


def _violating(task: Task) -> list[Trajectory]:
    """Of one run."""
    from tacit import demos as demonstrations
    from tacit.forward.collect import make_vec
    from tacit.policy import Policy
    from tacit.run import Run

    policy = Policy.from_arrays(*Run.open(task.path).load_model("policy"))
    env = make_vec(task.job.env, ALL)
    try:
        drawn = demonstrations.collect(env, policy, MOST_EPISODES, seed=30_000 + task.job.seed)
    finally:
        env.close()
    assert drawn.costs is not None
    return [drawn[int(i)] for i in np.flatnonzero(np.add.reduceat(drawn.costs, drawn.step_offsets) > 0)]


def share_jobs(seeds: list[int], quick: bool = False, made: list[Task] | None = None) -> list[Job]:
    """One run a seed, robot, share and method; `made` are those who violate."""
    violators = by_robot(made or [], quick)
    wanted = []
    for seed in seeds:
        for robot in ROBOTS:
            for share in (0.0, SHARES[1]) if quick else (0.0, *SHARES):
                later = str(mixed_file(violators[robot], share)) if robot in violators else LATER
                for name, row in SHARE_ROWS.items():
                    demos = later if share else None
                    group = share_group(robot, share)
                    wanted.append(compare.job(group, name, row, env_of(robot), seed, quick, demos=demos))
    return wanted


# ---------------------------------------------------------------------------------------------------------------------
# From the numbers


NOTE = "*Demonstrations* are here those that come with Tacit, without violations, also where some were replaced."


def beside_clean(results: dict[str, Any]) -> dict[str, Any]:
    """The same, beside what the clean demonstrations earn: a mixture is no measure of anybody."""
    earned = {robot: float(np.mean(clean(env_of(robot)).returns)) for robot in ROBOTS}
    experts = {robot: {"return": value, "terminated_return": value} for robot, value in earned.items()}
    runs = [{**run, "expert": experts[run["label"].partition(",")[0]]} for run in results["runs"]]
    return {**results, "runs": runs}


def _of(robot: str, metric: str, scale: float = 1.0) -> compare_plots.Numbers:
    def of(run: Mapping[str, Any]) -> float | None:
        return scale * run["stochastic"][metric] if run["label"].startswith(f"{robot},") else None

    return of


def _panels() -> dict[str, compare_plots.Numbers]:
    panels = {f"{robot}: terminated return": _of(robot, "terminated_return") for robot in ROBOTS}
    return panels | {f"{robot}: violating steps, %": _of(robot, "violation_rate_step", 100.0) for robot in ROBOTS}


def _experiment(
    groups: Mapping[str, float], rows: Iterable[str], jobs: Any, table: Any, xlabel: str, log: bool, **staged: Any
) -> Experiment:
    ticks = {value: f"{value:g}" for value in groups.values()}

    def figure(results: dict[str, Any]) -> bytes:
        return compare_plots.against(results, groups, list(rows), _panels(), xlabel, log=log, ticks=ticks)

    return Experiment(SEEDS, jobs, records.collect, table, figure, **staged)


def count_table(results: dict[str, Any]) -> str:
    groups = list(COUNT_GROUPS)
    return overall.table(results, groups, METHODS) + compare.table(results, groups, METHODS)


def share_table(results: dict[str, Any]) -> str:
    results, groups = beside_clean(results), list(SHARE_GROUPS)
    rows = list(SHARE_ROWS)
    return overall.table(results, groups, rows) + compare.table(results, groups, rows) + "\n" + NOTE + "\n"


COUNT = _experiment(COUNT_GROUPS, METHODS, count_jobs, count_table, "demonstrations", True)
VIOLATING = _experiment(
    SHARE_GROUPS, SHARE_ROWS, share_jobs, share_table, "violating demonstrations, %", False, first=first, make=make
)
