"""Environments that are only looked at: within `shared()`, `make_vec` makes none twice.

Planning an experiment checks the settings of a hundred runs against a handful of environments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from gymnasium.vector import VectorEnv

Make = Callable[..., VectorEnv]
_made: ContextVar[dict[str, VectorEnv] | None] = ContextVar("environments that are shared", default=None)


@contextmanager
def shared() -> Iterator[None]:
    """Within this block equal environments are the same object. They are closed at its end."""
    if _made.get() is not None:
        yield
        return
    made: dict[str, VectorEnv] = {}
    token = _made.set(made)
    try:
        yield
    finally:
        _made.reset(token)
        for env in made.values():
            del env.close
            env.close()


def once(make: Make) -> Make:
    """A function like `make_vec` that reuses environments within `shared()`."""

    @functools.wraps(make)
    def make_or_reuse(env_id: str, n_envs: int, **kwargs: Any) -> VectorEnv:
        made = _made.get()
        if made is None:
            return make(env_id, n_envs, **kwargs)
        key = repr((env_id, n_envs, sorted(kwargs.items())))
        if key not in made:
            made[key] = make(env_id, n_envs, **kwargs)
            made[key].close = lambda **_: None  # type: ignore[method-assign]
        return made[key]

    return make_or_reuse
