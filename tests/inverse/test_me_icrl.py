"""ME-ICRL: loss, importance weights and divergences against brute force, what the published code did, and the loop."""

from __future__ import annotations

import itertools
import math

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
from tacit.cost import LearnedCost
from tacit.errors import UserError
from tacit.forward.collect import make_vec
from tacit.inverse import constraint_net, me_icrl, vicrl
from tacit.inverse.constraint_net import EPSILON
from tacit.report import load_run, render_report

CONFIG = me_icrl.Config(**SMALL, forward_steps=1024, lr_constraint=0.02, anneal=1.0, multiplier_lr=0.05)
TINY = {
    "total_steps": 3072,
    "bootstrap_steps": 1024,
    "forward_steps": 1024,
    "rollout_steps": 512,
    "eval_episodes": 2,
    "hidden": (16, 16),
    "checkpoint_every": 1,
}


def sides(seed: int = 0, n: int = 7, m: int = 9, d: int = 3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)).astype(np.float32), rng.standard_normal((m, d)).astype(np.float32)


# ---------------------------------------------------------------------------------------------------------------------
# Loss


def test_loss_by_hand():
    net, (expert, learner) = net_of(0, 3, 4, 1), sides()
    omega = np.random.default_rng(1).random(9).astype(np.float32)
    zeta = [expit(-output_by_hand(net, z)[:, 0]) for z in (expert, learner)]
    expected = -np.log(zeta[0] + 1e-5).mean() + (omega * np.log(zeta[1] + 1e-5)).mean()
    expected += 0.3 * ((1 - zeta[0]).mean() + (1 - zeta[1]).mean())
    assert float(me_icrl.loss(net, expert, learner, omega, 0.3)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("layer", "place"), [(0, (1, 2)), (1, (3, 0))])
def test_gradient_is_that_of_differences(layer, place):
    net, (expert, learner) = net_of(3, 3, 4, 1), sides(2)
    omega = np.linspace(0.2, 2.0, 9).astype(np.float32)
    gradient = jax.grad(me_icrl.loss)(net, expert, learner, omega, 0.3)
    numeric = slope(lambda net: me_icrl.loss(net, expert, learner, omega, 0.3), net, layer, place)
    assert float(gradient.weights[layer][place]) == pytest.approx(numeric, rel=2e-2, abs=1e-4)


# ---------------------------------------------------------------------------------------------------------------------
# Importance weights and divergences

TRAJECTORY = np.array([0, 0, 1, 1, 1, 3, 3, 2, 2], np.int32)


def log_ratios(seed: int = 5, scale: float = 1.0) -> np.ndarray:
    return (scale * np.random.default_rng(seed).standard_normal(9)).astype(np.float32)


def test_step_weights_by_brute_force():
    log_ratio = log_ratios()
    ratio = np.exp(log_ratio.astype(float))
    np.testing.assert_allclose(me_icrl.step_weights(log_ratio), ratio / ratio.mean(), rtol=1e-5)


def test_trajectory_weights_by_brute_force():
    log_ratio = log_ratios()
    w = np.array([np.prod(np.exp(log_ratio[np.equal(TRAJECTORY, k)].astype(float))) for k in range(4)])
    expected = (4 * w / w.sum())[TRAJECTORY]
    np.testing.assert_allclose(weights_of(log_ratio, TRAJECTORY), expected, rtol=1e-5)


def weights_of(log_ratio, trajectory, whole=True):
    log_w, counted = me_icrl.trajectory_sums(log_ratio, trajectory, np.full(len(log_ratio), whole))
    return np.asarray(me_icrl.trajectory_weights(log_w, counted, trajectory))


def test_a_piece_of_an_episode_is_not_another_model():
    """A network that says 0.95 times as much everywhere is the same model: weights of 1, no divergence."""
    log_ratio = np.full(2030, np.log(0.95), np.float32)
    trajectory = np.repeat([0, 1, 2], [1000, 1000, 30]).astype(np.int32)
    for whole in ([True, True, False], [False, False, False]):  # with whole ones beside it, and without any
        known = np.zeros(len(log_ratio), bool)
        known[:3] = whole
        log_w, counted = me_icrl.trajectory_sums(log_ratio, trajectory, known)
        np.testing.assert_allclose(me_icrl.trajectory_weights(log_w, counted, trajectory), 1.0, rtol=1e-3)
        np.testing.assert_allclose(me_icrl.divergences(log_w, counted), 0.0, atol=1e-3)
    # Taken as it is, the piece would be everything.
    assert weights_of(log_ratio, trajectory)[-1] == pytest.approx(3.0, rel=1e-3)


