"""Jobs that are killed with SIGKILL at random moments: `python kills.py JOB KILLS SEED FOLDER`, used by test_kill.py.

A job is begun, killed, begun again with the same command, killed again, and so on. After every death each file that is
there must be whole; in the end all files must equal, byte by byte, those of the job that nobody killed (times of day
and durations aside). Moments are drawn over the length of the undisturbed job, later ones more often, so that they fall
everywhere: before the first file, between checkpoints, while one is being written, after the last.

The lives are forks of this process, which has imported everything: a life costs what the job costs. It has imported
JAX too but never used it, because JAX does not survive a fork once it has started.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from tacit import demos
from tacit.cli import main
from tacit.run import Run, storage

PENDULUM = (
    *("--rollout-steps", "256", "--n-envs", "8", "--epochs", "2", "--eval-episodes", "4"),
    *("--checkpoint-every", "1", "--total-steps", "2560"),
)
JOBS: dict[str, tuple[str, ...]] = {
    "exact": ("learn", "mce-exact", "tacit/Gridworld-v0", "--slip", "0.1"),
    "demos": ("demos", "make", "tacit/Gridworld-v0", "--n", "400", "-o", "expert.npz"),
    "sweep": ("sweep", "sweep.toml", "--workers", "2"),
    "report": ("report", "RUN", "-o", "report.html"),
    "expert": ("expert", "tacit/Pendulum-v0", *PENDULUM, "--demonstrations", "0"),
    "mce": (
        *("learn", "mce", "tacit/Pendulum-v0", "--preset", "thresholds", *PENDULUM, "--bootstrap-steps", "512"),
        *("--forward-steps", "512", "--minibatches", "5", "--dual-batch", "64", "--joint", "4"),
    ),
}
SWEEP = 'algo = "mce-exact"\nenv = "tacit/Gridworld-v0"\nseeds = 2\n[env_kwargs]\nslip = [0.0, 0.2]\n'
WHEN = ("provenance.json", "DONE", ".lock")
"""Files that tell when and where, by design."""
TIMED = {"seconds", "time", "provenance", "attempts", "message", "versions", "commit", "command"}
LIVES = 6
"""Most lives of one job before it is left alone."""


def live(words: tuple[str, ...], log: Path, seconds: float | None = None) -> int:
    """The exit status of `tacit WORDS` in a fork; -9 if it was killed after so many seconds."""
    process = os.fork()
    if not process:
        status = 70
        try:
            with open(log, "a") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                status = main(list(words))
        finally:
            os._exit(status)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)  # a zombie until it is waited for: the number is nobody else's
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def check(root: Path) -> None:
    """Every file with a final name is whole, whenever its writer died."""
    for file in sorted(root.rglob("*")):
        if file.suffix == storage.TMP_SUFFIX:
            continue
        if file.name == "config.json":
            Run.open(file.parent)
        elif file.name == "DONE":
            assert (file.parent / "summary.json").exists()
        elif file.suffix == ".json":
            storage.read_json(file)
        elif file.suffix == ".jsonl":
            storage.read_jsonl(file)
        elif file.suffix == ".safetensors":
            storage.load_arrays(file)
        elif file.suffix == ".npz":
            demos.load(file)
        elif file.suffix == ".html":
            assert file.read_text("utf-8").rstrip().endswith("</html>")


def results(root: Path) -> dict[str, object]:
    """{name: content} of everything but the times."""
    found: dict[str, object] = {}
    for file in sorted(root.rglob("*")):
        name = str(file.relative_to(root))
        if file.is_dir() or file.name in WHEN or file.suffix == storage.TMP_SUFFIX or "logs" in file.parts:
            continue
        if file.suffix == ".jsonl":
            found[name] = untimed(storage.read_jsonl(file))
        elif file.suffix == ".json":
            found[name] = untimed(storage.read_json(file))
        elif file.suffix == ".html" and (file.parent / "DONE").exists():
            found[name] = "a report, which tells how long its run took"
        else:
            found[name] = file.read_bytes()
    return found


def untimed(value: object) -> object:
    """JSON without what depends on the clock; NaN as a word, which equals itself."""

    def without(entry: object) -> object:
        if isinstance(entry, dict):
            return {k: without(v) for k, v in entry.items() if k not in TIMED and not k.startswith("time/")}
        return [without(one) for one in entry] if isinstance(entry, list) else entry

    return json.loads(storage.to_json(without(value)))


def survive(name: str, kills: int, seed: int, folder: Path) -> None:
    """Kill a job `kills` times in all, in as many folders as it takes."""
    rng = np.random.default_rng([seed, *name.encode()])
    log, words = folder / "log", JOBS[name]
    if name == "report":
        os.chdir(folder)
        assert live((*JOBS["exact"], "--out", "given"), log) == 0, log.read_text()
        (run,) = (folder / "given").iterdir()
        words = tuple(str(run) if word == "RUN" else word for word in words)

    def enter(place: Path) -> None:
        place.mkdir()
        os.chdir(place)
        if name == "sweep":
            Path("sweep.toml").write_text(SWEEP)

    enter(folder / "whole")
    begin = time.monotonic()
    assert live(words, log) == 0, log.read_text()
    usual = time.monotonic() - begin
    if name in ("expert", "mce"):  # the first life compiled; the others find it in the cache
        begin = time.monotonic()
        enter(folder / "again")
        assert live(words, log) == 0, log.read_text()
        usual = time.monotonic() - begin
    expected = results(folder / "whole")
    deaths = resumed = number = 0
    while deaths < kills:
        number += 1
        assert number <= 10 * kills, f"only {deaths} deaths"
        place = folder / f"job{number}"
        enter(place)
        for _ in range(LIVES):
            begun = any(place.rglob("checkpoints/*"))
            begin = time.monotonic()
            status = live(words, log, rng.uniform(0.0, 1.0) ** 0.5 * usual)
            if status == 0:  # it outran its death: the machine was busier when `usual` was measured
                usual = min(usual, time.monotonic() - begin)
            assert status in (0, -signal.SIGKILL), log.read_text()
            check(place)
            deaths += status != 0
            resumed += begun
            if status == 0 or deaths >= kills:
                break
        assert live(words, log) == 0, log.read_text()
        check(place)
        found = results(place)
        assert found.keys() == expected.keys(), sorted(found.keys() ^ expected.keys())
        different = [file for file in expected if found[file] != expected[file]]
        assert not different, f"after {deaths} deaths: {different}"
    print(f"{name}: {deaths} kills in {number} jobs, {resumed} lives began at a checkpoint; usually {usual:.1f} s")


if __name__ == "__main__":
    job, *numbers, place = sys.argv[1:]

    import tacit.explain
    import tacit.inverse.exact_run
    import tacit.report

    if job in ("expert", "mce"):
        import tacit.forward.expert
        import tacit.inverse.mce  # noqa: F401
    survive(job, int(numbers[0]), int(numbers[1]), Path(place))
