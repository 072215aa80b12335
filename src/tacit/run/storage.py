"""Files on disk. Writing is atomic, reading runs no code, and damage is reported.

Every file appears whole or not at all: it is written beside its destination, flushed to disk and renamed. The one
exception is the JSON-lines log, which grows line by line; there a torn last line is what a killed process leaves behind
and is ignored. What may be opened at all is decided in disk.py.

JSON has no spelling for non-finite numbers. They are written as the strings "NaN", "Infinity" and "-Infinity", so that
the files stay valid for every reader, and are turned back into floats by the readers of this module.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import struct
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.errors import UserError
from tacit.run import disk
from tacit.run.disk import TMP_SUFFIX as TMP_SUFFIX
from tacit.run.disk import AnyPath, read_bytes
from tacit.run.disk import writing as atomic_open

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
MAX_JSON_BYTES = 1 << 28
"""Largest JSON file that is read."""


def atomic_write_bytes(path: AnyPath, data: bytes) -> None:
    """Replace `path` by `data`, whole or not at all."""
    with atomic_open(path) as file:
        file.write(data)


def atomic_write_text(path: AnyPath, text: str) -> None:
    """Replace `path` by `text` in UTF-8, whole or not at all."""
    atomic_write_bytes(path, text.encode("utf-8"))


def to_json(obj: object, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """Strict JSON text of `obj`, which may contain NumPy scalars and arrays, paths, tuples and non-finite floats."""
    return json.dumps(_plain(obj), indent=indent, sort_keys=sort_keys, allow_nan=False, ensure_ascii=False)


def from_json(text: str | bytes) -> Any:
    """The inverse of `to_json`; ValueError if `text` is not JSON in UTF-8."""
    text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
    value = _restore(json.loads(text))
    if "\\u" in text:  # half of a surrogate pair can be spelled, but never be written to a file again
        to_json(value).encode("utf-8")
    return value


def _plain(obj: object) -> object:
    if isinstance(obj, np.generic | np.ndarray):
        obj = obj.tolist()
    if isinstance(obj, float) and not math.isfinite(obj):
        return "NaN" if math.isnan(obj) else ("Infinity" if obj > 0 else "-Infinity")
    if isinstance(obj, Mapping):
        return {str(key): _plain(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [_plain(value) for value in obj]
    if isinstance(obj, os.PathLike):
        return os.fspath(obj)
    return obj


def _restore(obj: Any) -> Any:
    if isinstance(obj, str):
        return _NON_FINITE.get(obj, obj)
    if isinstance(obj, dict):
        return {key: _restore(value) for key, value in obj.items()}
    if isinstance(obj, list):
        return [_restore(value) for value in obj]
    return obj


def write_json(path: AnyPath, obj: object) -> None:
    """Write `obj` as indented JSON, atomically. See the module's docstring for non-finite numbers."""
    atomic_write_text(path, to_json(obj, indent=2) + "\n")


