"""Does an agent that is told the true cost obey it and earn the reward, from nothing and with one recipe?

    python -m benchmarks engine [--tasks Nav-disc,...] [--seeds 0,1,2] [--steps 2000000] [--set KEY=VALUE ...]

`rcpo` with its preset `reference` in every task; the last policy plays 100 episodes with its noise and 100 without. The
score is the return over the mean return of `table-experts` on robots; elsewhere the normalised return
(R - R_random) / (R_oracle - R_random), where the oracle is the environment's scripted expert. Without --steps a run has
the preset's number of steps. Every (task, seed, changed settings) is added to the file as soon as it is done, and is
not done again: the table can be made in pieces.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from tacit.algorithms import find
from tacit.envs.families import find_family, load_function
from tacit.evaluate import Episodes, copies_for, evaluate
from tacit.forward import ppo_lagrangian
from tacit.forward.collect import make_vec
from tacit.run import provenance, storage

EPISODES = 100
ROBOTS = {"Ant": 11942.0, "HalfCheetah": 5128.0, "Swimmer": 816.0, "Walker": 1933.0, "Pendulum": 92.2}
"""Mean return of the experts with noise (results/table-experts.md)."""
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"Nav-{shape}": ("tacit/Nav-v0", {"shape": shape}) for shape in ("disc", "discs", "ell", "wall")},
    "SlowZone": ("tacit/SlowZone-v0", {}),
    **{f"Reactor-{rule}": ("tacit/Reactor-v0", {"rule": rule}) for rule in ("product", "ratio")},
    **{name: (f"tacit/{name}-v0", {}) for name in ROBOTS},
}
MUST = {name: (0.9, 5.0 if name == "Pendulum" else 2.0) if name in ROBOTS else (0.85, 5.0) for name in TASKS}
"""(least score, most violating episodes in %) at 2 million steps."""


def bounds(task: str) -> tuple[float, float]:
    """Returns that are score 0 and score 1."""
    if task in ROBOTS:
        return 0.0, ROBOTS[task]
    env_id, options = TASKS[task]
    family = find_family(env_id)
    assert family is not None
    assert family.expert is not None
    expert = load_function(family.expert)(options)
    with closing(make_vec(env_id, copies_for(EPISODES), **options)) as env:
        low, high = env.single_action_space.low, env.single_action_space.high  # type: ignore[attr-defined]
        oracle = evaluate(env, expert, EPISODES, seed=5)
        uniform = lambda obs, rng: rng.uniform(low, high, (len(obs), len(low))).astype(np.float32)  # noqa: E731
        random = evaluate(env, uniform, EPISODES, seed=5)
    return float(random.returns.mean()), float(oracle.returns.mean())


def run(task: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Train and evaluate once."""
    env_id, options = TASKS[task]
    config = find("rcpo").config(env_id, "reference", settings)
    begin = time.process_time()
    with closing(make_vec(env_id, config.n_envs, **options)) as env:
        for last, _ in ppo_lagrangian.learn(env, config, seed):
            state = last
    seconds = time.process_time() - begin
    policy, (low, high) = ppo_lagrangian.policy_of(state), bounds(task)
    record: dict[str, Any] = {"task": task, "seed": seed, "steps": config.total_steps, "settings": settings}
    record |= {"processor_seconds": round(seconds, 1), "multiplier": state.multiplier.value}
    with closing(make_vec(env_id, copies_for(EPISODES), **options)) as env:
        for mode in ("stochastic", "deterministic"):
            act = lambda obs, rng, mode=mode: policy.act(obs, rng, mode == "deterministic")  # noqa: E731
            record[mode] = measured(evaluate(env, act, EPISODES, seed=10_000 + seed), low, high)
    return record | {"commit": provenance("")["commit"]}


def measured(episodes: Episodes, low: float, high: float) -> dict[str, float]:
    """Return, score and violating episodes in %."""
    value, steps = float(episodes.returns.mean()), episodes.violation_steps
    assert steps is not None
    return {"return": value, "score": (value - low) / (high - low), "violating": float(100 * (steps > 0).mean())}


def show(record: dict[str, Any]) -> None:
    least, most = MUST[record["task"]]
    noisy, still = record["stochastic"], record["deterministic"]
    good = noisy["score"] >= least and noisy["violating"] <= most
    print(
        f"  {record['task']:15s} seed {record['seed']:<4d} {record['steps'] / 1e6:g}M  score {noisy['score']:.3f}"
        f"  violating {noisy['violating']:.0f} %  (without noise {still['score']:.3f}, {still['violating']:.0f} %)"
        f"  {record['processor_seconds']:.0f} s  {'reached' if good else f'must {least:g}, {most:g} %'}",
        flush=True,
    )


def changed(pairs: list[str]) -> dict[str, Any]:
    """Settings from KEY=VALUE, the value as JSON or as a word."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            settings[key] = value
    return settings


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks engine", description=__doc__)
    parser.add_argument("--tasks", default=",".join(TASKS), help="comma-separated")
    parser.add_argument("--seeds", default="0,1,2", help="comma-separated; choose settings on seeds from 100 on")
    parser.add_argument("--steps", type=int, default=None, help="environment steps; the preset's if not given")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings other than the preset's")
    parser.add_argument("--out", default="results/bench-engine.json", help="added to if it exists")
    options = parser.parse_args(arguments)
    tasks, path = options.tasks.split(","), Path(options.out)
    unknown = sorted(set(tasks) - set(TASKS))
    if unknown:
        parser.error(f"there is no task {unknown[0]!r}; there are {', '.join(TASKS)}")
    settings = changed(options.set) | ({} if options.steps is None else {"total_steps": options.steps})
    content: dict[str, Any] = {"provenance": [], "runs": []}
    origin = provenance("python -m benchmarks engine " + " ".join(arguments))
    for task in tasks:
        for seed in map(int, options.seeds.split(",")):
            content = storage.read_json(path) if path.exists() else content
            key = (task, seed, settings)
            if any((old["task"], old["seed"], old["settings"]) == key for old in content["runs"]):
                continue
            record = run(task, seed, settings)
            show(record)
            content = storage.read_json(path) if path.exists() else content  # another process may have added to it
            content["runs"].append(record)
            if origin not in content["provenance"]:
                content["provenance"].append(origin)
            storage.write_json(path, content)
