"""The reward correction: loss by hand and by differences, its closed form, head, resets, resuming, bad input."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit import demos
from tacit.algorithms import find
from tacit.cli import main
from tacit.cost import LearnedCost
from tacit.forward.collect import make_vec
from tacit.inverse import constraint_net, irl_correction

TINY = {"total_steps": 3072, "bootstrap_steps": 1024, "forward_steps": 512, "rollout_steps": 512, "n_envs": 4}


def net_of(seed: int, sizes=(2, 3, 1)) -> constraint_net.Net:
    return constraint_net.init(np.random.default_rng(seed), sizes)


def test_loss_by_hand():
    rng = np.random.default_rng(0)
    net, expert, learner = net_of(5), 3 * rng.standard_normal((6, 2)), 3 * rng.standard_normal((9, 2))

    def cost(z):
        hidden = np.maximum(z @ np.asarray(net.weights[0]) + np.asarray(net.biases[0]), 0.0)
        f = (hidden @ np.asarray(net.weights[1]) + np.asarray(net.biases[1]))[:, 0]
        return np.where(f > 0, f, 0.01 * f)

    assert (cost(expert) > 0).any()
    assert (cost(expert) < 0).any()
    expected = cost(expert).mean() - cost(learner).mean() + 0.7 * (cost(expert) ** 2).mean()
    assert float(irl_correction.loss(net, expert, learner, 0.7)) == pytest.approx(expected, rel=1e-5)


def test_gradient_by_differences():
    rng = np.random.default_rng(2)
    net, expert, learner = net_of(3), rng.standard_normal((80, 2)), rng.standard_normal((80, 2)) + 1.0
    value = jax.jit(irl_correction.loss)
    gradient = jax.grad(irl_correction.loss)(net, expert, learner, 0.3)
    for place in np.ndindex(*net.weights[1].shape):
        ends = []
        for shift in (1e-2, -1e-2):
            moved = constraint_net.Net((net.weights[0], net.weights[1].at[place].add(shift)), net.biases)
            ends.append(float(value(moved, expert, learner, 0.3)))
        slope = (ends[0] - ends[1]) / 2e-2
        assert float(gradient.weights[1][place]) == pytest.approx(slope, rel=0.05, abs=3e-3)


def test_minimum_where_demonstrations_go_has_a_closed_form():
    """One-hot inputs: c = (rho_N - rho_D) / (2 square rho_D), to which the leak is slow where it is negative.

    Where no demonstration goes it grows with every step.
    """
    rng = np.random.default_rng(4)
    square = 0.5
    rho = np.array([[0.5, 0.3, 0.2, 0.0], [0.2, 0.3, 0.3, 0.2]])
    batches = [np.eye(4, dtype=np.float32)[rng.choice(4, p=p, size=(1500, 512))] for p in rho]
    net = irl_correction.zeroed(net_of(5, (4, 1)))
    opt_state = constraint_net.OPTIMISER.init(net)
    dear = []
    for lr in (0.02, 0.004, 0.001):
        net, opt_state, _ = irl_correction.descend(net, opt_state, *batches, (lr, square))
        dear.append(float(irl_correction.correction(net, np.eye(4, dtype=np.float32))[3]))
    found = np.asarray(irl_correction.correction(net, np.eye(4, dtype=np.float32)))
    assert found[2] == pytest.approx((0.3 - 0.2) / (2 * square * 0.2), abs=0.15)
    assert -0.7 < found[0] < 0.0
    assert dear[0] < dear[1] < dear[2]
    assert dear[2] > 5.0


def test_starts_at_zero_and_moves():
    """A zero head costs nothing and still has a gradient."""
    net = irl_correction.zeroed(net_of(6))
    rng = np.random.default_rng(0)
    expert, learner = rng.standard_normal((50, 2)), rng.standard_normal((50, 2)) + 2.0
    assert (np.asarray(irl_correction.correction(net, expert)) == 0).all()
    gradient = jax.grad(irl_correction.loss)(net, expert, learner, 0.1)
    assert float(jnp.abs(gradient.weights[-1]).max()) > 0


def pendulum():
    return make_vec("tacit/Pendulum-v0", 4), demos.load(demos.shipped("tacit/Pendulum-v0"))


def numbers(metrics) -> dict[str, float]:
    return {key: value for key, value in metrics.items() if not key.startswith("time/")}


@pytest.fixture(scope="module")
def whole():
    """A run with a reset of policy and critic before the third forward phase."""
    config = irl_correction.Config(**TINY, constraint_batch=200, reset_actor=2, reset_critic=2, lr_constraint=0.05)
    return config, list(irl_correction.learn(*pendulum(), config, seed=3))


def test_resumes_bit_by_bit(whole):
    config, steps = whole
    method = irl_correction.METHOD
    saved = method.from_arrays(*method.to_arrays(steps[1][0]))
    rest = list(irl_correction.learn(*pendulum(), config, seed=3, state=saved))
    assert [numbers(metrics) for _, metrics in rest] == [numbers(metrics) for _, metrics in steps[2:]]


def test_cost_file_is_the_correction(whole, tmp_path):
    """The artefact in NumPy gives what the network gives in JAX, also after saving."""
    config, steps = whole
    state = steps[-1][0]
    cost = irl_correction.cost_of(state, config)
    cost.save(tmp_path / "cost.safetensors")
    again = LearnedCost.load(tmp_path / "cost.safetensors")
    expected = irl_correction.correction(state.params, state.inputs.scaled(state.nominal))
    np.testing.assert_allclose(again.of_rows(state.nominal), expected, rtol=1e-5, atol=1e-6)
    assert cost.unit == pytest.approx(state.forward.rbar)  # the multiplier is 1


def test_reset_makes_the_last_layers_anew(whole):
    config, steps = whole
    state = next(state for state, _ in steps if state.iteration == 2)
    fresh = irl_correction.METHOD.before_forward(replace(config, total_steps=10_000), state, np.random.default_rng(0))
    old, new = state.forward.agent, fresh.agent
    for before, after, gain in (
        (old.params.critics[1], new.params.critics[1], 1.0),
        (old.params.actor.net, new.params.actor.net, 0.01),
    ):
        assert (after.weights[0] == before.weights[0]).all()
        assert not (after.weights[-1] == before.weights[-1]).any()
        assert float(jnp.linalg.norm(after.weights[-1])) == pytest.approx(gain, rel=1e-4)  # orthogonal, one column
        assert (np.asarray(after.biases[-1]) == 0).all()
    assert (new.params.critics[0].weights[-1] == old.params.critics[0].weights[-1]).all()  # the reward's stays
    # Moments and count begin anew together: the first of Adam's steps is then one learning rate long, not several.
    assert int(old.opt_state.count) > 0
    assert int(new.opt_state.count) == 0
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves((new.opt_state.mu, new.opt_state.nu)))
    never = irl_correction.METHOD.before_forward(irl_correction.Config(), state, np.random.default_rng(0))
    assert never is state.forward


def test_presets():
    for env in ("tacit/Pendulum-v0", "tacit/HalfCheetah-v0", "tacit/Gridworld-v0"):
        irl_correction.check(env, {}, find("irl-correction").config(env))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--multiplier", "ascent"], "--multiplier has no effect"),
        (["--budget", "0.7"], "--budget has no effect"),
        (["--multiplier-lr", "1"], "--multiplier-lr has no effect"),
        (["--expert-square", "-1"], "expert_square"),
        (["--reset-actor", "-1"], "reset_actor"),
        (["--forward-steps", "0"], "forward_steps"),
    ],
)
def test_bad_input(args, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["learn", "irl-correction", "tacit/Pendulum-v0", *args]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "runs").exists()
