"""Short jobs that pass through every algorithm, and what they gave: `python tests/golden_jobs.py --renew`.

Each job is a command line of `tacit`, or a few problems for `tacit.solve`. Nothing else of the package is used, so that
the same jobs run against any version of its source. Two things are made of them:

    tests/test_golden.py      runs them and compares with the numbers in tests/golden, to a tolerance
    tools/same_results.py     runs them against two commits and compares all files byte by byte

    python tests/golden_jobs.py --renew [--jobs NAME ...]       write the numbers in tests/golden again
    python tests/golden_jobs.py --run FOLDER [--jobs NAME ...]  only run them, with all their files in FOLDER

Renew the numbers only when results are meant to change, and say why in the commit; all of them must come from one kind
of machine (golden_helpers.py). Every job writes into a folder of its own name, inside the folder in which it is run;
nothing that it is given has an absolute path.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
STORED = HERE / "golden"
DEMONSTRATIONS = HERE / "fixtures" / "v0.1" / "demos.npz"
"""Six of the Pendulum; a job finds them as demos.npz."""
ROAD = "tacit/SlowZone-v0"
PENDULUM, GRIDWORLD, HIGHWAY = "tacit/Pendulum-v0", "tacit/Gridworld-v0", "tacit/HighwayVelocity-v0"
PLACE = "RUN"
"""In a command line: the run folder of the job that comes before."""
RECORDS = 2
"""So many lines of the metrics are stored."""


def words(line: str) -> tuple[str, ...]:
    return tuple(line.split())


# Two or three outer iterations of networks that compile quickly.
PPO = words("--n-envs 8 --rollout-steps 256 --batch-size 64 --epochs 2 --hidden 16 16 --eval-episodes 4")
SHORT = (*PPO, "--total-steps", "768", "--checkpoint-every", "1")
TURNS = (*SHORT, "--bootstrap-steps", "256", "--forward-steps", "256")
DUAL = words("--minibatches 10 --dual-batch 64")
SHOWN = ("--demos", "demos.npz")
NET = words("--layers 16")
SETTINGS = words("--set n_envs=8 rollout_steps=256 batch_size=64 epochs=2 hidden=[16,16] eval_episodes=4")


@dataclass(frozen=True)
class Job:
    """A name, and the words after `tacit`. Without words it is a Python function of this file."""

    name: str
    words: tuple[str, ...] = ()
    after: str | None = None
    """The job whose run it is made of."""
    function: Callable[[Path], None] | None = None
    interrupted: bool = False
    """The run that comes before is taken back to an earlier checkpoint, and resumed."""


def learn(name: str, algo: str, env: str, *options: str) -> Job:
    return Job(name, ("learn", algo, env, *options))


def solve_small(folder: Path) -> None:
    """A small random problem with each objective of `tacit.solve`, discounted and with a horizon."""
    import numpy as np

    from tacit import MDP, solve

    rng = np.random.default_rng(0)
    states, actions = 6, 3
    dynamics = rng.dirichlet(np.ones(states), size=(states, actions))
    rewards, features = rng.standard_normal((states, actions)), rng.random((states, actions, 4))
    walks = [
        (rng.integers(states, size=9), rng.integers(actions, size=8)) for _ in range(12)
    ]  # of nobody in particular: the expert need not be optimal
    found = {}
    for horizon, discount in ((None, 0.9), (8, 1.0)):
        start = np.full(states, 1 / states)
        mdp = MDP(dynamics, rewards, start, discount, horizon)
        for objective in ("moments", "likelihood", "plugin"):
            solution = solve(mdp, features, demonstrations=walks, beta=0.5, budget=0.05, objective=objective)
            found[f"{objective}, horizon {horizon}"] = {
                "status": solution.status,
                "weights": solution.weights.tolist(),
                "moments": solution.moments.tolist(),
                "policy": solution.policy.tolist(),
            }
    (folder / "summary.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")


JOBS = {
    job.name: job
    for job in (
        Job("solve", function=solve_small),
        learn("mce-exact", "mce-exact", GRIDWORLD, "--slip", "0.1"),
        learn("ml-greedy", "ml-greedy", GRIDWORLD),
        learn("ml-greedy-causal", "ml-greedy-causal", GRIDWORLD, "--slip", "0.1"),
        learn("bc", "bc", PENDULUM, *SHOWN, *words("--steps 200 --hidden 16 16 --eval-episodes 4")),
        learn("box", "box", PENDULUM, *SHOWN, *SHORT),
        learn("ppo", "ppo", PENDULUM, *SHOWN, *SHORT),
        learn("rcpo", "rcpo", PENDULUM, *SHOWN, *SHORT),
        learn("rcpo-paper", "rcpo", PENDULUM, "--preset", "paper", *SHOWN, *SHORT),
        Job("expert", ("expert", PENDULUM, *SHORT, "--demonstrations", "0")),
        Job("expert-pid", ("expert", PENDULUM, *SHORT, "--demonstrations", "0", "--multiplier", "pid")),
        learn("mce", "mce", PENDULUM, "--preset", "thresholds", *SHOWN, *TURNS, *DUAL),
        learn("mce-terms", "mce", ROAD, *TURNS, *words("--total-steps 2560 --tempted-steps 256")),
        Job("mce-resumed", after="mce", interrupted=True),
        Job("retrain", ("retrain", PLACE, "--steps", "768", "--charge", "budget", *SETTINGS), after="mce"),
        Job(
            "transfer",
            (
                *("transfer", PLACE, "--to", "tacit/Point-v0", "--which", "map", "--shared"),
                *("--steps", "512", "--charge", "budget", *SETTINGS),
            ),
            after="mce",
        ),
        learn(
            "mce-paper",
            *("mce", PENDULUM, "--preset", "paper", *SHOWN, *TURNS, *words("--joint 4 --feature-hidden 8")),
            *DUAL,
        ),
        learn("mce-gridworld", "mce", GRIDWORLD, *TURNS, *words("--joint 4 --feature-hidden 8"), *DUAL),
        learn("mce-highway", "mce", HIGHWAY, *TURNS, *DUAL, *words("--demonstrations 6 --eval-episodes 2")),
        learn("bc2l", "bc2l", PENDULUM, *SHOWN, *TURNS, *NET),
        learn("irl-correction", "irl-correction", PENDULUM, *SHOWN, *TURNS, *NET),
        learn("bc2l-paper", "bc2l", PENDULUM, "--preset", "paper", *SHOWN, *TURNS, *NET),
        learn("bc2l-nominal", "bc2l", PENDULUM, "--start", "nominal", *SHOWN, *TURNS, *NET),
        learn("gacl", "gacl", PENDULUM, *SHOWN, *SHORT, *NET, "--bootstrap-steps", "256"),
        learn("gacl-paper", "gacl", PENDULUM, "--preset", "paper", *SHOWN, *SHORT, *NET, "--bootstrap-steps", "256"),
        learn("me-icrl", "me-icrl", PENDULUM, *SHOWN, *TURNS, *NET),
        learn("me-icrl-paper", "me-icrl", PENDULUM, "--preset", "paper", *SHOWN, *TURNS, *NET),
        learn("vicrl", "vicrl", PENDULUM, *SHOWN, *TURNS, *NET),
        learn("vicrl-paper", "vicrl", PENDULUM, "--preset", "paper", *SHOWN, *TURNS, *NET),
    )
}


def chain(name: str) -> list[Job]:
    """A job and all that come after it."""
    return [JOBS[name], *(JOBS[other.name] for other in JOBS.values() if other.after == name)]


def needed(names: Sequence[str]) -> list[Job]:
    """The jobs of these names, with those that they come after, in order; all without names."""
    unknown = [name for name in names if name not in JOBS]
    if unknown:
        raise SystemExit(f"there is no job {unknown[0]!r}: {', '.join(JOBS)}")
    wanted = {*names, *(JOBS[name].after for name in names)} if names else set(JOBS)
    return [job for job in JOBS.values() if job.name in wanted]


# ---------------------------------------------------------------------------------------------------------------------
# Running


def run(job: Job, folder: Path) -> Path:
    """Run a job inside `folder`, where those that it comes after were run; its run folder."""
    from tacit.cli import main

    own = folder / job.name
    own.mkdir()
    if not (folder / "demos.npz").exists():
        shutil.copyfile(DEMONSTRATIONS, folder / "demos.npz")
    with contextlib.chdir(folder):
        if job.function is not None:
            job.function(Path(job.name))
            return own
        before = None if job.after is None else run_folder(Path(job.after))
        if job.interrupted:
            assert before is not None
            command = ("resume", str(interrupt(before, Path(job.name))))
        else:
            command = (*(str(before) if word == PLACE else word for word in job.words), "--out", job.name)
        status = main([*command, "--json"])
    if status:
        raise RuntimeError(f"job {job.name} ended with status {status}: tacit {' '.join(command)}")
    return run_folder(own)


def run_folder(folder: Path) -> Path:
    """The one run folder inside."""
    (config,) = folder.glob("*/config.json")
    return config.parent


def interrupt(finished: Path, into: Path) -> Path:
    """A copy of a finished run as if it had been killed before its last checkpoint; the new run folder."""
    path = into / finished.name
    shutil.copytree(finished, path, ignore=shutil.ignore_patterns(*LAST))
    checkpoints = sorted((path / "checkpoints").iterdir())
    assert len(checkpoints) > 1, f"{finished} has one checkpoint: there is nothing to go back to"
    checkpoints[-1].unlink()
    return path


LAST = (
    *("DONE", "summary.json", "samples.safetensors", "eval.jsonl", "explanation.*", "report.html", ".lock"),
    *("policy.*", "cost.*", "map.*"),
)
"""What a run writes when it has learned."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what the jobs print."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield


