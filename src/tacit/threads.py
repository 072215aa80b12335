"""Threads of the linear algebra. On the small matrices of the exact method more than one only gets in its own way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within it NumPy and SciPy multiply and factorise with one thread; afterwards as before."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
