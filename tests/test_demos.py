"""Demonstrations: the container, the file format against damage and malice, checks, conversion, and the experts."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tacit import demos as d
from tacit.demos.data import from_trajectories
from tacit.envs.gridworld import ENV_ID, GridworldEnv, GridworldVectorEnv, make_spec
from tacit.errors import UserError
from tacit.forward.soft_policy_iteration import occupancy

GRID = make_spec("paper", slip=0.2)


@pytest.fixture(scope="module")
def expert():
    return d.expert_demonstrations(GRID, n=12, seed=4)


@pytest.fixture(scope="module")
def good_bytes(expert, tmp_path_factory):
    path = tmp_path_factory.mktemp("demos") / "good.npz"
    d.save(expert, path)
    return path.read_bytes()


def continuous(costs=True):
    """Two trajectories of 2 and 1 steps with flat observations and actions."""
    rng = np.random.default_rng(0)
    return d.Demonstrations(
        observations=rng.normal(size=(5, 3)),
        actions=rng.uniform(-1, 1, size=(3, 2)),
        rewards=np.array([1.0, 2.0, 3.0]),
        costs=np.array([0.0, 1.0, 0.0]) if costs else None,
        lengths=np.array([2, 1]),
        terminated=np.array([True, False]),
        card={"feature_names": ["x", "y", "z"]},
    )


def same(a, b):
    assert a.arrays().keys() == b.arrays().keys()
    for name, array in a.arrays().items():
        assert array.dtype == b.arrays()[name].dtype
        np.testing.assert_array_equal(array, b.arrays()[name])


def rewrite(data: bytes, change) -> bytes:
    """The file with its members, {name: bytes}, changed by `change`."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members = change(members) or members
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def npy(array) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


# ---------------------------------------------------------------------------------------------------------------------
# The container


def test_trajectories_are_cut_at_the_right_places():
    data = continuous()
    first, second = data
    assert (len(data), len(first), len(second), data.n_steps) == (2, 2, 1, 3)
    np.testing.assert_array_equal(first.observations, data.observations[:3])
    np.testing.assert_array_equal(second.observations, data.observations[3:])
    np.testing.assert_array_equal(second.actions, data.actions[2:])
    assert (first.terminated, second.terminated) == (True, False)
    assert second.costs is not None
    assert (second.rewards[0], second.costs[0]) == (3.0, 0.0)
    np.testing.assert_array_equal(data.rows_before, [0, 1, 3])
    same(data, from_trajectories(list(data)))
    np.testing.assert_array_equal(data[-1].rewards, [3.0])
    with pytest.raises(IndexError):
        data[2]
    assert data.where("observations", 2) == "trajectory 0, step 2"
    assert data.where("observations", 3) == "trajectory 1, step 0"
    assert data.where("rewards", 2) == "trajectory 1, step 0"


def test_subset():
    data = continuous()
    turned = data.subset([1, 0])
    np.testing.assert_array_equal(turned.rewards, [3.0, 1.0, 2.0])
    assert turned.card == data.card
    assert turned.sha256 != data.sha256
    same(data.subset(data.terminated), data.subset([0]))
    same(data.subset(slice(None)), data)
    with pytest.raises(UserError, match="no demonstrations"):
        data.subset([False, False])


def test_summary_by_hand():
    summary = continuous().summary()
    assert (summary["trajectories"], summary["steps"], summary["length_mean"]) == (2, 3, 1.5)
    assert (summary["return_mean"], summary["return_std"], summary["return_max"]) == (3.0, 0.0, 3.0)
    assert (summary["violation_rate_step"], summary["violation_rate_episode"]) == (1 / 3, 0.5)
    assert continuous(costs=False).summary()["violation_rate_step"] is None


def test_arrays_are_read_only_and_copied():
    observations = np.zeros((2, 1))
    data = d.Demonstrations(observations, np.zeros(1), np.zeros(1), None, np.array([1]), np.array([True]))
    observations[:] = 7
    assert data.observations.max() == 0
    with pytest.raises(ValueError, match="read-only"):
        data.observations[0] = 1