def test_weights_of_long_trajectories_do_not_underflow():
    """A product of 10,000 ratios of e^-1 is nothing in floating point; the weights are what they should be."""
    log_ratio = np.full(20_000, -1.0, np.float32)
    log_ratio[0] += 0.5
    trajectory = np.repeat([0, 1], 10_000).astype(np.int32)
    omega = weights_of(log_ratio, trajectory)
    expected = 2 * expit(np.array([0.5, -0.5]))
    np.testing.assert_allclose(omega[[0, -1]], expected, rtol=2e-3)


def test_reweighted_samples_stand_for_the_new_model():
    """All trajectories of a small world: weights of samples of the old model give expectations of the new one."""
    rng = np.random.default_rng(0)
    reward, old, new = rng.standard_normal((2, 3)), 0.3 + 0.7 * rng.random((2, 3)), 0.3 + 0.7 * rng.random((2, 3))
    paths = list(itertools.product(range(3), repeat=2))  # two steps, three choices each
    chance = [
        np.array([math.prod(math.exp(reward[t, a]) * zeta[t, a] for t, a in enumerate(path)) for path in paths])
        for zeta in (old, new)
    ]
    p_old, p_new = (w / w.sum() for w in chance)
    drawn = rng.choice(len(paths), size=200_000, p=p_old)
    log_ratio = np.log(new / old)
    steps = np.array([[log_ratio[t, a] for t, a in enumerate(paths[i])] for i in range(len(paths))])[drawn]
    trajectory = np.repeat(np.arange(len(drawn)), 2).astype(np.int32)
    omega = weights_of(steps.reshape(-1).astype(np.float32), trajectory)[::2]
    first = np.array([p[0] == 1 for p in paths])
    assert (omega * first[drawn]).mean() == pytest.approx(p_new[first].sum(), abs=0.01)
    # And (3): both divergences, from samples of the old model alone.
    log_w, there = steps.sum(axis=1).astype(np.float32), np.ones(len(drawn), bool)
    forward, reverse = me_icrl.divergences(log_w, there)
    assert float(forward) == pytest.approx((p_old * np.log(p_old / p_new)).sum(), abs=0.02)
    assert float(reverse) == pytest.approx((p_new * np.log(p_new / p_old)).sum(), abs=0.02)


def test_divergences_by_hand():
    log_w, there = np.array([0.3, -1.2, 0.7, 9.0], np.float32), np.array([True, True, True, False])
    w = np.exp(log_w[:3].astype(float))
    forward, reverse = me_icrl.divergences(log_w, there)
    assert float(forward) == pytest.approx(-np.log(w).mean() + math.log(w.mean()), rel=1e-5)
    assert float(reverse) == pytest.approx((w * np.log(w)).mean() / w.mean() - math.log(w.mean()), rel=1e-5)
    published = me_icrl.published_divergences(log_w, there)
    assert float(published[0]) == pytest.approx(-np.log(w + EPSILON).mean(), rel=1e-5)
    expected = ((w - w.mean()) * np.log(w + EPSILON)).mean() / (w.mean() + EPSILON)
    assert float(published[1]) == pytest.approx(expected, rel=1e-4)
    # What the published code compares is never below the divergence itself: it is the sum of both.
    assert float(published[1]) == pytest.approx(float(forward + reverse), rel=1e-3)


def test_a_common_factor_of_all_weights_is_no_divergence():
    there = np.ones(3, bool)
    for value in me_icrl.divergences(np.full(3, -500.0, np.float32), there):
        assert float(value) == pytest.approx(0.0, abs=1e-3)
    published = me_icrl.published_divergences(np.full(3, -500.0, np.float32), there)
    assert float(published[0]) == pytest.approx(-math.log(1e-5), rel=1e-5)


