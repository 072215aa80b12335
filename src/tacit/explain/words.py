"""An explanation (see `tacit.explain`) in words: one sentence, and a line a fact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.explain import rules
from tacit.explain.rules import short

Found = dict[str, Any]
CALLED = {"map": "constraint map", "cost": "learned cost"}


def sentence(found: Found) -> str:
    """The rule and what is not known, in one sentence."""
    if found["kind"] == "cells":
        words = f"forbidden: {found['rule']}"
        if found["unknown"]:
            words += (
                f"; not known: {found['unknown_in_words']}, where no demonstration goes and the reward leads nobody"
            )
        return words
    words = found["rule"]
    bands = [
        f"{short(band[0])} and {short(band[1])}" + (f" of {bound.feature}" if _many(found) else "")
        for bound in _bounds(found)
        if (band := bound.open_band) is not None
    ]
    if bands:
        words += f"; not known between {', '.join(bands)}, where no demonstration goes"
    return words


def _bounds(found: Found) -> list[rules.Bound]:
    keys = rules.Bound.__dataclass_fields__
    return [rules.Bound(**{k: b[k] for k in keys}) for clause in found["clauses"] for b in clause["bounds"]]


def _many(found: Found) -> bool:
    return len({bound.feature for bound in _bounds(found)}) > 1


def in_words(found: Mapping[str, Any]) -> list[str]:
    """The explanation, a line a fact."""
    found = dict(found)
    sure = found["guarantee"] or "no guarantee: read off demonstrations that were learned from; see `tacit calibrate`"
    lines = [
        found["sentence"],
        "",
        f"The {CALLED[found['of']]} forbids what costs more than {short(found['threshold'])}.",
    ]
    lines.append(f"  ({sure})")
    if found["kind"] == "features":
        lines += _clause_lines(found)
    elif found["extrapolated"]:
        lines.append(
            f"{len(found['extrapolated'])} of the {len(found['cells'])} forbidden cells are entered neither by the "
            "demonstrations nor by an agent without constraint: there the cost is extrapolation."
        )
    fidelity = found["fidelity"]
    what = "states that were tried" if found["kind"] == "features" else "cells"
    lines.append(
        f"Fidelity: rule and cost agree on {_percent(fidelity['agreement'])} of the {what} "
        f"({fidelity['n']}, not those that the rule was fitted to)."
        if found["kind"] == "features"
        else f"Fidelity: rule and cost agree on {_percent(fidelity['agreement'])} of {fidelity['n']} {what}."
    )
    rejected = found["rejected"]
    if "nominal" in rejected:
        lines.append(
            f"The cost rejects {_percent(rejected['demonstrations'])} of the demonstrated states, "
            f"{_percent(rejected['nominal'])} of those of an agent that follows the reward alone, and "
            f"{_percent(rejected['learner'])} of the learned agent's."
        )
    lines += _truth_lines(found)
    confidence = found["confidence"]
    if confidence is not None:
        lines.append(
            f"Confidence: {confidence['members']} costs from resampled demonstrations disagree about "
            f"{_percent(confidence['doubtful'])} of the states that were tried; do not trust the cost there."
        )
    return lines


def _clause_lines(found: Found) -> list[str]:
    lines = []
    bounds = iter(_bounds(found))
    for number, clause in enumerate(found["clauses"]):
        word = "Forbidden" if number == 0 else "or"
        lines.append(f"{word}: {clause['text']}   ({_percent(clause['share'])} of what the cost rejects)")
        for _ in clause["bounds"]:
            lines += [f"    {text}" for text in _bound_lines(next(bounds))]
    if found["also"]:
        lines.append(f"The cost also marks {', '.join(found['also'])}, hardly ever where the rule does not hold.")
    if found["instead"]:
        listed = ", ".join(f"{one['text']} ({_percent(one['share'])} of it)" for one in found["instead"])
        lines.append(
            f"The demonstrations cannot tell whether there is a different reason: much of it also has {listed}."
        )
    return lines


def _bound_lines(bound: rules.Bound) -> list[str]:
    lines = []
    if bound.demonstrated is not None:
        reach = "go down to" if bound.relation == "<" else "reach"
        lines.append(f"{bound.feature}: the demonstrations {reach} {short(bound.demonstrated)}.")
    band = bound.open_band
    if band is not None:
        sure = "" if bound.certain is None else f" Beyond {short(bound.certain)} all of these forbid."
        lines.append(
            f"Where between {short(band[0])} and {short(band[1])} the boundary lies cannot be known: no demonstration "
            f"goes there.{sure}"
        )
    if bound.low is not None and bound.high is not None:
        lines.append(f"Resampled demonstrations put the boundary between {short(bound.low)} and {short(bound.high)}.")
    return lines


def _truth_lines(found: Found) -> list[str]:
    truth = found["truth"]
    if truth is None:
        return ["The environment does not say what is truly forbidden; precision and recall are not known."]
    stated = "" if truth["constraint"] is None else f" ({truth['constraint']})"
    words = (
        f"Against the truth{stated}, which nothing was fitted to: {_percent(truth['precision'])} of what the rule "
        f"forbids is truly forbidden (precision), and it forbids {_percent(truth['recall'])} of what truly is (recall)."
    )
    lines = [words]
    certain = truth["certain"]
    if found["kind"] == "features" and certain["precision"] == certain["precision"] and truth["precision"] < 0.995:
        lines.append(
            f"  Beyond the bands that are not known: precision {_percent(certain['precision'])}, "
            f"recall {_percent(certain['recall'])}."
        )
    return lines


def _percent(share: float) -> str:
    return "none" if share != share else f"{100 * share:.3g} %"
