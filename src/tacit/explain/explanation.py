"""Explain a run: the learned cost as a rule, how much of the cost it says, and what the data leave open.

    explanation = explain(run)    # what explanation.json holds, see tacit.run.summary.Explanation
    print("\\n".join(in_words(explanation)))

States with a cost above the threshold are forbidden. The threshold is that of `tacit calibrate`. Without one it is the
value that nine in ten of the demonstrations stay below, which has no guarantee because they were learned from. Features
get a rule of bounds and regions (`rules`, `search`), cells of a gridworld get rectangles (`cells`). Where the
environment states the true constraint, precision and recall are measured against it. Nothing is fitted to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from tacit.cost import LearnedCost, load_cost
from tacit.cost.bounds import Bound
from tacit.cost.calibration import Cost, nominal_of_gridworld, scores, usual_threshold
from tacit.cost.ensemble import CostEnsemble, disagree
from tacit.cost.table import TableCost
from tacit.envs.options import exact_model
from tacit.errors import UserError
from tacit.explain import cells, rules, search
from tacit.explain.findings import true_bound
from tacit.explain.pictures import MOST_PICTURES, pictures_of
from tacit.explain.words import cells_sentence, in_words, rule_sentence
from tacit.plots.rules import cells as draw_cells
from tacit.run import disk, storage
from tacit.run.summary import (
    Alternative,
    CellExplanation,
    Confidence,
    Explanation,
    FeatureExplanation,
    Forbids,
    Summary,
    Truth,
)

if TYPE_CHECKING:
    from tacit.demos import Demonstrations
    from tacit.envs.gridworld import GridworldSpec
    from tacit.run import Run

__all__ = ["explain", "explain_if_possible", "in_words", "load_sample", "refresh_explanation", "save_explanation"]

Array = NDArray[Any]
RARE = 0.01
"""Share of the unconstrained agent's episodes below which a cell does not count as visited."""
AS_WELL = 0.2
"""Share of the rejected states that must lie beyond a bound for it to be a possible reason, too."""
HARDLY = 1e-3
"""Share of the demonstrated states that may lie beyond a bound that the cost marks."""
GRID = 2001
"""Number of values along a feature at which a cost is compared with its threshold."""
NOTE = "what the environment knows; nothing was fitted to it"
FORMATS: tuple[Literal["svg", "png"], ...] = ("svg", "png")


class _Level(TypedDict):
    """The threshold, and its guarantee if it was calibrated."""

    threshold: float
    guarantee: str | None


def explain(run: Run, of: str | None = None) -> Explanation:
    """Explain the "map" or the "cost" (`of`) of a finished run; by default the map if there is one."""
    if (run.path / "model" / "proof.safetensors").exists():
        raise UserError(f"there is nothing to explain in {run.path}: the run proved that there is no solution")
    which = of or ("map" if (run.path / "model" / "map.safetensors").exists() else "cost")
    cost = load_cost(run, which)
    demos = run.learned_from()
    spec = exact_model(run.config["env"], run.config["env_kwargs"])
    if spec is not None:
        return _cells(run, spec, cost, which, demos)
    if isinstance(cost, TableCost) or not (run.path / "samples.safetensors").exists():
        raise UserError(f"{run.path} has no samples.safetensors, the states that a rule is read from")
    return _features(run, cost, which, demos)


def _threshold(cost: Cost, demos: Demonstrations, highest: float) -> _Level:
    calibration = cost.card.get("calibration")
    if cost.threshold is not None:
        guarantee = calibration.get("guarantee") if isinstance(calibration, Mapping) else None
        return {"threshold": float(cost.threshold), "guarantee": guarantee}
    return {"threshold": usual_threshold(scores(cost, demos), highest), "guarantee": None}


# ---------------------------------------------------------------------------------------------------------------------
# Features


