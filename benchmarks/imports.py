"""Does the check of demonstrations notice mistakes, and let sound files pass?

    python -m benchmarks imports [--files 20] [--clean 50] [--out results/bench-imports.json]

Sound demonstrations of every environment are spoilt in seven ways, `--files` of each, and checked as `tacit demos
validate` does. Noticed means: a problem, or a verdict that is doubtful or wrong. `--clean` sound files, of other seeds
and subsets, must all fit.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tacit import demos as demonstrations
from tacit.demos import Demonstrations, Trajectory
from tacit.demos.data import from_trajectories
from tacit.demos.evidence import FITS, Check
from tacit.demos.replay import check
from tacit.envs.gridworld import make_spec
from tacit.envs.options import resolve_env
from tacit.envs.registry import make
from tacit.run import provenance, storage

ROBOTS = ("tacit/HalfCheetah-v0", "tacit/Ant-v0", "tacit/Swimmer-v0", "tacit/Walker-v0", "tacit/Pendulum-v0")
SCRIPTED = ("tacit/Nav-v0", "tacit/SlowZone-v0", "tacit/Reactor-v0", "tacit/Crowd-v0")
HIGHWAY = ("tacit/HighwayDistance-v0",)
GRIDS = ("grid 0.0", "grid 0.2")
ENVIRONMENTS = (*ROBOTS, *SCRIPTED, *HIGHWAY, *GRIDS)
Spoil = Callable[[Demonstrations, np.random.Generator], Demonstrations]


def sound(name: str, seed: int) -> tuple[Demonstrations, Any]:
    """(demonstrations, what they are checked against): another subset or other episodes for every seed."""
    rng = np.random.default_rng(seed)
    if name.startswith("grid"):
        spec = make_spec("paper", slip=float(name.split()[1]))
        return demonstrations.expert_demonstrations(spec, 20, seed), spec
    if name in SCRIPTED:
        data = demonstrations.scripted_demonstrations(name, resolve_env(name, {}), 12, seed)
    else:
        file = demonstrations.shipped(name)
        assert file is not None
        data = demonstrations.load(file)
        data = data.subset(rng.choice(len(data), max(4, len(data) // 3), replace=False))
    return data, make(name, **data.card["env_kwargs"])


def _rebuilt(demos: Demonstrations, change: Callable[[Trajectory], Trajectory]) -> Demonstrations:
    return from_trajectories([change(trajectory) for trajectory in demos], demos.card)


def shifted(demos: Demonstrations, rng: np.random.Generator) -> Demonstrations:
    """Rows (s_{t+1}, a_t) read as (s_t, a_t), or the other way round."""
    later = bool(rng.integers(2))

    def change(t: Trajectory) -> Trajectory:
        obs = t.observations[1:] if later else t.observations[:-1]
        act = t.actions[:-1] if later else t.actions[1:]
        costs = None if t.costs is None else t.costs[1:]
        return Trajectory(obs, act, t.rewards[1:], costs, t.terminated)

    return _rebuilt(demos.subset(demos.lengths > 2), change)


def _moving(demos: Demonstrations) -> np.ndarray:
    rows = demos.observations.reshape(len(demos.observations), -1)
    return np.flatnonzero(rows.std(axis=0) > 1e-6)


def permuted(demos: Demonstrations, rng: np.random.Generator) -> Demonstrations:
    """Two entries exchanged, or all in another order."""
    moving = _moving(demos)
    order = np.arange(demos.observations.shape[1])
    if rng.integers(2):
        i, j = rng.choice(moving, 2, replace=False)
        order[[i, j]] = j, i
    else:
        order[moving] = np.roll(moving, 1)
    return replace(demos, observations=demos.observations[:, order])


def other_units(demos: Demonstrations, rng: np.random.Generator) -> Demonstrations:
    """One entry, or all of them, in degrees, millimetres, kilometres an hour."""
    factor = rng.choice([180 / np.pi, 1000.0, 0.001, 3.6, 100.0])
    observations = demos.observations.astype(np.float64).copy()
    which = slice(None) if rng.integers(3) == 0 else int(rng.choice(_moving(demos)))
    observations[:, which] *= factor
    return replace(demos, observations=observations)


def other_rewards(demos: Demonstrations, rng: np.random.Generator) -> Demonstrations:
    """Noise, a constant, the negative, or those of other steps."""
    rewards = demos.rewards
    kinds = (rng.normal(size=len(rewards)), np.full(len(rewards), 0.37), -rewards - 0.1, rewards * 3.0 + 1.0)
    return replace(demos, rewards=kinds[rng.integers(len(kinds))])


def normalised(demos: Demonstrations, rng: np.random.Generator) -> Demonstrations:
    """As VecNormalize does it."""
    rows = demos.observations.astype(np.float64)
    spread = np.sqrt(rows.var(axis=0) + 1e-8)
    return replace(demos, observations=np.clip((rows - rows.mean(axis=0)) / spread, -10, 10))


def truncated(demos: Demonstrations, rng: np.random.Generator) -> Demonstrations:
    """Cut somewhere in the middle, without a mark."""

    def change(t: Trajectory) -> Trajectory:
        n = max(1, int(len(t) * rng.uniform(0.3, 0.8)))
        costs = None if t.costs is None else t.costs[:n]
        return Trajectory(t.observations[: n + 1], t.actions[:n], t.rewards[:n], costs, False)

    return _rebuilt(demos, change)


def joined(demos: Demonstrations, rng: np.random.Generator) -> Demonstrations:
    """An episode that goes on with the beginning of another one, no longer than the longer of the two."""
    parts = list(demos)
    first, second = parts[0], parts[1]
    a, b = len(first) // 2, max(1, len(second) // 2)
    costs = None
    if first.costs is not None and second.costs is not None:
        costs = np.concatenate([first.costs[:a], second.costs[:b]])
    whole = Trajectory(
        np.concatenate([first.observations[:a], second.observations[: b + 1]]),
        np.concatenate([first.actions[:a], second.actions[:b]]),
        np.concatenate([first.rewards[:a], second.rewards[:b]]),
        costs,
        False,
    )
    return from_trajectories([whole, *parts[2:]], demos.card)


SPOILT: dict[str, Spoil] = {
    "shifted by one": shifted,
    "permuted entries": permuted,
    "wrong units": other_units,
    "rewards replaced": other_rewards,
    "normalised observations": normalised,
    "truncated episodes": truncated,
    "joined episodes": joined,
}


def judged(demos: Demonstrations, target: Any, *, reference: Demonstrations | None = None) -> tuple[bool, str]:
    """(was something noticed?, the verdict)."""
    problems = demonstrations.problems(demos, target)
    if problems and isinstance(target, type(make_spec("paper"))):
        return True, "problems"
    result: Check = check(demos, target, reference=reference)
    noticed = bool(problems) or result.level in ("doubt", "wrong")
    return noticed, result.verdict + ("" if result.verdict != FITS or not noticed else ", with doubts")


def run(files: int, clean: int, environments: Sequence[str] = ENVIRONMENTS) -> dict[str, Any]:
    """The table: noticed and verdicts of every mistake, and refused sound files."""
    table: dict[str, Any] = {}
    for number, (name, spoil) in enumerate(SPOILT.items()):
        verdicts: dict[str, int] = {}
        missed = []
        for i in range(files):
            env = environments[(i + number) % len(environments)]
            data, target = sound(env, 1000 + i)
            spoilt = spoil(data, np.random.default_rng([number, i]))
            noticed, verdict = judged(spoilt, target)
            verdicts[verdict] = verdicts.get(verdict, 0) + 1
            if not noticed:
                missed.append(f"{env}, {i}")
        table[name] = {"files": files, "noticed": files - len(missed), "missed": missed, "verdicts": verdicts}
        print(f"{name:25} {files - len(missed)} of {files}  {verdicts}  {missed or ''}")
    refused, seconds = [], []
    for i in range(clean):
        env = environments[i % len(environments)]
        data, target = sound(env, i)
        begun = time.process_time()
        noticed, verdict = judged(data, target)
        seconds.append(time.process_time() - begun)
        if noticed:
            refused.append(f"{env}, {i}: {verdict}")
    print(f"{'sound files refused':25} {len(refused)} of {clean}  {refused or ''}")
    print(f"seconds of a check: median {np.median(seconds):.2f}, longest {max(seconds):.2f}")
    table["sound"] = {"files": clean, "refused": refused}
    table["seconds"] = {"median": float(np.median(seconds)), "longest": float(max(seconds))}
    return table


def main(args: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks imports", description=__doc__)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--clean", type=int, default=50)
    parser.add_argument("--out")
    chosen = parser.parse_args(args)
    table = run(chosen.files, chosen.clean)
    if chosen.out:
        command = f"python -m benchmarks imports --files {chosen.files} --clean {chosen.clean} --out {chosen.out}"
        storage.write_json(chosen.out, {"provenance": provenance(command), "table": table})
