"""Export the policy and the learned cost of a run for other programs. Scaling and clipping are part of the export.

  tacit export RUN --onnx DIR       policy.onnx, cost.onnx, map.onnx; each is compared with the original
  tacit export RUN --torch DIR      state dicts of torch modules, as .safetensors
  tacit export RUN --sb3 DIR        policy.zip, a PPO model of Stable-Baselines3

docs/interop.md describes inputs and outputs. `tacit demos export` exports demonstrations.

Examples:
  tacit export runs/mce-pendulum-s0-3fa1b2c4 --onnx exported
  tacit export runs/expert-ant-s0-3fa1b2c4 --torch exported --sb3 exported
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import tyro

from tacit.commands import RunPath, open_run, print_json
from tacit.errors import UserError

Folder = Annotated[str | None, tyro.conf.arg(metavar="DIR")]


def export(
    run: RunPath, /, *, onnx: Folder = None, torch: Folder = None, sb3: Folder = None, json: bool = False
) -> None:
    """Export a run.

    Args:
        onnx: Write ONNX files into this folder.
        torch: Write torch state dicts into this folder.
        sb3: Write a Stable-Baselines3 model into this folder.
        json: Print the files, with the largest difference from the original, as JSON.
    """
    opened = open_run(run)
    files: dict[str, float] = {}
    for module, folder in (("onnx", onnx), ("torch", torch), ("sb3", sb3)):
        if folder is not None:
            written = import_module(f"tacit.interop.{module}").export(opened, folder)
            files |= {str(Path(folder) / name): difference for name, difference in written.items()}
    if not files:
        raise UserError("nothing to export: give --onnx DIR, --torch DIR or --sb3 DIR")
    if json:
        return print_json({"run": opened.path, "files": files})
    for file, difference in files.items():
        print(f"{file}: differs from the original by at most {difference:.1g}")
