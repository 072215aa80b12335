"""Files are whole or absent, come back as they were, and say so when they are damaged."""

import json
import math
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import UserError
from tacit.run import storage

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def only_file(folder: Path) -> Path:
    files = list(folder.iterdir())
    assert len(files) == 1, f"expected one file, found {files}"
    return files[0]


@given(json_values.filter(lambda value: value not in ("NaN", "Infinity", "-Infinity")))
def test_json_round_trip(value):
    text = storage.to_json(value)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert storage.from_json(text) == value


def test_json_of_non_finite_numbers_and_numpy(tmp_path):
    file = tmp_path / "x.json"
    value = {"a": math.inf, "b": [-math.inf, np.float32(1.5)], "c": np.arange(3), "d": np.bool_(True), "p": Path("q")}
    storage.write_json(file, value)
    json.loads(file.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert storage.read_json(file) == {"a": math.inf, "b": [-math.inf, 1.5], "c": [0, 1, 2], "d": True, "p": "q"}
    storage.write_json(file, {"n": math.nan})
    assert math.isnan(storage.read_json(file)["n"])


def test_json_refuses_what_it_cannot_give_back(tmp_path):
    with pytest.raises(TypeError):
        storage.write_json(tmp_path / "x.json", {"a": object()})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff\xfe", b"[" * 100_000])
def test_damaged_json_is_a_user_error_naming_the_file(tmp_path, content):
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"config\.json"):
        storage.read_json(file)


def test_missing_and_unreadable_files(tmp_path):
    with pytest.raises(UserError, match=r"nothing\.json does not exist"):
        storage.read_json(tmp_path / "nothing.json")
    with pytest.raises(UserError, match="is a folder, not a regular file"):
        storage.read_json(tmp_path)


def test_atomic_write_leaves_the_old_file_when_the_block_raises(tmp_path):
    file = tmp_path / "f"
    storage.atomic_write_text(file, "old")

    def write() -> None:
        with storage.atomic_open(file) as out:
            out.write(b"half of the ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert only_file(tmp_path).read_text() == "old"


def test_atomic_write_makes_parents_and_respects_the_umask(tmp_path):
    file = tmp_path / "a" / "b" / "f"
    storage.atomic_write_bytes(file, b"x")
    mask = os.umask(0)
    os.umask(mask)
    assert file.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_reader_never_sees_half_a_file(tmp_path):
    file = tmp_path / "f"
    pages = [bytes([letter]) * 200_000 for letter in b"ab"]
    storage.atomic_write_bytes(file, pages[0])
    stop = threading.Event()

    def write() -> None:
        for i in range(60):
            storage.atomic_write_bytes(file, pages[i % 2])
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    while not stop.is_set():
        assert file.read_bytes() in pages
        seen += 1
    writer.join()
    assert seen > 0


ARRAYS = {
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "mask": np.array([True, False]),
    "scalar": np.float64(3.0),
    "big_endian": np.arange(3, dtype=">i4"),
    "empty": np.zeros((0, 3), np.float32),
    "odd": np.array([math.nan, math.inf, -0.0]),
}


def test_arrays_round_trip(tmp_path):
    file = tmp_path / "x.safetensors"
    metadata = {"step": 3, "best": math.inf, "names": ["row", "column"]}
    storage.save_arrays(file, ARRAYS, metadata)
    arrays, loaded = storage.load_arrays(only_file(tmp_path))
    assert loaded == metadata
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array, strict=False)
        assert arrays[name].shape == np.shape(array)
        assert arrays[name].dtype == np.asarray(array).dtype.newbyteorder("=")
        assert arrays[name].flags.writeable


def test_equal_arrays_give_equal_bytes(tmp_path):
    storage.save_arrays(tmp_path / "a", ARRAYS, {"x": 1, "y": 2})
    storage.save_arrays(tmp_path / "b", dict(reversed(ARRAYS.items())), {"y": 2, "x": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("array", [np.array([object()]), np.array(["a"]), np.array([1j])])
def test_arrays_that_cannot_be_stored(tmp_path, array):
    with pytest.raises(TypeError, match="'x'"):
        storage.save_arrays(tmp_path / "f", {"x": array})
    assert list(tmp_path.iterdir()) == []


def test_every_truncation_of_an_array_file_is_noticed(tmp_path):
    file = tmp_path / "x.safetensors"
    storage.save_arrays(file, {"a": np.arange(5.0)}, {"step": 1})
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"x\.safetensors"):
            storage.load_arrays(file)


def test_every_changed_byte_is_noticed(tmp_path):
    file = tmp_path / "x.safetensors"
    content = {"a": np.arange(5.0)}
    storage.save_arrays(file, content, {"step": 1})
    whole = file.read_bytes()
    for i in range(len(whole)):
        file.write_bytes(whole[:i] + bytes([whole[i] ^ 2]) + whole[i + 1 :])
        try:
            arrays, metadata = storage.load_arrays(file)
        except UserError:
            continue
        # The one thing left: the word that marks our files was hit, and it looks like somebody else's.
        assert metadata == {}
        np.testing.assert_equal(arrays, content)


def test_a_foreign_safetensors_file_loads_without_metadata(tmp_path):
    from safetensors.numpy import save_file

    save_file({"w": np.ones(2)}, tmp_path / "foreign.safetensors")
    arrays, metadata = storage.load_arrays(tmp_path / "foreign.safetensors")
    np.testing.assert_array_equal(arrays["w"], [1, 1])
    assert metadata == {}


def test_array_hash_sees_names_types_shapes_and_values_only():
    a = np.arange(6.0).reshape(2, 3)
    reference = storage.sha256_of_arrays({"a": a, "b": a})
    assert storage.sha256_of_arrays({"b": a, "a": np.asfortranarray(a)}) == reference
    assert storage.sha256_of_arrays({"a": a.astype(">f8"), "b": a}) == reference
    others = [{"a": a}, {"a": a, "c": a}, {"a": a, "b": a.astype("f4")}, {"a": a, "b": a.T}, {"a": a, "b": a + 1e-15}]
    assert reference not in {storage.sha256_of_arrays(other) for other in others}


def test_hashes_against_known_answers(tmp_path):
    # The SHA-256 of "abc", from the standard that defines it.
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    (tmp_path / "f").write_bytes(b"abc")
    assert storage.sha256_of_bytes(b"abc") == storage.sha256_of_file(tmp_path / "f") == known


def test_jsonl_round_trip(tmp_path):
    file = tmp_path / "m.jsonl"
    assert storage.read_jsonl(file) == []
    records = [{"i": i, "text": "a\nb", "x": math.inf} for i in range(3)]
    for record in records:
        storage.append_jsonl(file, record)
    assert storage.read_jsonl(file) == records
    assert storage.count_jsonl(file) == 3


@pytest.mark.parametrize("torn", [b"{", b'{"i": 1', b'{"i": 1}', b"\0\0\0"])
def test_a_torn_last_line_is_ignored_and_cut_off_by_the_next(tmp_path, torn):
    file = tmp_path / "m.jsonl"
    storage.append_jsonl(file, {"i": 0})
    with open(file, "ab") as out:
        out.write(torn)
    assert storage.read_jsonl(file) == [{"i": 0}]
    storage.append_jsonl(file, {"i": 1})
    assert storage.read_jsonl(file) == [{"i": 0}, {"i": 1}]


def test_a_file_that_is_all_torn(tmp_path):
    file = tmp_path / "m.jsonl"
    file.write_bytes(b'{"i')
    assert storage.read_jsonl(file) == []
    storage.append_jsonl(file, {"i": 0})
    assert storage.read_jsonl(file) == [{"i": 0}]


@pytest.mark.parametrize("line", ["{", "3", "[1]", "{}{}", ""])
def test_a_damaged_line_in_the_middle_is_an_error(tmp_path, line):
    file = tmp_path / "m.jsonl"
    file.write_text('{"i": 0}\n' + line + '\n{"i": 2}\n')
    with pytest.raises(UserError, match=r"m\.jsonl is damaged: line 2"):
        storage.read_jsonl(file)


def test_truncating_a_log(tmp_path):
    file = tmp_path / "m.jsonl"
    storage.truncate_jsonl(file, 0)
    assert not file.exists()
    for i in range(4):
        storage.append_jsonl(file, {"i": i})
    storage.truncate_jsonl(file, 2)
    assert storage.read_jsonl(file) == [{"i": 0}, {"i": 1}]
    with pytest.raises(UserError, match="has 2 lines where at least 3"):
        storage.truncate_jsonl(file, 3)
