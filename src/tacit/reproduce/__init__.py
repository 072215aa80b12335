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

Of runs, results["runs"] has one record each: label, run, algo, env, seed, steps, seconds, commit, versions, and what
`collect` found. Those that could not be had are named in results["missing"]; table and figure draw what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tacit.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from tacit.sweep import Task

EXPERIMENTS = {
    "exact-stochasticity": "the exact method on the gridworld as the dynamics slip more and more",
    "table-experts": "experts that know the constraint, on the five robots: what demonstrations can be made of",
    "table-robots": "MCE-ICRL, preset reference, on the five robots",
    "table-robots-paper": "MCE-ICRL with the paper's settings on the five robots, half of its steps",
    "decisions": "the decisions of the preset reference, one changed at a time, on three robots",
    "demos-few": "MCE-ICRL with 1 and 5 demonstrations on HalfCheetah and Pendulum",
}
SCHEMA = 1


def find(name: str) -> ModuleType:
    """The module of an experiment; UserError with the nearest name otherwise."""
    if name not in EXPERIMENTS:
        raise UserError(f"there is no experiment {name!r}; {did_you_mean(name, EXPERIMENTS)}")
    return import_module(f"tacit.reproduce.{name.replace('-', '_')}")


def gather(module: ModuleType, tasks: Iterable[Task]) -> dict[str, Any]:
    """{"runs": one record for every finished run, "missing": what is not there, with the reason}."""
    from tacit.run import Run
    from tacit.sweep_time import record_of

    runs, missing = [], []
    for task in tasks:
        reason = task.message or "not run"
        if task.done:
            try:
                run = Run.open(task.path)
                runs.append({"label": task.job.label, **record_of(run), **module.collect(task.job, run)})
                continue
            except (UserError, KeyError, TypeError, ValueError) as error:
                reason = f"{task.path} is damaged or of another version: {error!r}"
        missing.append({"label": task.job.label, "seed": task.job.seed, "run": task.path.name, "reason": reason})
    return {"runs": runs, "missing": missing}


def draw(module: ModuleType, results: dict[str, Any]) -> tuple[str, bytes]:
    """(table, figure)."""
    text = str(module.table(results))
    lost = results.get("missing") or []
    if lost:
        text += "\nMissing: " + "; ".join(f"{run['label']}, seed {run['seed']}" for run in lost) + ".\n"
    return text, module.figure(results)


def redraw(module: ModuleType, results: Any, where: str) -> tuple[str, bytes]:
    """The same from a file; UserError when these are not results that this version can draw."""
    if not isinstance(results, dict) or results.get("schema", SCHEMA) != SCHEMA:
        raise UserError(f"{where} was written by another version of Tacit; measure again, or use that version")
    try:
        return draw(module, results)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise UserError(f"{where} does not hold the numbers that are drawn (of another version?): {error!r}") from None


def in_words(results: Any) -> str:
    """One line about results: how many repetitions, of which code, from when."""
    if not isinstance(results, dict) or not isinstance(results.get("provenance"), dict):
        return "not results of an experiment"
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
        numbers = [int(part) for part in text.removesuffix(",").split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0:
        raise UserError(f"--seeds takes a number of seeds (3) or a list of seeds (0,1,2), not {text!r}")
    if "," in text:
        return numbers
    if numbers[0] < 1:
        raise UserError("--seeds 0 leaves nothing to measure; `--seeds 0,` is the seed 0 alone")
    return list(range(numbers[0]))
