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

from tacit.envs.options import listed
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
STILL_RISING = 0.1
"""Share of the demonstrators' return by which the learner's may rise in the last fifth of training."""
JOINT = 0.002
"""Significance level of the joint test (`tacit.cost.avoided`)."""
OVERFITTED = 0.45
"""How much more a held-out demonstration may cost than a trained one, as a share of what agents without constraint
cost."""
DISOBEYED, UNKNOWN = 0.02, 0.05
"""Share of a fresh agent's episodes with a forbidden step, beyond the demonstrations' and even at the lower end of its
interval; and share of its steps on unknown ground."""
ONLY_BOX = 0.95
"""Share of the rejected states outside of the demonstrations' range, from which a cost says no more than that range."""


@dataclass(frozen=True)
class Alarm:
    """One finding about a run."""

    level: Literal["alarm", "note"]
    name: str
    text: str
    """What was measured, what it means and what to do."""

    def __str__(self) -> str:
        return f"Do not use this yet: {self.text}" if self.level == "alarm" else self.text


def alarms(summary: Summary, metrics: Sequence[Record], others: Sequence[Summary] = ()) -> list[Alarm]:
    """All alarms and notes of a run, alarms first; `others` are summaries of the same with other seeds."""
    first, last = (metrics[0], metrics[-1]) if metrics else ({}, {})
    table = {name: as_mapping(row) for name, row in as_mapping(summary.get("table")).items()}
    demos = table.get("demonstrations", {})
    if all(as_mapping(demos.get("return")).get(key) == 0 for key in ("value", "se")):
        demos = {}  # logs without rewards: what their demonstrators earn is not known
    more = "--steps" if "obedience" in summary else "--total-steps"  # as the command calls it: `retrain` or `learn`
    strange = _joint(summary)
    raised = [
        *_evidence(summary, last),
        *_options(summary),
        *_competence(first, demos),
        *_convergence(metrics, demos, more),
        *_obedience(summary),
        *_held_out(summary, last),
        *strange,
        *_income(table.get("learned", {}), demos, more, strange=bool(strange)),
        *_box(summary, strange=bool(strange)),
        *_names(summary, others, strange=bool(strange)),
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


def _options(summary: Summary) -> list[Alarm]:
    different = as_mapping(summary.get("other_options"))
    if not different:
        return []
    text = f"the demonstrations were made with other options of the environment: {listed(different)}. They may keep "
    return [Alarm("alarm", "another task", text + "another rule than the one here. Use demonstrations of this task.")]


def _competence(first: Record, demos: Record) -> list[Alarm]:
    theirs = value_of(demos.get("return"))
    reached = [first.get(f"seekers/{name}_return") for name in ("nominal", "tempted")]
    numbers = [float(x) for x in reached if is_number(x)]
    if theirs is None or not numbers or max(numbers) >= theirs - BEGINNER * abs(theirs):
        return []
    text = f"agents that follow the reward alone earn {figures(max(numbers))}, the demonstrators {figures(theirs)}. "
    text += "They are not competent, so the cost may describe what a beginner does. Use more --bootstrap-steps, "
    return [Alarm("alarm", "beginners", text + "--tempted-steps and --total-steps.")]


def _convergence(metrics: Sequence[Record], demos: Record, more: str) -> list[Alarm]:
    def mean(name: str, part: Sequence[Record]) -> float | None:
        values = [float(m[name]) for m in part if is_number(m.get(name))]
        return float(np.mean(values)) if values else None

    ours, theirs = (mean(name, metrics[-3:]) or 0.0 for name in ("dual/learner_above", "dual/expert_above"))
    if ours > theirs + STILL_ABOVE:
        text = f"{percent(ours)} of the last learner's steps are above the cost's threshold, but only "
        text += f"{percent(theirs)} of the demonstrated ones. It needs more steps, or cannot obey. Use more {more}."
        return [Alarm("alarm", "not converged", text)]
    fifth, income = max(1, len(metrics) // 5), value_of(demos.get("return"))
    before, after = (mean("rollout/ep_rew_mean", part) for part in (metrics[-2 * fifth : -fifth], metrics[-fifth:]))
    if before is None or after is None or income is None or after - before <= STILL_RISING * abs(income):
        return []
    text = f"the return of the policy still rises, from {figures(before)} to {figures(after)} in the last fifth of "
    return [Alarm("alarm", "not converged", text + f"training. Use more {more}.")]


def _obedience(summary: Summary) -> list[Alarm]:
    """For a fresh agent with a frozen cost."""
    found = as_mapping(summary.get("obedience"))
    above, theirs = as_mapping(found.get("above")), value_of(found.get("demonstrations")) or 0.0
    rate, least, unknown = above.get("value"), above.get("low"), found.get("unknown")
    raised = []
    if is_number(rate) and is_number(least) and least > theirs + DISOBEYED:
        text = f"{percent(rate)} of its episodes have a step that the cost forbids"
        text += f" ({percent(theirs)} of the demonstrations)" if found.get("demonstrations") else ""
        text += ". The agent does not keep to the cost. Use more --steps."
        raised.append(Alarm("alarm", "not obeyed", text))
    if is_number(unknown) and unknown > UNKNOWN:
        text = f"{percent(unknown)} of its steps lie well outside of everything that the run of the cost has seen. "
        text += "The cost knows nothing there. Use --as set, which forbids the unknown."
        raised.append(Alarm("alarm", "unknown ground", text))
    return raised


def _held_out(summary: Summary, last: Record) -> list[Alarm]:
    agents, new, trained = summary.get("agents_cost"), last.get("dual/held_out_cost"), last.get("dual/expert_cost")
    if not is_number(agents) or not is_number(new) or not is_number(trained) or agents <= 0:
        return []
    if new - trained <= OVERFITTED * agents:
        return []
    text = (
        f"a step of a held-out demonstration costs {figures(new)}, one of a trained demonstration {figures(trained)} "
    )
    text += f"and one of an agent without constraint {figures(agents)}. So the cost knows its demonstrations, and "
    text += "rejects others of the same kind. Collect more demonstrations, or name fewer inputs."
    return [Alarm("alarm", "overfitted", text)]


def _joint(summary: Summary) -> list[Alarm]:
    test = as_mapping(summary.get("joint_test"))
    ours, theirs = (value_of(test.get(name)) for name in ("learner", "demonstrations"))
    p, auroc = test.get("p"), as_mapping(test.get("auroc"))
    value, least = auroc.get("value"), auroc.get("low")
    if not is_number(p) or p > JOINT or ours is None or theirs is None or not is_number(value) or not is_number(least):
        return []
    text = f"{percent(ours)} of the learned policy's episodes go where agents without constraint go and "
    text += f"demonstrators do not, {percent(theirs)} of held-out demonstrations (AUROC {figures(value)}, "
    text += f"at least {figures(least)}). For example, {box_in_words(test)}. The cost may miss what "
    text += "demonstrators avoid, or the policy does not keep to it. Watch a film. "
    if "obedience" in summary:
        text += "Use more --steps. If that does not help, learn another cost, from more demonstrations or with the "
        return [Alarm("alarm", "joint test", text + "inputs that can matter (--inputs).")]
    text += "Name the inputs that can matter (--inputs), or use more demonstrations or --total-steps."
    return [Alarm("alarm", "joint test", text)]


def box_in_words(test: Record) -> str:
    """The box of a joint test."""
    ranges = dict(zip(test.get("inputs", ()), test.get("box", ()), strict=False))
    return " and ".join(f"{name} from {figures(low)} to {figures(high)}" for name, (low, high) in ranges.items())


def _box(summary: Summary, strange: bool) -> list[Alarm]:
    outside = summary.get("outside")
    if not is_number(outside) or outside < ONLY_BOX:
        return []
    text = f"{percent(outside)} of the states that the cost rejects lie outside of the demonstrations' range of some "
    text += "input. So it says hardly more than that range. If the rule is no limit on one input, collect more "
    text = text + "demonstrations."
    return [Alarm("alarm" if strange else "note", "only the range", text if strange else text[0].upper() + text[1:])]


def _names(summary: Summary, others: Sequence[Summary], strange: bool) -> list[Alarm]:
    read, theirs = summary.get("read"), [other["read"] for other in others if other.get("read")]
    differ = [one for one in theirs if one != read]
    if not read or 2 * len(differ) <= len(theirs):
        return []
    text = f"{'the' if strange else 'The'} cost reads {', '.join(read)}, but {len(differ)} of {len(theirs)} runs with "
    text += f"other seeds read other inputs, for example {', '.join(differ[0])}. So chance decides what is blamed. "
    text += "Collect more demonstrations, or name the inputs that can matter (--inputs)."
    return [Alarm("alarm" if strange else "note", "names differ between seeds", text)]


def _income(learned: Record, demos: Record, more: str, strange: bool) -> list[Alarm]:
    ours, theirs = as_mapping(learned.get("discounted_return")), value_of(demos.get("discounted_return"))
    if theirs is None or not is_number(ours.get("low")) or not is_number(ours.get("high")):
        return []
    if ours["high"] < theirs - LOST * abs(theirs):
        text = f"the learned policy earns {figures(ours['value'])} (discounted), the demonstrators {figures(theirs)}. "
        text += "The cost forbids what they do, or training has not converged. Look at the pictures of `tacit "
        text += f"explain`, and use more {more}."
        return [Alarm("alarm", "earns less", text)]
    if ours["low"] > theirs + GAINED * abs(theirs):
        text = f"{'the' if strange else 'The'} learned policy earns {figures(ours['value'])} (discounted), the "
        text += f"demonstrators {figures(theirs)}. "
        if strange:
            text += "It does so where they do not go: perhaps by what they avoid. Watch a film of it."
            return [Alarm("alarm", "earns more", text)]
        text += "They were not the best, or it found a way round what they avoid: watch a film of it."
        return [Alarm("note", "earns more", text)]
    return []
