"""What the tests of GACL, ME-ICRL and variational ICRL share: a line with a forbidden side, runs that must match."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import jax
import numpy as np

from tacit import demos as demonstrations
from tacit.demos.data import Trajectory, from_trajectories
from tacit.forward.collect import make_vec
from tacit.inverse import constraint_net
from tacit.launch import execute, start_run
from tacit.run import Run

LINE = "tacit-baselines/Line-v0"
PENDULUM = "tacit/Pendulum-v0"
SMALL: dict[str, Any] = {
    "total_steps": 12_000,
    "n_envs": 8,
    "rollout_steps": 512,
    "batch_size": 128,
    "bootstrap_steps": 2048,
    "hidden": (16, 16),
    "lr": 1e-3,
}


class Line(gym.Env):
    """A point that is paid for being far from the origin, more so on the left, where no demonstration goes."""

    metadata: ClassVar[dict[str, list[str]]] = {"render_modes": []}
    feature_names = ("x",)
    cost_size = 1.0

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = 0.0, 0
        return np.array([self.x], np.float32), {"cost": 0.0}

    def step(self, action):
        self.x += 0.2 * float(np.clip(action[0], -1, 1))
        self.t += 1
        reward = 1.5 * max(0.0, -self.x) + max(0.0, self.x)
        info = {"cost": self.cost_size * float(self.x < -1.0)}
        return np.array([self.x], np.float32), reward, False, self.t >= 20, info


gym.register(LINE, entry_point=Line)


def to_the_right(n: int = 8):
    rng = np.random.default_rng(0)
    trajectories = []
    for _ in range(n):
        act = np.clip(0.7 + 0.2 * rng.standard_normal((20, 1)), -1, 1)
        obs = np.concatenate([[[0.0]], np.cumsum(0.2 * act, axis=0)])
        trajectories.append(Trajectory(obs.astype(np.float32), act.astype(np.float32), np.zeros(20), None, False))
    return from_trajectories(trajectories, {})


def learn(module, config, demos=None, state=None, env=LINE):
    return list(module.learn(make_vec(env, config.n_envs), demos or to_the_right(), config, 0, state))


def networks(state) -> list[np.ndarray]:
    """All parameters of constraint network and agent."""
    learner = getattr(state.forward, "agent", state.forward)
    return [np.asarray(leaf) for leaf in jax.tree.leaves((state.params, learner.params))]


def same(one, other) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(networks(one), networks(other), strict=True))


def net_of(seed: int, *sizes: int) -> constraint_net.Net:
    return constraint_net.init(np.random.default_rng(seed), sizes)


def output_by_hand(net, z) -> np.ndarray:
    """What the network gives, in float64 NumPy."""
    x = np.asarray(z, np.float64)
    for weight, bias in zip(net.weights[:-1], net.biases[:-1], strict=True):
        x = np.maximum(x @ np.asarray(weight, np.float64) + np.asarray(bias, np.float64), 0.0)
    return x @ np.asarray(net.weights[-1], np.float64) + np.asarray(net.biases[-1], np.float64)


def slope(function, net, layer: int, place: tuple[int, ...], by: float = 1e-2) -> float:
    """Central difference of a function of the network in one weight."""

    def moved(size: float):
        weights = list(net.weights)
        weights[layer] = weights[layer].at[place].add(size)
        return float(function(net._replace(weights=tuple(weights))))

    return (moved(by) - moved(-by)) / (2 * by)


def pendulum_demos(n: int = 6):
    return demonstrations.load(demonstrations.shipped(PENDULUM)).subset(np.arange(n))


def start(algo: str, tmp_path, **settings):
    demos = tmp_path / "demos.npz"
    demos.parent.mkdir(parents=True, exist_ok=True)
    demonstrations.save(pendulum_demos(), demos)
    return start_run(
        algo, PENDULUM, out=str(tmp_path / "runs"), demos=str(demos), settings=settings, say=lambda _: None
    )


class Stop(Exception):
    """Stands for a process that is killed."""


def stopped_and_resumed_is_the_same_run(algo: str, tmp_path, monkeypatch, **settings) -> Any:
    """The files of a run that was killed after its second checkpoint and resumed are those of one that was not."""
    whole, data = start(algo, tmp_path / "a", **settings)
    execute(whole, data)
    broken, data = start(algo, tmp_path / "b", **settings)
    original = Run.save_checkpoint

    def save_then_stop(run, step, arrays, metadata):
        original(run, step, arrays, metadata)
        if step == 2:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(Run, "save_checkpoint", save_then_stop)
        try:
            execute(broken, data)
        except Stop:
            pass
        else:
            raise AssertionError("it was not stopped")
    execute(broken, data)
    timeless = [
        [{k: v for k, v in record.items() if not k.startswith("time/")} for record in run.metrics()]
        for run in (whole, broken)
    ]
    assert timeless[0] == timeless[1]
    assert len(timeless[0]) > 2
    for name in ("policy", "cost"):
        one, two = whole.load_model(name)[0], broken.load_model(name)[0]
        assert all(np.array_equal(one[key], two[key]) for key in one)
    return whole
