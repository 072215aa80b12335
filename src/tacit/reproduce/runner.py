"""The common part of all experiments: plan the runs, reuse earlier results, run, gather the numbers, draw."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tacit.algorithms import find as algorithm
from tacit.errors import RunFailed, UserError
from tacit.launch import planning
from tacit.reproduce import results as results_file
from tacit.reproduce.catalogue import EXPERIMENTS
from tacit.reproduce.experiment import Experiment, Measured, Staged
from tacit.reproduce.figures import FIGURES
from tacit.reproduce.records import COLLECT
from tacit.reproduce.results import READABLE, Missing, Record, Results
from tacit.reproduce.tables import TABLES
from tacit.run import Run
from tacit.run.log import say
from tacit.run.machine import usable_cpus
from tacit.sweep import Job, Task, prepare, run_tasks
from tacit.sweep.ray import check_address
from tacit.sweep.time import Pace, forecast, record_of, settings_of

NOWHERE = Path("(not there)")
NOT_ASKED_FOR = "not asked for (--only)"
Kept = dict[str | tuple[str, int], Record]
"""Records of earlier results by the name of the run; records of the experiment itself also by label and seed."""
Taken = dict[tuple[str, int], Record]
"""Earlier records by label and seed, used in place of runs that are not in the folder of runs."""


# ---------------------------------------------------------------------------------------------------------------------
# Plan


def chosen_labels(jobs: Iterable[Job], words: Sequence[str]) -> set[str]:
    """Labels of the jobs that the words name; without words all labels. UserError for a word that names no job.

    A word is a label, its group or its row; any other word is a part of a label.
    """
    labels = list(dict.fromkeys(job.label for job in jobs))
    chosen = set(() if words else labels)
    for word in words:
        named = [label for label in labels if word in (label, *label.split(": ", 1))]
        named = named or [label for label in labels if word and word in label]
        if not named:
            raise UserError(f"--only: no run matches {word!r}; the labels are {', '.join(labels)}")
        chosen |= set(named)
    return chosen


def plan(
    experiment: Experiment,
    seeds: Sequence[int],
    quick: bool,
    runs: str,
    *,
    making: bool = False,
    kept: Kept | None = None,
    words: Sequence[str] = (),
) -> tuple[list[Task], list[Task]]:
    """Plan the runs: (those of the first stage, those of the experiment).

    `making` writes the files that are made from the first stage.
    A run whose files are missing or unusable becomes a task that `can_run` refuses, with the reason. The first stage is
    left out for seeds whose runs are all finished, `kept` or not named by the `words`. If the experiment says what its
    runs need (`Staged.needed_by`), or the words also name runs of the first stage (the same robot, the same noise),
    only those are planned.
    """
    with planning():
        if not isinstance(experiment, Staged):
            return [], _tasks(experiment.jobs(seeds, quick), runs)
        before: dict[Path, Task] = {}
        tasks: list[Task] = []
        stages: list[tuple[list[Task], list[Task]]] = []
        for seed in seeds:
            needed = prepare(experiment.first([seed], quick), runs)
            finished = [task for task in needed if task.done]
            if making and finished:
                experiment.make(finished, quick)
            stages.append((needed, [_task(job, runs) for job in experiment.jobs([seed], quick, finished)]))
            tasks += stages[-1][1]
    labels = chosen_labels([task.job for task in tasks], words)
    for needed, own in stages:
        to_do = [task.job.label for task in own if task.job.label in labels and not _spared(task, kept or {})]
        if to_do:
            named = experiment.needed_by(to_do)
            if named is None:
                named = _named([task.job for task in needed], words)
            before |= {task.path: task for task in needed if task.job.label in named}
    return list(before.values()), tasks


def _spared(task: Task, kept: Kept) -> bool:
    return task.done or kept_for(task, kept) is not None


def _named(jobs: Sequence[Job], words: Sequence[str]) -> set[str]:
    """Labels of the jobs that the words name, or all of them if a word names none."""
    try:
        return chosen_labels(jobs, words)
    except UserError:
        return {job.label for job in jobs}


def _tasks(jobs: Sequence[Job], runs: str) -> list[Task]:
    """A task for every label and seed, even if two of them share one run."""
    tasks = prepare(jobs, runs)
    there = {(task.job.label, task.job.seed) for task in tasks}
    twins = [job for job in jobs if (job.label, job.seed) not in there]
    return [*tasks, *(prepare([job], runs)[0] for job in twins)]


def _task(job: Job, runs: str) -> Task:
    """The prepared task of a job, or a postponed one with the reason."""
    needed = [job.demos, job.settings["cost"] if job.algo == "retrain" else None]
    if not all(os.path.exists(file) for file in needed if file is not None):
        return _postponed(job, "the files that it learns from are missing")
    try:
        return prepare([job], runs)[0]
    except UserError as error:  # one cost that forbids nothing must not stop all other runs
        return _postponed(job, str(error))


def _postponed(job: Job, reason: str) -> Task:
    return Task(job, NOWHERE, _config(job).get("total_steps"), status="failed", message=reason)


def _config(job: Job) -> dict[str, Any]:
    return asdict(algorithm(job.algo).config(job.env, job.preset, job.settings))


def can_run(task: Task) -> bool:
    """Whether all files that the run needs exist."""
    return task.path != NOWHERE


# ---------------------------------------------------------------------------------------------------------------------
# Keep


def earlier(name: str, experiment: Experiment, out: Path) -> Kept:
    """Records in `out`, of this experiment and of others that collect the same numbers.

    If a run was made more than once, the last record counts. Results of another version are ignored, and so are damaged
    results of another experiment.
    """
    kept: Kept = {}
    others = {other: entry for other, entry in EXPERIMENTS.items() if other != name}
    for other, entry in {**others, name: experiment}.items():
        file = out / f"{other}.json"
        if isinstance(entry, Measured) or entry.collect != experiment.collect or not file.exists():
            continue
        try:
            results = results_file.read(file)
        except UserError as error:
            if other == name:
                raise
            say(f"earlier results are ignored: {error}")
            continue
        if not isinstance(results, dict) or results.get("schema") not in READABLE:
            say(f"{file} is ignored: it was written by another version of Tacit")
            continue
        try:
            for record in results.get("runs", []):
                if record.get("finished", "") >= kept.get(record["run"], {}).get("finished", ""):
                    kept[record["run"]] = record
                if other == name:
                    kept[record["label"], record["seed"]] = record
        except (KeyError, TypeError, AttributeError) as error:
            say(f"{file} is ignored: it is damaged or of another version: {message_of(error)}")
    return kept


def kept_for(task: Task, kept: Kept) -> Record | None:
    """The earlier record of a task with the same settings. Its run folder may be on another machine.

    The files that a task learns from may be missing, too. Then it has no run folder yet, and is recognised by its
    label, seed and other settings (`tacit.sweep.time.settings_of`; older records have only their number of steps).
    """
    record = kept.get((task.job.label, task.job.seed) if task.path == NOWHERE else task.path.name)
    if record is None:
        return None
    if task.path == NOWHERE:
        config = _config(task.job)
        same = settings_of(task.job.algo, task.job.env, config)
        if record.get("settings", same) != same or record["steps"] != config.get("total_steps"):
            return None
    return {**record, "label": task.job.label}


def taken_over(tasks: Iterable[Task], kept: Kept) -> Taken:
    """The earlier records of the tasks that are not finished here."""
    records = {(task.job.label, task.job.seed): kept_for(task, kept) for task in tasks if not task.done}
    return {key: record for key, record in records.items() if record is not None}


# ---------------------------------------------------------------------------------------------------------------------
# Run and gather


@dataclass(frozen=True)
class Options:
    """How an experiment is run; see `tacit reproduce --help`."""

    seeds: Sequence[int]
    runs: str = "runs"
    quick: bool = False
    workers: int | None = None
    ray: str | None = None
    no_run: bool = False
    keep: bool = False
    only: Sequence[str] = ()

    @property
    def crew(self) -> int | None:
        """Number of workers at once; None: as many as a cluster has."""
        return self.workers or (usable_cpus() if self.ray is None else None)


class Runner:
    """The runs of an experiment: plan them, run them, and gather their results."""

    def __init__(self, experiment: Experiment, options: Options, kept: Kept) -> None:
        if options.ray is not None:
            check_address(options.ray)
        self.experiment, self.options, self.kept = experiment, options, kept
        self._spared = kept if options.keep else {}
        self.before, self.tasks = self._plan(words=options.only)
        self.labels = chosen_labels([task.job for task in self.tasks], options.only)
        # Computed once, because the first stage may change the names of the runs that follow it.
        left = options.keep or options.no_run
        self.taken = taken_over([task for task in self.tasks if left or task.job.label not in self.labels], kept)

    def _plan(self, making: bool = False, words: Sequence[str] = ()) -> tuple[list[Task], list[Task]]:
        options = self.options
        return plan(
            self.experiment, options.seeds, options.quick, options.runs, making=making, kept=self._spared, words=words
        )

    def _to_do(self) -> list[Task]:
        tasks = [task for task in self.tasks if task.job.label in self.labels]
        return [task for task in tasks if (task.job.label, task.job.seed) not in self.taken]

    @property
    def wanted(self) -> list[Task]:
        """All planned runs without duplicates. A task without a run folder counts as different from all others."""
        tasks = [*self.before, *self._to_do()]
        return list({(task.path if can_run(task) else id(task)): task for task in tasks}.values())

    def forecast(self, pace: Pace) -> str:
        return forecast(self.wanted, self.options.crew, pace)

    def run(self) -> None:
        """Run all unfinished runs. KeyboardInterrupt stops the workers."""
        workers, ray = self.options.workers, self.options.ray
        try:
            if self.before:
                run_tasks(self.before, workers=workers, ray=ray)
                self.tasks = self._plan(making=True)[1]
            tried = {task.path: task.message for task in self.before}  # failed runs are not tried again
            for task in self.tasks:
                task.message = tried.get(task.path, task.message)
            todo = [task for task in self._to_do() if can_run(task) and task.path not in tried]
            run_tasks(todo, workers=workers, ray=ray)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("the same command continues from here") from None

    def results(self) -> Results:
        """The numbers of all finished runs, and the missing runs; RunFailed if no run is finished."""
        for task in self.tasks:
            if not task.done and task.job.label not in self.labels:
                task.message = NOT_ASKED_FOR
        results = gather(self.experiment, self.tasks, self.taken)
        if self.options.only:  # records of other seeds are kept
            there = {(task.job.label, task.job.seed) for task in self.tasks}
            results["runs"] += [run for key, run in self.kept.items() if isinstance(key, tuple) and key not in there]
        if not results["runs"]:
            report_missing(results["missing"])
            where = self.options.runs
            raise RunFailed(f"none of the {len(self.tasks)} runs is finished in {where}: there is nothing to draw")
        return results


def gather(experiment: Experiment, tasks: Iterable[Task], taken: Taken | None = None) -> Results:
    """Gather the results: {"runs": a record per finished run, "missing": the other runs with the reason}.

    `taken` are earlier records, for runs that are not here.
    """
    collect = COLLECT[experiment.collect] if isinstance(experiment.collect, str) else experiment.collect
    runs: list[Record] = []
    missing: list[Missing] = []
    for task in tasks:
        reason = task.message or "not run"
        if task.done:
            try:
                run = Run.open(task.path)
                runs.append({"label": task.job.label, **record_of(run), **collect(task.job, run)})
                continue
            except (UserError, KeyError, TypeError, ValueError, AttributeError) as error:
                reason = f"{task.path} is damaged or of another version: {message_of(error)}"
        elif record := (taken or {}).get((task.job.label, task.job.seed)):
            runs.append(record)
            continue
        missing.append({"label": task.job.label, "seed": task.job.seed, "run": task.path.name, "reason": reason})
    return {"runs": runs, "missing": missing}


def report_missing(missing: Sequence[Missing]) -> None:
    for run in missing:
        say(f"missing: {run['label']}, seed {run['seed']}: {run['reason']}")


# ---------------------------------------------------------------------------------------------------------------------
# Draw


def draw(experiment: Experiment | Measured, results: Any) -> tuple[str, bytes]:
    """Draw results: (table as Markdown, figure as PNG)."""
    if isinstance(experiment, Measured):
        return experiment.table(results), experiment.figure(results)
    table = TABLES[experiment.table] if isinstance(experiment.table, str) else experiment.table
    figure = FIGURES[experiment.figure] if isinstance(experiment.figure, str) else experiment.figure
    text = table(experiment, results)
    lost = results.get("missing") or []
    if lost:
        text += "\nMissing: " + "; ".join(f"{run['label']}, seed {run['seed']}" for run in lost) + ".\n"
    return text, figure(experiment, results)


def redraw(experiment: Experiment | Measured, results: Any, where: str) -> tuple[str, bytes]:
    """Draw saved results: (table, figure). UserError if this version cannot draw them."""
    if not isinstance(results, dict) or results.get("schema", READABLE[0]) not in READABLE:
        raise UserError(f"{where} was written by another version of Tacit; measure again, or use that version")
    try:
        return draw(experiment, results)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise UserError(
            f"{where} lacks numbers that are needed to draw it (is it of another version?): {message_of(error)}"
        ) from None


def message_of(error: Exception) -> str:
    """The message about an error in a file."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"


