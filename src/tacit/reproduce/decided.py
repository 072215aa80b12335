"""Experiment `shapes`: how well a cost and its rule mark what can be known, as scores on decided cells.

Nobody can say where a rule ends between the demonstrations and what agents try. So the plane of the true rule is cut
into cells, and only those count that are *decided*:

    forbidden   an agent that follows the reward alone goes there and violates
    allowed     some of 1,000 fresh demonstrations go there, and no such agent violates there

The rest is reported as an area: `open` is the share of all cells that are not decided, and `identifiable` the share of
the truly forbidden ones that are, which is the ceiling of any map. Returns are compared as (R - random) / (oracle -
random), where the oracle is the scripted expert, which knows the rule.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from tacit.cost import LearnedCost, load_cost, quality
from tacit.demos import Demonstrations
from tacit.demos.collect import scripted_demonstrations
from tacit.envs.capabilities import capabilities
from tacit.envs.options import scripted_expert
from tacit.envs.registry import make_vec
from tacit.evaluate import evaluate
from tacit.explain.rules import Clause, Rule
from tacit.reproduce import records, tables
from tacit.reproduce.columns import header, line
from tacit.reproduce.experiment import Experiment, Group, Row, rows_of
from tacit.reproduce.records import groups_in, runs_of
from tacit.reproduce.results import Record, Results
from tacit.run import Run, storage
from tacit.sweep import Job

Array = NDArray[Any]
Flags = NDArray[np.bool_]
CELLS = 40
"""Cells along each axis of the rule's plane."""
FRESH, FRESH_SEED, RANDOM_EPISODES = 1000, 10_000, 200


class Yardstick(NamedTuple):
    """What runs on one task are measured against."""

    fresh: Demonstrations
    columns: tuple[int, ...]
    """Columns of an observation that the true rule reads."""
    random_return: float
    oracle_return: float
    predicate: Callable[[Array], Flags]


def collect(job: Job, run: Run) -> Record:
    """The numbers of the run, its normalised return, and scores of its cost on decided cells."""
    record = records.collect(job, run)
    yardstick = yardstick_of(run.config["env"], json.dumps(run.config["env_kwargs"], sort_keys=True))
    if yardstick is None:
        return record
    gained = record["stochastic"]["return"] - yardstick.random_return
    record["normalised_return"] = gained / (yardstick.oracle_return - yardstick.random_return)
    record["decided"] = scores(run, yardstick)
    return record


@lru_cache
def yardstick_of(env_id: str, options: str) -> Yardstick | None:
    """The yardstick of an environment with these options (JSON); None without a scripted expert and a rule."""
    kwargs = json.loads(options)
    env = make_vec(env_id, RANDOM_EPISODES, **kwargs)
    try:
        rule, space = capabilities(env).rule, env.single_action_space
        if rule is None or rule.predicate is None or scripted_expert(env_id, kwargs) is None:
            return None
        assert isinstance(space, Box), "scripted experts act in boxes"
        low, high, shape = space.low, space.high, space.shape
        episodes = evaluate(
            env, lambda obs, rng: rng.uniform(low, high, (len(obs), *shape)), RANDOM_EPISODES, seed=FRESH_SEED
        )
    finally:
        env.close()
    fresh = scripted_demonstrations(env_id, kwargs, FRESH, FRESH_SEED)
    both = np.concatenate([fresh.observations, np.random.default_rng(0).permuted(fresh.observations, axis=0)])
    columns = read_by(rule.predicate, both)
    return Yardstick(fresh, columns, float(episodes.returns.mean()), float(fresh.returns.mean()), rule.predicate)


def read_by(predicate: Callable[[Array], Flags], obs: Array) -> tuple[int, ...]:
    """The columns of observations (n, d) on which a rule depends: exchanging their entries changes its answer."""
    rng, usual = np.random.default_rng(0), predicate(obs)
    columns = []
    for column in range(obs.shape[1]):
        shuffled = obs.copy()
        shuffled[:, column] = rng.permutation(obs[:, column])
        if (predicate(shuffled) != usual).any():
            columns.append(column)
    return tuple(columns)


