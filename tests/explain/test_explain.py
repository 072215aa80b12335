"""Explanations of run folders: a planted constraint in words, its picture, ensembles, the report; damaged folders."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from report_helpers import Page
from tacit import demos as demonstrations
from tacit.cost import Inputs, LearnedCost, load_cost
from tacit.cost.calibration import calibrate_run, scores, usual_threshold
from tacit.cost.ensemble import CostEnsemble, disagree
from tacit.demos.data import Trajectory, from_trajectories
from tacit.errors import UserError
from tacit.explain import explain, in_words, refresh_explanation
from tacit.explain.explanation import load_sample
from tacit.explain.pictures import pictures_of
from tacit.launch import execute, start_run
from tacit.report import load_run, write_report
from tacit.run import Run, storage

WALL = -3.0


def cost_of(place: float, names=("x", "y"), lam: float = 4.0) -> LearnedCost:
    """4 sigmoid(20 (place - x)): forbidden below `place`."""
    d = len(names)
    inputs = Inputs(
        tuple(names), tuple(range(d)), d, 0, np.zeros(d, np.float32), np.ones(d, np.float32), squash=False, clip=1e3
    )
    weights, slopes, offsets = np.zeros(d, np.float32), np.zeros((d, 1), np.float32), np.zeros((d, 1), np.float32)
    weights[0], slopes[0], offsets[0] = lam, -20.0, 20.0 * place
    return LearnedCost(inputs, weights, slopes, offsets)


@pytest.fixture
def deep_run(tmp_path) -> Run:
    """A folder as a deep method leaves it: the agent goes to x = -6 ... 2, demonstrations keep to x > -0.5."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(10):
        obs = np.stack([rng.uniform(-0.5, 2, 41), rng.uniform(-1, 1, 41)], axis=1)
        made.append(Trajectory(obs, np.zeros((40, 1)), np.zeros(40), None, False))
    demos = from_trajectories(made, {"feature_names": ["x", "y"]})
    run = Run.start(
        tmp_path / "runs",
        algo="mce",
        env="my/World-v0",
        env_kwargs={},
        seed=0,
        config={},
        demos={"path": None, "sha256": demos.sha256},
    )
    demonstrations.save(demos, run.path / "demos.npz")
    nominal = np.stack([rng.uniform(-6, 2, 3000), rng.uniform(-1, 1, 3000)], axis=1).astype(np.float32)
    expert = demos.observations[demos.rows_before + 1].astype(np.float32)
    arrays = {
        "expert": expert,
        "nominal": nominal,
        "learner": expert[:100],
        "history": expert[::2],
        "nominal_truth": (nominal[:, 0] < WALL).astype(np.float32),
        "history_truth": np.zeros(len(expert[::2]), np.float32),
        "expert_range": np.stack([expert.min(axis=0), expert.max(axis=0)]),
    }
    with run:
        storage.save_arrays(run.path / "samples.safetensors", arrays)
        for name in ("cost", "map"):
            run.save_model(name, *cost_of(-1.0).to_arrays())
        run.finish({"table": {}, "threshold": {"truth": f"x < {WALL:g}", "found": None}, "boundaries": []})
    return run


def test_demonstrations_that_were_left_aside_set_no_threshold(deep_run):
    """Of a run with --demonstrations 3: the others' costs are of no consequence."""
    with deep_run:  # dear where some of the demonstrations go
        deep_run.save_model("map", *cost_of(-0.49).to_arrays())
    before = explain(deep_run)["threshold"]
    config = deep_run.read("config.json")
    deep_run.write("config.json", {**config, "config": {"demonstrations": 3}})
    run = Run.open(deep_run.path)
    assert run.learned_from().sha256 == run.demonstrations().subset([0, 1, 2]).sha256
    cost, highest = load_cost(run, "map"), float(cost_of(-0.49).of_rows(np.array([[-6.0, 0.0]], np.float32)).max())
    first = explain(run)["threshold"]
    assert first == pytest.approx(usual_threshold(scores(cost, run.demonstrations().first(3)), highest), rel=0.01)
    assert first < before


