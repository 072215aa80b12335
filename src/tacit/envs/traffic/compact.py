"""The form in which recordings are shipped: centimetres as small integers, compressed, in one .npz without pickles.

Velocities in cm/s are stored as second differences along a track. A position is stored as its distance from where the
velocities lead, x[t] + dt (v[t] + v[t+1]) / 2, rounded to a centimetre: mostly -1, 0 or 1. LZMA then leaves about a
byte for each vehicle and frame, a hundredth of the CSV. Reading gives back every centimetre exactly.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tacit.envs.traffic.recording import ARRAYS, UNSAID, Recording
from tacit.errors import UserError, readable
from tacit.run import disk
from tacit.run.storage import from_json, may_unpack, npy_bytes, sha256_of_arrays, to_json, write_zip

SUFFIX = ".traffic.npz"
SCHEMA = 1
CARD = "card.json"
TRACK_ARRAYS = ("ids", "kinds", "directions", "lengths", "widths", "first", "counts")
ROW_ARRAYS = ("x", "y", "vx", "vy")
MAX_BYTES = 1 << 28
LARGEST = 1 << 24
"""Largest number in a file: 167 km in centimetres."""


def save(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write a recording, whole or not at all; equal content gives equal bytes. It must be in whole centimetres."""
    if recording.problems:
        raise UserError(f"recording {recording.name}: scenarios with goals of their own are not stored in this form")
    arrays = {name: getattr(recording, name) for name in TRACK_ARRAYS}
    centi = {name: _centi(recording, name) for name in ("lengths", "widths", *ROW_ARRAYS)}
    arrays |= {name: centi[name] for name in ("lengths", "widths")}
    for position, velocity in (("x", "vx"), ("y", "vy")):
        arrays[velocity] = _differences(_differences(centi[velocity], recording.counts), recording.counts)
        arrays[position] = _differences(centi[position], recording.counts) - _steps(centi[velocity], recording.counts)
    card = {
        "schema": SCHEMA,
        "name": recording.name,
        "upper_marks": recording.upper_marks,
        "lower_marks": recording.lower_marks,
        "speed_limit": recording.speed_limit,
        "extend": recording.extend,
        "about": dict(recording.about),
        "sha256": sha256_of_arrays({name: getattr(recording, name) for name in ARRAYS}),
    }
    members = {CARD: to_json(card, indent=2).encode()}
    members |= {f"{name}.npy": npy_bytes(_smallest(array)) for name, array in arrays.items()}
    write_zip(path, members, zipfile.ZIP_LZMA)


def load(path: str | os.PathLike[str]) -> Recording:
    """Read what `save` wrote; UserError naming the file when it is damaged or something else."""
    try:
        with _archive(path) as archive:
            wanted = [CARD, *(f"{name}.npy" for name in (*TRACK_ARRAYS, *ROW_ARRAYS))]
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            if sorted(info.filename for info in archive.infolist()) != sorted(wanted):
                raise UserError(f"{path} is not a recording of this package: expected {', '.join(wanted)}")
            _check_size(path, sum(sizes.values()))
            card = from_json(archive.read(CARD))
            arrays = {name.removesuffix(".npy"): _array(archive, name) for name in wanted[1:]}
            return _build(card, arrays)
    except UserError as error:
        raise UserError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def source_of(path: str | os.PathLike[str]) -> str:
    """What the recording says of its source; its tracks are not read."""
    with _archive(path) as archive:
        _check_size(path, archive.getinfo(CARD).file_size)
        return str(from_json(archive.read(CARD))["about"].get("source", UNSAID))


@contextmanager
def _archive(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    damaged = f"{path} is not a readable recording (truncated or damaged?)"
    with disk.reading(path) as file, readable(damaged), zipfile.ZipFile(file) as archive:
        yield archive


def _check_size(path: str | os.PathLike[str], unpacked: int) -> None:
    if unpacked > may_unpack(os.path.getsize(path), MAX_BYTES):
        raise UserError(f"{path} unpacks to {unpacked} bytes, too many for its size; it was not read")


def shipped() -> list[Path]:
    """The recordings that come with the package. They are simulated."""
    return sorted((Path(__file__).parent / "data").glob(f"*{SUFFIX}"))


def _build(card: dict[str, Any], arrays: dict[str, np.ndarray]) -> Recording:
    if card.get("schema") != SCHEMA:
        raise UserError(f"its schema is {card.get('schema')!r}, this version reads {SCHEMA}")
    counts = arrays["counts"]
    if (
        counts.ndim != 1
        or counts.size == 0
        or counts.min() < 1
        or {len(arrays[k]) for k in ROW_ARRAYS} != {counts.sum()}
    ):
        raise UserError("it is damaged: the number of frames does not fit")
    centi: dict[str, Any] = {name: arrays[name] for name in ("lengths", "widths")}
    for position, velocity in (("x", "vx"), ("y", "vy")):
        centi[velocity] = _sums(_sums(arrays[velocity], counts), counts)
        centi[position] = _sums(arrays[position] + _steps(centi[velocity], counts), counts)
    whole: dict[str, Any] = {name: arrays[name] for name in ("ids", "kinds", "directions", "first", "counts")}
    recording = Recording(
        name=str(card["name"]),
        upper_marks=np.array(card["upper_marks"], np.float64),
        lower_marks=np.array(card["lower_marks"], np.float64),
        speed_limit=float(card["speed_limit"]),
        extend=float(card["extend"]),
        about=card["about"],
        **whole,
        **{name: values / 100.0 for name, values in centi.items()},
    )
    if card["sha256"] != sha256_of_arrays({name: getattr(recording, name) for name in ARRAYS}):
        raise UserError("it is damaged: its content does not match its hash")
    return recording


def _centi(recording: Recording, name: str) -> np.ndarray:
    values = getattr(recording, name)
    rounded = np.round(values * 100.0)
    if not np.array_equal(rounded / 100.0, values) or np.abs(rounded).max() > LARGEST:
        raise UserError(f"recording {recording.name}: {name} is not in whole centimetres; round it to two decimals")
    return rounded.astype(np.int64)


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.cumsum(counts) - counts


def _differences(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """values[t] - values[t-1] along each track; the first entry of a track is kept."""
    result = np.diff(values, prepend=0)
    starts = _starts(counts)
    result[starts] = values[starts]
    return result


def _sums(differences: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The inverse of `_differences`."""
    running = np.cumsum(differences)
    starts = _starts(counts)
    return running - np.repeat(running[starts] - differences[starts], counts)


def _steps(velocity: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """How far the velocities lead in each frame, dt (v + v') / 2 in whole centimetres; 0 at the start of a track."""
    pairs = velocity + np.concatenate([velocity[:1], velocity[:-1]])
    steps = (pairs + 25) // 50  # integers, so that every machine rounds alike
    steps[_starts(counts)] = 0
    return steps


def _smallest(array: np.ndarray) -> np.ndarray:
    """The same integers in the smallest type that holds them."""
    low, high = int(array.min()), int(array.max())
    for size in ("<i1", "<i2", "<i4"):
        limits = np.iinfo(size)
        if limits.min <= low and high <= limits.max:
            return array.astype(size)
    raise UserError(f"a number is too large for a recording: {max(-low, high)}")


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    data = archive.read(name)
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise UserError(f"{name} has an unknown array format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind != "i" or len(shape) != 1 or math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise UserError(f"{name} is not the row of integers that it should be")
    return np.frombuffer(data, dtype, offset=file.tell()).astype(np.int64)
