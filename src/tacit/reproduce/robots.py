"""Experiments on the five robots: methods side by side, the paper's ablations, and what the paper did not test.

`reference` and the published settings are experiments of their own (-paper), so that they stand in separate tables. In
the preset `reference` all methods have the same steps, engine and demonstrations. Published settings get the paper's
bootstrap and a fifth of its iterations, all methods as many steps (PAPER_STEPS). Rows in common are the same runs:
`robots-beta` and `robots-pretraining` are all of `table-ablation`, drawn as curves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tacit.reproduce import (
    compare,
    compare_plots,
    demos_runs,
    noise_runs,
    overall,
    published,
    records,
    screens,
    transfer_runs,
    tuning,
)
from tacit.reproduce.compare import METHODS, REFERENCES, Beside, Row
from tacit.reproduce.deep_runs import ROBOTS
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.published import EARLIER

SEEDS = (0, 1, 2)
MORE_OF_OURS = (3, 4)
"""Further seeds of mce, which are also those of `table-robots`."""
PAPER_STEPS = {"Ant": 1_000_000, "HalfCheetah": 1_400_000, "Swimmer": 1_200_000, "Walker": 2_200_000}
PAPER_STEPS |= {"Pendulum": 4_100_000}
BETAS = (1e-5, 1e-4, 1e-3, 1e-2)
USUAL = "beta 0.0001"
PLAIN = "no pre-training"
BETA_ROWS = {f"beta {beta:g}": Row("mce", "paper", {"beta": beta}) for beta in BETAS}
PRETRAINING = {"with pre-training": Row("mce", "paper"), PLAIN: Row("mce", "paper", {"pretrain_epochs": 0})}
ABLATION = {**BETA_ROWS, PLAIN: PRETRAINING[PLAIN]}


def env_of(robot: str) -> str:
    return f"tacit/{robot}-v0"


def jobs_of(
    rows: Mapping[str, Row], seeds: Sequence[int], quick: bool, steps: Mapping[str, int] | None = None
) -> list[Any]:
    """One run a seed, robot and row; `mce` gets more seeds where the usual ones were asked for."""
    wanted = []
    more = MORE_OF_OURS if tuple(seeds) == SEEDS and "ppo" in rows and not quick else ()
    for seed in (*seeds, *more):
        for robot in ROBOTS:
            budget = {} if steps is None else {"total_steps": steps[robot]}
            for name, row in rows.items():
                if seed in seeds or name == "mce":
                    wanted.append(compare.job(robot, name, row, env_of(robot), seed, quick, budget=budget))
    return wanted


def _experiment(
    rows: Mapping[str, Row],
    steps: Mapping[str, int] | None = None,
    beside: Beside | None = None,
    ours: str = "mce",
) -> Experiment:
    def jobs(seeds: list[int], quick: bool = False) -> list[Any]:
        return jobs_of(rows, seeds, quick, steps)

    names = list(rows)

    def table(results: dict[str, Any]) -> str:
        return overall.table(results, ROBOTS, names, ours) + compare.table(results, ROBOTS, names, beside)

    def figure(results: dict[str, Any]) -> bytes:
        return compare_plots.curves(results, ROBOTS, names)

    return Experiment(SEEDS, jobs, records.collect, table, figure)


EXPERIMENTS = {
    "robots": _experiment({**compare.rows_of((*METHODS, *REFERENCES)), **compare.CONTROLS}, beside=EARLIER),
    "robots-paper": _experiment(compare.rows_of(METHODS, "paper"), steps=PAPER_STEPS, beside=EARLIER),
    "robots-contenders": _experiment(compare.rows_of(("mce", "bc2l", "irl-correction", "bc")), beside=EARLIER),
    "robots-beta": _experiment(BETA_ROWS, PAPER_STEPS, ours=USUAL),
    "robots-pretraining": _experiment(PRETRAINING, PAPER_STEPS, ours="with pre-training"),
    "table-ablation": _experiment(ABLATION, PAPER_STEPS, beside=published.ablation(ABLATION), ours=USUAL),
    "robots-screens": screens.EXPERIMENT,
    "robots-noise": noise_runs.EXPERIMENT,
    "transfer": transfer_runs.TRANSFER,
    "retraining": transfer_runs.RETRAINING,
    "demos-count": demos_runs.COUNT,
    "demos-violating": demos_runs.VIOLATING,
    "tuning": tuning.EXPERIMENTS["tuning"],
}
