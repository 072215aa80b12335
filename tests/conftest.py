"""Shared by all tests: one thread a process, repeatable property tests, and the command line as a function."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Before NumPy is imported: two test processes share two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# What one test process has compiled, the other and those that they start need not compile again.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")

import pytest
from hypothesis import HealthCheck, settings

# The same examples on every machine and in every run, and no time limit on a busy one.
settings.register_profile(
    "tacit", deadline=None, derandomize=True, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tacit")


@dataclass
class Output:
    """What a call of the command line did."""

    status: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        import json

        return json.loads(self.stdout)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    """`cli("learn", "mce-exact", ...)` runs `tacit learn mce-exact ...` in this process."""
    from tacit.cli import main

    def call(*args: object) -> Output:
        capsys.readouterr()
        status = main([str(arg) for arg in args])
        captured = capsys.readouterr()
        return Output(status, captured.out, captured.err)

    return call
