"""Read the tensors in a file of `torch.save` without torch and without running anything.

Such a file is a zip archive: `data.pkl` says how the object is put together, and every tensor's numbers lie in a member
of their own. The pickle is read by the machine of `pickles`, which here knows one more function: a tensor is a view of
a storage.
"""

from __future__ import annotations

import math
import os
import zipfile
from typing import Any

import numpy as np

from tacit.demos.files import MAX_BYTES
from tacit.errors import UserError
from tacit.interop.pickles import Holder, Name, Refused, check_growth, plain_object
from tacit.run import disk

STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "|i1",
    "ByteStorage": "|u1",
    "BoolStorage": "|b1",
}


def read(path: str | os.PathLike[str]) -> Any:
    """The plain object in the file, tensors as NumPy arrays. UserError when it holds anything else, or is damaged."""
    try:
        with disk.reading(path, max_bytes=MAX_BYTES) as file, zipfile.ZipFile(file) as archive:
            return check_growth(path, _read(path, archive))
    except zipfile.BadZipFile:
        raise UserError(
            f"{path} is not a zip archive: it is damaged, or was saved by a torch older than 1.6. Save it again"
        ) from None


def _read(path: str | os.PathLike[str], archive: zipfile.ZipFile) -> Any:
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    packed = [info.filename for info in archive.infolist() if info.compress_type != zipfile.ZIP_STORED]
    main = [name for name in sizes if name.rpartition("/")[2] == "data.pkl"]
    if packed or len(main) != 1 or len(sizes) != len(archive.infolist()):
        raise UserError(f"{path} is not a file of torch.save: it needs one data.pkl, and nothing compressed")
    folder = main[0].removesuffix("data.pkl")
    swapped = sizes.get(f"{folder}byteorder", 0) == 3 and archive.read(f"{folder}byteorder") == b"big"

    loaded: dict[str, bytes] = {}

    def storage(about: Any) -> np.ndarray:
        """The numbers that ("storage", type, name, place, count) announces."""
        if not (isinstance(about, tuple) and len(about) == 5 and about[0] == "storage" and isinstance(about[1], Name)):
            raise Refused("it refers to something that is not a tensor's storage")
        code = STORAGES.get(about[1].name) if about[1].module in ("torch", "torch.storage") else None
        member = f"{folder}data/{about[2]}" if isinstance(about[2], str) else ""
        if code is None or member not in sizes:
            raise Refused(f"it holds {about[1].name}, and only tensors of usual numbers are read")
        kind = np.dtype(code).newbyteorder(">" if swapped else "<")
        if type(about[4]) is not int or sizes[member] < about[4] * kind.itemsize:
            raise Refused("a tensor in it announces numbers and does not bring them along")
        if member not in loaded:
            loaded[member] = archive.read(member)
        return np.frombuffer(loaded[member], kind, max(about[4], 0))

    calls = {
        ("torch._utils", "_rebuild_tensor_v2"): _tensor,
        ("torch._utils", "_rebuild_tensor"): _tensor,
        ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
    }
    return plain_object(path, archive.read(main[0]), calls, storage)


def _tensor(numbers: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Holder:
    """The view of a storage. One that would repeat its numbers is not made."""
    shapes = all(isinstance(x, tuple) and all(type(n) is int and n >= 0 for n in x) for x in (size, stride))
    if not isinstance(numbers, np.ndarray) or not shapes or len(size) != len(stride) or type(offset) is not int:
        raise Refused("a tensor in it is damaged")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if 0 in size:
        return Holder(np.zeros(size, numbers.dtype))
    if offset < 0 or last >= len(numbers) or math.prod(size) > len(numbers):
        raise Refused("a tensor in it announces numbers and does not bring them along")
    steps = tuple(step * numbers.itemsize for step in stride)
    return Holder(np.lib.stride_tricks.as_strided(numbers[offset:], size, steps, writeable=False).copy())
