"""The expert command: train, resume bit by bit, demonstrate, film; and what can go wrong."""

import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit import presets
from tacit.algorithms import ALGORITHMS, find
from tacit.demos import load, validate
from tacit.errors import RunFailed, UserError
from tacit.forward.collect import make_vec
from tacit.forward.expert import _warn_of_violations as warn_of_violations
from tacit.forward.expert import cautious_cost
from tacit.run import Run, storage

SMALL = ("--total-steps", 6144, "--n-envs", 8, "--eval-episodes", 4, "--checkpoint-every", 1, "--epochs", 2)
GRID = ("expert", "tacit/Gridworld-v0", "--slip", 0.0, *SMALL)
ROBOT = ("expert", "tacit/HalfCheetah-v0", *SMALL)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_train_and_demonstrate(cli, tmp_path):
    output = cli(*ROBOT, "--demonstrations", 2, "--json")
    assert output.status == 0, output.stderr
    path = output.json()["run"]
    run = Run.open(tmp_path / path)
    assert [record["steps"] for record in run.metrics()] == [2048, 4096, 6144]
    demos = load(run.path / "demos.npz")
    assert len(demos) == 2
    assert demos.costs.sum() == 0  # they never break the constraint
    assert (demos.lengths == 1000).all()
    assert demos.observations.dtype == np.float32
    assert demos.card["distance_kept"] == pytest.approx(demos.observations[:, 0].min() + 3, abs=1e-5)
    assert demos.card["versions"]["mujoco"]
    validate(demos, "tacit/HalfCheetah-v0")
    assert cli("learn", "expert", "tacit/HalfCheetah-v0").status == 2


