"""From foreign files and folders to one set of demonstrations, and a table of what was understood.

imported = import_files(["rollouts/"], Choices(), target)
imported.demos, imported.rows                   the demonstrations; {what: how it was understood}
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.demos.check import problems as problems_of
from tacit.demos.convert import for_environment, from_csv
from tacit.demos.data import Demonstrations, Trajectory, from_trajectories, make_card
from tacit.demos.evidence import Check, shortness, statistics
from tacit.demos.files import MAX_BYTES, load, read_npz, shipped
from tacit.demos.replay import check
from tacit.demos.stepping import quiet
from tacit.envs.families import find_format
from tacit.envs.options import exact_model, resolve_env
from tacit.envs.registry import make
from tacit.errors import UserError
from tacit.imports.contents import TABLES, content, find_files
from tacit.imports.episodes import REWARDS, TERMINATED, Facts, complete, drafts
from tacit.imports.layouts import joined, understand
from tacit.imports.names import parsed, role_of
from tacit.imports.reading import LAYOUTS, Choices, NoEpisodes, Reading
from tacit.imports.tables import entry_names, read_table
from tacit.imports.target import Target
from tacit.interop.pickles import NotPlain
from tacit.metrics import percent
from tacit.run.disk import read_text

MINARI = "minari:"


@dataclass(frozen=True)
class Imported:
    """The demonstrations and what was understood of the files."""

    demos: Demonstrations
    rows: Mapping[str, str]
    """For people: layout, episodes, steps, returns, columns, shift, ranges, ..."""
    problems: Sequence[str] = ()
    """What does not fit the environment at all."""
    check: Check | None = None
    """The check by replaying, if there is an environment and no problem."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """{file of a folder: why it was not taken}"""


def import_files(paths: Sequence[str], choices: Choices, target: Target | None = None) -> Imported:
    """Read everything, align it, and compare it with the environment. UserError for what can be read in two ways."""
    _check_choices(choices)
    choices = choices if target is None else replace(choices, horizon=target.horizon)
    try:
        with quiet():
            return _imported(paths, choices, target)
    except UserError:
        raise
    except (ValueError, IndexError, TypeError, KeyError, OverflowError) as error:
        # Files that nobody has seen: arrays that contradict each other in a way not thought of here.
        reason = " ".join(str(error).split())[:160]
        raise UserError(
            f"{_described(paths)}: its arrays do not go together as episodes ({type(error).__name__}: {reason})"
        ) from None


def _imported(paths: Sequence[str], choices: Choices, target: Target | None) -> Imported:
    finished, readings, left_out = _read(paths, choices, target)
    facts = Facts()
    trajectories = _ended([trajectory for demos in finished for trajectory in demos], choices, target)
    complete_already = len(trajectories)
    for reading in readings:
        trajectories += _trajectories(reading, choices, target, facts)
    trajectories = [_cut(trajectory, choices.cut) for trajectory in trajectories]
    _check_sizes(trajectories)
    names = next((reading.entry_names for reading in readings if reading.entry_names), None)
    card = make_card(source=f"imported from {_described(paths)}")
    size = trajectories[0].observations[0].size
    card["feature_names"] = names if names is not None and len(names) == size else None
    if len(paths) == 1 and not os.path.isdir(paths[0]) and len(finished) == 1:
        card = {**card, **finished[0].card}  # what a file of ours, or a Minari dataset, says about itself
    demos = from_trajectories(trajectories, card)
    misfits: list[str] = []
    result = None
    if target is not None:
        if demos.card.get("feature_names") is not None and target.names is not None:
            demos = _with_names(demos, target)
        demos = for_environment(demos, target.built, target.id, target.kwargs)
        misfits = problems_of(demos, target.built)
        if not misfits or target.grid is not None:
            result = check(demos, target.built, reference=_reference(target, demos))
    rows = _rows(demos, readings, complete_already, facts, target)
    return Imported(demos, rows, misfits, result, left_out)


def _check_choices(choices: Choices) -> None:
    for option, value, allowed in (
        ("--terminated", choices.terminated, TERMINATED),
        ("--rewards", choices.rewards, REWARDS),
    ):
        if value is not None and value not in allowed:
            raise UserError(f"{option} is one of {', '.join(allowed)}, not {value!r}")
    layout = choices.layout
    if layout is not None and layout not in LAYOUTS and not layout.startswith("every:"):
        raise UserError(f"--layout is one of {', '.join(LAYOUTS)}, not {layout!r}")
    if choices.cut is not None and choices.cut < 1:
        raise UserError(f"--cut is a number of steps, at least 1, not {choices.cut}")
    if choices.shift not in (None, -1, 0, 1):
        raise UserError(f"--shift is -1, 0 or 1, not {choices.shift}")


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def _read(
    paths: Sequence[str], choices: Choices, target: Target | None
) -> tuple[list[Demonstrations], list[Reading], dict[str, str]]:
    """(demonstrations that were complete already, readings by layout, files of folders that were left out)."""
    finished: list[Demonstrations] = []
    by_layout: dict[str, list[Reading]] = {}
    left_out: dict[str, str] = {}
    files = [(path, False) for path in paths if path.startswith(MINARI)]
    others = [path for path in paths if not path.startswith(MINARI)]
    files += find_files(others) if others else []
    choices = replace(choices, whole=choices.whole or len(files) > 1)
    together = _named_arrays([file for file, _ in files])
    for folder, arrays in together.items():
        reading = understand({name: content(file) for name, file in arrays.items()}, folder, choices)
        by_layout.setdefault(reading.layout, []).append(reading)
    taken = {file for arrays in together.values() for file in arrays.values()}
    for file, in_folder in files:
        if file in taken:
            continue
        try:
            whole = _complete_file(file)
            if whole is not None:
                finished.append(whole)
                continue
            reading = _reading(file, choices, target)
        except (NoEpisodes, NotPlain) as error:
            if not in_folder:
                raise
            left_out[file] = str(error).removeprefix(f"{file}: ").removeprefix(f"{file} ")
            continue
        by_layout.setdefault(reading.layout, []).append(reading)
    if not finished and not by_layout:
        first = next(iter(left_out.items()), ("", ""))
        raise UserError(f"{_described(paths)}: no file holds demonstrations; {first[0]}: {first[1]}")
    readings = [_merged(layout, group) for layout, group in by_layout.items()]
    return finished, readings, left_out


def _named_arrays(files: Sequence[str]) -> dict[str, dict[str, str]]:
    """{folder: {name: file}} of folders with an observations.npy beside an actions.npy, and so on."""
    folders: dict[str, dict[str, str]] = {}
    for file in files:
        if Path(file).suffix == ".npy" and role_of(Path(file).stem) is not None:
            folders.setdefault(str(Path(file).parent), {})[Path(file).stem] = file
    return {
        folder: arrays
        for folder, arrays in folders.items()
        if {"observations", "actions"} <= {role_of(name) for name in arrays}
    }


def _merged(layout: str, readings: Sequence[Reading]) -> Reading:
    if layout == "one episode" and len(readings) > 1:
        layout = "one episode per file"
    return joined(layout, readings, autoreset=True if all(reading.autoreset for reading in readings) else None)


def _complete_file(file: str) -> Demonstrations | None:
    """The content of a file of our own: a demonstration file, or a table with our columns."""
    if file.startswith(MINARI):
        from tacit.interop.minari import from_minari

        return from_minari(file)
    ending = Path(file).suffix.lower()
    if find_format(file) is not None:
        return load(file)
    if ending == ".npz" and read_npz(file, foreign=lambda *_: None)[1] is not None:
        return load(file)
    return from_csv(file) if ending == ".csv" and _is_our_table(file) else None


def _is_our_table(file: str) -> bool:
    """Has a table our columns, and last rows without an action?"""
    lines = [line.strip() for line in read_text(file, max_bytes=MAX_BYTES).splitlines() if line.strip()]
    header, last = (line.split(",") for line in (lines[0], lines[-1])) if lines else ([], [])
    columns = {p: [i for i, n in enumerate(header) if n == p or n.startswith(f"{p}_")] for p in ("obs", "act")}
    ours = all(columns.values()) and {"episode", "step", "reward", "terminated"} <= set(header) and "done" not in header
    return bool(ours and len(last) > columns["act"][0] and not last[columns["act"][0]].strip())


def _reading(file: str, choices: Choices, target: Target | None) -> Reading:
    if Path(file).suffix.lower() in TABLES and not _has_episodes(file):
        names = None if target is None else target.names
        arrays, columns = read_table(file, choices.columns, names)
        reading = understand(arrays, file, replace(choices, columns={}))
        reading.layout = f"table, {reading.layout}"
        reading.entry_names = entry_names(columns["observations"]) if len(columns["observations"]) > 1 else None
        if columns.get("left out"):
            reading.notes.append(f"columns left out: {', '.join(columns['left out'][:8])}")
        return reading
    return understand(content(file), file, choices)


def _has_episodes(file: str) -> bool:
    """A Parquet table with one row per episode, whose cells are whole arrays."""
    if Path(file).suffix.lower() != ".parquet":
        return False
    columns = {role_of(name): values for name, values in content(file).items()}
    values = columns.get("observations", columns.get("original"))
    return isinstance(values, list) or (isinstance(values, np.ndarray) and values.ndim == 3)


# ---------------------------------------------------------------------------------------------------------------------
# Fitting


def _trajectories(reading: Reading, choices: Choices, target: Target | None, facts: Facts) -> list[Trajectory]:
    facts.notes += [note for note in reading.notes if note not in facts.notes]
    if target is not None:
        _fit(reading, target, facts)
    else:
        _round(reading, facts)
    parts = drafts(reading, choices, target, facts)
    return complete(parts, choices, target, facts)


def _fit(reading: Reading, target: Target, facts: Facts) -> None:
    """Observations and actions in the form of the environment."""
    observations = target.observations([episode.observations for episode in reading.episodes])
    actions = target.actions([episode.actions for episode in reading.episodes])
    following = [episode for episode in reading.episodes if episode.next is not None]
    successors = target.observations([e.next for e in following if e.next is not None]).arrays if following else []
    for episode, array in zip(following, successors, strict=True):
        episode.next = array
    for episode, obs, act in zip(reading.episodes, observations.arrays, actions.arrays, strict=True):
        episode.observations, episode.actions = obs, act
    facts.notes += [note for note in observations.notes + actions.notes if note not in facts.notes]
    # Without an exact fit of sizes nothing can be replayed; what is wrong is said when they are checked.
    wanted = None if target.grid is not None else getattr(target.built.observation_space, "shape", None)
    sizes = {e.observations.shape[1:] for e in reading.episodes}
    if wanted is not None and sizes != {wanted}:
        target.stepper = None
    if target.grid is None and {e.actions.shape[1:] for e in reading.episodes} != {target.built.action_space.shape}:
        target.stepper = None


def _round(reading: Reading, facts: Facts) -> None:
    """Round without an environment: columns of whole numbers are discrete; entries that are always 0 are named."""
    for name in ("observations", "actions"):
        arrays = [getattr(episode, name) for episode in reading.episodes]
        if all(a.ndim == 1 and a.dtype.kind == "f" and (a == np.floor(a)).all() for a in arrays):
            for episode, array in zip(reading.episodes, arrays, strict=True):
                setattr(episode, name, array.astype(np.int64))
    tables = [e.observations for e in reading.episodes if e.observations.ndim == 2]
    if tables and len({table.shape[1] for table in tables}) == 1:
        zero = ~np.any([(table != 0).any(axis=0) for table in tables], axis=0)
        if zero.any():
            facts.notes.append(f"{int(zero.sum())} of {len(zero)} entries of the observations are always 0")


def _ended(trajectories: Sequence[Trajectory], choices: Choices, target: Target | None) -> list[Trajectory]:
    """Complete trajectories, with the ends that the user says."""
    which = choices.terminated
    if which in (None, "recorded") or not trajectories:
        return list(trajectories)
    limit = (None if target is None else target.horizon) or max(map(len, trajectories))
    short = [which == "all" or (which == "short" and len(trajectory) < limit) for trajectory in trajectories]
    return [replace(trajectory, terminated=end) for trajectory, end in zip(trajectories, short, strict=True)]


def _cut(trajectory: Trajectory, steps: int | None) -> Trajectory:
    if steps is None or len(trajectory) <= steps:
        return trajectory
    costs = None if trajectory.costs is None else trajectory.costs[:steps]
    rewards = trajectory.rewards[:steps]
    return Trajectory(trajectory.observations[: steps + 1], trajectory.actions[:steps], rewards, costs, False)


def _check_sizes(trajectories: Sequence[Trajectory]) -> None:
    for name in ("observations", "actions"):
        shapes = {getattr(trajectory, name).shape[1:] for trajectory in trajectories}
        if len(shapes) > 1:
            listed = " and ".join(map(str, sorted(shapes, key=str)[:2]))
            raise UserError(f"the {name} of the files have different shapes: {listed}. Import them one by one")


def _with_names(demos: Demonstrations, target: Target) -> Demonstrations:
    """Entries in the order of the environment's names, if they are the same; its names, if none has another place."""
    given, wanted = list(demos.card["feature_names"]), list(target.names or ())
    if given == wanted:
        return demos
    if sorted(given) == sorted(wanted):
        order = [given.index(name) for name in wanted]
        return replace(demos, observations=demos.observations[:, order], card={**demos.card, "feature_names": wanted})
    if len(given) == len(wanted) and all(a == b or a not in wanted for a, b in zip(given, wanted, strict=True)):
        return replace(demos, card={**demos.card, "feature_names": wanted})
    return demos


