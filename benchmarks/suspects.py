"""Are violators among demonstrations named, and is nobody else? `tacit demos suspects` beside the truth.

    python -m benchmarks suspects [--tasks Pendulum,Swimmer,Nav] [--seeds 50,51,52] [--share 0.2]

Violators are episodes of PPO on the reward alone that break the constraint (`tacit learn ppo`, with these seeds). They
replace the last ones of the shipped demonstrations. On the gridworld they are episodes of the built-in expert without
constraint. Then all shipped demonstrations as they are, and fresh ones of the scripted and exact experts: of those
nobody should be named, except who broke the rule by accident.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from itertools import chain, zip_longest

import numpy as np

from benchmarks.binding import no_cost, settings_of
from tacit import demos
from tacit.demos.data import Trajectory, from_trajectories
from tacit.envs.families import describe_envs
from tacit.envs.gridworld_spec import make_spec
from tacit.forward import ppo_lagrangian
from tacit.forward.collect import make_vec

STEPS, EPISODES, COPIES = 600_000, 200, 50
FRESH = 10
"""Fresh sets of demonstrations per task."""


def ppo_violators(env_id: str, seed: int) -> list[Trajectory]:
    """Episodes of PPO without cost that break the constraint."""
    config = settings_of(env_id, STEPS)
    with closing(make_vec(env_id, config.n_envs)) as env:
        for state, _ in ppo_lagrangian.learn(env, config, seed, cost=no_cost):
            last = state
    with closing(make_vec(env_id, COPIES)) as env:
        return violating(demos.collect(env, ppo_lagrangian.policy_of(last), EPISODES, seed=30_000 + seed))


def violating(data: demos.Demonstrations) -> list[Trajectory]:
    return [data[int(i)] for i in np.flatnonzero(is_violating(data))]


def is_violating(data: demos.Demonstrations) -> np.ndarray:
    assert data.costs is not None
    return np.asarray(np.logical_or.reduceat(data.costs > 0, data.step_offsets))


def report(name: str, data: demos.Demonstrations, mixed_in: int = 0) -> None:
    """Who is named: of those mixed in, and of the others."""
    named = np.array([one.trajectory for one in demos.suspects(data)], np.int64)
    foreign, clean = named >= len(data) - mixed_in, ~is_violating(data)[named]
    hits = f"{foreign.sum()} of {mixed_in} violators named, " if mixed_in else ""
    print(f"  {name}: {hits}{(~foreign).sum()} others, of whom {(clean & ~foreign).sum()} kept the rule", flush=True)


def mixed(good: demos.Demonstrations, bad: list[Trajectory], share: float) -> tuple[demos.Demonstrations, int]:
    count = round(share * len(good))
    return from_trajectories([*good.subset(np.arange(len(good) - count)), *bad[:count]], good.card), count


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks suspects", description=__doc__)
    parser.add_argument("--tasks", default="Pendulum,Swimmer,Nav", help="comma-separated; empty for none")
    parser.add_argument("--seeds", default="50,51,52", help="of the violators, comma-separated")
    parser.add_argument("--share", type=float, default=0.2, help="of violators")
    options = parser.parse_args(arguments)
    for task in filter(None, options.tasks.split(",")):
        env_id = f"tacit/{task}-v0"
        turns = zip_longest(*(ppo_violators(env_id, int(seed)) for seed in options.seeds.split(",")))
        bad = [episode for episode in chain.from_iterable(turns) if episode is not None]
        report(f"{task}, {options.share:.0%} violators", *mixed(demos.load(_shipped(env_id)), bad, options.share))
    for slip in (0.0, 0.1, 0.3):
        spec = make_spec("paper", slip=slip)
        for seed in range(FRESH):
            good = demos.expert_demonstrations(spec, 50, seed)
            careless = demos.sample_demonstrations(spec, demos.expert_policy(spec, weight=0.0), 50, seed + 1000)
            report(f"gridworld, slip {slip:g}, seed {seed}", *mixed(good, violating(careless), options.share))
            report(f"gridworld, slip {slip:g}, seed {seed}, clean", good)
    for info in describe_envs():
        if demos.shipped(info.id) is not None:
            report(f"{info.id}, as shipped", demos.load(_shipped(info.id)))
    for env_id, kwargs in _scripted():
        for seed in range(FRESH):
            report(f"{env_id} {kwargs}, seed {seed}", demos.scripted_demonstrations(env_id, kwargs, n=40, seed=seed))


def _scripted() -> list[tuple[str, dict[str, str]]]:
    shapes = [("tacit/Nav-v0", {"shape": shape}) for shape in ("disc", "discs", "ell", "wall")]
    return [*shapes, ("tacit/SlowZone-v0", {}), ("tacit/Crowd-v0", {}), ("tacit/Reactor-v0", {})]


def _shipped(env_id: str) -> str:
    file = demos.shipped(env_id)
    assert file is not None
    return str(file)
