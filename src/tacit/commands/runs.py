"""List the runs and what each of them found, newest first.

Every command that takes a RUN accepts the beginning of its name, if no other run begins so, or `latest` for the run
that was changed last.

Examples:
  tacit runs
  tacit runs mce-pendulum                    runs whose name begins with mce-pendulum
  tacit runs --in results/runs --json
  tacit report latest
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import tyro

from tacit.commands import print_json
from tacit.errors import UserError
from tacit.explain.brief import in_brief
from tacit.run import Run, in_use
from tacit.run.find import RUNS, last_worked_on, run_folders
from tacit.run.terminal import width


def runs(
    beginning: Annotated[str, tyro.conf.arg(metavar="[NAME]")] = "",
    /,
    *,
    folder: Annotated[str, tyro.conf.arg(name="in", metavar="DIR")] = RUNS,
    json: bool = False,
) -> None:
    """List runs.

    Args:
        beginning: List only runs whose name begins with this.
        folder: Folder that holds the run folders.
        json: Print JSON.
    """
    if not Path(folder).is_dir() and folder != RUNS:
        raise UserError(f"there is no folder {folder}")
    rows = [_row(path) for path in run_folders(folder) if path.name.startswith(beginning)]
    if json:
        return print_json(rows)
    if not rows:
        such = f" whose name begins with {beginning}" if beginning else ""
        print(f"There is no run in {folder}{such}. `tacit learn` makes one; start with `tacit demo`.")
    name_width = max((len(row["run"]) for row in rows), default=0)
    for row in rows:
        print(f"{row['run']:<{name_width}}  {row['state']}, {_ago(row['seconds'])}")
        for line in row["found"]:
            print(f"  {line}" if len(line) + 2 <= width() else f"  {line[: width() - 6]} ...")


def _row(path: Path) -> dict[str, Any]:
    row = {"run": path.name, "path": str(path), "seconds": round(time.time() - last_worked_on(path))}
    try:
        run = Run.open(path)
        state = "finished" if run.done else "running" if in_use(path) else "interrupted"
        lines = in_brief(run) if run.done else [f"continue with `tacit resume {path}`"] * (state == "interrupted")
    except UserError as error:
        return row | {"state": "damaged", "found": [str(error)]}
    return row | {"state": state, "algorithm": run.config["algo"], "env": run.config["env"], "found": lines}


def _ago(seconds: float) -> str:
    """How long ago, in the largest unit that fits."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit} ago"
    return "just now"
