"""The demonstration file against damage and malice, tables, plain arrays, and what the documentation says of them."""

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
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from demo_helpers import GRID, continuous, same
from tacit import demos as d
from tacit.envs.gridworld import ENV_ID, make_spec
from tacit.errors import UserError


@pytest.fixture(scope="module")
def expert():
    return d.expert_demonstrations(GRID, n=12, seed=4)


@pytest.fixture(scope="module")
def good_bytes(expert, tmp_path_factory):
    path = tmp_path_factory.mktemp("demos") / "good.npz"
    d.save(expert, path)
    return path.read_bytes()


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
    with pytest.raises(UserError, match=r"is not a demonstration file.*tacit demos import"):
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
        (_without("card.json"), r"has no card\.json.*tacit demos import"),
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
    with pytest.raises(UserError, match="tacit demos import"):
        d.load(path)
    same(d.from_npz(path, card={"note": "mine"}), data)
    assert d.convert(path, tmp_path / "new.npz").sha256 == data.sha256
    np.savez(path, observations=data.observations)
    with pytest.raises(UserError, match=r"mine\.npz lacks actions, rewards"):
        d.from_npz(path)
    with pytest.raises(UserError, match=r"only \.csv and \.npz files are converted"):
        d.convert(tmp_path / "x.parquet", tmp_path / "y.npz")


# ---------------------------------------------------------------------------------------------------------------------
# The documentation


@pytest.mark.parametrize("page", ["files", "environments"])
def test_documented_code_runs(page, tmp_path, monkeypatch):
    text = (Path(__file__).parents[2] / "docs" / f"{page}.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 2
    namespace = {}  # a page is read from top to bottom
    for block in blocks:
        exec(compile(block, f"{page}.md", "exec"), namespace)


def test_documented_table_and_map(tmp_path):
    docs = Path(__file__).parents[2] / "docs"
    table = re.search(r"```\n(episode.*?)```", (docs / "files.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / "log.csv").write_text(table[1])
    data = d.from_csv(tmp_path / "log.csv")
    assert (data.card["feature_names"], data.lengths.tolist(), data.terminated.tolist()) == (
        ["x", "speed"],
        [2],
        [True],
    )
    picture = re.search(r"```\n(description.*?)```", (docs / "environments.md").read_text("utf-8"), re.DOTALL)
    assert make_spec(picture[1]).shape == (5, 9)


def test_documented_hash(expert):
    digest = hashlib.sha256()
    for name in sorted(expert.arrays()):
        array = expert.arrays()[name]
        digest.update(json.dumps([name, array.dtype.newbyteorder("<").str, list(array.shape)]).encode())
        digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes("C"))
    assert digest.hexdigest() == expert.sha256
