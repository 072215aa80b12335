"""What a run on samples found, in plain sentences: for the terminal and, with **emphasis** made bold, for the page.

Everything is read from summary.json and metrics.jsonl, whatever algorithm wrote them; what they lack is not said.

    summary["boundaries"]       [{"feature", "relation", "value", "demonstrated", "share"}, ...], see constraint_map.py
    summary["threshold"]        {"truth": "x_position > 0.5", "found": str or None, "error": number}
    summary["table"]            the agents, among them "demonstrations" and "learned"
    summary["demonstrations"]   {"trajectories": number, ...}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from tacit.cost import CLIPPED_TOO_OFTEN
from tacit.demos.data import FEW_DEMONSTRATIONS

Record = Mapping[str, Any]


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def value_of(entry: object) -> float | None:
    """The number of an entry of a table, which is a number or {"value": ..., "low": ..., "high": ...}."""
    if isinstance(entry, Mapping):
        entry = entry.get("value", entry.get("mean"))
    return float(entry) if is_number(entry) else None


LOST_RETURN = 0.1
"""Share of the demonstrations' return from which a loss is worth a word."""
STILL_COSTLY = 3.0
"""How many times the demonstrations' cost a learner may pay that behaves like them."""
MAP_LOSES = 0.1
"""By how much the map's AUROC may be below that of the cost it stands for."""


class Bound(NamedTuple):
    """What is beyond `value` is forbidden: learned, or true."""

    feature: str
    relation: str
    """Begins with "<" or ">": the forbidden side."""
    value: float
    demonstrated: float = math.nan
    """The demonstrations' extreme on that side."""
    share: float = math.nan
    """Of what the learner tried, beyond it."""

    def __str__(self) -> str:
        return f"{self.feature} {self.relation} {self.value:.4g}"

    @property
    def below(self) -> bool:
        return self.relation.startswith("<")


def boundaries(summary: Record) -> list[Bound]:
    """Those of the constraint map, the one that explains most first; the one beside the truth is always among them."""
    entries = summary.get("boundaries")
    found = []
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping) and entry.get("relation") in ("<", ">") and is_number(entry.get("value")):
            numbers = (float(x) if is_number(x := entry.get(key)) else math.nan for key in ("demonstrated", "share"))
            found.append(Bound(str(entry.get("feature")), entry["relation"], float(entry["value"]), *numbers))
    threshold = _mapping(summary.get("threshold"))
    beside, reached = _parsed(threshold.get("found")), threshold.get("demonstrated")
    if beside is not None and beside[:2] not in [bound[:2] for bound in found]:
        found.append(beside._replace(demonstrated=float(reached) if is_number(reached) else math.nan))
    return found


def true_bound(summary: Record) -> Bound | None:
    """The environment's own constraint, if it is a bound on a feature."""
    return _parsed(_mapping(summary.get("threshold")).get("truth"))


def _parsed(text: Any) -> Bound | None:
    """'x_position > 0.5'"""
    parts = str(text).rsplit(" ", 2)
    try:
        return Bound(parts[0], parts[1], float(parts[2])) if parts[1][:1] in ("<", ">") else None
    except (IndexError, ValueError):
        return None


# ---------------------------------------------------------------------------------------------------------------------
# What was learned


def learned(summary: Record) -> list[str]:
    """The constraint in words, and beside it the truth where it is known."""
    found, truth = boundaries(summary), true_bound(summary)
    if "boundaries" not in summary:
        return []
    count = _mapping(summary.get("demonstrations")).get("trajectories")
    source = f"{count} demonstrations" if is_number(count) and count != 1 else "the demonstration"
    if found:
        first, *others = found
        sentence = f"Learned from {source}: **{first}** is forbidden."
        if not math.isnan(first.demonstrated):
            reach = f"The demonstrations {'go down to' if first.below else 'reach'} {first.demonstrated:.4g}"
            apart = f"{first.demonstrated:.4g}" != f"{first.value:.4g}"
            sentence += f" {reach}; nobody demonstrated anything in between." if apart else f" {reach}, too."
        if not math.isnan(first.share):
            sentence += f" {percent(first.share)} of what the learner tried lies beyond it."
        if others:
            more = ", ".join(f"{b} ({percent(b.share)})" if not math.isnan(b.share) else str(b) for b in others)
            sentence += f" The map also marks {more}."
    else:
        sentence = f"The map learned from {source} **marks no boundary** on any single feature."
    return [sentence if truth is None else f"{sentence} {_beside_truth(summary, truth)}"]


