"""MCE-ICRL with the paper's settings on the five robots: two seeds, a fifth of the paper's iterations.

The runs are those of `robots-paper`, here in the detail of `table-robots`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.reproduce.deep_runs import QUICK, ROBOTS
from tacit.reproduce.records import collect
from tacit.reproduce.robots import PAPER_STEPS
from tacit.reproduce.table_robots import figure, table

if TYPE_CHECKING:
    from tacit.sweep import Job

__all__ = ["SEEDS", "collect", "figure", "jobs", "table"]

SEEDS = (0, 1)


def jobs(seeds: list[int], quick: bool = False) -> list[Job]:
    """One run a robot and seed."""
    from tacit.sweep import Job

    return [
        Job(
            "mce",
            f"tacit/{name}-v0",
            seed=seed,
            preset="paper",
            settings=QUICK if quick else {"total_steps": PAPER_STEPS[name]},
            label=name,
        )
        for seed in seeds
        for name in ROBOTS
    ]