def test_film(cli, tmp_path, monkeypatch):
    """Of a clone on the pendulum: its episodes are short, and pictures take long."""
    learned = cli("learn", "bc", "tacit/Pendulum-v0", "--steps", 50, "--eval-episodes", 2, "--json")
    path = learned.json()["run"]
    # In a process of its own: the film is written by a child process, and JAX, loaded here, warns about forks.
    command = [sys.executable, "-m", "tacit", "eval", path, "--episodes", "2", "--video", "run.MP4"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert (tmp_path / "run.MP4").read_bytes()[4:8] == b"ftyp"
    before = (Path(path) / "eval.jsonl").read_bytes()
    monkeypatch.setattr("tacit.commands.eval.sampled", lambda *_: pytest.fail("measured before the film was refused"))
    assert cli("eval", path, "--episodes", 2, "--video", "run.txt").status == 2
    assert (Path(path) / "eval.jsonl").read_bytes() == before


def test_ending_an_episode_costs_what_was_asked_for(cli, monkeypatch):
    from tacit.forward import ppo_lagrangian

    charged = []

    def stop(*_, terminal_cost, **__):
        charged.append(terminal_cost)
        raise UserError("enough")

    monkeypatch.setattr(ppo_lagrangian, "learn", stop)
    for options in (["--terminal-cost", 50], ["--fall-cost", 20], ["--terminal-cost", 50, "--fall-cost", 20], []):
        cli("expert", "tacit/Pendulum-v0", *options)
    assert charged == [50.0, 20.0, 70.0, 0.0]


def test_resumed_equals_uninterrupted(cli, tmp_path, monkeypatch):
    from tacit.forward import expert, ppo_lagrangian

    whole = cli(*ROBOT, "--demonstrations", 0, "--out", "a", "--json").json()["run"]
    original, calls = ppo_lagrangian.iterate, []

    def dying(*args, **kwargs):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(expert.ppo_lagrangian, "iterate", dying)
    stopped = cli(*ROBOT, "--demonstrations", 0, "--out", "b", "--json")
    assert stopped.status == 130
    monkeypatch.setattr(expert.ppo_lagrangian, "iterate", original)
    again = next((tmp_path / "b").iterdir())
    assert cli("resume", again).status == 0
    first, _ = storage.load_arrays(tmp_path / whole / "model" / "policy.safetensors")
    second, _ = storage.load_arrays(again / "model" / "policy.safetensors")
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


def test_an_expert_that_is_not_one_is_told_so(cli, tmp_path):
    output = cli(*GRID, "--demonstrations", 5)
    # Every episode of the gridworld that reaches the goal is terminated: none is of full length and without violation.
    assert output.status == 1
    assert "keep to the constraint" in output.stderr
    assert "Traceback" not in output.stderr


def test_margin_moves_the_boundary_to_the_safe_side():
    for name, bound, margin in (("Swimmer", 0.5, 0.1), ("Walker", -3.0, 0.2)):
        env = make_vec(f"tacit/{name}-v0", 1)
        cost = cautious_cost(env, margin)
        safe = bound + (-margin if name == "Swimmer" else margin)
        obs = np.zeros((2, env.single_observation_space.shape[0]))
        obs[:, 0] = safe - 1e-6, safe + 1e-6
        assert cost(obs, None, obs).tolist() == ([0.0, 1.0] if name == "Swimmer" else [1.0, 0.0])
        assert cautious_cost(env, 0.0) is None
        env.close()


def test_presets():
    expert = find("expert")
    assert expert.config("tacit/Ant-v0").demonstrations == 20
    assert expert.config("my/Own-v0", "expert", {"lr": 1}) == replace(expert.config("other/Own-v0"), lr=1.0)
    with pytest.raises(UserError, match="did you mean 'expert'"):
        expert.config("tacit/Ant-v0", "exprt")
    with pytest.raises(UserError, match="mce-exact has no presets"):
        find("mce-exact").config("tacit/Gridworld-v0", "paper")


def test_every_preset_is_somebodys_and_fits():
    files = {file.stem for file in Path(presets.__file__).parent.glob("*.toml")}
    named = {(name, preset) for name in ALGORITHMS for preset in presets.names(name)}
    file_of = {one: f"{one[0]}-{one[1]}" if f"{one[0]}-{one[1]}" in files else one[1] for one in named}
    assert set(file_of.values()) == files
    for name, preset in named:
        tables = tomllib.loads((Path(presets.__file__).parent / f"{file_of[name, preset]}.toml").read_text())
        for env_id in ("", *tables.get("env", {})):
            find(name).config(env_id, preset)
    assert all(a.preset is None or a.preset in presets.names(a.name) for a in ALGORITHMS.values())


def test_bad_use(cli):
    for words in (("tacit/Aunt-v0",), ("tacit/Ant-v0", "--preset", "exprt"), ("tacit/Ant-v0", "--no-such", 1), ()):
        output = cli("expert", *words)
        assert output.status == 2, words
        assert "Traceback" not in output.stderr


def test_draws_until_there_are_enough(monkeypatch, tmp_path):
    """One exemplary episode in ten: the third batch of ten has the third demonstration."""
    from types import SimpleNamespace

    from tacit.demos import shipped
    from tacit.forward import expert

    given = load(shipped("tacit/HalfCheetah-v0"))
    costs = np.ones_like(given.costs)
    costs[: given.lengths[0]] = 0.0
    found, seeds = [replace(given, costs=costs)], []

    def collect(env, policy, episodes, seed, progress):
        seeds.append(seed)
        return found[0]

    monkeypatch.setattr(expert, "collect", collect)
    run = SimpleNamespace(
        name="x", path=tmp_path, config={"config": {"total_steps": 1}}, read=lambda name: {"command": "tacit expert"}
    )
    env = make_vec("tacit/HalfCheetah-v0", 1)
    demos = expert.demonstrate(env, None, 3, 0, "tacit/HalfCheetah-v0", {}, run)
    assert len(demos) == 3
    assert demos.costs.sum() == 0
    assert "of 30 drawn" in demos.card["note"]
    assert len(set(seeds)) == 3
    monkeypatch.setattr(expert, "MOST_DRAWN", 8)
    with pytest.raises(RunFailed, match="only 8 of 80 episodes"):
        expert.demonstrate(env, None, 10, 0, "tacit/HalfCheetah-v0", {}, run)
    found[0] = replace(given, costs=np.ones_like(costs))
    with pytest.raises(RunFailed, match="only 0 of 10 episodes"):
        expert.demonstrate(env, None, 3, 0, "tacit/HalfCheetah-v0", {}, run)
    env.close()


def test_an_expert_that_violates_often_says_so(caplog):
    warn_of_violations({"violation_rate_episode": {"value": 0.05}})
    assert caplog.text == ""
    warn_of_violations({"violation_rate_episode": {"value": 0.87}})
    assert "87 % of its episodes" in caplog.text
    assert "--margin" in caplog.text
