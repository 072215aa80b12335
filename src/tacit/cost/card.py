"""The card of a learned cost: where the cost comes from, how good it is, and what it must not be used for.

The algorithms save their costs with what only they know (inputs, environment). `complete_cards` adds the rest at the
end of a run, the same for all: data hash, settings, command, versions, metrics with intervals, limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypedDict

import numpy as np

from tacit.cost import LearnedCost, load_cost
from tacit.cost.table import TableCost
from tacit.errors import UserError
from tacit.run import storage
from tacit.run.summary import Row, Summary, as_mapping

if TYPE_CHECKING:
    from tacit.run import Run

COSTS = ("cost", "map")
"""Models of a run that are costs: the one that drove the policy, and the constraint map, an additive one to read."""
MEASURED = ("return", "violation_rate_step", "violation_rate_episode")
LIMITS = (
    "It is an estimate from demonstrations, not a proof of safety: do not let it be the only safeguard where people or "
    "property can come to harm.",
    "It knows nothing of states that neither the demonstrations nor the learner visited (see `ranges`): there its "
    "values are extrapolation.",
    "What no demonstration does is not always forbidden: it may be slow, useless or chance. Between the demonstrations "
    "and a learned boundary nothing can be known.",
    "Its scale belongs to the reward of its environment (see `unit`); use it with another reward only through a "
    "threshold.",
    "Its inputs are named, in the units of its environment: another environment with the same names but other units or "
    "dynamics gives other meanings.",
)


def complete_cards(run: Run, summary: Summary) -> None:
    """Add settings, metrics and limits to the card of each cost of a run folder."""
    for name in saved_costs(run):
        try:
            cost = load_cost(run, name)
        except UserError:  # a model of another kind, of an algorithm that is not ours
            continue
        demos = run.config.get("demos") or {}
        settings = {key: run.config[key] for key in ("algo", "seed", "config")}
        entries = {
            "run": run.name,
            "settings": settings,
            "env": run.config["env"],
            "env_kwargs": run.config["env_kwargs"],
            "demonstrations": cost.card.get("demonstrations", demos.get("sha256")),
            "metrics": metrics_of(summary, name),
            "limits": list(LIMITS),
        }
        if isinstance(cost, LearnedCost):
            entries["ranges"] = ranges(run, cost)
        save_cost(run, name, cost.with_card(**entries))


def saved_costs(run: Run) -> list[str]:
    """Which of "cost" and "map" the run folder holds."""
    return [name for name in COSTS if (run.path / "model" / f"{name}.safetensors").exists()]


def save_cost(run: Run, name: str, cost: LearnedCost | TableCost) -> None:
    """Write model/NAME.safetensors, and model/NAME.json, which also has the command, versions and commit.

    The former depends only on the data and the settings: the same run on another machine has the same bytes.
    """
    arrays, card = cost.to_arrays()
    run.save_model(name, arrays, card)
    provenance = run.read("provenance.json") if (run.path / "provenance.json").exists() else {}
    made = {key: provenance.get(key) for key in ("command", "versions", "commit")}
    run.write(f"model/{name}.json", {**card, **made})


class CardMetrics(TypedDict):
    """What a run measured, on the card of its cost."""

    policy: Row
    """Results of the policy that the cost led to, with intervals."""
    auroc: NotRequired[float]
    """AUROC of the cost as a detector of truly constrained states."""
    auroc_note: NotRequired[str]


def metrics_of(summary: Summary, name: str) -> CardMetrics:
    """The measurements that belong on the card of a run's "cost" or "map"."""
    learned = as_mapping(as_mapping(summary.get("table")).get("learned"))
    quality = summary.get("cost_quality") or {}
    metrics: CardMetrics = {"policy": {key: learned[key] for key in MEASURED if key in learned}}
    key = "auroc_cost" if name == "cost" and "auroc_cost" in quality else "auroc"
    if key in quality:
        metrics["auroc"] = quality[key]
        metrics["auroc_note"] = "against the environment's own constraint, which nothing was fitted to"
    return metrics


def ranges(run: Run, cost: LearnedCost) -> dict[str, list[float]]:
    """{input: [lowest, highest]} of the states that the demonstrations and the learner visited."""
    file = run.path / "samples.safetensors"
    if not file.exists():
        return {}
    arrays = storage.load_arrays(file)[0]
    width = cost.inputs.width  # samples may have actions that the cost does not read
    rows = [array[:, :width] for array in arrays.values() if array.ndim == 2 and array.shape[1] >= width and len(array)]
    if not rows:
        return {}
    every = np.concatenate(rows)
    return {
        name: [float(every[:, column].min()), float(every[:, column].max())]
        for name, column in zip(cost.inputs.names, cost.inputs.columns, strict=True)
    }
