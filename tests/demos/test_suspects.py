"""Trajectories that look unlike the others: violators are named, clean demonstrations are left alone."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tacit import demos
from tacit.cli import main
from tacit.demos import Demonstrations
from tacit.demos.data import Trajectory, from_trajectories
from tacit.envs.families import describe_envs
from tacit.envs.gridworld_spec import make_spec
from tacit.errors import UserError
from tacit.launch import resolve
from tacit.run import storage

SHIPPED = [info.id for info in describe_envs() if demos.shipped(info.id) is not None]
NAMES = ["x", "v"]


def walk(rng: np.random.Generator, *, fast: bool, steps: int = 80, start: float = 0.0, pay: float = 1.0) -> Trajectory:
    """A drive along a road at about 0.5, or at about 1.0 once it has left the start."""
    v = (1.0 if fast else 0.5) + 0.05 * rng.standard_normal(steps + 1)
    v[0] = 0.0
    x = start + np.cumsum(v) * 0.1
    reward = np.full(steps, pay if fast else 1.0)
    return Trajectory(np.stack([x, v], axis=1), rng.uniform(-1, 1, (steps, 1)), reward, None, False)


def drives(slow: int, fast: int, **options: Any) -> Demonstrations:
    rng = np.random.default_rng(0)
    walks = [walk(rng, fast=i >= slow, **(options if i >= slow else {})) for i in range(slow + fast)]
    return from_trajectories(walks, {"feature_names": NAMES})


def named(data: Demonstrations) -> list[int]:
    return [one.trajectory for one in demos.suspects(data)]


@pytest.mark.parametrize("env_id", SHIPPED)
def test_no_shipped_demonstration_is_suspected(env_id: str) -> None:
    file = demos.shipped(env_id)
    assert file is not None
    assert demos.suspects(demos.load(file)) == ()


@pytest.mark.parametrize("slip", [0.0, 0.1])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_on_the_gridworld_those_who_walk_through_the_wall_are_named(slip: float, seed: int) -> None:
    spec = make_spec("paper", slip=slip)
    good = demos.expert_demonstrations(spec, 40, seed)
    careless = demos.sample_demonstrations(spec, demos.expert_policy(spec, weight=0.0), 30, seed + 100)
    bad = [one for one in careless if one.costs is not None and one.costs.any()][:10]
    data = from_trajectories([*good, *bad], good.card)
    assert data.costs is not None
    violating = np.logical_or.reduceat(data.costs > 0, data.step_offsets)
    suspected = named(data)
    assert len(set(suspected) & set(range(40, 50))) >= 9
    assert violating[suspected].all()  # of the careful ones, at most those who slipped into the wall


@pytest.mark.parametrize("fast", [1, 4, 8])
def test_a_minority_that_goes_elsewhere_and_earns_more_is_named(fast: int) -> None:
    data = drives(20 - fast, fast, pay=2.0)
    assert named(data) == list(range(20 - fast, 20))
    one = demos.suspects(data)[0]
    assert one.unlike > one.usual + 0.25
    assert one.earned == pytest.approx(160.0)
    assert one.others_earned == pytest.approx(80.0)
    speed = next((place for place in one.places if place.input == "v"), None)
    assert speed is not None
    assert speed.low > speed.others_high
    assert "v 0." in str(one)
    assert "It earns 160, the others 80" in str(one)


def test_who_earns_less_is_clumsy_and_kept() -> None:
    assert named(drives(16, 4, pay=0.5)) == []


def test_who_began_elsewhere_had_to_go_elsewhere() -> None:
    slow = drives(16, 0)
    far = [walk(np.random.default_rng(i), fast=False, start=50.0) for i in range(4)]
    assert named(from_trajectories([*slow, *far], {"feature_names": NAMES})) == []


@pytest.mark.parametrize("seed", range(20))
def test_random_walks_of_any_kind_are_judged_without_a_failure(seed: int) -> None:
    rng = np.random.default_rng(seed)
    walks = []
    for _ in range(rng.integers(2, 15)):
        steps = int(rng.integers(1, 12))
        obs = rng.integers(0, 3, (steps + 1, 2)) if seed % 2 else rng.normal(rng.normal(), 1.0, (steps + 1, 2))
        walks.append(Trajectory(obs, rng.integers(0, 2, steps), rng.normal(size=steps), None, bool(rng.integers(2))))
    data = from_trajectories(walks, {})
    suspected = named(data)
    assert len(suspected) <= 0.4 * len(data)
    assert len(demos.trim(data, 0.2)[1]) <= 0.4 * len(data)


def test_half_of_them_is_no_minority() -> None:
    assert named(drives(10, 10, pay=2.0)) == []


def test_one_of_many_may_be_an_accident() -> None:
    assert named(drives(30, 1, pay=2.0)) == []


def test_few_demonstrations_have_no_majority() -> None:
    assert named(drives(3, 1, pay=2.0)) == []


def test_the_true_cost_is_never_read() -> None:
    data = drives(16, 4, pay=2.0)
    lying = replace(data, costs=np.repeat(np.arange(20) < 16, data.lengths).astype(float))
    assert demos.suspects(lying) == demos.suspects(data)


def test_trim() -> None:
    data = drives(16, 4, pay=2.0)
    kept, left_out = demos.trim(data)
    assert left_out == (16, 17, 18, 19)
    assert kept.sha256 == data.subset(np.arange(16)).sha256
    assert demos.trim(data, "off") == (data, ())
    assert demos.trim(data, 0.1)[1] == demos.trim(data, "0.1")[1]
    assert len(demos.trim(data, 0.1)[1]) == 2
    assert set(demos.trim(data, 0.1)[1]) < {16, 17, 18, 19}
    assert demos.trim(data, 0.0) == (data, ())
    clean = drives(20, 0)
    assert demos.trim(clean)[0] is clean
    for how in ("some", 0.7, -0.1):
        with pytest.raises(UserError, match="trim"):
            demos.trim(data, how)


@pytest.fixture
def mixture(tmp_path: Path) -> str:
    """Demonstrations of the gridworld without slipping, the last five of which walk through the wall."""
    spec = make_spec("paper", slip=0.0)
    good = demos.expert_demonstrations(spec, 20, 0)
    bad = demos.sample_demonstrations(spec, demos.expert_policy(spec, weight=0.0), 5, 1)
    data = from_trajectories([*good, *bad], good.card)
    demos.save(data, tmp_path / "mixture.npz")
    return str(tmp_path / "mixture.npz")


def test_learning_leaves_them_out_and_says_which(mixture: str) -> None:
    said: list[str] = []
    settings, data = resolve("mce-exact", "tacit/Gridworld-v0", demos=mixture, trim="auto", say=said.append)
    whole, everything = resolve("mce-exact", "tacit/Gridworld-v0", demos=mixture, trim="off", say=said.append)
    assert data is not None
    assert everything is not None
    assert (len(data), len(everything)) == (20, 25)
    recorded = settings["demos"]
    assert recorded == {
        "path": None,
        "sha256": data.sha256,
        "from": whole["demos"],
        "left_out": [20, 21, 22, 23, 24],
    }
    warning = next(line for line in said if line.startswith("warning"))
    assert "5 of 25 trajectories look unlike the others and are left out: 20, 21, 22, 23, 24." in warning
    assert "--trim off" in warning


def test_the_exact_method_keeps_the_constraint_without_them(mixture: str, tmp_path: Path) -> None:
    """With them the wall is allowed; that is what trimming is for."""
    violating = {}
    for how in ("auto", "off"):
        command = ["learn", "mce-exact", "tacit/Gridworld-v0", "--demos", mixture, "--trim", how, "-q"]
        assert main([*command, "--out", str(tmp_path / how)]) == 0
        (run,) = (tmp_path / how).iterdir()
        row = storage.read_json(run / "summary.json")["table"]["learned"]
        violating[how] = row["violation_rate_episode"]
        if how == "auto":
            assert len(demos.load(run / "demos.npz")) == 20
    assert violating["auto"] < 0.01
    assert violating["off"] > 0.1


def test_the_command(mixture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demos", "suspects", mixture, "-o", str(tmp_path / "kept.npz")]) == 0
    printed = capsys.readouterr().out
    assert "5 of 25 trajectories look unlike the others" in printed
    assert printed.count("trajectory 2") == 5
    assert "--trim off" in printed
    assert len(demos.load(tmp_path / "kept.npz")) == 20
    assert main(["demos", "suspects", str(tmp_path / "kept.npz")]) == 0
    assert "none of the 20 trajectories looks unlike the others" in capsys.readouterr().out
    assert main(["demos", "suspects", mixture, "--json"]) == 0
    answer = storage.from_json(capsys.readouterr().out)
    assert [one["trajectory"] for one in answer["suspects"]] == [20, 21, 22, 23, 24]


def test_preflight_names_them(mixture: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["preflight", "tacit/Gridworld-v0", "--demos", mixture])
    assert "5 of the 25 demonstrations look unlike the others" in capsys.readouterr().out.replace("\n", " ")


def test_a_large_group_that_goes_another_way_is_not_left_out_on_suspicion(monkeypatch):
    data = demos.scripted_demonstrations("tacit/Nav-v0", {}, n=20, seed=0)
    named = [SimpleNamespace(trajectory=i) for i in range(8)]
    module = sys.modules["tacit.demos.suspects"]
    monkeypatch.setattr(module, "suspects", lambda data: named)
    kept, left_out = demos.trim(data)
    assert (len(kept), left_out) == (20, ())
    monkeypatch.setattr(module, "suspects", lambda data: named[:4])
    kept, left_out = demos.trim(data)
    assert (len(kept), left_out) == (16, (0, 1, 2, 3))
