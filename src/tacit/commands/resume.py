"""Continue an interrupted run from its newest checkpoint, with its own settings.

The result is the same as without the interruption. A finished run is not changed.

Examples:
  tacit resume runs/mce-exact-gridworld-s0-3fa1b2c4
"""

from __future__ import annotations

from tacit.algorithms import find
from tacit.commands import RunPath, open_run
from tacit.commands.learn import Log, show
from tacit.envs.options import check_env
from tacit.launch import execute
from tacit.run.sinks import names_of, observed


def resume(run: RunPath, /, *, log: Log = None, json: bool = False) -> None:
    """Continue a run.

    Args:
        log: Also write the curves to tensorboard, wandb or both (tensorboard,wandb).
        json: Print the summary as JSON.
    """
    opened = open_run(run)
    check_env(opened.config["env"], opened.config["env_kwargs"])
    demos = opened.demonstrations() if find(opened.config["algo"]).learns else None
    with observed(opened, names_of(log)):
        summary = execute(opened, demos)
    show(opened, summary, json)