def _beside_truth(summary: Record, truth: Bound) -> str:
    threshold = _mapping(summary.get("threshold"))
    sentence = f"The true constraint, which the learner never saw, is **{truth}**"
    error = threshold.get("error")
    if threshold.get("found") is None or not is_number(error):
        return f"{sentence}; the map has no boundary on that side of {truth.feature}."
    if error > 0:
        return f"{sentence}; the learned boundary lies {error:.3g} beyond it."
    return f"{sentence}; the learned boundary lies between it and the demonstrations, where it must."


def behaviour(table: Mapping[str, Record]) -> list[str]:
    """What the policy does beside the demonstrations."""
    agent, shown = table.get("learned", {}), table.get("demonstrations", {})
    earned = value_of(agent.get("return"))
    if earned is None or not shown:
        return []
    sentence = f"The learned policy earns **{earned:.4g}** an episode{_interval(agent.get('return'))}"
    reference = value_of(shown.get("return"))
    sentence += "." if reference is None else f", the demonstrations {reference:.4g}."
    key = "violation_rate_episode"
    if value_of(agent.get(key)) is None:
        return [f"{sentence} Whether it keeps to the true constraint is not known: the environment does not say."]
    sentence += f" It breaks the true constraint in **{_rate(agent.get(key))}** of its episodes"
    sentence += _interval(agent.get(key), share=True)
    if value_of(shown.get(key)) is not None:
        sentence += f", the demonstrations in {_rate(shown.get(key))}"
    quiet = table.get("learned, deterministic", {})
    if value_of(quiet.get(key)) is not None:
        sentence += f"; without the noise of its actions in {_rate(quiet.get(key))}"
    return [sentence + "."]


def _rate(entry: Any) -> str:
    value = value_of(entry) or 0.0
    return "none" if value == 0 else percent(value)


def _interval(entry: Any, share: bool = False) -> str:
    low, high = _ends(entry)
    if math.isinf(low) or math.isinf(high):
        return ""
    ends = f"{100 * low:.3g} to {percent(high)}" if share else f"{low:.4g} to {high:.4g}"
    return f" (95 % interval {ends})"


# ---------------------------------------------------------------------------------------------------------------------
# What is doubtful


def doubts(summary: Record, metrics: Sequence[Record] = ()) -> list[str]:
    """Reasons not to trust the result, each a sentence; none for a run that shows none."""
    table = {name: _mapping(row) for name, row in _mapping(summary.get("table")).items()}
    if "demonstrations" not in table and "boundaries" not in summary:
        return []
    agent, shown = table.get("learned", {}), table.get("demonstrations", {})
    return [
        *_about_behaviour(agent, shown),
        *_about_map(summary),
        *_about_training(summary, metrics),
    ]


def _about_behaviour(agent: Record, shown: Record) -> list[str]:
    found = []
    rate, theirs = agent.get("violation_rate_episode"), value_of(shown.get("violation_rate_episode"))
    if theirs is not None and value_of(rate) is not None and _ends(rate)[0] > theirs:
        found.append(
            f"The policy breaks the true constraint more often than the demonstrations do: in {_rate(rate)} of its "
            f"episodes, they in {_rate(theirs)}."
        )
    reference = value_of(shown.get("return"))
    if reference is not None and _ends(agent.get("return"))[1] < reference - LOST_RETURN * abs(reference):
        words = f"The policy earns clearly less than the demonstrations: {value_of(agent['return']):.4g}, they "
        words += f"{reference:.4g}"
        lengths = value_of(agent.get("length")), value_of(shown.get("length"))
        if lengths[0] is not None and lengths[1] is not None and _ends(agent["length"])[1] < lengths[1]:
            words += f"; its episodes end after {lengths[0]:.4g} steps, theirs after {lengths[1]:.4g}"
        found.append(words + ".")
    return found


