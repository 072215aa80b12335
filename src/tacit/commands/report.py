"""Write one HTML page about one run, or about several side by side: what was learned, pictures, numbers, certificate.

The page is self-contained: it opens anywhere, without a network, and can be mailed or archived.

Examples:
  tacit report runs/mce-exact-gridworld-s0-3fa1b2c4             into the run folder, as report.html
  tacit report runs/* -o comparison.html
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import tyro

from tacit.commands import open_run, print_json
from tacit.errors import UserError
from tacit.report import write_report
from tacit.run.log import say


def report(
    runs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN")],
    /,
    *,
    out: Annotated[str | None, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = None,
    title: Annotated[str | None, tyro.conf.arg(metavar="TEXT")] = None,
    json: bool = False,
) -> None:
    """Write a report.

    Args:
        runs: Run folders, the beginnings of their names within ./runs, or `latest`.
        out: File to write. Default: report.html, in the run folder or for several runs in the current one.
        title: Heading of the page.
        json: Print the path as JSON.
    """
    if not runs:
        raise UserError("which run? Name one or more run folders: tacit report RUN ...")
    opened = [open_run(name) for name in (runs if len(runs) == 1 else _folders(runs))]
    default = opened[0].path / "report.html" if len(opened) == 1 else Path("report.html")
    path = write_report(opened, default if out is None else out, title)
    if json:
        print_json({"report": path, "runs": [run.path for run in opened]})
    else:
        print(path)


def _folders(names: tuple[str, ...]) -> list[str]:
    """The run folders among `names`. runs/* may match others, such as a sweep's logs; a message names them."""
    others = [name for name in names if os.path.exists(name) and not (Path(name) / "config.json").exists()]
    if others:
        say(f"left out, because they are not run folders: {', '.join(others)}")
    if len(others) == len(names):
        raise UserError("none of these is a run folder: it would have a config.json")
    return [name for name in names if name not in others]
