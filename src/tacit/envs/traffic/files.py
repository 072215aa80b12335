"""Recordings from disk, whatever their form: highD's CSV files, CommonRoad scenarios, our compact form."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from tacit.envs.families import Options
from tacit.envs.traffic import SIMULATED, UNKNOWN, commonroad, compact, highd
from tacit.envs.traffic.layout import Rules, Traffic, build, flag
from tacit.envs.traffic.recording import Recording, is_simulated
from tacit.errors import UserError

Recordings = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
FORMS = (
    "XX_tracks.csv with its XX_tracksMeta.csv and XX_recordingMeta.csv (also .gz, .xz), CommonRoad .xml, .traffic.npz"
)

SWITCHES = ("corner", "reactive", "skip_bad")
"""The options that are true or false."""


def load(path: str | os.PathLike[str]) -> Recording:
    """One recording from a file. Of highD's three files any may be named, or their common beginning (.../03)."""
    module, place = _format_of(Path(path))
    recording: Recording = module.load(place)
    return recording


def _format_of(path: Path) -> tuple[Any, Path]:
    """(the module that reads this file, what it is to read). UserError if none does."""
    name, prefix = path.name.lower(), highd.prefix_of(path)
    if name.endswith(compact.SUFFIX):
        return compact, path
    if name.endswith(".xml"):
        return commonroad, path
    if prefix is not None:
        return highd, prefix
    raise UserError(f"{path} is not a recording: expected {FORMS}" if path.exists() else f"{path} does not exist")


def find(path: str | os.PathLike[str]) -> list[Path]:
    """The recordings in a folder, sorted; the file itself if it is one. UserError if there is none."""
    path = Path(path)
    if not path.is_dir():
        return [path]
    recordings: set[Path] = set()
    for file in path.iterdir():
        name = file.name.lower()
        if name.endswith((compact.SUFFIX, ".xml")):
            recordings.add(file)
        elif (prefix := highd.prefix_of(file)) is not None:
            recordings.add(prefix)
    if not recordings:
        raise UserError(f"there is no recording in {path}: expected {FORMS}")
    return sorted(recordings)


def tried(files: Iterable[str | os.PathLike[str]]) -> Iterator[tuple[Path, Recording | UserError]]:
    """Each file with the recording in it, or with the reason why there is none."""
    for file in files:
        try:
            yield Path(file), load(file)
        except UserError as error:
            yield Path(file), error


def load_all(
    paths: Iterable[str | os.PathLike[str]], *, skip_bad: bool = False, option: str = "--env skip_bad=true"
) -> list[Recording]:
    """All recordings of some files and folders. With `skip_bad` bad ones are left out, with a warning.

    `option` is what the user can type to leave them out.
    """
    recordings = []
    files = [file for path in paths for file in find(path)]
    for _, result in tried(files):
        if isinstance(result, Recording):
            recordings.append(result)
        elif not skip_bad:
            hint = f" (or leave the file out: {option})" if len(files) > 1 else ""
            raise UserError(f"{result}{hint}") from None
        else:
            warnings.warn(f"left out: {result}", stacklevel=2)
    if not recordings:
        raise UserError("none of the recordings could be read")
    return recordings


def simulated(recordings: Recordings | None, *, skip_bad: bool = False) -> bool:
    """`Traffic.simulated` of these recordings, without reading their tracks."""
    sources = []
    for file in [file for path in _paths(recordings) for file in find(path)]:
        try:
            module, place = _format_of(file)
            sources.append(module.source_of(place))
        except UserError:
            if not skip_bad:
                raise
    return any(is_simulated({"source": source}) for source in sources)


def notice(options: Mapping[str, Any]) -> str | None:
    """What must stand beside every result with these options of a highway environment, if anything."""
    recordings = options.get("recordings")
    if recordings is None:
        return SIMULATED
    try:
        bad = flag("skip_bad", options.get("skip_bad", False))
        return SIMULATED if simulated(recordings, skip_bad=bad) else None
    except UserError:
        return UNKNOWN


def checked_options(env_kwargs: Mapping[str, Any]) -> Options:
    """Options of a highway environment, tried out before a run begins; recordings by their absolute paths."""
    options = dict(env_kwargs)
    # As booleans in the run's settings, too: whoever reads "False" there must not take it for true.
    options |= {name: flag(name, options[name]) for name in SWITCHES if name in options}
    names = [field.name for field in fields(Rules)]
    rules = Rules(**{name: options[name] for name in names if name in options})
    recordings = options.get("recordings")
    if isinstance(recordings, str):
        options["recordings"] = os.path.abspath(recordings)
    elif isinstance(recordings, list):
        options["recordings"] = [os.path.abspath(path) if isinstance(path, str) else path for path in recordings]
    traffic_of(options.get("recordings"), rules, skip_bad=options.get("skip_bad", False))
    return options


def traffic_of(
    recordings: Recordings | None = None,
    rules: Rules = Rules(),  # noqa: B008 (frozen)
    *,
    skip_bad: bool = False,
) -> Traffic:
    """The arrays of recordings on disk (None: those of the package). They are kept: the next call is free."""
    paths = _paths(recordings)
    return _cached(tuple(paths), _stamp(paths), rules, skip_bad)


def _paths(recordings: Recordings | None) -> list[str]:
    if recordings is None:
        return [os.fspath(path) for path in compact.shipped()]
    if isinstance(recordings, str | os.PathLike):
        return [os.fspath(recordings)]
    if not isinstance(recordings, list | tuple) or not all(isinstance(path, str | os.PathLike) for path in recordings):
        raise UserError(f"recordings is a folder, a file or a list of them, not {recordings!r}")
    if not recordings:
        raise UserError("recordings is an empty list: name a folder or files, or leave it out for the package's own")
    return [os.fspath(path) for path in recordings]


@lru_cache(maxsize=4)
def _cached(paths: tuple[str, ...], stamp: tuple[object, ...], rules: Rules, skip_bad: bool) -> Traffic:
    return build(load_all(paths, skip_bad=skip_bad), rules)


def _stamp(paths: Iterable[str]) -> tuple[object, ...]:
    """A value that changes if a file does."""
    files = [file for path in paths for file in (sorted(Path(path).iterdir()) if os.path.isdir(path) else [Path(path)])]
    return tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.is_file())
