"""The summary of a finished deep run: behaviour of the last policy, quality of the cost, boundaries of the map.

The true cost of the environment is read here for the first time: for judging, never for learning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from tacit.cost import LearnedCost, quality
from tacit.cost.avoided import joint_test
from tacit.cost.bounds import BOUNDARY, Bound, boundaries, threshold_error
from tacit.demos import collect
from tacit.envs.capabilities import Rule, capabilities
from tacit.evaluate import demonstrated, evaluations
from tacit.forward.collect import names_of
from tacit.inverse import samples
from tacit.run import storage
from tacit.run.summary import Boundary, JointTest, Summary, Threshold

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.demos import Demonstrations
    from tacit.inverse.state import State
    from tacit.inverse.trainer import Method
    from tacit.run import Run


def judge(
    method: Method,
    env: VectorEnv,
    demos: Demonstrations,
    config: Any,
    state: State,
    expert: samples.Expert,
    cost: LearnedCost,
    cost_map: LearnedCost,
    seed: int,
    held: Demonstrations | None = None,
) -> Summary:
    """Evaluate the last policy, judge cost and map (the same if there is no map), and read the map's boundaries."""
    table = evaluations(env, method.policy_of(state), config.eval_episodes, seed, config.gamma)
    rows = np.concatenate([state.nominal, state.replay.reshape(-1, state.replay.shape[-1])])
    truth = np.concatenate([state.nominal_truth, state.replay_truth.reshape(-1)])
    bounds = boundaries(cost_map, expert.rows, rows, method.ceiling(config, cost, rows))
    summary: Summary = {
        "table": {
            "demonstrations": demonstrated(demos, config.gamma),
            "learned": table["stochastic"],
            "learned, deterministic": table["deterministic"],
        },
        "demonstrations": demos.summary(),
        "boundaries": [cast(Boundary, bound.to_json(BOUNDARY)) for bound in bounds[:5]],
    }
    costs = {"cost": cost} if cost_map is cost else {"cost": cost, "map": cost_map}
    levels = {name: quality.threshold_of(one, expert.rows, expert.lengths, rows) for name, one in costs.items()}
    if np.isfinite(truth).all() and 0 < (truth > 0).mean() < 1:
        scores = {n: quality.detection(c.of_rows(rows), truth > 0, levels[n][0]) for n, c in costs.items()}
        main = scores.get("map", scores["cost"])
        summary["cost_quality"] = {key: main[key] for key in ("auroc", "auprc", "iou", "best_iou")}
        summary["cost_quality"]["auroc_cost"] = scores["cost"]["auroc"]
    last = slice(-quality.LAST_PHASES, None)
    on = quality.distributions(
        env,
        cost,
        method.policy_of(state).interface,
        expert=expert.rows,
        nominal=(state.nominal, state.nominal_truth),
        learner=(state.replay[last].reshape(-1, rows.shape[1]), state.replay_truth[last].reshape(-1)),
        tried=(rows, truth),
        seed=seed,
    )
    summary["detection"] = {name: quality.judge(one, on, *levels[name], held) for name, one in costs.items()}
    agents = cost.of_rows(state.nominal)
    summary["agents_cost"], above = float(agents.mean()), agents > levels["cost"][0]
    if above.any():
        seen = expert.rows[:, : state.inputs.obs_size]
        tried = state.nominal[above, : state.inputs.obs_size]
        summary["outside"] = float(((tried < seen.min(axis=0)) | (tried > seen.max(axis=0))).any(axis=1).mean())
    if cost.terms:
        summary["read"] = sorted({name for term in cost.terms for name in term.names})
    if (joint := _joint_test(method, env, config, state, expert, seed)) is not None:
        summary["joint_test"] = joint
    summary |= cast(Summary, method.details(env, config, state, cost))
    rule = capabilities(env).rule
    if rule is not None and rule.is_bound:
        summary["threshold"] = _threshold(bounds, rule)
    return summary


def _joint_test(
    method: Method, env: VectorEnv, config: Any, state: State, expert: samples.Expert, seed: int
) -> JointTest | None:
    """The joint test of fresh episodes on the whole observation, whatever the cost reads. Objects in slots have no
    order, so distances take the place of their entries."""
    policy, inputs = method.policy_of(state), state.inputs
    episodes = collect(env, policy, config.eval_episodes, seed=seed + 20_000)
    learner = samples.of_demonstrations(episodes, policy.interface, inputs, config.at, expert.horizon)
    names = (*names_of(env, policy.interface), *(one.name for one in inputs.derived))
    chosen = inputs.columns if inputs.derived else range(inputs.obs_size)
    columns = [column for column in chosen if column < inputs.first_action]

    def trajectories(of: samples.Expert) -> list[NDArray[Any]]:
        return np.split(of.rows[:, columns], np.cumsum(of.lengths)[:-1])

    seekers = state.nominal[:, columns]
    return joint_test(trajectories(expert), trajectories(learner), [names[column] for column in columns], seekers)


def _threshold(bounds: list[Bound], truth: Rule) -> Threshold:
    """The map's bound on the side of the true one, and its distance from where it could be."""
    nearest = next((b for b in bounds if b.side == truth.side), None)
    if nearest is None or nearest.demonstrated is None:
        return {"truth": str(truth), "found": None}
    return {
        "truth": str(truth),
        "found": str(nearest),
        "demonstrated": nearest.demonstrated,
        "error": threshold_error(nearest, truth.value),
    }


def save_samples(run: Run, state: State, expert: samples.Expert, rows: int = 4000) -> None:
    """Save a few thousand of the compared states and their true costs, for pictures and rules."""

    def thinned(array: NDArray[Any]) -> NDArray[Any]:
        return array[:: max(1, -(-len(array) // rows))].astype(np.float32)

    # In a short run, the first phases came before any constraint and do not show what the learner does now.
    phases = min(10, max(1, len(state.replay) // 2))
    last = state.replay[-phases:].reshape(-1, state.replay.shape[-1])
    # All phases count, because a capable but not yet constrained policy says most about a constraint.
    history, truth = state.replay.reshape(-1, state.replay.shape[-1]), state.replay_truth.reshape(-1)
    names = {"nominal": state.nominal, "learner": last, "history": history, "expert": expert.rows}
    names |= {"nominal_truth": state.nominal_truth, "history_truth": truth}
    names |= {"learner_truth": state.replay_truth[-phases:].reshape(-1)}
    arrays = {name: thinned(array) for name, array in names.items()}
    # Thinned rows miss the extremes, which are the evidence about a boundary.
    arrays["expert_range"] = np.stack([expert.rows.min(axis=0), expert.rows.max(axis=0)]).astype(np.float32)
    storage.save_arrays(run.path / "samples.safetensors", arrays, {"names": list(state.inputs.names)})
