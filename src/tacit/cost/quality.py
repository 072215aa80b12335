"""How good a learned cost is: can it tell the truth from what is allowed, and does it leave demonstrations alone?

A cost is a detector of truly constrained states. How good a detector depends on the states that it is asked about, so
there are several distributions of them, each for what it says:

    learner     what the last policy does, its last forward phases. Often nothing there violates: then the share of
                false alarms is all that can be said
    nominal     what an agent does that follows the reward alone, at the beginning of its training: what a cost is for
    tried       what the learner tried, from the nominal agent on; of a finished run, about as many steps of that agent
                as of all later phases
    perturbed   demonstrated states, every entry shaken by a Gaussian as wide as what demonstrators and nominal agent
                do: states in which the entries say nothing about each other, so that a cost which looks at the wrong
                one is found out
    uniform     every state that can be reached, once; only where they are finitely many

The first three are labelled by the environment's own cost of those steps, the last two by the rule that the environment
states (`capabilities(env).rule`) or by its map of cells. What has no label is left out. The threshold is that of
`tacit calibrate`, or without one `calibration.usual_threshold`, which `tacit explain` uses too.
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
from tacit.cost.calibration import rejected, usual_threshold
from tacit.envs.capabilities import capabilities
from tacit.errors import UserError
from tacit.run import storage

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from tacit.demos import Demonstrations
    from tacit.policy import Interface
    from tacit.run import Run

Array = NDArray[Any]
LAST_PHASES = 3
"""Forward phases that stand for the last policy: one is noisy, and many are of another policy."""
SHAKEN = 8192
"""Perturbed states."""
NAMES, NONE = ("cost", "map"), np.zeros(0, np.float32)


@dataclass(frozen=True)
class States:
    """States (or steps) with the truth about them."""

    rows: Array
    """(n, width) [observation | action] as the cost reads it."""
    violates: NDArray[np.bool_]
    """(n,)"""
    unknown: NDArray[np.bool_] | None = None
    """(n,) which lie in the band between the outermost demonstration and the wall: allowed, but nobody can know."""


def detection(
    values: ArrayLike, labels: ArrayLike, threshold: float, unknown: NDArray[np.bool_] | None = None
) -> dict[str, float]:
    """{"auroc", "auprc", "iou" at the threshold, "best_iou", "false_alarms", "missed", "constrained", "n"}.

    values (n,) are costs, labels (n,) booleans. What is not defined, such as an AUROC without a constrained state, is
    not there. "false_alarms" is the share of allowed states above the threshold, "missed" that of constrained ones
    below. As in `evaluate.cost_quality` a state without cost is never marked. "auroc_outside" leaves out what is
    `unknown` (n,), if that is given.
    """
    costs, truth = np.asarray(values, dtype=np.float64), np.asarray(labels)
    marked = costs > threshold
    outside = np.ones(len(truth), bool) if unknown is None else ~unknown
    found = {
        "auroc": stats.auroc(costs, truth),
        "auprc": stats.auprc(costs, truth),
        "iou": stats.iou_at(costs, truth, threshold),
        "best_iou": stats.best_iou(costs, truth, floor=0.0)[0],
        "false_alarms": float(marked[~truth].mean()) if not truth.all() else math.nan,
        "missed": float((~marked[truth]).mean()) if truth.any() else math.nan,
        "constrained": float(truth.mean()),
        "auroc_outside": math.nan if unknown is None else stats.auroc(costs[outside], truth[outside]),
    }
    return {name: value for name, value in found.items() if not math.isnan(value)} | {"n": len(truth)}


def threshold_of(cost: LearnedCost, expert: Array, lengths: Array, tried: Array) -> tuple[float, bool]:
    """(threshold, whether it was calibrated), from rows of what the learner tried and of the demonstrations, whose
    trajectories have these lengths."""
    if cost.threshold is not None:
        return float(cost.threshold), True
    starts = np.cumsum(lengths) - lengths
    scores = np.maximum.reduceat(cost.of_rows(expert), starts)
    return usual_threshold(scores, float(cost.of_rows(tried).max())), False


def judge(
    cost: LearnedCost,
    on: Mapping[str, States],
    threshold: float,
    calibrated: bool = False,
    held: Demonstrations | None = None,
) -> dict[str, Any]:
    """{"threshold", "calibrated", "on": {distribution: `detection`}, "rejected"}, ready for JSON.

    "rejected" says how many of the demonstrations `held` out of learning the threshold rejects, with a Clopper-Pearson
    interval: {"trajectories": {"value", "low", "high", "n"}, "steps": share}. Without any it is missing.
    """
    found: dict[str, Any] = {
        "threshold": threshold,
        "calibrated": calibrated,
        "on": {
            name: detection(cost.of_rows(part.rows), part.violates, threshold, part.unknown)
            for name, part in on.items()
        },
    }
    return found if held is None else found | {"rejected": rejected(cost, threshold, held)}


# ---------------------------------------------------------------------------------------------------------------------
# Distributions


def known(rows: Array, truth: Array) -> States | None:
    """Steps with the environment's own cost `truth` (n,); None if it is not known of all of them."""
    return States(rows, truth > 0) if len(rows) and np.isfinite(truth).all() else None


def rule_of(env: VectorEnv) -> Callable[[Array], NDArray[np.bool_]] | None:
    """observations (n, obs_size) -> (n,) which break the rule that the environment states; None if it states none."""
    rule = capabilities(env).rule
    return None if rule is None else rule.violated


