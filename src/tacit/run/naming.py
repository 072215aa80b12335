"""Names of run folders, made from the settings, and the changes of a method's settings since earlier runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tacit.run import storage

OTHER_SEED = 1000
"""Added to the seed of a run for a fresh agent on its cost: the same seed would give the same first network."""


@dataclass(frozen=True)
class History:
    """How the settings of a method have changed. Names of earlier runs stay the same."""

    added: Mapping[str, Any] = field(default_factory=dict)
    """Settings that were added later, with the value for the earlier behaviour, which is not part of a name."""
    retired: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    """Settings that were removed: (the only value that worked, why it was removed). They are still part of a name."""
    revision: Callable[[Mapping[str, Any]], int] = lambda config: 1
    """2 or more if the same settings have a new meaning, so that earlier runs do not count as runs of today."""


UNCHANGED = History()
Unused = Mapping[str, Mapping[Any, tuple[str, ...]]]
"""{a setting that chooses between ways: {its value: the settings that this way does not use}}."""


def run_name(settings: Mapping[str, Any], history: History = UNCHANGED) -> str:
    """`ALGO-ENVIRONMENT-sSEED-HASH`: readable, and different whenever a setting differs."""
    env = settings["env"].rsplit("/", 1)[-1]
    digest = storage.sha256_of_bytes(storage.to_json(identity(settings, history), sort_keys=True).encode())
    algo = _slug(settings["algo"]) if ":" in settings["algo"] else settings["algo"]
    return f"{algo}-{_slug(re.sub(r'-v[0-9]+$', '', env))}-s{settings['seed']}-{digest[:8]}"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def identity(settings: Mapping[str, Any], history: History) -> Any:
    """The identity of a run, in the form in which it is read back from disk."""
    demos = settings["demos"]
    config = {name: value for name, (value, _) in history.retired.items()} | dict(settings["config"])
    identity = {**settings, "demos": None if demos is None else demos.get("sha256")}
    # A setting of None is not part of a name, either.
    identity["config"] = {key: value for key, value in config.items() if history.added.get(key) != value}
    if (revision := history.revision(config)) > 1:
        identity["revision"] = revision
    return storage.from_json(storage.to_json(identity))
