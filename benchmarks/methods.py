"""Speed of every method on one core, and what the robot suite costs with it.

    python -m benchmarks methods [--tasks HalfCheetah,Ant] [--methods mce,gacl] [--out results/bench-methods.json]

A run of the preset `reference` is made twice, with few and with more environment steps, in a folder that is thrown away
afterwards. In processor time of this process, which a busy machine does not blur:

    steps/s    more steps over more seconds: simulation, PPO and inverse steps, without what a run costs once
    fixed      what is left: set-up, demonstrations, and a final evaluation of EPISODES episodes (a usual run has 100)

The published code of the baselines reports about 1.15 thousand steps a second on HalfCheetah, with five processes for
the simulation. The suite is every method on every task with the preset's own number of steps and one seed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stderr
from typing import Any

from tacit import presets
from tacit.launch import execute, start_run
from tacit.run import provenance, storage

TASKS = ("HalfCheetah", "Pendulum", "Swimmer", "Walker", "Ant")
METHODS = ("mce", "gacl", "me-icrl", "vicrl", "bc2l", "irl-correction", "ppo", "rcpo")
SUITE = ("mce", "gacl", "me-icrl", "vicrl", "ppo", "rcpo")
PUBLISHED = 1150.0
"""Environment steps a second that the earlier benchmark's logs of HalfCheetah come to."""
EPISODES = 20


def seconds(method: str, task: str, steps: int, episodes: int = EPISODES) -> tuple[float, int]:
    """(processor seconds, environment steps) of a whole run."""
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        begin = time.process_time()
        settings = {"total_steps": steps, "eval_episodes": episodes}
        run, demos = start_run(method, f"tacit/{task}-v0", out=folder, preset="reference", settings=settings)
        summary = execute(run, demos)
        return time.process_time() - begin, int(summary["steps"])


def measure(method: str, task: str, few: int, more: int) -> dict[str, Any]:
    """Steps a second and the fixed cost of one method on one task."""
    seconds(method, task, few, episodes=2)  # compiles
    (little, first), (much, last) = seconds(method, task, few), seconds(method, task, more)
    rate = (last - first) / max(much - little, 1e-9)
    total = presets.load(method, "reference", f"tacit/{task}-v0")["total_steps"]
    fixed = max(0.0, little - first / rate)
    return {
        "method": method,
        "task": task,
        "steps_per_second": rate,
        "fixed_seconds": fixed,
        "preset_steps": total,
        "run_seconds": fixed + total / rate,
    }


def show(record: dict[str, Any]) -> None:
    rate = record["steps_per_second"]
    beside = f"  {rate / PUBLISHED:.1f} x the published code" if record["task"] == "HalfCheetah" else ""
    print(
        f"  {record['method']:15s} {record['task']:12s} {rate / 1000:6.2f}k steps/s"
        f"  fixed {record['fixed_seconds']:.0f} s"
        f"  a run of {record['preset_steps'] / 1e6:g}M steps {record['run_seconds'] / 60:.1f} min{beside}"
    )


def suite(records: Sequence[dict[str, Any]]) -> float | None:
    """Processor seconds of all methods of the suite on all tasks with one seed; None unless all were measured."""
    known = {(record["method"], record["task"]): record["run_seconds"] for record in records}
    wanted = [(method, task) for method in SUITE for task in TASKS]
    return sum(known[pair] for pair in wanted) if all(pair in known for pair in wanted) else None


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks methods", description=__doc__)
    parser.add_argument("--tasks", default=",".join(TASKS), help="comma-separated")
    parser.add_argument("--methods", default=",".join(METHODS), help="comma-separated")
    parser.add_argument("--steps", type=int, nargs=2, default=(40_960, 122_880), metavar=("FEW", "MORE"))
    parser.add_argument("--out", default=None, help="also write the numbers as JSON")
    options = parser.parse_args(arguments)
    records = []
    for task in options.tasks.split(","):
        for method in options.methods.split(","):
            records.append(measure(method, task, *options.steps))
            show(records[-1])
    whole = suite(records)
    if whole is not None:
        print(
            f"  the suite, {len(SUITE)} methods on {len(TASKS)} robots, one seed: {whole / 3600:.1f} hours of one core"
        )
    if options.out:
        origin = provenance("python -m benchmarks methods " + " ".join(arguments))
        content = {"provenance": origin, "published_steps_per_second": PUBLISHED}
        storage.write_json(options.out, {**content, "records": records, "suite_seconds": whole})


if __name__ == "__main__":
    main(sys.argv[1:])
