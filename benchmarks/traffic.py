"""How fast the highway traffic is: environment steps a second by number of copies, memory, loading.

    python -m benchmarks.traffic [--steps 200] [--repeats 5] [--reactive] [--json]

Every step computes the full observation, collisions, rewards and costs and restarts what has ended, on the recordings
that come with the package; the actions are those of a driver who reaches most goals. The clock counts processor time,
so that a busy machine disturbs little; the best of the repeats is shown.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from typing import Any

import numpy as np

from tacit.envs.traffic import compact
from tacit.envs.traffic.drivers import to_goal
from tacit.envs.traffic.env import TrafficVectorEnv
from tacit.envs.traffic.files import load_all, traffic_of
from tacit.envs.traffic.layout import build

COPIES = (1, 4, 16, 32, 64, 128, 256, 512, 1024)
TARGET = 50_000
"""Steps a second with 64 copies."""
MOST_SECONDS = 3.0
"""For loading all recordings."""


def speed(copies: int, steps: int, repeats: int, reactive: bool) -> float:
    """Environment steps a second, processor time."""
    env = TrafficVectorEnv(copies, reactive=reactive)
    rng = np.random.default_rng(0)
    obs, _ = env.reset(seed=0)
    steps = max(20, min(steps, 60_000 // copies))
    seconds = []
    for _ in range(repeats + 1):
        spent = 0.0
        for _ in range(steps):
            actions = to_goal(obs, rng)
            begin = time.process_time()
            obs = env.step_arrays(actions).obs
            spent += time.process_time() - begin
        seconds.append(spent)
    return copies * steps / min(seconds[1:])


def loading() -> dict[str, Any]:
    begin = time.process_time()
    recordings = load_all(compact.shipped())
    read = time.process_time()
    traffic = build(recordings)
    done = time.process_time()
    return {
        "recordings": len(recordings),
        "minutes": sum(recording.seconds for recording in recordings) / 60,
        "problems": len(traffic.problems),
        "file_megabytes": sum(path.stat().st_size for path in compact.shipped()) / 1e6,
        "array_megabytes": traffic.nbytes / 1e6,
        "read_seconds": read - begin,
        "build_seconds": done - read,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--reactive", action="store_true", help="traffic that brakes for the ego")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(arguments)
    result = loading()
    traffic_of()
    result["steps_per_second"] = {str(n): speed(n, args.steps, args.repeats, args.reactive) for n in COPIES}
    result["peak_megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    if args.json:
        print(json.dumps(result))
        return
    print(
        f"{result['recordings']} recordings, {result['minutes']:.0f} minutes, {result['problems']} problems: "
        f"{result['file_megabytes']:.1f} MB on disk, {result['array_megabytes']:.0f} MB as arrays, "
        f"read in {result['read_seconds']:.2f} s, arranged in {result['build_seconds']:.2f} s "
        f"(at most {MOST_SECONDS:g} s wanted); the process took {result['peak_megabytes']:.0f} MB at most"
    )
    print(f"{'copies':>8}{'steps/s':>12}{'us/step of all':>18}")
    for copies, rate in result["steps_per_second"].items():
        note = f"   {rate / TARGET:.1f} x the target of {TARGET:,}" if copies == "64" else ""
        print(f"{copies:>8}{rate:>12,.0f}{1e6 * int(copies) / rate:>18,.0f}{note}")


if __name__ == "__main__":
    main()
