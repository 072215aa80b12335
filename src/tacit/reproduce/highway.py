"""The highway experiments: MCE-ICRL and the baselines on both tasks, with one table and one figure (`driving`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tacit.reproduce.experiment import (
    PAPER_BETAS,
    QUICK,
    Experiment,
    Group,
    Row,
    betas,
    with_and_without_pretraining,
    with_budget,
)

EVALUATION = {"eval_episodes": 1000}
HIGHWAY_EXPERT = {"expert": Row("expert", quick={"demonstrations": 0})}
BASELINES = ("gacl", "me-icrl", "vicrl", "bc2l", "irl-correction", "bc", "rcpo", "ppo")


def highway(summary: str, rows: dict[str, Row], **changes: Any) -> Experiment:
    """An experiment on both highway tasks. The expert, which knows the rule, is its first row."""
    return Experiment(
        f"highway driving{summary}",
        {task: Group(f"tacit/Highway{task}-v0") for task in ("Distance", "Velocity")},
        {**HIGHWAY_EXPERT, **with_budget(rows, EVALUATION)},
        quick={**QUICK, "total_steps": 16_384, "eval_episodes": 20, "demonstrations": 5},
        collect="driving",
        table="driving",
        figure="driving",
        **changes,
    )


EXPERIMENTS = {
    "traffic": highway(
        " in simulated traffic: MCE-ICRL, the expert, and the baselines",
        {
            "mce, reference": Row("mce"),
            # An eighth (bootstrap and 12 of 100 iterations) or half (25 of 50) of the paper's steps.
            "mce, paper": Row("mce", "paper", steps={"Distance": 620_000, "Velocity": 625_000}),
            **{algo: Row(algo, engine="mce") for algo in BASELINES},
        },
    ),
    "traffic-beta": highway(
        ": MCE-ICRL with four entropy weights",
        {name: replace(row, steps=200_000) for name, row in betas(PAPER_BETAS).items()},
    ),
    "traffic-pretraining": highway(
        ": the paper's settings with and without pre-training of the features",
        # Bootstrap and 4 of 100 iterations; 8 of 50. The paper's own column for the velocity rule has no pre-training.
        {
            name: replace(row, steps={"Distance": 220_000, "Velocity": 200_000})
            for name, row in with_and_without_pretraining("paper").items()
        },
    ),
}