def band_of(env: VectorEnv, lowest: Array, highest: Array) -> Callable[[Array], NDArray[np.bool_]] | None:
    """rows (n, width) -> (n,) which lie between the wall and the demonstrations, whose entries reach from `lowest` to
    `highest` (width,), none if those go beyond it; None where the environment's rule is not a wall on one feature."""
    rule = capabilities(env).rule
    if rule is None or rule.predicate is not None or rule.column is None:
        return None
    at, wall = rule.column, rule.bound
    if rule.relation[0] == "<":
        low, high = wall, max(wall, float(lowest[at]))
    else:
        low, high = min(wall, float(highest[at])), wall
    return lambda rows: (rows[:, at] > low) & (rows[:, at] < high)


def perturbed(env: VectorEnv, cost: LearnedCost, expert: Array, nominal: Array, seed: int) -> States | None:
    """Demonstrated states shaken; actions, if the cost reads them, stay as they are."""
    rule = rule_of(env)
    if rule is None:
        return None
    rng, size = np.random.default_rng([seed, 13]), cost.inputs.obs_size
    rows = expert[rng.integers(len(expert), size=SHAKEN)].copy()
    both = np.concatenate([expert, nominal])[:, :size]
    rows[:, :size] += both.std(axis=0) * rng.standard_normal((SHAKEN, size)).astype(np.float32)
    return States(rows, rule(rows[:, :size]))


def uniform(env: VectorEnv, cost: LearnedCost, face: Interface) -> States | None:
    """Every reachable state of an exact model; None without one, and for a cost that reads actions."""
    grid = capabilities(env).model
    if grid is None or cost.reads_actions:
        return None
    from tacit.evaluate import reachable_states

    obs = np.arange(grid.n_states) if face.n_states else grid.cells.astype(np.float32)
    there = reachable_states(grid.model())
    return States(cost.inputs.rows(face.encode(obs)[there]), np.asarray(grid.constrained, dtype=bool)[there])


def distributions(
    env: VectorEnv,
    cost: LearnedCost,
    face: Interface,
    *,
    expert: Array,
    nominal: tuple[Array, Array],
    learner: tuple[Array, Array],
    tried: tuple[Array, Array],
    seed: int,
    shown: tuple[Array, Array] | None = None,
) -> dict[str, States]:
    """Those that can be had; `nominal`, `learner` and `tried` are (rows, truth). `shown` are the least and the largest
    entries (width,) of the demonstrations, if `expert` has only some of them."""
    found = {
        "learner": known(*learner),
        "nominal": known(*nominal),
        "tried": known(*tried),
        "perturbed": perturbed(env, cost, expert, nominal[0], seed),
        "uniform": uniform(env, cost, face),
    }
    band = band_of(env, *(shown or (expert.min(axis=0), expert.max(axis=0))))
    return {
        name: states if band is None else replace(states, unknown=band(states.rows))
        for name, states in found.items()
        if states is not None
    }


# ---------------------------------------------------------------------------------------------------------------------
# Finished runs


def of_run(run: Run) -> dict[str, Any]:
    """{"cost" | "map": `judge`} of a finished deep run again, from the samples that it kept and with its present
    thresholds, which `tacit calibrate` changes. {} for a run without samples.

    Demonstrations that a threshold was calibrated with are no longer held out of it.
    """
    from tacit.cost.calibration import held_out, scores
    from tacit.forward.collect import interface_of, make_vec

    file = run.path / "samples.safetensors"
    if not file.exists():
        return {}
    arrays = storage.load_arrays(file)[0]
    costs = {name: load_cost(run, name) for name in NAMES if (run.path / "model" / f"{name}.safetensors").exists()}
    tried = np.concatenate([arrays[name] for name in ("nominal", "history")])
    try:
        held: Demonstrations | None = held_out(run)
    except UserError:  # it has learned from all of them
        held = None
    recorded = run.read("summary.json").get("detection") or {}
    env = make_vec(run.config["env"], 1, **run.config["env_kwargs"])
    try:
        face, found = interface_of(env), {}
        for name, cost in costs.items():
            if not isinstance(cost, LearnedCost):
                continue
            level = cost.threshold if cost.threshold is not None else recorded.get(name, {}).get("threshold")
            if level is None:
                level = usual_threshold(scores(cost, run.learned_from()), float(cost.of_rows(tried).max()))
            nominal, learner, history = (
                (arrays[part], arrays.get(f"{part}_truth", NONE)) for part in ("nominal", "learner", "history")
            )
            both = tuple(np.concatenate(pair) for pair in zip(nominal, history, strict=True))
            on = distributions(
                env,
                cost,
                face,
                expert=arrays["expert"],
                nominal=nominal,
                learner=learner if len(learner[0]) == len(learner[1]) else (learner[0][:0], NONE),
                tried=(both[0], both[1]) if len(both[0]) == len(both[1]) else (both[0][:0], NONE),
                seed=run.config["seed"],
                shown=(arrays["expert_range"][0], arrays["expert_range"][1]) if "expert_range" in arrays else None,
            )
            used = held is not None and (cost.card.get("calibration") or {}).get("sha256") == held.sha256
            found[name] = judge(cost, on, float(level), cost.threshold is not None, None if used else held)
    finally:
        env.close()
    return found
