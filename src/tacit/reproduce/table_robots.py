"""MCE-ICRL, preset `reference`, on the five robots: five seeds, from the demonstrations that come with Tacit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.reproduce import deep_runs
from tacit.reproduce.deep_runs import PAPER, QUICK, ROBOTS, collect

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


def table(results: dict[str, Any]) -> str:
    beside = {name: f"{reward:g} / {rate:g}" for name, (reward, rate) in PAPER.items()}
    return deep_runs.table(results, ROBOTS, beside, "the paper: reward / violation rate")


def figure(results: dict[str, Any]) -> bytes:
    return deep_runs.figure(results, ROBOTS, lambda name: PAPER[name][0])
