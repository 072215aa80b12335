"""Damaged and hostile files of others: read, or refused in one line. Nothing in them is run."""

from __future__ import annotations

import json
import os
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foreign
from tacit import demos, imports
from tacit.errors import UserError
from tacit.interop import hdf5, tensors
from tacit.run import disk

TRIALS = 60


@pytest.fixture(scope="module")
def nav() -> demos.Demonstrations:
    return demos.scripted_demonstrations("tacit/Nav-v0", {"shape": "disc", "horizon": 200}, 2, seed=0)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def as_hdf5(path: Path, data: demos.Demonstrations) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for name, array in foreign.flat(data).items():
            file[name] = array


WRITERS: dict[str, Callable[[Path, demos.Demonstrations], Any]] = {
    "a.npz": lambda path, d: np.savez(path, **foreign.flat(d)),
    "a.npy": lambda path, d: np.save(path, np.array(foreign.dicts(d), object)),
    "a.json": lambda path, d: foreign.steps_json(path.with_suffix(".json"), d),
    "a.jsonl": foreign.steps_json,
    "a.csv": foreign.table,
    "a.pt": lambda path, d: foreign.tensors(path, foreign.dicts(d)),
    "a.hdf5": as_hdf5,
    "a.pkl": lambda path, d: path.write_bytes(pickle.dumps(foreign.dicts(d))),
}


def refusal(name: str) -> str:
    """What is said about a file; nothing if it is read. Any other exception is a fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            imports.read(name)
        except UserError as error:
            return str(error)
    return ""


@pytest.mark.parametrize("name", WRITERS)
def test_damaged_bytes(name: str, nav: demos.Demonstrations) -> None:
    path = Path(name)
    WRITERS[name](path, nav)
    sound = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(TRIALS):
        data = bytearray(sound[: rng.integers(1, len(sound) + 1)] if rng.random() < 0.3 else sound)
        for at in rng.integers(0, min(len(data), 4000), rng.integers(1, 6)):
            data[at] = rng.integers(256)
        path.write_bytes(bytes(data))
        assert "\n" not in refusal(name)


@pytest.mark.parametrize("name", WRITERS)
def test_files_that_are_none(name: str) -> None:
    os.mkfifo(name)
    with pytest.raises(UserError, match="is a pipe"):
        imports.read(name)


def test_reading_through_the_one_place(nav: demos.Demonstrations, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, write in WRITERS.items():
        write(Path(name), nav)

    def refuse(*_: Any, **__: Any) -> None:
        raise UserError("the one place")

    monkeypatch.setattr(disk, "reading", refuse)
    for name in WRITERS:
        with pytest.raises(UserError, match="the one place"):
            imports.read(name)


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("owned",)


def test_code_is_not_run() -> None:
    Path("a.pkl").write_bytes(pickle.dumps([Evil()]))
    np.save("b.npy", np.array([Evil()], object))
    with zipfile.ZipFile("c.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"obs": Evil()}, 2))
    for name in ("a.pkl", "b.npy", "c.pt"):
        with pytest.raises(UserError, match=r"posix\.mkdir"):
            imports.read(name)
    assert not Path("owned").exists()


STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK"
TENSOR = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("


def pt(program: bytes, numbers: bytes = b"\0" * 16) -> str:
    with zipfile.ZipFile("a.pt", "w") as archive:
        archive.writestr("a/data.pkl", program)
        archive.writestr("a/data/0", numbers)
    return "a.pt"


HOSTILE = {
    "more than the file has": TENSOR + STORAGE + b"\x63tQK\x00K\x63\x85K\x01\x85\x89}tR.",
    "a view beyond the end": TENSOR + STORAGE + b"\x04tQK\x00K\x05\x85K\x01\x85\x89}tR.",
    "a view that repeats": TENSOR + STORAGE + b"\x04tQK\x00J\xff\xff\xff\x7f\x85K\x00\x85\x89}tR.",
    "a negative offset": TENSOR + STORAGE + b"\x04tQJ\xfe\xff\xff\xffK\x02\x85K\x01\x85\x89}tR.",
    "another reference": b"\x80\x02X\x02\x00\x00\x00osQ.",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_tensors(kind: str) -> None:
    with pytest.raises(UserError, match=r"a\.pt"):
        tensors.read(pt(HOSTILE[kind]))


def test_a_tensor_of_torch() -> None:
    """What torch 2 writes for a matrix that is transposed: read as numbers, in its order."""
    program = TENSOR + STORAGE + b"\x04tQK\x00K\x02K\x02\x86K\x01K\x02\x86\x89}tR."
    read = tensors.read(pt(program, np.arange(4, dtype="<f4").tobytes()))
    np.testing.assert_array_equal(read, [[0, 2], [1, 3]])


def test_archives_that_are_packed_or_old() -> None:
    with zipfile.ZipFile("a.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"\x80\x02N." + b"\0" * 1000)
    with pytest.raises(UserError, match="nothing compressed"):
        imports.read("a.pt")
    Path("b.pt").write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")
    with pytest.raises(UserError, match=r"older than 1\.6"):
        imports.read("b.pt")


def test_deep_json() -> None:
    Path("a.json").write_text("[" * 100_000)
    with pytest.raises(UserError):
        imports.read("a.json")
    Path("a.json").write_text(json.dumps({"obs": [[[[[1]]]]], "acts": [[[[2]]]]}))
    with pytest.raises(UserError):
        imports.read("a.json")


def test_hdf5_with_links_to_elsewhere() -> None:
    import h5py

    with h5py.File("a.h5", "w") as file:
        file["obs"] = h5py.ExternalLink("b.h5", "/secret")
    with pytest.raises(UserError, match="link to elsewhere"):
        hdf5.read("a.h5")
