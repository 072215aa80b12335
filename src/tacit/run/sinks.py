"""Curves in TensorBoard and Weights & Biases, as observers of `Run.log` and `Run.log_eval`.

    with observed(run, ["tensorboard", "wandb"]):
        ...                                       every algorithm logs as always

What a run writes into its own folder is the record; a sink is a copy for looking at. So it must neither break the run
nor hold it up: records go through a queue to a thread of the sink's own, and whatever goes wrong there becomes one
warning and the end of that sink. TensorBoard's files are in RUN/tensorboard. W&B writes RUN/wandb and sends nothing
(`wandb sync RUN/wandb/offline-run-*` does), unless WANDB_MODE=online asks for it.

A run that is resumed logs again what came after its checkpoint: TensorBoard is told to drop the former values.
"""

from __future__ import annotations

import math
import os
import queue
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from tacit.errors import UserError, did_you_mean, install_command
from tacit.run import disk

if TYPE_CHECKING:
    from tacit.run import Run

PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb"}
QUEUED = 10_000
"""Largest number of waiting records. Further ones are dropped, so a hanging server cannot fill the memory."""
PATIENCE = 60.0
"""Seconds that the end of a run waits for a sink to finish writing."""


class Writer(Protocol):
    """Writes numbers somewhere else."""

    def write(self, numbers: Mapping[str, float], step: int) -> None: ...

    def close(self) -> None: ...


def names_of(option: str | None) -> list[str]:
    """["tensorboard", "wandb"] from "tensorboard,wandb"; UserError for one that does not exist or is not installed."""
    names = [name.strip() for name in (option or "").split(",") if name.strip()]
    for name in names:
        if name not in PACKAGES:
            raise UserError(f"there is no log {name!r}; {did_you_mean(name, PACKAGES)}")
        if find_spec(PACKAGES[name]) is None:
            raise UserError(f"--log {name} needs {PACKAGES[name]}, which is not installed: {install_command(name)}")
    return list(dict.fromkeys(names))


@contextmanager
def observed(run: Run, names: Sequence[str]) -> Iterator[None]:
    """A context in which the run's log also goes to these sinks."""
    with ExitStack() as stack:
        for name in names:
            sink = _Sink(name, run)
            run.observers.append(sink)
            stack.callback(sink.close)
            stack.callback(run.observers.remove, sink)
        yield


def flat(record: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The finite numbers of a record, with nested ones as a/b; of {"value": v, "low": ..., ...} only v."""
    numbers: dict[str, float] = {}
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            inner = {"": value["value"]} if "value" in value else value
            numbers |= {k.rstrip("/"): v for k, v in flat(inner, f"{name}/").items()}
        elif isinstance(value, bool | int | float) and math.isfinite(value):
            numbers[name] = float(value)
    return numbers


class _Sink:
    """A thread that passes records to a writer. If the writer fails, it stops with one warning."""

    def __init__(self, name: str, run: Run) -> None:
        self.name = name
        self._run = run
        self._queue: queue.Queue[tuple[str, dict[str, Any]] | None] = queue.Queue(QUEUED)
        self._failure: BaseException | str | None = None
        self._told = False
        self._thread = threading.Thread(target=self._work, name=f"tacit-{name}", daemon=True)
        self._thread.start()

    def __call__(self, kind: str, record: Mapping[str, Any]) -> None:
        """`kind` is "metrics" or "eval". Never raises and never waits."""
        if self._failure is None:
            try:
                self._queue.put_nowait((kind, dict(record)))
            except queue.Full:
                self._failure = f"it has not accepted the last {QUEUED} records"
        self._tell()

    def close(self) -> None:
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            pass
        else:
            self._thread.join(PATIENCE)
        if self._thread.is_alive() and self._failure is None:
            self._failure = f"it did not end within {PATIENCE:g} s"
        self._tell()

    def _tell(self) -> None:
        """Give the one warning from the thread of the run, because warnings from other threads get lost."""
        if self._failure is not None and not self._told:
            self._told = True
            what = self._failure
            reason = what if isinstance(what, str) else f"{type(what).__name__}: {' '.join(str(what).split())}"
            warnings.warn(
                f"{self._run.name} is no longer logged to {self.name} ({reason}); the run continues",
                stacklevel=3,
            )

    def _work(self) -> None:
        writer: Writer | None = None
        last = 0
        try:
            while (item := self._queue.get()) is not None:
                kind, record = item
                last = int(record.get("steps", record.get("iteration", last)))
                if writer is None:
                    writer = WRITERS[self.name](self._run, last)
                skipped = {key: value for key, value in record.items() if key not in ("steps", "iteration")}
                writer.write(flat(skipped, "eval/" if kind == "eval" else ""), last)
        # Foreign code, servers and disks may fail in any way. The run must not fail with them.
        except BaseException as error:
            self._failure = error
        finally:
            try:
                if writer is not None:
                    writer.close()
            except BaseException as error:
                self._failure = self._failure or error


class _TensorBoard:
    def __init__(self, run: Run, step: int) -> None:
        from tensorboardX import SummaryWriter

        # From this step on: what was written before an interruption is dropped.
        self._writer = SummaryWriter(str(disk.subfolder(run.path / "tensorboard")), purge_step=step, write_to_disk=True)

    def write(self, numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name.replace(" ", "_").replace(",", ""), value, step)

    def close(self) -> None:
        self._writer.close()


class _WandB:
    def __init__(self, run: Run, step: int) -> None:
        import wandb

        settings = run.config
        disk.subfolder(run.path / "wandb")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "tacit"),
            name=run.name,
            id=run.name,  # a resumed run goes on in the same chart
            resume="allow",
            dir=str(run.path),
            mode=os.environ.get("WANDB_MODE", "offline"),  # type: ignore[arg-type,unused-ignore]
            config={**settings["config"], **{key: settings[key] for key in ("algo", "env", "env_kwargs", "seed")}},
            settings=wandb.Settings(silent=True, disable_git=True, save_code=False, console="off"),
        )

    def write(self, numbers: Mapping[str, float], step: int) -> None:
        self._run.log({**numbers, "steps": step})

    def close(self) -> None:
        self._run.finish()


WRITERS: dict[str, Any] = {"tensorboard": _TensorBoard, "wandb": _WandB}