def test_hash_follows_the_content_and_nothing_else():
    data = continuous()
    variants = [
        replace(data, observations=data.observations + 1e-12),
        replace(data, observations=data.observations.astype(np.float32)),
        replace(data, observations=data.observations.reshape(5, 3, 1), card={}),
        replace(data, actions=-data.actions),
        replace(data, rewards=data.rewards[::-1]),
        replace(data, costs=None),
        replace(data, costs=1 - data.costs),
        replace(data, lengths=data.lengths[::-1]),
        replace(data, terminated=~data.terminated),
        data.subset([0]),
    ]
    hashes = {data.sha256, *(variant.sha256 for variant in variants)}
    assert len(hashes) == 1 + len(variants)
    assert replace(data, card={"note": "other"}).sha256 == data.sha256
    assert replace(data, observations=np.asfortranarray(data.observations)).sha256 == data.sha256
    assert replace(data, observations=data.observations.astype(">f8")).sha256 == data.sha256


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": np.array([], dtype=int)}, "no demonstrations"),
        ({"lengths": np.array([3, 0])}, "trajectory 1 has a length of 0"),
        ({"lengths": np.array([2, 2])}, r"observations have shape \(5, 3\), expected \(6, ...\)"),
        ({"lengths": np.array([2, 10**18])}, "trajectory 1 has a length of 1000000000000000000"),
        ({"lengths": np.array([2.0, 1.0])}, "lengths must be an array of integers"),
        ({"actions": np.zeros((4, 2))}, "actions have shape"),
        ({"rewards": np.zeros((3, 1))}, "rewards have shape"),
        ({"costs": np.zeros(2)}, "costs have shape"),
        ({"terminated": np.array([1, 0])}, "terminated must be an array of booleans"),
        ({"observations": np.array(["a"] * 5)}, "observations must be an array of numbers"),
        ({"observations": np.array([None] * 5)}, "observations must be an array of numbers"),
        (
            {"observations": np.array([[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, np.nan, 0], [0, 0, 0]])},
            "trajectory 1, step 0",
        ),
        ({"rewards": np.array([0, np.inf, 0])}, "rewards hold NaN or infinity in trajectory 0, step 1"),
        ({"card": {"feature_names": ["x"]}}, "names 1 features but an observation has 3"),
        ({"card": {"feature_names": "xyz"}}, "must be a list of strings"),
        ({"card": {"env": 3}}, "env must be an environment's id"),
        ({"card": {"env_kwargs": []}}, "env_kwargs must be a mapping"),
    ],
)
def test_bad_content(change, message):
    with pytest.raises(UserError, match=message):
        replace(continuous(), **change)


# ---------------------------------------------------------------------------------------------------------------------
# The file


def test_round_trip(expert, tmp_path):
    for name, data in (("grid", expert), ("flat", continuous()), ("no costs", continuous(costs=False))):
        path = tmp_path / f"{name}.npz"
        d.save(data, path)
        again = d.load(path)
        same(data, again)
        assert again.card == data.card
        assert again.sha256 == data.sha256
        first = path.read_bytes()
        d.save(again, path)
        assert path.read_bytes() == first  # equal content, equal bytes
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".npz"] == []


def test_the_file_is_what_the_documentation_says(good_bytes, expert):
    with np.load(io.BytesIO(good_bytes), allow_pickle=False) as plain:
        np.testing.assert_array_equal(plain["actions"], expert.actions)
        assert set(plain.files) == {*expert.arrays(), "card.json"}
    with zipfile.ZipFile(io.BytesIO(good_bytes)) as archive:
        card = json.loads(archive.read("card.json"))
    assert card["schema"] == 1
    assert card["sha256"] == expert.sha256
    assert card["statistics"] == expert.summary()
    assert (card["env"], card["feature_names"], card["seed"]) == (ENV_ID, ["row", "column"], 4)
    assert "zero violations are impossible" in card["note"]
    assert gym.make(card["env"], **card["env_kwargs"]).unwrapped.grid == GRID


