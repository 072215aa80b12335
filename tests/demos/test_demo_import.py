"""Bringing data along: tables and arrays checked against an environment, and old pickles that cannot do anything."""

from __future__ import annotations

import collections
import contextlib
import io
import os
import pickle
import pickletools
import struct
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import demos, imports, make_spec
from tacit.cli import main
from tacit.errors import UserError
from tacit.interop import pickles

CART = "CartPole-v1"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fails(args: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    before = set(Path().iterdir())
    assert main(args) == 2
    assert said in capsys.readouterr().err
    assert set(Path().iterdir()) == before, "nothing is written"


# Tables and arrays ---------------------------------------------------------------------------------------------------


def cart(steps: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """(observations, actions) of a cart that was really driven."""
    env = gymnasium.make(CART)
    rows, actions = [env.reset(seed=0)[0]], [1, 0] * (steps // 2)
    rows += [env.step(action)[0] for action in actions]
    return np.stack(rows), np.array(actions)


def test_a_table_for_an_environment(capsys: pytest.CaptureFixture[str]) -> None:
    rows, actions = cart()
    lines = [f"a,{t},{','.join(map(repr, row.tolist()))}," for t, row in enumerate(rows)]
    table = [line + (f"{actions[t]},1," if t < 2 else ",,") for t, line in enumerate(lines)]
    header = "episode,step,obs_x,obs_v,obs_angle,obs_rate,act,reward,terminated"
    Path("log.csv").write_text("\n".join([header, *table]) + "\n")
    assert main(["demos", "import", "log.csv", "--env", CART]) == 0, capsys.readouterr().err
    data = demos.load("log.npz")
    assert data.card["env"] == CART
    assert data.card["feature_names"] == ["x", "v", "angle", "rate"]
    np.testing.assert_array_equal(data.actions, [1, 0])
    np.testing.assert_array_equal(data.observations, rows)
    fails(["demos", "import", "log.csv"], "log.npz exists", capsys)
    wide = [line.replace(repr(float(rows[2, 2])), "9") for line in table]
    Path("wide.csv").write_text("\n".join([header, *wide]) + "\n")
    fails(["demos", "import", "wide.csv", "--env", CART, "-o", "x.npz"], "wide.csv does not fit CartPole-v1", capsys)
    fails(["demos", "import", "log.csv", "-o", "x.npz", "--env", "a=1"], "say which one with --env", capsys)
    fails(["demos", "import", "log.csv", "-o", "x.npz", "--env", "CartPole-v77"], "no environment", capsys)
    fails(["demos", "import", "log.doc", "-o", "x.npz"], "cannot read 'log.doc'", capsys)


def test_arrays_for_an_environment(capsys: pytest.CaptureFixture[str]) -> None:
    rows, actions = cart(4)
    arrays = {
        "observations": np.concatenate([rows, rows]),
        "actions": np.concatenate([actions, actions])[:, None].astype(float),  # how some write discrete actions
        "rewards": np.ones(8),
        "lengths": np.array([4, 4]),
        "terminated": np.array([0, 0]),
    }
    np.savez("arrays.npz", **arrays)
    assert main(["demos", "import", "arrays.npz", "--env", CART, "-o", "mine.npz"]) == 0, capsys.readouterr().err
    data = demos.load("mine.npz")
    np.testing.assert_array_equal(data.actions, [*actions, *actions])
    assert data.actions.dtype == np.int64
    np.savez("bad.npz", **{**arrays, "actions": np.full(8, 0.5)})
    fails(["demos", "import", "bad.npz", "--env", CART, "-o", "x.npz"], "the environment's are integers", capsys)


def test_export_to_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    data = demos.expert_demonstrations(make_spec("paper"), n=3, seed=0)
    demos.save(data, "grid.npz")
    assert main(["demos", "export", "grid.npz", "grid.csv"]) == 0
    np.testing.assert_array_equal(demos.from_csv("grid.csv").actions, data.actions)
    fails(["demos", "export", "grid.npz", "grid.parquet"], "exported to something.csv or minari:NAME", capsys)


# Pickles -------------------------------------------------------------------------------------------------------------


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and a == b


ARRAY = np.arange(12.0).reshape(3, 4)
CONTENT = {
    "obs": ARRAY,
    "fortran": np.asfortranarray(ARRAY),
    "big": ARRAY.astype(">f4"),
    "small": np.arange(3, dtype=np.int8),
    "flags": np.array([True, False]),
    "empty": np.zeros((0, 2)),
    "list": [1, -2.5, "text", b"bytes", None, True, (1, (2,)), {"a": [ARRAY]}, 10**20],
}


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_of_every_protocol(protocol: int) -> None:
    Path("a.pkl").write_bytes(pickle.dumps(CONTENT, protocol))
    assert equal(pickles.read("a.pkl"), CONTENT)


def test_numbers_and_ordered_dicts_of_numpy() -> None:
    content = [np.float32(1.5), np.int64(-3), collections.OrderedDict(a=1)]
    Path("a.pkl").write_bytes(pickle.dumps(content, 4))
    assert pickles.read("a.pkl") == [1.5, -3, {"a": 1}]
    objects = np.empty(2, object)
    objects[:] = [np.zeros(2), np.ones(3)]
    Path("a.pkl").write_bytes(pickle.dumps(objects, 4))
    assert equal(pickles.read("a.pkl"), [np.zeros(2), np.ones(3)])


def test_what_python_2_wrote() -> None:
    """Bytes as text, by the names that NumPy's modules had then."""
    raw = np.array([1.0, 2.0]).tobytes()
    old = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K\x02\x85cnumpy\ndtype\n"
        b"U\x02f8K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U"
        + bytes([len(raw)])
        + raw
        + b"tb."
    )
    Path("a.pkl").write_bytes(old)
    np.testing.assert_array_equal(pickles.read("a.pkl"), [1.0, 2.0])


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("owned",)


class Stateful:
    def __init__(self) -> None:
        self.x = 1


def by_hand(*operations: bytes) -> bytes:
    return b"\x80\x04" + b"".join(operations) + b"."


HOSTILE = {
    "a call": (pickle.dumps(Evil()), "posix.mkdir, which is code"),
    "a call in an array of objects": (pickle.dumps(np.array([Evil()], object)), "posix.mkdir"),
    "an object": (pickle.dumps(Stateful()), "which plain data do not need"),
    "a function": (pickle.dumps(len), "builtins.len, which is code"),
    "a set": (pickle.dumps({1, 2}), "which plain data do not need"),
    "an old instance": (b"(S'owned'\nios\nmkdir\n.", "INST"),
    "eval through numpy": (by_hand(b"cnumpy\nfromfile\n", b"\x8c\x05/etc/\x85R"), "numpy.fromfile, which is code"),
    "a dotted name": (by_hand(b"cnumpy\ncore.multiarray._reconstruct\n", b")R"), "which is code"),
    "a subclass of arrays": (
        by_hand(b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nmatrix\nK\x00\x85C\x01b\x87R"),
        "not NumPy's own",
    ),
    "an extension": (by_hand(b"\x82\x01"), "EXT1"),
    "a list of itself": (by_hand(b"]q\x00h\x00a"), "contain themselves"),
    "a huge array": (
        by_hand(
            b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R(K\x01J\xff\xff\xff\x7f\x85"
            b"cnumpy\ndtype\n\x8c\x02f8\x89\x88\x87R\x89C\x01xtb"
        ),
        "does not bring them along",
    ),
    "a huge string": (by_hand(b"\x8e" + struct.pack("<Q", 1 << 40) + b"x"), "not a readable pickle"),
    "a type with fields": (by_hand(b"cnumpy\ndtype\n\x8c\x02V8\x85R"), "only numbers are read"),
    "nothing": (b"", "not a readable pickle"),
    "words": (b"hello", "not a readable pickle"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_do_nothing(kind: str) -> None:
    data, said = HOSTILE[kind]
    Path("a.pkl").write_bytes(data)
    with pytest.raises(UserError, match=r"a\.pkl") as caught:
        pickles.read("a.pkl")
    assert said in str(caught.value)
    assert os.listdir() == ["a.pkl"]


def test_a_file_that_would_grow_does_not() -> None:
    """Lists that hold the one before twice: 2^60 entries if they were copied."""
    nested: Any = [0]
    for _ in range(60):
        nested = [nested, nested]
    Path("a.pkl").write_bytes(pickle.dumps(nested))
    assert pickles.read("a.pkl") is not None


VALID = pickle.dumps({"obs": ARRAY, "acts": [1, 2], "x": ("a", b"b", 1.5)}, 4)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_files_are_said_to_be(data: st.DataObject) -> None:
    """One byte changed, or cut short: an answer or a UserError, whatever it is."""
    at = data.draw(st.integers(0, len(VALID) - 1))
    damaged = bytearray(VALID)
    damaged[at] = data.draw(st.integers(0, 255))
    Path("a.pkl").write_bytes(bytes(damaged[: data.draw(st.integers(at, len(VALID)))]))
    with contextlib.suppress(UserError):
        pickles.read("a.pkl")


def test_the_machine_knows_no_other_way_to_call() -> None:
    """Operations that can make objects by themselves are refused; GLOBAL, REDUCE and BUILD are tested above."""
    for name in ("NEWOBJ", "NEWOBJ_EX", "OBJ", "INST", "BINPERSID", "PERSID"):
        code = next(code for code in pickletools.opcodes if code.name == name)
        operand = b"os\nmkdir\n" if name == "INST" else b"x\n" if name == "PERSID" else b""
        program = by_hand(b"(K\x01", code.code.encode("latin-1"), operand)
        assert name in [found.name for found, _, _ in pickletools.genops(io.BytesIO(program))]
        Path("a.pkl").write_bytes(program)
        with pytest.raises(UserError, match=name):
            pickles.read("a.pkl")


def episodes() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {"original_observations": rng.normal(size=(t + 1, 3)), "actions": rng.normal(size=(t, 2)), "rewards": [1.0] * t}
        for t in (4, 2)
    ]


def test_demonstrations_of_a_pickle(capsys: pytest.CaptureFixture[str]) -> None:
    Path("old.pkl").write_bytes(pickle.dumps(episodes()))
    assert main(["demos", "import", "old.pkl", "-o", "new.npz"]) == 0, capsys.readouterr().err
    data = demos.load("new.npz")
    np.testing.assert_array_equal(data.lengths, [4, 2])
    np.testing.assert_array_equal(data[1].observations, episodes()[1]["original_observations"])
    assert main(["demos", "from-pickle", "old.pkl", "-o", "old.npz"]) == 0
    assert "is now `tacit demos import`" in capsys.readouterr().err
    assert demos.load("old.npz").sha256 == data.sha256
    fails(["demos", "import", "old.pkl", "-o", "x.npz", "--env", CART], "does not fit CartPole-v1", capsys)
    short = [{**e, "original_observations": e["original_observations"][:-1]} for e in episodes()]
    Path("short.pkl").write_bytes(pickle.dumps(short))
    assert main(["demos", "import", "short.pkl", "-o", "x.npz"]) == 0
    assert "the last action of 2 episodes was dropped" in " ".join(capsys.readouterr().out.split())
    np.testing.assert_array_equal(demos.load("x.npz").lengths, [3, 1])


def test_other_layouts() -> None:
    one = episodes()[0]
    one["next_obs"] = one["original_observations"][1:]
    one["original_observations"] = one["original_observations"][:-1]
    one["terminal"] = np.array([0, 0, 0, 1])
    one["cost"] = np.arange(4.0)
    Path("one.pkl").write_bytes(pickle.dumps(one))
    data = imports.read("one.pkl")
    assert data.terminated.all()
    np.testing.assert_array_equal(data.observations, episodes()[0]["original_observations"])
    np.testing.assert_array_equal(data.costs, np.arange(4.0))
    whole = demos.expert_demonstrations(make_spec("paper"), n=3, seed=0)
    Path("whole.pkl").write_bytes(pickle.dumps(whole.arrays()))
    assert imports.read("whole.pkl").sha256 == whole.sha256
    for content, said in (
        (7, "single numbers|without names"),
        ([], "no episodes"),
        ([{"acts": [1]}], "no observations"),
    ):
        Path("bad.pkl").write_bytes(pickle.dumps(content))
        with pytest.raises(UserError, match=said):
            imports.read("bad.pkl")
