"""Many runs: jobs as plain data, and worker processes. No run is done twice, and none is lost.

    jobs = [Job("expert", "tacit/Pendulum-v0", seed=seed) for seed in range(5)]
    tasks = run_jobs(jobs, "runs", workers=2)

A job has the arguments of `tacit learn` or `tacit expert`, and ends in the same run folder. Each runs in a process of
its own with one thread, because several runs side by side are faster than one with several threads. The run folders are
the only memory: a finished one is skipped, a begun one goes on from its checkpoint, one that another process is writing
into is waited for. So a sweep can be stopped and started again at any time, and two of them can share a folder.

A worker that dies (killed, out of memory, an exception nobody expected) is started again `retries` times; a run that
reports a failure is not, because it would fail again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic as clock
from time import sleep
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from tacit.errors import UserError
from tacit.launch import place, planning, resolve
from tacit.run import Run, disk, in_use, storage
from tacit.run.log import say
from tacit.run.machine import compiled_cache, usable_cpus
from tacit.sweep.time import in_words
from tacit.sweep.worker import BUSY, DONE, FAILED, WRONG, last_words

if TYPE_CHECKING:
    from tacit.sweep.ray import RayCrew

THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NPROC": "1"}
POLL, PATIENCE = 0.1, 2.0
"""Seconds between checks of the workers, and of a folder that another process is writing into."""


@dataclass(frozen=True)
class Job:
    """One run. See `tacit.launch.resolve` for the defaults."""

    algo: str
    env: str
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings on top of the preset."""
    demos: str | None = None
    label: str = ""
    """A readable name, without the seed."""

    def __str__(self) -> str:
        return f"{self.label or f'{self.algo} {self.env}'}, seed {self.seed}"

    @property
    def wanted(self) -> dict[str, Any]:
        """The keyword arguments of `start_run`."""
        names = ("env_kwargs", "seed", "preset", "settings", "demos")
        return {name: getattr(self, name) for name in names}


@dataclass
class Task:
    """A job with its run folder and its progress."""

    job: Job
    path: Path
    steps: int | None = None
    """Environment steps, if the settings give their number."""
    status: Literal["done", "failed", "open"] = "open"
    message: str = ""
    attempts: int = 0
    """Number of workers that this sweep started for it; 0 if it was finished before."""
    not_before: float = 0.0

    @property
    def done(self) -> bool:
        return (self.path / "DONE").exists()

    def summary(self) -> dict[str, Any]:
        """The summary of a finished run."""
        return dict(Run.open(self.path).read("summary.json"))


def prepare(jobs: Iterable[Job], out: str | os.PathLike[str]) -> list[Task]:
    """Check and name every job before anything runs; equal jobs are one task. UserError that names the wrong job."""
    tasks: dict[Path, Task] = {}
    resolved: dict[str, dict[str, Any]] = {}
    with planning():
        for job in jobs:
            same = storage.to_json([job.algo, job.env, {**job.wanted, "seed": None}])
            settings = resolved.get(same)
            if settings is None:
                try:
                    settings, _ = resolve(job.algo, job.env, **job.wanted, say=lambda text: None)
                except UserError as error:
                    raise UserError(f"{job}: {error}") from None
                # Demonstrations without a file are made for each seed; everything else is the same for all seeds.
                if settings["demos"] is None or settings["demos"]["path"] is not None:
                    resolved[same] = settings
            settings = {**settings, "seed": job.seed}
            path = place(Path(out).absolute(), settings)
            task = Task(job, path, settings["config"].get("total_steps"))
            if task.done:
                task.status = "done"
            tasks.setdefault(path, task)
    return list(tasks.values())


def run_jobs(
    jobs: Sequence[Job],
    out: str | os.PathLike[str] = "runs",
    *,
    workers: int | None = None,
    retries: int = 1,
    ray: str | None = None,
    report: Callable[[str], None] = say,
) -> list[Task]:
    """Run all unfinished jobs, `workers` at once (by default one per processor), and report the result of each job."""
    tasks = prepare(jobs, out)
    run_tasks(tasks, workers=workers, retries=retries, ray=ray, report=report)
    return tasks


