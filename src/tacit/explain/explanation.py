"""What a run has learned, in words: the learned cost as a rule, how faithful it is, how true, and what is not known.

    found = explain(run)          a plain dict, also written as explanation.json by `tacit explain` and at a run's end
    print("\\n".join(in_words(found)))

States with a cost above the threshold are forbidden. The threshold is that of `tacit calibrate`, or, without guarantee,
what nine in ten of the demonstrations that were learned from stay below. Features get a rule of bounds (`rules`), cells
of a gridworld rectangles (`cell_rules`). Where the environment says what is true, precision and recall stand beside it;
nothing is fitted to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.cost import LearnedCost, load_cost
from tacit.cost.calibration import Cost, nominal_of_gridworld, scores, usual_threshold
from tacit.cost.ensemble import CostEnsemble, disagree
from tacit.cost.table import TableCost
from tacit.errors import UserError
from tacit.explain import cells, rules
from tacit.explain.words import in_words, sentence
from tacit.run import storage

if TYPE_CHECKING:
    from tacit.envs.gridworld import GridworldSpec
    from tacit.run import Run

__all__ = ["explain", "in_words", "load_sample", "save_explanation"]

Array = NDArray[Any]
Found = dict[str, Any]
RARE = 0.01
"""Share of the unconstrained agent's episodes below which a cell is no way that it would take."""
AS_WELL = 0.2
"""Share of the rejected states that lie beyond a bound that may be the reason as well."""
GRID = 2001
FORMATS: tuple[Literal["svg", "png"], ...] = ("svg", "png")


def explain(run: Run, of: str | None = None) -> Found:
    """The explanation of a finished run; `of`: "map" or "cost", the map by default where there is one."""
    if (run.path / "model" / "proof.safetensors").exists():
        raise UserError(f"{run.path} has learned nothing to explain: it proved that there is no solution")
    which = of or ("map" if (run.path / "model" / "map.safetensors").exists() else "cost")
    cost = load_cost(run, which)
    demos = run.learned_from()
    spec = _gridworld(run)
    if spec is not None:
        return _cells(run, spec, cost, which, demos)
    if isinstance(cost, TableCost) or not (run.path / "samples.safetensors").exists():
        raise UserError(
            f"{run.path} kept no samples of states (samples.safetensors): there is nothing to read a rule from"
        )
    return _features(run, cost, which, demos)


def _gridworld(run: Run) -> GridworldSpec | None:
    from tacit.envs.options import exact_model

    return exact_model(run.config["env"], run.config["env_kwargs"])


def _threshold(cost: Cost, demos: Any, highest: float) -> Found:
    calibration = cost.card.get("calibration")
    if cost.threshold is not None:
        guarantee = calibration.get("guarantee") if isinstance(calibration, Mapping) else None
        return {"threshold": float(cost.threshold), "guarantee": guarantee}
    return {"threshold": usual_threshold(scores(cost, demos), highest), "guarantee": None}


# ---------------------------------------------------------------------------------------------------------------------
# Features


def _features(run: Run, cost: LearnedCost, which: str, demos: Any) -> Found:
    sample = load_sample(run, cost)
    columns = dict(zip(cost.inputs.names, cost.inputs.columns, strict=True))
    costs = cost.of_rows(sample.tried)
    level = _threshold(cost, demos, float(costs.max()))
    forbidden = costs > level["threshold"]
    rule = rules.fit(forbidden, sample, columns)
    ensemble = load_ensemble(run, cost)
    if ensemble is not None:
        rule = _with_intervals(rule, ensemble, sample, columns)
    held = rule.holds(sample.tried, columns)
    summary = run.read("summary.json") if (run.path / "summary.json").exists() else {}
    found: Found = {
        "kind": "features",
        "of": which,
        **level,
        "rule": str(rule),
        "clauses": rule.to_dict(),
        "views": _views(rule, sample, columns),
        "also": _also(cost, level["threshold"], rule, sample, columns),
        "instead": _instead(rule, forbidden, sample, columns),
        "rejected": {
            "demonstrations": float((cost.of_rows(sample.expert) > level["threshold"]).mean()),
            "nominal": float((cost.of_rows(sample.nominal) > level["threshold"]).mean()),
            "learner": float((cost.of_rows(sample.learner) > level["threshold"]).mean()),
        },
        "fidelity": rules.agreement(held[1::2], forbidden[1::2]),
        "truth": _truth(rule, sample, columns, summary),
        "confidence": None if ensemble is None else _confidence(ensemble, sample),
    }
    return found | {"sentence": sentence(found)}


