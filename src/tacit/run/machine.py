"""This machine: its cores, the threads of the linear algebra, and the cache of what JAX has compiled.

On the exact method's small matrices a second thread only gets in the way. Compiled code saves some ten seconds of every
short run. It is kept in the user's own cache, not beside the runs: those are passed on to others, and compiled code is
executed unread. A processor of another kind has a folder of its own.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any


def usable_cpus() -> int:
    """Number of processors that this process may use; a container may have fewer than the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which NumPy and SciPy use one thread for linear algebra."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


def compiled_cache() -> dict[str, str]:
    """Environment variables for a process that should use the cache; variables that the user has set stay."""
    wanted = {
        "JAX_COMPILATION_CACHE_DIR": str(folder()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
    return {name: value for name, value in wanted.items() if name not in os.environ}


def folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tacit" / f"compiled-{hashlib.sha256(_processor().encode()).hexdigest()[:8]}"


def _processor() -> str:
    """The features of the processor, if the system reports them."""
    said = _cpuinfo(r"^(flags|Features)\s*:.*$")
    return f"{platform.machine()} {platform.processor()} {said.group() if said else ''}"


def processor_name() -> str:
    """The name of the processor, if the system reports it."""
    said = _cpuinfo(r"^model name\s*:\s*(.+)$")
    return said[1].strip() if said else platform.processor() or platform.machine()


def _cpuinfo(pattern: str) -> re.Match[str] | None:
    try:
        return re.search(pattern, Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return None
