"""Speed of PPO end to end, simulation and learning, at the paper's HalfCheetah settings.

    python -m benchmarks ppo_speed [--task HalfCheetah,Ant] [--threads 1] [--pair] [--out results/bench-ppo.json]

2048 steps a rollout, batches of 128, 20 epochs without early stop, [64, 64] networks, 32 copies; the policy is trained
for a while first, because robots that move are slower to simulate. In environment steps a second:

    simulate   `step_arrays` alone, replaying the same actions from the same states: the limit of any learner here
    collect    the rollout: simulation, policy, bookkeeping
    learn      the update alone, PPO (two networks) and PPO-Lagrangian (three)
    total      rollout and update

With one thread the clock counts processor time, so that a busy machine does not blur the ratios; with more it is the
wall's. `--pair` then runs two processes side by side and prints what each loses, by the wall clock.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from tacit.forward import agent, collect, ppo, ppo_lagrangian
from tacit.run import provenance, storage

TASKS = ("HalfCheetah", "Pendulum", "Swimmer", "Walker", "Ant")
PAPER = ppo.Config(rollout_steps=2048, batch_size=128, epochs=20, lr=3e-4, gae_lambda=0.9, target_kl=None)
LAGRANGIAN = ppo_lagrangian.Config(**dataclasses.asdict(PAPER))


def measure(task: str, threads: int, warmup: int, repeats: int) -> dict[str, Any]:
    """Median seconds of each part, as steps a second."""
    clock: Callable[[], float] = time.process_time if threads == 1 else time.perf_counter
    plain = dataclasses.replace(PAPER, threads=threads)
    lagrangian = dataclasses.replace(LAGRANGIAN, threads=threads)
    env = collect.make_vec(f"tacit/{task}-v0", PAPER.n_envs)
    state = ppo.init(env, plain, 0)
    for _ in range(warmup):
        state, metrics, _ = ppo.iterate(env, plain, state)
    constrained = agent.init(env, lagrangian, 0, n_critics=2)
    agent.resume(env, plain, state)
    seconds: dict[str, list[float]] = {name: [] for name in ("simulate", "collect", "learn", "learn with cost")}

    def timed(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        begin = clock()
        result = function(*args, **kwargs)
        seconds[name].append(clock() - begin)
        return result

    def simulate(actions: Any) -> None:
        for action in actions:
            env.step_arrays(action)  # type: ignore[attr-defined]

    walls = []
    for _ in range(repeats + 1):
        before = state.carry.env_state
        begin = time.perf_counter()
        state, rollout = timed("collect", ppo.gather, env, plain, state)
        state, reward = ppo.scale_reward(plain, state, rollout.rew, rollout.done)
        state, _ = timed("learn", ppo.improve, plain, state, rollout, [reward])
        walls.append(time.perf_counter() - begin)
        signals = [reward, rollout.cost]
        timed("learn with cost", ppo.improve, lagrangian, constrained, rollout, signals, weights=(1.0, -1.0))
        env.set_state(before)  # type: ignore[attr-defined]
        timed("simulate", simulate, rollout.sent)
        env.set_state(state.carry.env_state)  # type: ignore[attr-defined]
    env.close()
    # The first round compiles.
    rates = {name: PAPER.rollout_steps / median(values[1:]) for name, values in seconds.items()}
    for name, learn in (("total", "learn"), ("total with cost", "learn with cost")):
        rates[name] = 1 / (1 / rates["collect"] + 1 / rates[learn])
    return {
        "task": task,
        "threads": threads,
        "steps_per_second": rates,
        "wall_steps_per_second": PAPER.rollout_steps / median(walls[1:]),
        "collect_over_simulate": rates["collect"] / rates["simulate"],
        "update_seconds": PAPER.rollout_steps / rates["learn"],
        "rollout_share": rates["total"] / rates["collect"],
        "return_so_far": metrics.get("rollout/ep_rew_mean"),
    }


def show(record: dict[str, Any]) -> None:
    rates = record["steps_per_second"]
    print(f"  {record['task']:12s}" + "".join(f"  {name} {rate / 1000:.1f}k" for name, rate in rates.items()))
    print(
        f"  {'':12s}  collect/simulate {record['collect_over_simulate']:.2f}"
        f"  rollout share {record['rollout_share']:.0%}  update {1000 * record['update_seconds']:.0f} ms"
        f"  by the wall clock {record['wall_steps_per_second'] / 1000:.1f}k"
    )


def side_by_side(task: str, arguments: list[str]) -> dict[str, Any]:
    """Wall-clock speed of one process alone and of each of two at the same time."""
    command = [sys.executable, "-m", "benchmarks", "ppo_speed", "--task", task, "--json", *arguments]

    def speeds(n: int) -> list[float]:
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(n)]
        outputs = [process.communicate()[0] for process in started]
        return [json.loads(output.splitlines()[-1])[0]["wall_steps_per_second"] for output in outputs]

    alone, together = speeds(1)[0], speeds(2)
    losses = [1 - speed / alone for speed in together]
    print(f"  {task}: alone {alone:.0f}/s, side by side " + ", ".join(f"{speed:.0f}/s" for speed in together), end="")
    print("; lost " + ", ".join(f"{loss:.0%}" for loss in losses))
    return {"task": task, "alone": alone, "together": together, "lost": losses}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ppo_speed", description=__doc__)
    parser.add_argument("--task", default=",".join(TASKS), help="comma-separated")
    parser.add_argument("--threads", type=int, default=1, help="that step the copies")
    parser.add_argument("--warmup", type=int, default=50, help="iterations of training before the clock runs")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--pair", action="store_true", help="also two processes side by side (the first task)")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--out", default=None, help="also write the numbers as JSON")
    options = parser.parse_args(arguments)
    tasks = options.task.split(",")
    records = []
    for task in tasks:
        records.append(measure(task, options.threads, options.warmup, options.repeats))
        if not options.json:
            show(records[-1])
    if options.json:
        print(json.dumps(records))
    pair = None
    if options.pair:
        pair = side_by_side(tasks[0], ["--warmup", str(options.warmup), "--repeats", str(options.repeats)])
    if options.out:
        origin = provenance("python -m benchmarks ppo_speed " + " ".join(arguments))
        storage.write_json(options.out, {"provenance": origin, "tasks": records, "pair": pair})


if __name__ == "__main__":
    main(sys.argv[1:])
