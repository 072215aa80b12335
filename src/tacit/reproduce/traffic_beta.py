"""Highway driving: MCE-ICRL, preset `reference`, with the four entropy weights of the paper's ablation; fewer steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.reproduce import highway_runs
from tacit.reproduce.highway_runs import EVALUATION, EXPERT, QUICK, TASKS, collect, env_of, expert_jobs

if TYPE_CHECKING:
    from tacit.sweep import Job

__all__ = ["SEEDS", "collect", "figure", "jobs", "table"]

SEEDS = (0, 1, 2)
BETAS = (1e-5, 1e-4, 1e-3, 1e-2)
STEPS = 200_000
ROWS = tuple(f"beta {beta:g}" for beta in BETAS)


def jobs(seeds: list[int], quick: bool = False) -> list[Job]:
    """One run a task, beta and seed."""
    from tacit.sweep import Job

    return expert_jobs(seeds, quick) + [
        Job(
            "mce",
            env_of(task),
            seed=seed,
            preset="reference",
            settings={**(QUICK if quick else {"total_steps": STEPS, **EVALUATION}), "beta": beta},
            label=f"{task}: {row}",
        )
        for seed in seeds
        for task in TASKS
        for row, beta in zip(ROWS, BETAS, strict=True)
    ]


def table(results: dict[str, Any]) -> str:
    return highway_runs.table(results, (EXPERT, *ROWS))


def figure(results: dict[str, Any]) -> bytes:
    return highway_runs.figure(results, (EXPERT, *ROWS))
