"""The decisions of the preset `reference`, one changed at a time, on three robots.

Each row changes one thing back to what the paper or a simpler recipe would do; the rest is as in the preset, on
half as many steps (a third for HalfCheetah) and 40 evaluation episodes: what helps must help early.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.reproduce import compare, deep_runs
from tacit.reproduce.deep_runs import QUICK
from tacit.reproduce.records import collect, shown

if TYPE_CHECKING:
    from tacit.sweep import Job

__all__ = ["SEEDS", "collect", "figure", "jobs", "table"]

SEEDS = (0, 1, 2)
ROBOTS = ("Pendulum", "HalfCheetah", "Swimmer")
CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "starts from the nominal policy, not a clone": {"start": "nominal"},
    "one network on all inputs instead of thresholds": {"thresholds": 0, "joint": 64},
    "no squares: the paper's dual": {"expert_square": 0.0, "learner_square": 0.0},
    "weak square on demonstrations (0.5)": {"expert_square": 0.5},
    "no absorbing state": {"moments": "normalised"},
    "absorbing state as dear as the worst living one": {"absorbing_quantile": 1.0},
    "no arsinh": {"squash": False},
    "long bootstrap (200k)": {"bootstrap_steps": 200_704},
    "slow dual (30 minibatches)": {"minibatches": 30},
    "replay drawn evenly": {"replay_by_cost": False},
    "no replay": {"replay_share": 0.0},
    "one critic": {"critics": "single"},
    "learning rate not adapted to the KL": {"lr_adaptive": False},
    "cost of the state acted in, not reached": {"at": "current"},
    "auto-encoder pre-training (20 epochs)": {"pretrain_epochs": 20},
    "entropy weight 1e-5 instead of 1e-4": {"beta": 1e-5},
    "entropy weight 1e-3": {"beta": 1e-3},
    "entropy weight 1e-2": {"beta": 1e-2},
}


def jobs(seeds: list[int], quick: bool = False) -> list[Job]:
    """One run a change, robot and seed."""
    from tacit.sweep import Job

    return [
        Job(
            "mce",
            f"tacit/{robot}-v0",
            seed=seed,
            preset="reference",
            settings={**(QUICK if quick else compare.SHORT), **change},
            label=f"{robot}: {name}",
        )
        for seed in seeds
        for name, change in CHANGES.items()
        for robot in ROBOTS
    ]


def table(results: dict[str, Any]) -> str:
    parts = []
    for robot in ROBOTS:
        labels = [f"{robot}: {name}" for name in CHANGES]
        parts.append(deep_runs.table(results, labels, {}, ""))
    return "\n".join(parts)


def figure(results: dict[str, Any]) -> bytes:
    """Terminated return over that of the demonstrations, and violating episodes: a dot a seed."""
    import numpy as np

    from tacit.plots import COLOURS, new_figure, render, style

    with style():
        drawing = new_figure(11.0, 0.36 * len(CHANGES) + 1.4)
        panels = drawing.subplots(1, 2, sharey=True)
        for shift, robot in enumerate(ROBOTS):
            for row, name in enumerate(CHANGES):
                runs = [run for run in results["runs"] if run["label"] == f"{robot}: {name}"]
                place = np.full(len(runs), row + 0.22 * (shift - 1))
                ratio = [run["stochastic"]["terminated_return"] / (shown(run) or np.nan) for run in runs]
                broken = [100 * run["stochastic"]["violation_rate_episode"] for run in runs]
                label = robot if row == 0 else None
                panels[0].plot(ratio, place, "o", color=COLOURS[shift], markersize=4, label=label)
                panels[1].plot(broken, place, "o", color=COLOURS[shift], markersize=4)
        panels[0].set_yticks(range(len(CHANGES)), list(CHANGES))
        panels[0].invert_yaxis()
        panels[0].set_xlabel("terminated return over the demonstrations'")
        panels[1].set_xlabel("violating episodes, %")
        panels[0].legend(loc="lower left")
        drawing.tight_layout()
        return render(drawing, "png", tight=False)
