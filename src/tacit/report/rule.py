"""The section "The rule": what was learned in words and one picture, what is not known, how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.errors import UserError
from tacit.explain import in_words
from tacit.explain.findings import percent
from tacit.plots.rules import PARTS, cells, strips
from tacit.report.data import RunData
from tacit.report.html import Section, emphasised, esc, figure, number, table
from tacit.run.summary import CalibrationEntry, Explanation, as_mapping, is_number, value_of

WHICH = {"cost": "cost of the policy", "map": "constraint map"}


def rule(data: RunData, anchor: str) -> Section | None:
    """What `tacit explain` says and `tacit calibrate` promises."""
    words = "" if data.explanation is None else _rule(data.explanation, anchor)
    body = words + _thresholds(data.calibration)
    return Section("The rule", body) if body else None


def _rule(explanation: Explanation, anchor: str) -> str:
    try:
        sentence, *facts = _joined(in_words(explanation))
        if explanation["kind"] == "cells":
            # Maps one by one: side by side in one picture they would be too small to read on a phone.
            images = [cells(explanation, (part,)) for part in PARTS]
        else:
            images = [strips(explanation)]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, UserError):  # a damaged file
        return ""
    caption = (
        "Green is demonstrated; amber is where the true boundary may lie, because no demonstration goes there; orange "
        "is forbidden wherever in the amber band it lies."
        if explanation["kind"] == "features"
        else "Outlined cells are forbidden; struck through are those that neither the demonstrations nor an agent that "
        "follows the reward alone enters."
    )
    if explanation["confidence"] is not None:
        caption += " The horizontal bar is where costs from resampled demonstrations put the boundary."
    items = "".join(f"<li>{emphasised(fact.strip())}</li>" for fact in facts)
    pictures = [figure(images[-1], f"{anchor}-rule", "What is forbidden", esc(caption))]
    if len(images) > 1:
        crossed = "Red crosses, if any, are the hidden constraint. The learner never sees them."
        pictures.insert(0, figure(images[0], f"{anchor}-rule-map", "The map", crossed))
    css = "figures maps" if explanation["kind"] == "cells" else "figures wide"
    figures = f'<div class="{css}">{"".join(pictures)}</div>'
    return f'<p class="rule"><b>{emphasised(sentence)}</b></p>{figures}<ul>{items}</ul>'


def _joined(lines: list[str]) -> list[str]:
    """Indented lines belong to the one before them."""
    joined: list[str] = []
    for line in lines:
        if line.startswith(" ") and joined:
            joined[-1] += f" {line.strip()}"
        elif line:
            joined.append(line)
    return joined


def _thresholds(calibration: Mapping[str, CalibrationEntry]) -> str:
    rows = []
    for name, label in WHICH.items():
        entry = as_mapping(calibration.get(name))
        if not all(is_number(entry.get(key)) for key in ("threshold", "accepts", "accepts_at_least", "demonstrations")):
            continue
        caught = as_mapping(entry.get("power"))
        whole, steps = value_of(caught.get("trajectories")), value_of(caught.get("steps"))
        cells = [
            esc(label),
            number(entry["threshold"]),
            number(entry["demonstrations"]),
            percent(entry["accepts"]),
            percent(entry["accepts_at_least"]),
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