def test_failed_save_leaves_the_old_file(tmp_path, expert):
    path = tmp_path / "a.npz"
    d.save(expert, path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        d.save(replace(expert, card={"bad": object()}), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]
    with pytest.raises(UserError, match=r"called something\.npz"):
        d.save(expert, tmp_path / "a.pkl")


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(UserError, match=r"nothing\.npz does not exist"):
        d.load(tmp_path / "nothing.npz")
    with pytest.raises(UserError, match="is not a file"):
        d.load(tmp_path)
    for content in (b"", b"PK", b"hello" * 100, b"\x80\x04N."):
        path = tmp_path / "foreign.npz"
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"foreign\.npz is not a readable demonstration file"):
            d.load(path)


def _without(name):
    return lambda m: {k: v for k, v in m.items() if k != name}


def _with(name, content):
    return lambda m: {**m, name: content}


def _card(**changes):
    return lambda m: {**m, "card.json": json.dumps({**json.loads(m["card.json"]), **changes}).encode()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without("actions.npy"), "lacks actions"),
        (_without("card.json"), r"has no card\.json: .*convert"),
        (_without("costs.npy"), "do not match the hash"),
        (_with("evil.npy", b""), r"holds 'evil\.npy', which is no part"),
        (_with("rewards.npy", b"\x93NUMPY"), "truncated or damaged"),
        (_with("rewards.npy", b"\x93NUMPY\x09\x00" + b" " * 200), "unknown array format"),
        (_with("rewards.npy", npy(np.array([{}] * 3, dtype=object))), "objects are pickles"),
        (_with("rewards.npy", npy(np.zeros(3, dtype=[("a", float)]))), "only booleans, integers and floats"),
        (_with("rewards.npy", npy(np.array(["a"]))), "only booleans, integers and floats"),
        (_with("rewards.npy", npy(np.zeros(4, dtype=complex))), "only booleans, integers and floats"),
        (_with("rewards.npy", npy(np.zeros(4))), "rewards have shape"),
        (_with("rewards.npy", npy(np.zeros(400))[:-8]), r"does not hold the \(400,\) array"),
        (_with("rewards.npy", npy(np.zeros(400)).replace(b"(400,)", b"(-40,)")), "does not hold"),
        (_with("card.json", b"{"), "truncated or damaged"),
        (_with("card.json", b"[]"), "must be a JSON object"),
        (_with("card.json", b"[" * 100_000), "truncated or damaged"),
        (_with("card.json", b" " * 2_000_000), "at most 1048576 are read"),
        (_card(schema=2), "has schema 2, this version reads 1"),
        (_card(sha256="0" * 64), "do not match the hash"),
        (_card(feature_names=["row"]), "names 1 features"),
    ],
)
def test_altered_files(good_bytes, tmp_path, change, message):
    path = tmp_path / "altered.npz"
    path.write_bytes(rewrite(good_bytes, change))
    with pytest.raises(UserError, match=message) as caught:
        d.load(path)
    assert "altered.npz" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_changed_number_is_noticed(good_bytes, tmp_path, expert):
    rewards = np.array(expert.rewards)
    rewards[5] += 1e-9
    path = tmp_path / "altered.npz"
    path.write_bytes(rewrite(good_bytes, _with("rewards.npy", npy(rewards))))
    with pytest.raises(UserError, match="do not match the hash"):
        d.load(path)


