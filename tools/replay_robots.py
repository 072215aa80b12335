"""Replay the shipped demonstrations of the robots, step by step, in the MuJoCo that is installed.

    python tools/replay_robots.py

Each step is begun in the state that was demonstrated, so errors do not add up. An observation holds all positions and
velocities, in units of the spread of the entry over the demonstrations. Another version of MuJoCo moves contact-rich
robots a little differently; docs/environments.md#robots has the numbers.
"""

from __future__ import annotations

import importlib.metadata

import numpy as np

from tacit import demos
from tacit.envs.capabilities import capabilities
from tacit.envs.registry import make

ROBOTS = ("Ant", "HalfCheetah", "Pendulum", "Swimmer", "Walker")
STEPS = 500


def replayed(name: str, rng: np.random.Generator) -> tuple[str, np.ndarray, np.ndarray]:
    """(version of MuJoCo that made them, error of each step's observation, error of its reward)."""
    data = demos.load(demos.shipped(f"tacit/{name}-v0"))
    env = make(f"tacit/{name}-v0")
    env.reset(seed=0)
    state = capabilities(env.unwrapped).physical_state
    assert state is not None
    positions = len(state.get()["qpos"])
    before = np.concatenate([trajectory.observations[:-1] for trajectory in data])
    after = np.concatenate([trajectory.observations[1:] for trajectory in data])
    spread = np.maximum(before.std(axis=0), 1e-9)
    observed, rewarded = [], []
    for i in rng.choice(len(before), STEPS, replace=False):
        env.reset(seed=0)
        state.set({"qpos": before[i, :positions], "qvel": before[i, positions:]})
        obs, reward, *_ = env.step(data.actions[i].astype(np.float64))
        observed.append(np.abs((obs - after[i]) / spread).max())
        rewarded.append(abs(float(reward) - float(data.rewards[i])))
    return data.card["versions"]["mujoco"], np.array(observed), np.array(rewarded)


def main() -> None:
    print(f"MuJoCo {importlib.metadata.version('mujoco')}, {STEPS} steps of each robot")
    print(f"{'robot':12} {'made with':>9} {'median':>9} {'95 %':>9} {'largest':>9}   reward: largest")
    for name in ROBOTS:
        made, error, reward = replayed(name, np.random.default_rng(0))
        low, high, most = np.median(error), np.quantile(error, 0.95), error.max()
        print(f"{name:12} {made:>9} {low:9.2g} {high:9.2g} {most:9.2g}   {reward.max():.2g}")


if __name__ == "__main__":
    main()
