"""The paper's pictures of environments and its table of settings, from files that come with Tacit, without runs."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

from tacit import presets
from tacit.envs.gridworld import make_spec
from tacit.envs.traffic import compact
from tacit.envs.traffic.recording import FRAME_RATE
from tacit.plots import new_figure, render, style
from tacit.plots.grids import grid_map
from tacit.reproduce.columns import line
from tacit.reproduce.experiment import Measured

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
Results = Mapping[str, Any]


def _rows() -> dict[str, list[str]]:
    columns = [presets.load("mce", "paper", f"tacit/{name}-v0") for name in COLUMNS]
    return {label: [str(column.get(name, "-")) for column in columns] for name, label in SETTINGS.items()}


def _settings_table(results: Results) -> str:
    head = "| | " + " | ".join(COLUMNS) + " |\n" + "|---" * (len(COLUMNS) + 1) + "|\n"
    return head + "".join(line([label, *cells]) + "\n" for label, cells in results["rows"].items())


def _settings_figure(results: Results) -> bytes:
    with style():
        drawing = new_figure(14.0, 5.5)
        axes = drawing.subplots()
        axes.axis("off")
        cells = [*results["rows"].values()]
        table = axes.table(cells, rowLabels=[*results["rows"]], colLabels=COLUMNS, loc="center")
        table.auto_set_font_size(False)
        table.set_fontsize(8)
        return render(drawing, "png")


def _traffic(results: Results) -> bytes:
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
    table: Callable[[Results], str],
    figure: Callable[[Results], bytes],
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
