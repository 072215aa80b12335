"""Continue a run that was interrupted, from its newest checkpoint, with the settings in its folder.

The result is the one that the run would have had without the interruption. A finished run is left as it is.

Examples:
  tacit resume runs/mce-exact-gridworld-s0-3fa1b2c4
"""

from __future__ import annotations

from typing import Any

from tacit.commands import RunPath, call, open_run
from tacit.commands.learn import show
from tacit.inverse.registry import find
from tacit.launch import execute


def resume(run: RunPath, /, *, json: bool = False) -> None:
    """Continue.

    Args:
        run: Run folder, or its name within ./runs.
        json: Print the summary as JSON.
    """
    opened = open_run(run)
    demos = opened.demonstrations() if find(opened.config["algo"]).learns else None
    show(opened, execute(opened, demos), json)


def main(args: list[str]) -> Any:
    return call(resume, "resume", __doc__, args)
