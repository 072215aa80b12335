"""How long runs took, and how long those that are still to do will take: from what was measured, or not at all."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tacit.errors import UserError
from tacit.run import Run, storage

if TYPE_CHECKING:
    from tacit.sweep import Task


@dataclass(frozen=True)
class Rate:
    """How fast a run was: seconds an environment step, or seconds a run where steps are not counted."""

    algo: str
    env: str
    steps: int
    seconds: float
    here: bool
    """In the folder of runs; else it is from results, which may be of another machine."""


class Pace(list[Rate]):
    """What is known of how fast runs are."""

    def seconds(self, algo: str, env: str, steps: int | None) -> float | None:
        """What a run will take; None when nothing like it was measured.

        By runs of about as many steps (a short one mostly starts), if there are any; by those that were made here, if
        there are any; else by results, made longer or shorter by as much as this machine differs with equal runs.
        """
        length = steps or 1
        known = [rate for rate in self if (rate.algo, rate.env) == (algo, env)]
        known = [rate for rate in known if length <= 4 * rate.steps <= 16 * length] or known
        own = [rate.seconds for rate in known if rate.here]
        if own:
            return length * median(own)
        return length * self._slower() * median(rate.seconds for rate in known) if known else None

    def _slower(self) -> float:
        found: dict[tuple[str, str, int], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
        for rate in self:
            found[rate.algo, rate.env, rate.steps][rate.here].append(rate.seconds)
        ratios = [median(own) / median(others) for others, own in found.values() if own and others and median(others)]
        return median(ratios) if ratios else 1.0


def record_of(run: Run) -> dict[str, Any]:
    """Which run it was, what it took and where its numbers come from, for the results that are made of it."""
    made = run.read("provenance.json")
    began, ended = (datetime.fromisoformat(made[key]) for key in ("started", "finished"))
    return {
        "run": run.name,
        "algo": run.config["algo"],
        "env": run.config["env"],
        "seed": run.config["seed"],
        "steps": run.config["config"].get("total_steps"),
        "settings": settings_of(run.config["algo"], run.config["env"], run.config["config"]),
        # The time between an interruption and going on is nobody's work.
        "seconds": None if made.get("resumed") else (ended - began).total_seconds(),
        "finished": made["finished"],
        "commit": made.get("commit"),
        "versions": made.get("versions"),
    }


def settings_of(algo: str, env: str, config: Mapping[str, Any]) -> str:
    """A short name of what a run was told, but for its seed and for the files that it learned from."""
    told = {key: value for key, value in config.items() if key not in ("cost", "sha256")}
    return storage.sha256_of_bytes(storage.to_json([algo, env, told], sort_keys=True).encode())[:16]


def pace(out: str | os.PathLike[str], results: str | os.PathLike[str] = "results") -> Pace:
    """Of the finished runs in a folder, and of those that measured results were made of."""
    here: list[Any] = []
    for done in Path(out).glob("*/DONE"):
        try:
            here.append(record_of(Run.open(done.parent)))
        except (UserError, KeyError, TypeError, ValueError):
            continue  # damaged, or of another version: a pity for the estimate, no more
    elsewhere: list[Any] = []
    for file in Path(results).glob("*.json"):
        try:
            content = storage.read_json(file)
        except UserError:
            continue
        # What is only tried out takes its time to start, not to run.
        runs = content.get("runs") if isinstance(content, dict) and not content.get("quick") else None
        elsewhere += runs if isinstance(runs, list) else []
    known = Pace()
    for records, own in ((here, True), (elsewhere, False)):
        for record in records:
            try:
                steps = record["steps"] or 1
                known.append(Rate(record["algo"], record["env"], steps, record["seconds"] / steps, own))
            except (KeyError, TypeError):
                continue
    return known


def expected(task: Task, known: Pace) -> float | None:
    """Seconds that a task will take from its beginning; None when nothing like it was measured."""
    return known.seconds(task.job.algo, task.job.env, task.steps)


def estimate(tasks: Sequence[Task], workers: int | None, known: Pace) -> dict[str, Any]:
    """How many jobs there are, and how long those take that are not finished; "unknown" are [algorithm, environment].

    "seconds" is the time with so many workers, that of one after the other for an unknown number.
    """
    todo = [task for task in tasks if not task.done]
    times = [expected(task, known) for task in todo]
    sure = [seconds for seconds in times if seconds is not None]
    unknown = {(t.job.algo, t.job.env) for t, seconds in zip(todo, times, strict=True) if seconds is None}
    return {
        "jobs": len(tasks),
        "finished": len(tasks) - len(todo),
        "to_run": len(todo),
        "workers": workers,
        "seconds": max(sum(sure) / (workers or 1), *sure) if sure else None,
        "seconds_of_work": sum(sure) if sure else None,
        "unknown": sorted(map(list, unknown)),
    }


def forecast(tasks: Sequence[Task], workers: int | None, known: Pace) -> str:
    """One line: how many jobs, how many are finished, and how long the others take; None for an unknown number."""
    found = estimate(tasks, workers, known)
    said = f"{count(len(tasks), 'job')}, {found['finished']} finished"
    if not found["to_run"]:
        return f"{said}: nothing to run"
    said += f", {found['to_run']} to run" + (f" with {count(workers, 'worker')}" if workers else "")
    sure = found["seconds"] is not None
    if sure:
        said += f": about {in_words(found['seconds'])}" + ("" if workers else " of work")
    if found["unknown"]:
        listed = ", ".join(f"{algo} on {env}" for algo, env in found["unknown"])
        said += f"{' and' if sure else ':'} an unknown time (no earlier run of {listed} to judge by)"
    return said


def in_words(seconds: float) -> str:
    """40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def listed(names: Iterable[object], most: int = 10) -> str:
    """Names on one line, not too many."""
    shown = [str(name) for name in names]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")