def _about_map(summary: Record) -> list[str]:
    found = []
    threshold, quality = _mapping(summary.get("threshold")), _mapping(summary.get("cost_quality"))
    if "boundaries" in summary and not boundaries(summary):
        found.append(
            "The map marks no boundary: either the cost depends on several features together, or it is too weak to "
            "read one feature at a time."
        )
    elif threshold and threshold.get("found") is None:
        found.append(f"The map misses the true constraint, {true_bound(summary) or threshold.get('truth')}.")
    auroc, driving = value_of(quality.get("auroc")), value_of(quality.get("auroc_cost"))
    if auroc is not None and driving is not None and auroc < driving - MAP_LOSES:
        found.append(
            f"The map marks the true constraint worse (AUROC {auroc:.3f}) than the cost that drove the policy "
            f"({driving:.3f}): it does not show all that was learned."
        )
    return found


def _about_training(summary: Record, metrics: Sequence[Record]) -> list[str]:
    found = []
    count = _mapping(summary.get("demonstrations")).get("trajectories")
    if is_number(count) and count < FEW_DEMONSTRATIONS:
        found.append(
            f"There {'is' if count == 1 else 'are'} only {count} demonstration{'' if count == 1 else 's'}: what they "
            "leave out by chance looks forbidden."
        )
    clipped = series(metrics, "dual/clipped")
    if len(clipped) and clipped.max() > CLIPPED_TOO_OFTEN:
        found.append(
            f"In up to {percent(clipped.max())} of the learner's steps a cost input was beyond its clip, where the "
            "cost cannot tell states apart."
        )
    resets = summary.get("resets")
    if is_number(resets) and resets > 0:
        found.append(
            f"The policy was trapped where everything costs the same and had to start again {_times(resets)}; it has "
            "had fewer steps to learn than it seems."
        )
    ours, theirs = series(metrics, "dual/learner_cost"), series(metrics, "dual/expert_cost")
    if len(ours) > 1 and len(theirs) > 1:
        # Never the first iteration, in which the learner knew no cost. Of the others the last three, because one is
        # noisy; but of few only the last third, because the learner has hardly begun before. And not for costs that
        # are next to nothing.
        window = min(3, max(1, (len(ours) - 1) // 3))
        last, reference = ours[-window:].mean(), theirs[-window:].mean()
        if last > STILL_COSTLY * reference and last > 0.05 * ours.max():
            found.append(
                "The policy still spends time where the demonstrations do not: its steps cost "
                f"{last:.2g} on average, theirs {reference:.2g}."
            )
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Time


def time_words(summary: Record) -> str:
    """'413,696 environment steps, 1,905 a second: rollouts 131 s (61 %), ...'; nothing if the run did not say."""
    phases = time_of_phases(summary)
    total, steps, learning = sum(phases.values()), summary.get("steps"), seconds_of_learning(phases)
    if not total:
        return ""
    parts = ", ".join(f"{name} {seconds:.3g} s ({percent(seconds / total)})" for name, seconds in phases.items())
    return f"{int(steps):,} environment steps, {steps / learning:,.0f} a second: {parts}" if is_number(steps) else parts


AROUND_LEARNING = ("set-up", "map", "evaluation")
"""Phases of a run that do not grow with the number of steps."""


def seconds_of_learning(phases: dict[str, float]) -> float:
    """What the steps took; all that there is if nothing else was measured."""
    return sum(s for name, s in phases.items() if name not in AROUND_LEARNING) or sum(phases.values())


def time_of_phases(summary: Record) -> dict[str, float]:
    """Seconds of each phase of the run."""
    return {str(k): float(v) for k, v in _mapping(summary.get("time")).items() if is_number(v) and math.isfinite(v)}


# ---------------------------------------------------------------------------------------------------------------------
# Small things


def percent(share: float) -> str:
    return f"{100 * share:.3g} %" if abs(share) < 0.9995 else f"{100 * share:.0f} %"


def series(records: Sequence[Record], key: str) -> np.ndarray:
    """(n,) of the records that have the number."""
    return np.array([record[key] for record in records if is_number(record.get(key))], dtype=np.float64)


def _times(n: float) -> str:
    return {1: "once", 2: "twice"}.get(int(n), f"{int(n)} times")


def _mapping(value: Any) -> Record:
    return value if isinstance(value, Mapping) else {}


def _ends(entry: Any) -> tuple[float, float]:
    """Of the interval of a table's entry; without end if it has none."""
    low, high = (_mapping(entry).get(key) for key in ("low", "high"))
    return (float(low), float(high)) if is_number(low) and is_number(high) else (-math.inf, math.inf)