def test_zip_bombs_are_not_unpacked(good_bytes, tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    # A claim that no deflate stream can fulfil.
    lie = bytearray(good_bytes)
    at = lie.rindex(b"rewards.npy") - 46  # the central directory's entry
    assert lie[at : at + 4] == b"PK\x01\x02"
    lie[at + 24 : at + 28] = (2**31).to_bytes(4, "little")
    path.write_bytes(lie)
    with pytest.raises(UserError, match=r"rewards\.npy claims 2147483648 bytes"):
        d.load(path)
    # An honest thousandfold expansion, beyond the limit.
    path.write_bytes(rewrite(good_bytes, _with("rewards.npy", npy(np.zeros(1_000_000)))))
    assert path.stat().st_size < 20_000

    def refuse(*args):
        raise AssertionError("the archive was opened before its size was checked")

    monkeypatch.setattr(zipfile.ZipFile, "open", refuse)
    with pytest.raises(UserError, match="bytes of memory, more than 1000000"):
        d.load(path, max_bytes=1_000_000)


def test_same_member_twice(good_bytes, tmp_path):
    path = tmp_path / "twice.npz"
    path.write_bytes(good_bytes)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("rewards.npy", b"")
    with pytest.raises(UserError, match=r"holds rewards\.npy twice"):
        d.load(path)


def test_truncation_anywhere(good_bytes, tmp_path):
    path = tmp_path / "cut.npz"
    for length in range(0, len(good_bytes), 37):
        path.write_bytes(good_bytes[:length])
        with pytest.raises(UserError, match=r"cut\.npz"):
            d.load(path)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6))
@example(edits=[(0.0, 0)])
def test_damaged_bytes_never_crash(good_bytes, expert, tmp_path, edits):
    data = bytearray(good_bytes)
    for place, value in edits:
        data[int(place * len(data))] = value
    path = tmp_path / "fuzz.npz"
    path.write_bytes(data)
    try:
        loaded = d.load(path, max_bytes=1 << 24)
    except UserError:
        return
    assert loaded.sha256 == expert.sha256  # whatever was hit, it was not the content


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["observations", "actions", "rewards", "costs", "lengths", "terminated", "card"]),
    edits=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4),
    header=st.booleans(),
)
def test_damage_under_an_intact_zip_never_crashes(good_bytes, expert, tmp_path, name, edits, header):
    """The same below the checksums of the archive: array headers and JSON, as a hostile writer would make them."""
    member = "card.json" if name == "card" else f"{name}.npy"

    def damage(members):
        data = bytearray(members[member])
        for place, value in edits:
            data[int(place * (128 if header and name != "card" else len(data)))] = value
        return {**members, member: bytes(data)}

    path = tmp_path / "fuzz.npz"
    path.write_bytes(rewrite(good_bytes, damage))
    try:
        loaded = d.load(path, max_bytes=1 << 24)
    except UserError:
        return
    assert loaded.sha256 == expert.sha256


# ---------------------------------------------------------------------------------------------------------------------
# Checks


def test_experts_fit_their_world(expert):
    for target in (GRID, ENV_ID, gym.make(ENV_ID, slip=0.2), GridworldVectorEnv(2, slip=0.2)):
        assert d.problems(expert, target) == []
        d.validate(expert, target)
    by_index = d.expert_demonstrations(GRID, n=3, observation="index")
    assert d.problems(by_index, GRID) == d.problems(by_index, ENV_ID) == []
    for (states, actions), trajectory in zip(GRID.to_tabular(by_index), by_index, strict=True):
        np.testing.assert_array_equal(states, trajectory.observations)
        assert len(states) == len(actions) + 1
    for (states, _), trajectory in zip(GRID.to_tabular(expert), expert, strict=True):
        np.testing.assert_array_equal([GRID.position_of(s) for s in states], trajectory.observations)


def edited(expert, name, row, value):
    array = np.array(getattr(expert, name))
    array[row] = value
    return replace(expert, **{name: array})


