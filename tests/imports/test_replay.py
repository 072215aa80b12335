"""Replaying notices what is wrong with demonstrations, and lets sound ones pass."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from tacit import demos
from tacit.cli import main
from tacit.demos import Demonstrations, replay
from tacit.demos import evidence as verdict
from tacit.demos.stepping import find_stepper
from tacit.envs.capabilities import Replayed
from tacit.envs.registry import make
from tacit.run import storage

sys.path.append(str(Path(__file__).resolve().parents[2]))
from benchmarks.imports import SPOILT, judged, sound

FAST = ("tacit/Pendulum-v0", "tacit/SlowZone-v0", "grid 0.2")


@pytest.fixture(scope="module")
def cases() -> dict[str, tuple[Demonstrations, Any]]:
    return {name: sound(name, 7) for name in (*FAST, "tacit/Crowd-v0")}


@pytest.mark.parametrize("name", SPOILT)
@pytest.mark.parametrize("env", FAST)
def test_every_mistake_is_noticed(name: str, env: str, cases: dict[str, tuple[Demonstrations, Any]]) -> None:
    data, target = cases[env]
    assert judged(SPOILT[name](data, np.random.default_rng(3)), target)[0]


@pytest.mark.parametrize("env", [*FAST, "tacit/Crowd-v0"])
def test_sound_files_pass(env: str, cases: dict[str, tuple[Demonstrations, Any]]) -> None:
    assert judged(*cases[env]) == (False, verdict.FITS)


EXPECTED = {
    "shifted by one": verdict.SHIFTED,
    "permuted entries": verdict.UNITS,
    "wrong units": verdict.UNITS,
    "rewards replaced": verdict.FITS,
    "truncated episodes": verdict.FITS,
    "joined episodes": verdict.JOINED,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_verdict_names_the_mistake(name: str, cases: dict[str, tuple[Demonstrations, Any]]) -> None:
    data, target = cases["tacit/Pendulum-v0"]
    result = replay.check(SPOILT[name](data, np.random.default_rng(1)), target)
    assert result.verdict == EXPECTED[name]
    assert result.level == ("doubt" if EXPECTED[name] == verdict.FITS else "wrong")


def test_another_simulator_is_said_to_be_one(cases: dict[str, tuple[Demonstrations, Any]]) -> None:
    """The same pendulum with a longer pole: near, but not the same."""
    data, _ = cases["tacit/Pendulum-v0"]
    env = make("tacit/Pendulum-v0")
    env.unwrapped.model.body_mass[:] *= 1.05  # type: ignore[attr-defined]
    result = replay.check(data, env)
    assert result.verdict == verdict.VERSION
    assert 0.02 < result.errors[0] < 0.45


class Lottery(gym.Env[Any, Any]):
    """Its number is drawn at the start, and no later observation shows it."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.number, self.at = float(self.np_random.integers(5)), 0.0
        return np.array([self.number, 0.0]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += self.number + float(action[0])
        return np.array([-1.0, self.at]), self.at, self.at > 20, False, {"cost": 0.0}

    def replay_episodes(self, first: Any, actions: Any, lengths: Any) -> Replayed:
        known = np.isin(first[:, 0], range(5))
        if not known.all():
            return Replayed(known)
        parts = np.split(actions[:, 0], np.cumsum(lengths)[:-1])
        at = np.concatenate([np.cumsum(number + part) for number, part in zip(first[:, 0], parts, strict=True)])
        ended = at[np.cumsum(lengths) - 1] > 20
        return Replayed(known, first, np.stack([np.full(len(at), -1.0), at], axis=1), at, 0 * at, ended)


def test_an_environment_may_declare_how_episodes_are_played_again() -> None:
    env, rng, trajectories = Lottery(), np.random.default_rng(0), []
    for seed in range(6):
        rows, actions, rewards = [env.reset(seed=seed)[0]], rng.uniform(-1, 1, (9, 1)), []
        for action in actions:
            obs, reward, *_ = env.step(action)
            rows.append(obs)
            rewards.append(reward)
        trajectories.append((np.stack(rows), actions, np.array(rewards), bool(env.at > 20)))
    data = demos.from_arrays(trajectories)
    assert replay.check(data, env).verdict == verdict.FITS
    assert replay.check(replace(data, actions=data.actions[::-1]), env).level == "wrong"
    elsewhere = data.observations.copy()
    elsewhere[0, 0] = 7.0
    result = replay.check(replace(data, observations=elsewhere), env)
    assert "trajectory 0 starts as no episode of this environment does" in result.texts("wrong")[0]


def test_all_steps_find_what_a_sample_may_miss(cases: dict[str, tuple[Demonstrations, Any]]) -> None:
    data, target = cases["tacit/Pendulum-v0"]
    result = replay.check(data, target, every=True)
    assert result.replayed == result.steps == data.n_steps


class Tank(gym.Env[Any, Any]):
    """One's own: the level is not observed, only its square and the inflow; `state_of` says how to get it."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-10, 10, (2,), np.float64)
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.level, self.inflow = 0.5, 0.0

    def _observe(self) -> np.ndarray:
        return np.array([self.level**2, self.inflow])

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.level, self.inflow = self.np_random.uniform(0.2, 1), 0.0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.inflow = 0.9 * self.inflow + 0.1 * float(action[0])
        self.level = abs(self.level + 0.1 * self.inflow)
        return self._observe(), self.level, False, False, {}

    def get_state(self) -> dict[str, np.ndarray]:
        return {"level": np.array(self.level), "inflow": np.array(self.inflow)}

    def set_state(self, state: Any) -> None:
        self.level, self.inflow = float(state["level"]), float(state["inflow"])


class Telling(Tank):
    def state_of(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        return {"level": np.sqrt(observation[0]), "inflow": observation[1]}


def driven(env: gym.Env[Any, Any]) -> Demonstrations:
    rng = np.random.default_rng(0)
    rows, actions, rewards = [env.reset(seed=1)[0]], [], []
    for _ in range(100):
        actions.append(rng.uniform(-1, 1, 1))
        row, reward, *_ = env.step(actions[-1])
        rows.append(row)
        rewards.append(reward)
    return Demonstrations(
        np.stack(rows), np.stack(actions), np.array(rewards), None, np.array([100]), np.array([False])
    )


def test_an_environment_of_ones_own() -> None:
    data = driven(Telling())
    assert replay.check(data, Telling()).verdict == verdict.FITS
    shifted = SPOILT["shifted by one"](data, np.random.default_rng(0))
    assert replay.check(shifted, Telling()).verdict == verdict.SHIFTED
    hidden = replay.check(data, Tank())
    assert hidden.verdict == verdict.NOT_REPLAYED, "the level cannot be had from its square by sums"
    assert "do not show enough" in hidden.findings[0].text


@pytest.mark.parametrize(
    ("env", "hidden"), [("HalfCheetah-v5", ("qpos[0]",)), ("Pendulum-v1", ()), ("CartPole-v1", ())]
)
def test_states_are_found_in_observations_of_others(env: str, hidden: tuple[str, ...]) -> None:
    with replay.quiet():
        stepper = find_stepper(make(env))
        assert stepper is not None
        assert stepper.hidden == hidden
        assert stepper.own_error < 1e-4


def test_statistics_where_nothing_can_be_replayed() -> None:
    """A blackbox: only the observations speak."""

    class Blackbox(Tank):
        get_state = None  # type: ignore[assignment]

    data = driven(Tank())
    assert replay.check(data, Blackbox()).verdict == verdict.NOT_REPLAYED
    halves = demos.Demonstrations(
        np.concatenate([data.observations[:51], data.observations[51:] + 3.0]),
        data.actions,
        data.rewards,
        None,
        data.lengths,
        data.terminated,
    )
    assert any("jump at trajectory 0, step 50" in text for text in replay.check(halves, Blackbox()).texts("doubt"))


# On the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: dict[str, tuple[Demonstrations, Any]]) -> None:
    monkeypatch.chdir(tmp_path)
    data, _ = cases["tacit/Pendulum-v0"]
    demos.save(data, "sound.npz")
    for name, spoil in SPOILT.items():
        demos.save(spoil(data, np.random.default_rng(1)), f"{name.split()[0]}.npz")


@pytest.mark.usefixtures("files")
def test_validate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demos", "validate", "sound.npz", "--env", "tacit/Pendulum-v0", "horizon=100", "--all"]) == 0
    assert "fits: a replayed step" in capsys.readouterr().out
    assert main(["demos", "validate", "shifted.npz"]) == 2
    assert "--shift -1" in capsys.readouterr().err
    assert main(["demos", "validate", "sound.npz", "--env", "tacit/Pendulum-v0", "--env", "horizon=50"]) == 2
    assert "more than the environment's horizon of 50" in capsys.readouterr().err
    assert main(["demos", "validate", "truncated.npz", "--json"]) == 0
    assert "--env horizon=" in capsys.readouterr().out


@pytest.mark.usefixtures("files")
def test_learning(capsys: pytest.CaptureFixture[str]) -> None:
    learn = ["learn", "bc", "tacit/Pendulum-v0", "--steps", "10", "--eval-episodes", "5", "--demos"]
    assert main([*learn, "joined.npz"]) == 2
    assert "--anyway (in Python anyway=True) learns from it" in capsys.readouterr().err
    assert not Path("runs").exists()
    assert main([*learn, "truncated.npz"]) == 0
    assert "without having ended" in capsys.readouterr().err
    Path("x.pkl").write_bytes(b"")
    assert main([*learn, "x.pkl"]) == 2
    assert "tacit demos import x.pkl --env ENV -o x.npz" in capsys.readouterr().err


@pytest.mark.usefixtures("files")
def test_importing_again(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["demos", "import", "truncated.npz", "--env", "tacit/Pendulum-v0"]
    assert main([*command, "--env", "horizon=30", "noise=0.0", "--cut", "30", "-o", "cut.npz"]) == 0
    cut = demos.load("cut.npz")
    assert (cut.lengths == 30).all()
    assert cut.card["env_kwargs"]["horizon"] == 30
    assert main([*command, "--terminated", "short", "-o", "ended.npz"]) == 0
    assert demos.load("ended.npz").terminated.all()
    assert main(["demos", "import", "shifted.npz", "--env", "tacit/Pendulum-v0", "-o", "y.npz"]) == 2
    assert not Path("y.npz").exists()
    assert main(["demos", "import", "shifted.npz", "--env", "tacit/Pendulum-v0", "-o", "y.npz", "--anyway"]) == 0
    for wrong in (["--layout", "odd"], ["--shift", "2"], ["--rewards", "odd"], ["--columns", "odd"], ["--cut", "0"]):
        assert main(["demos", "import", "sound.npz", "-o", "z.npz", *wrong]) == 2
    assert not Path("z.npz").exists()
    assert "Traceback" not in capsys.readouterr().err


def test_the_committed_benchmark_missed_nothing() -> None:
    """`python -m benchmarks imports --out results/bench-imports.json` renews it."""
    table = storage.read_json(Path(__file__).resolve().parents[2] / "results" / "bench-imports.json")["table"]
    assert set(table) == {*SPOILT, "sound", "seconds"}
    assert all(table[name]["noticed"] == table[name]["files"] == 20 for name in SPOILT)
    assert table["sound"] == {"files": 50, "refused": []}


def test_short_episodes_count_neither_as_ended_nor_as_absorbed(cases: dict[str, tuple[Demonstrations, Any]]) -> None:
    """What follows their end is not known. Ended ones would lie in the absorbing state up to the horizon."""
    samples = pytest.importorskip("tacit.inverse.samples", reason="needs JAX")
    data, _ = cases["tacit/Pendulum-v0"]
    short = SPOILT["truncated episodes"](data, np.random.default_rng(0))
    ended = replace(short, terminated=np.ones(len(short), bool))
    interface = SimpleNamespace(encode=lambda observations: observations)
    inputs = SimpleNamespace(rows=lambda observations, actions: observations)
    assert samples.of_demonstrations(short, interface, inputs, "next", 100).absorbed == 0.0
    share = 1.0 - ended.n_steps / (100 * len(ended))
    assert samples.of_demonstrations(ended, interface, inputs, "next", 100).absorbed == pytest.approx(share)
