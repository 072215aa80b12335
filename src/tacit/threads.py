"""Cores, and threads of the linear algebra: on the exact method's small matrices a second one only gets in the way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


def usable_cpus() -> int:
    """Those that this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within it NumPy and SciPy multiply and factorise with one thread; afterwards as before."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
