"""The results of a deep run in plain sentences, for the terminal and the report (which turns **emphasis** into bold).

Everything is read from summary.json (`tacit.run.summary.Summary`), explanation.json and metrics.jsonl, whatever
algorithm wrote them. The rule of `tacit explain` is the constraint that is named, so there is one statement about each
boundary; a run without one has the boundaries of its map. Nothing is said about entries that are missing or damaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tacit.cost import CLIPPED_TOO_OFTEN
from tacit.cost.bounds import RELATIONS, Bound, threshold_error
from tacit.demos.data import FEW_DEMONSTRATIONS
from tacit.errors import UserError
from tacit.explain.alarms import TOO_FEW, alarms
from tacit.explain.rules import NO_RULE, Clause, Rule
from tacit.metrics import figures, percent
from tacit.run.summary import Record, Summary, as_mapping, is_number, value_of

LOST_RETURN = 0.1
"""Smallest loss of return to report, as a share of the demonstrations' return."""
STILL_COSTLY = 3.0
"""Largest ratio of the learner's cost to the demonstrations' at which they still behave alike."""
MAP_LOSES = 0.1
"""Largest difference by which the map's AUROC may fall below that of the driving cost."""


def boundaries(summary: Summary) -> list[Bound]:
    """The bounds of the constraint map, the one that explains most first, including the one beside the truth."""
    entries = summary.get("boundaries")
    bounds = []
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping) and entry.get("relation") in RELATIONS and is_number(entry.get("value")):
            bounds.append(Bound.from_json({"feature": None, **entry}))
    threshold = as_mapping(summary.get("threshold"))
    beside, reached = Bound.parse(threshold.get("found")), threshold.get("demonstrated")
    if beside is not None and beside.side not in [bound.side for bound in bounds]:
        bounds.append(replace(beside, demonstrated=float(reached) if is_number(reached) else None))
    return bounds


def true_bound(summary: Summary) -> Bound | None:
    """The environment's own constraint, if it is a bound on a feature."""
    return Bound.parse(as_mapping(summary.get("threshold")).get("truth"))


# ---------------------------------------------------------------------------------------------------------------------
# What was learned


def clauses_of(explanation: object) -> list[Clause] | None:
    """The clauses of a rule over features; None if there is no such rule, or a damaged one."""
    entries = as_mapping(explanation).get("clauses")
    try:
        return [Clause.from_json(entry) for entry in entries] if isinstance(entries, list) else None
    except (KeyError, TypeError, ValueError, AttributeError, UserError):
        return None


def learned(summary: Summary, explanation: object = None) -> list[str]:
    """The learned constraint in words, with the true one if the environment states it."""
    bounds, truth = boundaries(summary), true_bound(summary)
    if "boundaries" not in summary:
        return []
    count = as_mapping(summary.get("demonstrations")).get("trajectories")
    source = f"{count} demonstrations" if is_number(count) and count != 1 else "the demonstration"
    clauses = clauses_of(explanation)
    if clauses is not None:
        return [" ".join(_rule_words(source, clauses, as_mapping(explanation), truth))]
    if bounds:
        first, *others = bounds
        sentence = f"Learned from {source}: **{first}** is forbidden."
        if first.demonstrated is not None:
            reach = f"The demonstrations {'go down to' if first.below else 'reach'} {first.demonstrated:.4g}"
            apart = f"{first.demonstrated:.4g}" != f"{first.value:.4g}"
            sentence += f" {reach}; no demonstration goes in between." if apart else f" {reach}, too."
        if first.share is not None:
            sentence += f" {percent(first.share)} of the states that the learner tried lie beyond it."
        if others:
            more = ", ".join(str(b) if b.share is None else f"{b} ({percent(b.share)})" for b in others)
            sentence += f" The map also marks {more}."
    else:
        sentence = f"The map learned from {source} **marks no boundary** on any single feature."
    return [sentence if truth is None else f"{sentence} {_beside_truth(summary, truth)}"]


