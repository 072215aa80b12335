"""Settings by name: one TOML file per algorithm and preset, with defaults and what some environments need instead.

    algo = "mce"                      whose settings these are

    [default]
    beta = 1e-4

    [env."tacit/Ant-v0"]              on top of the defaults, for that environment
    total_steps = 1_500_000

The file of the preset `paper` is called paper.toml, or ALGORITHM-paper.toml where several algorithms have one. What is
inside says whose it is; the name of the file only has to be unique.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

from tacit.errors import UserError, did_you_mean


def names(algo: str) -> list[str]:
    """The presets of an algorithm."""
    return sorted(_files(algo))


def load(algo: str, preset: str, env_id: str) -> dict[str, Any]:
    """The preset's settings, with what it says of this environment on top; UserError when there is no such preset."""
    files = _files(algo)
    if preset not in files:
        if not files:
            raise UserError(f"{algo} has no presets")
        raise UserError(f"{algo} has no preset {preset!r}; {did_you_mean(preset, sorted(files))}")
    tables = files[preset]
    return {**tables.get("default", {}), **tables.get("env", {}).get(env_id, {})}


def _files(algo: str) -> dict[str, dict[str, Any]]:
    """{preset: content} of the files that belong to an algorithm."""
    files = {}
    for file in resources.files(__package__).iterdir():
        if file.name.endswith(".toml"):
            tables = tomllib.loads(file.read_text(encoding="utf-8"))
            if tables["algo"] == algo:
                files[file.name.removesuffix(".toml").removeprefix(f"{algo}-")] = tables
    return files