def _features(run: Run, cost: LearnedCost, which: str, demos: Demonstrations) -> FeatureExplanation:
    sample = load_sample(run, cost)
    columns = dict(zip(cost.inputs.names, cost.inputs.columns, strict=True))
    costs = cost.of_rows(sample.tried)
    level = _threshold(cost, demos, float(costs.max()))
    forbidden = costs > level["threshold"]
    sample = replace(sample, fresh=_fresh(run, cost))
    rule = search.fit(forbidden, sample, columns, cost)
    ensemble = load_ensemble(run, cost)
    if ensemble is not None:
        rule = _with_intervals(rule, ensemble, sample, columns)
    judging = search.parts(len(forbidden)) == 3
    summary: Summary = run.read("summary.json") if (run.path / "summary.json").exists() else {}
    explanation: FeatureExplanation = {
        "kind": "features",
        "of": which,
        **level,
        "rule": str(rule),
        "clauses": rule.to_json(),
        "pictures": [],
        "also": _also(cost, level["threshold"], rule, sample, columns),
        "instead": _instead(rule, forbidden, sample, columns),
        "rejected": {
            "demonstrations": float((cost.of_rows(sample.expert) > level["threshold"]).mean()),
            "nominal": float((cost.of_rows(sample.nominal) > level["threshold"]).mean()),
            "learner": float((cost.of_rows(sample.learner) > level["threshold"]).mean()),
        },
        "coverage": rules.agreement(rule.holds(sample.tried[judging], columns), forbidden[judging]),
        "forbids": _forbids(rule, sample, columns),
        "truth": _truth(rule, sample, columns, summary),
        "confidence": None if ensemble is None else _confidence(ensemble, sample),
        "sentence": rule_sentence(rule),
    }
    if cost.terms:
        explanation["margin"] = usual_steps(cost, demos)
    explanation["pictures"] = [picture.to_json() for picture in pictures_of(explanation, cost, sample)]
    return explanation


def usual_steps(cost: LearnedCost, demos: Demonstrations) -> dict[str, float]:
    """How much each observed input of a cost of terms usually changes in a demonstrated step: the median."""
    observed = demos.observations.reshape(len(demos.observations), -1)
    changes = np.abs(observed[demos.rows_before + 1] - observed[demos.rows_before])
    read = {name: column for term in cost.terms for name, column in zip(term.names, term.columns, strict=True)}
    usual = {name: float(np.median(changes[:, column])) for name, column in read.items() if column < changes.shape[1]}
    return {name: size for name, size in usual.items() if size > 0}


def load_sample(run: Run, cost: LearnedCost) -> rules.Sample:
    """The states in samples.safetensors; UserError if they do not fit the cost."""
    try:
        return sample_of(storage.load_arrays(run.path / "samples.safetensors")[0], cost)
    except UserError as error:
        raise UserError(f"{run.path}/samples.safetensors {error}") from None


def sample_of(arrays: Mapping[str, Array], cost: LearnedCost) -> rules.Sample:
    """The arrays of samples.safetensors as a sample; UserError if they do not fit the cost."""
    width = cost.inputs.width
    needed = ("expert", "nominal", "learner", "expert_range")
    for name in needed:
        array = arrays.get(name)
        if (
            array is None
            or array.ndim != 2
            or array.shape[1] != width
            or not len(array)
            or not np.isfinite(array).all()
        ):
            raise UserError(f"does not fit the learned cost ({name})")
    history = arrays.get("history")
    whole = history is not None and history.ndim == 2 and history.shape[1] == width
    return rules.Sample(
        arrays["expert"],
        arrays["expert_range"],
        arrays["nominal"],
        arrays["learner"],
        history=history if whole else None,
        nominal_truth=arrays.get("nominal_truth"),
        history_truth=arrays.get("history_truth") if whole else None,
    )


def _fresh(run: Run, cost: LearnedCost) -> Array | None:
    """The states of demonstrations that were held out; None if there are none."""
    try:
        demos = run.held_out()
    except UserError:
        return None
    steps = demos.rows_before + (1 if cost.at == "next" else 0)
    return cost.inputs.rows(demos.observations[steps], demos.actions if cost.inputs.act_size else None)


def _forbids(rule: rules.Rule, sample: rules.Sample, columns: dict[str, int]) -> Forbids:
    """The share of demonstrated states that the rule forbids: of held-out ones if there are any."""
    rows = sample.expert if sample.fresh is None else sample.fresh
    share = float(rule.holds(rows, columns).mean()) if len(rows) else float("nan")
    return {"demonstrations": share, "n": len(rows), "held_out": sample.fresh is not None}


def load_ensemble(run: Run, cost: LearnedCost) -> CostEnsemble | None:
    """The ensemble of a run; None if there is none with the same inputs."""
    file = run.path / "model" / "ensemble.safetensors"
    if not file.exists():
        return None
    ensemble = CostEnsemble.load(file)
    return ensemble if ensemble.members[0].inputs.names == cost.inputs.names else None


def crossing(
    cost: LearnedCost, level: float, feature: str, relation: str, sample: rules.Sample, column: int
) -> float | None:
    """Where the cost crosses the level along a feature, outwards from the demonstrations' median; None if it does not.

    The other features are at the demonstrations' median.
    """
    around = np.median(sample.expert, axis=0)
    tried = sample.tried[:, column]
    values = np.linspace(around[column], tried.min() if relation == "<" else tried.max(), GRID)
    over = cost.profile(feature, values, around) > level
    return float(values[np.argmax(over)]) if over.any() else None


