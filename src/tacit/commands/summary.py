"""The results of a run as tables in the terminal. (Not a command of its own.)"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from rich.console import Console

from tacit.commands import fits, new_table, print_table
from tacit.cost.bounds import short
from tacit.envs.options import notice
from tacit.explain import findings
from tacit.metrics import AGENTS, DETECTION, ENDS, figures, lookup, percent
from tacit.run import Run
from tacit.run.summary import Detection, Record, Summary

COLUMNS = (
    "return",
    "terminated_return",
    "violation_rate_step",
    "violation_rate_episode",
    "violation_occupancy",
    "excess_violation_occupancy",
)
STARTS = ("initial_violation_rate", "violation_rate_legal_start")
"""Metrics for a table of their own, if some episodes begin in violation."""
CERTIFICATE = {
    "gap": "duality gap",
    "kkt": "KKT residual",
    "infeasibility": "infeasibility",
    "complementarity": "complementarity",
    "planner_residual": "planner's residual",
    "backward_error": "backward error",
}
"""Numbers of a certificate that ought to be 0."""
LIKELIHOOD = {"kkt": "stationarity", "dual_value": "objective", "primal_value": "reward and entropy reached"}
"""Other words for an objective that is not convex: its value bounds nothing."""
QUALITY = {
    "auroc": "AUROC (0.5 is guessing, 1 perfect)",
    "iou": "IoU at the learned threshold (1 is perfect)",
    "best_iou": "IoU at the best threshold for the truth",
}


def print_summary(run: Run, written: Record) -> None:
    """Print what summary.json and certificate.json say."""
    summary = cast(Summary, written)
    explanation = run.read("explanation.json") if (run.path / "explanation.json").exists() else None
    if summary.get("table"):
        labels = summary.get("labels", {})
        agents = {labels.get(name, name): row for name, row in summary["table"].items()}
        print_agents(agents, title="what the agents do in the true environment")
        print_notice(run)
    if summary.get("cost_quality"):
        print_quality(findings.with_overlap(summary["cost_quality"], explanation))
    if summary.get("detection"):
        print_detection(summary["detection"])
    if "boundaries" in summary:
        return print_findings(summary, run.metrics(), explanation)
    if (run.path / "certificate.json").exists():
        print_certificate(run.read("certificate.json"))
    elif summary.get("statement"):
        print(summary["statement"])
    if "obedience" in summary:
        print_lines(doubtful(summary, run.metrics(), explanation))
    plain = {key: value for key, value in summary.items() if isinstance(value, str | int | float)}
    if not summary.get("statement"):
        print("\n".join(f"{key}: {value}" for key, value in plain.items()))


def print_agents(agents: Mapping[str, Record], title: str) -> None:
    """Print one row per agent, one column per metric."""
    _print_metrics(agents, COLUMNS, title)
    starts = STARTS if any(STARTS[1] in row for row in agents.values()) else ()
    _print_metrics(
        agents, (*ENDS, *starts), "how episodes end" + (", and those that begin in violation" if starts else "")
    )


def print_notice(run: Run) -> None:
    """Print the caveat that belongs beside results in this environment, if there is one."""
    text = notice(run.config["env"], run.config["env_kwargs"])
    if text is not None:
        print(f"{text[0].upper()}{text[1:]}.")


def _print_metrics(agents: Mapping[str, Record], columns: Sequence[str], title: str) -> None:
    keys = [key for key in columns if any(key in row for row in agents.values())]
    if not keys:
        return
    table = new_table("", *(lookup(key).label for key in keys), title=title)
    for name, row in agents.items():
        table.add_row(AGENTS.get(name, name), *(cell(row.get(key), lookup(key).unit) for key in keys))
        if any(isinstance(row.get(key), Mapping) for key in keys):
            for end, label in (("low", "95 % from"), ("high", "95 % to")):
                ends = [dict(row[key]).get(end) if isinstance(row.get(key), Mapping) else None for key in keys]
                table.add_row(f"  {label}", *(cell(x, lookup(key).unit) for x, key in zip(ends, keys, strict=True)))
    if fits(table) or len(keys) == 1:
        return print_table(table)
    half = -(-len(keys) // 2)  # two tables below each other that can be read
    _print_metrics(agents, keys[:half], title)
    _print_metrics(agents, keys[half:], "")


def print_quality(quality: Mapping[str, float]) -> None:
    """Print how well the cost marks the true constraint."""
    table = new_table("the learned cost as a map of the true constraint", "")
    for key, label in QUALITY.items():
        if key in quality:
            table.add_row(label, cell(quality.get(key), "score"))
    if "auroc_cost" in quality:
        table.add_row(
            f"{lookup('auroc').label} of the cost that drove the policy", cell(quality["auroc_cost"], "score")
        )
    print_table(table)


def print_detection(detection: Mapping[str, Detection]) -> None:
    """The same on several distributions of states, at the learned threshold; see `tacit.cost.quality`."""
    name, judged = next((name, detection[name]) for name in ("map", "cost") if name in detection)
    if not judged["on"]:
        return
    kind = "calibrated" if judged["calibrated"] else "not calibrated"
    title = f"the {name} on different states, threshold {short(judged['threshold'])} ({kind})"
    keys = [key for key in DETECTION if any(key in row for row in judged["on"].values())]
    table = new_table("", *(lookup(key).label for key in keys), title=title)
    for states, row in judged["on"].items():
        table.add_row(states, *(cell(row.get(key), lookup(key).unit) for key in keys))
    print_table(table)
    if "rejected" in judged:
        share = judged["rejected"]["trajectories"]
        ends = f"95 %: {percent(share['low'])} to {percent(share['high'])}"
        print(f"It rejects {percent(share['value'])} of {share['n']} held-out demonstrations ({ends}).")


def print_findings(summary: Summary, metrics: Sequence[Record], explanation: object = None) -> None:
    """Print the learned constraint in words, reasons for doubt, and where the time went."""
    doubts = doubtful(summary, metrics, explanation)
    print_lines([*findings.learned(summary, explanation), *doubts, findings.time_words(summary)])


def doubtful(summary: Summary, metrics: Sequence[Record], explanation: object = None) -> list[str]:
    """Reasons for doubt, one line each."""
    return [f"doubtful: {text}" for text in findings.doubts(summary, metrics, explanation)]


def print_lines(lines: Sequence[str]) -> None:
    """Print lines that are not empty, without the marks of bold type."""
    if kept := [line.replace("**", "") for line in lines if line]:
        Console(highlight=False, markup=False).print("\n".join(kept))


def print_certificate(certificate: Record) -> None:
    """Print the numbers that are defined for this objective, and the verdict."""
    words = CERTIFICATE
    if certificate.get("objective") == "likelihood":
        words = {key: (CERTIFICATE | LIKELIHOOD)[key] for key in ("kkt", "planner_residual")}
    table = new_table(f"certificate: {certificate.get('status')}", "")
    for key, label in words.items():
        value = certificate.get(key)
        if key != "complementarity" and isinstance(value, int | float) and math.isfinite(value):
            table.add_row(label, f"{value:.1e}")
    if table.row_count:
        print_table(table)
    print(certificate.get("statement", ""))


def cell(entry: object, unit: str) -> str:
    """A number, which may come with an interval; a dash if it is missing."""
    if isinstance(entry, Mapping):
        entry = entry.get("value")
    if not isinstance(entry, int | float) or math.isnan(entry):
        return "-"
    return figures(entry, unit)
