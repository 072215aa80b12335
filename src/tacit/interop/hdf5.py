"""Read the numbers of an HDF5 file as nested dicts of arrays. No other file is read.

Groups are dicts, datasets of numbers are arrays; words, pictures of more than three axes and attributes are left out.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from tacit.demos.files import MAX_BYTES
from tacit.errors import UserError, install_command, readable
from tacit.run import disk
from tacit.run.storage import may_unpack


def check_file(path: str | os.PathLike[str]) -> None:
    """UserError for an HDF5 file that announces more than it can hold, or that would have other files read."""
    import h5py

    disk.reading(path).close()  # no pipe, no device
    limit, total, seen = may_unpack(Path(path).stat().st_size, MAX_BYTES), 0, set()
    with h5py.File(path, "r") as file:
        groups = [file]
        while groups:
            group = groups.pop()
            for name in group:
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    raise UserError(f"{path}: {name[:80]!r} is a link to elsewhere; it was not read")
                entry = group[name]
                if isinstance(entry, h5py.Group):
                    address = h5py.h5o.get_info(entry.id).addr
                    if address not in seen:
                        seen.add(address)
                        groups.append(entry)
                elif isinstance(entry, h5py.Dataset):
                    if entry.external or entry.is_virtual:
                        raise UserError(f"{path}: {name[:80]!r} takes its numbers from other files; it was not read")
                    total += entry.nbytes
    if total > limit:
        raise UserError(f"{path} announces {total} bytes, too many for its size; it was not read")


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The groups and datasets of numbers. UserError naming the file when it cannot be read."""
    try:
        import h5py
    except ImportError:
        raise UserError(f"{path}: reading HDF5 needs h5py: {install_command('minari')}") from None
    with readable(f"{path} is not a readable HDF5 file"):
        check_file(path)
        with h5py.File(path, "r") as file:
            return _group(file, set())


def _group(group: Any, above: set[int]) -> dict[str, Any]:
    import h5py

    address = h5py.h5o.get_info(group.id).addr
    if address in above:
        raise UserError(f"{group.file.filename} contains itself; it was not read")
    content: dict[str, Any] = {}
    for name, entry in group.items():
        if isinstance(entry, h5py.Group):
            content[name] = _group(entry, above | {address})
        elif isinstance(entry, h5py.Dataset) and entry.dtype.kind in "biuf" and entry.ndim <= 3:
            content[name] = np.asarray(entry[()])
    return content
