"""An explanation (see `tacit.explain`) in words: one sentence, and one line per fact."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.cost.bounds import Bound, short
from tacit.run.summary import Explanation, FeatureExplanation

CALLED = {"map": "constraint map", "cost": "learned cost"}
NO_GUARANTEE = "no guarantee: chosen on demonstrations that were learned from; see `tacit calibrate`"


def rule_sentence(rule: str, bounds: Sequence[Bound]) -> str:
    """One sentence: a rule over features, and what the data leave open."""
    several = len({bound.feature for bound in bounds}) > 1
    bands = [
        f"{short(band[0])} and {short(band[1])}" + (f" of {bound.feature}" if several else "")
        for bound in bounds
        if (band := bound.open_band) is not None
    ]
    return rule + (f"; not known between {', '.join(bands)}, where no demonstration goes" if bands else "")


def cells_sentence(rule: str, unknown: str) -> str:
    """One sentence: the forbidden cells, and the unknown ones if there are any."""
    if not unknown:
        return f"forbidden: {rule}"
    return f"forbidden: {rule}; not known: {unknown}, where no demonstration goes and the reward leads nobody"


def in_words(explanation: Explanation) -> list[str]:
    """The explanation, one line per fact."""
    lines = [
        explanation["sentence"],
        "",
        f"The {CALLED[explanation['of']]} forbids states that cost more than {short(explanation['threshold'])}.",
        f"  ({explanation['guarantee'] or NO_GUARANTEE})",
    ]
    fidelity = explanation["fidelity"]
    agree = f"Fidelity: rule and cost agree on {_percent(fidelity['agreement'])} of"
    if explanation["kind"] == "features":
        lines += _clause_lines(explanation)
        lines.append(f"{agree} the states that were tried ({fidelity['n']} that the rule was not fitted to).")
    else:
        if explanation["extrapolated"]:
            lines.append(
                f"Neither demonstrations nor an unconstrained agent enter {len(explanation['extrapolated'])} of the "
                f"{len(explanation['cells'])} forbidden cells: there the cost is extrapolation."
            )
        lines.append(f"{agree} {fidelity['n']} cells.")
    rejected = explanation["rejected"]
    if "nominal" in rejected:
        lines.append(
            f"The cost rejects {_percent(rejected['demonstrations'])} of the demonstrated states, "
            f"{_percent(rejected['nominal'])} of those of an agent that follows the reward alone, and "
            f"{_percent(rejected['learner'])} of the learned agent's."
        )
    lines += _truth_lines(explanation)
    confidence = explanation["confidence"]
    if confidence is not None:
        lines.append(
            f"Confidence: {confidence['members']} costs from resampled demonstrations disagree about "
            f"{_percent(confidence['doubtful'])} of the states that were tried. Do not trust the cost there."
        )
    return lines


def _clause_lines(explanation: FeatureExplanation) -> list[str]:
    lines = []
    for number, clause in enumerate(explanation["clauses"]):
        word = "Forbidden" if number == 0 else "or"
        lines.append(f"{word}: {clause['text']}   ({_percent(clause['share'])} of what the cost rejects)")
        for entry in clause["bounds"]:
            lines += [f"    {text}" for text in _bound_lines(Bound.from_json(entry))]
    if explanation["also"]:
        also = ", ".join(explanation["also"])
        lines.append(f"The cost also marks {also}, but almost only where the rule holds anyway.")
    if explanation["instead"]:
        listed = ", ".join(f"{one['text']} ({_percent(one['share'])} of it)" for one in explanation["instead"])
        lines.append(f"There may be a different reason: much of what the cost rejects also has {listed}.")
    return lines


def _bound_lines(bound: Bound) -> list[str]:
    lines = []
    if bound.demonstrated is not None:
        reach = "go down to" if bound.below else "reach"
        lines.append(f"{bound.feature}: the demonstrations {reach} {short(bound.demonstrated)}.")
    band = bound.open_band
    if band is not None:
        lines.append(
            f"The true limit could be anywhere between {short(band[0])} and {short(band[1])}: no demonstration goes "
            "there, so the data cannot tell."
        )
        if bound.certain is not None:
            beyond = f"{'Below' if bound.below else 'Above'} {short(bound.certain)}"
            lines.append(f"{beyond}, every boundary consistent with the data forbids the state.")
    if bound.low is not None and bound.high is not None:
        lines.append(f"Resampled demonstrations put the boundary between {short(bound.low)} and {short(bound.high)}.")
    return lines


def _truth_lines(explanation: Explanation) -> list[str]:
    truth = explanation["truth"]
    if truth is None:
        return ["The environment does not state the true constraint, so precision and recall are not known."]
    stated = "" if truth["constraint"] is None else f" ({truth['constraint']})"
    lines = [
        f"Against the truth{stated}, which nothing was fitted to: {_percent(truth['precision'])} of what the rule "
        f"forbids is truly forbidden (precision), and it forbids {_percent(truth['recall'])} of what truly is (recall)."
    ]
    certain = truth["certain"]
    defined = certain["precision"] == certain["precision"]
    if explanation["kind"] == "features" and defined and truth["precision"] < 0.995:
        lines.append(
            f"  Without the states that the data leave open: precision {_percent(certain['precision'])}, "
            f"recall {_percent(certain['recall'])}."
        )
    return lines


def _percent(share: float) -> str:
    return "none" if share != share else f"{100 * share:.3g} %"
