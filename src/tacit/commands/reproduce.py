"""Measure an experiment again, and write its numbers, table and figure.

  tacit reproduce NAME [--seeds N] [--workers N] [--out results]

Writes NAME.json (every repetition, with command, versions and commit), NAME.curves.json.xz (learning curves), NAME.md
(the table) and NAME.png (the figure). `tacit reproduce --list` lists the experiments and what the results hold.

An experiment that is made of runs first estimates the time. Then it runs what is not finished (see `tacit sweep`),
draws the results and lists missing runs. The same command again continues where it stopped.

NAME may also be a number of the paper (figure-1 to figure-15, table-1, table-2), or a file of your own:
my_experiment.toml, or my_experiment.py, which defines EXPERIMENT.

Examples:
  tacit reproduce exact-stochasticity
  tacit reproduce exact-stochasticity --sets 3 --out /tmp/quick
  tacit reproduce figure-2 --dry-run                 the paper's figure 2: which runs, and how long they take
  tacit reproduce table-experts --seeds 0,1,2 --runs runs --workers 2
  tacit reproduce table-experts --quick              try it out with very short runs
  tacit reproduce table-experts --no-run             draw what is finished, run nothing
  tacit reproduce table-experts --keep               do not repeat runs whose numbers the JSON has
  tacit reproduce table-experts --only Swimmer Ant   run only these, draw everything that is finished
  tacit reproduce table-experts --redraw             draw table and figure again from the JSON
  tacit reproduce robots --dry-run --json            estimate the time, for scripts
  tacit reproduce my_experiment.toml --dry-run
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro

from tacit.commands import check_folder, command_line, print_json
from tacit.errors import RunFailed, UserError
from tacit.reproduce import EXPERIMENTS, Experiment, Measured, find
from tacit.reproduce import results as results_file
from tacit.reproduce.paper import NUMBERED
from tacit.reproduce.results import READABLE, SCHEMA
from tacit.reproduce.runner import (
    NOT_ASKED_FOR,
    Options,
    Runner,
    earlier,
    message_of,
    report_missing,
    seeds_of,
    summary_of,
)
from tacit.reproduce.runner import redraw as redraw_results
from tacit.run import disk, provenance, storage
from tacit.run.log import say
from tacit.run.terminal import live
from tacit.sweep.time import estimate, in_words, pace

Name = Annotated[str | None, tyro.conf.arg(metavar="[NAME]")]
Seeds = Annotated[str | None, tyro.conf.arg(metavar="N|LIST")]
Address = Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")]
Words = Annotated[tuple[str, ...], tyro.conf.arg(metavar="TEXT [TEXT ...]")]
Number = Annotated[int | None, tyro.conf.arg(metavar="INT")]
SETS = 20


def reproduce(
    name: Name = None,
    /,
    *,
    seeds: Seeds = None,
    sets: Number = None,
    quick: bool = False,
    workers: Number = None,
    ray: Address = None,
    runs: str = "runs",
    out: str = "results",
    dry_run: bool = False,
    no_run: bool = False,
    keep: bool = False,
    only: Words = (),
    redraw: bool = False,
    list: bool = False,
    json: bool = False,
) -> None:
    """Reproduce an experiment.

    Args:
        name: Experiment, number of the paper such as figure-2 or table-1, or a .toml or .py file of your own.
        seeds: Number of seeds (3), or a list of seeds (0,1,2). Default: those of the experiment.
        sets: Number of repetitions, for an experiment that is not made of runs. Default: 20.
        quick: Try it out with very short runs. The results are called NAME-quick.
        workers: Number of runs at once. Default: one per processor.
        ray: Run on a Ray cluster, as with `tacit sweep`.
        runs: Folder of the run folders. Finished runs are not repeated.
        out: Folder for the results.
        dry_run: Only estimate the time.
        no_run: Run nothing. Draw what is finished.
        keep: Do not repeat runs that are missing in RUNS if OUT already has their numbers.
        only: Run only these groups (Swimmer), rows ("beta 0.001") or labels. Part of a label is enough.
        redraw: Only draw table and figure again from the JSON.
        list: List all experiments, or only NAME, and which results there are.
        json: Print the outcome as JSON; with --dry-run the estimate, with --list the list.
    """
    if name is None and not list:
        raise UserError("name an experiment; `tacit reproduce --list` lists them")
    chosen = None if name is None else find(name)
    if chosen is None or list:
        return _list(Path(out), EXPERIMENTS if chosen is None else dict([chosen]), json)
    name, experiment = chosen
    base = Path(out) / (f"{name}-quick" if quick else name)
    record = provenance(command_line())
    if not dry_run:
        check_folder("--out", Path(out))
    running = {
        "--no-run": no_run,
        "--keep": keep,
        "--only": bool(only),
        "--ray": ray is not None,
        "--workers": workers is not None,
    }
    numbers: Mapping[str, Any] | None
    if redraw:
        others = {"--dry-run": dry_run, "--seeds": seeds is not None, "--sets": sets is not None}
        _refuse({**running, **others}, "--redraw draws what the JSON holds and runs nothing")
        return _finish(name, experiment, base, json, ran=False)
    if isinstance(experiment, Measured):
        _refuse(running, f"{name} is not made of runs, it is measured in one go")
        numbers = _measured(experiment, name, _sets(sets, seeds, quick), base, dry_run, json)
    else:
        if sets is not None:
            raise UserError(f"{name} is made of runs: say with --seeds how many, not with --sets")
        if quick:
            _refuse({"--keep": keep}, "--quick runs are for trying out, and none are kept")
        # What --only does not name is left as the results have it.
        kept = earlier(name, experiment, Path(out)) if keep or (only and not quick) else {}
        options = Options(seeds_of(seeds, experiment.seeds), runs, quick, workers, ray, no_run, keep, only)
        numbers = _from_runs(Runner(experiment, options, kept), out, dry_run, json)
        numbers = numbers and {"quick": quick, **numbers}
    if numbers is None:
        return
    results = {"schema": SCHEMA, "provenance": record, **numbers}
    _set_aside(Path(f"{base}.json"), results, "" if keep else "; --keep takes runs over")
    results_file.write(f"{base}.json", results)  # before drawing, which is easy to repeat
    _finish(name, experiment, base, json, ran=not no_run)


def _finish(name: str, experiment: Experiment | Measured, base: Path, json: bool, ran: bool) -> None:
    """Draw the results that are on disk, and say what is missing; RunFailed if it should have been `ran`."""
    results = results_file.read(f"{base}.json")
    text, picture = redraw_results(experiment, results, f"{base}.json")
    storage.atomic_write_text(f"{base}.md", text)
    storage.atomic_write_bytes(f"{base}.png", picture)
    missing = results.get("missing") or []
    files = [f"{base}.{kind}" for kind in ("json", "md", "png")]
    if json:
        print_json({"name": name, "files": files, "runs": len(results.get("runs", [])), "missing": missing})
    else:
        print("  ".join(files))
    failed = [run for run in missing if run["reason"] != NOT_ASKED_FOR]
    report_missing(failed)
    if len(missing) > len(failed):
        say(f"not asked for, and missing: {len(missing) - len(failed)}")
    if failed and ran:
        raise RunFailed(f"{len(failed)} runs did not finish; table and figure show those that did")


def _refuse(options: Mapping[str, bool], why: str) -> None:
    """UserError that names those options that were given and would do nothing."""
    given = ", ".join(option for option, used in options.items() if used)
    if given:
        raise UserError(f"{why}: leave out {given}")


def _set_aside(file: Path, results: Mapping[str, Any], advice: str) -> None:
    """Keep an earlier file if it has runs, or a version of Tacit, that the new results lack."""
    if not file.exists():
        return
    try:
        before = results_file.read(file, curves=False)
        lost = len(_names(before) - _names(results))
        why = f"has {lost} run{'s' if lost > 1 else ''} that the new one lacks" if lost else ""
        if (before.get("sets") or 0) > (results.get("sets") or 0):
            why, advice = f"has {before['sets']} sets, the new one {results.get('sets')}", ""
        if before.get("schema", SCHEMA) not in READABLE:
            why = f"is of another version (schema {before['schema']})"
    except (UserError, AttributeError, KeyError, TypeError):
        why, advice = "cannot be read", ""
    if why:
        names = (file.with_name(f"{file.name}.bak{number or ''}") for number in itertools.count())
        backup = next(name for name in names if not name.exists())
        disk.move(file, backup)
        if results_file.curves_file(file).exists():
            disk.move(results_file.curves_file(file), results_file.curves_file(backup))
        say(f"the earlier {file} {why}: it is now {backup}{advice}")


def _names(results: Mapping[str, Any]) -> set[tuple[Any, ...]]:
    return {(run["label"], run["seed"], run.get("run")) for run in results.get("runs", [])}


def _from_runs(runner: Runner, out: str, dry_run: bool, json: bool) -> Mapping[str, Any] | None:
    """The numbers of all finished runs, after running those that are not; None for a dry run."""
    rates = pace(runner.options.runs, results_file.records_in(out))
    if runner.taken:
        say(f"{len(runner.taken)} runs are taken over from earlier results")
    say(runner.forecast(rates))
    if dry_run:
        if json:
            print_json(estimate(runner.wanted, runner.options.crew, rates))
        return None
    if not runner.options.no_run:
        runner.run()
    return runner.results()


def _measured(
    experiment: Measured, name: str, sets: int, base: Path, dry_run: bool, json: bool
) -> Mapping[str, Any] | None:
    """The numbers of an experiment that runs within this process; None for a dry run."""
    try:
        seconds = float(experiment.seconds(results_file.read(f"{base}.json")) * sets)
        time = f"about {in_words(seconds)}"
    except (UserError, AttributeError, KeyError, TypeError, ZeroDivisionError):
        seconds, time = None, "an unknown time (there are no earlier results)"
    say(f"{sets} sets: {time}")
    if dry_run:
        if json:
            print_json({"sets": sets, "seconds": seconds})
        return None
    with live(name) as update:
        return experiment.measure(sets, update)


def _sets(sets: int | None, seeds: str | None, quick: bool) -> int:
    if sets is None:
        numbers = seeds_of(seeds, range(2 if quick else SETS))
        if numbers != [*range(len(numbers))]:
            raise UserError("this experiment numbers its sets from 0: give --seeds how many")
        sets = len(numbers)
    if sets < 2:
        raise UserError(f"--sets must be at least 2, not {sets}: an interval needs repetitions")
    return sets


def _list(out: Path, experiments: Mapping[str, Experiment | Measured], json: bool) -> None:
    rows = []
    numbers = {name: [number for number, own in NUMBERED.items() if own == name] for name in experiments}
    for name, experiment in experiments.items():
        file = out / f"{name}.json"
        try:
            text = summary_of(results_file.read(file, curves=False)) if file.exists() else "not there"
        except (UserError, KeyError, TypeError) as error:
            text = f"damaged or of another version: {message_of(error)}"
        row = {"name": name, "summary": experiment.summary, "file": str(file), "results": text}
        rows.append({**row, "paper": numbers[name]})
        if not json:
            paper = "".join(f"{number.replace('-', ' ')} of the paper; " for number in numbers[name])
            print(f"{name:24} {experiment.summary}\n{'':24} {paper}{file}: {text}")
    if json:
        print_json(rows)