def _reference(target: Target, demos: Demonstrations) -> Demonstrations | None:
    file = shipped(target.id)
    if file is None or find_format(file) is not None:
        return None
    reference = load(file)
    return reference if reference.observations.shape[1:] == demos.observations.shape[1:] else None


# ---------------------------------------------------------------------------------------------------------------------
# The table


def _described(paths: Sequence[str]) -> str:
    return Path(paths[0]).name if len(paths) == 1 else f"{Path(paths[0]).name} and {len(paths) - 1} more"


def _rows(
    demos: Demonstrations, readings: Sequence[Reading], finished: int, facts: Facts, target: Target | None
) -> dict[str, str]:
    layouts = [f"{reading.layout} ({len(reading.episodes)})" for reading in readings]
    layouts += [f"complete demonstrations ({finished})"] if finished else []
    lengths, returns = demos.lengths, demos.returns
    rows = {
        "layout": "; ".join(layouts),
        "episodes": f"{len(demos)} of {_span(lengths)} steps, {demos.n_steps} steps in all",
        "returns": f"{returns.min():.4g} to {returns.max():.4g}, mean {returns.mean():.4g}",
        "observations": _entries(demos.observations, demos.card.get("feature_names")),
        "actions": _entries(demos.actions, None),
        "shift": facts.shift or "0: complete already",
        "last observation": facts.last or "recorded",
        "rewards": facts.rewards or "as recorded",
        "costs": "none" if demos.costs is None else f"{percent(float((demos.costs > 0).mean()))} of steps violate",
        "ended": f"{int(demos.terminated.sum())} of {len(demos)} ({facts.ends or 'as recorded'})",
    }
    if facts.notes:
        rows["remarks"] = "; ".join(facts.notes)
    if target is None:
        findings = [*statistics(demos), *shortness(demos, None)]
        doubts = [finding.text for finding in findings if finding.level == "doubt"]
        rows["doubtful"] = "; ".join(doubts) if doubts else ""
        rows["environment"] = "none given: nothing was compared (--env ENV replays the steps)"
    return {key: text for key, text in rows.items() if text}


