"""kill -9 at random moments, more than fifty times: always resumable, never a corrupt file, the same results.

The killing is done by kills.py in a process of its own, whose docstring says how. A few kills are part of every test
run, the rest is slow: `make test-hard`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kills

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def survive(job: str, times: int, folder: Path, seed: int = 0, **environment: str) -> str:
    script = Path(kills.__file__)
    command = [sys.executable, script, job, str(times), str(seed), folder]
    ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert ended.returncode == 0, ended.stdout + ended.stderr[-4000:]
    print(ended.stdout)
    deaths = int(ended.stdout.split()[1])
    assert deaths >= times
    return ended.stdout


@pytest.mark.parametrize(("job", "times"), [("demos", 2), ("exact", 3)])
def test_a_few_kills(job, times, tmp_path):
    survive(job, times, tmp_path, seed=1)


MANY = {"exact": 14, "demos": 12, "report": 8, "sweep": 8, "expert": 6, "mce": 6}


def test_they_are_at_least_fifty():
    assert sum(MANY.values()) >= 50
    assert MANY.keys() == kills.JOBS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("job", MANY)
def test_many_kills(job, tmp_path):
    cache = {}
    if job in ("expert", "mce"):
        pytest.importorskip("mujoco")
        pytest.importorskip("jax")
        # JAX keeps what it compiles, because every life compiles the same.
        cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "jax"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    said = survive(job, MANY[job], tmp_path, **cache)
    if cache:
        assert " 0 lives began at a checkpoint" not in said


def test_the_comparison_can_fail(tmp_path):
    """A changed number, a lost file and a damaged one are noticed; another duration is not."""
    import numpy as np

    from tacit.errors import UserError
    from tacit.run import storage

    for name in ("one", "two"):
        (tmp_path / name / "run").mkdir(parents=True)
        storage.append_jsonl(tmp_path / name / "run" / "metrics.jsonl", {"iteration": 1, "seconds": hash(name)})
        storage.save_arrays(tmp_path / name / "run" / "cost.safetensors", {"w": np.ones(2)})
    assert kills.results(tmp_path / "one") == kills.results(tmp_path / "two")
    kills.check(tmp_path)
    storage.append_jsonl(tmp_path / "two" / "run" / "metrics.jsonl", {"iteration": 2})
    assert kills.results(tmp_path / "one") != kills.results(tmp_path / "two")
    file = tmp_path / "two" / "run" / "cost.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UserError):
        kills.check(tmp_path)
