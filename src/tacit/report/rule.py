"""The section that says in words and one picture what was learned: the rule, what is not known, how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.explain import in_words
from tacit.explain.findings import percent
from tacit.plots.rules import PARTS, cells, strips
from tacit.report.data import RunData
from tacit.report.html import Section, emphasised, esc, figure, is_number, number, table, value_of

WHICH = {"cost": "cost of the policy", "map": "constraint map"}


def rule(data: RunData, anchor: str) -> Section | None:
    """What `tacit explain` found and `tacit calibrate` promises."""
    body = _rule(data.explanation, anchor) + _thresholds(data.calibration)
    return Section("The rule", body) if body else None


def _rule(found: Mapping[str, Any], anchor: str) -> str:
    try:
        sentence, *facts = _joined(in_words(found))
        # Maps one by one: side by side in one picture they would be too small to read on a phone.
        drawn = [cells(found, (part,)) for part in PARTS] if found["kind"] == "cells" else [strips(found)]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):  # nothing, or a damaged file
        return ""
    caption = (
        "Green is demonstrated; amber is where the true boundary may lie, because no demonstration goes there; orange "
        "is forbidden wherever in the amber band it lies."
        if found["kind"] == "features"
        else "Outlined cells are forbidden; struck through are those that neither the demonstrations nor an agent that "
        "follows the reward alone enters."
    )
    if found["confidence"] is not None:
        caption += " The horizontal bar is where costs from resampled demonstrations put the boundary."
    items = "".join(f"<li>{emphasised(fact.strip())}</li>" for fact in facts)
    pictures = [figure(drawn[-1], f"{anchor}-rule", "What is forbidden", esc(caption))]
    if len(drawn) > 1:
        crossed = "Red crosses, if any, are the hidden constraint. The learner never sees them."
        pictures.insert(0, figure(drawn[0], f"{anchor}-rule-map", "The map", crossed))
    css = "figures maps" if found["kind"] == "cells" else "figures wide"
    shown = f'<div class="{css}">{"".join(pictures)}</div>'
    return f'<p class="rule"><b>{emphasised(sentence)}</b></p>{shown}<ul>{items}</ul>'


def _joined(lines: list[str]) -> list[str]:
    """Indented lines belong to the one before them."""
    joined: list[str] = []
    for line in lines:
        if line.startswith(" ") and joined:
            joined[-1] += f" {line.strip()}"
        elif line:
            joined.append(line)
    return joined


def _thresholds(calibration: Mapping[str, Any]) -> str:
    rows = []
    for name, label in WHICH.items():
        found = calibration.get(name)
        if not isinstance(found, Mapping) or not all(
            is_number(found.get(key)) for key in ("threshold", "accepts", "accepts_at_least", "demonstrations")
        ):
            continue
        power = found.get("power")
        caught = power if isinstance(power, Mapping) else {}
        whole, steps = value_of(caught.get("trajectories")), value_of(caught.get("steps"))
        cells = [
            esc(label),
            number(found["threshold"]),
            number(found["demonstrations"]),
            percent(found["accepts"]),
            percent(found["accepts_at_least"]),
            "–" if whole is None else percent(whole),
            "–" if steps is None else percent(steps),
        ]
        rows.append((cells, ""))
    if not rows:
        return ""
    head = ["", "threshold", "held out", "accepts at least", "with 95 % confidence", "rejects: trajectories", "steps"]
    words = (
        "A demonstration drawn like those that were held out stays below the threshold at every step with the given "
        "probability: a guarantee about false alarms. What is rejected of an agent without constraint is its power."
    )
    return f"<h3>Thresholds with a guarantee</h3><p>{words}</p>" + table("thresholds", head, rows)
