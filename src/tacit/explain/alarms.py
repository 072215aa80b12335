"""Alarms that need no truth: reasons not to use a learned cost, from what the run itself recorded.

An alarm says "do not use this", a note informs. Each has its number, what it means, and what to do. They are about the
default of `mce` (a cost of terms); runs that lack the numbers get fewer of them. What alarms miss is measured in
docs/shapes.md: a wrong cost may still raise none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.metrics import figures, percent
from tacit.run.summary import Record, Summary, as_mapping, is_number, value_of

TOO_FEW = 5
"""Number of demonstrations below which nothing can be held out."""
LOST = 0.15
"""Share of the demonstrators' discounted return that a good learner may lack at most."""
GAINED = 0.1
"""Share of their discounted return that a learner must earn on top, to be worth a note."""
BEGINNER = 0.1
"""Share of the demonstrators' return that a competent agent without constraint may lack at most."""
STILL_ABOVE = 0.03
"""Share of the learner's steps that may be above the threshold, beyond that of the demonstrations."""


@dataclass(frozen=True)
class Alarm:
    """One finding about a run."""

    level: Literal["alarm", "note"]
    name: str
    text: str
    """What was measured, what it means and what to do."""

    def __str__(self) -> str:
        return f"Do not use this yet: {self.text}" if self.level == "alarm" else self.text


def alarms(summary: Summary, metrics: Sequence[Record]) -> list[Alarm]:
    """All alarms and notes of a run, alarms first."""
    first, last = (metrics[0], metrics[-1]) if metrics else ({}, {})
    table = {name: as_mapping(row) for name, row in as_mapping(summary.get("table")).items()}
    demos = table.get("demonstrations", {})
    if all(as_mapping(demos.get("return")).get(key) == 0 for key in ("value", "se")):
        demos = {}  # logs without rewards: what their demonstrators earn is not known
    raised = [
        *_evidence(summary, last),
        *_competence(first, demos),
        *_convergence(metrics),
        *_income(table.get("learned", {}), demos),
    ]
    return sorted(raised, key=lambda one: one.level)


def _evidence(summary: Summary, last: Record) -> list[Alarm]:
    raised = []
    if last.get("dual/terms") == 0:
        text = "no constraint was found. Agents that follow the reward do nothing that the demonstrators clearly "
        text += (
            "avoid. Perhaps nothing is forbidden that pays, or the cost's inputs do not show it. Name other inputs, "
        )
        raised.append(Alarm("alarm", "nothing found", text + "or collect more demonstrations."))
    count = as_mapping(summary.get("demonstrations")).get("trajectories")
    if is_number(count) and count < TOO_FEW:
        text = f"there {'is' if count == 1 else 'are'} only {int(count)} demonstration{'' if count == 1 else 's'}: too "
        text += "few to hold any out, so what is missing from them by chance looks forbidden. Collect at least 10."
        raised.append(Alarm("alarm", "few demonstrations", text))
    return raised


def _competence(first: Record, demos: Record) -> list[Alarm]:
    theirs = value_of(demos.get("return"))
    reached = [first.get(f"seekers/{name}_return") for name in ("nominal", "tempted")]
    numbers = [float(x) for x in reached if is_number(x)]
    if theirs is None or not numbers or max(numbers) >= theirs - BEGINNER * abs(theirs):
        return []
    text = f"agents that follow the reward alone earn {figures(max(numbers))}, the demonstrators {figures(theirs)}. "
    text += "They are not competent, so the cost may describe what a beginner does. Use more bootstrap_steps, "
    return [Alarm("alarm", "beginners", text + "tempted_steps and total_steps.")]


def _convergence(metrics: Sequence[Record]) -> list[Alarm]:
    names = "dual/learner_above", "dual/expert_above"
    above = [[float(m[name]) for m in metrics[-3:] if is_number(m.get(name))] for name in names]
    ours, theirs = (float(np.mean(side)) if side else 0.0 for side in above)
    if ours <= theirs + STILL_ABOVE:
        return []
    text = f"{percent(ours)} of the last learner's steps are above the cost's threshold, but only {percent(theirs)} of "
    text += "the demonstrated ones. It needs more steps, or cannot obey. Use more total_steps."
    return [Alarm("alarm", "not converged", text)]


def _income(learned: Record, demos: Record) -> list[Alarm]:
    ours, theirs = as_mapping(learned.get("discounted_return")), value_of(demos.get("discounted_return"))
    if theirs is None or not is_number(ours.get("low")) or not is_number(ours.get("high")):
        return []
    if ours["high"] < theirs - LOST * abs(theirs):
        text = f"the learned policy earns {figures(ours['value'])} (discounted), the demonstrators {figures(theirs)}. "
        text += "The cost forbids what they do, or training has not converged. Look at the pictures of `tacit "
        text += "explain`, and use more total_steps."
        return [Alarm("alarm", "earns less", text)]
    if ours["low"] > theirs + GAINED * abs(theirs):
        text = f"The learned policy earns {figures(ours['value'])} (discounted), the demonstrators {figures(theirs)}. "
        text += "They were not the best, or it found a way round what they avoid: watch a film of it."
        return [Alarm("note", "earns more", text)]
    return []
