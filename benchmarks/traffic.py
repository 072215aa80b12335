"""How fast the highway traffic is: environment steps a second by number of copies, memory, loading.

    python -m benchmarks traffic [--steps 200] [--repeats 5] [--reactive] [--out results/bench-traffic.json]
    python -m benchmarks traffic --drivers [--reactive] [--out FILE]        how scripted drivers fare, instead

Every step computes the full observation, collisions, rewards and costs and restarts what has ended, on the recordings
that come with the package; the actions are those of a driver who reaches most goals. The clock counts processor time,
so that a busy machine disturbs little; the best of the repeats is shown.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from typing import Any

import numpy as np

from tacit.envs.traffic import compact
from tacit.envs.traffic.drivers import DRIVERS, to_goal
from tacit.envs.traffic.env import RULES, TrafficVectorEnv
from tacit.envs.traffic.files import load_all, traffic_of
from tacit.envs.traffic.layout import build
from tacit.envs.traffic.simulator import OUTCOMES, first_observations
from tacit.run import provenance, storage

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


def drivers(reactive: bool) -> dict[str, dict[str, float]]:
    """Share of each end, mean length, and share of steps that break each rule, over all problems."""
    traffic = traffic_of()
    total = len(traffic.problems)
    table = {}
    for name, driver in DRIVERS.items():
        env = TrafficVectorEnv(total, reactive=reactive)
        obs, _ = env.reset(seed=0, options={"problem": np.arange(total)})
        rng, code = np.random.default_rng(0), np.zeros(total, np.int64)
        steps = broken = 0
        while (code == 0).any():
            running = code == 0
            obs, _, terminated, _, info = env.step(driver(obs, rng))
            last = np.where(terminated[:, None], info["final_obs"], obs) if terminated.any() else obs
            flags = np.stack([rule.violated(last) for rule in RULES.values()])
            steps, broken = steps + int(running.sum()), broken + flags[:, running].sum(axis=1)
            if terminated.any():
                code = np.where(running, info["final_info"]["outcome"] * terminated, code)
        table[name] = {end: float((code == i).mean()) for i, end in enumerate(OUTCOMES) if i}
        table[name] |= {"steps": steps / total} | dict(zip(RULES, (broken / steps).tolist(), strict=True))
    starts = first_observations(traffic)
    table["(at the start)"] = {name: float(rule.violated(starts).mean()) for name, rule in RULES.items()}
    return table


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks traffic", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--reactive", action="store_true", help="traffic that brakes for the ego")
    parser.add_argument("--drivers", action="store_true", help="scripted drivers instead of speed")
    parser.add_argument("--out", default=None, help="also write the numbers as JSON")
    args = parser.parse_args(arguments)
    result: dict[str, Any]
    if args.drivers:
        result = {"drivers": drivers(args.reactive)}
        show_drivers(result["drivers"])
    else:
        result = measure(args.steps, args.repeats, args.reactive)
        show(result)
    if args.out:
        origin = provenance("python -m benchmarks traffic " + " ".join(arguments))
        storage.write_json(args.out, {"provenance": origin, **result})


def measure(steps: int, repeats: int, reactive: bool) -> dict[str, Any]:
    result = loading()
    result["steps_per_second"] = {str(n): speed(n, steps, repeats, reactive) for n in COPIES}
    result["peak_megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return result


def show(result: dict[str, Any]) -> None:
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


def show_drivers(table: dict[str, dict[str, float]]) -> None:
    columns = ("goal", "collision", "off-road", "time-out", "steps", *RULES)
    print(f"{'driver':<16}" + "".join(f"{column:>12}" for column in columns))
    for name, row in table.items():
        print(f"{name:<16}" + "".join(f"{row[c]:>12.3f}" if c in row else f"{'':>12}" for c in columns))


if __name__ == "__main__":
    main(sys.argv[1:])
