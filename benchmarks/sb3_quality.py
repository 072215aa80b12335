"""Does our PPO learn as well as Stable-Baselines3's? Stock tasks, equal steps, equal settings.

    python -m benchmarks sb3-quality [--tasks CartPole-v1,...] [--seeds 0,1,2] [--side ours|sb3] [--renew] [--out FILE]

Both sides train on the same copies of the same environment, one thread each; the final policy then plays 50 episodes,
deterministic and stochastic, in one evaluation for both. Every (task, side, seed) is added to the file as soon as it is
done, and is not done again: the comparison can be made in pieces. With --renew our rows are made again, and SB3's,
which take far longer, are kept. What is matched, and what cannot be, is told in
`benchmarks/sb3.py`. Intervals are of the mean over seeds, 95 %, by bootstrap.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from benchmarks import sb3
from tacit import stats
from tacit.evaluate import evaluate
from tacit.forward import ppo
from tacit.run import provenance, storage, versions

COPIES, EPISODES = 4, 50
# SB3's defaults, on four copies; for robots the paper's settings of HalfCheetah and normalisation on both sides.
PLAIN = ppo.Config(
    total_steps=100_000,
    n_envs=COPIES,
    rollout_steps=2048,
    batch_size=64,
    epochs=10,
    beta=0.0,
    target_kl=None,
    standardise="minibatch",
    scale_actions=False,
    normalize_obs=False,
    normalize_reward=False,
    clip_gradients="together",
)
ROBOT = dataclasses.replace(
    PLAIN, total_steps=300_000, batch_size=128, epochs=20, gae_lambda=0.9, normalize_obs=True, normalize_reward=True
)
TASKS = {
    "CartPole-v1": PLAIN,
    "InvertedPendulum-v5": PLAIN,
    **{f"{name}-v5": ROBOT for name in ("HalfCheetah", "Hopper", "Walker2d", "Swimmer")},
}
SIDES = ("ours", "sb3")
MODES = ("deterministic", "stochastic")


class Diary(gym.Wrapper[Any, Any, Any, Any]):
    """Writes the return of every finished episode into a list: the learning curve, alike for both sides."""

    def __init__(self, env: gym.Env[Any, Any], returns: list[float]) -> None:
        super().__init__(env)
        self.returns, self.total = returns, 0.0

    def reset(self, **kwargs: Any) -> Any:
        self.total = 0.0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        self.total += float(result[1])
        if result[2] or result[3]:
            self.returns.append(self.total)
        return result


def makers(task: str, returns: list[float]) -> list[Callable[[], gym.Env[Any, Any]]]:
    return [lambda: Diary(gym.make(task, disable_env_checker=True), returns) for _ in range(COPIES)]


Act = Callable[[Any, np.random.Generator, bool], Any]
"""(observations, generator, deterministic) -> actions"""


def train_ours(task: str, config: ppo.Config, seed: int, returns: list[float]) -> tuple[Act, int]:
    """(final policy, environment steps)."""
    env = SyncVectorEnv(makers(task, returns), autoreset_mode=AutoresetMode.SAME_STEP)
    for last, _ in ppo.learn(env, config, seed):
        state = last
    env.close()
    return ppo.policy_of(state).act, state.steps


def train_sb3(task: str, config: ppo.Config, seed: int, returns: list[float]) -> tuple[Act, int]:
    """(final policy, environment steps)."""
    import torch
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    torch.set_num_threads(1)
    model = sb3.make_ppo(config, DummyVecEnv(makers(task, returns)), seed)
    model.learn(config.total_steps)
    env = model.env

    def act(obs: Any, rng: np.random.Generator, deterministic: bool) -> Any:
        seen = env.normalize_obs(obs) if isinstance(env, VecNormalize) else obs
        return model.predict(seen, deterministic=deterministic)[0]

    env.close()
    return act, model.num_timesteps


def run(task: str, side: str, seed: int, config: ppo.Config) -> dict[str, Any]:
    """Train and evaluate once."""
    returns: list[float] = []
    begin = time.perf_counter()
    act, steps = {"ours": train_ours, "sb3": train_sb3}[side](task, config, seed, returns)
    seconds = time.perf_counter() - begin
    record: dict[str, Any] = {"task": task, "side": side, "seed": seed, "steps": steps, "seconds": round(seconds, 1)}
    test = gym.make_vec(
        task,
        num_envs=EPISODES,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
    )
    for mode in MODES:
        fixed = mode == "deterministic"
        played = evaluate(test, lambda obs, rng, fixed=fixed: act(obs, rng, fixed), EPISODES, seed=10_000 + seed)
        record[mode] = {"mean": float(played.returns.mean()), "sd": float(played.returns.std(ddof=1))}
    test.close()
    # Ten pieces with equally many episodes; episodes differ in length, so this is no axis of time.
    curve = [float(np.mean(piece)) for piece in np.array_split(returns, 10) if len(piece)]
    return record | {"training_episodes": len(returns), "training_returns": curve, "commit": provenance("")["commit"]}


# ---------------------------------------------------------------------------------------------------------------------
# What it comes to


def compare(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a task and mode: mean over seeds with its interval for both sides, and whether the intervals meet."""
    rows = []
    for task in TASKS:
        for mode in MODES:
            row: dict[str, Any] = {"task": task, "mode": mode}
            for side in SIDES:
                found = [record for record in records if (record["task"], record["side"]) == (task, side)]
                values = [record[mode]["mean"] for record in sorted(found, key=lambda record: record["seed"])]
                if not values:
                    continue
                interval = stats.bootstrap_interval(values, np.mean, rng=np.random.default_rng(0))
                row[side] = {"seeds": values, "mean": interval.value, "low": interval.low, "high": interval.high}
            if len(row) == 4:
                ours, theirs = row["ours"], row["sb3"]
                row["difference"] = difference(ours["seeds"], theirs["seeds"])
                row["overlap"] = ours["low"] <= theirs["high"] and theirs["low"] <= ours["high"]
                row["ours_not_worse"] = row["difference"]["high"] >= 0
                improvement = stats.probability_of_improvement(ours["seeds"], theirs["seeds"])
                row["probability_of_improvement"] = improvement
            rows.append(row)
    return [row for row in rows if len(row) > 2]