def test_the_published_code_goes_on_where_a_product_overflows():
    published = me_icrl.published_divergences(np.array([0.5, 200.0], np.float32), np.ones(2, bool))
    assert np.isfinite(published).all()
    assert max(map(float, published)) <= 10.0


def test_pieces_of_episodes_do_not_stop_an_inverse_step():
    """It looks at whole ones only: of a single trajectory no divergence can be told."""
    limits = {"forward_kl": 1e-3, "reverse_kl": 1e-3}
    assert int(step(20, **limits)[2]["inverse/passes"]) < 20
    assert int(step(20, whole=np.arange(9) == 0, **limits)[2]["inverse/passes"]) == 20


# ---------------------------------------------------------------------------------------------------------------------
# The inverse step


def step(passes=1, net=None, opt_state=None, **changes):
    net = net_of(0, 3, 8, 1) if net is None else net
    expert, learner = sides(4, 30, 9)
    settings = {"lr": 0.05, "delta": 0.1, "forward_kl": np.inf, "reverse_kl": np.inf} | {
        key: changes.pop(key) for key in list(changes) if key in me_icrl.Hyper._fields
    }
    orders = constraint_net.orders(np.random.default_rng(0), 30, 9, 0, passes)
    opt_state = constraint_net.OPTIMISER.init(net) if opt_state is None else opt_state
    data = (expert, learner, TRAJECTORY, changes.pop("whole", np.ones(9, bool)))
    kind = {"weights": "step", "published_code": False} | changes
    return me_icrl.descend(net, opt_state, data, orders, me_icrl.Hyper(**settings), **kind)


def test_weights_matter_and_never_in_the_published_code():
    def after(**changes):
        return np.concatenate([np.ravel(x) for x in jax.tree.leaves(step(6, **changes)[0])])

    none = after(weights="none")
    assert np.abs(after(weights="step") - none).max() > 1e-4
    assert np.abs(after(weights="trajectory") - none).max() > 1e-4
    np.testing.assert_array_equal(after(weights="step", published_code=True), none)


def test_the_published_outer_product_is_what_published_code_stands_for():
    """The mean of the (N, 1, 1) by (N, 1) table of the published program: mean(omega) mean(log zeta)."""
    omega, log_zeta = np.random.default_rng(0).random((5, 1, 1)), np.random.default_rng(1).random((5, 1))
    table = (omega / omega.mean()) * log_zeta
    assert table.shape == (5, 5, 1)
    assert table.mean() == pytest.approx(log_zeta.mean())


@pytest.mark.parametrize("limit", ["forward_kl", "reverse_kl"])
def test_it_stops_early_when_the_model_has_moved_too_far(limit):
    free = step(50)[2]
    assert int(free["inverse/passes"]) == 50
    reached = float(free[f"inverse/{limit}"])
    info = step(50, **{limit: 0.2 * reached})[2]
    assert 0 < int(info["inverse/passes"]) < 50
    assert float(info[f"inverse/{limit}"]) > 0.2 * reached
    before = step(int(info["inverse/passes"]) - 1)[2]
    assert float(before[f"inverse/{limit}"]) <= 0.2 * reached


def test_minibatches_visit_different_rows():
    expert, learner = constraint_net.orders(np.random.default_rng(0), 20, 35, 6, 4)
    assert expert.shape == learner.shape == (4, 3, 6)
    for one in (*expert.reshape(4, -1), *learner.reshape(4, -1)):
        assert len(set(one)) == 18
    whole = constraint_net.orders(np.random.default_rng(0), 20, 35, 0, 2)
    assert (whole[0].shape, whole[1].shape) == ((2, 1, 20), (2, 1, 35))


def test_trajectories_are_numbered():
    times = np.array([[3, 0], [4, 1], [0, 2], [1, 0]])
    numbers, whole = constraint_net.trajectories(times, np.array([True, False]))
    np.testing.assert_array_equal(numbers.reshape(4, 2), [[0, 2], [0, 2], [1, 2], [1, 3]])
    np.testing.assert_array_equal(whole, [False, True, True] + [False] * 5)
    numbers, whole = constraint_net.trajectories(np.array([[3, 7], [4, 8]]), np.array([True, True]))
    np.testing.assert_array_equal(numbers, [0, 1, 0, 1])
    assert not whole.any()  # they began before, or go on


