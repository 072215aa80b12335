"""What a run found, in a line or two: for lists of runs and for the representation of `tacit.Learned`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tacit.errors import UserError
from tacit.metrics import figures, percent
from tacit.run.summary import value_of

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
    value, violating = value_of(row.get("return")), value_of(row.get("violation_rate_episode"))
    words = [] if value is None else [f"return {figures(value)}"]
    words += [] if violating is None else [f"{percent(violating)} of episodes violate"]
    return ", ".join(words)
