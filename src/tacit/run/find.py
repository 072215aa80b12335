"""Find a run by what a person types: a path, a name or the beginning of one, or `latest`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tacit.errors import UserError, did_you_mean, listed
from tacit.run.folder import Run
from tacit.run.summary import Summary

RUNS = "runs"
"""The folder in which runs are made unless another is named."""
LATEST = "latest"
_LISTED = 5


def run_folders(folder: str | os.PathLike[str] = RUNS) -> list[Path]:
    """The run folders in a folder, the one that was worked on last first."""
    folders = [config.parent for config in Path(folder).glob("*/config.json")]
    return sorted(folders, key=lambda path: (last_worked_on(path), path.name), reverse=True)


def find_run(name: str | os.PathLike[str], folder: str | os.PathLike[str] = RUNS) -> Run:
    """The run that `name` means: a path, a name within `folder` or the beginning of one, or `latest`."""
    word = os.fspath(name)
    inside = Path(folder) / word
    if os.path.exists(word) or inside.is_dir():
        return Run.open(word if os.path.exists(word) else inside)
    if os.path.dirname(word):
        return Run.open(word)  # a path that does not exist: it says so
    runs = run_folders(folder)
    if word == LATEST:
        if not runs:
            raise UserError(f"there is no run in {folder} yet: `tacit learn` makes one")
        return Run.open(runs[0])
    fitting = [run for run in runs if run.name.startswith(word)]
    if len(fitting) == 1:
        return Run.open(fitting[0])
    if fitting:
        names = listed((run.name for run in fitting), _LISTED)
        raise UserError(f"{word} is the beginning of {len(fitting)} runs ({names}): give more of the name")
    hint = f"; {did_you_mean(word, [run.name for run in runs])}" if 0 < len(runs) <= _LISTED else ""
    raise UserError(f"there is no run folder {word}, and no run in {folder} begins so{hint or ': see `tacit runs`'}")


def other_seeds(run: Run) -> list[Summary]:
    """Summaries of the finished runs in the same folder that differ from this one in seed and demonstrations alone."""
    found: list[Summary] = []
    for folder in run_folders(run.path.parent):
        try:
            other = Run.open(folder)
            if other.done and other.config["seed"] != run.config["seed"] and _settings(other) == _settings(run):
                found.append(other.read("summary.json"))
        except UserError:
            continue  # a damaged folder says nothing about this run
    return found


def _settings(run: Run) -> dict[str, Any]:
    return {name: run.config.get(name) for name in ("algo", "env", "env_kwargs", "config")}


def last_worked_on(path: Path) -> float:
    """Time of the last work on a run. provenance.json is written when a run starts, is resumed, and ends."""
    for file in ("provenance.json", "config.json"):
        try:
            return (path / file).lstat().st_mtime
        except OSError:
            continue
    return 0.0