def difference(ours: list[float], theirs: list[float]) -> dict[str, float]:
    """Difference of the means with its 95 % interval, by bootstrap over the seeds of each side."""
    rng = np.random.default_rng(0)
    draws = [rng.choice(ours, len(ours)).mean() - rng.choice(theirs, len(theirs)).mean() for _ in range(10_000)]
    low, high = np.quantile(draws, (0.025, 0.975))
    return {"mean": float(np.mean(ours) - np.mean(theirs)), "low": float(low), "high": float(high)}


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'task':20s} {'policy':14s} {'ours':>27s} {'SB3':>27s}  intervals")
    for row in rows:
        cells = ""
        for side in SIDES:
            found = row.get(side)
            cell = (
                f"{found['mean']:.0f} [{found['low']:.0f}, {found['high']:.0f}] n={len(found['seeds'])}"
                if found
                else ""
            )
            cells += f" {cell or '-':>27s}"
        verdict = {None: "", True: "overlap", False: "do not overlap"}[row.get("overlap")]
        if "difference" in row:
            verdict += "; difference {mean:.0f} [{low:.0f}, {high:.0f}]".format(**row["difference"])
        print(f"{row['task']:20s} {row['mode']:14s}{cells}  {verdict}")


def settings() -> dict[str, Any]:
    """What all records of a file must share, in the form in which it is read back."""
    tasks = {task: dataclasses.asdict(config) for task, config in TASKS.items()}
    return dict(storage.from_json(storage.to_json({"copies": COPIES, "episodes": EPISODES, "tasks": tasks})))


def renewed(content: dict[str, Any], origin: dict[str, Any]) -> dict[str, Any]:
    """A file without our rows, under the present settings. ValueError if SB3 would now be given other ones."""
    before, now = content["settings"], settings()
    for task, old in before["tasks"].items():
        changed = [name for name in sb3.READ if old[name] != now["tasks"][task][name]]
        changed += [name for name in ("copies", "episodes") if before[name] != now[name]]
        if changed:
            raise ValueError(f"SB3's runs of {task} were made with other values of {', '.join(changed)}")
    theirs = [record for record in content["runs"] if record["side"] == "sb3"]
    return {"provenance": origin | {"earlier": content["provenance"]}, "settings": now, "runs": theirs}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks sb3-quality", description=__doc__)
    parser.add_argument("--tasks", default=",".join(TASKS), help="comma-separated")
    parser.add_argument("--seeds", default="0,1,2,3,4", help="comma-separated")
    parser.add_argument("--side", choices=SIDES, default=None, help="only one of the two")
    parser.add_argument("--steps", type=int, default=None, help="fewer steps, to try it out")
    parser.add_argument("--renew", action="store_true", help="forget our rows of the file, keep SB3's")
    parser.add_argument("--out", default="results/bench-sb3-quality.json", help="added to if it exists")
    options = parser.parse_args(arguments)
    tasks, seeds = options.tasks.split(","), [int(seed) for seed in options.seeds.split(",")]
    unknown = sorted(set(tasks) - set(TASKS))
    if unknown:
        parser.error(f"there is no task {unknown[0]!r}; there are {', '.join(TASKS)}")
    sides = [options.side] if options.side else list(SIDES)
    if "sb3" in sides:
        sb3.require()
    if options.steps:
        TASKS.update({task: dataclasses.replace(config, total_steps=options.steps) for task, config in TASKS.items()})

    # Gymnasium's models use what MuJoCo calls deprecated, and it says so for every copy.
    mujoco.set_mju_user_warning(lambda message: None)
    path = Path(options.out)
    origin = provenance("python -m benchmarks sb3-quality " + " ".join(arguments))
    origin["versions"] |= versions(sb3.PACKAGES)
    content: dict[str, Any] = {"provenance": origin, "settings": settings(), "runs": []}
    if path.exists():
        content = storage.read_json(path)
        if options.renew:
            content = renewed(content, origin)
            storage.write_json(path, content)
        if content["settings"] != settings():
            parser.error(f"{path} was made with other settings: renew it with --renew, or name another one with --out")
    for task in tasks:
        for seed in seeds:
            for side in sides:
                done = content["runs"]
                if any((record["task"], record["side"], record["seed"]) == (task, side, seed) for record in done):
                    continue
                record = run(task, side, seed, TASKS[task])
                print(
                    f"{task} {side} seed {seed}: {record['deterministic']['mean']:.1f} deterministic, "
                    f"{record['stochastic']['mean']:.1f} stochastic, {record['seconds']:.0f} s",
                    flush=True,
                )
                # Read again: another process may have added to it meanwhile.
                content = storage.read_json(path) if path.exists() else content
                content["runs"].append(record)
                content["comparison"] = compare(content["runs"])
                storage.write_json(path, content)
    show(compare(content["runs"]))
    print(os.fspath(path))
