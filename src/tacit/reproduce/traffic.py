"""Highway driving: MCE-ICRL with both presets, the expert who knows the rule, and every baseline that there is.

All learn from the demonstrations that come with Tacit and get the same number of environment steps, but for the paper's
settings, which get an eighth (distance) or half (velocity) of the paper's steps. Baselines have mce's PPO settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.reproduce import highway_runs
from tacit.reproduce.highway_runs import EVALUATION, EXPERT, QUICK, TASKS, accepted, collect, env_of, expert_jobs

if TYPE_CHECKING:
    from tacit.sweep import Job

__all__ = ["SEEDS", "collect", "figure", "jobs", "table"]

SEEDS = (0, 1, 2)
REFERENCE, PAPER = "mce, reference", "mce, paper"
PAPER_STEPS = {"Distance": 620_000, "Velocity": 625_000}
"""Bootstrap and 12 of 100 iterations; 25 of 50."""
BASELINES = ("gacl", "me-icrl", "vicrl", "bc2l", "irl-correction", "bc", "rcpo", "ppo")
"""Those that this version knows join."""
ROWS = (EXPERT, REFERENCE, PAPER, *BASELINES)


def jobs(seeds: list[int], quick: bool = False) -> list[Job]:
    """One run a task, method and seed."""
    from tacit.algorithms import ALGORITHMS
    from tacit.sweep import Job

    def job(task: str, row: str, algo: str, preset: str, seed: int, settings: dict[str, Any]) -> Job:
        chosen = accepted(algo, {**settings, **(QUICK if quick else EVALUATION)})
        return Job(algo, env_of(task), seed=seed, preset=preset, settings=chosen, label=f"{task}: {row}")

    wanted = expert_jobs(seeds, quick)
    for seed in seeds:
        for task in TASKS:
            wanted.append(job(task, REFERENCE, "mce", "reference", seed, {}))
            wanted.append(job(task, PAPER, "mce", "paper", seed, {"total_steps": PAPER_STEPS[task]}))
            for name in BASELINES:
                if name in ALGORITHMS:
                    wanted.append(job(task, name, name, "reference", seed, engine(task)))
    return wanted


def engine(task: str) -> dict[str, Any]:
    """What mce's reference preset says of PPO, phases and the cost's inputs on this task: the same for everybody."""
    import dataclasses

    from tacit import presets
    from tacit.forward import ppo_lagrangian

    forward = {"inputs", "bootstrap_steps", "forward_steps"} | {
        field.name for field in dataclasses.fields(ppo_lagrangian.Config)
    }
    return {key: value for key, value in presets.load("mce", "reference", env_of(task)).items() if key in forward}


def table(results: dict[str, Any]) -> str:
    return highway_runs.table(results, _there(results))


def figure(results: dict[str, Any]) -> bytes:
    return highway_runs.figure(results, _there(results))


def _there(results: dict[str, Any]) -> list[str]:
    """Rows with a run; the others are only listed as missing."""
    labels = {run["label"] for run in results["runs"]}
    return [row for row in ROWS if any(f"{task}: {row}" in labels for task in TASKS)]