def _rule_words(source: str, clauses: list[Clause], explanation: Record, truth: Bound | None) -> list[str]:
    """The rule, how much of the cost it says, and where it lies beside the truth."""
    if not clauses:
        return [f"Learned from {source}: **{explanation.get('rule') or NO_RULE}**."]
    words = [f"Learned from {source}: **{Rule(tuple(clauses))}** is forbidden."]
    coverage = as_mapping(explanation.get("coverage"))
    recall, precision = value_of(coverage.get("recall")), value_of(coverage.get("precision"))
    if recall is not None and precision is not None:
        words.append(
            f"The rule covers {percent(recall)} of the tried states that the cost rejects; the cost rejects "
            f"{percent(precision)} of those that it covers."
        )
    judged = as_mapping(explanation.get("truth"))
    recall, precision = value_of(judged.get("recall")), value_of(judged.get("precision"))
    if truth is not None:
        sentence = f"The true constraint, which the learner never saw, is **{truth}**"
        own = next((b for c in clauses if len(c.conditions) == 1 for b in c.bounds if b.side == truth.side), None)
        error = None if own is None else threshold_error(own, truth.value)
        if error is None:
            words.append(f"{sentence}; the rule has no boundary of its own on that side of {truth.feature}.")
        elif error > 0:
            words.append(f"{sentence}; the rule's boundary on that side lies {error:.3g} away from it.")
        else:
            words.append(f"{sentence}; the rule's boundary lies between it and the demonstrations, as it should.")
    if recall is not None and precision is not None and not math.isnan(recall + precision):
        words.append(f"Against the truth: precision {percent(precision)}, recall {percent(recall)}.")
    return words


def _beside_truth(summary: Summary, truth: Bound) -> str:
    threshold = as_mapping(summary.get("threshold"))
    sentence = f"The true constraint, which the learner never saw, is **{truth}**"
    error = threshold.get("error")
    if threshold.get("found") is None or not is_number(error):
        return f"{sentence}; the map has no boundary on that side of {truth.feature}."
    if error > 0:
        return f"{sentence}; the learned boundary lies {error:.3g} beyond it."
    return f"{sentence}; the learned boundary lies between it and the demonstrations, as it should."


def behaviour(table: Mapping[str, Record]) -> list[str]:
    """The policy's return and violations, compared with the demonstrations'."""
    agent, demos = table.get("learned", {}), table.get("demonstrations", {})
    earned = value_of(agent.get("return"))
    if earned is None or not demos:
        return []
    sentence = f"The learned policy earns **{figures(earned)}** per episode{_interval(agent.get('return'))}"
    reference = value_of(demos.get("return"))
    sentence += "." if reference is None else f", the demonstrations {figures(reference)}."
    key = "violation_rate_episode"
    if value_of(agent.get(key)) is None:
        return [f"{sentence} The environment does not report whether it keeps to the true constraint."]
    sentence += f" It breaks the true constraint in **{_rate(agent.get(key))}** of its episodes"
    sentence += _interval(agent.get(key), share=True)
    if value_of(demos.get(key)) is not None:
        sentence += f", the demonstrations in {_rate(demos.get(key))}"
    deterministic = table.get("learned, deterministic", {})
    if value_of(deterministic.get(key)) is not None:
        sentence += f"; without exploration noise in {_rate(deterministic.get(key))}"
    return [sentence + "."]


def _rate(entry: object) -> str:
    value = value_of(entry) or 0.0
    return "none" if value == 0 else percent(value)


def _interval(entry: object, share: bool = False) -> str:
    low, high = _ends(entry)
    if math.isinf(low) or math.isinf(high):
        return ""
    ends = f"{percent(low)} to {percent(high)}" if share else f"{figures(low)} to {figures(high)}"
    return f" (95 % interval {ends})"


