"""Maps of the gridworld: what was demonstrated, the recovered cost, and where the learned policy goes.

A row a method, for no and for much stochasticity. The runs are those of `grid-stochasticity`. (`grid` has the
experiment.)
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.reproduce import grid_runs
from tacit.reproduce.compare import groups_in, rows_in, runs_of
from tacit.reproduce.grid_runs import DEEP, EXACT, GROUPS

if TYPE_CHECKING:
    from tacit.run import Run
    from tacit.sweep import Job

SLIPS = (0.0, 0.3)
ROWS = {**DEEP, "mce-exact": EXACT["mce-exact"]}


def jobs(seeds: list[int], quick: bool = False) -> list[Job]:
    """One run a seed, slip and method."""
    return grid_runs.jobs(ROWS, seeds, quick, SLIPS)


def collect(job: Job, run: Run) -> dict[str, Any]:
    """The numbers of the run, and three maps of cells (S,)."""
    from tacit.envs.options import exact_model
    from tacit.evaluate import evaluate_exact

    spec = exact_model(run.config["env"], run.config["env_kwargs"])
    assert spec is not None
    policy = grid_runs.policy_table(run, spec)
    visits = evaluate_exact(spec.model(), policy, spec.constrained, step_limit=spec.horizon).visits
    demos = run.demonstrations()
    shown = np.bincount(spec.states_of(demos.observations), minlength=spec.n_states) / len(demos)
    cost = grid_runs.cost_table(run, spec, policy)
    maps = {"demonstrated": shown, "cost": cost, "visits": visits}
    return grid_runs.collect(job, run) | {
        "layout": list(spec.rows),
        "cells": spec.cells.tolist(),
        "constrained": spec.constrained.tolist(),
        "maps": {name: None if each is None else [float(f"{v:.5g}") for v in each] for name, each in maps.items()},
    }


def table(results: dict[str, Any]) -> str:
    return grid_runs.table(results, list(ROWS))


def figure(results: dict[str, Any]) -> bytes:
    """Demonstrations, cost and visits side by side for each slip; a row a method, its first seed."""
    rows = rows_in(results, list(ROWS))
    strips = []
    for row in rows:
        found = [(group, next(iter(runs_of(results, group, row)), None)) for group in groups_in(results, list(GROUPS))]
        if any(run is not None for _, run in found):
            strips.append(_strip(row, found))
    return _stacked(strips)


def _strip(row: str, found: Sequence[tuple[str, dict[str, Any] | None]]) -> bytes:
    from tacit.plots.grids import Panel, grid_figure

    one = next(run for _, run in found if run is not None)
    blank = np.zeros(len(one["cells"]))
    panels = []
    for group, run in found:
        maps = run["maps"] if run is not None else {}
        why = "" if run is not None else " (no run)"
        words = {"demonstrated": "visits a demonstration", "cost": "cost", "visits": "visits an episode"}
        for name, label in words.items():
            values = maps.get(name)
            title = f"{row}, {group}{why}" if name == "demonstrated" else ""
            ramp = "cost" if name == "cost" else "visits"
            scale: Any = "linear" if name == "cost" else "log"
            panels.append(Panel(blank if values is None else values, label, ramp, scale, title=title))
    cells = np.array(one["cells"])
    outline = np.array(one["constrained"])
    return grid_figure(one["layout"], panels, row=cells[:, 0], col=cells[:, 1], outline=outline, format="png")


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
