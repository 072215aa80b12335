"""What JAX has compiled for one run, kept for the next: some ten seconds of every short one.

In the user's own cache, not beside the runs: those are passed on to others, and compiled code is executed unread. A
processor of another kind has a folder of its own.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from tacit import storage


def environment() -> dict[str, str]:
    """Variables for a process that shall use it; what the user has set (JAX_COMPILATION_CACHE_DIR) goes first."""
    wanted = {
        "JAX_COMPILATION_CACHE_DIR": str(folder()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
    return {name: value for name, value in wanted.items() if name not in os.environ}


def folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tacit" / f"compiled-{storage.sha256_of_bytes(_processor().encode())[:8]}"


def _processor() -> str:
    """What the processor can do, as far as the system says."""
    try:
        said = re.search(r"^(flags|Features)\s*:.*$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        said = None
    return f"{platform.machine()} {platform.processor()} {said.group() if said else ''}"
