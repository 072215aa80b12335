"""Comparing nested numbers with stored ones, to a tolerance."""

from __future__ import annotations

import math
from typing import Any

RELATIVE, ABSOLUTE = 1e-4, 1e-6


def difference(found: Any, stored: Any, at: str = "") -> str | None:
    """The first place where they differ, in words; None if there is none."""
    if isinstance(found, dict) and isinstance(stored, dict):
        if found.keys() != stored.keys():
            return f"{at}: {min(found.keys() ^ stored.keys())} is only in one of them"
        pairs = [(f"{at}.{key}" if at else key, value, stored[key]) for key, value in found.items()]
    elif isinstance(found, list) and isinstance(stored, list):
        if len(found) != len(stored):
            return f"{at}: {len(found)} entries, stored {len(stored)}"
        pairs = [(f"{at}[{i}]", one, stored[i]) for i, one in enumerate(found)]
    elif _number(found) and _number(stored):
        close = math.isclose(found, stored, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        same = close or (math.isnan(found) and math.isnan(stored))
        return None if same else f"{at}: {found!r}, stored {stored!r}"
    else:
        return None if found == stored else f"{at}: {found!r}, stored {stored!r}"
    return next((text for name, one, other in pairs if (text := difference(one, other, name))), None)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
