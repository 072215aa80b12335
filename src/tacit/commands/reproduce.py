"""Measure an experiment again, and write its numbers, table and figure.

  tacit reproduce NAME [--seeds N] [--workers N] [--out results]

Writes NAME.json (every repetition, with command, versions and commit), NAME.md (the table) and NAME.png (the figure).
`tacit reproduce --list` says what there is, and what the results hold.

An experiment that is made of runs says first how long they will take, runs those that are not finished (see
`tacit sweep`), draws what is there and lists what is missing. The same command again goes on where it stopped.

Examples:
  tacit reproduce exact-stochasticity
  tacit reproduce exact-stochasticity --sets 3 --out /tmp/quick
  tacit reproduce table-experts --seeds 0,1,2 --runs runs --workers 2
  tacit reproduce table-experts --quick              a few steps each: does it work here?
  tacit reproduce table-experts --no-run             draw what is finished, run nothing
  tacit reproduce table-experts --keep               what the JSON has is not run again, even if its run is elsewhere
  tacit reproduce table-experts --only Swimmer Ant   run only what is about these, draw what else is there
  tacit reproduce table-experts --redraw             table and figure anew, from the JSON
  tacit reproduce robots --dry-run --json            what it would cost here, for scripts
"""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from tacit.commands import call, check_folder, print_json
from tacit.errors import RunFailed, UserError
from tacit.launch import to_stderr
from tacit.run import storage

if TYPE_CHECKING:
    from tacit.reproduce import Kept
    from tacit.sweep import Task

Name = Annotated[str | None, tyro.conf.arg(metavar="[NAME]")]
Seeds = Annotated[str | None, tyro.conf.arg(metavar="N|LIST")]
Address = Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")]
Words = Annotated[tuple[str, ...], tyro.conf.arg(metavar="TEXT [TEXT ...]")]
Number = Annotated[int | None, tyro.conf.arg(metavar="INT")]
SETS = 20
NOT_ASKED_FOR = "not asked for (--only)"


def main(args: list[str]) -> Any:
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
        """Reproduce.

        Args:
            name: Experiment.
            seeds: How many seeds (3), or which (0,1,2).
            sets: Independent repetitions of an experiment that is not made of runs; 20 when not given.
            quick: Only try it out; the results are called NAME-quick.
            workers: Runs at once; as many as there are processors when not given.
            ray: Run on a Ray cluster, as with `tacit sweep`.
            runs: Folder for run folders; finished ones are not run again.
            out: Folder for the results.
            dry_run: Only say how long it will take.
            no_run: Run nothing, draw what is finished.
            keep: Take over what the results in OUT hold of runs that are not in RUNS, instead of running them again.
            only: Run only these groups (Swimmer), rows ("beta 0.001") or labels, or what has the text in its label.
            redraw: Only draw table and figure again, from the JSON.
            list: List the experiments, and what the results hold.
            json: Print files, runs and what is missing as JSON; with --dry-run the estimate, with --list the list.
        """
        from tacit import reproduce as experiments
        from tacit.run import provenance

        if list:
            return _list(Path(out), json)
        if name is None:
            raise UserError("name an experiment; `tacit reproduce --list` says what there is")
        module = experiments.find(name)
        base = Path(out) / (f"{name}-quick" if quick else name)
        record = provenance(shlex.join(["tacit", "reproduce", *args]))
        results: Any
        if not dry_run:
            check_folder("--out", Path(out))
        running = {
            "--no-run": no_run,
            "--keep": keep,
            "--only": bool(only),
            "--ray": ray is not None,
            "--workers": workers is not None,
        }
        if redraw:
            others = {"--dry-run": dry_run, "--seeds": seeds is not None, "--sets": sets is not None}
            _refuse({**running, **others}, "--redraw draws what the JSON holds and runs nothing")
            results = storage.read_json(f"{base}.json")
        elif hasattr(module, "jobs"):
            if sets is not None:
                raise UserError(f"{name} is made of runs: say with --seeds how many, not with --sets")
            if quick:
                _refuse({"--keep": keep}, "--quick runs are for trying out, and none are kept")
            # What --only does not name is left as the results have it.
            kept = experiments.earlier(name, Path(out)) if keep or (only and not quick) else {}
            numbers = _from_runs(module, seeds, quick, runs, out, workers, ray, dry_run, no_run, json, kept, only, keep)
            results = numbers and {"schema": experiments.SCHEMA, "provenance": record, "quick": quick, **numbers}
        else:
            _refuse(running, f"{name} is not made of runs, it is measured in one go")
            numbers = _measured(module, name, _sets(sets, seeds, quick), base, dry_run, json)
            results = numbers and {"schema": experiments.SCHEMA, "provenance": record, **numbers}
        if results is None:
            return
        if not redraw:
            _set_aside(Path(f"{base}.json"), results, "" if keep else "; --keep takes runs over")
            storage.write_json(f"{base}.json", results)  # before drawing, which is easy to repeat
        text, picture = experiments.redraw(module, results, f"{base}.json")
        storage.atomic_write_text(f"{base}.md", text)
        storage.atomic_write_bytes(f"{base}.png", picture)
        missing = results.get("missing") or []
        files = [f"{base}.{kind}" for kind in ("json", "md", "png")]
        if json:
            print_json({"name": name, "files": files, "runs": len(results.get("runs", [])), "missing": missing})
        else:
            print("  ".join(files))
        failed = [lost for lost in missing if lost["reason"] != NOT_ASKED_FOR]
        _say_missing(failed)
        if len(missing) > len(failed):
            to_stderr(f"not asked for, and missing: {len(missing) - len(failed)}")
        if failed and not (no_run or redraw):
            raise RunFailed(f"{len(failed)} runs did not finish; table and figure show the others")

    return call(reproduce, "reproduce", __doc__, args)