# ---------------------------------------------------------------------------------------------------------------------
# What is doubtful


def doubts(summary: Summary, metrics: Sequence[Record] = (), explanation: object = None) -> list[str]:
    """Reasons not to trust the result, one sentence each."""
    table = {name: as_mapping(row) for name, row in as_mapping(summary.get("table")).items()}
    if "demonstrations" not in table and "boundaries" not in summary and "obedience" not in summary:
        return []
    return [
        *map(str, alarms(summary, metrics)),
        *_about_behaviour(table.get("learned", {}), table.get("demonstrations", {})),
        *_about_map(summary, clauses_of(explanation)),
        *_about_training(summary, metrics),
    ]


def _about_behaviour(agent: Record, demos: Record) -> list[str]:
    doubts = []
    rate, theirs = agent.get("violation_rate_episode"), value_of(demos.get("violation_rate_episode"))
    if theirs is not None and value_of(rate) is not None and _ends(rate)[0] > theirs:
        doubts.append(
            f"The policy breaks the true constraint more often than the demonstrations do: in {_rate(rate)} of its "
            f"episodes, against {_rate(theirs)} of theirs."
        )
    reference = value_of(demos.get("return"))
    if reference is not None and _ends(agent.get("return"))[1] < reference - LOST_RETURN * abs(reference):
        words = f"The policy earns clearly less than the demonstrations: {value_of(agent['return']):.4g}, not "
        words += f"{reference:.4g}"
        lengths = value_of(agent.get("length")), value_of(demos.get("length"))
        if lengths[0] is not None and lengths[1] is not None and _ends(agent["length"])[1] < lengths[1]:
            words += f"; its episodes end after {lengths[0]:.4g} steps, theirs after {lengths[1]:.4g}"
        doubts.append(words + ".")
    return doubts


def _about_map(summary: Summary, clauses: list[Clause] | None) -> list[str]:
    doubts = []
    threshold, quality = as_mapping(summary.get("threshold")), as_mapping(summary.get("cost_quality"))
    truth = true_bound(summary)
    if clauses is not None:
        features = {name for clause in clauses for name in clause.features}
        if not clauses:
            doubts.append("No short rule says what the cost forbids: look at its pictures before you use it.")
        elif truth is not None and truth.feature not in features:
            doubts.append(f"The rule misses the true constraint, {truth}: it says nothing about {truth.feature}.")
    elif "boundaries" in summary and not boundaries(summary):
        doubts.append(
            "The map marks no boundary: the cost depends on several features together, or it is too weak along any "
            "single one."
        )
    elif threshold and threshold.get("found") is None:
        doubts.append(f"The map misses the true constraint, {true_bound(summary) or threshold.get('truth')}.")
    auroc, driving = value_of(quality.get("auroc")), value_of(quality.get("auroc_cost"))
    if auroc is not None and driving is not None and auroc < driving - MAP_LOSES:
        doubts.append(
            f"The map marks the true constraint worse (AUROC {auroc:.3f}) than the cost that drove the policy "
            f"({driving:.3f}): it misses part of what was learned."
        )
    return doubts


