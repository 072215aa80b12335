"""Settings by name: TOML files with a table of defaults and one table for each environment that wants others."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from importlib import resources
from typing import Any, TypeVar

from tacit.errors import UserError

Config = TypeVar("Config")


def names() -> list[str]:
    """The presets there are."""
    return sorted(
        file.name.removesuffix(".toml")
        for file in resources.files(__package__).iterdir()
        if file.name.endswith(".toml")
    )


def load(config_class: type[Config], preset: str, env_id: str) -> Config:
    """The preset's defaults with what it says of this environment on top."""
    if preset not in names():
        close = difflib.get_close_matches(preset, names(), n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names())}"
        raise UserError(f"there is no preset {preset!r}; {hint}")
    tables = tomllib.loads((resources.files(__package__) / f"{preset}.toml").read_text())
    settings: dict[str, Any] = {**tables.get("default", {}), **tables.get("env", {}).get(env_id, {})}
    known = {field.name for field in dataclasses.fields(config_class)}  # type: ignore[arg-type]
    unknown = sorted(set(settings) - known)
    if unknown:
        raise UserError(f"preset {preset}: {config_class.__name__} has no {', '.join(unknown)}")
    return config_class(**{key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()})
