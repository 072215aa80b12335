"""The paper's pictures: environments and the table of settings without runs, and the five robots with runs.

The robots' runs are those of `table-robots`, its first seed. Their pictures are kept as JPEG files in base64.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tacit import presets
from tacit.envs.gridworld import make_spec
from tacit.envs.traffic import compact
from tacit.envs.traffic.recording import FRAME_RATE
from tacit.errors import UserError
from tacit.plots import new_figure, render, style
from tacit.plots.grids import grid_map
from tacit.plots.video import filmstrip, jpeg
from tacit.policy import Policy
from tacit.reproduce import records
from tacit.reproduce.columns import header, line
from tacit.reproduce.experiment import Experiment, Measured
from tacit.reproduce.records import groups_in, runs_of
from tacit.reproduce.results import Record, Results
from tacit.run import Run
from tacit.sweep import Job

COLUMNS = ("Ant", "HalfCheetah", "Swimmer", "Walker", "Pendulum", "Gridworld", "HighwayDistance", "HighwayVelocity")
SETTINGS = {
    "budget": "alpha",
    "beta": "beta",
    "gamma": "gamma",
    "batch_size": "PPO: batch size",
    "lr": "PPO: learning rate",
    "rollout_steps": "PPO: steps",
    "epochs": "PPO: epochs",
    "forward_steps": "PPO: timesteps",
    "gae_lambda": "PPO: GAE lambda",
    "target_kl": "PPO: target KL",
    "bootstrap_steps": "PPO: bootstrap timesteps",
    "hidden": "PPO: policy network",
    "zeta_decay": "learning rate decay factor of zeta",
    "dual_batch": "batch size of lambda and zeta",
    "feature_hidden": "network phi",
    "joint": "feature dimensions",
    "lr_zeta": "learning rate of zeta",
    "lr_lam": "learning rate of lambda",
    "pretrain_epochs": "bootstrap iterations",
    "lam_init": "initial lambda",
}
"""Settings of preset `paper` in the order of the paper's table, with the paper's names for them."""
MOMENT = 60.0
"""Time of the picture, in seconds from the start of the recording."""
Numbers = Mapping[str, Any]


def _rows() -> dict[str, list[str]]:
    columns = [presets.load("mce", "paper", f"tacit/{name}-v0") for name in COLUMNS]
    return {label: [str(column.get(name, "-")) for column in columns] for name, label in SETTINGS.items()}


def _settings_table(results: Numbers) -> str:
    head = "| | " + " | ".join(COLUMNS) + " |\n" + "|---" * (len(COLUMNS) + 1) + "|\n"
    return head + "".join(line([label, *cells]) + "\n" for label, cells in results["rows"].items())


def _settings_figure(results: Numbers) -> bytes:
    with style():
        drawing = new_figure(14.0, 5.5)
        axes = drawing.subplots()
        axes.axis("off")
        cells = [*results["rows"].values()]
        table = axes.table(cells, rowLabels=[*results["rows"]], colLabels=COLUMNS, loc="center")
        table.auto_set_font_size(False)
        table.set_fontsize(8)
        return render(drawing, "png")


def _traffic(results: Numbers) -> bytes:
    from PIL import Image

    from tacit.envs.traffic.files import load
    from tacit.envs.traffic.render import draw_frame

    recording = load(compact.shipped()[0])
    buffer = io.BytesIO()
    Image.fromarray(draw_frame(recording, round(results["second"] * FRAME_RATE))).save(buffer, "PNG")
    return buffer.getvalue()


def _made_of(
    summary: str,
    numbers: Callable[[], dict[str, Any]],
    table: Callable[[Numbers], str],
    figure: Callable[[Numbers], bytes],
) -> Measured:
    return Measured(summary, lambda sets, progress: numbers(), lambda results: 1.0, table, figure)


SETTINGS_TABLE = _made_of(
    "the settings of preset paper, in the order of the paper's table",
    lambda: {"rows": _rows()},
    _settings_table,
    _settings_figure,
)
GRID = _made_of(
    "the gridworld: start, goal, constrained cells",
    lambda: {"rows": list(make_spec("paper").rows)},
    lambda results: "\n".join(["```text", *results["rows"], "```", ""]),
    lambda results: grid_map(results["rows"], format="png"),
)
TRAFFIC = _made_of(
    "the highway: a moment of the first simulated recording",
    lambda: {"second": MOMENT},
    lambda results: f"Simulated traffic, {results['second']:g} s into {compact.shipped()[0].name}.\n",
    _traffic,
)


# ---------------------------------------------------------------------------------------------------------------------
# Robots: one episode of the policy that MCE-ICRL learned, with the forbidden region in red


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
    return "\n".join([*lines, "", "The numbers are of the episode in the pictures, one of the learned policy."]) + "\n"


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
