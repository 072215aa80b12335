"""Tables and figures with every seed: what they show, and what they say about runs that are missing."""

import pytest

from tacit.algorithms import find
from tacit.reproduce import EXPERIMENTS
from tacit.reproduce.experiment import ROBOTS
from tacit.reproduce.figures import FIGURES
from tacit.reproduce.published import PAPER
from tacit.reproduce.tables import TABLES

NAMES = ("table-robots", "table-robots-paper", "decisions", "demos-few")


def table(name, results):
    return TABLES[EXPERIMENTS[name].table](EXPERIMENTS[name], results)


def record(label: str, seed: int, terminated: float, broken: int, error: float | None = 0.0) -> dict:
    agent = {"return": terminated + 1, "terminated_return": terminated, "violation_rate_step": 0.001}
    agent |= {"violation_rate_episode": broken / 100, "count": broken, "n": 100}
    return {
        "label": label,
        "seed": seed,
        "steps": 600_000,
        "seconds": 120.0,
        "stochastic": agent,
        "deterministic": agent,
        "demonstrations": 100.0,
        "n_demonstrations": 10,
        "cost_quality": {"auroc": 0.99, "auroc_cost": 0.9},
        "threshold": {"found": "x < -1", "error": error} if error is not None else {"found": None},
        "resets": 0,
        "curves": {"steps": [1, 2], "return": [1.0, 2.0], "violations": [0.1, float("nan")]},
    }


def test_table_shows_every_seed_and_what_is_missing():
    results = {"runs": [record("Pendulum", 1, 91.0, 2), record("Pendulum", 0, 89.0, 0, error=None)]}
    text = table("table-robots", results)
    row = next(line for line in text.splitlines() if line.startswith("| Pendulum"))
    assert "89.0 (0), 91.0 (2)" in row
    assert "2 of 200" in row
    assert "90.0 ± 1.0" in row
    assert "0.90" in row  # over demonstrations
    assert "| Ant | - |" in text
    assert "none, x < -1" in text
    assert "5,000" in text  # steps a second
    assert "| - | - |" in table("table-robots", {"runs": [record("Ant", 0, 90.0, 0) | {"seconds": None}]})


@pytest.mark.parametrize("name", NAMES)
def test_figures_draw_what_is_there(name):
    experiment = EXPERIMENTS[name]
    label = experiment.jobs([0])[0].label
    figure = FIGURES[experiment.figure]
    assert figure(experiment, {"runs": [record(label, 0, 90.0, 1)]}).startswith(b"\x89PNG")
    assert len(figure(experiment, {"runs": []})) > 1000


@pytest.mark.parametrize("name", NAMES)
def test_jobs_can_be_run(name):
    """Every job resolves to settings that the algorithm accepts, each to a folder of its own."""
    experiment = EXPERIMENTS[name]
    jobs = experiment.jobs(experiment.seeds)
    configs = {(job.env, job.seed, repr(find("mce").config(job.env, job.preset, job.settings))) for job in jobs}
    assert len(configs) == len(jobs) >= 10
    for job in experiment.jobs([0], quick=True):
        config = find("mce").config(job.env, job.preset, job.settings)
        find("mce").check(job.env, {}, config)
        assert config.total_steps < 50_000


def test_the_paper_reports_every_robot():
    assert set(PAPER) == set(ROBOTS)
