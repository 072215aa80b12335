"""MCE-ICRL with the paper's settings on the five robots: two seeds.

Half of the paper's steps; a quarter for Walker and a fifth for the pendulum, whose 10 and 20 million take hours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.reproduce.deep_runs import QUICK, ROBOTS, collect
from tacit.reproduce.table_robots import figure, table

if TYPE_CHECKING:
    from tacit.sweep import Job

__all__ = ["SEEDS", "collect", "figure", "jobs", "table"]

SEEDS = (0, 1)
STEPS = {"Ant": 2_000_000, "HalfCheetah": 3_000_000, "Swimmer": 2_500_000, "Walker": 2_500_000, "Pendulum": 4_000_000}


def jobs(seeds: list[int], quick: bool = False) -> list[Job]:
    """One run a robot and seed."""
    from tacit.sweep import Job

    return [
        Job(
            "mce",
            f"tacit/{name}-v0",
            seed=seed,
            preset="paper",
            settings=QUICK if quick else {"total_steps": STEPS[name]},
            label=name,
        )
        for seed in seeds
        for name in ROBOTS
    ]
