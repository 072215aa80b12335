"""Do two versions of the source give the same results, bit by bit? `python tools/same_results.py BASE [OTHER]`.

    python tools/same_results.py main                    commit BASE against the working tree, changes included
    python tools/same_results.py v0.1 HEAD               one commit against another
    python tools/same_results.py main --jobs mce bc2l    only these jobs, and those that they need
    python tools/same_results.py main --gone NAME ...    settings that only one of the versions has are left out

All jobs of tests/golden_jobs.py (as it is in the working tree) run against the source of each, in a process of their
own. Then every file that they wrote is compared: models, checkpoints, samples, demonstrations, summaries, metrics. What
tells when, where and by which version something was made is taken out before; reports (HTML) are not compared. A run
folder with another name counts as a difference, because the name stands for the settings.

Prints a line a job. Exit status: 0 all the same, 1 something differs or a job failed, 2 wrong input.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import golden_jobs  # noqa: E402

WHEN = {"provenance.json", "DONE", ".lock"}
"""Files that only tell when and where."""
TIMED = {"seconds", "time", "provenance", "versions", "commit", "command", "started", "finished", "date", "created"}
GONE: set[str] = set()
"""Settings that are left out."""
ABSOLUTE = re.compile(r"(?<![\w.:/])/(?:[\w.+-]+/)+")
"""The folders of an absolute path."""


# ---------------------------------------------------------------------------------------------------------------------
# Comparing


def comparable(value: Any) -> Any:
    """JSON without what depends on clock, machine, version or place."""
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if key not in TIMED | GONE and not key.startswith("time/")}
        return {key: comparable(one) for key, one in kept.items()}
    if isinstance(value, list):
        return [comparable(one) for one in value]
    if isinstance(value, str):
        if value[:1] in "{[" and value[-1:] in "}]":
            with contextlib.suppress(ValueError):
                return comparable(json.loads(value))
        return ABSOLUTE.sub("", value)
    return value


def first_difference(one: Any, other: Any, at: str = "") -> str | None:
    """Where two values differ first, and what they are there; None if nowhere."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return f"{at or 'the keys'}: only one has {', '.join(sorted(map(str, one.keys() ^ other.keys()))[:4])}"
        pairs = [(f"{at}.{key}" if at else str(key), value, other[key]) for key, value in one.items()]
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return f"{at}: {len(one)} entries against {len(other)}"
        pairs = [(f"{at}[{i}]", a, b) for i, (a, b) in enumerate(zip(one, other, strict=True))]
    elif isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return _array_difference(one, other, at)
    else:
        same = type(one) is type(other) and repr(one) == repr(other)  # 0.1 == 0.1, nan is nan, and 0.0 is not -0.0
        return None if same else f"{at}: {_short(one)} against {_short(other)}"
    return next((found for name, a, b in pairs if (found := first_difference(a, b, name))), None)


def _array_difference(one: np.ndarray, other: np.ndarray, at: str) -> str | None:
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return f"{at}: {one.dtype}{list(one.shape)} against {other.dtype}{list(other.shape)}"
    if one.tobytes() == other.tobytes():
        return None
    if one.dtype.kind not in "fiub":
        return f"{at}: other content"
    where = np.flatnonzero(np.ravel(one) != np.ravel(other))
    i = int(where[0]) if len(where) else 0
    return f"{at}, {len(where)} of {one.size} numbers: {np.ravel(one)[i]!r} against {np.ravel(other)[i]!r} at {i}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def content(file: Path) -> Any:
    """What a file holds, to be compared."""
    if file.suffix == ".json":
        return comparable(json.loads(file.read_text("utf-8")))
    if file.suffix == ".jsonl":
        return [comparable(json.loads(line)) for line in file.read_text("utf-8").splitlines()]
    if file.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(file, "numpy") as opened:
            arrays = {name: opened.get_tensor(name) for name in sorted(opened.keys())}
            return {"header": comparable(dict(opened.metadata() or {})), **arrays}
    if file.suffix == ".npz":
        with np.load(file) as arrays:
            return {name: _card(arrays[name]) for name in sorted(arrays.files)}
    return file.read_bytes()


