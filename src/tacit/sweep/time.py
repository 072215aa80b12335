"""How long runs took, and an estimate for unfinished ones. The estimate uses only measured times."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypedDict

from tacit.errors import UserError
from tacit.run import Run, storage

if TYPE_CHECKING:
    from tacit.sweep import Task


class RunRecord(TypedDict, total=False):
    """Which run it was, how long it took, and where its numbers come from."""

    run: str
    """The name of the run folder."""
    algo: str
    env: str
    seed: int
    steps: int | None
    """Environment steps that were asked for."""
    settings: str
    """A hash of the settings, see `settings_of`."""
    seconds: float | None
    """Seconds; None for an interrupted run, because the time until it was resumed is no work."""
    finished: str
    commit: str | None
    versions: dict[str, str] | None


@dataclass(frozen=True)
class Rate:
    """The speed of a run: seconds per environment step, or per run if steps are not counted."""

    algo: str
    env: str
    steps: int
    seconds: float
    here: bool
    """Whether the run is in the folder of runs. Otherwise it is from results, perhaps of another machine."""


class Pace(list[Rate]):
    """The speeds of earlier runs."""

    def seconds(self, algo: str, env: str, steps: int | None) -> float | None:
        """Estimated seconds of a run; None if nothing similar was measured.

        Runs of about as many steps count first, because a short run spends most of its time on start-up. Runs in the
        folder of runs count before results. Times of results are scaled by how this machine compares with theirs on
        equal runs.
        """
        length = steps or 1
        rates = [rate for rate in self if (rate.algo, rate.env) == (algo, env)]
        rates = [rate for rate in rates if length <= 4 * rate.steps <= 16 * length] or rates
        own = [rate.seconds for rate in rates if rate.here]
        if own:
            return length * median(own)
        return length * self._slower() * median(rate.seconds for rate in rates) if rates else None

    def _slower(self) -> float:
        pairs: dict[tuple[str, str, int], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
        for rate in self:
            pairs[rate.algo, rate.env, rate.steps][rate.here].append(rate.seconds)
        ratios = [median(own) / median(others) for others, own in pairs.values() if own and others and median(others)]
        return median(ratios) if ratios else 1.0


def record_of(run: Run) -> RunRecord:
    """Which run it was, how long it took, and where its numbers come from, for a record of results."""
    provenance = run.read("provenance.json")
    began, ended = (datetime.fromisoformat(provenance[key]) for key in ("started", "finished"))
    return {
        "run": run.name,
        "algo": run.config["algo"],
        "env": run.config["env"],
        "seed": run.config["seed"],
        "steps": run.config["config"].get("total_steps"),
        "settings": settings_of(run.config["algo"], run.config["env"], run.config["config"]),
        "seconds": None if provenance.get("resumed") else (ended - began).total_seconds(),
        "finished": provenance["finished"],
        "commit": provenance.get("commit"),
        "versions": provenance.get("versions"),
    }


def settings_of(algo: str, env: str, config: Mapping[str, Any]) -> str:
    """A hash of the settings of a run, without its seed and its demonstration files."""
    told = {key: value for key, value in config.items() if key not in ("cost", "sha256")}
    return storage.sha256_of_bytes(storage.to_json([algo, env, told], sort_keys=True).encode())[:16]


def pace(out: str | os.PathLike[str], results: Iterable[Mapping[str, Any]] = ()) -> Pace:
    """The speeds of the finished runs in a folder, and of the records of measured results."""
    here: list[Mapping[str, Any]] = []
    for done in Path(out).glob("*/DONE"):
        try:
            here.append(record_of(Run.open(done.parent)))
        except (UserError, KeyError, TypeError, ValueError):
            continue  # damaged, or of another version: the estimate does without it
    rates = Pace()
    for records, own in ((here, True), (results, False)):
        for record in records:
            try:
                steps = record["steps"] or 1
                rates.append(Rate(record["algo"], record["env"], steps, record["seconds"] / steps, own))
            except (KeyError, TypeError):
                continue
    return rates


def expected(task: Task, rates: Pace) -> float | None:
    """Estimated seconds of a task from its start; None if nothing similar was measured."""
    return rates.seconds(task.job.algo, task.job.env, task.steps)


class Estimate(TypedDict):
    """The number of jobs, and how long the unfinished ones will take."""

    jobs: int
    finished: int
    to_run: int
    workers: int | None
    seconds: float | None
    """Seconds with this many workers; one job after the other if their number is unknown."""
    seconds_of_work: float | None
    unknown: list[list[str]]
    """[algorithm, environment] pairs without any measured run."""


def estimate(tasks: Sequence[Task], workers: int | None, rates: Pace) -> Estimate:
    """How long the unfinished tasks will take."""
    todo = [task for task in tasks if not task.done]
    times = [expected(task, rates) for task in todo]
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


def forecast(tasks: Sequence[Task], workers: int | None, rates: Pace) -> str:
    """One line: the number of jobs, how many are finished, and how long the unfinished ones will take."""
    numbers = estimate(tasks, workers, rates)
    text = f"{count(len(tasks), 'job')}, {numbers['finished']} finished"
    if not numbers["to_run"]:
        return f"{text}: nothing to run"
    text += f", {numbers['to_run']} to run" + (f" with {count(workers, 'worker')}" if workers else "")
    seconds = numbers["seconds"]
    if seconds is not None:
        text += f": about {in_words(seconds)}" + ("" if workers else " of work")
    if numbers["unknown"]:
        names = ", ".join(f"{algo} on {env}" for algo, env in numbers["unknown"])
        text += f"{':' if seconds is None else ' and'} an unknown time (there is no earlier run of {names})"
    return text


def in_words(seconds: float) -> str:
    """A duration in words: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