def _entries(array: Any, names: Any) -> str:
    if array.ndim == 1:
        return f"whole numbers {array.min()} to {array.max()}"
    listed = "" if names is None else f": {', '.join(map(str, names[:8]))}{', ...' if len(names) > 8 else ''}"
    size = int(np.prod(array.shape[1:]))
    entries = "1 entry" if size == 1 else f"{size} entries"
    return f"{entries} ({array.dtype}), {array.min():.4g} to {array.max():.4g}{listed}"


def _span(lengths: Any) -> str:
    return str(lengths.min()) if lengths.min() == lengths.max() else f"{lengths.min()} to {lengths.max()}"


# ---------------------------------------------------------------------------------------------------------------------
# From Python


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
    """Demonstrations from foreign files and folders. UserError for what is ambiguous or does not fit `env`."""
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    chosen = parsed(f"{role}={name}" for role, name in (columns or {}).items())
    target = None if env is None else target_of(env, env_kwargs)
    imported = import_files(
        [os.fspath(path) for path in listed], Choices(layout, shift, chosen, terminated, rewards, cut), target
    )
    refuse(" and ".join(map(str, listed[:2])), env, imported.problems, imported.check)
    return imported.demos


def refuse(source: str, env: str | None, problems: Sequence[str], check: Check | None) -> None:
    """UserError for demonstrations that certainly do not fit their environment."""
    wrong = check.texts("wrong") if check is not None else []
    if problems:
        more = f" (and {len(problems) - 3} more problems)" if len(problems) > 3 else ""
        raise UserError(f"{source} does not fit {env}: {'; '.join([*wrong[:1], *problems[:3]])}{more}")
    if wrong:
        raise UserError(f"{source} does not fit {env}: {'; '.join(wrong)}")
