"""What tables and figures of deep runs share: a table with every seed, learning curves.

An experiment is a set of rows (label of a job -> runs of several seeds). (Not an experiment itself.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tacit.reproduce.records import AGENTS, METRICS, header, labelled, shown, steps_made
from tacit.reproduce.table_experts import short, with_error

ROBOTS = ("Ant", "HalfCheetah", "Swimmer", "Walker", "Pendulum")
PAPER = {"Ant": (7338, 0.0), "HalfCheetah": (4085, 0.0), "Swimmer": (257, 0.002), "Walker": (1858, 0.0)}
PAPER |= {"Pendulum": (26, 0.11)}
"""Reward (episode stopped at its first violation) and violation rate of the paper's table, beta = 1e-4."""
QUICK: dict[str, Any] = {
    "total_steps": 24_576,
    "bootstrap_steps": 4096,
    "forward_steps": 4096,
    "eval_episodes": 4,
    "minibatches": 20,
    "pretrain_epochs": 1,
}


def table(results: Mapping[str, Any], labels: Sequence[str], beside: Mapping[str, str], title: str) -> str:
    """Stochastic policy with every seed, then the deterministic one, then cost and map; a row a label."""
    head = ["", "steps", "return", "terminated return", "feasible return", "violating steps"]
    head += ["violating steps, stopped at the first", "violating episodes (95 % at most)", "begin in violation"]
    head += ["terminated return of each seed", "over demonstrations", *title.split(" | ")]
    parts = []
    for agent in AGENTS:
        lines = [f"**{agent} policy**", "", *header(head)]
        for label in labels:
            runs = labelled(results, label)
            lines.append("| " + " | ".join([label, *_cells(runs, agent), beside.get(label, "")]) + " |")
        parts.append("\n".join(lines))
    head = ["", "AUROC of the map on everything tried", "outside the open band", "on perturbed demonstrations"]
    head += ["AUROC of the driving cost", "boundary (each seed)", "error outside the open band"]
    lines = ["**cost and map**", "", *header([*head, "resets", "minutes a run", "env steps/s", "of these learning"])]
    for label in labels:
        lines.append("| " + " | ".join([label, *_quality(labelled(results, label))]) + " |")
    parts.append("\n".join(lines))
    return "\n\n".join([*parts, _note(results)]) + "\n"


def _note(results: Mapping[str, Any]) -> str:
    episodes = sorted({int(run[agent]["n"]) for run in results["runs"] for agent in AGENTS})
    return (
        f"Mean ± standard error over seeds; {' or '.join(map(str, episodes))} episodes each of the last policy, "
        "its own seeds of the episodes. Of the boundaries that a map draws, the one on the true constraint's feature "
        "and side is shown (chosen with the truth, for judging); errors are of the seeds that drew one. "
        "Everything tried is about as many steps of the nominal agent as of all later phases. "
        "*Feasible return* is the terminated one, but an episode that begins in violation counts 0. The open band lies "
        "between the outermost demonstration and the wall: nothing can be known there. The last column leaves out "
        "start-up, map and evaluation."
    )


def _cells(runs: Sequence[Mapping[str, Any]], agent: str) -> list[str]:
    from tacit.stats import clopper_pearson

    if not runs:
        return ["-"] * 10
    value = {key: np.array([run[agent].get(key, np.nan) for run in runs]) for key in (*METRICS, "count", "n")}
    broken, episodes = int(value["count"].sum()), int(value["n"].sum())
    bound = clopper_pearson(broken, episodes, side="upper").high
    theirs = np.array([shown(run) for run in runs], dtype=float)
    seeds = ", ".join(
        f"{short(x, x)} ({int(count)})" for x, count in zip(value["terminated_return"], value["count"], strict=True)
    )
    shares = {key: "-" if np.isnan(found).any() else f"{100 * found.mean():.3f} %" for key, found in value.items()}
    return [
        f"{np.mean([steps_made(run) or 0 for run in runs]) / 1e6:.3g}M",
        with_error(value["return"]),
        with_error(value["terminated_return"]),
        with_error(value["feasible_return"]),
        shares["violation_rate_step"],
        shares["violation_rate_terminated"],
        f"{broken} of {episodes} ({100 * bound:.1f} %)",
        shares["initial_violation_rate"],
        f"{seeds}",
        f"{(value['terminated_return'] / theirs).mean():.2f}",
    ]