def test_the_planted_rule(deep_run):
    found = explain(deep_run)
    (clause,) = found["clauses"]
    (bound,) = clause["bounds"]
    assert found["of"] == "map"
    assert (bound["feature"], bound["relation"]) == ("x", "<")
    assert bound["value"] == pytest.approx(-1.0, abs=0.2)
    assert bound["demonstrated"] == pytest.approx(-0.5, abs=0.02)
    assert bound["certain"] == pytest.approx(-6 + 0.1 * 5.5, abs=0.1)
    assert found["sentence"] == (
        f"x < {bound['value']:.3g}; not known between {bound['certain']:.3g} and {bound['demonstrated']:.3g}, "
        "where no demonstration goes"
    )
    assert min(found["coverage"][key] for key in ("precision", "recall")) > 0.95
    assert found["coverage"]["n"] == pytest.approx((3000 + 200) / 4, abs=100)
    assert found["forbids"] == {"demonstrations": 0.0, "n": 400, "held_out": False}
    # Truly forbidden below -3: three fifths of what lies between -6 and -1, and all of it is found.
    assert found["truth"]["precision"] == pytest.approx(0.6, abs=0.05)
    assert found["truth"]["recall"] == 1.0
    assert found["truth"]["certain"]["precision"] == 1.0
    assert found["confidence"] is None
    words = "\n".join(in_words(found))
    assert "precision" in words
    assert "nothing was fitted to" in words


def test_a_confounded_feature_is_named(deep_run):
    """y = -x / 2 of the agent: no demonstration has it, and it may be the reason as well."""
    arrays, meta = storage.load_arrays(deep_run.path / "samples.safetensors")
    arrays["nominal"][:, 1] = -arrays["nominal"][:, 0] / 2
    storage.save_arrays(deep_run.path / "samples.safetensors", arrays, meta)
    assert [one["text"].split(" ")[:2] for one in explain(deep_run)["instead"]] == [["y", ">"]]


def test_without_truth(deep_run):
    arrays, meta = storage.load_arrays(deep_run.path / "samples.safetensors")
    without = {name: array for name, array in arrays.items() if not name.endswith("_truth")}
    storage.save_arrays(deep_run.path / "samples.safetensors", without, meta)
    assert explain(deep_run)["truth"]["recall"] == 1.0  # from the bound that the summary states
    (deep_run.path / "summary.json").write_text("{}")
    found = explain(deep_run)
    assert found["truth"] is None
    assert "not known" in in_words(found)[-1]


def test_a_calibrated_threshold_is_used(deep_run):
    arrays, card = deep_run.load_model("map")
    card = {**card, "threshold": 3.5, "calibration": {"guarantee": "Nine in ten."}}
    with deep_run:
        deep_run.save_model("map", arrays, card)
    found = explain(deep_run)
    assert found["threshold"] == 3.5
    assert found["guarantee"] == "Nine in ten."
    # 4 sigmoid(20 (-1 - x)) = 3.5
    assert found["clauses"][0]["bounds"][0]["value"] == pytest.approx(-1 - np.log(7) / 20, abs=0.05)


def fresh_demonstrations() -> demonstrations.Demonstrations:
    rng = np.random.default_rng(5)
    fresh = []
    for _ in range(20):
        obs = np.stack([rng.uniform(-1.1, 2, 41), rng.uniform(-1, 1, 41)], axis=1)
        fresh.append(Trajectory(obs, np.zeros((40, 1)), np.zeros(40), None, False))
    return from_trajectories(fresh)


def test_a_page_has_one_threshold(deep_run, cli):
    """A run that was calibrated from Python keeps its old explanation; the report does not show it."""
    old = cli("explain", deep_run.path, "--json").json()["threshold"]
    new = calibrate_run(deep_run, fresh_demonstrations(), 0.1)["map"].threshold
    assert deep_run.read("explanation.json")["threshold"] == old != new
    assert load_run(deep_run).explanation["threshold"] == new
    refresh_explanation(deep_run)
    assert deep_run.read("explanation.json")["threshold"] == new


def test_a_new_threshold_makes_a_new_rule(deep_run, cli, tmp_path):
    """The order of the page: explain, calibrate, report. One threshold in the end."""
    first = cli("explain", deep_run.path, "--json").json()
    demonstrations.save(fresh_demonstrations(), tmp_path / "fresh.npz")
    assert cli("calibrate", deep_run.path, "--demos", tmp_path / "fresh.npz").status == 0
    again = deep_run.read("explanation.json")
    assert again["threshold"] == deep_run.read("calibration.json")["map"]["threshold"] > 1.2 * first["threshold"]
    assert again["guarantee"]
    assert again == {
        key: value for key, value in cli("explain", deep_run.path, "--json").json().items() if key in again
    }


