"""Importing from Python: what `tacit demos import` does, without writing a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tacit.demos.data import Demonstrations
from tacit.envs.options import exact_model, resolve_env
from tacit.envs.registry import make
from tacit.errors import UserError
from tacit.imports.importing import Imported, import_files
from tacit.imports.names import parsed
from tacit.imports.reading import Choices
from tacit.imports.target import Target


def target_of(env: str, env_kwargs: Mapping[str, Any] | None = None) -> Target:
    """The environment that data are compared with: its exact model if there is one."""
    complete = resolve_env(env, dict(env_kwargs or {}))
    model = exact_model(env, complete)
    return Target(env, complete, make(env, **complete) if model is None else model)


def read(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    env: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    *,
    layout: str | None = None,
    shift: int | None = None,
    columns: Mapping[str, str] | None = None,
    terminated: str | None = None,
    rewards: str | None = None,
    cut: int | None = None,
) -> Demonstrations:
    """Demonstrations from files and folders of others. UserError for what is ambiguous or does not fit `env`."""
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    chosen = parsed(f"{role}={name}" for role, name in (columns or {}).items())
    target = None if env is None else target_of(env, env_kwargs)
    imported = import_files(
        [os.fspath(path) for path in listed], Choices(layout, shift, chosen, terminated, rewards, cut), target
    )
    refuse(imported, " and ".join(map(str, listed[:2])), env)
    return imported.demos


def refuse(imported: Imported, source: str, env: str | None) -> None:
    """UserError for demonstrations that certainly do not fit their environment."""
    if imported.problems:
        more = f" (and {len(imported.problems) - 3} more problems)" if len(imported.problems) > 3 else ""
        why = imported.check.texts("wrong")[:1] if imported.check is not None else []
        raise UserError(f"{source} does not fit {env}: {'; '.join([*why, *imported.problems[:3]])}{more}")
    if imported.check is not None and imported.check.level == "wrong":
        raise UserError(f"{source} does not fit {env}: {'; '.join(imported.check.texts('wrong'))}")