def _quality(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    if not runs:
        return ["-"] * 10

    def spread(values: list[float | None], digits: int) -> str:
        known = [value for value in values if value is not None]
        few = f", {len(known)} of {len(values)} seeds" if len(known) < len(values) else ""
        return (
            f"{np.mean(known):.{digits}f} ({min(known):.{digits}f} to {max(known):.{digits}f}){few}" if known else "-"
        )

    thresholds = [run["threshold"] or {} for run in runs]
    timed = [run for run in runs if run["seconds"]]  # a run that was interrupted has no time
    judged = [(run.get("detection") or {}) for run in runs]
    on = [(found.get("map") or found.get("cost") or {"on": {}})["on"] for found in judged]
    learning = [
        (steps_made(run) or 0) / sum(run["phases"][phase] for phase in ("rollouts", "PPO", "inverse", "set-up"))
        for run in timed
        if run.get("phases")
    ]
    return [
        spread([states.get("tried", {}).get("auroc") for states in on], 3),
        spread([states.get("tried", {}).get("auroc_outside") for states in on], 3),
        spread([states.get("perturbed", {}).get("auroc") for states in on], 3),
        spread([(found.get("cost") or {"on": {}})["on"].get("tried", {}).get("auroc") for found in judged], 3),
        ", ".join(str(t.get("found") or "none") for t in thresholds),
        spread([t.get("error") for t in thresholds], 3),
        ", ".join(str(run["resets"]) for run in runs),
        f"{np.mean([run['seconds'] for run in timed]) / 60:.1f}" if timed else "-",
        f"{np.mean([(steps_made(run) or 0) / run['seconds'] for run in timed]):,.0f}" if timed else "-",
        f"{np.mean(learning):,.0f}" if learning else "-",
    ]


def figure(results: Mapping[str, Any], labels: Sequence[str], line: Callable[[str], float | None]) -> bytes:
    """Return and violating steps during training, a column a label, a line a seed; `line` is drawn as a reference."""
    from tacit.plots import COLOURS, SOFT, new_figure, render, style

    with style():
        drawing = new_figure(2.5 * len(labels), 4.6)
        panels = drawing.subplots(2, len(labels), squeeze=False)
        for column, label in enumerate(labels):
            upper, lower = panels[:, column]
            upper.set_title(label)
            runs = labelled(results, label)
            if runs:
                upper.axhline(shown(runs[0]), color=SOFT, linewidth=1.0, label="demonstrations")
            reference = line(label)
            if reference is not None:
                upper.axhline(reference, color=SOFT, linestyle="--", linewidth=1.0, label="the paper's result")
            for run in runs:
                curves, colour = run["curves"], COLOURS[run["seed"] % len(COLOURS)]
                steps = np.array(curves["steps"]) / 1e6
                upper.plot(steps, curves["return"], color=colour, label=f"seed {run['seed']}")
                lower.plot(steps, 100 * np.array(curves["violations"], dtype=float), color=colour)
            lower.set_xlabel("environment steps, millions")
            lower.set_ylim(bottom=0)
            if not runs:
                upper.text(0.5, 0.3, "no run", transform=upper.transAxes, ha="center", va="center")
        panels[0, 0].set_ylabel("return (rollouts)")
        panels[1, 0].set_ylabel("violating steps, %")
        handles = {handle.get_label(): handle for axes in panels[0] for handle in axes.get_lines()}
        drawing.legend(handles.values(), handles.keys(), loc="lower center", ncols=max(1, len(handles)))
        drawing.tight_layout(rect=(0, 0.06, 1, 1))
        return render(drawing, "png", tight=False)