# ---------------------------------------------------------------------------------------------------------------------
# What is stored


def numbers(path: Path, records: int | None = RECORDS) -> dict[str, Any]:
    """The metrics of the first iterations and the main numbers of the summary, without what depends on the clock."""
    log = path / "metrics.jsonl"
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    metrics = [
        {key: value for key, value in json.loads(line).items() if "time" not in key and "seconds" not in key}
        for line in lines[:records]
    ]
    return {"metrics": metrics, "summary": _main(json.loads((path / "summary.json").read_text("utf-8")))}


def _main(summary: dict[str, Any]) -> dict[str, Any]:
    """Of a summary: the middle of each interval, and no seconds."""

    def shortened(value: Any) -> Any:
        if isinstance(value, dict):
            if "value" in value and "low" in value:
                return value["value"]
            return {key: shortened(one) for key, one in value.items() if key not in LEFT_OUT}
        return [shortened(one) for one in value] if isinstance(value, list) else value

    return shortened(summary)


LEFT_OUT = ("time", "seconds", "statement", "text", "provenance", "run", "source")


def renew(names: Sequence[str]) -> None:
    """Write tests/golden/NAME.json for each job."""
    import tempfile

    from golden_helpers import MACHINE, here

    MACHINE.parent.mkdir(parents=True, exist_ok=True)
    now = json.dumps(here(), indent=1) + "\n"
    if names and (not MACHINE.exists() or MACHINE.read_text("utf-8") != now):
        raise SystemExit("the other numbers were made on another machine: renew all of them")
    MACHINE.write_text(now, "utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for job in needed(names):
            began = time.perf_counter()
            with quiet():
                found = numbers(run(job, Path(folder)))
            (STORED / f"{job.name}.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
            print(f"{job.name:<18} {time.perf_counter() - began:5.1f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--renew", action="store_true", help="write the numbers in tests/golden again")
    what.add_argument("--run", type=Path, metavar="FOLDER", help="run the jobs, with their files in FOLDER")
    parser.add_argument("--jobs", nargs="+", default=[], metavar="NAME", help="only these, and what they need")
    given = parser.parse_args()
    if given.renew:
        renew(given.jobs)
        return 0
    given.run.mkdir(parents=True, exist_ok=True)
    failed = 0
    for job in needed(given.jobs):
        began = time.perf_counter()
        try:
            with quiet():
                run(job, given.run.resolve())
        except Exception:  # the others are worth knowing, too
            traceback.print_exc()
            failed += 1
        print(f"{job.name:<18} {time.perf_counter() - began:5.1f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