def test_the_command_writes_everything(deep_run, cli):
    out = cli("explain", deep_run.path)
    assert out.status == 0
    assert out.stdout.startswith("forbidden: x < ")
    assert (deep_run.path / "explanation.png").read_bytes()[:4] == b"\x89PNG"
    svg = (deep_run.path / "explanation.svg").read_bytes()
    assert b"not known" in svg
    (picture,) = deep_run.read("explanation.json")["pictures"]
    assert picture["features"] == ["x"]
    # The words are printed, and stand in the file for those who do not see the picture.
    assert picture["caption"] in out.stdout
    assert f"<title>{picture['title']}. ".encode() in svg
    assert cli("explain", deep_run.path, "--json").json()["rule"] == deep_run.read("explanation.json")["rule"]
    assert cli("explain", deep_run.path, "--of", "cost").status == 0


def test_an_ensemble_gives_intervals_and_doubt(deep_run, cli):
    places = np.linspace(-1.5, -0.5, 9)
    ensemble = CostEnsemble(tuple(replace(cost_of(place), threshold=2.0) for place in places))
    with deep_run:
        deep_run.save_model("ensemble", *ensemble.to_arrays())
    found = explain(deep_run)
    bound = found["clauses"][0]["bounds"][0]
    assert bound["low"] == pytest.approx(np.quantile(places, 0.05), abs=0.01)
    assert bound["high"] == pytest.approx(np.quantile(places, 0.95), abs=0.01)
    # Members disagree between their places, where a thirteenth of the agent's states and none of the history's lie.
    rows = storage.load_arrays(deep_run.path / "samples.safetensors")[0]
    tried = np.concatenate([rows["nominal"], rows["history"]])[:, 0]
    between = float(((tried > -1.5) & (tried < -0.5)).mean())
    assert found["confidence"]["doubtful"] == pytest.approx(between, abs=0.02)
    assert cli("explain", deep_run.path).stdout.count("Resampled demonstrations put the boundary") == 1


def test_an_ensemble_is_saved_and_votes(tmp_path):
    ensemble = CostEnsemble(tuple(replace(cost_of(place), threshold=2.0) for place in (-2.0, -1.0, 0.0, 1.0)))
    ensemble.save(tmp_path / "e.safetensors")
    again = CostEnsemble.load(tmp_path / "e.safetensors")
    obs = np.array([[-3.0, 0.0], [-1.5, 0.0], [0.5, 0.0], [2.0, 0.0]])
    np.testing.assert_array_equal(again.votes(obs), [1.0, 0.75, 0.25, 0.0])
    np.testing.assert_array_equal(again.doubtful(obs), [False, True, True, False])
    np.testing.assert_allclose(again(obs), np.mean([m(obs) for m in ensemble.members], axis=0))
    np.testing.assert_allclose(again.spread(obs), np.std([m(obs) for m in ensemble.members], axis=0))
    np.testing.assert_array_equal(disagree(np.array([0.0, 0.1, 0.5, 0.9, 1.0])), [False, False, True, False, False])
    arrays, card = ensemble.to_arrays()
    for damage in ({"lam": arrays["lam"][:2]}, {"thresholds": np.zeros((4, 1))}, {"slopes": arrays["slopes"][:, :1]}):
        with pytest.raises(UserError):
            CostEnsemble.from_arrays({**arrays, **damage}, card)
    with pytest.raises(UserError, match="ensemble"):
        CostEnsemble.from_arrays(arrays, {**card, "kind": "cost"})


def test_members_are_fitted_to_resampled_trajectories(deep_run, cli):
    out = cli("explain", deep_run.path, "--ensemble", 3, "--json")
    assert out.status == 0
    assert out.json()["confidence"]["members"] == 3
    ensemble = CostEnsemble.load(deep_run.path / "model" / "ensemble.safetensors")
    assert len({member.threshold for member in ensemble.members}) == 3
    # They learned what the demonstrations avoid: far left is forbidden, where they go is not.
    np.testing.assert_array_equal(ensemble.votes(np.array([[-4.0, 0.0], [1.0, 0.0]])), [1.0, 0.0])
    assert cli("explain", deep_run.path, "--ensemble", 1).status == 2


