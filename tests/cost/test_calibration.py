"""Thresholds with a guarantee: the conformal quantile by hand, its coverage by simulation, and on run folders."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta, binom

from tacit import demos as demonstrations
from tacit.cost import Inputs, LearnedCost, load_cost
from tacit.cost.calibration import (
    calibrate,
    calibrate_run,
    conformal_threshold,
    rejected,
    scores,
    set_threshold,
    split,
    step_costs,
    usual_threshold,
)
from tacit.demos.data import Trajectory, from_trajectories
from tacit.errors import UserError
from tacit.launch import execute, start_run
from tacit.run import Run


def steep(at: str = "next") -> LearnedCost:
    """Rises with x."""
    one = Inputs(("x",), (0,), 1, 0, np.zeros(1, np.float32), np.ones(1, np.float32), squash=False)
    arrays = (np.array([2.0], np.float32), np.array([[1.0]], np.float32), np.array([[0.0]], np.float32))
    return LearnedCost(one, *arrays, at=at)


def walks(peaks, steps: int = 4):
    """Trajectories whose largest x after the first step is the given one; they start at x = 100."""
    made = []
    for peak in peaks:
        obs = np.full((steps + 1, 1), -5.0)
        obs[0], obs[2] = 100.0, peak
        made.append(Trajectory(obs, np.zeros((steps, 1)), np.zeros(steps), None, False))
    return from_trajectories(made)


def test_the_quantile_by_hand():
    values = np.arange(1, 20, dtype=float)
    assert conformal_threshold(values, 0.1) == (18.0, 18)
    assert conformal_threshold(values, 0.05) == (19.0, 19)
    assert conformal_threshold(values[::-1], 0.5) == (10.0, 10)
    assert conformal_threshold(np.ones(9), 0.1) == (1.0, 9)
    assert conformal_threshold(values, 1 - 1e-12) == (1.0, 1)


@pytest.mark.parametrize(("n", "delta"), [(8, 0.1), (18, 0.05), (98, 0.01), (0, 0.5)])
def test_too_few_are_refused_with_what_would_do(n, delta):
    with pytest.raises(UserError, match=f"{math.ceil(1 / delta - 1 - 1e-9)} are needed"):
        conformal_threshold(np.zeros(n), delta)
    assert conformal_threshold(np.zeros(n + 1), delta)[1] == n + 1


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0])
def test_delta_is_a_share(delta):
    with pytest.raises(UserError, match="between 0 and 1"):
        conformal_threshold(np.zeros(50), delta)


@pytest.mark.parametrize(("n", "delta"), [(9, 0.1), (20, 0.1), (30, 0.25)])
def test_coverage_by_simulation(n, delta):
    """Over many worlds the share of accepted fresh demonstrations is k / (n + 1), and within each a Beta variable."""
    rng = np.random.default_rng(0)
    worlds, fresh = 4000, 50
    accepted, below = 0, 0
    for _ in range(worlds):
        tau, rank = conformal_threshold(rng.gumbel(size=n), delta)
        accepted += int((rng.gumbel(size=fresh) <= tau).sum())
        below += math.exp(-math.exp(-tau)) < beta.ppf(0.05, rank, n + 1 - rank)
    expected = rank / (n + 1)
    assert expected >= 1 - delta
    # Fresh ones of one world share a threshold: one of each world is binomial, so bound by that much larger spread.
    assert abs(accepted / (worlds * fresh) - expected) < 4 * math.sqrt(expected * (1 - expected) / worlds)
    low, high = binom.ppf([1e-4, 1 - 1e-4], worlds, 0.05)
    assert low <= below <= high


def test_ties_only_make_it_safer():
    rng = np.random.default_rng(1)
    hits = [
        float(rng.integers(3)) <= conformal_threshold(rng.integers(3, size=19).astype(float), 0.1)[0]
        for _ in range(3000)
    ]
    assert np.mean(hits) >= 0.9 - 4 * math.sqrt(0.09 / 3000)


def test_a_score_is_the_largest_cost_of_a_step():
    demos = walks([1.0, -1.0, 3.0])
    cost = steep()
    np.testing.assert_allclose(scores(cost, demos), 2 / (1 + np.exp([-1.0, 1.0, -3.0])), rtol=1e-5)
    # A cost of the state acted in sees the start, and not the last state.
    np.testing.assert_allclose(scores(steep("current"), demos), 2.0, rtol=1e-5)
    assert step_costs(cost, demos).shape == (12,)


def test_calibrating_a_cost():
    demos = walks(np.linspace(-2, 2, 19))
    learned, found = calibrate(steep(), demos, 0.1)
    assert learned.threshold == pytest.approx(2 / (1 + math.exp(-(-2 + 4 * 17 / 18))), rel=1e-5)
    assert found.accepts == pytest.approx(0.9)
    assert found.accepts_at_least == pytest.approx(beta.ppf(0.05, 18, 2))
    assert learned.card["calibration"]["sha256"] == demos.sha256
    caught = rejected(learned, learned.threshold, walks([5.0, 5.0, -5.0, -5.0]))
    assert caught["trajectories"]["value"] == 0.5
    assert caught["steps"] == 2 / 16
    assert caught["trajectories"]["low"] < 0.5 < caught["trajectories"]["high"]


def test_without_calibration_the_same_quantile_or_a_tenth_of_the_highest():
    assert usual_threshold(np.arange(1.0, 20.0), 20.0) == 18.0
    assert usual_threshold([1.0, 2.0], 0.0) == 2.0
    assert usual_threshold(np.zeros(9), 5.0) == 0.5


def test_splitting_leaves_nothing_twice():
    demos = walks(np.arange(10.0))
    shown, held = split(demos, 4, seed=3)
    peaks = [{float(t.observations[2, 0]) for t in part} for part in (shown, held)]
    assert (len(shown), len(held)) == (6, 4)
    assert not peaks[0] & peaks[1]
    assert peaks[0] | peaks[1] == set(range(10))
    assert split(demos, 4, seed=3)[1].sha256 == held.sha256 != split(demos, 4, seed=4)[1].sha256
    for wrong, words in ((10, "cannot be held out"), (0, "cannot be held out"), (-1, "cannot be negative")):
        with pytest.raises(UserError, match=words):
            split(demos, wrong, seed=0)


@pytest.fixture(scope="module")
def gridworld_run(tmp_path_factory) -> Run:
    out = tmp_path_factory.mktemp("runs")
    run, data = start_run("mce-exact", "tacit/Gridworld-v0", out=str(out), calibration=19, say=lambda _: None)
    execute(run, data)
    return Run.open(run.path)


def test_a_run_holds_demonstrations_out(gridworld_run):
    assert len(gridworld_run.demonstrations()) == 31
    assert len(demonstrations.load(gridworld_run.path / "calibration.npz")) == 19
    with pytest.raises(UserError, match="99 are needed"):
        calibrate_run(gridworld_run, None, 0.01)
    found = calibrate_run(gridworld_run, None, 0.1)["cost"]
    cost = load_cost(gridworld_run)
    assert cost.threshold == found.threshold
    assert found.demonstrations == 19
    held = demonstrations.load(gridworld_run.path / "calibration.npz")
    assert (scores(cost, held) <= cost.threshold).mean() >= 18 / 19
    assert found.power["trajectories"]["value"] > 0.95  # without constraint everybody crosses the wall
    assert gridworld_run.read("calibration.json")["cost"]["threshold"] == found.threshold


def test_the_command(gridworld_run, cli, tmp_path):
    out = cli("calibrate", gridworld_run.path, "--delta", 0.2)
    assert out.status == 0
    assert "probability at least 0.8" in out.stdout
    assert "Power: of the agent" in out.stdout
    assert cli("calibrate", gridworld_run.path, "--json").json()["cost"]["demonstrations"] == 19
    assert cli("calibrate", gridworld_run.path, "--delta", 0.001).status == 2
    used = tmp_path / "used.npz"
    demonstrations.save(gridworld_run.demonstrations(), used)
    again = cli("calibrate", gridworld_run.path, "--demos", used)
    assert again.status == 2
    assert "were learned from" in again.stderr


def test_the_same_command_again_finds_the_run(gridworld_run):
    run, _ = start_run(
        "mce-exact", "tacit/Gridworld-v0", out=str(gridworld_run.path.parent), calibration=19, say=lambda _: None
    )
    assert run.path == gridworld_run.path
    assert run.done


def test_a_run_that_used_everything_says_so(tmp_path, cli):
    run, data = start_run("mce-exact", "tacit/Gridworld-v0", out=str(tmp_path), say=lambda _: None)
    execute(run, data)
    out = cli("calibrate", run.path)
    assert out.status == 2
    assert "--calibration N" in out.stderr


def test_a_set_does_not_follow_demonstrators_who_slip():
    """19 careful demonstrations and one accident: the usual threshold. With five accidents, the better half counts."""
    careful = [*np.linspace(0.1, 2.0, 19), 9.0]
    assert set_threshold(careful, 10.0) == usual_threshold(careful, 10.0) == pytest.approx(2.0)
    slippery = [*np.linspace(0.1, 1.5, 15), *[9.0] * 5]
    assert usual_threshold(slippery, 10.0) == 9.0
    assert set_threshold(slippery, 10.0) == pytest.approx(1.1)
