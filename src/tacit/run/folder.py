"""The run folder: the only interface between training and everything downstream (evaluation, plots, reports, sweeps).

    runs/mce-exact-gridworld-s0-3fa1b2c4/
      config.json       algorithm, environment, seed and every setting, resolved; the folder's name is made from it
      provenance.json   versions, commit, processor, threads, command line, times (UTC)
      metrics.jsonl     one line per outer iteration      eval.jsonl   one line per evaluation
      demos.npz         a copy of the demonstrations
      checkpoints/      step-00000010.safetensors, the newest two
      model/            policy.safetensors, cost.safetensors; policy.json, cost.json are their cards for human readers
      summary.json      what the terminal's table shows
      DONE              written last; a folder without it can be resumed

The same settings give the same name, so that the same command resumes an unfinished run and skips a finished one. A
process killed at any moment leaves a folder that opens: every file is written whole (see storage.py), and on resuming
the logs are cut back to where the newest intact checkpoint left them.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from tacit.errors import DISTRIBUTION, UserError
from tacit.run import disk, storage
from tacit.run.lock import RunInUse, acquire, in_use, release
from tacit.run.machine import processor_name
from tacit.run.naming import UNCHANGED, History, identity, run_name

if TYPE_CHECKING:
    from tacit.demos import Demonstrations

__all__ = ["SCHEMA", "Run", "RunInUse", "in_use", "provenance", "run_name", "versions"]

SCHEMA = 1
HELD_OUT = "calibration.npz"
"""Demonstrations that were held out of learning, for a threshold."""
_KEPT_CHECKPOINTS = 2
_LOGS = ("metrics.jsonl", "eval.jsonl")
# What can change a result.
_VERSIONED = ("tacit", "numpy", "scipy", "gymnasium", "safetensors", "jax", "jaxlib", "optax", "equinox", "mujoco")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "XLA_FLAGS")


class Run:
    """One run folder. Make it with `Run.start` or `Run.open`; use it as a context manager while writing into it."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        disk.guard(path)
        self.path = path
        self.config = config
        self.observers: list[Callable[[str, Mapping[str, Any]], None]] = []
        """Called with ("metrics" or "eval", record) for every line that is logged; see `tacit.run.sinks`."""
        self.history: History = UNCHANGED
        """How the settings of the method have changed; set by the code that trains in the folder."""
        self._lock: BinaryIO | None = None

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    # -- opening ------------------------------------------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        root: str | os.PathLike[str],
        *,
        algo: str,
        env: str,
        env_kwargs: Mapping[str, Any],
        seed: int,
        config: Mapping[str, Any],
        demos: Mapping[str, Any] | None = None,
        command: str | None = None,
        history: History = UNCHANGED,
    ) -> Run:
        """The folder for these settings under `root`: a new one, or an existing one that was started before.

        `demos` is {"path": ..., "sha256": ...}; the path is for the reader, the hash decides about the folder's name.
        `history` says how the method's settings have changed since earlier runs (see `tacit.run.naming`).
        """
        settings = {
            "schema": SCHEMA,
            "algo": algo,
            "env": env,
            "env_kwargs": dict(env_kwargs),
            "seed": int(seed),
            "config": dict(config),
            "demos": None if demos is None else dict(demos),
        }
        path = Path(root) / run_name(settings, history)
        disk.guard(path)
        if not (path / "config.json").exists():
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(f"cannot make the run folder {path}: {error.strerror}") from None
            lock = acquire(path / ".lock")
            try:
                if not (path / "config.json").exists():  # no other process has made it meanwhile
                    storage.write_json(path / "provenance.json", provenance(command))
                    # The configuration comes last: a folder that has one is complete enough to open.
                    storage.write_json(path / "config.json", settings)
            finally:
                release(path / ".lock", lock)
        run = cls.open(path)
        run.history = history
        if identity(run.config, history) != identity(settings, history):
            raise UserError(
                f"{path}/config.json was changed after the run had started; move that folder away and start again"
            )
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Run:
        """An existing run folder; UserError that says which file is wrong and how to fix it."""
        path = Path(path)
        if not path.is_dir():
            raise UserError(f"there is no run folder {path}" + (" (it is a file)" if path.exists() else ""))
        disk.guard(path)
        file = path / "config.json"
        if not disk.exists(file):
            nested = sorted(child.parent.name for child in path.glob("*/config.json"))
            hint = f"; it contains the runs {', '.join(nested[:5])}: name one of them" if nested else ""
            raise UserError(f"{path} is not a run folder: it has no config.json{hint}")
        config = storage.read_json(file)
        if not isinstance(config, dict) or not isinstance(config.get("schema"), int):
            raise UserError(f"{file} is not the configuration of a run: it has no schema number")
        if config["schema"] != SCHEMA:
            raise UserError(
                f"{file} has schema {config['schema']} but this Tacit reads schema {SCHEMA}: "
                "use the version of Tacit that provenance.json names"
            )
        required: dict[str, type] = {"algo": str, "env": str, "env_kwargs": dict, "seed": int, "config": dict}
        wrong = [key for key, kind in required.items() if not isinstance(config.get(key), kind)]
        wrong += [] if _sound_demos(config.get("demos")) else ["demos"]
        if wrong:
            raise UserError(f"{file} is damaged: {', '.join(wrong)} missing or of the wrong type; start the run again")
        from tacit.envs.options import check_standalone

        check_standalone(config["env"], config["env_kwargs"], file)
        return cls(path, config)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def done(self) -> bool:
        return (self.path / "DONE").exists()

    # -- exclusive use ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Run:
        self._lock = acquire(self.path / ".lock")
        try:
            for leftover in disk.drafts(self.path):
                disk.remove(leftover)
            if not self.done:
                self._go_back_to_checkpoint()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock is not None:
            release(self.path / ".lock", self._lock)
            self._lock = None

    def _go_back_to_checkpoint(self) -> None:
        """Drop log lines after the newest intact checkpoint, because that work will be done and logged again."""
        newest, files = self._newest_checkpoint(), self._checkpoint_files()
        if newest is None and files:
            # A silent restart could throw away days of work and its logs.
            raise UserError(
                f"every checkpoint in {files[0].parent} is damaged ({', '.join(file.name for file in files)}): "
                "put back a copy of one, or remove that folder to start the run again"
            )
        for file in files:
            if newest is None or _step_of(file) > newest[0]:
                disk.remove(file)
        for log in _LOGS:
            storage.truncate_jsonl(self.path / log, newest[2]["lines"][log] if newest else 0)
        before = self._provenance()
        again = {key: value for key, value in provenance("").items() if key in ("versions", "commit", "started")}
        if newest is None:  # no earlier work is kept, so all of it is done by this code
            self.write("provenance.json", {**before, **again})
            return
        earlier = before.get("resumed")
        history = [*(earlier if isinstance(earlier, list) else []), {"step": newest[0], **again}]
        self.write("provenance.json", {**before, "resumed": history})

    # -- logs ---------------------------------------------------------------------------------------------------------

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Add the numbers of one outer iteration to metrics.jsonl."""
        storage.append_jsonl(self.path / "metrics.jsonl", metrics)
        for observer in self.observers:
            observer("metrics", metrics)

    def log_eval(self, record: Mapping[str, Any]) -> None:
        """Add the numbers of one evaluation to eval.jsonl."""
        storage.append_jsonl(self.path / "eval.jsonl", record)
        for observer in self.observers:
            observer("eval", record)

    def metrics(self) -> list[dict[str, Any]]:
        return storage.read_jsonl(self.path / "metrics.jsonl")

    def evals(self) -> list[dict[str, Any]]:
        return storage.read_jsonl(self.path / "eval.jsonl")

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def save_checkpoint(
        self, step: int, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Write everything needed to continue from `step`. Only the last two checkpoints are kept."""
        lines = {}
        for log in _LOGS:
            storage.sync(self.path / log)
            lines[log] = storage.count_jsonl(self.path / log)
        header = {
            "step": int(step),
            "lines": lines,
            "metadata": dict(metadata or {}),
            "run": run_name(self.config, self.history),
        }
        storage.save_arrays(self._checkpoint_file(step), arrays, header)
        for old in self._checkpoint_files()[_KEPT_CHECKPOINTS:]:
            disk.remove(old)

    def latest_checkpoint(self) -> tuple[int, dict[str, np.ndarray], dict[str, Any]] | None:
        """(step, arrays, metadata) of the newest intact checkpoint; damaged ones are skipped with a warning."""
        newest = self._newest_checkpoint()
        return newest and (newest[0], newest[1], newest[2]["metadata"])

    def _newest_checkpoint(self) -> tuple[int, dict[str, np.ndarray], dict[str, Any]] | None:
        for file in self._checkpoint_files():
            try:
                arrays, header = storage.load_arrays(file)
                if not _sound_header(header):
                    raise UserError(f"{file} is not a checkpoint of a run")
            except UserError as error:
                warnings.warn(f"{error}; going back to the checkpoint before it", stacklevel=2)
                continue
            own = run_name(self.config, self.history)
            if header.get("run", own) != own:
                raise UserError(
                    f"{file} is a checkpoint of another run, {header['run']}: remove it or put it back there"
                )
            return header["step"], arrays, header
        return None

    def _checkpoint_file(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step-{step:08d}.safetensors"

    def _checkpoint_files(self) -> list[Path]:
        """Checkpoint files, newest first."""
        files = disk.listed(self.path / "checkpoints", "step-*.safetensors")
        return sorted((file for file in files if _step_of(file) >= 0), key=_step_of, reverse=True)

    # -- results ------------------------------------------------------------------------------------------------------

    def save_model(self, name: str, arrays: Mapping[str, np.ndarray], card: Mapping[str, Any]) -> None:
        """Write model/NAME.safetensors with the card inside, so the file alone suffices, and NAME.json for readers."""
        storage.save_arrays(self.path / "model" / f"{name}.safetensors", arrays, card)
        storage.write_json(self.path / "model" / f"{name}.json", card)

    def load_model(self, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """(arrays, card); UserError if the run has no such model yet or the file is damaged."""
        file = self.path / "model" / f"{name}.safetensors"
        if not file.exists():
            hint = "the run folder is incomplete" if self.done else f"finish it first with `tacit resume {self.path}`"
            raise UserError(f"{self.path} has no {name} ({file.relative_to(self.path)} is missing): {hint}")
        return storage.load_arrays(file)

    def demonstrations(self) -> Demonstrations:
        """The demonstrations of the run: the copy in the folder, or the file that it was started with."""
        recorded = self.config.get("demos") or {}
        for file in (self.path / "demos.npz", recorded.get("path")):
            if file is not None and Path(file).exists():
                demos = _load_demos(file)
                if demos.sha256 != recorded.get("sha256", demos.sha256):
                    raise UserError(f"{file} holds other demonstrations than {self.path} was started with")
                return demos
        raise UserError(f"{self.path} has no demonstrations (demos.npz is missing): start the run again")

    def learned_from(self) -> Demonstrations:
        """The demonstrations that the run learned from, without those that the setting `demonstrations` leaves out."""
        return self.demonstrations().first(int(self.config["config"].get("demonstrations") or 0))

    def held_out(self) -> Demonstrations:
        """The demonstrations that the run has not learned from; UserError if there are none."""
        if (self.path / HELD_OUT).exists():
            return _load_demos(self.path / HELD_OUT)
        used, whole = self.config["config"].get("demonstrations") or 0, self.demonstrations()
        if 0 < used < len(whole):
            return whole.subset(np.arange(used, len(whole)))
        raise UserError(
            f"{self.path} has learned from all of its demonstrations: give others with --demos FILE, or learn again "
            "with --calibration N, which holds out N of them for the threshold"
        )

    def write(self, name: str, obj: object) -> None:
        """Write a further JSON file of the folder, such as certificate.json."""
        storage.write_json(self.path / name, obj)

    def read(self, name: str) -> Any:
        """Read a JSON file of the folder."""
        return storage.read_json(self.path / name)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json, the finishing time and, last of all, DONE."""
        storage.write_json(self.path / "summary.json", summary)
        finished = _now()
        storage.write_json(self.path / "provenance.json", {**self._provenance(), "finished": finished})
        storage.atomic_write_text(self.path / "DONE", finished + "\n")

    def _provenance(self) -> dict[str, Any]:
        """What was recorded at the start; {} with a warning if it is lost, because the run is still usable."""
        try:
            return dict(self.read("provenance.json"))
        except (UserError, TypeError, ValueError) as error:
            warnings.warn(f"the provenance of {self.path} is lost: {error}", stacklevel=3)
            return {}


# ---------------------------------------------------------------------------------------------------------------------
# Checks of what was read


def _load_demos(file: str | os.PathLike[str]) -> Demonstrations:
    from tacit.demos import load  # which needs this package

    return load(file)


def _sound_demos(demos: Any) -> bool:
    """Whether the value is None, or names demonstrations by a hash and perhaps a path."""
    if demos is None:
        return True
    return isinstance(demos, dict) and all(isinstance(demos.get(key), str | None) for key in ("sha256", "path"))


def _sound_header(header: Mapping[str, Any]) -> bool:
    """Whether the value is the header of a checkpoint: a step, the lengths of the logs, and the learner's entries."""
    lines = header.get("lines")
    counts = [header.get("step"), *(lines.get(log) for log in _LOGS)] if isinstance(lines, dict) else [None]
    return all(type(count) is int and count >= 0 for count in counts) and isinstance(header.get("metadata"), dict)


def _step_of(checkpoint: Path) -> int:
    """The step in a checkpoint's name; -1 if it has none."""
    digits = checkpoint.stem.removeprefix("step-")
    return int(digits) if digits.isascii() and digits.isdigit() else -1


# ---------------------------------------------------------------------------------------------------------------------
# Provenance


def provenance(command: str | None = None) -> dict[str, Any]:
    """Where numbers come from: versions, commit, processor, threads, command line and time."""
    return {
        "versions": {"python": platform.python_version(), **versions(_VERSIONED)},
        "commit": _commit(),
        "platform": platform.platform(),
        "cpu": processor_name(),
        "cpu_count": os.cpu_count(),
        "threads": {name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ},
        "command": command if command is not None else shlex.join(sys.argv),
        "started": _now(),
        "finished": None,
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Installed versions, found without importing packages."""
    installed = {}
    for package in packages:
        try:
            installed[package] = metadata.version(DISTRIBUTION if package == "tacit" else package)
        except metadata.PackageNotFoundError:
            continue
    return installed


def _commit() -> str | None:
    """The commit of the source tree, with `-dirty` if it was changed; None for an installed package."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
