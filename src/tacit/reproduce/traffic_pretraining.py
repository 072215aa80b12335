"""Highway driving: the paper's settings with and without pre-training of the features; a fraction of its steps.

The paper's own column for the velocity rule has no pre-training; "with" is 20 epochs on both tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.reproduce import highway_runs
from tacit.reproduce.highway_runs import EVALUATION, EXPERT, QUICK, TASKS, collect, env_of, expert_jobs

if TYPE_CHECKING:
    from tacit.sweep import Job

__all__ = ["SEEDS", "collect", "figure", "jobs", "table"]

SEEDS = (0, 1, 2)
EPOCHS = {"with pre-training": 20, "without": 0}
STEPS = {"Distance": 220_000, "Velocity": 200_000}
"""Bootstrap and 4 of 100 iterations; 8 of 50."""
ROWS = tuple(EPOCHS)


def jobs(seeds: list[int], quick: bool = False) -> list[Job]:
    """One run a task, choice and seed."""
    from tacit.sweep import Job

    return expert_jobs(seeds, quick) + [
        Job(
            "mce",
            env_of(task),
            seed=seed,
            preset="paper",
            settings={**(QUICK if quick else {"total_steps": STEPS[task], **EVALUATION}), "pretrain_epochs": epochs},
            label=f"{task}: {row}",
        )
        for seed in seeds
        for task in TASKS
        for row, epochs in EPOCHS.items()
    ]


def table(results: dict[str, Any]) -> str:
    return highway_runs.table(results, (EXPERT, *ROWS))


def figure(results: dict[str, Any]) -> bytes:
    return highway_runs.figure(results, (EXPERT, *ROWS))
