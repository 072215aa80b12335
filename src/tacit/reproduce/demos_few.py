"""How few demonstrations are enough: MCE-ICRL, preset `reference`, with 1 and 5 of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.reproduce import deep_runs
from tacit.reproduce.deep_runs import QUICK
from tacit.reproduce.records import collect

if TYPE_CHECKING:
    from tacit.sweep import Job

__all__ = ["SEEDS", "collect", "figure", "jobs", "table"]

SEEDS = (0, 1, 2)
COUNTS = (1, 5)
ROBOTS = ("HalfCheetah", "Pendulum")
LABELS = tuple(f"{robot}, {count}" for robot in ROBOTS for count in COUNTS)


def jobs(seeds: list[int], quick: bool = False) -> list[Job]:
    """One run a robot, number of demonstrations and seed."""
    from tacit.sweep import Job

    return [
        Job(
            "mce",
            f"tacit/{robot}-v0",
            seed=seed,
            preset="reference",
            settings={**(QUICK if quick else {}), "demonstrations": count},
            label=f"{robot}, {count}",
        )
        for seed in seeds
        for robot in ROBOTS
        for count in COUNTS
    ]


def table(results: dict[str, Any]) -> str:
    return deep_runs.table(results, LABELS, {}, "")


def figure(results: dict[str, Any]) -> bytes:
    return deep_runs.figure(results, LABELS, lambda label: None)
