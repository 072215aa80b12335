"""Two processes on one run folder: the second is told who has it. What a dead process left behind is nobody's lock."""

import os
import signal
import subprocess
import sys

import pytest

from tacit.errors import UserError
from tacit.run import Run, RunInUse, in_use

HOLDER = """
import sys, time
from tacit.run import Run
with Run.open(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(300)
"""


@pytest.fixture
def run(tmp_path):
    kwargs = {"algo": "mce-exact", "env": "tacit/Gridworld-v0", "env_kwargs": {}, "config": {}}
    return Run.start(tmp_path, seed=0, **kwargs)


@pytest.fixture
def holder(run):
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(run.path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_the_second_process_is_told(run, holder):
    before = {file: file.read_bytes() for file in run.path.iterdir()}
    with pytest.raises(RunInUse) as caught, run:
        pass
    assert f"{run.path} is in use by process {holder.pid} on " in str(caught.value)
    assert "wait for it to end or stop it first" in str(caught.value)
    assert f"process {holder.pid}" in in_use(run.path)
    after = {file: file.read_bytes() for file in run.path.iterdir()}
    assert before == after, "the second process has touched the folder"
    # Looking is allowed.
    assert Run.open(run.path).metrics() == []


def test_a_lock_of_a_dead_process_is_taken_over(run, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert f"process {holder.pid}" in (run.path / ".lock").read_text()
    assert in_use(run.path) is None
    with run:
        assert f"process {os.getpid()}" in (run.path / ".lock").read_text()
    assert not (run.path / ".lock").exists()


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"process 1 on elsewhere since 2020", b"x" * 100_000])
def test_what_a_leftover_says_does_not_matter(run, content):
    """The number in it may be a living process by now, of another program or on another machine."""
    for text in (content, f"process {os.getpid()} on here".encode()):
        (run.path / ".lock").write_bytes(text)
        assert in_use(run.path) is None
        (run.path / ".lock").write_bytes(text)
        with run:
            pass


def test_a_stopped_process_still_has_it(run, holder):
    os.kill(holder.pid, signal.SIGSTOP)
    with pytest.raises(UserError, match=f"process {holder.pid} "):
        run.__enter__()
    os.kill(holder.pid, signal.SIGCONT)