def summary_of(results: Any) -> str:
    """One line about results: number of repetitions, commit and date."""
    if not isinstance(results, dict) or not isinstance(results.get("provenance"), dict):
        return "not results of an experiment"
    if results.get("schema", READABLE[0]) not in READABLE:
        return "written by another version of Tacit"
    provenance: Mapping[str, Any] = results["provenance"]
    if "runs" in results:
        seeds = sorted({run["seed"] for run in results["runs"]})
        text = f"{len(results['runs'])} runs, seeds {', '.join(map(str, seeds))}"
        text += f", {len(results['missing'])} missing" if results.get("missing") else ""
        commits = {run["commit"] for run in results["runs"]}
    else:
        text, commits = f"{results.get('sets')} sets", {provenance.get("commit")}
    short = sorted(str(commit)[:7] + ("-dirty" if "dirty" in str(commit) else "") for commit in commits)
    return f"{text}; commit {', '.join(short)}; {str(provenance.get('started'))[:10]}"


def seeds_of(text: str | None, default: Sequence[int]) -> list[int]:
    """Seeds as a user gives them: how many ("3"), or which ("0,1,7")."""
    if text is None:
        return list(default)
    try:
        numbers = list(dict.fromkeys(int(part) for part in text.removesuffix(",").split(",")))
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0:
        raise UserError(f"--seeds takes a number of seeds (3) or a list of seeds (0,1,2), not {text!r}")
    if "," in text:
        return numbers
    if numbers[0] < 1:
        raise UserError("--seeds 0 leaves nothing to measure; `--seeds 0,` is the seed 0 alone")
    return list(range(numbers[0]))