def _also(
    cost: LearnedCost, level: float, rule: rules.Rule, sample: rules.Sample, columns: dict[str, int]
) -> list[str]:
    """Bounds of the cost that the rule does not need, because its own bounds hold in the same states."""
    used = _named(rule)
    bounds = []
    for feature, column in columns.items():
        for relation in "<>":
            value = crossing(cost, level, feature, relation, sample, column)
            if value is None or feature in used:
                continue
            bound = Bound(feature, relation, value)
            share = float(bound.holds(sample.tried[:, column]).mean())
            if share >= 1e-3 and bound.holds(sample.expert[:, column]).mean() <= HARDLY:
                bounds.append((share, f"{bound:.3g}"))
    return [text for _, text in sorted(bounds, reverse=True)[:4]]


def _named(rule: rules.Rule) -> set[str]:
    """The features that the rule is about. There is one statement about each boundary."""
    return {name for clause in rule.clauses for name in clause.features}


def _instead(rule: rules.Rule, forbidden: Array, sample: rules.Sample, columns: dict[str, int]) -> list[Alternative]:
    """Other bounds that could be the reason instead: no demonstration passes them, but many rejected states do."""
    used = _named(rule)
    alternatives: list[Alternative] = []
    for feature, column in columns.items():
        for relation, extreme in zip("<>", sample.expert_range[:, column], strict=True):
            bound = Bound(feature, relation, float(extreme))
            share = float(bound.holds(sample.tried[forbidden, column]).mean()) if forbidden.any() else 0.0
            if feature not in used and share >= AS_WELL:
                alternatives.append({"text": f"{bound:.3g}", "share": share})
    return sorted(alternatives, key=lambda one: -one["share"])[:4]


def _truth(rule: rules.Rule, sample: rules.Sample, columns: dict[str, int], summary: Summary) -> Truth | None:
    """Precision and recall on the tried states: on all, and without those that the data leave open."""
    stated = true_bound(summary)
    truth = sample.truth
    if truth is None and stated is not None and stated.feature in columns:
        truth = stated.holds(sample.tried[:, columns[stated.feature]])
    if truth is None:
        return None
    certain = rule.map_bounds(lambda bound: bound if bound.certain is None else replace(bound, value=bound.certain))
    return {
        "constraint": None if stated is None else str(stated),
        "note": NOTE,
        **rules.agreement(rule.holds(sample.tried, columns), truth),
        "certain": rules.agreement(certain.holds(sample.tried, columns), truth),
    }


def _with_intervals(
    rule: rules.Rule, ensemble: CostEnsemble, sample: rules.Sample, columns: dict[str, int]
) -> rules.Rule:
    """Each bound with the 5 % and 95 % quantiles of the members' boundaries, if most members have one."""

    def interval(bound: Bound) -> Bound:
        if bound.certain is None:  # along one feature alone, only a bound of its own has a boundary
            return bound
        places = [
            crossing(member, member.threshold or 0.0, bound.feature, bound.relation, sample, columns[bound.feature])
            for member in ensemble.members
        ]
        values = [place for place in places if place is not None]
        if 2 * len(values) <= len(places):
            return bound
        low, high = np.quantile(values, [0.05, 0.95])
        return replace(bound, low=float(low), high=float(high))

    return rule.map_bounds(interval)


def _confidence(ensemble: CostEnsemble, sample: rules.Sample) -> Confidence:
    """The share of the tried states on which the members of the ensemble disagree."""
    votes = ensemble.votes_of_rows(sample.tried)
    return {
        "members": len(ensemble.members),
        "doubtful": float(disagree(votes).mean()),
        "forbidden": float((votes >= 0.9).mean()),
        "note": "fitted to demonstrations drawn with replacement; where they disagree, do not trust the cost",
    }


# ---------------------------------------------------------------------------------------------------------------------
# Cells


