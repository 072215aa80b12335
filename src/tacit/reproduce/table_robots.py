"""MCE-ICRL, preset `reference`, on the five robots: five seeds, from the demonstrations that come with Tacit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.reproduce import deep_runs
from tacit.reproduce.deep_runs import PAPER, QUICK, ROBOTS
from tacit.reproduce.records import collect

if TYPE_CHECKING:
    from tacit.sweep import Job

__all__ = ["PRESET", "SEEDS", "collect", "figure", "jobs", "table"]

SEEDS = (0, 1, 2, 3, 4)
PRESET = "reference"


def jobs(seeds: list[int], quick: bool = False) -> list[Job]:
    """One run a robot and seed."""
    return jobs_with(PRESET, seeds, quick)


def jobs_with(preset: str, seeds: list[int], quick: bool) -> list[Job]:
    from tacit.sweep import Job

    settings = QUICK if quick else {}
    return [
        Job("mce", f"tacit/{name}-v0", seed=seed, preset=preset, settings=settings, label=name)
        for seed in seeds
        for name in ROBOTS
    ]


EXPERTS = {"Ant": 13454.0, "HalfCheetah": 5384.0, "Swimmer": 836.0, "Walker": 2330.0, "Pendulum": 89.9}
"""Terminated return of the experts that made the demonstrations (results/table-experts.json)."""
GOALS = {
    "Ant": "7338, 1 % / 1.0 of our expert, 0",
    "HalfCheetah": "4085, 1 % / 1.2 of the demonstrations, 0",
    "Swimmer": "600, 0.2 % of steps / 0.95 of our expert, 2 %",
    "Walker": "1700, 2 % / 1858 and 0.95 of our expert, 1 %",
    "Pendulum": "80, 5 % / 88, 2 %",
}
"""What was to be reached, and what was aimed at: terminated return at least, violating episodes at most."""


def table(results: dict[str, Any]) -> str:
    import numpy as np

    beside = {}
    for name, (reward, rate) in PAPER.items():
        reached = [run["stochastic"]["terminated_return"] for run in results["runs"] if run["label"] == name]
        ratio = f"{np.mean(reached) / EXPERTS[name]:.2f}" if reached else "-"
        beside[name] = f"{ratio} | {reward:g} / {rate:g} | {GOALS[name]}"
    title = "stochastic policy over our expert | the paper: reward / violation rate | to reach / aim"
    return deep_runs.table(results, ROBOTS, beside, title)


def figure(results: dict[str, Any]) -> bytes:
    return deep_runs.figure(results, ROBOTS, lambda name: PAPER[name][0])
