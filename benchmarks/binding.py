"""Does a task's constraint bind? Train agents on the reward alone and count the episodes that violate.

    python -m benchmarks binding [--tasks HalfCheetahVelocity,...] [--steps 600000] [--seed 0]

Two agents a task: PPO from nothing, and a *tempted clone*, cloned from the shipped demonstrations and then trained by
PPO on the reward alone. If the clone stays legal, a method that begins as a clone looks good whatever cost it learns.
Engine and settings are those of `tacit learn ppo`; 100 episodes of the last policy with its noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np

from tacit import demos
from tacit.algorithms import find
from tacit.evaluate import copies_for, evaluate
from tacit.forward import ppo_lagrangian
from tacit.forward.collect import make_vec
from tacit.inverse import clone

EPISODES = 100
TASKS = ("HalfCheetahVelocity", "HopperVelocity", "SwimmerVelocity")
WARM_UP = 8
"""Rollouts in which the critics learn the clone's values before it is tempted."""
CLONE_LOG_STD, CLONE_LR = -2.0, 3e-4
"""Noise and learning rate of the tempted clone: enough to explore, and too little to forget at once."""


def no_cost(obs: Any, act: Any, next_obs: Any) -> Any:
    return np.zeros(len(obs))


def settings_of(env_id: str, steps: int, **changes: Any) -> ppo_lagrangian.Config:
    """The settings of `tacit learn ppo`, for the engine with a cost that is 0."""
    given = find("ppo").config(env_id, None, {"total_steps": steps, **changes})
    known = {field.name for field in fields(ppo_lagrangian.Config)}
    return ppo_lagrangian.Config(**{name: value for name, value in asdict(given).items() if name in known})


def tempted(env: Any, config: ppo_lagrangian.Config, data: demos.Demonstrations, seed: int) -> Iterator[Any]:
    """The states of a clone that is trained on the reward alone."""
    state = ppo_lagrangian.init(env, config, seed)
    state, _, _ = ppo_lagrangian.iterate(env, config, state, no_cost)  # for the scale of observations
    state = clone.start_from(state, data, np.random.default_rng(seed), CLONE_LOG_STD)
    for _ in range(WARM_UP):
        state, _, _ = ppo_lagrangian.iterate(env, config, state, no_cost, hold_policy=True)
    yield state
    while state.steps < config.total_steps:
        state, _, _ = ppo_lagrangian.iterate(env, config, state, no_cost)
    yield state


def measured(env_id: str, state: Any, seed: int) -> str:
    policy = ppo_lagrangian.policy_of(state)
    with closing(make_vec(env_id, copies_for(EPISODES))) as env:
        episodes = evaluate(env, policy.act, EPISODES, seed=10_000 + seed)
    assert episodes.violation_steps is not None
    violating, share = (episodes.violation_steps > 0).mean(), (episodes.violation_steps / episodes.lengths).mean()
    return f"return {episodes.returns.mean():.4g}, violating episodes {violating:.0%}, steps {share:.1%}"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks binding", description=__doc__)
    parser.add_argument("--tasks", default=",".join(TASKS), help="comma-separated")
    parser.add_argument("--agents", default="ppo,clone", help="comma-separated")
    parser.add_argument("--steps", type=int, default=600_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    for task in options.tasks.split(","):
        env_id = f"tacit/{task}-v0"
        file = demos.shipped(env_id)
        assert file is not None
        data = demos.load(file)
        print(f"  {task}: demonstrations return {data.returns.mean():.4g}", flush=True)
        config = settings_of(env_id, options.steps)
        if "ppo" in options.agents.split(","):
            with closing(make_vec(env_id, config.n_envs)) as env:
                for last, _ in ppo_lagrangian.learn(env, config, options.seed, cost=no_cost):
                    state = last
            print(f"    PPO from nothing: {measured(env_id, state, options.seed)}", flush=True)
        if "clone" in options.agents.split(","):
            gentle = replace(config, lr=CLONE_LR)
            with closing(make_vec(env_id, gentle.n_envs)) as env:
                for name, state in zip(
                    ("clone", "tempted clone"), tempted(env, gentle, data, options.seed), strict=True
                ):
                    print(f"    {name}: {measured(env_id, state, options.seed)}", flush=True)