def test_the_report_shows_the_rule(deep_run, cli):
    cli("explain", deep_run.path)
    with deep_run:
        calibration = {"threshold": 0.5, "accepts": 0.9, "accepts_at_least": 0.8, "demonstrations": 9}
        deep_run.write("calibration.json", {"cost": {**calibration, "power": {"steps": 0.75}}})
    write_report([deep_run], deep_run.path / "report.html")
    page = Page((deep_run.path / "report.html").read_text())
    text = re.sub(r"\s+", " ", " ".join(page.words)).replace("\N{NO-BREAK SPACE}", " ")
    assert "The rule" in text
    assert "not known between" in text
    assert "75 %" in text
    # Each fact is a sentence of its own: what belongs to a line is a list below it.
    source = (deep_run.path / "report.html").read_text()
    assert re.search(
        r"<li>Forbidden: [^<]*(?:<[^>]+>[^<]*)*?<ul><li>This is [^<]* of what the cost rejects\.</li>", source
    )
    assert any(name.startswith("run0-rule") for name in page.ids)


def disc_cost() -> LearnedCost:
    """4 where a ReLU network of 8 directions sees the origin nearer than 1: an octagon."""
    angles = np.arange(8) * np.pi / 4
    first = np.stack([np.cos(angles), np.sin(angles)]).astype(np.float32)
    inputs = Inputs(("x", "y"), (0, 1), 2, 0, np.zeros(2, np.float32), np.ones(2, np.float32), squash=False, clip=1e3)
    weights = (first, np.full((8, 1), -60.0, np.float32))
    biases = (np.full(8, -0.95, np.float32), np.array([4.0], np.float32))
    empty = np.zeros((2, 0), np.float32)
    return LearnedCost(inputs, np.array([4.0], np.float32), empty, empty, weights, biases)


@pytest.fixture
def disc_run(deep_run) -> Run:
    """The agent goes anywhere, demonstrations keep away from a disc; eight of them were held out."""
    rng = np.random.default_rng(1)
    nominal = rng.uniform(-3, 3, (4000, 2)).astype(np.float32)

    def outside(n):
        rows = rng.uniform(-3, 3, (4 * n, 2))
        return rows[np.hypot(*rows.T) > 1.2][:n]

    made = [Trajectory(outside(41), np.zeros((40, 1)), np.zeros(40), None, False) for _ in range(20)]
    demos = from_trajectories(made, {"feature_names": ["x", "y"]})
    demonstrations.save(demos, deep_run.path / "demos.npz")
    config = deep_run.read("config.json")
    demos_entry = {**config["demos"], "sha256": demos.sha256}
    deep_run.write("config.json", {**config, "config": {"demonstrations": 12}, "demos": demos_entry})
    run = Run.open(deep_run.path)
    expert = run.learned_from().observations.astype(np.float32)
    arrays = {
        "expert": expert,
        "nominal": nominal,
        "learner": nominal[:100],
        "expert_range": np.stack([expert.min(axis=0), expert.max(axis=0)]),
        "nominal_truth": (np.hypot(*nominal.T) < 1).astype(np.float32),
        "history": nominal[:200],
        "history_truth": (np.hypot(*nominal[:200].T) < 1).astype(np.float32),
    }
    storage.save_arrays(run.path / "samples.safetensors", arrays)
    run.write("summary.json", {"table": {}, "boundaries": []})
    with run:
        for name in ("cost", "map"):
            run.save_model(name, *disc_cost().to_arrays())
    return run


