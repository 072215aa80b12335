"""How fast is our PPO beside Stable-Baselines3's, simulation and learning, and how near is it to the simulator's limit?

    python -m benchmarks sb3-speed [--tasks HalfCheetah,...] [--policies runs] [--rounds 5] [--out FILE]

The paper's HalfCheetah settings on both sides: 2048 steps a rollout, batches of 128, 20 epochs without early stop,
[64, 64] networks, observations and rewards normalised. Both have all cores of the machine:

    ours    32 copies; 1 or 2 threads step them, and 2 let policy and critics learn at the same time
    sb3     1 or 4 copies of our single environment (the same physics), in the learner's process or in their own; 1 or 2
            threads of torch
    raw     MuJoCo alone: the states and actions of the trained policy in one C call an episode; 1 or 2 threads

The best variant of each side counts, by its median. Robots that move are slower to simulate: both sides act with the
same trained policy, from an expert's run folder in --policies or trained for a moment here, and the learning rate is so
small that it stays the same. Every variant lives in a process of its own which waits while others are measured; all
take turns in every round, and a ratio is the median over rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import sb3
from benchmarks.ppo_speed import PAPER, TASKS
from tacit.forward import normalize
from tacit.policy import Policy
from tacit.run import provenance, storage, versions

FROZEN = dataclasses.replace(PAPER, lr=1e-12)
# What SB3 has no equal of costs next to nothing.
THEIRS = dataclasses.replace(FROZEN, beta=0.0, standardise="minibatch", scale_actions=False)
STEPS = PAPER.rollout_steps
TRAINED = 100
"""Iterations of training for a task without a trained policy."""

Variant = dict[str, Any]
VARIANTS: dict[str, Variant] = {
    **{f"ours, {t} thread(s)": {"side": "ours", "threads": t} for t in (1, 2)},
    **{
        f"sb3, {n} {'in-process' if kind == 'dummy' else 'subprocess'}, torch {t}": {
            "side": "sb3",
            "copies": n,
            "kind": kind,
            "threads": t,
        }
        for (n, kind), t in itertools.product(((1, "dummy"), (4, "dummy"), (4, "subproc")), (1, 2))
    },
    **{f"raw, {t} thread(s)": {"side": "raw", "threads": t} for t in (1, 2)},
}


# ---------------------------------------------------------------------------------------------------------------------
# In the process of a variant: a function that does so many iterations


def ours(task: str, policy: Policy, threads: int) -> Callable[[int], None]:
    from tacit.forward import ppo

    env, state = acting(task, policy, threads)
    held, config = [state], dataclasses.replace(FROZEN, threads=threads)

    def run(iterations: int) -> None:
        for _ in range(iterations):
            held[0], _, _ = ppo.iterate(env, config, held[0])

    run(2)
    return run


def acting(task: str, policy: Policy, threads: int) -> tuple[Any, Any]:
    """(environment, state): our learner with this policy, its copies at all times of an episode."""
    import jax.numpy as jnp

    from tacit.forward import collect, nets, ppo

    env = collect.make_vec(f"tacit/{task}-v0", PAPER.n_envs, nthread=threads)
    state = ppo.init(env, dataclasses.replace(FROZEN, threads=threads), 0)
    policy.interface.require(state.interface, "the policy")
    net = nets.MLP(tuple(map(jnp.asarray, policy.weights)), tuple(map(jnp.asarray, policy.biases)))
    actor = nets.Actor(net, None if policy.log_std is None else jnp.asarray(policy.log_std))
    seen = normalize.Running(policy.obs_mean.astype(float), policy.obs_scale.astype(float) ** -2.0, 1e6)
    # Copies that all begin together would be measured at one time of their episodes.
    simulators: Any = env
    begun = {**simulators.get_state(), "steps": np.arange(env.num_envs) * simulators.horizon // env.num_envs}
    simulators.set_state(begun)
    carry = dataclasses.replace(state.carry, env_state=begun)
    params = nets.Params(actor, state.params.critics)
    state = dataclasses.replace(state, params=params, obs_stats=seen, carry=carry)
    for _ in range(-(-simulators.horizon * env.num_envs // STEPS)):
        state, _ = ppo.gather(env, FROZEN, state)
    return env, state


def theirs(task: str, policy: Policy, copies: int, kind: str, threads: int) -> Callable[[int], None]:
    import gymnasium as gym
    import torch
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

    torch.set_num_threads(threads)

    def make() -> gym.Env[Any, Any]:
        import tacit.envs  # noqa: F401 (registers the environments, also in a process of its own)

        # Without Gymnasium's checks, which would slow it down.
        return gym.make(f"tacit/{task}-v0", disable_env_checker=True).unwrapped

    kinds: dict[str, type[VecEnv]] = {"dummy": DummyVecEnv, "subproc": SubprocVecEnv}
    model = sb3.make_ppo(THEIRS, kinds[kind]([make] * copies), 0)
    sb3.give_policy(model, policy)
    model.env.reset()
    obs = model.env.get_original_obs()
    same = model.predict(model.env.normalize_obs(obs), deterministic=True)[0]
    np.testing.assert_allclose(same, policy.act(obs, np.random.default_rng(0), True), rtol=1e-3, atol=1e-4)

    def run(iterations: int) -> None:
        model.learn(iterations * STEPS, reset_num_timesteps=False, log_interval=10**9)

    run(1)
    return run


def raw(task: str, policy: Policy, threads: int) -> Callable[[int], None]:
    from benchmarks.stepping import episodes, raw_stepper

    env, state = acting(task, policy, threads)
    rng, before, actions = np.random.default_rng(0), env.get_state(), []
    obs = state.carry.obs
    for _ in range(STEPS // env.num_envs):
        actions.append(policy.act(obs, rng))
        obs = env.step_arrays(actions[-1]).obs
    env.set_state(before)
    step = raw_stepper(env, episodes(env, np.stack(actions), seed=None), threads)

    def run(iterations: int) -> None:
        for _ in range(iterations):
            step()

    run(1)
    return run


def train(task: str, iterations: int, path: str) -> None:
    """A policy that at least moves."""
    from tacit.forward import collect, ppo

    env = collect.make_vec(f"tacit/{task}-v0", 8)
    config = dataclasses.replace(PAPER, total_steps=iterations * STEPS, epochs=10)
    for last, _ in ppo.learn(env, config, 0):
        state = last
    env.close()
    storage.save_arrays(path, *ppo.policy_of(state).to_arrays())


def serve(job: dict[str, Any]) -> None:
    """Measure when told to: a number of iterations on stdin, their seconds on stdout."""
    side, task, path = job.pop("side"), job.pop("task"), job.pop("policy")
    if side == "train":
        return train(task, job["iterations"], path)
    policy = Policy.from_arrays(*storage.load_arrays(path))
    run = {"ours": ours, "sb3": theirs, "raw": raw}[side](task, policy, **job)
    print("ready", flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        run(int(line))
        print(time.perf_counter() - begin, flush=True)


# ---------------------------------------------------------------------------------------------------------------------
# In the process that measures


class Worker:
    """A variant in a process of its own."""

    def __init__(self, task: str, policy: Path, variant: Variant) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS") and k != "NPROC"}
        environment["OMP_NUM_THREADS"] = str(variant["threads"])
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.sb3_speed",
                json.dumps({"task": task, "policy": str(policy), **variant}),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._expect("ready")

    def _expect(self, wanted: str | None = None) -> str:
        assert self.process.stdout is not None
        answer = self.process.stdout.readline().strip()
        if not answer or (wanted and answer != wanted):
            raise RuntimeError(f"a worker ended with status {self.process.wait()}: {self.process.args}")
        return answer

    def rate(self, iterations: int) -> float:
        """Environment steps a second."""
        assert self.process.stdin is not None
        print(iterations, file=self.process.stdin, flush=True)
        return iterations * STEPS / float(self._expect())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def find_policy(task: str, folder: str | None, scratch: Path, iterations: int) -> tuple[Path, str]:
    """(file, where it comes from)."""
    found = sorted(Path(folder).glob(f"expert-{task.lower()}-*/model/policy.safetensors")) if folder else []
    if found:
        return found[0], f"{found[0].parents[1].name}, trained with the true cost"
    path = scratch / f"{task}.safetensors"
    job = {"side": "train", "task": task, "policy": str(path), "iterations": iterations}
    subprocess.run([sys.executable, "-m", "benchmarks.sb3_speed", json.dumps(job)], check=True)
    return path, f"trained here for {iterations * STEPS} steps without a constraint"


def spread(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}


def measure(task: str, policy: Path, rounds: int, iterations: int) -> dict[str, Any]:
    """Rates of every variant, the best of each side, and paired ratios."""
    workers = {name: Worker(task, policy, variant) for name, variant in VARIANTS.items()}
    rates: dict[str, list[float]] = {name: [] for name in workers}
    try:
        for number in range(rounds):
            names = list(workers)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                rates[name].append(workers[name].rate(iterations))
    finally:
        for worker in workers.values():
            worker.close()
    best = {}
    for side in ("ours", "sb3", "raw"):
        best[side] = max((name for name in rates if name.startswith(side)), key=lambda name: median(rates[name]))
    pairs = {
        f"{a}/{b}": spread([x / y for x, y in zip(rates[best[a]], rates[best[b]], strict=True)])
        for a, b in (("ours", "sb3"), ("ours", "raw"))
    }
    return {
        "task": task,
        "variants": {name: {"rounds": values, **spread(values)} for name, values in rates.items()},
        "best": best,
        **{side: spread(rates[name]) for side, name in best.items()},
        "ratios": pairs,
    }


def show(record: dict[str, Any]) -> None:
    print(f"{record['task']}, {record['policy']}; steps a second, median [min, max] over rounds", flush=True)
    for name, values in record["variants"].items():
        mark = "*" if name in record["best"].values() else " "
        print(f"  {mark} {name:34s} {values['median']:8.0f} [{values['min']:.0f}, {values['max']:.0f}]")
    for name, values in record["ratios"].items():
        print(f"    {name:34s} {values['median']:8.2f} [{values['min']:.2f}, {values['max']:.2f}]", flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks sb3-speed", description=__doc__)
    parser.add_argument("--tasks", default=",".join(TASKS), help="comma-separated")
    parser.add_argument("--policies", default=None, help="folder with run folders of experts")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every variant")
    parser.add_argument("--iterations", type=int, default=3, help="rollouts and updates in a turn")
    parser.add_argument("--train", type=int, default=TRAINED, help="iterations of training without a policy to load")
    parser.add_argument("--out", default=None, help="also write the numbers as JSON")
    options = parser.parse_args(arguments)
    tasks = options.tasks.split(",")
    unknown = sorted(set(tasks) - set(TASKS))
    if unknown:
        parser.error(f"there is no task {unknown[0]!r}; there are {', '.join(TASKS)}")
    sb3.require()
    origin = provenance("python -m benchmarks sb3-speed " + " ".join(arguments))
    origin["versions"] |= versions(sb3.PACKAGES)
    settings = {"rounds": options.rounds, "iterations": options.iterations, "ppo": dataclasses.asdict(FROZEN)}
    content: dict[str, Any] = {"provenance": origin, "settings": settings, "tasks": []}
    for task in tasks:
        with tempfile.TemporaryDirectory() as scratch:
            policy, source = find_policy(task, options.policies, Path(scratch), options.train)
            load = os.getloadavg()[0]
            record = measure(task, policy, options.rounds, options.iterations)
        # Processes that were busy before we began: a measurement on a machine in use says little.
        content["tasks"].append({**record, "policy": source, "load_before": load})
        show(content["tasks"][-1])
        if options.out:
            storage.write_json(options.out, content)


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
