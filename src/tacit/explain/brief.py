"""What a run found, in a line or two: for lists of runs and for the representation of `tacit.Learned`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tacit.errors import UserError
from tacit.metrics import figures, percent

if TYPE_CHECKING:
    from tacit.run import Run

AGENTS = ("learned", "stochastic")
"""The row of a table that the run is about."""


def rule_of(run: Run) -> str | None:
    """The rule that `tacit explain` has written; None for a run without an explanation."""
    if not (run.path / "explanation.json").exists():
        return None
    explanation = run.read("explanation.json")
    rule = explanation.get("rule") if isinstance(explanation, dict) else None
    return rule if isinstance(rule, str) else None


def in_brief(run: Run) -> list[str]:
    """The rule of a finished run, and what its agent does, one line each if they are known."""
    try:
        summary, rule = run.read("summary.json"), rule_of(run)
    except UserError as error:
        return [str(error)]
    if not isinstance(summary, dict):
        return ["summary.json is damaged"]
    if summary.get("status") == "infeasible":
        return ["proved that no cost explains the demonstrations"]
    lines = [f"forbidden: {rule}" if rule else "", agent_in_brief(summary)]
    return [line for line in lines if line] or [str(summary.get("status", ""))]


def agent_in_brief(summary: Mapping[str, Any]) -> str:
    """Return and violating episodes of the agent that the run is about."""
    table = summary.get("table") or {}
    row: Mapping[str, Any] = next((table[name] for name in AGENTS if name in table), {})
    value, violating = _value(row.get("return")), _value(row.get("violation_rate_episode"))
    words = [] if value is None else [f"return {figures(value)}"]
    words += [] if violating is None else [f"{percent(violating)} of episodes violate"]
    return ", ".join(words)


def with_overlap(quality: Mapping[str, Any], explanation: object) -> dict[str, Any]:
    """The quality of a cost, with the overlap ("iou") at the learned threshold if only the explanation knows it.

    On a map, the rule is all cells above the threshold. With its precision p and recall r, the overlap is
    1 / (1 / p + 1 / r - 1).
    """
    entries = explanation if isinstance(explanation, Mapping) else {}
    truth = entries.get("truth")
    if not quality or "iou" in quality or entries.get("kind") != "cells" or not isinstance(truth, Mapping):
        return dict(quality)
    precision, recall = _value(truth.get("precision")), _value(truth.get("recall"))
    if precision is None or recall is None:
        return dict(quality)
    overlap = 1.0 / (1.0 / precision + 1.0 / recall - 1.0) if precision > 0 and recall > 0 else 0.0
    return {**quality, "iou": overlap}


def _value(entry: Any) -> float | None:
    entry = entry.get("value") if isinstance(entry, Mapping) else entry
    return float(entry) if isinstance(entry, int | float) and not isinstance(entry, bool) else None