def _refuse(options: Mapping[str, bool], why: str) -> None:
    """UserError that names those options that were given and would do nothing."""
    given = ", ".join(option for option, used in options.items() if used)
    if given:
        raise UserError(f"{why}: leave out {given}")


def _say_missing(missing: Sequence[Mapping[str, Any]]) -> None:
    for lost in missing:
        to_stderr(f"missing: {lost['label']}, seed {lost['seed']}: {lost['reason']}")


def _once(tasks: Sequence[Task]) -> list[Task]:
    """Without those that are the same run; what has no name yet is itself."""
    from tacit.reproduce import can_run

    return list({(task.path if can_run(task) else id(task)): task for task in tasks}.values())


def _set_aside(file: Path, results: Mapping[str, Any], advice: str) -> None:
    """Keep an earlier file that has what the new results lack: other runs, or another version's."""
    if not file.exists():
        return
    try:
        earlier = storage.read_json(file)
        lost = len(_names(earlier) - _names(results))
        why = f"has {lost} run{'s' if lost > 1 else ''} that the new one lacks" if lost else ""
        if (earlier.get("sets") or 0) > (results.get("sets") or 0):
            why, advice = f"has {earlier['sets']} sets, the new one {results.get('sets')}", ""
        if earlier.get("schema", results["schema"]) != results["schema"]:
            why = f"is of another version (schema {earlier['schema']})"
    except (UserError, AttributeError, KeyError, TypeError):
        why, advice = "cannot be read", ""
    if why:
        names = (file.with_name(f"{file.name}.bak{number or ''}") for number in itertools.count())
        kept = next(name for name in names if not name.exists())
        os.replace(file, kept)
        to_stderr(f"the earlier {file} {why}: it is now {kept}{advice}")


def _names(results: Mapping[str, Any]) -> set[tuple[Any, ...]]:
    return {(run["label"], run["seed"], run.get("run")) for run in results.get("runs", [])}