def load_sample(run: Run, cost: LearnedCost) -> rules.Sample:
    """samples.safetensors; UserError if it does not fit the cost."""
    arrays = storage.load_arrays(run.path / "samples.safetensors")[0]
    width = cost.inputs.obs_size + cost.inputs.act_size
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
            raise UserError(f"{run.path}/samples.safetensors does not fit the learned cost ({name})")
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


def load_ensemble(run: Run, cost: LearnedCost) -> CostEnsemble | None:
    file = run.path / "model" / "ensemble.safetensors"
    if not file.exists():
        return None
    found = CostEnsemble.load(file)
    return found if found.members[0].inputs.names == cost.inputs.names else None


def _views(rule: rules.Rule, sample: rules.Sample, columns: dict[str, int]) -> list[Found]:
    """What a picture shows of each bound: the feature's range near it, in the demonstrations and around."""
    views = []
    for bound in (bound for clause in rule.clauses for bound in clause.bounds):
        column = columns[bound.feature]
        low, high = (float(x) for x in sample.expert_range[:, column])
        tried = np.quantile(sample.tried[:, column], [0.001, 0.999])
        band = bound.open_band or (bound.value, bound.value)
        pad = max(0.6 * (band[1] - band[0]), 0.04 * float(tried[1] - tried[0]))
        views.append({"feature": bound.feature, "shown": [low, high], "window": [band[0] - pad, band[1] + pad]})
    return views


def crossing(
    cost: LearnedCost, level: float, feature: str, relation: str, sample: rules.Sample, column: int
) -> float | None:
    """Where the cost passes the level along a feature, outwards from the middle of the demonstrations; None: nowhere.

    The other features are those of the demonstrations' median.
    """
    around = np.median(sample.expert, axis=0)
    tried = sample.tried[:, column]
    values = np.linspace(around[column], tried.min() if relation == "<" else tried.max(), GRID)
    over = cost.profile(feature, values, around) > level
    return float(values[np.argmax(over)]) if over.any() else None


def _also(
    cost: LearnedCost, level: float, rule: rules.Rule, sample: rules.Sample, columns: dict[str, int]
) -> list[str]:
    """Bounds that the cost draws but that the rule does not need, because the others hold where they would."""
    used = {(bound.feature, bound.relation) for clause in rule.clauses for bound in clause.bounds}
    found = []
    for feature, column in columns.items():
        for relation in "<>":
            value = crossing(cost, level, feature, relation, sample, column)
            if value is None or (feature, relation) in used:
                continue
            bound = rules.Bound(feature, relation, value)
            share = float(bound.holds(sample.tried[:, column]).mean())
            if share >= 1e-3 and bound.holds(sample.expert[:, column]).mean() <= rules.DEMONSTRATED:
                found.append((share, str(bound)))
    return [text for _, text in sorted(found, reverse=True)[:4]]


def _instead(rule: rules.Rule, forbidden: Array, sample: rules.Sample, columns: dict[str, int]) -> list[Found]:
    """Other bounds that no demonstration passes and many rejected states do: they may be the reason as well."""
    used = {(bound.feature, bound.relation) for clause in rule.clauses for bound in clause.bounds}
    found: list[Found] = []
    for feature, column in columns.items():
        for relation, extreme in zip("<>", sample.expert_range[:, column], strict=True):
            bound = rules.Bound(feature, relation, float(extreme))
            share = float(bound.holds(sample.tried[forbidden, column]).mean()) if forbidden.any() else 0.0
            if (feature, relation) not in used and share >= AS_WELL:
                found.append({"text": str(bound), "share": share})
    return sorted(found, key=lambda one: -float(one["share"]))[:4]