@pytest.mark.parametrize(
    ("name", "row", "value", "message"),
    [
        ("observations", 0, (0, 0), r"trajectory 0 starts at \(0, 0\), not at \(6, 1\)"),
        ("observations", 3, (9, 1), r"trajectory 0, step 3: \[9. 1.\] is a wall or outside the grid"),
        ("observations", 3, (0.5, 1), "trajectory 0, step 3: .* outside the grid"),
        ("observations", 3, (8, 8), r"trajectory 0, step 2: the move '\w+' cannot lead from \(.*\) to \(8, 8\)"),
        ("actions", 2, 4, r"trajectory 0, step 2: action 4 is not in 0 \.\.\. 3"),
        ("rewards", 2, 0.0, "trajectory 0, step 2: reward 0, here it is -1"),
        ("costs", 2, 1.0, "trajectory 0, step 2: cost 1, here it is 0"),
        ("terminated", 1, False, "trajectory 1 ends at the goal but is not marked as terminated"),
    ],
)
def test_impossible_gridworld_demonstrations(expert, name, row, value, message):
    wrong = edited(expert, name, row, value)
    with pytest.raises(UserError, match=message):
        d.validate(wrong, GRID)
    with pytest.raises(UserError, match=message):
        GRID.to_tabular(wrong)


def test_other_misfits(expert):
    with pytest.raises(UserError, match=r"cannot lead from .* with slip 0 \(and \d+ more problems\)"):
        d.validate(expert, make_spec("paper", slip=0.0))
    with pytest.raises(UserError, match="more than the environment's horizon of 13"):
        d.validate(expert, make_spec(GRID, horizon=13))
    unfinished = expert.subset([0])
    cut = from_trajectories(
        [
            replace(
                unfinished[0],
                **{k: getattr(unfinished[0], k)[:-1] for k in ("observations", "actions", "rewards", "costs")},
            )
        ]
    )
    with pytest.raises(UserError, match="does not end at the goal but is marked as terminated"):
        d.validate(cut, GRID)
    onward = from_trajectories(
        [
            d.Trajectory(
                np.concatenate([expert[0].observations, [(6, 7)]]),
                np.append(expert[0].actions, 0),
                np.append(expert[0].rewards, 1.0),
                None,
                True,
            )
        ]
    )
    with pytest.raises(UserError, match=r"goes on after reaching the goal at \(6, 7\)"):
        d.validate(onward, GRID)
    with pytest.raises(UserError, match="feature names are"):
        d.validate(replace(expert, card={"feature_names": ["column", "row"]}), GRID)
    with pytest.raises(UserError, match="expected integers"):
        d.validate(replace(expert, actions=expert.actions.astype(float)), GRID)
    with pytest.raises(UserError, match=r"expected \(2,\)"):
        d.validate(continuous(), GRID)
    with pytest.raises(TypeError, match="expected an environment"):
        d.validate(expert, 7)
    with pytest.raises(UserError, match="cannot make 'tacit/Nowhere-v0'"):
        d.validate(expert, "tacit/Nowhere-v0")
    assert len(d.problems(expert, make_spec("paper", slip=0.0), limit=3)) == 3


