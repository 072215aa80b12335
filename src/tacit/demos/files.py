"""Read and write demonstration files: a zip of NumPy arrays and a JSON card, readable with `numpy.load`.

A reader must not trust the file. Sizes are checked before anything is allocated, types before anything is interpreted,
and the hash last, so that a damaged or hostile file ends in one sentence and nothing else.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from tacit.demos.data import ARRAYS, SCHEMA, Card, Demonstrations
from tacit.envs.families import find_family, find_format, load_function
from tacit.errors import UserError, readable
from tacit.run import disk
from tacit.run.storage import GROWTH, from_json, may_unpack, npy_bytes, to_json, write_zip

CARD = "card.json"
MAX_CARD_BYTES = 1 << 20
MAX_BYTES = 1 << 30
"""Size of all arrays together that `load` accepts by default."""
IMPORTED = (
    *(".csv", ".tsv", ".txt", ".parquet", ".npy", ".json", ".jsonl"),
    *(".pkl", ".pickle", ".p", ".pt", ".pth", ".hdf5", ".h5"),
)
"""Endings of other files with demonstrations, which `tacit demos import` reads."""
ReadObjects = Callable[[str | os.PathLike[str], bytes], Any]
DEFLATE_LIMIT = 1032
"""Largest expansion of a deflate stream. A file that claims more is damaged, or a zip bomb."""


def save(demos: Demonstrations, path: str | os.PathLike[str]) -> None:
    """Write a demonstration file, whole or not at all. Equal content gives equal bytes."""
    if Path(path).suffix != ".npz":
        raise UserError(f"a demonstration file is called something.npz, not {os.fspath(path)!r}")
    members = {CARD: (to_json(demos.full_card(), indent=2) + "\n").encode("utf-8")}
    members |= {f"{name}.npy": npy_bytes(array) for name, array in demos.arrays().items()}
    write_zip(path, members, zipfile.ZIP_DEFLATED)


def load(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Demonstrations:
    """Read a demonstration file. A UserError names it when it is missing, damaged or altered.

    A family of environments may have a file format of its own (`tacit.envs.families`).
    """
    own_format = find_format(path)
    if own_format is not None:
        own: Demonstrations = load_function(own_format.load)(path)
        return own
    if Path(path).suffix.lower() in IMPORTED or Path(path).is_dir():
        raise UserError(f"{path} is not a demonstration file. {_import_hint(path)}")
    arrays, card = read_npz(path, max_bytes=max_bytes)
    if card is None:
        raise UserError(
            f"{path} has no {CARD}. If these are arrays of your own, they have to be imported. {_import_hint(path)}"
        )
    if card.get("schema") != SCHEMA:
        raise UserError(
            f"{path} has schema {card.get('schema')!r}, this version reads {SCHEMA}: "
            "update tacit, or write the file again with this version"
        )
    demos = build(path, arrays, card)
    if card.get("sha256") != demos.sha256:
        raise UserError(f"{path} is damaged or was altered: its arrays do not match the hash in its card; get it again")
    return demos


def _import_hint(path: str | os.PathLike[str]) -> str:
    new = Path(path).with_suffix(".npz").name
    new = f"imported-{new}" if new == Path(path).name else new
    return f"Import it first: tacit demos import {os.fspath(path)} --env ENV -o {new}"


def build(path: str | os.PathLike[str], arrays: dict[str, np.ndarray], card: Card) -> Demonstrations:
    """Demonstrations from named arrays. A UserError names the file when something is missing or does not fit."""
    missing = [name for name in ARRAYS if name != "costs" and name not in arrays]
    if missing:
        raise UserError(
            f"{path} lacks {', '.join(missing)}: a demonstration file holds {', '.join(ARRAYS)} (costs optional)"
        )
    try:
        return Demonstrations(**{name: arrays.get(name) for name in ARRAYS}, card=card)  # type: ignore[arg-type]
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def read_npz(
    path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES, foreign: ReadObjects | None = None
) -> tuple[dict[str, Any], Card | None]:
    """(arrays by name, card or None) of an .npz file, checked for size and type before being read.

    With `foreign` the arrays may have any names, and arrays of objects are read by it.
    """
    damaged = f"{path} is not a readable demonstration file (truncated or damaged? get it again or re-create it)"
    with disk.reading(path) as file, readable(damaged), zipfile.ZipFile(file) as archive:
        members = _checked_members(path, archive, max_bytes, any_name=foreign is not None)
        arrays = {
            name.removesuffix(".npy"): _member_array(path, archive, info, foreign)
            for name, info in members.items()
            if name != CARD
        }
        card = None if CARD not in members else from_json(archive.read(members[CARD]))
    if card is not None and not isinstance(card, dict):
        raise UserError(f"{path}: {CARD} must be a JSON object")
    return arrays, card


def _checked_members(
    path: str | os.PathLike[str], archive: zipfile.ZipFile, max_bytes: int, *, any_name: bool = False
) -> dict[str, zipfile.ZipInfo]:
    allowed = {CARD, *(f"{name}.npy" for name in ARRAYS)}
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename
        if name not in allowed and not (any_name and name.endswith(".npy")):
            raise UserError(
                f"{path} holds {name[:80]!r}, which is no part of a demonstration file: {', '.join(ARRAYS)}. "
                f"{_import_hint(path)}"
            )
        if name in members:
            raise UserError(f"{path} holds {name} twice; re-create it")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UserError(f"{path}: {name} is compressed in a way that is not supported; write it with deflate")
        possible = info.compress_size * (DEFLATE_LIMIT if info.compress_type == zipfile.ZIP_DEFLATED else 1)
        if info.file_size > possible:
            raise UserError(
                f"{path}: {name} claims {info.file_size} bytes, more than {info.compress_size} stored bytes can hold; "
                "the file is damaged or hostile and was not read"
            )
        if name == CARD and info.file_size > MAX_CARD_BYTES:
            raise UserError(f"{path}: {CARD} has {info.file_size} bytes, at most {MAX_CARD_BYTES} are read")
        members[name] = info
    total, stored = (sum(getattr(info, key) for info in members.values()) for key in ("file_size", "compress_size"))
    if total > may_unpack(stored, max_bytes) and total <= max_bytes:
        raise UserError(
            f"{path} unpacks from {stored} to {total} bytes, more than {GROWTH} times as many; it was not read"
        )
    if total > max_bytes:
        raise UserError(
            f"{path} would need {total} bytes of memory, more than {max_bytes}; raise max_bytes if you trust it"
        )
    return members


def _member_array(
    path: str | os.PathLike[str], archive: zipfile.ZipFile, info: zipfile.ZipInfo, foreign: ReadObjects | None
) -> Any:
    with archive.open(info) as file:
        return read_array(path, file, info.file_size, info.filename, foreign)


def read_array(
    path: str | os.PathLike[str], file: IO[bytes], file_size: int, name: str, foreign: ReadObjects | None = None
) -> Any:
    """The array in a .npy file, or in a member of an .npz file; `foreign` reads the pickle of an array of objects."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise UserError(f"{path}: {name} has the unknown array format {version}; write it with numpy.save")
    if dtype.kind == "O" and foreign is not None:
        return foreign(path, file.read())
    if foreign is not None and dtype.kind in "US" and dtype.itemsize <= MAX_CARD_BYTES:
        return None  # words say nothing that is needed
    if dtype.kind not in "biuf" or dtype.subdtype is not None:
        raise UserError(
            f"{path}: {name} holds {dtype}, and only booleans, integers and floats are read "
            "(objects are pickles, which can run code); convert it to a plain array"
        )
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or size != file_size - file.tell():
        raise UserError(f"{path}: {name} does not hold the {shape} array that it announces; get it again")
    return np.frombuffer(file.read(size), dtype=dtype).reshape(shape, order="F" if fortran else "C")


def shipped(env_id: str) -> Path | None:
    """The demonstrations that come with an environment, if there are any."""
    name = env_id.rpartition("/")[2].rpartition("-v")[0].lower()
    file = Path(__file__).parent / "data" / f"{name}.npz"
    if env_id.startswith("tacit/") and file.is_file():
        return file
    family = find_family(env_id)
    return None if family is None or family.demonstrations is None else load_function(family.demonstrations)(env_id)