# ---------------------------------------------------------------------------------------------------------------------
# The loop


@pytest.mark.parametrize("weights", ["step", "trajectory"])
def test_the_cost_separates_the_forbidden_side(weights):
    config = me_icrl.Config(**{**vars(CONFIG), "weights": weights})
    history = learn(me_icrl, config)
    cost = me_icrl.cost_of(history[-1][0], config)
    assert cost(np.array([-2.0])) > 0.8 > 0.3 > cost(np.array([1.5]))
    assert history[0][0].nominal[:, 0].min() < -1.0  # the nominal agent went there


def test_the_true_cost_is_not_used(monkeypatch):
    config = me_icrl.Config(**{**vars(CONFIG), "total_steps": 3500})
    first = learn(me_icrl, config)[-1][0]
    monkeypatch.setattr(Line, "cost_size", 0.0)
    second = learn(me_icrl, config)[-1][0]
    assert np.nanmax(first.nominal_truth) > 0 == np.nanmax(second.nominal_truth)
    assert same(first, second)


def test_same_seed_same_run_and_resumed_from_arrays_too():
    change = {"total_steps": 5000, "use_action": True, "at": "current", "constraint_batch": 64}
    config = me_icrl.Config(**{**vars(CONFIG), **change})
    demos, method = pendulum_demos(), me_icrl.METHOD
    whole = learn(me_icrl, config, demos, env="tacit/Pendulum-v0")
    assert same(whole[-1][0], learn(me_icrl, config, demos, env="tacit/Pendulum-v0")[-1][0])
    again = method.from_arrays(*method.to_arrays(whole[2][0]))
    rest = learn(me_icrl, config, demos, again, env="tacit/Pendulum-v0")
    assert len(rest) == len(whole) - 3 > 0
    assert same(whole[-1][0], rest[-1][0])
    with pytest.raises(UserError, match="does not hold a run of vicrl"):
        vicrl.METHOD.from_arrays(*method.to_arrays(again))


def test_in_a_run_folder(tmp_path, monkeypatch):
    run = stopped_and_resumed_is_the_same_run("me-icrl", tmp_path, monkeypatch, **TINY)
    summary = run.read("summary.json")
    assert summary["cost_quality"]["auroc"] == summary["cost_quality"]["auroc_cost"]
    cost = LearnedCost.load(run.path / "model" / "cost.safetensors")
    rows = load_run(run).samples["expert"]
    assert ((cost.of_rows(rows) > 0) & (cost.of_rows(rows) < 1)).all()
    assert "x_position" in render_report([load_run(run)])
    assert load_run(run).notes == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": "both"}, "weights"),
        ({"delta": -1.0}, "delta cannot be negative"),
        ({"use_action": True}, 'use at="current"'),
        ({"anneal": 0.0}, "anneal must be above 0 and at most 1"),
        ({"inputs": ("x_positon",)}, "did you mean 'x_position'"),
        ({"layers": (0,)}, "layers must be sizes of at least 1"),
        ({"rollout_steps": 500}, "multiple of"),
        ({"backward_steps": 0}, "backward_steps must be at least 1"),
        ({"treshold": 1}, "does not know 'treshold'"),
    ],
)
def test_settings_that_cannot_work(tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        start("me-icrl", tmp_path, **{**TINY, **change})
    assert not (tmp_path / "runs").exists()


def test_one_hot_states_are_read_as_they_are():
    from tacit.demos import expert_demonstrations
    from tacit.envs.options import exact_model

    kwargs = {"observation": "index"}
    env = make_vec("tacit/Gridworld-v0", 4, **kwargs)
    demos = expert_demonstrations(exact_model("tacit/Gridworld-v0", kwargs), 6, 0, observation="index")
    config = me_icrl.Config(**{**vars(CONFIG), "n_envs": 4, "total_steps": 3000})
    state = list(me_icrl.learn(env, demos, config, 0))[-1][0]
    assert state.inputs.names[0] == "state[0]"
    assert (state.inputs.scale == 1).all()
    assert np.isfinite(me_icrl.cost_of(state, config).of_rows(state.nominal)).all()
