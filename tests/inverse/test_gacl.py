"""GACL: the discriminator's loss and its optimum, the bonus that PPO gets, and the loop."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import jax
import numpy as np
import pytest
from scipy.special import expit

from baseline_helpers import (
    SMALL,
    Line,
    learn,
    net_of,
    output_by_hand,
    pendulum_demos,
    same,
    slope,
    start,
    stopped_and_resumed_is_the_same_run,
)
from tacit.errors import UserError
from tacit.inverse import constraint_net, gacl
from tacit.report import load_run
from tacit.report.constraint import constraint

CONFIG = gacl.Config(**SMALL, lr_constraint=0.02, discriminator_steps=5)
TINY = {
    "total_steps": 2560,
    "bootstrap_steps": 1024,
    "rollout_steps": 512,
    "eval_episodes": 2,
    "hidden": (16, 16),
    "checkpoint_every": 1,
}


def test_loss_by_hand():
    """Binary cross-entropy of D = sigmoid(-f), demonstrations 1 and learner 0."""
    net, rng = net_of(0, 3, 4, 1), np.random.default_rng(0)
    expert, learner = (rng.standard_normal((n, 3)).astype(np.float32) for n in (6, 9))
    d = [expit(-output_by_hand(net, z)[:, 0]) for z in (expert, learner)]
    expected = -np.log(d[0]).mean() - np.log(1 - d[1]).mean()
    assert float(gacl.loss(net, expert, learner)) == pytest.approx(expected, rel=1e-5)
    gradient = jax.grad(gacl.loss)(net, expert, learner)
    for layer, place in ((0, (2, 1)), (1, (0, 0))):
        numeric = slope(lambda net: gacl.loss(net, expert, learner), net, layer, place)
        assert float(gradient.weights[layer][place]) == pytest.approx(numeric, rel=2e-2, abs=1e-4)


def test_discriminator_converges_to_the_ratio_of_the_distributions():
    """Three cells, one-hot: the optimum of (1) is D = rho_D / (rho_D + rho_N), cell by cell."""
    rng, eye = np.random.default_rng(0), np.eye(3, dtype=np.float32)
    rho = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
    expert, learner = (eye[rng.choice(3, p=p, size=(2000, 1024))] for p in rho)
    net = net_of(0, 3, 1)
    net, _, info = gacl.descend(net, constraint_net.OPTIMISER.init(net), expert, learner, 0.01)
    d = expit(-output_by_hand(net, eye)[:, 0])
    np.testing.assert_allclose(d, rho[0] / rho.sum(axis=0), atol=0.03)
    # Of the best guess: right in cells 0 and 2, and half of the time where both go equally often.
    assert float(info["inverse/accuracy"]) == pytest.approx(0.5 * (0.6 + 0.5 + 0.3), abs=0.16)


def test_ppo_gets_the_normalised_reward_and_the_bonus(monkeypatch):
    """(2): what reaches the update is r / scale + log(D + eps), with the discriminator after its step."""
    seen = {}
    original = gacl.ppo.improve

    def spy(config, state, rollout, signals, **kwargs):
        seen.update(rollout=rollout, signals=signals, scale=state.reward_scale.std)
        return original(config, state, rollout, signals, **kwargs)

    monkeypatch.setattr(gacl.ppo, "improve", spy)
    state, metrics = learn(gacl, gacl.Config(**{**vars(CONFIG), "total_steps": 3000}))[-1]
    rollout = seen["rollout"]
    z = state.inputs.scaled(state.inputs.rows(rollout.next_obs.reshape(-1, 1)))
    bonus = np.log(expit(-output_by_hand(state.params, z)[:, 0]) + 1e-5).reshape(rollout.rew.shape)
    expected = np.clip(rollout.rew / seen["scale"], -10, 10) + bonus
    np.testing.assert_allclose(seen["signals"][0], expected, rtol=1e-3, atol=1e-3)
    assert metrics["inverse/bonus"] == pytest.approx(bonus.mean(), rel=1e-3)


class Cliff(Line):
    """Where the forbidden side begins, the episode ends."""

    def step(self, action):
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, self.x < -1.0, truncated, info


gym.register("tacit-baselines/Cliff-v0", entry_point=Cliff)


@pytest.mark.parametrize("absorbing", [False, True])
def test_ending_has_a_price_where_no_demonstration_ends(monkeypatch, absorbing):
    """It is that of the lowest tenth of log D for ever after; other steps are as they were."""
    seen = {}
    original = gacl.ppo.improve

    def spy(config, state, rollout, signals, **kwargs):
        seen.update(rollout=rollout, signal=signals[0], scale=state.reward_scale.std)
        return original(config, state, rollout, signals, **kwargs)

    monkeypatch.setattr(gacl.ppo, "improve", spy)
    config = gacl.Config(**{**vars(CONFIG), "total_steps": 3000, "absorbing": absorbing})
    state, _ = learn(gacl, config, env="tacit-baselines/Cliff-v0")[-1]
    rollout = seen["rollout"]
    z = state.inputs.scaled(state.inputs.rows(rollout.next_obs.reshape(-1, 1)))
    bonus = np.log(expit(-output_by_hand(state.params, z)[:, 0]) + 1e-5)
    expected = np.clip(rollout.rew / seen["scale"], -10, 10) + bonus.reshape(rollout.rew.shape)
    assert rollout.terminated.any()
    expected[rollout.terminated] += absorbing * 0.99 / 0.01 * np.quantile(bonus, 0.1)
    np.testing.assert_allclose(seen["signal"], expected, rtol=1e-3, atol=1e-3)


def test_the_cost_separates_the_forbidden_side():
    history = learn(gacl, gacl.Config(**{**vars(CONFIG), "total_steps": 8000}))
    cost = gacl.cost_of(history[-1][0], CONFIG)
    assert cost(np.array([-2.0])) > 0.8 > 0.6 > cost(np.array([1.5]))  # 1/2 where the learner has joined them
    assert history[0][0].nominal[:, 0].min() < -1.0


def test_started_from_a_clone_it_stays_with_the_demonstrators():
    config = gacl.Config(**{**vars(CONFIG), "start": "clone", "total_steps": 5000})
    history = learn(gacl, config)
    assert history[0][1]["truth/violation_rate_step"] > 0.1 > history[-1][1]["truth/violation_rate_step"]


def test_the_true_cost_is_not_used(monkeypatch):
    config = gacl.Config(**{**vars(CONFIG), "total_steps": 4000})
    first = learn(gacl, config)[-1][0]
    monkeypatch.setattr(Line, "cost_size", 0.0)
    second = learn(gacl, config)[-1][0]
    assert np.nanmax(first.nominal_truth) > 0 == np.nanmax(second.nominal_truth)
    assert same(first, second)


def test_resumed_from_arrays_is_the_same_run():
    change = {"total_steps": 5000, "use_action": True, "at": "current"}
    config = gacl.Config(**{**vars(CONFIG), **change})
    demos = pendulum_demos()
    whole = learn(gacl, config, demos, env="tacit/Pendulum-v0")
    again = gacl.METHOD.from_arrays(*gacl.METHOD.to_arrays(whole[2][0]))
    rest = learn(gacl, config, demos, again, env="tacit/Pendulum-v0")
    assert len(rest) == len(whole) - 3 > 0
    assert same(whole[-1][0], rest[-1][0])
    np.testing.assert_array_equal(whole[-1][0].replay, rest[-1][0].replay)


def test_in_a_run_folder(tmp_path, monkeypatch):
    run = stopped_and_resumed_is_the_same_run("gacl", tmp_path, monkeypatch, **TINY)
    assert load_run(run).notes == ()
    assert {"rollouts", "PPO", "inverse", "evaluation"} <= run.read("summary.json")["time"].keys()
    data = load_run(run)
    assert "x_position" in constraint(data, "run0").body
    # A cost that is the same everywhere, and no truth to draw: nothing to show, and no failure.
    flat = replace(data.costs["cost"], lam=0 * data.costs["cost"].lam)
    assert constraint(replace(data, costs={"cost": flat}, summary={}), "run0") is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"discriminator_steps": 0}, "discriminator_steps must be at least 1"),
        ({"start": "random"}, "start"),
        ({"bootstrap_steps": -1}, "bootstrap_steps cannot be negative"),
        ({"lr_constraint": -1.0}, "lr_constraint"),
        ({"multiplier": "pid"}, "does not know 'multiplier'"),
    ],
)
def test_settings_that_cannot_work(tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        start("gacl", tmp_path, **{**TINY, **change})
    assert not (tmp_path / "runs").exists()
