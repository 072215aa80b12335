"""BC2L: the loss by hand and by differences, its minimum in closed form, resuming, bad input."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit import demos
from tacit.algorithms import find
from tacit.cli import main
from tacit.demos.data import Trajectory, from_trajectories
from tacit.forward.collect import make_vec
from tacit.inverse import bc2l, constraint_net

TINY = {"total_steps": 3072, "bootstrap_steps": 1024, "forward_steps": 512, "rollout_steps": 512, "n_envs": 4}


def net_of(seed: int, sizes=(2, 3, 1)) -> constraint_net.Net:
    return constraint_net.init(np.random.default_rng(seed), sizes)


def test_loss_by_hand():
    rng = np.random.default_rng(0)
    net, expert, learner = net_of(1), rng.standard_normal((5, 2)), rng.standard_normal((7, 2))

    def cost(z):
        hidden = np.maximum(z @ np.asarray(net.weights[0]) + np.asarray(net.biases[0]), 0.0)
        return 1.0 / (1.0 + np.exp(-(hidden @ np.asarray(net.weights[1]) + np.asarray(net.biases[1]))[:, 0]))

    expected = -np.log(1.0 - cost(expert)).mean() - np.log(cost(learner)).mean()
    assert float(bc2l.loss(net, expert, learner)) == pytest.approx(expected, rel=1e-5)


def test_gradient_by_differences():
    rng = np.random.default_rng(2)
    net, expert, learner = net_of(3), rng.standard_normal((50, 2)), rng.standard_normal((60, 2)) + 1.0
    gradient = jax.grad(bc2l.loss)(net, expert, learner)
    for layer in (0, 1):
        for place in np.ndindex(*net.weights[layer].shape):
            values = []
            for shift in (1e-2, -1e-2):
                moved = list(net.weights)
                moved[layer] = moved[layer].at[place].add(shift)
                values.append(float(bc2l.loss(constraint_net.Net(tuple(moved), net.biases), expert, learner)))
            slope = (values[0] - values[1]) / 2e-2
            assert float(gradient.weights[layer][place]) == pytest.approx(slope, rel=0.05, abs=2e-3)


def test_minimum_is_the_share_of_the_learner():
    """One-hot inputs: c = rho_N / (rho_N + rho_D), cell by cell."""
    rng = np.random.default_rng(4)
    rho = np.array([[0.5, 0.3, 0.15, 0.05], [0.1, 0.3, 0.2, 0.4]])
    expert, learner = (np.eye(4, dtype=np.float32)[rng.choice(4, p=p, size=4000)] for p in rho)
    net = net_of(5, (4, 1))
    opt_state = constraint_net.OPTIMISER.init(net)
    for lr in (0.05, 0.005):
        orders = constraint_net.orders(rng, 4000, 4000, 0, 400)
        net, opt_state, _ = bc2l.descend(net, opt_state, (jnp.asarray(expert), jnp.asarray(learner)), orders, lr)
    found = jax.nn.sigmoid(constraint_net.outputs(net, np.eye(4, dtype=np.float32))[:, 0])
    shares = [part.mean(axis=0) for part in (expert, learner)]
    np.testing.assert_allclose(found, shares[1] / (shares[0] + shares[1]), atol=5e-3)


def test_separable_data_stay_finite():
    """The classifier can tell everything apart: logits grow, nothing overflows."""
    expert, learner = np.full((64, 1), -30.0, np.float32), np.full((64, 1), 30.0, np.float32)
    net = net_of(6, (1, 8, 1))
    orders = constraint_net.orders(np.random.default_rng(0), 64, 64, 16, 500)
    net, _, value = bc2l.descend(
        net, constraint_net.OPTIMISER.init(net), (jnp.asarray(expert), jnp.asarray(learner)), orders, 0.05
    )
    assert 0.0 <= float(value) < 1e-3
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(net))
    assert np.isfinite(float(bc2l.loss(net, 1e4 * learner, 1e4 * expert)))  # all wrong, by far


def pendulum():
    return make_vec("tacit/Pendulum-v0", 4), demos.load(demos.shipped("tacit/Pendulum-v0"))


def numbers(metrics) -> dict[str, float]:
    return {key: value for key, value in metrics.items() if not key.startswith("time/")}


def test_resumes_bit_by_bit():
    config = bc2l.Config(**TINY, backward_steps=3)
    whole = list(bc2l.learn(*pendulum(), config, seed=3))
    method = bc2l.METHOD
    saved = method.from_arrays(*method.to_arrays(whole[2][0]))
    rest = list(bc2l.learn(*pendulum(), config, seed=3, state=saved))
    assert [numbers(metrics) for _, metrics in rest] == [numbers(metrics) for _, metrics in whole[3:]]
    cost, again = (bc2l.cost_of(run[-1][0], config) for run in (whole, rest))
    rows = whole[-1][0].nominal
    np.testing.assert_array_equal(cost.of_rows(rows), again.of_rows(rows))
    assert 0.0 < cost.of_rows(rows).min() <= cost.of_rows(rows).max() < 1.0


def test_true_cost_is_not_read():
    """Other true costs, the same learning."""

    def learned(sign: float):
        env, data = pendulum()
        step = env.unwrapped.step_arrays

        def told(actions):
            result = list(step(actions))
            result[2] = sign * np.asarray(result[2]) + (sign < 0)
            return tuple(result)

        env.unwrapped.step_arrays = told
        return list(bc2l.learn(env, data, bc2l.Config(**TINY), seed=1))[-1][0]

    one, other = learned(1.0), learned(-1.0)
    assert all((a == b).all() for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(other.params), strict=True))
    assert not (one.replay_truth == other.replay_truth).all()


def test_paper_preset_has_its_own_network():
    config = find("bc2l").config("tacit/HalfCheetah-v0", "paper")
    assert (config.layers, config.lr_constraint, config.backward_steps) == ((30,), 0.05, 10)
    for env in ("HalfCheetah", "Ant", "Swimmer", "Walker", "Pendulum"):
        bc2l.check(f"tacit/{env}-v0", {}, find("bc2l").config(f"tacit/{env}-v0", "paper"))
    reference = find("bc2l").config("tacit/HalfCheetah-v0")
    assert reference.total_steps == find("mce").config("tacit/HalfCheetah-v0").total_steps


def test_too_little_to_tell_apart(tmp_path):
    """Demonstrations that are the learner's own steps: the classifier learns that it cannot know."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3000, 2)).astype(np.float32)
    net = net_of(8, (2, 8, 1))
    orders = constraint_net.orders(rng, 1500, 1500, 0, 300)
    both = (jnp.asarray(rows[:1500]), jnp.asarray(rows[1500:]))
    net, _, value = bc2l.descend(net, constraint_net.OPTIMISER.init(net), both, orders, 5e-3)
    assert float(value) == pytest.approx(2 * np.log(2.0), abs=0.02)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--anneal", "0"], "anneal"),
        (["--backward-steps", "0"], "backward_steps"),
        (["--inputs", "nothing"], "nothing"),
        (["--use-action"], "current"),
        (["--lr-constraint", "-1"], "lr_constraint"),
    ],
)
def test_bad_input(args, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["learn", "bc2l", "tacit/Pendulum-v0", *args]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "runs").exists()


def test_demonstrations_of_another_world(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    other = from_trajectories(
        [Trajectory(np.zeros((4, 3), np.float32), np.zeros((3, 1)), np.zeros(3), None, False)], {}
    )
    demos.save(other, tmp_path / "other.npz")
    assert main(["learn", "bc2l", "tacit/Pendulum-v0", "--demos", "other.npz"]) == 2
    assert "error:" in capsys.readouterr().err
