"""Behaviour cloning: the likelihood by hand, estimates with a closed form, run folder, bad input."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.cli import main
from tacit.demos.data import Trajectory, from_trajectories
from tacit.errors import UserError
from tacit.forward import nets
from tacit.inverse import bc, clone
from tacit.policy import Interface
from tacit.run import Run

BOX = Interface(obs_size=2, act_size=1, low=(-2.0,), high=(2.0,))
CHOICE = Interface(obs_size=3, act_size=2, n_states=3, n_actions=2)


def linear_demos(n: int = 40, noise: float = 0.2, seed: int = 0):
    """Actions 0.8 x - 0.5 y and Gaussian noise, in the environment's units."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        obs = rng.normal(3.0, 2.0, size=(26, 2)).astype(np.float32)
        act = (0.8 * (obs[:-1, :1] - 3) - 0.5 * (obs[:-1, 1:] - 3)) * 0.3 + noise * rng.standard_normal((25, 1))
        made.append(Trajectory(obs, act.astype(np.float32), np.zeros(25), None, False))
    return from_trajectories(made, {})


def cloned(demos, face, steps=2000, **settings):
    config = bc.Config(steps=steps, **settings)
    data = bc.Cloning(demos, face, config)
    rng = np.random.default_rng(0)
    actor = nets.make_params(
        rng, face.obs_size, face.act_size, (32,), n_critics=0, log_std=None if face.n_actions else 0.0
    ).actor
    *_, actor = clone.pieces(actor, *data.learned, rng, config.steps, config.batch_size, config.lr)
    return data, bc.with_residuals(actor, *data.learned, config.min_log_std)


def test_likelihood_by_hand_and_its_gradient():
    """-log N(a; mu, sigma), and finite differences of it."""
    rng = np.random.default_rng(1)
    data = bc.Cloning(linear_demos(2), BOX, bc.Config())
    actor = nets.make_params(rng, 2, 1, (4,), n_critics=0, log_std=-0.3).actor
    obs, act = data.learned
    mean = np.tanh(obs @ np.asarray(actor.net.weights[0])) @ np.asarray(actor.net.weights[1])
    expected = (0.5 * ((act - mean) / math.exp(-0.3)) ** 2 - 0.3 + 0.5 * math.log(2 * math.pi)).mean()
    assert data.nll(actor, obs, act) == pytest.approx(float(expected), rel=1e-5)

    def loss(log_std):
        return -nets.log_prob(nets.Actor(actor.net, log_std), jnp.asarray(obs), jnp.asarray(act))[0].mean()

    gradient = jax.grad(loss)(jnp.array([-0.3]))
    numeric = (loss(jnp.array([-0.29])) - loss(jnp.array([-0.31]))) / 0.02
    assert float(gradient[0]) == pytest.approx(float(numeric), rel=2e-2)


def test_actions_are_in_the_coordinates_of_the_policy():
    """An action of 2 in a box of +-2 is 1, and what the policy sends is 2 again."""
    data = bc.Cloning(linear_demos(3), BOX, bc.Config())
    demos = linear_demos(3)
    np.testing.assert_allclose(data.learned[1], demos.actions / 2.0, rtol=1e-6)
    obs = data.learned[0]
    np.testing.assert_allclose(obs.mean(axis=0), 0.0, atol=1e-4)
    np.testing.assert_allclose(obs.std(axis=0), 1.0, atol=1e-3)


def test_finds_the_regression_and_its_noise():
    """The maximum of the likelihood: the conditional mean, and the standard deviation of the residuals."""
    demos = linear_demos(noise=0.2)
    data, actor = cloned(demos, BOX)
    policy = data.policy(actor)
    obs = demos.observations[demos.rows_before]
    truth = (0.8 * (obs[:, :1] - 3) - 0.5 * (obs[:, 1:] - 3)) * 0.3
    inside = np.abs(obs - 3.0).max(axis=1) < 4.0  # two standard deviations: at the edge there is little data
    sent = policy.act(obs, np.random.default_rng(0), deterministic=True)
    assert np.abs(sent - truth)[inside].mean() < 0.06
    assert float(np.exp(policy.log_std[0])) == pytest.approx(0.2 / 2.0, rel=0.1)  # half the box is 2


