"""How good a learned cost is: does it mark what is truly forbidden, and does it accept demonstrations?

A cost is a detector of truly constrained states. How good a detector depends on the states that it is asked about, so
it is judged on several distributions:

    learner     states of the last policy, from its last forward phases. Often none of them violates; then only the
                share of false alarms is defined
    nominal     states of an agent that follows the reward alone, at the beginning of its training: what a cost is for
    tried       all states that the learner tried, from the nominal agent on; of a finished run, about as many steps of
                that agent as of all later phases
    perturbed   demonstrated states with Gaussian noise on every entry, as wide as the spread of demonstrators and
                nominal agent. Entries are then independent, which exposes a cost that reads the wrong one
    uniform     every reachable state once; only where there are finitely many

The first three are labelled by the environment's own cost of those steps, the last two by the rule that the environment
states (`capabilities(env).rule`) or by its map of cells. States without a label are left out. The threshold is that
of `tacit calibrate`, or without one `calibration.usual_threshold`, which `tacit explain` uses too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit import stats
from tacit.cost import LearnedCost, load_cost
from tacit.cost.calibration import rejected, scores, usual_threshold
from tacit.cost.card import saved_costs
from tacit.cost.table import TableCost
from tacit.envs.capabilities import capabilities
from tacit.envs.registry import make_vec
from tacit.errors import UserError
from tacit.evaluate import reachable_states
from tacit.policy import Interface
from tacit.run import storage
from tacit.run.summary import Detection, Summary

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.demos import Demonstrations
    from tacit.run import Run

Array = NDArray[Any]
LAST_PHASES = 3
"""Forward phases that stand for the last policy: one is noisy, many would include earlier policies."""
SHAKEN = 8192
"""Number of perturbed states."""
NONE = np.zeros(0, np.float32)


@dataclass(frozen=True)
class States:
    """States (or steps) with their true labels."""

    rows: Array
    """(n, width) [observation | action] as the cost reads it."""
    violates: NDArray[np.bool_]
    """(n,) whether the true constraint is violated."""
    unknown: NDArray[np.bool_] | None = None
    """(n,) which lie between the outermost demonstration and the true limit: allowed, but the data cannot tell."""


def detection(
    values: ArrayLike, labels: ArrayLike, threshold: float, unknown: NDArray[np.bool_] | None = None
) -> dict[str, float]:
    """{"auroc", "auprc", "iou" at the threshold, "best_iou", "false_alarms", "missed", "constrained", "n"}.

    values (n,) are costs, labels (n,) booleans. Numbers that are not defined, such as an AUROC without a constrained
    state, are left out. "false_alarms" is the share of allowed states above the threshold, "missed" that of constrained
    ones below. As in `evaluate.cost_quality` a state without cost is never marked. "auroc_outside" leaves out the
    `unknown` (n,) states, if they are given.
    """
    costs, truth = np.asarray(values, dtype=np.float64), np.asarray(labels)
    marked = costs > threshold
    outside = np.ones(len(truth), bool) if unknown is None else ~unknown
    numbers = {
        "auroc": stats.auroc(costs, truth),
        "auprc": stats.auprc(costs, truth),
        "iou": stats.iou_at(costs, truth, threshold),
        "best_iou": stats.best_iou(costs, truth, floor=0.0)[0],
        "false_alarms": float(marked[~truth].mean()) if not truth.all() else math.nan,
        "missed": float((~marked[truth]).mean()) if truth.any() else math.nan,
        "constrained": float(truth.mean()),
        "auroc_outside": math.nan if unknown is None else stats.auroc(costs[outside], truth[outside]),
    }
    return {name: value for name, value in numbers.items() if not math.isnan(value)} | {"n": len(truth)}


def threshold_of(cost: LearnedCost, expert: Array, lengths: Array, tried: Array) -> tuple[float, bool]:
    """(threshold, whether it was calibrated).

    expert, tried: rows of the demonstrations, whose trajectories have these lengths, and of what the learner tried.
    """
    if cost.threshold is not None:
        return float(cost.threshold), calibrated(cost)
    starts = np.cumsum(lengths) - lengths
    highest = np.maximum.reduceat(cost.of_rows(expert), starts)
    return usual_threshold(highest, float(cost.of_rows(tried).max())), False


def calibrated(cost: LearnedCost | TableCost) -> bool:
    """Whether its threshold has a guarantee. The threshold that a sum of terms learns itself has none."""
    own = isinstance(cost, LearnedCost) and cost.is_sum
    return cost.threshold is not None and (not own or "calibration" in cost.card)


def judge(
    cost: LearnedCost,
    on: Mapping[str, States],
    threshold: float,
    calibrated: bool = False,
    held: Demonstrations | None = None,
) -> Detection:
    """A cost as a detector on several distributions, and what its threshold rejects of demonstrations `held` out."""
    judged: Detection = {
        "threshold": threshold,
        "calibrated": calibrated,
        "on": {
            name: detection(cost.of_rows(part.rows), part.violates, threshold, part.unknown)
            for name, part in on.items()
        },
    }
    if held is not None:
        judged["rejected"] = rejected(cost, threshold, held)
    return judged


# ---------------------------------------------------------------------------------------------------------------------
# Distributions


def labelled(rows: Array, truth: Array) -> States | None:
    """Steps with the environment's own cost `truth` (n,); None if it does not report it for all of them."""
    return States(rows, truth > 0) if len(rows) and np.isfinite(truth).all() else None


def rule_of(env: VectorEnv) -> Callable[[Array], NDArray[np.bool_]] | None:
    """observations (n, obs_size) -> (n,) which break the rule that the environment states; None if it states none."""
    rule = capabilities(env).rule
    return None if rule is None else rule.violated


