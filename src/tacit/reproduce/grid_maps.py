"""Maps of the gridworld: what was demonstrated, the recovered cost, and where the learned policy goes.

A row per method, for no and for much stochasticity. The runs are those of `grid-stochasticity`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Literal

import numpy as np

from tacit.evaluate import evaluate_exact
from tacit.plots.grids import Panel, grid_figure
from tacit.reproduce import records
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.records import groups_in, rows_in, runs_of
from tacit.reproduce.results import Record, Results
from tacit.run import Run
from tacit.sweep import Job

WORDS = {"demonstrated": "visits a demonstration", "cost": "cost", "visits": "visits an episode"}


def collect(job: Job, run: Run) -> Record:
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


def figure(experiment: Experiment, results: Results) -> bytes:
    """Demonstrations, cost and visits side by side for each slip; a row per method, its first seed."""
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
    """One picture below the other, made smaller."""
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
