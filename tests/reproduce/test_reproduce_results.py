"""Results on disk: both files, older files, damaged files, and how much the committed results weigh."""

import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import UserError
from tacit.reproduce import EXPERIMENTS, Measured
from tacit.reproduce import results as results_file
from tacit.reproduce.runner import draw
from tacit.run import storage

COMMITTED = Path(__file__).parents[2] / "results"


def a_run(label, seed, commit="abc", **more):
    curves = {"steps": [1, 2], "return": [0.5, float("nan")]}
    about = {"label": label, "run": f"run-{seed}", "seed": seed, "seconds": 1 / 3, "commit": commit}
    return {**about, "versions": {"numpy": "2"}, "stochastic": {"return": 2 / 3, "n": 4}, "curves": curves, **more}


def some_results():
    runs = [a_run("Ant: mce", 0), a_run("Ant: mce", 1, source=None), a_run("Ant: bc", 0, commit="def")]
    runs[2].pop("curves")
    return {"schema": 2, "provenance": {"command": "tacit"}, "runs": runs, "missing": []}


def test_what_is_written_is_read(tmp_path):
    results = some_results()
    results["runs"][0]["threshold"] = {"found": None, "error": 0.25}
    results["runs"][1]["source"] = {"charge": {"kind": "excess"}, "empty": {}, "a.b": {"c.d": 1}}
    before = storage.to_json(results)
    results_file.write(tmp_path / "a.json", results)
    assert storage.to_json(results) == before  # what was given is not changed
    assert storage.to_json(results_file.read(tmp_path / "a.json"), sort_keys=True) == storage.to_json(
        results, sort_keys=True
    )
    small = results_file.read(tmp_path / "a.json", curves=False)
    assert [("curves" in run, run["commit"]) for run in small["runs"]] == [(False, "abc")] * 2 + [(False, "def")]


def test_one_line_per_run_and_shared_entries_once(tmp_path):
    results_file.write(tmp_path / "a.json", some_results())
    text = (tmp_path / "a.json").read_text()
    assert sum('"Ant: mce"' in line for line in text.splitlines()) == 2
    assert text.count('"abc"') == text.count('"def"') == 1
    raw = storage.read_json(tmp_path / "a.json")
    assert raw["curves"] == "a.curves.json.xz"
    assert raw["builds"]["columns"] == [["commit", "versions.numpy"]]
    assert raw["builds"]["rows"] == [[0, "abc", "2"], [0, "def", "2"]]


def test_results_without_curves_leave_no_second_file(tmp_path):
    results = some_results()
    results_file.write(tmp_path / "a.json", results)
    for run in results["runs"]:
        run.pop("curves", None)
    results_file.write(tmp_path / "a.json", results)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert len(results_file.read(tmp_path / "a.json")["runs"]) == 3


def test_results_of_the_first_schema_are_read(tmp_path):
    older = {**some_results(), "schema": 1}
    storage.write_json(tmp_path / "a.json", older)
    assert storage.to_json(results_file.read(tmp_path / "a.json")) == storage.to_json(older)


def test_damaged_files_are_named(tmp_path):
    file, beside = tmp_path / "a.json", tmp_path / "a.curves.json.xz"
    results_file.write(file, some_results())
    whole = beside.read_bytes()
    bomb = lzma.compress(b" " * (storage.FREE_BYTES + 100))
    for content in (b"", b"no xz", whole[:-20], lzma.compress(b"[]"), lzma.compress(b"{"), bomb):
        beside.write_bytes(content)
        with pytest.raises(UserError, match=r"a\.curves\.json\.xz is damaged"):
            results_file.read(file)
    beside.unlink()
    with pytest.raises(UserError, match=r"a\.curves\.json\.xz does not exist"):
        results_file.read(file)
    for part in ("builds", "runs"):
        raw = storage.read_json(file)
        storage.write_json(tmp_path / "b.json", {**raw, part: []} if part == "builds" else {**raw, part: 7})
        with pytest.raises(UserError, match=r"b\.json is damaged"):
            results_file.read(tmp_path / "b.json", curves=False)


def test_records_of_a_folder(tmp_path):
    results_file.write(tmp_path / "a.json", some_results())
    results_file.write(tmp_path / "b-quick.json", {**some_results(), "quick": True})
    (tmp_path / "c.json").write_text("{")
    storage.write_json(tmp_path / "d.json", [1])
    assert [run["label"] for run in results_file.records_in(tmp_path)] == ["Ant: mce", "Ant: mce", "Ant: bc"]


def test_committed_results_are_light():
    files = sorted(COMMITTED.glob("*.json"))
    assert sum(file.stat().st_size for file in files) < 4_000_000
    assert sum(file.stat().st_size for file in COMMITTED.glob("*.curves.json.xz")) < 2_000_000


def test_committed_runs_have_their_provenance():
    for file in sorted(COMMITTED.glob("*.json")):
        results = results_file.read(file)
        if not isinstance(results, dict) or "missing" not in results:
            continue  # a benchmark, or measured without runs
        assert results["provenance"]["command"].startswith("tacit reproduce")
        for run in results["runs"]:
            assert {"run", "seed", "commit", "versions"} <= run.keys()
            assert all(len(curve) <= 120 for curve in run.get("curves", {}).values())


def test_numbers_of_tables_are_not_rounded(tmp_path):
    results = some_results()
    results["runs"][0]["detection"] = {"auroc": 2 / 3}
    results_file.write(tmp_path / "a.json", results)
    (first, *_) = results_file.read(tmp_path / "a.json")["runs"]
    assert first["stochastic"]["return"] == 2 / 3
    assert first["detection"]["auroc"] == 0.666666667
    assert np.isnan(first["curves"]["return"][1])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({path.stem for path in COMMITTED.glob("*.md")} & EXPERIMENTS.keys()))
def test_committed_tables_are_what_the_numbers_give(name):
    """Change a table, and redraw the results that have it: `tacit reproduce NAME --redraw`."""
    experiment = EXPERIMENTS[name]
    if isinstance(experiment, Measured):
        experiment = replace(experiment, figure=lambda results: b"")
    else:
        experiment = replace(experiment, figure=lambda experiment, results: b"")
    text, _ = draw(experiment, results_file.read(COMMITTED / f"{name}.json"))
    assert text == (COMMITTED / f"{name}.md").read_text()
