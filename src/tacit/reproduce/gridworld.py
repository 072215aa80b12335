"""The gridworld experiments: their tables, and maps of demonstrations, recovered cost and visits of the learned policy.

The table has one part per number, with a column per stochasticity. The maps have a row per method, for no and for much
stochasticity; their runs are those of `grid-stochasticity`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Literal

import numpy as np

from tacit.evaluate import evaluate_exact
from tacit.plots.grids import Panel, grid_figure
from tacit.reproduce import overall, records
from tacit.reproduce.columns import Runs, error, header, line
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.records import expert_of, groups_in, number, rows_in, runs_of
from tacit.reproduce.results import Number, Record, Results
from tacit.run import Run
from tacit.sweep import Job

# ---------------------------------------------------------------------------------------------------------------------
# The table


def beyond_the_expert(run: Record) -> float | None:
    earned, expert = run["exact"].get("return"), (run.get("expert") or {}).get("return")
    return None if earned is None or expert is None else earned - expert


ON = ("detection", "cost", "on")
VIOLATING = number("exact", "violation_rate_step", scale=100.0)
NUMBERS: dict[str, Number] = {
    "return": number("exact", "return"),
    "violating steps, %": VIOLATING,
    "violating episodes, %": number("exact", "violation_rate_episode", scale=100.0),
    "violations beyond the expert's (discounted visits)": number("exact", "excess_violation_occupancy"),
    "return before violation, sampled (no start violates: the feasible return is the same)": number(
        "stochastic", "terminated_return"
    ),
    "violating steps, stopped at the first, sampled, %": number("stochastic", "violation_rate_terminated", scale=100.0),
    "deterministic policy: return, sampled": number("deterministic", "return"),
    "deterministic policy: violating steps, sampled, %": number("deterministic", "violation_rate_step", scale=100.0),
    "AUROC of the cost, all cells alike": number("exact", "auroc"),
    "AUROC on nominal states": number(*ON, "nominal", "auroc"),
    "AUROC on everything tried": number(*ON, "tried", "auroc"),
    "AUPRC of the cost, all cells alike": number("exact", "auprc"),
    "best IoU of the cost, all cells alike": number("exact", "best_iou"),
    "IoU at the learned threshold, all cells alike": number(*ON, "uniform", "iou"),
    "KL to the soft-optimal policy for the same cost, nats a step": number("exact", "kl_per_step"),
}
EXPERT = {
    "return": number("expert", "return"),
    "violating steps, %": number("expert", "violation_rate_step", scale=100.0),
    "violating episodes, %": number("expert", "violation_rate_episode", scale=100.0),
}
SCORES = (
    overall.Score("violating steps, %", VIOLATING, (1.0, 2.0, 5.0, 10.0, 20.0), less_is_better=True),
    overall.Score("return less the expert's", beyond_the_expert, (-2.0, -1.0, 0.0, 1.0, 2.0)),
)
"""Scores that are compared over all stochasticities together."""
NOTE = (
    "Numbers are means ± standard errors over {} seeds (fewer where n says so). They are computed from the policies, "
    "except those that are called sampled (100 episodes). A row without a number is left out. Every learner tries "
    "something different, so AUROC on everything tried does not compare methods. A higher return than the expert's is "
    "no merit: the way through the wall is shorter. Controls that learn nothing are in `controls.md`."
)


def table(experiment: Experiment, results: Results) -> str:
    """One table per number: rows are methods, columns are groups; mean ± standard error over seeds."""
    groups, rows = groups_in(results, list(experiment.groups)), rows_in(results, list(experiment.rows))
    most = max((len(runs_of(results, group, row)) for group in groups for row in rows), default=0)
    head = header(["", *groups])
    head[0] = head[0].replace("|  |", "| |", 1)
    parts = []
    for title, of in NUMBERS.items():
        lines = []
        for row in rows:
            cells = [_cell(runs_of(results, group, row), of, most) for group in groups]
            if title in EXPERT or any(cell != "-" for cell in cells):
                lines.append(line([row, *cells]))
        if lines:
            parts.append("\n".join([f"**{title}**", "", *head, *_expert_line(results, groups, title), *lines]))
    every_seed = [line([row, *(_each_seed(runs_of(results, group, row)) for group in groups)]) for row in rows]
    parts.append("\n".join(["**violating steps of each seed, %**", "", *head, *every_seed]))
    together = overall.table(results, groups, rows, experiment.ours, SCORES)
    return "\n\n".join([*parts, together + NOTE.format(most)]) + "\n"


def _expert_line(results: Results, groups: Sequence[str], title: str) -> list[str]:
    """The expert's line, if this number is known of experts."""
    if title not in EXPERT:
        return []
    values = [EXPERT[title]({"expert": expert_of(results, group)}) for group in groups]
    return [line(["expert", *("-" if value is None else f"{value:.3f}" for value in values)])]


