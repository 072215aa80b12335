"""The five robots in pictures: one episode of the policy that MCE-ICRL learned, with the forbidden region in red.

The runs are those of `table-robots`, its first seed. The pictures are kept as JPEG files in base64.
"""

from __future__ import annotations

import base64
import io

import numpy as np

from tacit.errors import UserError
from tacit.plots import new_figure, render, style
from tacit.plots.video import filmstrip, jpeg
from tacit.policy import Policy
from tacit.reproduce import records
from tacit.reproduce.columns import header
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.records import groups_in, runs_of
from tacit.reproduce.results import Record, Results
from tacit.run import Run
from tacit.sweep import Job

ROW = "mce"
PICTURES = 4
SIDE = 300
QUALITY = 85


def collect(job: Job, run: Run) -> Record:
    """The numbers of the run, with pictures of one episode."""
    policy = Policy.from_arrays(*run.load_model("policy"))
    try:
        strip = filmstrip(run.config["env"], run.config["env_kwargs"], policy, seed=job.seed, pictures=PICTURES)
    except (OSError, RuntimeError, ImportError, AttributeError) as error:  # whatever graphics libraries raise
        raise UserError(f"no pictures: {error}") from None
    files = [jpeg(picture, SIDE, QUALITY) for picture in strip.pictures]
    broken = 0 if strip.costs is None else int((np.array(strip.costs) > 0).sum())
    episode = {"steps": list(strip.steps), "seconds": strip.seconds, "return": strip.total, "violating": broken}
    return {**records.collect(job, run), "strip": {**episode, "jpeg": files}}


def table(experiment: Experiment, results: Results) -> str:
    """A table of the episodes in the pictures."""
    lines = header(("robot", "steps", "return", "violating steps"))
    for robot in groups_in(results, list(experiment.groups)):
        for run in runs_of(results, robot, ROW)[:1]:
            strip = run["strip"]
            lines.append(f"| {robot} | {strip['steps'][-1]} | {strip['return']:.4g} | {strip['violating']} |")
    return "\n".join([*lines, "", "One episode of the learned policy, the one in the pictures."]) + "\n"


def figure(experiment: Experiment, results: Results) -> bytes:
    """A row per robot, with pictures at equal time intervals."""
    from PIL import Image

    robots = groups_in(results, list(experiment.groups))
    with style():
        drawing = new_figure(2.0 * PICTURES + 0.4, 2.15 * len(robots))
        panels = drawing.subplots(len(robots), PICTURES, squeeze=False)
        for line, robot in zip(panels, robots, strict=True):
            for axes in line:
                axes.set(xticks=[], yticks=[])
                for side in axes.spines.values():
                    side.set_visible(False)
            runs = runs_of(results, robot, ROW)
            if not runs:
                line[0].text(0.5, 0.5, f"{robot}: no run", ha="center", va="center", transform=line[0].transAxes)
                continue
            strip = runs[0]["strip"]
            for axes, step, file in zip(line, strip["steps"], strip["jpeg"], strict=False):
                axes.imshow(np.asarray(Image.open(io.BytesIO(base64.b64decode(file)))))
                when = f"step {step}" if strip["seconds"] is None else f"{step * strip['seconds']:.1f} s"
                axes.set_title(f"{robot}, {when}" if axes is line[0] else when, fontsize=8)
        drawing.tight_layout(pad=0.4)
        return render(drawing, "png", tight=False)
