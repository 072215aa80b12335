"""An explanation (see `tacit.explain`) in words: one sentence, and one line per fact."""

from __future__ import annotations

from typing import cast

from tacit.cost.bounds import Bound, beside, short
from tacit.explain.regions import Distance, Region, digits
from tacit.explain.rules import Clause, Rule
from tacit.metrics import percent
from tacit.run.summary import Agreement, Explanation, FeatureExplanation, as_mapping

CALLED = {"map": "constraint map", "cost": "learned cost"}
NO_GUARANTEE = (
    "This threshold has no guarantee: it was chosen on demonstrations that were learned from. `tacit calibrate` "
    "chooses one that has."
)

THIN = "Demonstrations come within a hair's breadth of it. This may be a habit of the demonstrators, not a rule."


def rule_sentence(rule: Rule) -> str:
    """One sentence: a rule over features, and what the data leave open beyond bounds that stand alone."""
    several = len({name for clause in rule.clauses for name in clause.features}) > 1
    bands = [
        " and ".join(beside(end, bound.value) for end in band) + (f" of {bound.feature}" if several else "")
        for bound in rule.bounds
        if (band := bound.open_band) is not None and bound.certain is not None
    ]
    return str(rule) + (f"; not known between {', '.join(bands)}, where no demonstration goes" if bands else "")


def cells_sentence(rule: str, unknown: str) -> str:
    """One sentence: the forbidden cells, and the unknown ones if there are any."""
    if not unknown:
        return f"forbidden: {rule}"
    return f"forbidden: {rule}; not known: {unknown}, where no demonstration goes and the reward leads nobody"


def in_words(explanation: Explanation) -> list[str]:
    """The explanation, one line per fact."""
    sentence = explanation["sentence"]
    lines = [
        sentence if sentence.startswith("forbidden: ") else f"forbidden: {sentence}",
        "",
        f"The {CALLED[explanation['of']]} forbids states that cost more than {short(explanation['threshold'])}.",
        f"    {explanation['guarantee'] or NO_GUARANTEE}",
    ]
    if explanation["kind"] == "features":
        lines += _clause_lines(explanation)
    elif explanation["extrapolated"]:
        lines.append(
            f"Neither demonstrations nor an unconstrained agent enter {len(explanation['extrapolated'])} of the "
            f"{len(explanation['cells'])} forbidden cells: there the cost is extrapolation."
        )
    lines += _coverage_lines(explanation)
    rejected = explanation["rejected"]
    if "nominal" in rejected:
        lines.append(
            f"The cost rejects {percent(rejected['demonstrations'])} of the demonstrated states, "
            f"{percent(rejected['nominal'])} of those of an agent that follows the reward alone, and "
            f"{percent(rejected['learner'])} of the learned agent's."
        )
    if explanation["kind"] == "features" and explanation.get("margin"):
        margin = " ".join(f"{name}={size:.2g}" for name, size in explanation["margin"].items())
        lines.append(
            f"To stay clear of its edge by about one step, take a margin: `tacit retrain RUN --margin {margin}`."
        )
    lines += _truth_lines(explanation)
    confidence = explanation["confidence"]
    if confidence is not None:
        lines.append(
            f"Confidence: {confidence['members']} costs from resampled demonstrations disagree about "
            f"{percent(confidence['doubtful'])} of the states that were tried. Do not trust the cost there."
        )
    return lines


def _coverage_lines(explanation: Explanation) -> list[str]:
    """How much of the cost the rule says, and what it forbids of the demonstrations."""
    coverage = explanation.get("coverage") or cast(Agreement, as_mapping(explanation.get("fidelity")))
    if not {"recall", "precision", "n"} <= coverage.keys():
        return []
    cells = explanation["kind"] == "cells"
    what = "cells" if cells else "tried states"
    fresh = f"{coverage['n']} cells" if cells else f"{coverage['n']} tried states that it was not fitted to"
    lines = [
        f"The rule covers {percent(coverage['recall'])} of the {what} that the cost rejects (recall), and the cost "
        f"rejects {percent(coverage['precision'])} of those that the rule covers (precision): on {fresh}."
    ]
    forbids = explanation.get("forbids")
    if forbids is not None:
        seen = f"{forbids['n']} held-out demonstrated states"
        if not forbids["held_out"]:
            seen = f"{forbids['n']} demonstrated states. It was fitted to them: no demonstration was held out"
        lines.append(f"The rule forbids {percent(forbids['demonstrations'])} of {seen}.")
    return lines