def _card(array: Any) -> Any:
    if isinstance(array, bytes):  # an entry that is not an array, such as a card
        return comparable(array.decode("utf-8"))
    return comparable(str(array)) if array.dtype.kind == "U" else array


def files(folder: Path) -> dict[str, Path]:
    """{name: file}, the settings first, which explain all other differences; names are within the run folder."""
    found = {}
    for file in sorted(folder.rglob("*"), key=lambda file: (file.name != "config.json", file)):
        if file.is_file() and file.name not in WHEN and file.suffix != ".html":
            parts = file.relative_to(folder).parts
            found["/".join(parts[1:] or parts)] = file
    return found


def compare(one: Path, other: Path) -> list[str]:
    """A line for each file that differs, and for a run folder with another name."""
    lines, left, right = [], files(one), files(other)
    for name in left:
        if name in right and left[name].read_bytes() != right[name].read_bytes():
            found = first_difference(content(left[name]), content(right[name]))
            lines += [f"{name}: {found}"] if found else []
    lines += [f"{name} is only in one of them" for name in sorted(left.keys() ^ right.keys())]
    runs = [", ".join(sorted(path.name for path in folder.iterdir() if path.is_dir())) for folder in (one, other)]
    return lines if runs[0] == runs[1] else [*lines, f"the run is {runs[0]} against {runs[1]}"]


# ---------------------------------------------------------------------------------------------------------------------
# Running


@contextlib.contextmanager
def source(commit: str | None, folder: Path) -> Iterator[Path]:
    """The `src` of a commit, in a worktree that is removed again; of the working tree without one."""
    if commit is None:
        yield ROOT / "src"
        return
    subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "-q", "--detach", str(folder), commit], check=True)
    try:
        yield folder / "src"
    finally:
        subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(folder)], check=True)


def run_jobs(src: Path, folder: Path, cache: Path, names: list[str]) -> bool:
    """All jobs against this source; whether all of them worked."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(src),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        # What one has compiled, the other need not compile again unless it is something else.
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
    command = [sys.executable, str(ROOT / "tests" / "golden_jobs.py"), "--run", str(folder)]
    command += ["--jobs", *names] if names else []
    return subprocess.run(command, env=environment, stdout=sys.stderr).returncode == 0


def resolved(commit: str) -> str:
    found = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--verify", "-q", f"{commit}^{{commit}}"], capture_output=True, text=True
    )
    if found.returncode:
        print(f"error: there is no commit {commit!r}", file=sys.stderr)
        raise SystemExit(2)
    return found.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE", help="a commit")
    parser.add_argument("other", metavar="OTHER", nargs="?", help="a commit; the working tree when not given")
    parser.add_argument("--jobs", nargs="+", default=[], metavar="NAME", help="only these jobs, and what they need")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the files of both there")
    parser.add_argument("--gone", nargs="+", default=[], metavar="NAME", help="settings that are left out")
    given = parser.parse_args()
    # A file's own hash covers the settings on its card.
    GONE.update([*given.gone, "tacit.sha256"] if given.gone else [])
    jobs = golden_jobs.needed(given.jobs)
    commits = [resolved(given.base), None if given.other is None else resolved(given.other)]
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        results = (given.keep or place).resolve()
        worked = []
        for side, commit in zip(("base", "other"), commits, strict=True):
            with source(commit, place / f"source-{side}") as src:
                print(f"{side}: {commit or 'the working tree'}", file=sys.stderr)
                worked.append(run_jobs(src, results / side, place / "jax", given.jobs))
        same = all(worked)
        for job in jobs:
            one, other = results / "base" / job.name, results / "other" / job.name
            if not (one.exists() and other.exists()):
                print(f"{job.name:<18} was not run by {'base' if not one.exists() else 'other'}")
                same = False
                continue
            different = compare(one, other)
            print(f"{job.name:<18} {'same' if not different else 'differs: ' + different[0]}", end="")
            print(f" (and {len(different) - 1} more)" if len(different) > 1 else "")
            same = same and not different
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
