"""An ensemble of constraint maps: how much the map depends on the sample of demonstrations.

Each member is the map of `constraint_map` for as many trajectories as the run has, drawn with replacement, against the
learner's states that the run kept. Its threshold is the value that nine in ten of its own demonstrations stay below. It
works from the run folder of any method that keeps samples there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.cost import LearnedCost, load_cost
from tacit.cost.calibration import usual_threshold
from tacit.cost.ensemble import MOST_MEMBERS, CostEnsemble
from tacit.errors import UserError
from tacit.inverse import constraint_map
from tacit.run import storage
from tacit.run.terminal import live

if TYPE_CHECKING:
    from tacit.run import Run

Array = NDArray[Any]


def fit_ensemble(run: Run, members: int, seed: int = 0) -> CostEnsemble:
    """Fit an ensemble to the samples of a finished run."""
    if not 2 <= members <= MOST_MEMBERS:
        raise UserError(f"an ensemble has 2 to {MOST_MEMBERS} members, not {members}")
    cost = load_cost(run)
    file = run.path / "samples.safetensors"
    if not isinstance(cost, LearnedCost) or not file.exists():
        raise UserError(f"{run.path} has no samples to fit an ensemble to; only deep runs have them")
    kept = storage.load_arrays(file)[0]
    learner = np.concatenate([kept["nominal"], kept.get("history", kept["learner"])])
    costs = cost.of_rows(learner)
    trajectories = demonstrated_rows(run, cost)
    settings = run.config["config"]
    fitted = []
    with live("ensemble", total=members) as update:
        for b in range(members):
            rng = np.random.default_rng([seed, 13, b])
            chosen = [trajectories[i] for i in rng.integers(len(trajectories), size=len(trajectories))]
            member = constraint_map.fit_rows(
                cost.inputs,
                np.concatenate(chosen),
                learner,
                costs,
                rng,
                at=cost.at,
                expert_square=settings.get("expert_square", 0.0),
                learner_square=settings.get("learner_square", 0.0),
            )
            scores = np.array([member.of_rows(rows).max() for rows in chosen])
            level = usual_threshold(scores, float(member.of_rows(learner).max()))
            fitted.append(replace(member, threshold=level))
            update(f"threshold {level:.3g}")
    about = {key: cost.card[key] for key in ("env", "env_kwargs", "demonstrations", "run") if key in cost.card}
    return CostEnsemble(tuple(fitted), {**about, "members": members, "seed": seed})


def demonstrated_rows(run: Run, cost: LearnedCost) -> list[Array]:
    """[observation | action] rows of each demonstration that the run learned from."""
    demos = run.learned_from()
    rows = cost.inputs.rows(
        demos.observations[demos.rows_before + (1 if cost.at == "next" else 0)],
        demos.actions if cost.inputs.act_size else None,
    )
    return np.split(rows, demos.step_offsets[1:])