def _cells(run: Run, spec: GridworldSpec, cost: Cost, which: str, demos: Demonstrations) -> CellExplanation:
    if isinstance(cost, TableCost):
        policy = run.load_model("policy")[0].get("policy")
        weights = policy if policy is not None and policy.shape == cost.table.shape else np.ones_like(cost.table)
        values = (weights * cost.table).sum(axis=1) / weights.sum(axis=1)
    else:
        numbered = run.config["env_kwargs"].get("observation") == "index"
        values = np.asarray(cost(np.arange(spec.n_states) if numbered else spec.cells.astype(np.float32)))
    level = _threshold(cost, demos, float(values.max()))
    marked = values > level["threshold"]
    nominal = nominal_of_gridworld(run)
    assert nominal is not None
    demonstrated, free = (_episodes_through(spec, one) for one in (demos, nominal))
    nobody = (demonstrated == 0) & (free < RARE)
    unknown = ~marked & nobody
    rule, unknown_cells = cells.cell_list(spec.cells, marked), cells.cell_list(spec.cells, unknown, 4)
    held = cells.covered(spec.cells, cells.cover(spec.cells, marked))
    truth: Truth | None = None
    if spec.constrained.any():
        decided = held | ~nobody
        truth = {
            "constraint": cells.cell_list(spec.cells, spec.constrained),
            "note": NOTE,
            **rules.agreement(held, spec.constrained),
            "certain": rules.agreement(held[decided], spec.constrained[decided]),
        }
    return {
        "kind": "cells",
        "of": which,
        **level,
        "rule": rule,
        "cells": spec.cells[marked].tolist(),
        "unknown": spec.cells[unknown].tolist(),
        "extrapolated": spec.cells[marked & nobody].tolist(),
        "unknown_in_words": unknown_cells,
        "costs": values.tolist(),
        "layout": list(spec.rows),
        "coverage": rules.agreement(held, marked),
        "forbids": _forbidden_steps(run, spec, demos, held),
        "rejected": {"demonstrations": float((scores(cost, demos) > level["threshold"]).mean())},
        "truth": truth,
        "confidence": None,
        "sentence": cells_sentence(rule, unknown_cells if unknown.any() else ""),
    }


def _forbidden_steps(run: Run, spec: GridworldSpec, learned_from: Demonstrations, held: Array) -> Forbids:
    """The share of demonstrated states in forbidden cells: of held-out demonstrations if there are any."""
    try:
        demos, fresh = run.held_out(), True
    except UserError:
        demos, fresh = learned_from, False
    states = spec.states_of(demos.observations)
    return {"demonstrations": float(held[states].mean()), "n": len(states), "held_out": fresh}


def _episodes_through(spec: GridworldSpec, demos: Demonstrations) -> Array:
    """(S,) share of the episodes that enter each cell."""
    states = spec.states_of(demos.observations)
    inside = np.zeros((len(demos), spec.n_states), dtype=bool)
    inside[np.repeat(np.arange(len(demos)), demos.lengths + 1), states] = True
    return inside.mean(axis=0)


# ---------------------------------------------------------------------------------------------------------------------
# Files


def save_explanation(run: Run, explanation: Explanation, pictures: bool = True) -> list[Path]:
    """Write explanation.json, and the pictures as .svg and .png, into the run folder; returns the paths."""
    run.write("explanation.json", explanation)
    paths = [run.path / "explanation.json"]
    for number, draw in enumerate(_drawings(run, explanation) if pictures else (), start=1):
        for form in FORMATS:
            paths.append(picture_file(run, number, form))
            storage.atomic_write_bytes(paths[-1], draw(form))
    for number in range(1, MOST_PICTURES + 1):
        for form in FORMATS:
            old = picture_file(run, number, form)
            if old not in paths:  # of an earlier rule
                disk.remove(old)
    return paths


def picture_file(run: Run, number: int, form: str = "png") -> Path:
    """explanation.png, explanation-2.png, ..."""
    return run.path / f"explanation{'' if number == 1 else f'-{number}'}.{form}"


def _drawings(run: Run, explanation: Explanation) -> list[Callable[[Literal["svg", "png"]], bytes]]:
    if explanation["kind"] == "cells":
        return [partial(_draw_cells, explanation)]
    cost = load_cost(run, explanation["of"])
    assert isinstance(cost, LearnedCost)
    return [picture.draw for picture in pictures_of(explanation, cost, load_sample(run, cost))]


def _draw_cells(explanation: CellExplanation, format: Literal["svg", "png"]) -> bytes:
    return draw_cells(explanation, format=format)


def explain_if_possible(run: Run) -> None:
    """Write explanation.json if the run has learned a cost that can be explained. This never makes a run fail."""
    if (run.path / "model" / "cost.safetensors").exists():
        with suppress(UserError):
            save_explanation(run, explain(run), pictures=False)


def refresh_explanation(run: Run) -> None:
    """Write an existing explanation again, because a new threshold changes the rule. A damaged one is left alone."""
    if (run.path / "explanation.json").exists():
        # The threshold stands, whether or not it can be explained.
        with suppress(UserError, AttributeError, KeyError, TypeError, ValueError):
            of = run.read("explanation.json").get("of")
            save_explanation(run, explain(run, of), pictures=(run.path / "explanation.svg").exists())
