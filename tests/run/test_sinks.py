"""TensorBoard and W&B get what the run logs, read back from their own files; and can do a run no harm."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import pytest

from tacit.cli import main
from tacit.errors import UserError
from tacit.run import Run, sinks
from tacit.run.sinks import flat, names_of, observed


@pytest.fixture
def run(tmp_path: Path) -> Run:
    settings: dict[str, Any] = {"env": "tacit/Ant-v0", "env_kwargs": {}, "seed": 0, "config": {"lr": 0.1}}
    return Run.start(tmp_path, algo="expert", **settings, demos=None, command="x")


class Probe:
    """A writer that keeps what it gets, and fails or hangs when told to."""

    seen: list[tuple[dict[str, float], int]]
    fail: BaseException | None = None
    wait: float = 0.0

    def __init__(self, run: Run, step: int) -> None:
        type(self).seen = []
        if isinstance(self.fail, ImportError):
            raise self.fail

    def write(self, numbers: dict[str, float], step: int) -> None:
        time.sleep(self.wait)
        if self.fail is not None:
            raise self.fail
        self.seen.append((dict(numbers), step))

    def close(self) -> None:
        self.seen.append(({"closed": 1.0}, -1))


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> type[Probe]:
    fresh = type("FreshProbe", (Probe,), {})
    monkeypatch.setitem(sinks.WRITERS, "wandb", fresh)
    return fresh


def test_what_is_logged_arrives_in_order(run: Run, probe: type[Probe]) -> None:
    with run, observed(run, ["wandb"]):
        for i in range(50):
            run.log({"iteration": i, "steps": 10 * i, "loss": 1.0 / (i + 1), "bad": float("nan"), "word": "x"})
        run.log_eval({"steps": 500, "learned": {"return": {"value": 3.0, "low": 1.0, "high": 5.0}}})
    assert probe.seen[:50] == [({"loss": 1.0 / (i + 1)}, 10 * i) for i in range(50)]
    assert probe.seen[50:] == [({"eval/learned/return": 3.0}, 500), ({"closed": 1.0}, -1)]
    assert run.observers == []
    assert len(run.metrics()) == 50


def logged(run: Run, n: int, pause: float = 0.0) -> None:
    with run, observed(run, ["wandb"]):
        for i in range(n):
            run.log({"iteration": i, "loss": 1.0})
            time.sleep(pause)


@pytest.mark.parametrize("error", [OSError("disk full"), SystemExit(1), ImportError("no such library")])
def test_an_error_is_one_warning_and_the_run_goes_on(run: Run, probe: type[Probe], error: BaseException) -> None:
    probe.fail = error
    with pytest.warns(UserWarning, match=rf"is no longer logged to wandb \({type(error).__name__}") as said:
        logged(run, 20, pause=0.005)
    assert len(said) == 1
    assert len(run.metrics()) == 20


def test_a_slow_sink_holds_nobody_up(run: Run, probe: type[Probe], monkeypatch: pytest.MonkeyPatch) -> None:
    probe.wait = 30.0
    monkeypatch.setattr(sinks, "PATIENCE", 0.2)
    begun = time.monotonic()
    with pytest.warns(UserWarning, match=r"did not end within 0.2 s"):
        logged(run, 100)
    assert time.monotonic() - begun < 10


def test_a_hanging_sink_does_not_fill_the_memory(run: Run, probe: type[Probe], monkeypatch: pytest.MonkeyPatch) -> None:
    probe.wait = 30.0
    monkeypatch.setattr(sinks, "QUEUED", 5)
    monkeypatch.setattr(sinks, "PATIENCE", 0.1)
    with pytest.warns(UserWarning, match="not accepted the last 5 records") as said:
        logged(run, 30)
    assert len(said) == 1
    assert len(run.metrics()) == 30


def test_names() -> None:
    assert names_of(None) == []
    with pytest.raises(UserError, match="did you mean 'tensorboard'"):
        names_of("tensorbord")


def test_a_missing_package_is_said_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sinks, "find_spec", lambda name: None)
    assert main(["learn", "mce-exact", "tacit/Gridworld-v0", "--log", "wandb", "--out", str(tmp_path / "runs")]) == 2
    assert "pip install '.[wandb]'" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_flat() -> None:
    assert flat({"a": {"b": 1, "c": {"value": 2.0, "low": 0.0}}, "d": True, "e": float("inf"), "f": None}) == {
        "a/b": 1.0,
        "a/c": 2.0,
        "d": 1.0,
    }


# The real ones -------------------------------------------------------------------------------------------------------


def scalars(folder: Path) -> list[tuple[int, str, float]]:
    """(step, tag, value) of TensorBoard's event files: length, its check sum, protobuf, its check sum; again."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for file in sorted(folder.glob("events.*")):
        data, at = file.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            event = Event.FromString(data[at + 12 : at + 12 + length])
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
            at += 12 + length + 4
    return found


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    assert main(["learn", "mce-exact", "tacit/Gridworld-v0", "--log", "tensorboard", "--out", str(tmp_path)]) == 0
    (folder,) = tmp_path.glob("mce-exact-*")
    run = Run.open(folder)
    gaps = [(step, value) for step, tag, value in scalars(folder / "tensorboard") if tag == "gap"]
    assert [step for step, _ in gaps] == [record["iteration"] for record in run.metrics()]
    assert [value for _, value in gaps] == pytest.approx([record["gap"] for record in run.metrics()], rel=1e-6)


def test_wandb_offline(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    with run, observed(run, ["wandb"]):
        for i in range(5):
            run.log({"iteration": i, "steps": 100 * i, "loss": 0.123456 + i})
    (folder,) = (run.path / "wandb").glob("offline-run-*")
    (file,) = folder.glob("*.wandb")
    data = file.read_bytes()
    assert run.name.encode() in data
    for i in range(5):
        assert f"{0.123456 + i}"[:7].encode() in data
