"""Sweeps on a real local Ray instance; skipped where Ray is not installed (pip install '.[ray]')."""

import os
import re
import signal
import threading
import time

import numpy as np
import pytest

from tacit.errors import UserError
from tacit.run import storage
from tacit.sweep import Job, run_jobs
from tacit.sweep.ray import check_address

SETTINGS = {"total_steps": 10_240, "n_envs": 8, "eval_episodes": 4, "demonstrations": 0, "checkpoint_every": 1}


def test_addresses_where_nobody_is(monkeypatch):
    monkeypatch.setattr("tacit.sweep.ray.find_spec", lambda name: object())
    started = time.monotonic()
    for address in ("127.0.0.1:9", "ray://127.0.0.1:9", "[::1]:9", "localhost:99999999"):
        with pytest.raises(UserError, match="no Ray cluster at"):
            check_address(address)
    for address in ("", "127.0.0.1", "http://127.0.0.1:9", "ray://"):
        with pytest.raises(UserError, match="HOST:PORT"):
            check_address(address)
    assert time.monotonic() - started < 10
    monkeypatch.setattr("tacit.sweep.ray.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"\.\[ray\]"):
        check_address("auto")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_worker_killed_in_the_middle(tmp_path):
    """It is started again, goes on from the checkpoint, and ends with the same policy."""
    pytest.importorskip("ray")
    jobs = [Job("expert", "tacit/Pendulum-v0", seed=seed, settings=SETTINGS) for seed in (0, 1)]
    killed = []

    def kill_one() -> None:
        while not killed:
            for log in (tmp_path / "ray").glob("*-s0-*/metrics.jsonl"):
                owner = re.match(r"process (\d+)", (log.parent / ".lock").read_text())
                if owner and storage.count_jsonl(log) >= 3:
                    killed.append(int(owner[1]))
                    os.kill(killed[0], signal.SIGKILL)
            time.sleep(0.02)

    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    said: list[str] = []
    tasks = run_jobs(jobs, tmp_path / "ray", ray="local", workers=2, report=said.append)
    assert killed
    assert [task.status for task in tasks] == ["done", "done"], said
    assert [task.attempts for task in tasks] == [2, 1]
    assert any("the worker died" in line and "trying again" in line for line in said)
    assert storage.read_json(tasks[0].path / "provenance.json")["resumed"]
    (alone,) = run_jobs(jobs[:1], tmp_path / "alone", workers=1)
    first, second = (storage.load_arrays(t.path / "model" / "policy.safetensors")[0] for t in (tasks[0], alone))
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
