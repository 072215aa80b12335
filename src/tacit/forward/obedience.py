"""Does a fresh agent keep to a frozen cost, and go where no demonstrator goes? Both can be told without the truth.

    above         share of its episodes with a step that the cost forbids, beside that of the demonstrations
    unknown       share of its steps that lie well outside of everything that the run of the cost has seen
    joint test    does it go where reward draws agents and no demonstrator goes? (`tacit.cost.avoided`)

The joint test needs demonstrations of the same task, and steps of agents without constraint, which the run folder of
the cost has. In a changed task only the first two say something.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.cost import LearnedCost
from tacit.cost.avoided import joint_test
from tacit.cost.calibration import scores, step_costs
from tacit.cost.table import TableCost
from tacit.demos import Demonstrations, collect
from tacit.envs.fitted_cost import Judge, Limits, seen_of
from tacit.evaluate import copies_for
from tacit.forward.collect import make_vec, names_of
from tacit.policy import Policy
from tacit.run.summary import Obedience, Summary
from tacit.stats import clopper_pearson

Array = NDArray[Any]
OTHER_EPISODES = 20_000
"""Added to the seed, so that these are not the episodes of the evaluation."""


def obedience(
    env_id: str,
    env_kwargs: dict[str, Any],
    policy: Policy,
    cost: LearnedCost | TableCost,
    threshold: float,
    seen: Limits,
    demos: Demonstrations | None,
    seekers: Array | None,
    episodes: int,
    seed: int,
) -> Summary:
    """The entries "obedience" and, if it can be made, "joint_test" of a summary, from fresh episodes of the policy.

    seen: {input: (low, high)} beyond which a step is unknown. demos: demonstrations of the same task. seekers: rows of
    agents without constraint, in the layout of the cost's inputs.
    """
    with closing(make_vec(env_id, copies_for(episodes), **env_kwargs)) as env:
        made = collect(env, policy, episodes, seed=seed + OTHER_EPISODES)
        names = _names(env, policy)
    answer: Obedience = {
        "above": _rate(scores(cost, made) > threshold),
        "steps": float((step_costs(cost, made) > threshold).mean()),
        "unknown": _unknown(cost, made, seen),
        "threshold": threshold,
    }
    if demos is not None:
        answer["demonstrations"] = _rate(scores(cost, demos) > threshold)
    summary: Summary = {"obedience": answer}
    if demos is None or seekers is None or isinstance(cost, TableCost) or not names:
        return summary
    inputs = cost.inputs
    chosen = list(inputs.columns) if inputs.derived else list(range(len(names)))
    names = list(inputs.names) if inputs.derived else names
    theirs, ours = (_trajectories(cost, one, chosen) for one in (demos, made))
    test = joint_test(theirs, ours, names, seekers[:, chosen])
    return summary if test is None else {**summary, "joint_test": test}


def _names(env: VectorEnv, policy: Policy) -> list[str]:
    """Names of the entries of an observation; none for numbered states."""
    return [] if policy.interface.n_states else list(names_of(env, policy.interface))


def _rate(hit: Array) -> dict[str, Any]:
    rate = clopper_pearson(int(hit.sum()), len(hit))
    return {**rate._asdict(), "n": len(hit)}


def _unknown(cost: LearnedCost | TableCost, made: Demonstrations, seen: Limits) -> float:
    if isinstance(cost, TableCost) or not seen:
        return 0.0
    rows = made.rows_before + (1 if cost.at == "next" else 0)
    judgement = Judge(cost, seen_of(cost, seen)).judge(made.observations[rows], made.actions)
    return float(judgement.unknown.mean())


def _trajectories(cost: LearnedCost, demos: Demonstrations, columns: list[int]) -> list[Array]:
    """(steps, columns) of each trajectory."""
    rows = cost.inputs.rows(demos.observations[demos.rows_before + (1 if cost.at == "next" else 0)], demos.actions)
    return np.split(rows[:, columns], demos.step_offsets[1:])