def test_a_disc_is_explained_and_drawn(disc_run, cli):
    explanation = cli("explain", disc_run.path, "--json").json()
    (clause,) = explanation["clauses"]
    (region,) = clause["regions"]
    assert clause["text"].startswith("(x, y) within 1.")
    assert region["high"] == pytest.approx(1.05, abs=0.1)
    assert region["centre"] == pytest.approx([0.0, 0.0], abs=0.1)
    assert min(explanation["coverage"][key] for key in ("precision", "recall")) > 0.95
    assert explanation["forbids"] == {"demonstrations": 0.0, "n": 8 * 40, "held_out": True}
    assert min(explanation["truth"][key] for key in ("precision", "recall")) > 0.8
    (picture,) = explanation["pictures"]
    assert picture["features"] == ["x", "y"]
    assert explanation["rule"] in picture["caption"]
    svg = (disc_run.path / "explanation.svg").read_text()
    for label in ("demonstrated", "tried by agents", "the rule", "cost at its threshold"):
        assert label in svg
    words = "\n".join(in_words(explanation))
    assert "The rule forbids 0 % of 320 held-out demonstrated states." in words
    write_report([disc_run], disc_run.path / "report.html")
    page = Page((disc_run.path / "report.html").read_text())
    assert "run0-rule-0" in " ".join(page.ids)
    assert "Learned from the demonstration" in page.text or "Learned from" in page.text
    assert explanation["rule"].split(" of ")[0] in page.text.replace("\N{NO-BREAK SPACE}", " ")


def test_pictures_of_an_earlier_rule_are_removed(disc_run, cli):
    (disc_run.path / "explanation-3.png").write_bytes(b"old")
    assert cli("explain", disc_run.path).status == 0
    assert not (disc_run.path / "explanation-3.png").exists()


def test_a_cost_of_named_terms_has_their_pictures(disc_run):
    """The largest terms are drawn, although the rule is about others."""

    class Named:
        def __init__(self, names, size):
            self.names, self.size = names, size

        def of_rows(self, rows):
            return self.size * rows[:, 0]

    plain = disc_cost()
    cost = replace(plain, terms=(Named(("y",), 1.0), Named(("x",), 0.01), Named(("x", "y"), 0.5)))
    sample = load_sample(disc_run, plain)
    explanation = {**explain(disc_run), "clauses": []}
    assert [one.features for one in pictures_of(explanation, cost, sample)] == [("x", "y")]  # y is in that plane
    assert [one.features for one in pictures_of(explanation, plain, sample)] == [("x", "y")]


@pytest.mark.parametrize("content", ["{}", "[1]", '{"kind": "features"}', '{"kind": "cells", "cells": 3}', "not json"])
def test_a_damaged_explanation_does_not_spoil_the_report(deep_run, content):
    (deep_run.path / "explanation.json").write_text(content)
    write_report([deep_run], deep_run.path / "report.html")
    assert "<h2" in (deep_run.path / "report.html").read_text()


def test_folders_without_what_it_takes(deep_run, cli):
    (deep_run.path / "samples.safetensors").unlink()
    out = cli("explain", deep_run.path)
    assert out.status == 2
    assert "samples" in out.stderr
    (deep_run.path / "DONE").unlink()
    assert "not finished" in cli("explain", deep_run.path).stderr


@pytest.fixture(scope="module")
def gridworld_run(tmp_path_factory) -> Run:
    out = tmp_path_factory.mktemp("grid")
    run, data = start_run("mce-exact", "tacit/Gridworld-v0", out=str(out), say=lambda _: None)
    execute(run, data)
    return Run.open(run.path)


def test_cells_of_a_gridworld(gridworld_run, cli):
    found = gridworld_run.read("explanation.json")  # written at the end of the run
    truth = found["truth"]
    assert found["kind"] == "cells"
    assert found["rule"].startswith("rows ")
    assert truth["precision"] > 0.7
    assert truth["recall"] > 0.8
    assert found["coverage"]["precision"] == found["coverage"]["recall"] == 1.0
    marked = {tuple(cell) for cell in found["cells"]}
    assert not marked & {tuple(cell) for cell in found["unknown"]}
    assert {tuple(cell) for cell in found["extrapolated"]} <= marked
    out = cli("explain", gridworld_run.path)
    assert out.status == 0
    assert out.stdout.startswith("forbidden: rows ")
    assert b"strokes: not known" in (gridworld_run.path / "explanation.svg").read_bytes()


def test_cards_say_where_a_cost_comes_from(gridworld_run):
    card = gridworld_run.read("model/cost.json")
    assert card["demonstrations"] == gridworld_run.demonstrations().sha256
    assert card["command"]
    assert "not a proof of safety" in card["limits"][0]
    assert card["metrics"]["auroc"] > 0.9
    assert load_cost(gridworld_run).card["settings"]["algo"] == "mce-exact"
