"""The highway experiments: which runs they are made of, and what table and figure say about them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tacit.algorithms import ALGORITHMS
from tacit.reproduce import EXPERIMENTS, Experiment
from tacit.reproduce.figures import driving as figure
from tacit.reproduce.highway import BASELINES
from tacit.reproduce.results import Results
from tacit.reproduce.tables import driving as table

NAMES = ("traffic", "traffic-beta", "traffic-pretraining")
TASKS = ("Distance", "Velocity")


def experiment(name: str) -> Experiment:
    entry = EXPERIMENTS[name]
    assert isinstance(entry, Experiment)
    return entry


def record(label: str, seed: int, goal: float, violations: float) -> dict[str, Any]:
    row = {
        "return": 50 * goal - 10 * (1 - goal),
        "terminated_return": 40.0,
        "goal_rate": goal,
        "collision_rate": 0.0,
        "off_road_rate": 0.0,
        "time_out_rate": 1 - goal,
        "violation_rate_step": violations,
        "violation_rate_episode": 0.07,
        "violation_rate_legal_start": 0.001,
        "initial_violation_rate": 0.06,
    }
    curves = {"steps": [1000, 2000], "return": [0.0, 10.0], "violations": [0.1, violations]}
    quality = {"auroc": 0.9, "auroc_cost": 0.8} if "mce" in label else None
    shared = {"label": label, "seed": seed, "steps": 2000, "curves": curves, "cost_quality": quality}
    return {**shared, "stochastic": row, "deterministic": row, "threshold": {"found": "v_ego_x > 39"}}


@pytest.mark.parametrize("name", NAMES)
def test_jobs_are_what_the_rows_say(name: str) -> None:
    wanted = experiment(name).jobs([0, 1])
    assert len({(job.label, job.seed) for job in wanted}) == len(wanted)
    for task in TASKS:
        rows = {job.label.partition(": ")[2] for job in wanted if job.label.startswith(task)}
        assert rows == set(experiment(name).rows)
    for job in [*wanted, *experiment(name).jobs([0], quick=True)]:
        ALGORITHMS[job.algo].config(job.env, job.preset, job.settings)  # no setting that the algorithm lacks


def test_baselines_have_the_same_engine() -> None:
    jobs = experiment("traffic").jobs([0])
    wanted = {job.label.partition(": ")[2]: job for job in jobs if job.label.startswith("Velocity")}
    assert set(BASELINES) <= set(wanted)
    reference = ALGORITHMS["mce"].config("tacit/HighwayVelocity-v0", "reference")
    for name in BASELINES:
        job = wanted[name]
        config = ALGORITHMS[job.algo].config(job.env, job.preset, job.settings)
        for setting in ("gamma", "total_steps", "n_envs", "bootstrap_steps", "forward_steps"):
            if hasattr(config, setting):
                assert getattr(config, setting) == getattr(reference, setting), (name, setting)


def test_the_ablations_change_one_thing() -> None:
    by_label = {job.label: job for job in experiment("traffic-beta").jobs([0])}
    settings = [by_label[f"Distance: beta {beta:g}"].settings for beta in (1e-5, 1e-4, 1e-3, 1e-2)]
    assert [s["beta"] for s in settings] == [1e-5, 1e-4, 1e-3, 1e-2]
    assert all({**s, "beta": 0} == {**settings[0], "beta": 0} for s in settings)
    by_label = {job.label: job for job in experiment("traffic-pretraining").jobs([0])}
    for task in TASKS:
        epochs = [by_label[f"{task}: {row}"].settings["pretrain_epochs"] for row in ("with pre-training", "without")]
        assert epochs == [20, 0]


def test_the_table_compares_with_the_expert_and_says_that_traffic_is_simulated() -> None:
    runs = [record(f"{task}: expert", seed, 0.9, 0.02) for task in TASKS for seed in (0, 1)]
    runs += [record("Distance: mce, reference", seed, 0.8 + 0.1 * seed, 0.03 + 0.02 * seed) for seed in (0, 1)]
    lost = {"label": "Velocity: mce, reference", "seed": 0}
    text = table(experiment("traffic"), cast(Results, {"runs": runs, "missing": [lost]}))
    assert "simulated" in text
    lines = [line for line in text.splitlines() if line.startswith("| mce, reference")]
    cells = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert cells[1] == "2"
    assert cells[4] == "85.0"
    assert cells[8] == "4.00"
    assert cells[9] == "+2.00 [+1.00, +3.00]"
    assert cells[-2] == "6.0"
    assert cells[-1] == "80.0 / 3.00, 90.0 / 5.00"
    assert set(lines[1].replace("mce, reference", "")) <= set("|- ")  # Velocity is missing
    assert "gacl" not in text


@pytest.mark.parametrize("name", NAMES)
def test_figures_draw_what_is_there(name: str) -> None:
    rows = [row for row in experiment(name).rows if row != "expert"]
    runs = [record(f"Distance: {rows[0]}", 0, 0.9, 0.02), record("Distance: expert", 0, 0.9, 0.02)]
    without_curves = record(f"Velocity: {rows[-1]}", 0, 0.9, 0.02) | {"curves": {}}
    picture = figure(experiment(name), cast(Results, {"runs": [*runs, without_curves], "missing": []}))
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000
