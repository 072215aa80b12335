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
    records,
    screens,
    transfer_runs,
    tuning,
)
from tacit.reproduce.compare import METHODS, REFERENCES, Row
from tacit.reproduce.deep_runs import PAPER, ROBOTS
from tacit.reproduce.experiment import Experiment

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
PUBLISHED = {
    "Ant": (("5985 ± 259", "0"), ("7338 ± 211", "0"), ("6057 ± 313", "0"), ("6228 ± 316", "0"), ("7131 ± 313", "0")),
    "HalfCheetah": (
        ("3895 ± 295", "0"),
        ("4085 ± 565", "0"),
        ("3499 ± 492", "0.002 ± 0.002"),
        ("2377 ± 631", "0.024 ± 0.012"),
        ("3609 ± 490", "0"),
    ),
    "Swimmer": (
        ("177 ± 52", "0.33 ± 0.09"),
        ("257 ± 44", "0.002 ± 0.001"),
        ("253 ± 54", "0.12 ± 0.04"),
        ("192 ± 43", "0.11 ± 0.05"),
        ("165 ± 59", "0.22 ± 0.09"),
    ),
    "Walker": (("1647 ± 100", "0"), ("1858 ± 44", "0"), ("1746 ± 81", "0"), ("1732 ± 77", "0"), ("1656 ± 71", "0")),
    "Pendulum": (
        ("27 ± 3", "0.22 ± 0.05"),
        ("26 ± 3", "0.11 ± 0.03"),
        ("32 ± 3", "0.12 ± 0.03"),
        ("29 ± 4", "0.17 ± 0.02"),
        ("21 ± 1", "0.23 ± 0.04"),
    ),
}
"""The paper's table: (reward, violation rate) for the rows of ABLATION, mean ± standard error over its 10 seeds."""


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
    beside: Mapping[str, str] | None = None,
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


def _published() -> dict[str, str]:
    return {
        f"{robot}: {row}": f"{reward} / {rate}"
        for robot, numbers in PUBLISHED.items()
        for row, (reward, rate) in zip(ABLATION, numbers, strict=True)
    }


MCE_OF_PAPER = {f"{robot}: mce": f"{reward:g} / {rate:g}" for robot, (reward, rate) in PAPER.items()}
EXPERIMENTS = {
    "robots": _experiment({**compare.rows_of((*METHODS, *REFERENCES)), **compare.CONTROLS}, beside=MCE_OF_PAPER),
    "robots-paper": _experiment(compare.rows_of(METHODS, "paper"), steps=PAPER_STEPS, beside=MCE_OF_PAPER),
    "robots-contenders": _experiment(compare.rows_of(("mce", "bc2l", "irl-correction", "bc"))),
    "robots-beta": _experiment(BETA_ROWS, PAPER_STEPS, ours=USUAL),
    "robots-pretraining": _experiment(PRETRAINING, PAPER_STEPS, ours="with pre-training"),
    "table-ablation": _experiment(ABLATION, PAPER_STEPS, _published(), ours=USUAL),
    "robots-screens": screens.EXPERIMENT,
    "robots-noise": noise_runs.EXPERIMENT,
    "transfer": transfer_runs.TRANSFER,
    "retraining": transfer_runs.RETRAINING,
    "demos-count": demos_runs.COUNT,
    "demos-violating": demos_runs.VIOLATING,
    "tuning": tuning.EXPERIMENTS["tuning"],
}