def run_tasks(
    tasks: Sequence[Task],
    *,
    workers: int | None = None,
    retries: int = 1,
    ray: str | None = None,
    report: Callable[[str], None] = say,
) -> None:
    """Run prepared tasks, in place, as `run_jobs` does. On KeyboardInterrupt the workers are stopped first."""
    if workers is not None and workers < 1:
        raise UserError(f"workers must be at least 1, not {workers}")
    if retries < 0:
        raise UserError(f"retries must be at least 0, not {retries}")
    waiting = [task for task in tasks if task.status != "done"]
    if not waiting:
        return
    running: dict[Any, Task] = {}
    started = clock()

    def settle(task: Task, status: Literal["done", "failed"], message: str = "") -> None:
        task.status, task.message = status, message
        of = f"[{sum(t.status != 'open' for t in tasks)}/{len(tasks)}]"
        report(f"{of} {task.job}: {status}{f', {message}' if message else ''} (after {in_words(clock() - started)})")

    def wait_for_others(task: Task, who: str) -> None:
        if not task.not_before:
            report(f"{task.job}: waiting, because {who}")
        task.not_before = clock() + PATIENCE
        waiting.append(task)

    with _crew(ray, workers) as crew:
        while waiting or running:
            for task in [task for task in waiting if task.not_before <= clock()]:
                if len(running) >= crew.size:
                    break
                waiting.remove(task)
                try:
                    if task.done:
                        settle(task, "done")
                    elif who := in_use(task.path):
                        wait_for_others(task, who)
                    else:
                        task.attempts += 1
                        running[crew.start(task)] = task
                except UserError as error:  # a folder of another user: the other jobs go on
                    settle(task, "failed", str(error))
            sleep(POLL)
            for handle, (status, text) in crew.ended(list(running)):
                task = running.pop(handle)
                if task.done:
                    settle(task, "done")
                elif status == BUSY:
                    task.attempts -= 1
                    wait_for_others(task, text)
                elif status == DONE:
                    settle(task, "failed", f"the worker has finished, but {task.path} is not here: is it shared?")
                elif status in (FAILED, WRONG) or task.attempts > retries:
                    settle(task, "failed", text)
                else:
                    report(f"{task.job}: {text}; trying again")
                    waiting.append(task)


# ---------------------------------------------------------------------------------------------------------------------
# Workers


def _crew(ray: str | None, workers: int | None) -> LocalCrew | RayCrew:
    """A place where tasks run. Leaving the context stops those that are still running."""
    if ray is None:
        return LocalCrew(workers or usable_cpus())
    from tacit.sweep.ray import RayCrew

    return RayCrew(ray, workers)


class LocalCrew:
    """Child processes, started afresh (JAX does not survive a fork). The output of each is kept in logs/NAME.log."""

    def __init__(self, size: int) -> None:
        self.size = size
        """Number of tasks at once."""
        self._processes: dict[subprocess.Popen[bytes], tuple[Path, int]] = {}

    def __enter__(self) -> LocalCrew:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, task: Task) -> subprocess.Popen[bytes]:
        """A handle for `ended`."""
        log = task.path.parent / "logs" / f"{task.path.name}.log"
        try:
            disk.subfolder(log.parent)
            with disk.appending(log) as output:
                size = output.seek(0, os.SEEK_END)
                process = subprocess.Popen(
                    [sys.executable, "-P", "-c", "from tacit.sweep.worker import main; main()"],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env={**compiled_cache(), **os.environ, **THREADS},
                )
        except OSError as error:
            raise UserError(f"cannot start a worker for {task.job}: {error}") from None
        self._processes[process] = (log, size)
        job = {"algo": task.job.algo, "env": task.job.env, "out": task.path.parent, "wanted": task.job.wanted}
        try:
            _pipe(process).write(storage.to_json(job).encode() + b"\n")
            _pipe(process).flush()
        except BrokenPipeError:
            pass  # it died at once; `ended` reports how
        return process

    def ended(self, handles: list[subprocess.Popen[bytes]]) -> Iterable[tuple[Any, tuple[int, str]]]:
        """The tasks that have ended, with (exit status, message)."""
        for process in handles:
            status = process.poll()
            if status is None:
                continue
            log, size = self._processes.pop(process)
            _pipe(process).close()
            yield process, (status, _last_words(process.pid, status, log, size))


def _pipe(process: subprocess.Popen[bytes]) -> BinaryIO:
    assert process.stdin is not None
    return process.stdin  # type: ignore[return-value]


def _last_words(pid: int, status: int, log: Path, start: int) -> str:
    """The worker's last message, or the last line of its log, or the signal that killed it."""
    if status < 0:
        name = signal.Signals(-status).name if -status in {*signal.Signals} else f"signal {-status}"
        memory = ", perhaps out of memory" if name == "SIGKILL" else ""
        return f"the worker was killed ({name}{memory}); its output is in {log}"
    with disk.reading(log) as file:
        file.seek(start)
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    # Workers of two sweeps may write into the same log.
    own = [line.removeprefix(last_words(pid)) for line in lines if line.startswith(last_words(pid))]
    return next(reversed([*lines, *own]), f"the worker ended with status {status}")
