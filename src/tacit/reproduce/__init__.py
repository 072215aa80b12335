"""Experiments by name: each a module that says what to measure, and draws from one JSON with its provenance.

table(results: dict) -> str              Markdown, from the numbers alone
figure(results: dict) -> bytes           PNG, from the numbers alone

and, when it needs nothing but this process,

measure(sets: int, progress) -> dict     the numbers: plain JSON, every repetition kept
seconds(results: dict) -> float          optional: what a set took, from earlier results

or, when it is made of runs,

SEEDS                                    which seeds, unless the user says otherwise
jobs(seeds, quick) -> list[Job]          what must be run (tacit.sweep); `quick` for a few steps each, to try it out
collect(job, run) -> dict                the numbers of one finished run folder

and, where runs need what other runs make (demonstrations of an expert in another world, a cost to transfer),

first(seeds, quick) -> list[Job]         those other runs; they are finished before the rest begins
make(tasks, quick)                       optional: files that are made of those, once they are there
jobs(seeds, quick, made) -> list[Job]    `made` are the finished ones of them; a job whose files do not exist is missing

Experiments that are made of the same parts are objects (`experiment.Experiment`) with the same names, in `grid` and
`robots`. Of runs, results["runs"] has one record each: label, run, algo, env, seed, steps, seconds, commit, versions,
and what `collect` found. Those that could not be had are named in results["missing"]; table and figure draw what is
there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import UserError, did_you_mean
from tacit.run import storage

if TYPE_CHECKING:
    from tacit.sweep import Job, Task

EXPERIMENTS = {
    "exact-stochasticity": "the exact method on the gridworld as the dynamics slip more and more",
    "table-experts": "experts that know the constraint, on the five robots: what demonstrations can be made of",
    "table-robots": "MCE-ICRL, preset reference, on the five robots",
    "table-robots-paper": "MCE-ICRL with the paper's settings on the five robots, a fifth of its iterations",
    "decisions": "the decisions of the preset reference, one changed at a time, on three robots",
    "demos-few": "MCE-ICRL with 1 and 5 demonstrations on HalfCheetah and Pendulum",
    "grid-stochasticity": "gridworld: the four methods and exact ones, stochasticity 0 to 0.5",
    "grid-ppo": "gridworld: MCE-ICRL with PPO beside the exact solver, and how far it is from it",
    "grid-stochasticity-paper": "gridworld: the four methods with their published settings",
    "grid-contenders": "gridworld: later contenders and references beside MCE-ICRL",
    "grid-tuning": "gridworld: the record of tuning, four trials a method at two stochasticities",
    "grid-curves": "gridworld: the four methods during training",
    "grid-maps": "gridworld: demonstrations, recovered cost and visits on the map",
    "grid-beta": "gridworld: MCE-ICRL with four entropy weights",
    "grid-beta-paper": "gridworld: the paper's settings with its four entropy weights",
    "grid-pretraining": "gridworld: with and without pre-training of the features",
    "grid-pretraining-paper": "gridworld: the same with the paper's settings",
    "robots": "five robots: the four methods and two references during training",
    "robots-paper": "five robots: the four methods with their published settings, a fifth of the paper's steps",
    "robots-contenders": "five robots: later contenders and behaviour cloning beside MCE-ICRL",
    "robots-beta": "five robots: the paper's settings with its four entropy weights, during training",
    "robots-pretraining": "five robots: the paper's settings with and without pre-training, during training",
    "table-ablation": "the paper's table of ablations on five robots, beside its own numbers",
    "robots-screens": "the five robots in pictures",
    "robots-noise": "HalfCheetah with process noise: the four methods",
    "transfer": "the Ant's cost taken to Point and to BrokenAnt, four methods",
    "retraining": "five robots: a fresh agent with the frozen cost of MCE-ICRL and of ME-ICRL",
    "demos-count": "1 to 50 demonstrations on Pendulum and Swimmer",
    "demos-violating": "20, 50 and 80 % of demonstrations that violate, on Pendulum and Swimmer",
    "tuning": "the record of tuning: four trials a method on HalfCheetah and Swimmer",
    "traffic": "highway driving in simulated traffic: MCE-ICRL, the expert, and the baselines",
    "traffic-beta": "highway driving: MCE-ICRL with four entropy weights",
    "traffic-pretraining": "highway driving: the paper's settings with and without pre-training of the features",
}
SHARED = {name: "grid" for name in EXPERIMENTS if name.startswith("grid-")}
SHARED |= {name: "robots" for name in EXPERIMENTS if name.startswith("robots")}
SHARED |= dict.fromkeys(
    ("table-ablation", "transfer", "retraining", "demos-count", "demos-violating", "tuning"), "robots"
)
"""Where experiments are that have no module of their own."""
SCHEMA = 1
NOWHERE = Path("(not there)")


def find(name: str) -> Any:
    """The module of an experiment, or an object like one; UserError with the nearest name otherwise."""
    if name not in EXPERIMENTS:
        raise UserError(f"there is no experiment {name!r}; {did_you_mean(name, EXPERIMENTS)}")
    if name in SHARED:
        return import_module(f"tacit.reproduce.{SHARED[name]}").EXPERIMENTS[name]
    return import_module(f"tacit.reproduce.{name.replace('-', '_')}")


def chosen_labels(jobs: Iterable[Job], words: Sequence[str]) -> set[str]:
    """Labels of the jobs that are meant by one of the words; of all without any. UserError for a word that means none.

    A word is a label, its group or its row; what is none of these is a part of a label.
    """
    labels = list(dict.fromkeys(job.label for job in jobs))
    found = set(() if words else labels)
    for word in words:
        meant = [label for label in labels if word in (label, *label.split(": ", 1))]
        meant = meant or [label for label in labels if word and word in label]
        if not meant:
            raise UserError(f"--only: no run is about {word!r}; these are there: {', '.join(labels)}")
        found |= set(meant)
    return found


def plan(
    module: Any,
    seeds: list[int],
    quick: bool,
    runs: str,
    making: bool,
    kept: Kept | None = None,
    words: Sequence[str] = (),
) -> tuple[list[Task], list[Task]]:
    """(runs that others need, the runs of the experiment). With `making`, files that are made of the first are made.

    A run that needs what is not there, or cannot use it, is a task that `can_run` says no of, with the reason. Of the
    first, those of seeds are left out of which everything is finished, `kept` or not meant by the `words`; and where
    the words mean some of the first, too (the same robot, the same noise), the others.
    """
    from tacit.sweep import prepare

    if getattr(module, "first", None) is None:
        return [], _all_of(module.jobs(seeds, quick), runs)
    before: dict[Path, Task] = {}
    tasks: list[Task] = []
    stages: list[tuple[list[Task], list[Task]]] = []
    for seed in seeds:
        needed = prepare(module.first([seed], quick), runs)
        made = [task for task in needed if task.done]
        if making and made and getattr(module, "make", None) is not None:
            module.make(made, quick)
        stages.append((needed, [_task(job, runs) for job in module.jobs([seed], quick, made)]))
        tasks += stages[-1][1]
    labels = chosen_labels([task.job for task in tasks], words)
    for needed, own in stages:
        if not all(task.done or kept_for(task, kept or {}) for task in own if task.job.label in labels):
            try:
                meant = chosen_labels([task.job for task in needed], words)
            except UserError:
                meant = {task.job.label for task in needed}
            before |= {task.path: task for task in needed if task.job.label in meant}
    return list(before.values()), tasks


def _task(job: Job, runs: str) -> Task:
    """Prepared, or postponed with the reason."""
    from tacit.sweep import prepare

    if not all(os.path.exists(file) for file in _needed(job)):
        return _postponed(job, "what it learns from is not there")
    try:
        return prepare([job], runs)[0]
    except UserError as error:  # a cost that forbids nothing cannot be transferred: the others can
        return _postponed(job, str(error))


def can_run(task: Task) -> bool:
    """Is there what the run needs?"""
    return task.path != NOWHERE


def _needed(job: Job) -> list[str]:
    """Files and folders without which a job cannot be prepared."""
    files = [job.demos, job.settings["cost"] if job.algo == "retrain" else None]
    return [file for file in files if file is not None]


def _postponed(job: Job, reason: str) -> Task:
    from tacit.sweep import Task

    return Task(job, NOWHERE, _config(job).get("total_steps"), status="failed", message=reason)


def _config(job: Job) -> dict[str, Any]:
    from dataclasses import asdict

    from tacit.algorithms import find as algorithm

    return asdict(algorithm(job.algo).config(job.env, job.preset, job.settings))


def _all_of(jobs: list[Job], runs: str) -> list[Task]:
    """A task for every label and seed, also where two of them are the same run."""
    from tacit.sweep import prepare

    tasks = prepare(jobs, runs)
    there = {(task.job.label, task.job.seed) for task in tasks}
    twins = [job for job in jobs if (job.label, job.seed) not in there]
    return [*tasks, *(prepare([job], runs)[0] for job in twins)]


Kept = dict[str | tuple[str, int], dict[str, Any]]
"""Records of earlier results by the name of the run; those of the experiment itself also by label and seed."""
Taken = dict[tuple[str, int], dict[str, Any]]
"""Those that stand for runs which are not here, by label and seed."""


def earlier(name: str, out: Path) -> Kept:
    """What results in `out` hold of single runs: those of the experiment, and of others that collect the same numbers.

    Of a run that was made more than once, the last counts. Results of another version hold nothing, nor do damaged ones
    of another experiment.
    """
    from tacit.launch import to_stderr

    kept: Kept = {}
    collect = find(name).collect
    for other in [*(other for other in EXPERIMENTS if other != name), name]:
        file = out / f"{other}.json"
        if getattr(find(other), "collect", None) is not collect or not file.exists():
            continue
        try:
            results = storage.read_json(file)
        except UserError as error:
            if other == name:
                raise
            to_stderr(f"nothing is taken over from there: {error}")
            continue
        if not isinstance(results, dict) or results.get("schema") != SCHEMA:
            to_stderr(f"nothing is taken over from {file}, which was written by another version of Tacit")
            continue
        try:
            for record in results.get("runs", []):
                known = kept.get(record["run"], {})
                if record.get("finished", "") >= known.get("finished", ""):
                    kept[record["run"]] = record
                if other == name:
                    kept[record["label"], record["seed"]] = record
        except (KeyError, TypeError, AttributeError) as error:
            to_stderr(f"nothing is taken over from {file}, which is damaged or of another version: {said(error)}")
    return kept


def kept_for(task: Task, kept: Kept) -> dict[str, Any] | None:
    """The earlier record of a task: of a run with the same settings, whose folder may be on another machine.

    What a task learns from may not be here either. Then it has no name yet, and is known by its label, seed and other
    settings (`sweep_time.settings_of`; older records have only their number of steps).
    """
    from tacit.sweep.time import settings_of

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
    """The earlier records of those tasks that are not finished here."""
    found = {(task.job.label, task.job.seed): kept_for(task, kept) for task in tasks if not task.done}
    return {key: record for key, record in found.items() if record is not None}


def gather(module: Any, tasks: Iterable[Task], taken: Taken | None = None) -> dict[str, Any]:
    """{"runs": one record for every finished run, "missing": what is not there, with the reason}.

    `taken` are earlier records, for runs that are not here.
    """
    from tacit.run import Run
    from tacit.sweep.time import record_of

    runs, missing = [], []
    for task in tasks:
        reason = task.message or "not run"
        if task.done:
            try:
                run = Run.open(task.path)
                runs.append({"label": task.job.label, **record_of(run), **module.collect(task.job, run)})
                continue
            except (UserError, KeyError, TypeError, ValueError, AttributeError) as error:
                reason = f"{task.path} is damaged or of another version: {said(error)}"
        elif record := (taken or {}).get((task.job.label, task.job.seed)):
            runs.append(record)
            continue
        missing.append({"label": task.job.label, "seed": task.job.seed, "run": task.path.name, "reason": reason})
    return {"runs": runs, "missing": missing}


def draw(module: Any, results: dict[str, Any]) -> tuple[str, bytes]:
    """(table, figure)."""
    text = str(module.table(results))
    lost = results.get("missing") or []
    if lost:
        text += "\nMissing: " + "; ".join(f"{run['label']}, seed {run['seed']}" for run in lost) + ".\n"
    return text, module.figure(results)


def redraw(module: Any, results: Any, where: str) -> tuple[str, bytes]:
    """The same from a file; UserError when these are not results that this version can draw."""
    if not isinstance(results, dict) or results.get("schema", SCHEMA) != SCHEMA:
        raise UserError(f"{where} was written by another version of Tacit; measure again, or use that version")
    try:
        return draw(module, results)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise UserError(
            f"{where} does not hold the numbers that are drawn (of another version?): {said(error)}"
        ) from None


def said(error: Exception) -> str:
    """What was wrong with a file, for a person."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"


def in_words(results: Any) -> str:
    """One line about results: how many repetitions, of which code, from when."""
    if not isinstance(results, dict) or not isinstance(results.get("provenance"), dict):
        return "not results of an experiment"
    if results.get("schema", SCHEMA) != SCHEMA:
        return "written by another version of Tacit"
    made = results["provenance"]
    if "runs" in results:
        seeds = sorted({run["seed"] for run in results["runs"]})
        said = f"{len(results['runs'])} runs, seeds {', '.join(map(str, seeds))}"
        said += f", {len(results['missing'])} missing" if results.get("missing") else ""
        commits = {run["commit"] for run in results["runs"]}
    else:
        said, commits = f"{results.get('sets')} sets", {made.get("commit")}
    short = sorted(str(commit)[:7] + ("-dirty" if "dirty" in str(commit) else "") for commit in commits)
    return f"{said}; commit {', '.join(short)}; {str(made.get('started'))[:10]}"


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