def _about_training(summary: Summary, metrics: Sequence[Record]) -> list[str]:
    doubts = []
    count = as_mapping(summary.get("demonstrations")).get("trajectories")
    if is_number(count) and TOO_FEW <= count < FEW_DEMONSTRATIONS:
        doubts.append(f"There are only {count} demonstrations: what is missing from them by chance looks forbidden.")
    clipped = series(metrics, "dual/clipped")
    if len(clipped) and clipped.max() > CLIPPED_TOO_OFTEN:
        doubts.append(
            f"In up to {percent(clipped.max())} of the learner's steps a cost input was beyond its clip, where the "
            "cost cannot tell states apart."
        )
    resets = summary.get("resets")
    if is_number(resets) and resets > 0:
        doubts.append(
            f"The policy got stuck where everything costs the same and had to start again {_times(resets)}. It has had "
            "fewer steps to learn than the total suggests."
        )
    ours, theirs = series(metrics, "dual/learner_cost"), series(metrics, "dual/expert_cost")
    if len(ours) > 1 and len(theirs) > 1:
        # The first iteration does not count, because the learner knew no cost. The last three of the others are
        # averaged, because one is noisy; in a short run only the last third, because the learner has hardly begun
        # before. Tiny costs give no warning.
        window = min(3, max(1, (len(ours) - 1) // 3))
        last, reference = ours[-window:].mean(), theirs[-window:].mean()
        if last > STILL_COSTLY * reference and last > 0.05 * ours.max():
            doubts.append(
                "The policy still spends time where the demonstrations do not: its steps cost "
                f"{last:.2g} on average, theirs {reference:.2g}."
            )
    return doubts


# ---------------------------------------------------------------------------------------------------------------------
# Time


def time_words(summary: Summary) -> str:
    """'413,696 environment steps, 1,905 per second: rollouts 131 s (61 %), ...'; empty if no times were recorded."""
    phases = {name: seconds for name, seconds in time_of_phases(summary).items() if seconds >= SHORTEST}
    total, steps, learning = sum(phases.values()), summary.get("steps"), seconds_of_learning(phases)
    if not total:
        return ""
    parts = ", ".join(f"{name} {seconds:.3g} s ({percent(seconds / total)})" for name, seconds in phases.items())
    if not is_number(steps):
        return parts
    return f"{int(steps):,} environment steps, {steps / learning:,.0f} per second: {parts}"


SHORTEST = 0.005
"""Seconds of a phase that is worth a word; a cost that is read as it is has no map to be fitted."""
AROUND_LEARNING = ("set-up", "map", "evaluation")
"""Phases of a run whose time does not grow with the number of steps."""


def seconds_of_learning(phases: dict[str, float]) -> float:
    """Seconds of the phases that grow with the number of steps; of all phases if there are none."""
    return sum(s for name, s in phases.items() if name not in AROUND_LEARNING) or sum(phases.values())


def time_of_phases(summary: Summary) -> dict[str, float]:
    """Seconds of each phase of the run."""
    return {str(k): float(v) for k, v in as_mapping(summary.get("time")).items() if is_number(v) and math.isfinite(v)}


# ---------------------------------------------------------------------------------------------------------------------
# Small things


def series(records: Sequence[Record], key: str) -> np.ndarray:
    """(n,) the numbers under `key` in the records that have it."""
    return np.array([record[key] for record in records if is_number(record.get(key))], dtype=np.float64)


def _times(n: float) -> str:
    return {1: "once", 2: "twice"}.get(int(n), f"{int(n)} times")


def _ends(entry: object) -> tuple[float, float]:
    """The interval of an entry of a table; infinite if it has none."""
    low, high = (as_mapping(entry).get(key) for key in ("low", "high"))
    return (float(low), float(high)) if is_number(low) and is_number(high) else (-math.inf, math.inf)


def with_overlap(quality: Mapping[str, float], explanation: object) -> dict[str, float]:
    """The quality of a cost, with the overlap ("iou") at the learned threshold if only the explanation knows it.

    On a map, the rule is all cells above the threshold. With its precision p and recall r, the overlap is
    1 / (1 / p + 1 / r - 1). A rule without cells has no precision; its overlap is 0.
    """
    entries = as_mapping(explanation)
    truth = as_mapping(entries.get("truth"))
    precision, recall = value_of(truth.get("precision")), value_of(truth.get("recall"))
    is_measured = recall is not None and (precision is not None or recall == 0)
    if not quality or "iou" in quality or entries.get("kind") != "cells" or not is_measured:
        return dict(quality)
    return {**quality, "iou": 1 / (1 / precision + 1 / recall - 1) if precision and recall else 0.0}
