"""The sections that judge: the result in words, whether it is proved, and what to do if there is no solution."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit.explain import findings
from tacit.metrics import lookup, rounded_up
from tacit.report.data import RunData
from tacit.report.html import Section, coded, define, details, emphasised, esc, facts, number, table
from tacit.run.summary import Record, as_mapping, is_number, value_of


class Check(NamedTuple):
    """One number of the certificate: its meaning, and the size below which it is small."""

    label: str
    meaning: str
    good: float = 1e-5
    fair: float = 1e-2


CERTIFICATE: dict[str, Check] = {
    "gap": Check(
        "duality gap",
        "How much better than the learned policy any policy that respects the same constraints could possibly be, in "
        "units of return. Zero proves the optimum. It can be negative while the policy is infeasible, so read it "
        "together with the infeasibility.",
    ),
    "kkt": Check(
        "KKT residual",
        "How far the weights of the cost are from satisfying the conditions of optimality: every weight is zero or its "
        "constraint is met with equality.",
    ),
    "infeasibility": Check(
        "infeasibility",
        "By how much the learned policy exceeds, at worst, what the demonstrations and the budget allow (discounted "
        "visits).",
    ),
    "planner_residual": Check(
        "planner's residual",
        "How far the policy is from the exact answer of the planner to its own cost: the error left in the Bellman "
        "equation.",
        1e-8,
        1e-4,
    ),
    "backward_error": Check(
        "backward error",
        "The learned policy is exactly optimal for a problem whose budget differs from yours by no more than this. "
        "It needs no assumption.",
    ),
}
STATIONARITY = Check(
    "stationarity",
    "How far the weights of the cost are from a point where no small change makes the demonstrations more likely.",
)


# ---------------------------------------------------------------------------------------------------------------------
# The answer


def answer(data: RunData, anchor: str) -> Section | None:
    """The section with the result in words, and the most important numbers."""
    infeasible = data.status == "infeasible"
    sentences = _infeasible_words(data) if infeasible else [*_sampled_words(data), *_cost_words(data)]
    stated = data.summary.get("statement")
    if isinstance(stated, str) and stated and not data.certificate and not infeasible:
        sentences.insert(0, coded(stated))
    certified = _certificate_words(data)
    if certified and not infeasible:
        sentences.append(certified)
    if not sentences:
        sentences = ["This run folder has no summary yet. The sections below show what it has."]
    body = "".join(f"<p>{sentence}</p>" for sentence in sentences)
    if not infeasible:
        body += _key_numbers(data) + _doubts(data)
    if data.notes:
        body += "".join(f'<p class="missing">{coded(note)}</p>' for note in data.notes)
    return Section(
        "No constraint fits" if infeasible else "What was found", body, "answer infeasible" if infeasible else "answer"
    )


def _sampled_words(data: RunData) -> list[str]:
    """What a deep run learned and how its policy behaves; without demonstrations, only how the agents behave."""
    words = [*findings.learned(data.summary, data.explanation), *findings.behaviour(data.table)]
    return [emphasised(sentence) for sentence in words] or _behaviour_words(data)


def _doubts(data: RunData) -> str:
    doubts = findings.doubts(data.summary, data.metrics, data.explanation)
    items = "".join(f"<li>{emphasised(text)}</li>" for text in doubts)
    return f'<h3><span class="fair">~ doubtful</span></h3><ul>{items}</ul>' if items else ""


def _rate_key(row: Record) -> str | None:
    for key in ("violation_rate_step", "violation_rate", "violation_rate_episode"):
        if value_of(row.get(key)) is not None:
            return key
    return None


def _behaviour_words(data: RunData) -> list[str]:
    learned, expert, free = (data.table.get(name, {}) for name in ("learned", "expert", "unconstrained"))
    key = _rate_key(learned)
    if key is None:
        return []
    what = "episodes" if key == "violation_rate_episode" else "steps"
    rate = {name: value_of(row.get(key)) for name, row in (("learned", learned), ("expert", expert), ("free", free))}
    words = []
    if rate["free"] is not None:
        words.append(
            "An agent that only follows the reward breaks the hidden constraint in "
            f"<b>{number(rate['free'], 'share')}</b> of its {what}."
        )
    sentence = (
        f"With the constraint that was learned from the demonstrations it does so in "
        f"<b>{number(rate['learned'] or 0.0, 'share')}</b>"
    )
    if rate["expert"] is not None:
        sentence += f"; the expert in {number(rate['expert'], 'share')}"
    returns = [value_of(row.get("return")) for row in (learned, expert)]
    if returns[0] is not None:
        sentence += f". It earns a return of <b>{number(returns[0])}</b>"
        if returns[1] is not None:
            sentence += f" (the expert {number(returns[1])})"
    return [" ".join([*words, sentence + "."])]


def _cost_words(data: RunData) -> list[str]:
    quality, truth = data.quality, data.arrays.get("true_constraint")
    words = []
    marked, where = _marked(data), "At its threshold"
    cost, best = data.arrays.get("cost_state", data.arrays.get("forbidden")), value_of(quality.get("best_threshold"))
    if marked is None and cost is not None and best is not None:
        marked, where = cost > best, "At the threshold that suits the truth best,"
    if truth is not None and marked is not None and truth.any():
        hits, false = int((marked & truth.astype(bool)).sum()), int((marked & ~truth.astype(bool)).sum())
        words.append(
            f"{where} the learned cost marks <b>{hits} of the {int(truth.sum())}</b> truly constrained cells and "
            f"{_count(false, 'allowed one', 'allowed ones')}."
        )
    auroc = value_of(quality.get("auroc"))
    if auroc is not None:
        what = "cell" if data.layout else "state that the learner tried"
        it = "The map" if data.has_map else "The cost" if "boundaries" in data.summary else "It"
        words.append(f"{it} ranks a constrained {what} above an allowed one with probability {number(auroc, 'score')}.")
    unknown = data.arrays.get("unknown")
    if unknown is not None and (unknown > 0.5).any():
        words.append(
            f"How much a visit costs cannot be told for {int((unknown > 0.5).sum())} of the {len(unknown)} cells."
        )
    return [" ".join(words)] if words else []


def _marked(data: RunData) -> np.ndarray | None:
    """(S,) the cells that the learned threshold marks; None if the run was not explained."""
    cells, row, col = (as_mapping(data.explanation).get("cells"), data.arrays.get("row"), data.arrays.get("col"))
    if not isinstance(cells, list) or row is None or col is None:
        return None
    chosen = {tuple(cell) for cell in cells if isinstance(cell, list)}
    return np.array([(int(r), int(c)) in chosen for r, c in zip(row, col, strict=True)])


def _count(n: int, one: str, many: str) -> str:
    return f"{'no' if n == 0 else n} {one if n == 1 else many}"


def _key_numbers(data: RunData) -> str:
    learned = data.table.get("learned", {})
    name = "expert" if "expert" in data.table else "demonstrations"
    expert = data.table.get(name, {})
    keys = ["return", "terminated_return", _rate_key(learned), "violation_rate_episode", "violation_occupancy"]
    tiles = []
    for key in dict.fromkeys(key for key in keys if key):
        value, reference = value_of(learned.get(key)), value_of(expert.get(key))
        if value is not None:
            note = "" if reference is None else f"{name} {number(reference, lookup(key).unit)}"
            tiles.append(_tile(key, number(value, lookup(key).unit), note))
    for key in ("auroc", "iou"):
        value = value_of(data.quality.get(key))
        if value is not None:
            tiles.append(_tile(key, number(value, lookup(key).unit), "1 is perfect"))
    return f'<dl class="keys">{"".join(tiles[:6])}</dl>' if tiles else ""


def _tile(key: str, value: str, note: str) -> str:
    metric = lookup(key)
    return (
        f'<div><dt>{define(metric.label, metric.definition)}</dt><dd><span class="big">{value}</span>'
        f'<div class="note">{note}</div></dd></div>'
    )


# ---------------------------------------------------------------------------------------------------------------------
# No solution


def _infeasible_words(data: RunData) -> list[str]:
    words = [
        "There is no cost to learn from these demonstrations with this budget: <b>no policy at all</b> stays within "
        "what they allow. This is proved; it is not a failure of the solver."
    ]
    statement = data.certificate.get("statement")
    diagnosed = "text" in as_mapping(data.summary.get("diagnosis"))
    if isinstance(statement, str) and statement and not diagnosed:
        words.append(coded(statement))
    return words


def diagnosis(data: RunData, anchor: str) -> Section | None:
    """The section on why there is no solution and what to do, from summary.json's "diagnosis".

    {"text": str, "features": [{"name", "expert", "least", "blame"}, ...], "budgets": [{"budget", "why"}, ...]}; the
    lists may also hold plain strings or numbers.
    """
    stored: object = data.summary.get("diagnosis")
    proof: Record = {"text": stored} if isinstance(stored, str) else as_mapping(stored)
    parts = [f"<p>{coded(proof['text'])}</p>"] if isinstance(proof.get("text"), str) else []
    features = _as_records(proof.get("features"), "name")
    if features:
        head = {
            "blame": define("share of the blame", "Weight of this constraint in the proof that no policy exists."),
            "expert": define("allowed", "Discounted visits in the demonstrations, plus the budget."),
            "least": define("least possible", "The fewest discounted visits that any policy can make."),
        }
        present = [key for key in head if any(is_number(row.get(key)) for row in features)]
        rows = [
            (
                [esc(row.get("name", "?")), *(number(row[key]) if is_number(row.get(key)) else "–" for key in present)],
                "",
            )
            for row in features[:20]
        ]
        parts.append(table("constraints in conflict", ["where", *(head[key] for key in present)], rows))
        if len(features) > 20:
            parts.append(f"<p>And {len(features) - 20} more.</p>")
    budgets = _as_records(proof.get("budgets"), "budget")
    if budgets:

        def amount(row: Record) -> str:
            budget = row.get("budget")
            return number(rounded_up(budget)) if is_number(budget) else esc("?" if budget is None else budget)

        items = "".join(f"<li><code>budget={amount(row)}</code> {coded(row.get('why', ''))}</li>" for row in budgets)
        what = "A budget lets the learner exceed the demonstrations by that many discounted visits."
        parts.append(f"<h3>Budgets that give a solution</h3><p>{what}</p><ul>{items}</ul>")
    return Section("Why, and what to do", "".join(parts)) if parts else None


def _as_records(entries: object, key: str) -> list[Record]:
    entries = entries if isinstance(entries, list) else [] if entries is None else [entries]
    return [entry if isinstance(entry, dict) else {key: entry} for entry in entries]


# ---------------------------------------------------------------------------------------------------------------------
# How far to trust it


def certificate_checks(data: RunData) -> dict[str, tuple[Check, float]]:
    """The numbers of the certificate that are defined for this objective, {key: (check, value)}."""
    if data.status == "infeasible":
        return {}
    checks = CERTIFICATE
    if data.certificate.get("objective") == "likelihood":  # not convex: no gap, and no constraint to violate
        checks = {"kkt": STATIONARITY, "planner_residual": CERTIFICATE["planner_residual"]}
    values = {key: value_of(data.certificate.get(key)) for key in checks}
    return {key: (checks[key], value) for key, value in values.items() if value is not None}


def _verdict(data: RunData, key: str, check: Check, value: float) -> tuple[str, str]:
    """(class, word) for a number. The gap is judged relative to the value of the dual."""
    scale = 1.0 + abs(value_of(data.certificate.get("dual_value")) or 0.0) if key == "gap" else 1.0
    size = abs(value) / scale
    if size <= check.good:
        return "good", "✓ good"
    return ("fair", "~ fair") if size <= check.fair else ("bad", "✗ poor")


def _certificate_words(data: RunData) -> str:
    verdicts = [_verdict(data, key, check, value)[0] for key, (check, value) in certificate_checks(data).items()]
    status = data.certificate.get("status")
    if not verdicts:
        return ""
    if status == "iteration limit" or "bad" in verdicts:
        css, word = ("bad", "✗ not converged") if "bad" in verdicts else ("fair", "~ not fully converged")
        return f'The solver has <span class="{css}">{word}</span>; the certificate below says how far it got.'
    if "fair" in verdicts:
        return 'The certificate shows an <span class="fair">~ approximate</span> answer: see below.'
    if "gap" not in certificate_checks(data):
        return (
            'The arithmetic is <span class="good">✓ solved exactly</span>: no small change of the cost makes the '
            "demonstrations more likely."
        )
    return (
        'The arithmetic is <span class="good">✓ solved exactly</span>: the proof is below. These are the best '
        "numbers for these demonstrations, which does not mean that the answer is true."
    )


def certificate(data: RunData, anchor: str) -> Section | None:
    """The section with every number of the certificate, its meaning, and whether it is good."""
    checks = certificate_checks(data)
    parts = []
    statement = data.certificate.get("statement")
    if isinstance(statement, str) and statement and data.status != "infeasible":
        parts.append(f"<p>{coded(statement)}</p>")
    if checks:
        parts.append(
            "<p>An exact solution can prove how good it is. Each number is zero for a perfect answer and follows from "
            f"the weights of the cost alone; <code>tacit certify {esc(data.name)}</code> computes them again.</p>"
        )
        rows = []
        for key, (check, value) in checks.items():
            css, word = _verdict(data, key, check, value)
            cells = [define(check.label, check.meaning), number(value), f'<span class="{css}">{word}</span>']
            rows.append(([*cells, esc(check.meaning)], ""))
        parts.append(table("certificate", ["", "value", "verdict", "what it means"], rows, "words"))
    others = (
        []
        if data.status == "infeasible"
        else [
            (key.replace("_", " "), number(other))
            for key, entry in data.certificate.items()
            if key not in CERTIFICATE and (other := value_of(entry)) is not None and math.isfinite(other)
        ]
    )
    if others:
        parts.append(details("further numbers of the certificate", facts(others)))
    return Section("How far to trust it", "".join(parts)) if parts else None
