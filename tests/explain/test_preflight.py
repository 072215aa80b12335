"""Before learning: the permutation test keeps its level and sees what is there; what is said of demonstrations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, ks_2samp

from tacit import demos as demonstrations
from tacit.demos.data import Trajectory, from_trajectories
from tacit.errors import UserError
from tacit.explain import preflight

NAMES = ("a", "b", "c")


def walks(rng, n=12, steps=20, shift=(0.0, 0.0, 0.0), reward=0.0):
    """Trajectories around a centre of their own: steps depend on each other, trajectories do not."""
    made = []
    for _ in range(n):
        centre = rng.standard_normal(3) + np.asarray(shift)
        obs = centre + 0.1 * rng.standard_normal((steps + 1, 3))
        rewards = np.full(steps, reward) + 0.01 * rng.standard_normal(steps)
        made.append(Trajectory(obs, np.zeros((steps, 1)), rewards, None, False))
    return from_trajectories(made)


def test_the_distance_is_kolmogorov_smirnov():
    """On a grid of quantiles it is below the exact statistic of the pooled steps, and near it."""
    rng = np.random.default_rng(0)
    demos, agent = walks(rng), walks(rng, shift=(1.0, 0.0, 0.0))
    found = {one.feature: one for one in preflight.differences(demos, agent, NAMES, rng)}
    for j, name in enumerate(NAMES):
        exact = ks_2samp(demos.observations[:, j], agent.observations[:, j]).statistic
        assert exact - 0.06 < found[name].distance <= exact + 1e-12


def test_the_level_is_kept(monkeypatch):
    """Two samples of one kind: in at most one of twenty does any of the features look different."""
    monkeypatch.setattr(preflight, "PERMUTATIONS", 199)
    worlds, alarms = 200, 0
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        found = preflight.differences(walks(rng, 8, 5), walks(rng, 8, 5), NAMES, rng)
        alarms += found[0].p <= 0.05
    assert binom.ppf(1e-4, worlds, 0.02) <= alarms <= binom.ppf(1 - 1e-4, worlds, 0.05)


def test_a_difference_is_seen_and_named():
    rng = np.random.default_rng(1)
    demos, agent = walks(rng), walks(rng, shift=(0.0, 4.0, 0.0))
    found = preflight.differences(demos, agent, NAMES, rng)
    assert found[0].feature == "b"
    assert found[0].p < 0.01
    assert found[0].agent[1] - found[0].demonstrations[1] == pytest.approx(4.0, abs=1.5)
    assert found[-1].p > 0.05


def test_steps_are_not_taken_for_independent():
    """Few long trajectories around different centres: a test on steps would be sure, ours is not."""
    rng = np.random.default_rng(2)
    demos, agent = walks(rng, 3, 400), walks(rng, 3, 400)
    assert min(ks_2samp(demos.observations[:, j], agent.observations[:, j]).pvalue for j in range(3)) < 1e-6
    assert preflight.differences(demos, agent, NAMES, rng)[0].p > 0.05


@pytest.mark.parametrize(
    ("shift", "earned", "words"),
    [
        ((0.0, 0.0, 0.0), 0.0, "does not clearly differ"),
        ((5.0, 0.0, 0.0), -1.0, "worse at the task"),
        ((5.0, 0.0, 0.0), 1.0, "give something up"),
    ],
)
def test_what_is_said(shift, earned, words):
    rng = np.random.default_rng(3)
    found = preflight.compare(walks(rng), walks(rng, shift=shift, reward=earned), NAMES)
    assert words in " ".join(finding.text for finding in found.findings)
    assert found.something_to_learn == (shift != (0.0, 0.0, 0.0))


def test_about_demonstrations_alone():
    rng = np.random.default_rng(4)
    one = walks(rng, 1)
    few = from_trajectories([one[0], one[0], one[0]])
    levels = {finding.level for finding in preflight.about(few)}
    texts = " ".join(finding.text for finding in preflight.about(few))
    assert "doubt" in levels
    assert "only 1 of the 3" in texts
    # With n demonstrations, 5 % are without a behaviour that a share of 1 - 0.05^(1/n) shows.
    assert "fewer than 63.2 %" in texts
    assert {finding.level for finding in preflight.about(walks(rng, 20))} == {"good"}
    with pytest.raises(UserError, match="two demonstrations"):
        preflight.compare(one, walks(rng), NAMES)


def test_where_nothing_can_be_written_is_said_first(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "tacit.commands.preflight.run_preflight", lambda *_, **__: pytest.fail("trained before the check")
    )
    (tmp_path / "file").write_text("")
    out = cli("preflight", "tacit/Gridworld-v0", "--keep", tmp_path / "file" / "x.npz")
    assert out.status == 2
    assert "is a file, not a folder" in out.stderr


def test_on_the_gridworld(cli, tmp_path):
    out = cli("preflight", "tacit/Gridworld-v0", "--keep", tmp_path / "careless.npz")
    assert out.status == 0
    assert "differs from the demonstrations in row" in out.stdout
    assert len(demonstrations.load(tmp_path / "careless.npz")) == preflight.EPISODES
    # The agent's own episodes as demonstrations: there is nothing to learn, and that is a failed check.
    same = cli("preflight", "tacit/Gridworld-v0", "--demos", tmp_path / "careless.npz", "--seed", 6)
    assert same.status == 1
    assert "nothing to learn" in same.stdout
    assert cli("preflight", "tacit/Gridworld-v0", "--json").json()["something_to_learn"] is True
    assert cli("preflight", "tacit/Gridworld-v0", "--episodes", 1).status == 2
    assert cli("preflight", "tacit/Pendulum-v0", "--demos", tmp_path / "careless.npz").status == 2


def test_learning_says_what_is_cheap_to_know(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = cli("learn", "mce-exact", "tacit/Gridworld-v0")
    assert out.status == 0
    assert "preflight: 50 demonstrations" in out.stderr
    assert "preflight: the unconstrained agent differs" in out.stderr
    assert "preflight" not in cli("learn", "mce-exact", "tacit/Gridworld-v0").stderr  # finished already


def test_a_short_training_elsewhere(cli):
    pytest.importorskip("mujoco")
    out = cli("preflight", "tacit/Pendulum-v0", "--steps", 2048, "--episodes", 10, "--json")
    assert out.status == 0
    found = out.json()
    assert found["something_to_learn"] is True
    assert {one["feature"] for one in found["differences"]} >= {"x_position", "pole_angle"}