def _clause_lines(explanation: FeatureExplanation) -> list[str]:
    lines = []
    clauses = [Clause.from_json(entry) for entry in explanation["clauses"]]
    for number, clause in enumerate(clauses):
        word = "Forbidden" if number == 0 else "Forbidden, too"
        share = "This is" if number == 0 else "This adds"
        lines += [f"{word}: {clause}", f"    {share} {percent(clause.share)} of what the cost rejects."]
        for condition in clause.conditions:
            alone = len(clause.conditions) == 1
            described = _bound_lines(condition, alone) if isinstance(condition, Bound) else _region_lines(condition)
            lines += [f"    {text}" for text in described]
        if clause.thin:
            lines.append(f"    {THIN}")
    if explanation["also"]:
        also = ", ".join(explanation["also"])
        lines.append(f"The cost also marks {also}, but almost only where the rule holds anyway.")
    if explanation["instead"]:
        listed = ", ".join(f"{one['text']} ({percent(one['share'])} of it)" for one in explanation["instead"])
        lines.append(f"There may be a different reason: much of what the cost rejects also has {listed}.")
    return lines


def _bound_lines(bound: Bound, alone: bool) -> list[str]:
    """How far the demonstrations go, and what that leaves open; `alone` if nothing else is in the clause."""
    lines = []
    reach = "go down to" if bound.below else "reach"
    if not alone:  # states are compared that meet the clause's other conditions
        if bound.demonstrated is None:
            return []
        text = f"{bound.feature}: where the rest holds, the demonstrations {reach} "
        text += beside(bound.demonstrated, bound.value)
        if (band := bound.open_band) is not None:
            low, high = (beside(end, bound.value) for end in band)
            text += f", so the limit could be anywhere between {low} and {high}"
        return [f"{text}."]
    if bound.demonstrated is not None:
        inside = bound.certain is not None and bound.holds(bound.demonstrated)
        beyond = ", so the rule forbids some of what they do" if inside else ""
        lines.append(f"{bound.feature}: the demonstrations {reach} {beside(bound.demonstrated, bound.value)}{beyond}.")
    band = bound.open_band
    if band is not None:
        low, high = (beside(end, bound.value) for end in band)
        lines.append(
            f"The true limit could be anywhere between {low} and {high}: no demonstration goes there, so the data "
            "cannot tell."
        )
        if bound.certain is not None:
            beyond = f"{'Below' if bound.below else 'Above'} {beside(bound.certain, bound.value)}"
            lines.append(f"{beyond}, every boundary consistent with the data forbids the state.")
    if bound.low is not None and bound.high is not None:
        lines.append(f"Resampled demonstrations put the boundary between {short(bound.low)} and {short(bound.high)}.")
    return lines


def _region_lines(region: Region) -> list[str]:
    """Lines on how near the demonstrations come to the region."""
    edges = zip(region.demonstrated, (region.low, region.high), strict=True)
    below, above = (None if value is None else beside(value, *([] if end is None else [end])) for value, end in edges)
    if isinstance(region, Distance):
        if region.ratio != 1.0:
            return []
        place = f"({digits(region.centre[0])}, {digits(region.centre[1])})"
        ends = [end for end in (below, above) if end is not None]
        return [f"The demonstrated states nearest to its edge are {' and '.join(ends)} from {place}."] if ends else []
    reach = [] if below is None else [f"up to {below}"]
    reach += [] if above is None else [f"down to {above}"]
    return [f"{region.quantity}: the demonstrations go {' and '.join(reach)}."] if reach else []


def _truth_lines(explanation: Explanation) -> list[str]:
    truth = explanation["truth"]
    if truth is None:
        return ["The environment does not state the true constraint, so precision and recall are not known."]
    stated = "" if truth["constraint"] is None else f" ({truth['constraint']})"
    lines = [
        f"Against the truth{stated}, which nothing was fitted to: {percent(truth['precision'])} of what the rule "
        f"forbids is truly forbidden (precision), and it forbids {percent(truth['recall'])} of what truly is (recall)."
    ]
    certain = truth["certain"]
    defined = certain["precision"] == certain["precision"]
    open_too = (certain["precision"], certain["recall"]) != (truth["precision"], truth["recall"])
    if explanation["kind"] == "features" and defined and open_too and truth["precision"] < 0.995:
        lines.append(
            f"    Without the states that the data leave open: precision {percent(certain['precision'])}, "
            f"recall {percent(certain['recall'])}."
        )
    return lines
