"""States of vector environments as plain arrays, for checkpoints (`get_state`, `set_state`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import UserError

RNG_WORDS = 6
_LOW = (1 << 64) - 1


def pack_rng(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The state of a PCG64 generator as six 64-bit words."""
    state: Any = rng.bit_generator.state
    value, increment = state["state"]["state"], state["state"]["inc"]
    words = [value >> 64, value & _LOW, increment >> 64, increment & _LOW, state["has_uint32"], state["uinteger"]]
    return np.array(words, np.uint64)


def unpack_rng(words: np.ndarray) -> np.random.Generator:
    """The generator that `pack_rng` described."""
    w = [int(word) for word in words]
    bits = np.random.PCG64(0)
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": w[0] << 64 | w[1], "inc": w[2] << 64 | w[3]},
        "has_uint32": w[4],
        "uinteger": w[5],
    }
    return np.random.Generator(bits)


def check_state(state: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]], whose: str) -> None:
    """UserError unless `state` has an array of each of these names and shapes."""
    for name, shape in shapes.items():
        if name not in state:
            raise UserError(f"the state of {whose} needs an array {name!r}.")
        if np.shape(state[name]) != shape:
            raise UserError(f"{name!r} of {whose} has shape {shape}, not {np.shape(state[name])}.")