def _each_seed(runs: Runs) -> str:
    return ", ".join("-" if value is None else f"{value:.1f}" for value in map(VIOLATING, runs)) or "-"


def _cell(runs: Runs, of: Number, most: int) -> str:
    """Mean ± standard error, with the number of seeds if it is below `most`."""
    values = np.array([value for value in map(of, runs) if value is not None])
    if not len(values):
        return "-"
    few = f" n={len(values)}" if len(values) < most else ""
    return f"{values.mean():.3f}" + (f" ± {error(values):.3f}" if len(values) > 1 else "") + few


# ---------------------------------------------------------------------------------------------------------------------
# Maps

WORDS = {"demonstrated": "visits a demonstration", "cost": "cost", "visits": "visits an episode"}


def collect_maps(job: Job, run: Run) -> Record:
    """The numbers of the run, and three maps of cells (S,)."""
    spec = records.spec_of(run)
    policy = records.policy_table(run, spec)
    visits = evaluate_exact(spec.model(), policy, spec.constrained, step_limit=spec.horizon).visits
    demos = run.demonstrations()
    demonstrated = np.bincount(spec.states_of(demos.observations), minlength=spec.n_states) / len(demos)
    cost = records.cost_table(run, spec, policy)
    maps = {"demonstrated": demonstrated, "cost": cost, "visits": visits}
    return {
        **records.collect_grid(job, run),
        "layout": list(spec.rows),
        "cells": spec.cells.tolist(),
        "constrained": spec.constrained.tolist(),
        "maps": {name: None if cells is None else [float(f"{v:.5g}") for v in cells] for name, cells in maps.items()},
    }


def maps(experiment: Experiment, results: Results) -> bytes:
    """Demonstrations, cost and visits side by side for each slip; one row per method, from its first seed."""
    groups = groups_in(results, list(experiment.groups))
    strips = []
    for row in rows_in(results, list(experiment.rows)):
        runs = {group: next(iter(runs_of(results, group, row)), None) for group in groups}
        if any(run is not None for run in runs.values()):
            strips.append(_strip(row, runs))
    return _stacked(strips)


def _strip(row: str, runs: dict[str, Record | None]) -> bytes:
    example = next(run for run in runs.values() if run is not None)
    blank = np.zeros(len(example["cells"]))
    panels = []
    for group, run in runs.items():
        maps = run["maps"] if run is not None else {}
        why = "" if run is not None else " (no run)"
        for name, label in WORDS.items():
            values = maps.get(name)
            title = f"{row}, {group}{why}" if name == "demonstrated" else ""
            ramp = "cost" if name == "cost" else "visits"
            scale: Literal["linear", "log"] = "linear" if name == "cost" else "log"
            panels.append(Panel(blank if values is None else values, label, ramp, scale, title=title))
    cells = np.array(example["cells"])
    outline = np.array(example["constrained"])
    return grid_figure(example["layout"], panels, row=cells[:, 0], col=cells[:, 1], outline=outline, format="png")


def _stacked(pictures: Sequence[bytes], scale: float = 0.5) -> bytes:
    """Stack pictures vertically and shrink them."""
    from PIL import Image

    images = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in pictures]
    width = max(image.width for image in images)
    whole = Image.new("RGB", (width, sum(image.height for image in images)), "white")
    top = 0
    for image in images:
        whole.paste(image, (0, top))
        top += image.height
    whole = whole.resize((round(whole.width * scale), round(whole.height * scale)), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    whole.save(buffer, format="PNG")
    return buffer.getvalue()
