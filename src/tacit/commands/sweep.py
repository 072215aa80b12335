"""Run an algorithm over seeds, environments and settings, several runs at once.

  tacit sweep FILE [--workers N] [--out runs] [--dry-run]

FILE is TOML. Any value may be a list: there is one job for every combination of values.

  algo = "mce-exact"                    an algorithm of `tacit learn`, or "expert"
  env = "tacit/Gridworld-v0"
  seeds = 3                             0, 1, 2; or a list

  [settings]                            options of the algorithm
  beta = [0.1, 0.01]

  [env_kwargs]                          options of the environment
  slip = [0.0, 0.3]

The same command again continues an interrupted sweep: it skips finished runs and resumes begun ones. Two sweeps may use
the same folder. The table at the end is also written to OUT/NAME.json. The exit status is 1 if a job failed.

Examples:
  tacit sweep grid.toml --dry-run                 list the jobs and estimate the time, run nothing
  tacit sweep grid.toml --workers 2
  tacit sweep grid.toml --ray auto --out /shared/runs
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tyro

from tacit.commands import FilePath, command_line, new_table, print_json, print_table
from tacit.errors import RunFailed, UserError, listed
from tacit.metrics import lookup
from tacit.reproduce.results import records_in
from tacit.run import provenance, storage
from tacit.run.log import say
from tacit.run.machine import usable_cpus
from tacit.sweep import Task, prepare, run_tasks
from tacit.sweep import file as sweep_file
from tacit.sweep import ray as sweep_ray
from tacit.sweep import time as sweep_time

Address = Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")]
Number = Annotated[int | None, tyro.conf.arg(metavar="INT")]
COLUMNS = ("return", "terminated_return", "violation_rate_step", "violation_rate_episode")


def sweep(
    file: FilePath,
    /,
    *,
    out: str = "runs",
    workers: Number = None,
    retries: int = 1,
    ray: Address = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Run a sweep.

    Args:
        file: Sweep file.
        out: Folder in which the run folders are made.
        workers: Number of runs at once. Default: one per processor.
        retries: How often a run is tried again if its process dies.
        ray: Run on a Ray cluster: HOST:PORT, ray://HOST:PORT, auto, or local.
        dry_run: List the jobs and estimate the time. Run nothing.
        json: Print the table as JSON.
    """
    target = Path(out) / f"{Path(file).stem}.json"
    if target.exists() and target.samefile(file):
        raise UserError(f"{file} would be overwritten by the results: give another --out")
    if ray is not None:
        sweep_ray.check_address(ray)
    jobs = sweep_file.read(file)
    try:
        tasks = prepare(jobs, out)
    except UserError as error:
        raise UserError(f"{file}: {error}") from None
    rates = sweep_time.pace(out, records_in("results"))
    plan = sweep_time.forecast(tasks, workers or (usable_cpus() if ray is None else None), rates)
    if dry_run:
        return _list(tasks, rates, plan, json)
    say(plan)
    record = provenance(command_line())
    try:
        run_tasks(tasks, workers=workers, retries=retries, ray=ray)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command continues from here") from None
    finally:
        rows = [_row(task) for task in tasks]
        if Path(out).is_dir():
            storage.write_json(target, {"provenance": record, "jobs": rows})
    if json:
        print_json({"jobs": rows})
    else:
        _show(tasks, rows)
        print(target)
    for row in rows:
        if row["status"] == "damaged":
            say(f"{row['run']}: {row['message']}")
    failed = [task.job for task, row in zip(tasks, rows, strict=True) if row["status"] != "done"]
    if failed:
        raise RunFailed(f"{len(failed)} of {len(tasks)} jobs did not finish: {listed(failed)}")


def _list(tasks: list[Task], rates: sweep_time.Pace, plan: str, json: bool) -> None:
    states = ["finished" if t.done else "begun" if (t.path / "config.json").exists() else "new" for t in tasks]
    times = [0.0 if task.done else sweep_time.expected(task, rates) for task in tasks]
    if json:
        rows = [
            {**_job(task), "state": state, "seconds": seconds}
            for task, state, seconds in zip(tasks, states, times, strict=True)
        ]
        return print_json({"plan": plan, "jobs": rows})
    table = new_table("job", "seed", "state", "time", "run")
    for task, state, seconds in zip(tasks, states, times, strict=True):
        time = "unknown" if seconds is None else sweep_time.in_words(seconds)
        table.add_row(task.job.label, str(task.job.seed), state, time, task.path.name)
    print_table(table)
    print(plan)


def _job(task: Task) -> dict[str, Any]:
    return {**dataclasses.asdict(task.job), "run": task.path.name}


def _row(task: Task) -> dict[str, Any]:
    """The table row of a job that has ended, with the summary of a finished run."""
    row = {**_job(task), "status": task.status, "message": task.message, "attempts": task.attempts}
    if task.status == "done":
        try:
            row["summary"] = task.summary()
        except UserError as error:
            row |= {"status": "damaged", "message": str(error)}
    return row


def _show(tasks: list[Task], rows: list[dict[str, Any]]) -> None:
    from tacit.commands.summary import cell  # brings the report

    agents = [_main_agent(row.get("summary", {})) for row in rows]
    keys = [key for key in COLUMNS if any(key in agent for agent in agents)]
    table = new_table("job", "seed", "status", *(lookup(key).label for key in keys))
    table.columns[2].no_wrap = True
    for task, row, agent in zip(tasks, rows, agents, strict=True):
        status = row.get("summary", {}).get("status", row["status"])
        cells = (cell(agent.get(key), lookup(key).unit) for key in keys)
        table.add_row(task.job.label, str(task.job.seed), status, *cells)
    print_table(table)


def _main_agent(summary: dict[str, Any]) -> dict[str, Any]:
    """The numbers of the agent that the run is about."""
    agents = summary.get("table") or {}
    name = next((name for name in ("learned", "stochastic") if name in agents), next(iter(agents), None))
    return {} if name is None else dict(agents[name])