class Flat(gym.Env):
    """Three numbers in, two out."""

    observation_space = gym.spaces.Box(-5, 5, (3,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    feature_names = ("x", "y", "z")
    horizon = 2


def test_continuous_spaces():
    data, env = continuous(), Flat()
    assert d.problems(data, env) == []
    assert d.problems(replace(data, actions=data.actions / np.abs(data.actions).max()), env) == []  # on the bound
    found = d.problems(replace(data, actions=data.actions + np.array([[0, 0], [9, 0], [0, 0]])), env)
    assert len(found) == 1
    assert found[0].startswith("actions of trajectory 0, step 1 are")
    assert "horizon of 1" in d.problems(data, type("Short", (Flat,), {"horizon": 1})())[0]
    assert "have shape (2,)" in d.problems(replace(data, observations=data.observations[:, :2], card={}), env)[0]
    assert "feature names" in d.problems(replace(data, card={"feature_names": ["a", "b", "c"]}), env)[0]


# ---------------------------------------------------------------------------------------------------------------------
# Conversion


@pytest.mark.parametrize("case", ["grid", "index", "flat", "no costs"])
def test_csv_round_trip(case, expert, tmp_path):
    data = {
        "grid": expert,
        "index": d.expert_demonstrations(GRID, n=3, observation="index"),
        "flat": continuous(),
        "no costs": continuous(costs=False),
    }[case]
    d.to_csv(data, tmp_path / "a.csv")
    again = d.from_csv(tmp_path / "a.csv")
    # A table does not know single from double precision: everything comes back as the same numbers in double.
    same(replace(data, observations=data.observations.astype(again.observations.dtype)), again)
    assert again.card["feature_names"] == data.card["feature_names"]
    assert d.convert(tmp_path / "a.csv", tmp_path / "b.npz").sha256 == d.load(tmp_path / "b.npz").sha256
    d.convert(tmp_path / "b.npz", tmp_path / "c.csv")
    assert (tmp_path / "c.csv").read_text() == (tmp_path / "a.csv").read_text()


CSV = """episode,step,obs_x,act,reward,terminated
a,0,0.5,1,-1,0
a,1,1.5,0,-1,true
a,2,2.5,,,
b,0,9,1,-1,
b,1,8,,,
"""


def test_csv_by_hand(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("\ufeff" + CSV.replace("\n", "\r\n"), encoding="utf-8")
    data = d.from_csv(path, card={"env": "mine"})
    np.testing.assert_array_equal(data.observations, [[0.5], [1.5], [2.5], [9.0], [8.0]])
    np.testing.assert_array_equal(data.actions, [1, 0, 1])
    assert data.actions.dtype.kind == "i"
    assert data.lengths.tolist() == [2, 1]
    assert data.terminated.tolist() == [True, False]
    assert (data.costs, data.card["feature_names"], data.card["env"]) == (None, ["x"], "mine")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("episode,", "ep,", "lacks the column episode"),
        ("obs_x", "x", "lacks the column obs_NAME"),
        (",act,", ",u,", "lacks the column act_NAME"),
        ("reward", "act", "has the column 'act' twice"),
        ("1.5", "one", "row 3, column 'obs_x': 'one' is not a finite number"),
        ("1.5", "nan", "row 3, column 'obs_x': 'nan' is not a finite number"),
        ("a,1,1.5,0", "a,1,1.5,0.5", "row 3: the column 'act' must hold whole numbers"),
        ("a,1,1.5,0", "a,1,1.5,", "row 3, column 'act': '' is not a finite number"),
        ("a,1,", "a,2,", "row 3: episode 'a' has step '2' where 1 should follow"),
        ("true", "maybe", "row 3, column 'terminated': 'maybe'"),
        ("-1,0\n", "-1,1\n", "row 2: episode 'a' goes on after it terminated"),
        ("a,2,2.5,,,", "a,2,2.5,,", "row 4: it does not have as many cells"),
        ("a,2,2.5,,,", "a,2,2.5,,,,", "row 4: it does not have as many cells"),
        ("b,1,8,,,\n", "", "row 5: episode 'b' ends with an action of unknown outcome"),
        (CSV.split("\n", 1)[1], "", "has no rows"),
        (CSV, "", "lacks the column episode"),
        ("a,0,", 'a,"0', "not a CSV table"),
    ],
)
def test_bad_tables(tmp_path, old, new, message):
    assert old in CSV
    path = tmp_path / "log.csv"
    path.write_text(CSV.replace(old, new, 1))
    with pytest.raises(UserError, match=message) as caught:
        d.convert(path, tmp_path / "out.npz")
    assert "log.csv" in str(caught.value)
    assert not (tmp_path / "out.npz").exists()


def test_actions_of_unknown_outcome_can_be_dropped(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(CSV.replace("a,2,2.5,,,\n", ""))
    data = d.from_csv(path, drop_unfinished=True)
    assert data.lengths.tolist() == [1, 1]
    assert data.terminated.tolist() == [False, False]  # the end was in the dropped step


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(st.tuples(st.integers(0, len(CSV) - 1), st.integers(0, 255)), min_size=1, max_size=5))
def test_damaged_tables_never_crash(tmp_path, edits):
    data = bytearray(CSV.encode())
    for place, value in edits:
        data[place] = value
    path = tmp_path / "fuzz.csv"
    path.write_bytes(data)
    try:
        loaded = d.from_csv(path)
    except UserError:
        return
    assert loaded.n_steps >= 1


def test_plain_arrays(tmp_path):
    data = continuous()
    path = tmp_path / "mine.npz"
    np.savez(path, **{**data.arrays(), "terminated": np.array([1, 0])})
    with pytest.raises(UserError, match="tacit demos convert"):
        d.load(path)
    same(d.from_npz(path, card={"note": "mine"}), data)
    assert d.convert(path, tmp_path / "new.npz").sha256 == data.sha256
    np.savez(path, observations=data.observations)
    with pytest.raises(UserError, match=r"mine\.npz lacks actions, rewards"):
        d.from_npz(path)
    with pytest.raises(UserError, match=r"imported from \.csv and \.npz"):
        d.convert(tmp_path / "x.pkl", tmp_path / "y.npz")


# ---------------------------------------------------------------------------------------------------------------------
# Experts and collecting


def soft_values(grid, beta, weight, sweeps=4000):
    """Soft value iteration written out: the expert's policy by other means."""
    mdp = grid.model()
    table = mdp.transitions.toarray().reshape(grid.n_states, grid.n_actions, grid.n_states)
    table[:, :, grid.goal] = 0.0
    reward = mdp.rewards - weight * (mdp.transitions @ grid.constrained.astype(float)).reshape(mdp.rewards.shape)
    value = np.zeros(grid.n_states)
    for _ in range(sweeps):
        q = reward + mdp.discount * table @ value
        value = beta * np.log(np.exp((q - q.max(1, keepdims=True)) / beta).sum(1)) + q.max(1)
        value[grid.goal] = 0.0
    return np.exp((q - value[:, None]) / beta)


def test_the_expert_is_soft_optimal():
    grid = make_spec("wall-1", slip=0.2)
    ours, theirs = d.expert_policy(grid, 0.3, 10.0), soft_values(grid, 0.3, 10.0)
    live = np.arange(grid.n_states) != grid.goal
    np.testing.assert_allclose(ours[live], theirs[live], atol=1e-8)
    with pytest.raises(UserError, match="beta must be positive"):
        d.expert_policy(grid, 0.0)
    with pytest.raises(UserError, match="must not be negative"):
        d.expert_policy(grid, 0.1, -1.0)


@pytest.mark.parametrize("finite", [False, True])
def test_samples_follow_the_exact_occupancy(finite):
    grid = make_spec("paper", slip=0.3, horizon=40)
    policy = d.expert_policy(grid, 0.5, 5.0, finite=finite)
    assert policy.ndim == (3 if finite else 2)
    data = d.sample_demonstrations(grid, policy, n=20_000, seed=1)
    mdp = grid.model(horizon=40, discount=1.0)
    exact = occupancy(mdp, np.broadcast_to(policy, (40, grid.n_states, grid.n_actions))).sum(axis=0)
    states = grid.states_of(data.observations)[data.rows_before]
    counts = np.zeros(exact.shape)
    np.add.at(counts, (states, data.actions), 1 / len(data))
    error = np.abs(counts - exact) / np.sqrt(np.maximum(exact, 1e-3) / len(data) * 10)
    assert (
        error.max() < 5
    )  # visits of an episode are correlated: a tenfold variance is generous, a bug is not that small
    assert data.returns.mean() == pytest.approx((exact * mdp.rewards).sum(), abs=5 * data.returns.std() / 141)


def test_default_demonstrations():
    data = d.expert_demonstrations(make_spec("paper", slip=0.0))
    assert len(data) == 50
    assert data.summary()["violation_rate_step"] == 0
    assert "can avoid every violation" in data.card["note"]
    assert data.card["weight"] == 30.0
    assert d.expert_demonstrations(GRID, seed=1).sha256 == d.expert_demonstrations(GRID, seed=1).sha256
    assert d.expert_demonstrations(GRID, seed=1).sha256 != d.expert_demonstrations(GRID, seed=2).sha256


def test_bad_policies():
    policy = d.expert_policy(GRID)
    for bad, message in (
        (policy[:-1], "has shape"),
        (policy[None], "has shape"),
        (policy * 2, "must be a distribution"),
        (-policy, "must be a distribution"),
        (policy * np.nan, "must be a distribution"),
    ):
        with pytest.raises(UserError, match=message):
            d.sample_demonstrations(GRID, bad)
    with pytest.raises(UserError, match="at least one"):
        d.sample_demonstrations(GRID, policy, n=0)
    with pytest.raises(UserError, match="'position' or 'index'"):
        d.sample_demonstrations(GRID, policy, observation="pixels")


def detour(observations, rng):
    """A scripted agent for the paper layout without slip: up to row 1, right, down."""
    row, column = np.asarray(observations, dtype=int).T
    return np.where((column < 7) & (row > 1), 3, np.where(column < 7, 0, 2))


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_collecting_in_both_restart_modes(mode):
    env = SyncVectorEnv([lambda: GridworldEnv(slip=0.0)] * 3, autoreset_mode=mode)
    data = d.collect(env, detour, 7, seed=0, card={"source": "a script"})
    assert len(data) == 7
    assert data.lengths.tolist() == [16] * 7
    assert data.returns.tolist() == [-14.0] * 7
    assert data.terminated.all()
    assert data.costs is not None
    assert data.costs.sum() == 0
    d.validate(data, make_spec("paper", slip=0.0))
    assert data.card["source"] == "a script"


def test_collecting_is_fair_and_complete():
    """Random walks in our own batch: complete episodes, possible, and as long on average as the exact model says."""
    grid = make_spec("S.X\n..G\n", slip=0.2, horizon=15)
    env = GridworldVectorEnv(16, grid)
    data = d.collect(env, lambda obs, rng: rng.integers(4, size=len(obs)), 2000, seed=3)
    d.validate(data, grid)
    assert data.card["feature_names"] == ["row", "column"]
    mdp = grid.model(horizon=15, discount=1.0)
    uniform = np.full((15, grid.n_states, 4), 0.25)
    exact = occupancy(mdp, uniform)
    assert data.lengths.mean() == pytest.approx(exact.sum(), abs=4 * data.lengths.std() / np.sqrt(2000))
    assert data.costs is not None
    expected = (exact * grid.expected(grid.entry_costs)).sum()
    assert data.costs.sum() / 2000 == pytest.approx(expected, abs=0.1)
    with pytest.raises(UserError, match="at least one"):
        d.collect(env, detour, 0, seed=0)
    disabled = SyncVectorEnv([lambda: GridworldEnv()], autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(UserError, match="does not reset its copies"):
        d.collect(disabled, detour, 1, seed=0)


# ---------------------------------------------------------------------------------------------------------------------
# The documentation


@pytest.mark.parametrize("page", ["demonstrations", "gridworld"])
def test_documented_code_runs(page, tmp_path, monkeypatch):
    text = (Path(__file__).parent.parent / "docs" / f"{page}.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, f"{page}.md", "exec"), {})


def test_documented_table_and_map(tmp_path):
    docs = Path(__file__).parent.parent / "docs"
    table = re.search(r"```\n(episode.*?)```", (docs / "demonstrations.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / "log.csv").write_text(table[1])
    data = d.from_csv(tmp_path / "log.csv")
    assert (data.card["feature_names"], data.lengths.tolist(), data.terminated.tolist()) == (
        ["x", "speed"],
        [2],
        [True],
    )
    picture = re.search(r"```\n(description.*?)```", (docs / "gridworld.md").read_text("utf-8"), re.DOTALL)
    assert make_spec(picture[1]).shape == (5, 9)


def test_documented_hash(expert):
    digest = hashlib.sha256()
    for name in sorted(expert.arrays()):
        array = expert.arrays()[name]
        digest.update(json.dumps([name, array.dtype.newbyteorder("<").str, list(array.shape)]).encode())
        digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes("C"))
    assert digest.hexdigest() == expert.sha256