def _from_runs(
    module: Any,
    seeds: str | None,
    quick: bool,
    runs: str,
    out: str,
    workers: int | None,
    ray: str | None,
    dry_run: bool,
    no_run: bool,
    json: bool,
    kept: Kept,
    only: Sequence[str],
    keep: bool,
) -> dict[str, Any] | None:
    """The numbers of all finished runs, after running those that are not; None when that was not asked for."""
    from tacit import reproduce as experiments
    from tacit.machine import usable_cpus
    from tacit.sweep import run_tasks
    from tacit.sweep.ray import knock
    from tacit.sweep.time import estimate, forecast, pace

    if ray is not None:
        knock(ray)
    chosen = experiments.seeds_of(seeds, module.SEEDS)

    spared = kept if keep else {}
    before, tasks = experiments.plan(module, chosen, quick, runs, False, spared, only)
    labels = experiments.chosen_labels([task.job for task in tasks], only)
    # Once: what is run for others may change the names of what follows.
    left_alone = [task for task in tasks if keep or no_run or task.job.label not in labels]
    taken = experiments.taken_over(left_alone, kept)

    def to_do(tasks: Sequence[Task]) -> list[Task]:
        return [task for task in tasks if (task.job.label, task.job.seed) not in taken and task.job.label in labels]

    crew = workers or (usable_cpus() if ray is None else None)
    known = pace(runs, out)
    wanted = _once([*before, *to_do(tasks)])
    if taken:
        to_stderr(f"{len(taken)} runs are taken over from earlier results")
    to_stderr(forecast(wanted, crew, known))
    if dry_run:
        if json:
            print_json(estimate(wanted, crew, known))
        return None
    if not no_run:
        try:
            if before:
                run_tasks(before, workers=workers, ray=ray)
                tasks = experiments.plan(module, chosen, quick, runs, True, spared)[1]
            tried = {task.path: task.message for task in before}  # who failed there is not tried again
            for task in tasks:
                task.message = tried.get(task.path, task.message)
            new = [task for task in to_do(tasks) if experiments.can_run(task) and task.path not in tried]
            run_tasks(new, workers=workers, ray=ray)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("the same command goes on from here") from None
    for task in tasks:
        if not task.done and task.job.label not in labels:
            task.message = NOT_ASKED_FOR
    found = experiments.gather(module, tasks, taken)
    if only:  # other seeds stay as well
        there = {(task.job.label, task.job.seed) for task in tasks}
        found["runs"] += [run for key, run in kept.items() if isinstance(key, tuple) and key not in there]
    if not found["runs"]:
        _say_missing(found["missing"])
        raise RunFailed(f"none of the {len(tasks)} runs is finished in {runs}: there is nothing to draw")
    return found


def _measured(module: Any, name: str, sets: int, base: Path, dry_run: bool, json: bool) -> dict[str, Any] | None:
    """The numbers of an experiment that needs nothing but this process."""
    from tacit.run.progress import live
    from tacit.sweep.time import in_words

    try:
        seconds = float(module.seconds(storage.read_json(f"{base}.json")) * sets)
        time = f"about {in_words(seconds)}"
    except (UserError, AttributeError, KeyError, TypeError, ZeroDivisionError):
        seconds, time = None, "an unknown time (no earlier results to judge by)"
    to_stderr(f"{sets} sets: {time}")
    if dry_run:
        if json:
            print_json({"sets": sets, "seconds": seconds})
        return None
    with live(name) as update:
        return dict(module.measure(sets, update))


def _sets(sets: int | None, seeds: str | None, quick: bool) -> int:
    from tacit.reproduce import seeds_of

    if sets is None:
        numbers = seeds_of(seeds, range(2 if quick else SETS))
        if numbers != [*range(len(numbers))]:
            raise UserError("this experiment numbers its sets from 0: give --seeds how many")
        sets = len(numbers)
    if sets < 2:
        raise UserError(f"--sets must be at least 2, not {sets}: an interval needs repetitions")
    return sets


def _list(out: Path, json: bool) -> None:
    from tacit.reproduce import EXPERIMENTS, in_words, said

    rows = []
    for name, text in EXPERIMENTS.items():
        file = out / f"{name}.json"
        try:
            found = in_words(storage.read_json(file)) if file.exists() else "not there"
        except (UserError, KeyError, TypeError) as error:
            found = f"damaged or of another version: {said(error)}"
        rows.append({"name": name, "summary": text, "file": str(file), "results": found})
        if not json:
            print(f"{name:24} {text}\n{'':24} {file}: {found}")
    if json:
        print_json(rows)