def _truth(rule: rules.Rule, sample: rules.Sample, columns: dict[str, int], summary: Mapping[str, Any]) -> Found | None:
    """Precision and recall on the states that were tried, as a whole and beyond the open bands."""
    from tacit.explain.findings import true_bound

    stated = true_bound(summary)
    truth = sample.truth
    if truth is None and stated is not None and stated.feature in columns:
        values = sample.tried[:, columns[stated.feature]]
        truth = values < stated.value if stated.below else values > stated.value
    if truth is None:
        return None
    certain = rules.Rule(
        tuple(
            replace(c, bounds=tuple(b if b.certain is None else replace(b, value=b.certain) for b in c.bounds))
            for c in rule.clauses
        )
    )
    return {
        "constraint": None if stated is None else str(stated),
        "note": "what the environment knows; nothing was fitted to it",
        **rules.agreement(rule.holds(sample.tried, columns), truth),
        "certain": rules.agreement(certain.holds(sample.tried, columns), truth),
    }


def _with_intervals(
    rule: rules.Rule, ensemble: CostEnsemble, sample: rules.Sample, columns: dict[str, int]
) -> rules.Rule:
    """Each bound with the 5 % and 95 % quantiles of where the members put it, if most of them draw it."""

    def interval(bound: rules.Bound) -> rules.Bound:
        places = [
            crossing(member, member.threshold or 0.0, bound.feature, bound.relation, sample, columns[bound.feature])
            for member in ensemble.members
        ]
        drawn = [place for place in places if place is not None]
        if 2 * len(drawn) <= len(places):
            return bound
        low, high = np.quantile(drawn, [0.05, 0.95])
        return replace(bound, low=float(low), high=float(high))

    return rules.Rule(tuple(replace(c, bounds=tuple(map(interval, c.bounds))) for c in rule.clauses))


def _confidence(ensemble: CostEnsemble, sample: rules.Sample) -> Found:
    """How much of what was tried the members of the ensemble disagree about, and along which features."""
    votes = ensemble.votes_of_rows(sample.tried)
    return {
        "members": len(ensemble.members),
        "doubtful": float(disagree(votes).mean()),
        "forbidden": float((votes >= 0.9).mean()),
        "note": "fitted to demonstrations drawn with replacement; where they disagree, do not trust the cost",
    }


# ---------------------------------------------------------------------------------------------------------------------
# Cells


def _cells(run: Run, spec: GridworldSpec, cost: Cost, which: str, demos: Any) -> Found:
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
    shown, free = (_episodes_through(spec, one) for one in (demos, nominal))
    unknown = ~marked & (shown == 0) & (free < RARE)
    rectangles = cells.cover(spec.cells, marked)
    held = np.zeros(spec.n_states, dtype=bool)
    for rectangle in rectangles:
        held |= rectangle.contains(spec.cells)
    known = held | (shown > 0) | (free >= RARE)
    found: Found = {
        "kind": "cells",
        "of": which,
        **level,
        "rule": cells.in_words(spec.cells, marked),
        "cells": spec.cells[marked].tolist(),
        "unknown": spec.cells[unknown].tolist(),
        "extrapolated": spec.cells[marked & (shown == 0) & (free < RARE)].tolist(),
        "unknown_in_words": cells.in_words(spec.cells, unknown, 4),
        "costs": values.tolist(),
        "layout": list(spec.rows),
        "fidelity": rules.agreement(held, marked),
        "rejected": {"demonstrations": float((scores(cost, demos) > level["threshold"]).mean())},
        "truth": None,
        "confidence": None,
    }
    if spec.constrained.any():
        found["truth"] = {
            "constraint": cells.in_words(spec.cells, spec.constrained),
            "note": "what the environment knows; nothing was fitted to it",
            **rules.agreement(held, spec.constrained),
            "certain": rules.agreement(held[known], spec.constrained[known]),
        }
    return found | {"sentence": sentence(found)}


def _episodes_through(spec: GridworldSpec, demos: Any) -> Array:
    """(S,) share of the episodes that enter each cell."""
    states = spec.states_of(demos.observations)
    inside = np.zeros((len(demos), spec.n_states), dtype=bool)
    inside[np.repeat(np.arange(len(demos)), demos.lengths + 1), states] = True
    return inside.mean(axis=0)


def save_explanation(run: Run, found: Found, pictures: bool = True) -> list[Path]:
    """explanation.json, and the picture as .svg and .png, into the run folder; the paths."""
    run.write("explanation.json", found)
    paths = [run.path / "explanation.json"]
    if pictures:
        from tacit.plots.rules import draw

        for form in FORMATS:
            paths.append(run.path / f"explanation.{form}")
            storage.atomic_write_bytes(paths[-1], draw(found, format=form))
    return paths
