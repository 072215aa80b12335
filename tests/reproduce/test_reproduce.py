"""Experiments: the numbers, the table and the figure that are made of them, and the command."""

import json

import numpy as np
import pytest

from tacit.errors import UserError
from tacit.reproduce import EXPERIMENTS, exact_stochasticity, find


@pytest.fixture(scope="module")
def results():
    """Two sets at two slips: enough to see the shape of the real thing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_stochasticity, "SLIPS", (0.0, 0.3))
        return exact_stochasticity.measure(2)


def test_every_repetition_is_kept(results):
    for name in exact_stochasticity.METHODS:
        records = results["methods"][name]
        assert [(r["slip"], r["seed"]) for r in records] == [(0.0, 0), (0.0, 1), (0.3, 0), (0.3, 1)]
    assert json.loads(json.dumps(results)) == results


def test_the_claims(results):
    """The likelihood stays close to the expert where the paper's dual settings do not constrain at all."""

    def excess(name, slip):
        return np.array([r["excess_violation_occupancy"] for r in results["methods"][name] if r["slip"] == slip])

    assert (np.abs(excess("likelihood", 0.3)) < 0.06).all()
    assert (excess("paper", 0.3) > 1.0).all()
    assert all(r["budget"] > 0 for r in results["methods"]["moments"] if r["slip"] == 0.3)
    assert all(r["budget"] == 0 for r in results["methods"]["moments"] if r["slip"] == 0.0)
    expert = {r["slip"]: r["return"] for r in results["expert"]}
    for record in results["methods"]["likelihood"]:
        assert record["return"] >= expert[record["slip"]] * 1.03  # returns are negative


def test_table_and_figure(results):
    text = exact_stochasticity.table(results)
    assert text.count("| likelihood |") == len(exact_stochasticity.COLUMNS)
    row = next(line for line in text.splitlines() if line.startswith("| expert |"))
    assert f"{results['expert'][0]['return']:.3f}" in row
    assert exact_stochasticity.figure(results)[:8] == b"\x89PNG\r\n\x1a\n"


def test_sets_without_solution_are_counted(results):
    records = [dict(r) for r in results["methods"]["statistical"]]
    records[-1] = {"slip": 0.3, "seed": 1, "status": "infeasible", "seconds": 0.1}
    more = [dict(r, seed=2) for r in records if r["seed"] == 0]
    changed = {**results, "sets": 3, "methods": {"statistical": [*records, *more]}}
    assert "n=2" in exact_stochasticity.table(changed)


def test_unknown_names(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="did you mean 'exact-stochasticity'"):
        find("exact-stochastity")
    assert cli("reproduce", "nothing").status == 2
    assert cli("reproduce").status == 2
    assert cli("reproduce", "exact-stochasticity", "--sets", 1).status == 2
    listed = cli("reproduce", "--list")
    assert listed.status == 0
    assert all(name in listed.stdout for name in EXPERIMENTS)
    assert cli("reproduce", "exact-stochasticity", "--redraw", "--out", "nowhere").status == 2
