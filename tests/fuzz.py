"""What the fuzz tests share: ways to damage bytes, JSON and arrays."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

ODD = st.sampled_from(
    [
        *(None, True, False, -1, 0, 1, 2, 10**6, 10**30, -(10**30), 0.5, 1e308, -1e308, math.nan, math.inf, -math.inf),
        *("", "x", "NaN", "../../etc/passwd", "/dev/zero", "\x00", "\ud7ff", "é" * 50, "<script>alert(1)</script>"),
        *([], {}, [[]], [1, "a", None], [[1.0, 2.0]], {"": {}}, {"value": "x", "low": [], "high": {}}, [1e400] * 3),
    ]
).map(copy.deepcopy)  # what is drawn is changed further
DTYPES = ("bool", "int8", "int64", "uint64", "float16", "float32", "float64")


@st.composite
def damaged_bytes(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes changed, cut out, put in, or everything after some place lost."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.integers(0, 4)):
            case 0 | 1:
                data[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case 2:
                del data[at : at + draw(st.integers(1, 40))]
            case 3:
                data[at:at] = draw(st.binary(max_size=20))
            case 4:
                del data[at:]
    return bytes(data)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all entries of nested JSON."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, entry in entries for found in places(entry, (*path, key)))]


@st.composite
def damaged_json(draw: st.DrawFn, value: Any) -> Any:
    """Entries replaced by something odd, or removed."""
    result: Any = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(result)))
        if not path:
            result = draw(ODD) if draw(st.integers(0, 9)) == 0 else result
            continue
        parent = result
        for key in path[:-1]:
            parent = parent[key]
        if draw(st.integers(0, 3)):
            parent[path[-1]] = draw(ODD)
        else:
            del parent[path[-1]]
    return result


@st.composite
def damaged_arrays(draw: st.DrawFn, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of another type, shape or size, with odd numbers, under another name, or gone."""
    result = {name: np.array(array) for name, array in arrays.items()}
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(result))) if result else "x"
        array = result.pop(name, np.zeros(3))
        match draw(st.integers(0, 7)):
            case 0:
                continue
            case 1:
                name = draw(st.sampled_from(["../x", "", "weight9", "lam", "costs", "é"]))
            case 2:
                with np.errstate(all="ignore"):
                    array = array.astype(draw(st.sampled_from(DTYPES)))
            case 3:
                array = array.reshape(draw(st.sampled_from([(-1,), (1, -1), (-1, 1), (1, 1, -1)])))
            case 4:
                array = array.reshape(-1)[: draw(st.integers(0, 3))]
            case 5:
                array = np.zeros(draw(st.sampled_from([(), (0,), (0, 3), (3, 0), (1,), (2, 2)])), array.dtype)
            case 6 if array.size and array.dtype.kind == "f":
                odd = draw(st.sampled_from([math.nan, math.inf, -1.0, 0.0, 1e300]))
                array.reshape(-1)[draw(st.integers(0, array.size - 1))] = np.clip(odd, -3e38, 3e38)
            case _ if array.size and array.dtype.kind in "iu":
                odd = draw(st.sampled_from([0, 1, 120, 2**31 - 1, 2**62]))
                odd = -odd if array.dtype.kind == "i" and draw(st.booleans()) else odd
                array.reshape(-1)[draw(st.integers(0, array.size - 1))] = min(odd, np.iinfo(array.dtype).max)
        result[name] = array
    return result
