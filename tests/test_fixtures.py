"""Files that version 0.1 wrote still open, can be measured, explained, reported and resumed, with the same results."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden_helpers import difference, same_machine
from golden_jobs import JOBS, numbers, run_folder
from tacit import Run, demos, load_cost
from tacit.explain import in_words

FIXTURES = Path(__file__).parent / "fixtures" / "v0.1"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text("utf-8"))
MACHINE = re.compile(rb"/(work|tmp|root|home|Users)/")

# The jobs are too short to be sensible, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def copied(kind: str, name: str, folder: Path) -> Path:
    """A run folder of the fixtures, below folder/NAME as the job would have made it."""
    shutil.copytree(FIXTURES / kind / name, folder / name)
    return run_folder(folder / name)


@pytest.mark.parametrize("name", EXPECTED["finished"])
def test_a_finished_run_is_read(name: str, tmp_path: Path) -> None:
    path = copied("finished", name, tmp_path)
    assert Run.open(path).done
    assert difference(numbers(path, None), EXPECTED["finished"][name]) is None
    models = [file.stem for file in (path / "model").glob("*.safetensors")]
    assert "policy" in models
    for model in models:
        assert Run.open(path).load_model(model)[0]


@pytest.mark.parametrize("name", EXPECTED["finished"])
def test_a_finished_run_is_measured_and_reported(name: str, tmp_path: Path, cli: Any) -> None:
    path = copied("finished", name, tmp_path)
    before = len(Run.open(path).evals())
    output = cli("eval", path, "--episodes", 3, "--json")
    assert output.status == 0, output.stderr
    assert output.json()["episodes"] == 3
    assert len(Run.open(path).evals()) == before + 1
    output = cli("report", path, "-o", tmp_path / "report.html")
    assert output.status == 0, output.stderr
    assert (tmp_path / "report.html").read_text("utf-8").rstrip().endswith("</html>")


def test_an_evaluation_gives_the_same_numbers_again(tmp_path: Path, cli: Any) -> None:
    """The mce run was evaluated with five episodes."""
    path = copied("finished", "mce", tmp_path)
    assert cli("eval", path, "--episodes", 5).status == 0
    *_, stored, again = Run.open(path).evals()
    assert difference(again, stored) is None


@pytest.mark.parametrize("name", ["mce", "mce-exact"])
def test_a_cost_is_explained(name: str, tmp_path: Path, cli: Any) -> None:
    """Rules are written otherwise today: the folder has the old explanation, explained.json today's."""
    path = copied("finished", name, tmp_path)
    old = json.loads((path / "explanation.json").read_text("utf-8"))
    output = cli("explain", path, "--json")
    assert output.status == 0, output.stderr
    again = json.loads((path / "explanation.json").read_text("utf-8"))
    expected = json.loads((FIXTURES / "explained.json").read_text("utf-8"))[name]
    assert difference(again, expected) is None, difference(again, expected)
    assert again["threshold"] == pytest.approx(old["threshold"])


@pytest.mark.parametrize("name", ["mce", "mce-exact"])
def test_an_old_explanation_is_put_into_words(name: str) -> None:
    old = json.loads((run_folder(FIXTURES / "finished" / name) / "explanation.json").read_text("utf-8"))
    assert "fidelity" in old
    assert any("covers" in line for line in in_words(old))


def test_a_solution_is_certified(tmp_path: Path, cli: Any) -> None:
    output = cli("certify", copied("finished", "mce-exact", tmp_path))
    assert output.status == 0, output.stderr


@pytest.mark.parametrize("name", ["mce", "mce-exact", "bc"])
def test_the_same_command_finds_the_finished_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    """The settings still have the same name."""
    copied("finished", name, tmp_path)
    shutil.copyfile(FIXTURES / "demos.npz", tmp_path / "demos.npz")
    monkeypatch.chdir(tmp_path)
    output = cli(*JOBS[name].words, "--out", name, "--json")
    assert output.status == 0, output.stderr
    assert "is finished already" in output.stderr
    assert len(list(Path(name).iterdir())) == 1


@pytest.mark.parametrize("name", EXPECTED["interrupted"])
def test_an_interrupted_run_is_resumed_as_if_nobody_had_interrupted_it(name: str, tmp_path: Path, cli: Any) -> None:
    path = copied("interrupted", name, tmp_path)
    assert not Run.open(path).done
    output = cli("resume", path, "--json")
    assert output.status == 0, output.stderr
    opened = Run.open(path)
    assert opened.done
    (resumed,) = opened.read("provenance.json")["resumed"]
    assert resumed["step"] == 2
    resumed_numbers, stored = numbers(path, None), EXPECTED["interrupted"][name]
    # Summaries say more since then; nothing that they said is gone.
    resumed_numbers["summary"] = {key: resumed_numbers["summary"][key] for key in stored["summary"]}
    found = difference(resumed_numbers, stored)
    assert found is None, found


@pytest.mark.skipif(not same_machine(), reason="the fixtures were made on a machine that rounds otherwise")
def test_a_resumed_run_has_the_models_of_the_uninterrupted_one(tmp_path: Path, cli: Any) -> None:
    path, whole = copied("interrupted", "mce", tmp_path), run_folder(FIXTURES / "finished" / "mce")
    assert cli("resume", path, "--json").status == 0
    for name in ("policy", "cost", "map"):
        found, stored = (Run.open(one).load_model(name)[0] for one in (path, whole))
        assert found.keys() == stored.keys()
        for key, array in stored.items():
            np.testing.assert_allclose(found[key], array, rtol=1e-3, atol=1e-4, err_msg=f"{name} {key}")


def test_a_cost_file_gives_the_same_costs() -> None:
    cost = load_cost(FIXTURES / "cost.safetensors")
    found = cost(np.array(EXPECTED["cost"]["observations"]))
    np.testing.assert_allclose(found, EXPECTED["cost"]["costs"], rtol=1e-4)


def test_demonstrations_are_read(cli: Any) -> None:
    loaded = demos.load(FIXTURES / "demos.npz")
    assert len(loaded) == 6
    assert cli("demos", "validate", FIXTURES / "demos.npz").status == 0


def test_no_file_tells_where_it_was_made() -> None:
    files = [file for file in FIXTURES.parent.rglob("*") if file.is_file()]
    assert len(files) > 50
    assert sum(file.stat().st_size for file in files) < 1_500_000
    for file in files:
        found = MACHINE.search(file.read_bytes())
        assert found is None, f"{file}: {found}"