def scores(run: Run, yardstick: Yardstick) -> dict[str, float | None] | None:
    """{"auroc", "iou", "rule_precision", "rule_recall", "open", "identifiable"}; None for a run without a cost.

    Rules of more than two inputs have no plane, and get None, too.
    """
    file = run.path / "samples.safetensors"
    if not file.exists() or len(yardstick.columns) > 2:
        return None
    cost = load_cost(run)
    if not isinstance(cost, LearnedCost) or cost.threshold is None:
        return None
    arrays = storage.load_arrays(file)[0]
    seekers = arrays["nominal"][arrays["nominal_truth"] > 0]
    after = yardstick.fresh.rows_before + 1
    actions = yardstick.fresh.actions if cost.inputs.reads_actions else None
    fresh = cost.inputs.rows(yardstick.fresh.observations[after], actions)
    rows = np.concatenate([seekers[:, : fresh.shape[1]], fresh])
    cell_of, centres = _cells(rows, yardstick)
    forbidden = np.zeros(len(centres), bool)
    visited = np.zeros(len(centres), bool)
    forbidden[cell_of[: len(seekers)]] = True
    visited[cell_of[len(seekers) :]] = True
    decided = forbidden ^ visited  # cells with both lie on the edge
    explanation = run.read("explanation.json")
    rule = Rule(tuple(map(Clause.from_json, explanation["clauses"])))
    columns = dict(zip(cost.inputs.names, cost.inputs.columns, strict=True))
    mean_cost, said = (_mean(cell_of, x, len(centres)) for x in (cost.of_rows(rows), rule.holds(rows, columns)))
    detected = quality.detection(mean_cost[decided], forbidden[decided], cost.threshold)
    said_cells, right = said[decided] > 0.5, forbidden[decided]
    true_cells = yardstick.predicate(centres)
    return {
        "auroc": detected.get("auroc"),
        "iou": detected.get("iou"),
        "rule_precision": float(right[said_cells].mean()) if said_cells.any() else 0.0,
        "rule_recall": float(said_cells[right].mean()) if right.any() else None,
        "open": float(1.0 - decided.mean()),
        "identifiable": float((forbidden & true_cells).sum() / max(1, true_cells.sum())),
    }


def _cells(rows: Array, yardstick: Yardstick) -> tuple[NDArray[np.intp], Array]:
    """(cell of each row, an observation in the middle of each cell)."""
    columns = list(yardstick.columns)
    low, high = rows[:, columns].min(axis=0), rows[:, columns].max(axis=0)
    width = np.where(high > low, high - low, 1.0) / CELLS
    at = np.clip(((rows[:, columns] - low) / width).astype(np.intp), 0, CELLS - 1)
    shape = (CELLS,) * len(columns)
    numbers = np.indices(shape).reshape(len(columns), -1).T
    centres = np.tile(np.median(yardstick.fresh.observations, axis=0), (len(numbers), 1))
    centres[:, columns] = low + (numbers + 0.5) * width
    return np.ravel_multi_index(tuple(at.T), shape), centres


def _mean(cell_of: NDArray[np.intp], values: Array, cells: int) -> Array:
    """(cells,) mean of the values in each cell; 0 where there are none."""
    return np.bincount(cell_of, values, cells) / np.bincount(cell_of, minlength=cells).clip(1)


SCORES: Mapping[str, str] = {
    "auroc": "AUROC",
    "iou": "IoU",
    "rule_precision": "rule: precision",
    "rule_recall": "rule: recall",
    "identifiable": "identifiable",
    "open": "open",
}


def table(experiment: Experiment, results: Results) -> str:
    """The comparison, and the scores of every cost on decided cells."""
    parts = header(["", "", "seeds", "normalised return", *SCORES.values()])
    for group in groups_in(results, list(experiment.groups)):
        for row in experiment.rows:
            runs = [run for run in runs_of(results, group, row) if "normalised_return" in run]
            if runs:
                judged = [scored for run in runs if (scored := run.get("decided"))]
                cells = [_range([one[key] for one in judged]) for key in SCORES]
                returns = _range([run["normalised_return"] for run in runs])
                parts.append(line([group, row, str(len(runs)), returns, *cells]))
    said = "**scores on decided cells**: mean (worst to best seed) at the learned threshold; see `reproduce/decided.py`"
    return "\n".join([tables.comparison(experiment, results), said, "", *parts, ""])


def _range(values: list[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    if not numbers:
        return "-"
    if len(numbers) == 1:
        return f"{numbers[0]:.2f}"
    return f"{np.mean(numbers):.2f} ({min(numbers):.2f} to {max(numbers):.2f})"


EXPERIMENT = Experiment(
    "hidden regions and relations: Nav, SlowZone and Reactor",
    {
        **{f"Nav, {shape}": Group("tacit/Nav-v0", {"shape": shape}) for shape in ("disc", "discs", "ell", "wall")},
        "SlowZone": Group("tacit/SlowZone-v0"),
        **{f"Reactor, {rule}": Group("tacit/Reactor-v0", {"rule": rule}) for rule in ("product", "ratio")},
    },
    {
        "mce": Row("mce", "reference"),
        "mce, thresholds": Row("mce", "thresholds"),
        **rows_of(("me-icrl", "bc", "box", "rcpo", "ppo")),
    },
    seeds=(0, 1, 2, 3, 4),
    collect=collect,
    table=table,
)
