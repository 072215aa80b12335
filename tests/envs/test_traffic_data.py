"""The shipped recordings, statistics, demonstrations as problem and actions, and the command `tacit traffic`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from make_recordings import LANE_WIDTH, SETTINGS, Track, assemble, compared, simulate, wandering
from tacit import demos
from tacit.envs.traffic import compact, highd_write
from tacit.envs.traffic.demonstrations import (
    load_replay,
    replay_demonstrations,
    save_replay,
)
from tacit.envs.traffic.drivers import to_goal
from tacit.envs.traffic.env import TrafficVectorEnv
from tacit.envs.traffic.files import load, traffic_of
from tacit.envs.traffic.statistics import comparable, comparison, overlaps, statistics
from tacit.errors import UserError
from tacit.run.storage import sha256_of_file
from traffic_scenes import Car, random_recording, recording

DATA = Path(compact.__file__).parent / "data"


# ---------------------------------------------------------------- the shipped recordings


def test_the_shipped_recordings_are_those_of_the_hashes() -> None:
    listed = dict(reversed(line.split()) for line in (DATA / "SHA256SUMS").read_text().splitlines())
    assert {path.name for path in compact.shipped()} == set(listed)
    assert {path.name: sha256_of_file(path) for path in compact.shipped()} == listed
    assert 8 <= len(listed) <= 10
    assert len(SETTINGS) == len(listed)
    assert sum(path.stat().st_size for path in compact.shipped()) < 4e6


def test_the_shipped_recordings_say_what_they_are() -> None:
    lanes, limits = set(), set()
    for path in compact.shipped():
        one = compact.load(path)
        assert one.about["source"].startswith("simulated")
        assert 500 <= one.seconds <= 600
        assert set(one.directions.tolist()) == {1, 2}
        lanes.add(len(one.upper_marks) - 1)
        limits.add(one.speed_limit > 0)
    assert lanes == {2, 3}
    assert limits == {True, False}
    assert traffic_of().simulated


def test_made_again_is_the_same_but_for_ties_of_rounding() -> None:
    old = compact.load(compact.shipped()[0])
    assert compared(old, replace(old)) == (True, "the same")
    y = old.y.copy()
    y[:3] += 0.01
    same, said = compared(replace(old, y=y), old)
    assert same
    assert said == f"the same except for 3 of {len(y)} places, off by 1 cm at most"
    assert compared(replace(old, speed_limit=30.0), old) == (False, "different speed_limit")
    many = old.y.copy()
    many[::500] += 0.01
    assert not compared(replace(old, y=many), old)[0]
    far = old.y.copy()
    far[0] += 0.02
    assert not compared(replace(old, y=far), old)[0]
    ids = old.ids.copy()
    ids[0] = ids.max() + 1
    assert compared(replace(old, ids=ids), old) == (False, "different ids")


@pytest.mark.slow
def test_the_shipped_traffic_is_like_the_published() -> None:
    every = [compact.load(path) for path in compact.shipped()]
    assert sum(overlaps(one) for one in every) == 0
    alike = [one for one in every if comparable(one)]
    assert len(alike) >= 2
    assert [row.name for row in comparison(alike) if not row.ok] == []
    for one in every:
        found = statistics(one)
        assert 22 < found["truck_speed_mean"] < 25.5
        assert 30 < found["car_speed_mean"] < 38
        assert found["car_lane_changes"] < 0.35
        assert 0.15 < found["car_lateral_speed_p90"] < 0.30


def test_statistics_of_a_scene_counted_by_hand() -> None:
    cars = [
        Car(50.0, 26.0, 30.0, 100),
        Car(80.0, 26.0, 30.0, 100),
        Car(10.0, 22.0, 45.0, 100),
        Car(200.0, 26.0, 20.0, 100, kind="truck", length=12.0, width=2.5),
        Car(100.0, 25.0, 30.0, 100, sideways=-0.5),
    ]
    found = statistics(recording(cars))
    assert found["car_speed_mean"] == pytest.approx((30 + 30 + 45 + 30) / 4)
    assert found["car_share_above_40"] == 0.25
    assert found["car_lane_changes"] == 0.25
    assert found["truck_lane_changes"] == 0.0
    assert found["truck_share"] == 0.2
    # The third car comes up behind the fifth, which has changed into its lane; the first and second keep theirs.
    assert found["car_min_headway_p5"] > 0
    assert found["overlaps"] == 0
    assert found["flow"] == pytest.approx(5 / 4.0 * 3600)


def test_overlaps_are_found() -> None:
    assert overlaps(recording([Car(50.0, 26.0, 30.0, 10), Car(53.0, 26.5, 30.0, 10)])) == 10
    assert overlaps(recording([Car(50.0, 25.0, 30.0, 10), Car(50.0, 23.4, 30.0, 10)])) == 10
    assert overlaps(recording([Car(50.0, 26.0, 30.0, 10), Car(50.0, 22.0, 30.0, 10)])) == 0
    assert overlaps(recording([Car(50.0, 27.2, 30.0, 10), Car(52.0, 24.5, 30.0, 10)])) == 0  # side by side in a lane


def test_the_wander_fakes_no_lane_changes() -> None:
    rng = np.random.default_rng(0)
    frames = 300
    keeps = np.full(frames, 1.5 * LANE_WIDTH)
    changes = np.interp(np.arange(frames), [100, 200], [0.5 * LANE_WIDTH, 1.5 * LANE_WIDTH])
    for path, expected in ((keeps, 0), (changes, 1)):
        for _ in range(40):
            track = Track("car", 4.5, 1.9, 1, list(np.arange(frames) * 1.2), list(path), [30.0] * frames)
            lateral, speed = wandering(track, rng)
            assert (np.diff(np.floor(lateral / LANE_WIDTH)) != 0).sum() == expected
            assert np.allclose(np.cumsum(speed) * 0.04, lateral - lateral[0], atol=0.2)
            assert np.abs(speed).max() < 2.0


def test_a_recording_is_assembled_on_both_carriageways() -> None:
    straight = [1.5 * LANE_WIDTH] * 50
    track = Track("car", 4.5, 1.9, 3, list(100 + np.arange(50) * 1.2), straight, [30.0] * 50)
    found = assemble("x", 2, 130.0, [[track], [track]], np.random.default_rng(0), {"source": "simulated"})
    assert found.directions.tolist() == [1, 2]
    assert found.speed_limit == 36.11
    assert found.lanes()[0] == found.lanes()[-1] == 0  # the left lane of either
    # Front bumper at 100 m: the centre is half a length behind it, counted from the other end for direction 1.
    assert found.x[0] == pytest.approx(420 - (100 - 2.25) - 2.25, abs=0.011)
    assert found.x[50] == pytest.approx(100 - 4.5, abs=0.011)
    assert found.vx[0] == -30.0


def test_sumo_makes_the_same_recording_twice() -> None:
    pytest.importorskip("libsumo", reason="pip install '.[recordings]'")
    setting = replace(SETTINGS[0], seconds=20.0)
    one, two = simulate(setting), simulate(setting)
    assert one == two
    assert len(one) > 5
    assert one.about["setting"]["seed"] == 101
    assert one != simulate(replace(setting, seed=1))


# ---------------------------------------------------------------- demonstrations


@pytest.fixture
def driven(tmp_path: Path) -> demos.Demonstrations:
    highd_write.save(random_recording(3, n=20), tmp_path, "01")
    env = TrafficVectorEnv(4, "velocity", recordings=str(tmp_path))

    def policy(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (to_goal(obs, rng) + rng.normal(0, 0.05, (len(obs), 2))).astype(np.float32)

    card = {"env": "tacit/HighwayVelocity-v0", "env_kwargs": {"recordings": str(tmp_path)}, "source": "a test"}
    return demos.collect(env, policy, 12, seed=0, card=card)


def test_demonstrations_are_replayed(driven: demos.Demonstrations, tmp_path: Path) -> None:
    path = tmp_path / "driven.replay.safetensors"
    save_replay(driven, path)
    again = load_replay(path)
    assert again.sha256 == driven.sha256
    assert demos.load(path).sha256 == driven.sha256
    assert again.card["source"] == "a test"
    assert path.stat().st_size < driven.observations.nbytes / 10
    # The same by the command's way: an expert's file to the small form, and back.
    demos.save(again, tmp_path / "whole.npz")
    demos.convert(tmp_path / "whole.npz", tmp_path / "small.replay.safetensors")
    assert (tmp_path / "small.replay.safetensors").read_bytes() == path.read_bytes()
    assert demos.convert(path, tmp_path / "back.npz").sha256 == driven.sha256


def test_a_replay_that_differs_is_noticed(driven: demos.Demonstrations, tmp_path: Path) -> None:
    path = tmp_path / "driven.replay.safetensors"
    with pytest.raises(UserError, match=r"replay\.safetensors"):
        save_replay(driven, tmp_path / "driven.npz")
    save_replay(driven, path)
    highd_write.save(random_recording(4, n=20), tmp_path, "01")
    with pytest.raises(UserError, match="other recordings"):
        load_replay(path)
    foreign = demos.Demonstrations(**{**driven.arrays(), "observations": driven.observations + 1.0}, card=driven.card)
    with pytest.raises(UserError, match="does not start as any problem"):
        save_replay(foreign, path)
    with pytest.raises(UserError, match="lengths"):
        replay_demonstrations(
            {
                "problem": np.zeros(1, int),
                "actions": np.zeros((3, 2)),
                "lengths": np.array([4]),
                "returns": np.zeros(1),
            },
            driven.card,
        )
    with pytest.raises(UserError, match="need problem"):
        replay_demonstrations({}, driven.card)
    with pytest.raises(UserError, match="can be replayed"):
        save_replay(demos.Demonstrations(**driven.arrays(), card={"env": "tacit/Ant-v0"}), path)


def test_experts_demonstrate_by_reaching_the_goal(tmp_path: Path) -> None:
    from types import SimpleNamespace

    from tacit.forward.expert import demonstrate

    highd_write.save(random_recording(3, n=20), tmp_path, "01")
    env = TrafficVectorEnv(4, "velocity", recordings=str(tmp_path))
    run: Any = SimpleNamespace(
        path=tmp_path, name="run", config={"config": {"total_steps": 0}}, read=lambda name: {"command": "none"}
    )
    shown = demonstrate(env, to_goal, 3, 0, "tacit/HighwayVelocity-v0", {}, run)
    assert len(shown) == 3
    last = shown.observations[shown.row_offsets + shown.lengths]
    assert env.succeeded(last).all()
    assert shown.summary()["violation_rate_step"] == 0.0
    assert shown.terminated.all()


def test_changed_actions_are_noticed(driven: demos.Demonstrations, tmp_path: Path) -> None:
    from tacit.run.storage import load_arrays

    path = tmp_path / "driven.replay.safetensors"
    save_replay(driven, path)
    arrays, card = load_arrays(path)
    arrays["actions"] = -arrays["actions"]
    with pytest.raises(UserError, match="does not end as it did"):
        replay_demonstrations(arrays, card)


# ---------------------------------------------------------------- the command


def test_show_lists_and_shows(cli: Callable[..., Any], tmp_path: Path) -> None:
    listed = cli("traffic", "show")
    assert listed.status == 0
    assert "sim01" in listed.stdout
    assert "simulated" in listed.stdout
    picture, film = tmp_path / "road.png", tmp_path / "road.gif"
    shown = cli("traffic", "show", "sim01", "--picture", picture, "--film", film, "--second", "3", "--seconds", "0.4")
    assert shown.status == 0, shown.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert film.read_bytes().startswith(b"GIF8")
    assert cli("traffic", "show", "sim01", "--json").json()["seconds"] == 600
    assert cli("traffic", "show", "sim01", "--picture", tmp_path / "x.png", "--second", "9999").status == 2
    assert cli("traffic", "show", "nothing").status == 2
    for option, value in (("second", "nan"), ("second", "-5"), ("seconds", "nan"), ("seconds", "inf"), ("seconds", -1)):
        wrong = cli("traffic", "show", "sim01", "--film", film, f"--{option}", value)
        assert wrong.status == 2
        assert f"--{option} is" in wrong.stderr
    highd_write.save(random_recording(3), tmp_path / "csv", "01")
    short = cli("traffic", "show", tmp_path / "csv" / "01", "--picture", picture)
    assert short.status == 0, short.stderr  # of a recording that does not last a minute
    folder = cli("traffic", "show", tmp_path / "csv", "--json").json()
    assert [about["name"] for about in folder] == ["01"]
    assert cli("traffic", "show", "--picture", picture).status == 2


def test_export_writes_what_can_be_read(cli: Callable[..., Any], tmp_path: Path) -> None:
    done = cli("traffic", "export", "sim01", "--out", tmp_path, "--name", "01", "--compression", "gz")
    assert done.status == 0, done.stderr
    evil = cli("traffic", "export", "sim01", "--out", tmp_path / "in", "--name", "../evil")
    assert evil.status == 2
    assert "no plain name" in evil.stderr
    assert not list(tmp_path.glob("evil*"))
    file = cli("traffic", "export", "sim01", "--out", tmp_path / "01_tracks.csv.gz")
    assert file.status == 2
    assert "is a file; recordings are written into a folder" in file.stderr
    own = compact.load(compact.shipped()[0])
    found = load(tmp_path / "01_tracks.csv.gz")
    assert (found.x == own.x).all()
    assert (found.vy == own.vy).all()
    assert found.lengths.tolist() == own.lengths.tolist()


def test_validate(cli: Callable[..., Any], tmp_path: Path) -> None:
    highd_write.save(recording([Car(50.0, 26.0, 30.0, 100), Car(51.0, 26.0, 30.0, 100)]), tmp_path, "01")
    crash = cli("traffic", "validate", tmp_path / "01_tracks.csv")
    assert crash.status == 1
    assert "vehicles overlap in 01" in crash.stderr
    highd_write.save(recording([Car(50.0, 26.0, 30.0, 100), Car(90.0, 26.0, 30.0, 100)]), tmp_path, "01")
    fine = cli("traffic", "validate", tmp_path / "01_tracks.csv", "--json")
    assert fine.status == 0
    assert json.loads(fine.stdout)["compared"] == ["01"]
    (tmp_path / "01_tracks.csv").write_text("nothing")
    wrong = cli("traffic", "validate", tmp_path / "01_tracks.csv")
    assert wrong.status == 2
    assert re.search(r"01_tracks.csv: row 1.*lacks", wrong.stderr)


@pytest.mark.slow
def test_validate_the_shipped(cli: Callable[..., Any]) -> None:
    done = cli("traffic", "validate")
    assert done.status == 0, done.stderr
    assert "10 recordings read, 0 with overlapping vehicles" in done.stdout


def test_wrong_options_are_refused_before_anything_is_written(cli: Callable[..., Any], tmp_path: Path) -> None:
    for options, text in (
        (("--recordings", tmp_path / "none"), "none does not exist"),
        (("--env", "ego=everybody"), "'any', 'window'"),
        (("--env", "colour=red"), "no option 'colour'"),
    ):
        done = cli("expert", "tacit/HighwayDistance-v0", *options, "--out", tmp_path / "runs")
        assert done.status == 2
        assert text in done.stderr
    assert not (tmp_path / "runs").exists()


def test_recordings_are_an_option_and_keep_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.commands import EnvOptions
    from tacit.envs.options import resolve_env

    highd_write.save(random_recording(3, n=20), tmp_path / "data", "01")
    monkeypatch.chdir(tmp_path)
    resolved = resolve_env("tacit/HighwayVelocity-v0", EnvOptions(recordings="data").given())
    assert resolved == {"recordings": str(tmp_path / "data")}
