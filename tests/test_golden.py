"""The short jobs of golden_jobs.py give the stored numbers: what they learn in two iterations, and their summaries.

Numbers that change on purpose are written again with `python tests/golden_jobs.py --renew`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden_helpers import difference
from golden_jobs import JOBS, STORED, chain, numbers, run

# The jobs are too short to be sensible, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("name", [job.name for job in JOBS.values() if job.after is None])
def test_numbers_are_the_stored_ones(name: str, tmp_path: Path) -> None:
    """A job and those that go on with its run, which is made once."""
    for job in chain(name):
        found = numbers(run(job, tmp_path))
        stored = json.loads((STORED / f"{job.name}.json").read_text("utf-8"))
        assert found["summary"], job.name
        assert difference(found, stored) is None, f"{job.name}: {difference(found, stored)}"


def test_every_algorithm_has_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    from tacit.cli import main

    main(["learn", "--help"])
    listed = capsys.readouterr().out.partition("Algorithms:\n")[2].partition("\n\n")[0].splitlines()
    algorithms = {line.split()[0] for line in listed} - {"MODULE:NAME"}
    assert {"mce", "mce-exact", "vicrl"} <= algorithms
    assert algorithms <= {job.words[1] for job in JOBS.values() if job.words[:1] == ("learn",)}


def test_every_stored_number_has_a_job() -> None:
    assert {file.stem for file in STORED.glob("*.json")} == set(JOBS)


def test_a_difference_is_found() -> None:
    one = {"metrics": [{"loss": 1.0, "note": "a"}], "summary": {"list": [0.0, 2.0], "detection": 3.0}}

    def against(close: bool = True, **other: object) -> str | None:
        return difference(one, {**one, **other}, close=close)

    def summary(*numbers: float, detection: float = 3.0) -> dict[str, object]:
        return {"list": list(numbers), "detection": detection}

    assert against() is None
    assert against(summary=summary(1e-9, 2.0001)) is None
    assert against(summary=summary(0.0, 2.001)) == "summary.list[1]: 2.0, stored 2.001"
    assert against(summary=summary(0.0)) == "summary.list: 2 entries, stored 1"
    assert against(metrics=[{"loss": 1.0, "note": "b"}]) == "metrics[0].note: 'a', stored 'b'"
    assert against(metrics=[{"loss": 1.0}]) == "metrics[0]: note is only in one of them"
    assert against(close=False, summary=summary(0.0, 2.1, detection=9.0)) is None
    assert against(close=False, summary=summary(0.0, 3.0)) == "summary.list[1]: 2.0, stored 3.0"
