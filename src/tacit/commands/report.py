"""Write an HTML page about a run, or about several runs side by side: what was learned, pictures, numbers.

The page is one file that needs no network: you can open it anywhere, mail it and archive it.

Examples:
  tacit report latest                                           writes report.html into the run folder
  tacit report latest --beside                                  also films an agent without constraint beside it
  tacit report runs/* -o comparison.html
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import tyro

from tacit.commands import NO_DEFAULT, open_run, print_json
from tacit.errors import UserError
from tacit.learned import Learned
from tacit.report import write_report
from tacit.run.log import say


def report(
    runs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN..."), NO_DEFAULT],
    /,
    *,
    out: Annotated[str | None, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = None,
    title: Annotated[str | None, tyro.conf.arg(metavar="TEXT")] = None,
    beside: bool = False,
    json: bool = False,
) -> None:
    """Write a report.

    Args:
        runs: Run folders, the beginnings of their names within ./runs, or `latest`.
        out: File to write. Default: report.html in the run folder; for several runs, in the current folder.
        title: Heading of the page.
        beside: Also train an agent without constraint (100,000 steps), and show a film of it beside the learned one. It
            is trained once; later reports show the film without being asked.
        json: Print the path as JSON.
    """
    if not runs:
        raise UserError("name at least one run folder: tacit report RUN ...")
    opened = [open_run(name) for name in (runs if len(runs) == 1 else _folders(runs))]
    if beside:
        for run in opened:
            Learned.load(run.path).unconstrained()
    default = opened[0].path / "report.html" if len(opened) == 1 else Path("report.html")
    path = write_report(opened, default if out is None else out, title)
    if json:
        print_json({"report": path, "runs": [run.path for run in opened]})
    else:
        print(path)


def _folders(names: tuple[str, ...]) -> list[str]:
    """The run folders among `names`. runs/* may also match a sweep's logs; a message names what is left out."""
    others = [name for name in names if os.path.exists(name) and not (Path(name) / "config.json").exists()]
    if others:
        say(f"left out, because they are not run folders: {', '.join(others)}")
    if len(others) == len(names):
        raise UserError("none of these is a run folder: it would have a config.json")
    return [name for name in names if name not in others]