def band_of(env: VectorEnv, lowest: Array, highest: Array) -> Callable[[Array], NDArray[np.bool_]] | None:
    """rows (n, width) -> (n,) which lie between the true limit and the demonstrations.

    Entries of the demonstrations reach from `lowest` to `highest` (width,). If those go beyond the limit, no row lies
    in between. None where the environment's rule is not a bound on one feature.
    """
    rule = capabilities(env).rule
    if rule is None or rule.predicate is not None or rule.column is None:
        return None
    at, limit = rule.column, rule.value
    if rule.relation[0] == "<":
        low, high = limit, max(limit, float(lowest[at]))
    else:
        low, high = min(limit, float(highest[at])), limit
    return lambda rows: (rows[:, at] > low) & (rows[:, at] < high)


def perturbed(env: VectorEnv, cost: LearnedCost, expert: Array, nominal: Array, seed: int) -> States | None:
    """Demonstrated states with noise; actions, if the cost reads them, stay as they are."""
    rule = rule_of(env)
    if rule is None:
        return None
    rng, size = np.random.default_rng([seed, 13]), cost.inputs.obs_size
    rows = expert[rng.integers(len(expert), size=SHAKEN)].copy()
    both = np.concatenate([expert, nominal])[:, :size]
    rows[:, :size] += both.std(axis=0) * rng.standard_normal((SHAKEN, size)).astype(np.float32)
    rows[:, size : cost.inputs.first_action] = np.stack(
        [one.of_rows(rows[:, :size]) for one in cost.inputs.derived] or [np.zeros(SHAKEN)], axis=1
    )[:, : len(cost.inputs.derived)]
    return States(rows, rule(rows[:, :size]))


def uniform(env: VectorEnv, cost: LearnedCost, interface: Interface) -> States | None:
    """Every reachable state of an exact model; None without one, and for a cost that reads actions."""
    grid = capabilities(env).model
    if grid is None or cost.reads_actions:
        return None
    obs = np.arange(grid.n_states) if interface.n_states else grid.cells.astype(np.float32)
    there = reachable_states(grid.model())
    return States(cost.inputs.rows(interface.encode(obs)[there]), np.asarray(grid.constrained, dtype=bool)[there])


def distributions(
    env: VectorEnv,
    cost: LearnedCost,
    interface: Interface,
    *,
    expert: Array,
    nominal: tuple[Array, Array],
    learner: tuple[Array, Array],
    tried: tuple[Array, Array],
    seed: int,
    expert_range: tuple[Array, Array] | None = None,
) -> dict[str, States]:
    """The distributions that this environment can label; `nominal`, `learner` and `tried` are (rows, truth).

    `expert_range` are the least and the largest entries (width,) of all demonstrations, if `expert` is a sample.
    """
    parts = {
        "learner": labelled(*learner),
        "nominal": labelled(*nominal),
        "tried": labelled(*tried),
        "perturbed": perturbed(env, cost, expert, nominal[0], seed),
        "uniform": uniform(env, cost, interface),
    }
    band = band_of(env, *(expert_range or (expert.min(axis=0), expert.max(axis=0))))
    return {
        name: states if band is None else replace(states, unknown=band(states.rows))
        for name, states in parts.items()
        if states is not None
    }


# ---------------------------------------------------------------------------------------------------------------------
# Finished runs


def of_run(run: Run) -> dict[str, Detection]:
    """{"cost" | "map": `judge`} of a finished deep run, from its samples; {} for a run without any.

    Thresholds are those of today, which `tacit calibrate` changes. Demonstrations that a threshold was calibrated with
    do not count as held out of it.
    """
    file = run.path / "samples.safetensors"
    if not file.exists():
        return {}
    arrays = storage.load_arrays(file)[0]
    costs = {name: load_cost(run, name) for name in saved_costs(run)}
    tried = np.concatenate([arrays[name] for name in ("nominal", "history")])
    try:
        held: Demonstrations | None = run.held_out()
    except UserError:  # it has learned from all of them
        held = None
    summary: Summary = run.read("summary.json")
    recorded = summary.get("detection") or {}
    env = make_vec(run.config["env"], 1, **run.config["env_kwargs"])
    try:
        interface = Interface.of(env.single_observation_space, env.single_action_space)
        judged = {}
        for name, cost in costs.items():
            if not isinstance(cost, LearnedCost):
                continue
            level = cost.threshold
            if level is None and name in recorded:
                level = recorded[name].get("threshold")
            if level is None:
                level = usual_threshold(scores(cost, run.learned_from()), float(cost.of_rows(tried).max()))
            nominal, learner, history = (
                (arrays[part], arrays.get(f"{part}_truth", NONE)) for part in ("nominal", "learner", "history")
            )
            ends = arrays.get("expert_range")
            extremes = None if ends is None else (ends[0], ends[1])
            both = tuple(np.concatenate(pair) for pair in zip(nominal, history, strict=True))
            on = distributions(
                env,
                cost,
                interface,
                expert=arrays["expert"],
                nominal=nominal,
                learner=learner if len(learner[0]) == len(learner[1]) else (learner[0][:0], NONE),
                tried=(both[0], both[1]) if len(both[0]) == len(both[1]) else (both[0][:0], NONE),
                seed=run.config["seed"],
                expert_range=extremes,
            )
            used = held is not None and (cost.card.get("calibration") or {}).get("sha256") == held.sha256
            judged[name] = judge(cost, on, float(level), calibrated(cost), None if used else held)
    finally:
        env.close()
    return judged
