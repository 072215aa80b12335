"""Comparing nested numbers with stored ones: closely where they were made, loosely on other machines.

Another processor, another version of JAX or another number of threads rounds otherwise. That hardly changes the result
of a few updates, but it changes the constraint map, which is fitted in thousands of steps. So the tolerance is wider on
other machines, and numbers that only the map decides are left out. Bytes are compared by tools/same_results.py.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

MACHINE = Path(__file__).parent / "golden" / "machine" / "machine.json"
CLOSE = {"rel_tol": 1e-4, "abs_tol": 1e-6}
LOOSE = {"rel_tol": 0.1, "abs_tol": 1e-3}
BY_THE_MAP = ("cost_quality", "detection", "boundaries", "threshold")


def here() -> dict[str, Any]:
    """What decides how numbers are rounded."""
    packages = ("numpy", "scipy", "jax", "jaxlib", "mujoco")
    try:
        flags = re.search(r"^flags\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        flags = None
    units = sorted(flag for flag in (flags[1].split() if flags else ()) if flag.startswith(("avx", "fma", "amx")))
    return {
        "versions": {package: metadata.version(package) for package in packages},
        "machine": platform.machine(),
        "units": units,
        "flags": os.environ.get("XLA_FLAGS", ""),
    }


@cache
def same_machine() -> bool:
    """Whether the stored numbers were made on a machine that rounds like this one."""
    return here() == json.loads(MACHINE.read_text("utf-8"))


def difference(found: Any, stored: Any, at: str = "", *, close: bool | None = None) -> str | None:
    """The first place where they differ, in words; None if there is none."""
    close = same_machine() if close is None else close
    if isinstance(found, dict) and isinstance(stored, dict):
        if found.keys() != stored.keys():
            return f"{at}: {min(found.keys() ^ stored.keys())} is only in one of them"
        keys = [key for key in found if key not in BY_THE_MAP]
        pairs = [(f"{at}.{key}" if at else key, found[key], stored[key]) for key in keys]
    elif isinstance(found, list) and isinstance(stored, list):
        if len(found) != len(stored):
            return f"{at}: {len(found)} entries, stored {len(stored)}"
        pairs = [(f"{at}[{i}]", one, stored[i]) for i, one in enumerate(found)]
    elif _number(found) and _number(stored):
        near = math.isclose(found, stored, **(CLOSE if close else LOOSE))
        same = near or (math.isnan(found) and math.isnan(stored))
        return None if same else f"{at}: {found!r}, stored {stored!r}"
    else:
        return None if found == stored else f"{at}: {found!r}, stored {stored!r}"
    return next((text for name, one, other in pairs if (text := difference(one, other, name, close=close))), None)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
