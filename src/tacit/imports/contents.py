"""What is in a foreign file, as plain Python: arrays, numbers and text in lists and dicts. No file runs anything.

    content(path)       .npz, .npy, .json, .jsonl, .pkl, .pt, .hdf5, .csv, .tsv, .parquet
    find_files(paths)   the files of folders, in the order in which people count

What a content means is found out in `layouts`.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tacit.demos.files import IMPORTED, MAX_BYTES, read_array, read_npz
from tacit.envs.families import find_format
from tacit.errors import UserError, readable
from tacit.interop import hdf5, pickles, tensors
from tacit.run.storage import may_unpack, read_bytes

TABLES = (".csv", ".tsv", ".txt", ".parquet")
PICKLES = (".pkl", ".pickle", ".p")
KINDS = (".npz", *IMPORTED)
"""Endings of the files that can be imported."""
DEEPEST = 60
MOST_FILES = 100_000


def find_files(paths: Sequence[str]) -> list[tuple[str, bool]]:
    """(file, was it found in a folder?) of all files that can be imported, folders searched through."""
    files: list[tuple[str, bool]] = []
    for path in paths:
        if not os.path.isdir(path):
            if not is_importable(path):
                raise UserError(f"cannot read {path!r}: demonstrations are imported from {', '.join(KINDS)} files")
            files.append((path, False))
            continue
        inside = [
            os.path.join(up, name)
            for up, _, names in os.walk(path)
            for name in names
            if is_importable(name) and not name.startswith(".")
        ]
        if not inside:
            raise UserError(f"the folder {path} has no file that can be imported: {', '.join(KINDS)}")
        if len(inside) > MOST_FILES:
            raise UserError(f"the folder {path} has {len(inside)} files, at most {MOST_FILES} are imported at once")
        files += [(file, True) for file in sorted(inside, key=natural)]
    return files


def is_importable(path: str | os.PathLike[str]) -> bool:
    return Path(path).suffix.lower() in KINDS or find_format(path) is not None


def natural(text: str) -> list[Any]:
    """A key that sorts 2 before 10."""
    return [int(part) if part.isdigit() else part.lower() for part in re.split(r"(\d+)", text)]


def content(path: str) -> Any:
    """What the file holds, tidied: see `tidy`. UserError naming the file when it cannot be read."""
    ending = Path(path).suffix.lower()
    if ending == ".npz":
        return tidy(read_npz(path, foreign=pickles.plain_object)[0])
    if ending == ".npy":
        data = read_bytes(path, max_bytes=MAX_BYTES)
        with readable(f"{path} is not a readable array"):
            return tidy(read_array(path, io.BytesIO(data), len(data), Path(path).name, pickles.plain_object))
    if ending in PICKLES:
        return tidy(pickles.bounded(path))
    if ending in (".pt", ".pth"):
        return tidy(tensors.read(path))
    if ending in (".hdf5", ".h5"):
        return tidy(hdf5.read(path))
    if ending == ".parquet":
        return tidy(_parquet(path))
    if ending in (".json", ".jsonl"):
        return tidy(_json(path))
    raise UserError(f"cannot read {path!r}: demonstrations are imported from {', '.join(KINDS)} files")


def _json(path: str) -> Any:
    text = read_bytes(path, max_bytes=MAX_BYTES)
    try:
        if path.endswith(".jsonl"):
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: {str(error)[:200]}") from None


def _parquet(path: str) -> dict[str, Any]:
    """Columns by name."""
    if find_spec("pyarrow") is None:
        raise UserError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow, or save the table as CSV")
    data = read_bytes(path, max_bytes=MAX_BYTES)
    with readable(f"{path} is not a readable Parquet file"):
        file = import_module("pyarrow.parquet").ParquetFile(io.BytesIO(data))
        meta = file.metadata
        unpacked = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
        if unpacked > may_unpack(len(data), MAX_BYTES):
            raise UserError(f"{path} announces {unpacked} bytes, too many for its size; it was not read")
        return {str(name): values for name, values in file.read().to_pydict().items()}


# ---------------------------------------------------------------------------------------------------------------------
# Tidying


def tidy(value: Any, depth: int = 0) -> Any:
    """Arrays wherever numbers form one, dicts with words as keys, lists for the rest; None for what says nothing.

    A list of numbers, or of equally long such lists, is an array. A list of unequal ones stays a list of arrays.
    """
    if depth > DEEPEST:
        raise UserError(f"the content is nested more than {DEEPEST} deep")
    if isinstance(value, dict):
        return {str(key): tidy(entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind in "biuf" and value.dtype.itemsize <= 8 else None
    if isinstance(value, bool | int | float | np.number | np.bool_):
        return np.asarray(value)
    if isinstance(value, list | tuple):
        numbers = _as_numbers(value)
        if numbers is not None:
            return numbers
        parts = [tidy(entry, depth + 1) for entry in value]
        if parts and all(isinstance(part, np.ndarray) for part in parts):
            # Five long rows or fewer may also be states, actions, rewards, ... side by side.
            fields = len(parts) <= 5 and parts[0].ndim > 0 and len(parts[0]) > len(parts)
            if len({part.shape for part in parts}) == 1 and not fields:
                return np.stack(parts)
        return parts
    return None


def _as_numbers(values: Sequence[Any]) -> np.ndarray | None:
    """A plain list of numbers as an array, with NaN for None; None if it is not one."""
    kinds = {type(value) for value in values}
    if not kinds or not kinds <= {int, float, bool, type(None)} or kinds == {type(None)}:
        return None
    if type(None) in kinds:
        return np.array([np.nan if value is None else float(value) for value in values])
    try:
        array = np.asarray(values)
    except OverflowError:
        return np.array([float(value) for value in values])
    return array if array.dtype.kind in "biuf" else np.array([float(value) for value in values])