def test_frequencies_of_discrete_actions():
    """With one-hot states the maximum is the share of each action in each state."""
    rng = np.random.default_rng(3)
    chances = np.array([0.1, 0.5, 0.8])
    made = []
    for _ in range(20):
        states = rng.integers(3, size=31)
        acts = (rng.random(30) < chances[states[:-1]]).astype(np.int64)
        made.append(Trajectory(states, acts, np.zeros(30), None, False))
    demos = from_trajectories(made, {})
    data, actor = cloned(demos, CHOICE)
    before = demos.observations[demos.rows_before]
    head = data.policy(actor).head(np.eye(3, dtype=np.float32))
    found = np.exp(head[:, 1]) / np.exp(head).sum(axis=1)
    shares = [demos.actions[before == s].mean() for s in range(3)]
    np.testing.assert_allclose(found, shares, atol=0.03)


def test_held_out_demonstrations_are_not_read():
    demos = linear_demos(10)
    data = bc.Cloning(demos, BOX, bc.Config(held_out=4))
    assert len(data.learned[0]) == 6 * 25
    assert set(data.measure(cloned(demos, BOX, steps=10)[1])) == {"bc/nll", "bc/nll_held_out"}
    for config in (bc.Config(held_out=10), bc.Config(held_out=5, demonstrations=5)):
        with pytest.raises(UserError, match="nothing is left"):
            bc.check_demonstrations("any", {}, config, demos)
    bc.check_demonstrations("any", {}, bc.Config(held_out=5, demonstrations=6), demos)


def test_standard_deviation_is_that_of_the_residuals_and_has_a_floor():
    data = bc.Cloning(linear_demos(5), BOX, bc.Config())
    actor = nets.make_params(np.random.default_rng(0), 2, 1, (4,), n_critics=0, log_std=-9.0).actor
    fitted = bc.with_residuals(actor, *data.learned, -5.0)
    best = data.nll(fitted, *data.learned)
    for shift in (-0.05, 0.05):
        assert data.nll(nets.Actor(fitted.net, fitted.log_std + shift), *data.learned) > best
    exact = np.asarray(actor.net(jnp.asarray(data.learned[0])))
    assert float(bc.with_residuals(actor, data.learned[0], exact, -5.0).log_std[0]) == -5.0
    assert bc.with_residuals(nets.Actor(actor.net, None), *data.learned, -5.0).log_std is None


def test_clone_is_the_last_piece():
    """What mce starts from and what bc learns come from the same steps."""
    data = bc.Cloning(linear_demos(5), BOX, bc.Config())
    actor = nets.make_params(np.random.default_rng(0), 2, 1, (8,), n_critics=0).actor
    one = clone.fit(actor, *data.learned, np.random.default_rng(4), 100)
    *_, other = clone.pieces(actor, *data.learned, np.random.default_rng(4), 100)
    assert all((a == b).all() for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def test_run_folder_resume_and_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    args = ["learn", "bc", "tacit/Pendulum-v0", "--steps", "500", "--eval-episodes", "10", "--held-out", "5", "--json"]
    assert main(args) == 0
    told = json.loads(capsys.readouterr().out)
    run = Run.open(told["run"])
    assert [record["iteration"] for record in run.metrics()] == [50 * i for i in range(1, 11)]
    assert run.metrics()[-1]["bc/nll"] < run.metrics()[0]["bc/nll"]
    assert told["summary"]["table"]["learned"]["return"]["value"] > 8
    before = [(run.path / name).read_bytes() for name in ("summary.json", "metrics.jsonl", "model/policy.safetensors")]
    (run.path / "DONE").unlink()
    assert main(["resume", str(run.path)]) == 0
    after = [(run.path / name).read_bytes() for name in ("summary.json", "metrics.jsonl", "model/policy.safetensors")]
    assert after == before
    assert main(["eval", str(run.path), "--episodes", "5"]) == 0
    assert main(["report", str(run.path)]) == 0
    page = Path(run.path / "report.html").read_text()
    assert "cloned policy" in page
    assert "Imitation" in page


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--steps", "0"], "steps"),
        (["--lr", "0"], "lr"),
        (["--held-out", "-1"], "held_out"),
        (["--demos", "nowhere.npz"], "nowhere.npz"),
    ],
)
def test_bad_input(args, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["learn", "bc", "tacit/Pendulum-v0", *args]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "runs").exists()