def read_json(path: AnyPath) -> Any:
    """Read a JSON file; UserError that names the file if it is missing, unreadable or damaged."""
    data = read_bytes(path, max_bytes=MAX_JSON_BYTES)
    try:
        return from_json(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON (truncated or damaged?): {error}") from None


FREE_BYTES = 1 << 25
"""Bytes that any compressed file may unpack to, whatever its size."""
GROWTH = 100
"""Factor of its own size that a compressed file may unpack to beyond that. Real data do not compress to a hundredth."""


def may_unpack(size: int, limit: int) -> int:
    """Bytes that a compressed file of `size` bytes may unpack to, at most `limit`, so a small bomb stays small."""
    return min(limit, max(FREE_BYTES, GROWTH * size))


def write_zip(path: AnyPath, members: Mapping[str, bytes], compression: int) -> None:
    """Write a zip archive, atomically. Dates are fixed: the bytes depend on nothing but the content."""
    with atomic_open(path) as file, zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type, info.external_attr = compression, 0o644 << 16
            archive.writestr(info, data)


def npy_bytes(array: np.ndarray) -> bytes:
    """An array as the content of a .npy file, little-endian."""
    buffer = io.BytesIO()
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    np.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


# ---------------------------------------------------------------------------------------------------------------------
# Arrays


def save_arrays(path: AnyPath, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any] | None = None) -> None:
    """Write named arrays and JSON metadata as one safetensors file, atomically; equal input gives equal bytes.

    The header has one metadata key, "tacit": JSON of {"metadata": ..., "sha256": hash of arrays and metadata}, one key
    because safetensors does not promise an order of several.
    """
    from safetensors.numpy import save

    tidy: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        array = np.asarray(array, order="C")
        if array.dtype.kind not in "bifu":
            raise TypeError(f"array {name!r} has dtype {array.dtype}; only bool, integer and float arrays are stored")
        tidy[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    metadata = dict(metadata or {})
    header = {"metadata": metadata, "sha256": _content_hash(tidy, metadata)}
    atomic_write_bytes(path, save(tidy, {"tacit": to_json(header, sort_keys=True)}))


def load_arrays(path: AnyPath) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the file of `save_arrays`: (arrays, metadata). UserError if it is missing, truncated or altered.

    A safetensors file from elsewhere loads too, with empty metadata and no check of the content.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = read_bytes(path)
    try:
        arrays = {name: np.array(array) for name, array in load(data).items()}
        (length,) = struct.unpack("<Q", data[:8])
        stored = json.loads(data[8 : 8 + length]).get("__metadata__", {}).get("tacit")
        header = {"metadata": {}, "sha256": None} if stored is None else from_json(stored)
        metadata, digest = header["metadata"], header["sha256"]
        if not isinstance(metadata, dict):
            raise TypeError("its metadata are not a JSON object")
        intact = digest is None or digest == _content_hash(arrays, metadata)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path} is not a readable safetensors file (truncated or damaged?): {reason}") from None
    if not intact:
        raise UserError(f"{path} is damaged: its content does not match the hash in its header")
    return arrays, metadata


def _content_hash(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> str:
    return sha256_of_bytes((sha256_of_arrays(arrays) + to_json(metadata, sort_keys=True)).encode())


def sha256_of_bytes(data: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: AnyPath) -> str:
    """Hexadecimal SHA-256 of a file's bytes."""
    return sha256_of_bytes(read_bytes(path))


def sha256_of_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over names, dtypes, shapes and values, whatever the order of the mapping or the memory layout."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        # Little-endian everywhere, so that the hash does not depend on the machine.
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


# ---------------------------------------------------------------------------------------------------------------------
# JSON lines


def append_jsonl(path: AnyPath, record: Mapping[str, Any]) -> None:
    """Add one line. An unfinished line of a killed writer is cut off first, so lines never run together."""
    line = (to_json(record) + "\n").encode("utf-8")
    try:
        with disk.appending(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            if size and file.read(1) != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
            file.write(line)
    except OSError as error:
        error.filename = os.fspath(path) if error.filename is None else error.filename  # a full disk names no file
        raise


def read_jsonl(path: AnyPath) -> list[dict[str, Any]]:
    """The records of a JSON-lines file; [] if there is none. A torn last line is ignored, a damaged one is an error."""
    records = []
    for number, line in enumerate(_complete_lines(path), start=1):
        try:
            record = from_json(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise UserError(f"{path} is damaged: line {number} is not a JSON object")
        records.append(record)
    return records


def count_jsonl(path: AnyPath) -> int:
    """Number of complete lines; 0 if there is no file."""
    return len(_complete_lines(path))


def sync(path: AnyPath) -> None:
    """Flush a file to the disk now, if it exists."""
    if disk.exists(path):
        with disk.opened_in_place(path, make=False) as file:
            os.fsync(file.fileno())


def truncate_jsonl(path: AnyPath, lines: int) -> None:
    """Keep the first `lines` complete lines, atomically; UserError if there are fewer."""
    complete = _complete_lines(path)
    if len(complete) < lines:
        raise UserError(f"{path} is damaged: it has {len(complete)} lines where at least {lines} were written")
    kept = b"".join(line + b"\n" for line in complete[:lines])
    if disk.exists(path) and read_bytes(path) != kept:
        atomic_write_bytes(path, kept)


def _complete_lines(path: AnyPath) -> list[bytes]:
    if not disk.exists(path):
        return []
    return read_bytes(path).split(b"\n")[:-1]
