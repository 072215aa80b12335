"""What stands on the card of a learned cost: where it comes from, how good it is, and what it must not be used for.

The algorithms save their costs with what only they know (inputs, environment); at the end of a run `complete_cards`
adds the rest, the same for all: data hash, settings, command, versions, metrics with intervals, limits; and the
explanation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.cost import LearnedCost, load_cost
from tacit.cost.table import TableCost
from tacit.errors import UserError
from tacit.run import storage

if TYPE_CHECKING:
    from tacit.run import Run

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


def complete_cards(run: Run, summary: Mapping[str, Any]) -> None:
    """Add settings, metrics and limits to the card of each cost of a run folder."""
    for name in ("cost", "map"):
        if not (run.path / "model" / f"{name}.safetensors").exists():
            continue
        try:
            cost = load_cost(run, name)
        except UserError:  # a model of another kind, of an algorithm that is not ours
            continue
        demos = run.config.get("demos") or {}
        settings = {key: run.config[key] for key in ("algo", "seed", "config")}
        entries: dict[str, Any] = {
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


def save_cost(run: Run, name: str, cost: LearnedCost | TableCost) -> None:
    """model/NAME.safetensors, and model/NAME.json with the command, versions and commit besides.

    The former depends on nothing but what was learned from what: the same run elsewhere has the same bytes.
    """
    arrays, card = cost.to_arrays()
    run.save_model(name, arrays, card)
    provenance = run.read("provenance.json") if (run.path / "provenance.json").exists() else {}
    made = {key: provenance.get(key) for key in ("command", "versions", "commit")}
    run.write(f"model/{name}.json", {**card, **made})


def explain_if_possible(run: Run) -> None:
    """explanation.json, if the run has learned something that can be explained: a word more, never a reason to fail."""
    if not (run.path / "model" / "cost.safetensors").exists():
        return
    from tacit.explain import explain, save_explanation

    try:
        save_explanation(run, explain(run), pictures=False)
    except UserError:
        return


def metrics_of(summary: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What the run measured: of the policy that the cost led to, with intervals, and of the cost itself."""
    table = summary.get("table")
    learned = table.get("learned", {}) if isinstance(table, Mapping) else {}
    quality = summary.get("cost_quality") or {}
    found: dict[str, Any] = {"policy": {key: learned[key] for key in MEASURED if key in learned}}
    key = "auroc_cost" if name == "cost" and "auroc_cost" in quality else "auroc"
    if key in quality:
        found["auroc"] = quality[key]
        found["auroc_note"] = "against the environment's own constraint, which nothing was fitted to"
    return found


def ranges(run: Run, cost: LearnedCost) -> dict[str, list[float]]:
    """{input: [lowest, highest]} of what the demonstrations and the learner visited."""
    file = run.path / "samples.safetensors"
    if not file.exists():
        return {}
    arrays = storage.load_arrays(file)[0]
    width = cost.inputs.obs_size + cost.inputs.act_size
    rows = [array for array in arrays.values() if array.ndim == 2 and array.shape[1] == width and len(array)]
    if not rows:
        return {}
    every = np.concatenate(rows)
    return {
        name: [float(every[:, column].min()), float(every[:, column].max())]
        for name, column in zip(cost.inputs.names, cost.inputs.columns, strict=True)
    }
