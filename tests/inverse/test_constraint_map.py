"""The constraint map's boundaries, the clone, and the tables made of deep runs: known answers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tacit.cost import Inputs, LearnedCost
from tacit.cost.bounds import Bound, boundaries, threshold_error
from tacit.forward import nets
from tacit.inverse import clone, constraint_map, mce


def wall(at: float, steepness: float = 200.0) -> LearnedCost:
    """A cost of 5 below `at`, on x alone; y is read but free."""
    inputs = Inputs(("x", "y"), (0, 1), 2, 0, np.zeros(2, np.float32), np.ones(2, np.float32), squash=False)
    slopes = np.array([[-steepness], [1.0]], np.float32)
    offsets = np.array([[steepness * at], [0.0]], np.float32)
    return LearnedCost(inputs, np.array([5.0, 0.0], np.float32), slopes, offsets)


def test_boundary_is_where_the_cost_begins():
    rng = np.random.default_rng(0)
    expert = rng.uniform([0.0, -1.0], [4.0, 1.0], (2000, 2)).astype(np.float32)
    learner = rng.uniform([-4.0, -2.0], [4.0, 2.0], (4000, 2)).astype(np.float32)
    (found,) = boundaries(wall(-1.5), expert, learner, 5.0)
    assert (found.feature, found.relation) == ("x", "<")
    assert found.value == pytest.approx(-1.5, abs=0.03)
    assert found.demonstrated == pytest.approx(0.0, abs=0.02)
    assert found.share == pytest.approx(2.5 / 8, abs=0.03)
    assert str(found) == f"x < {found.value:.4g}"
    assert boundaries(wall(-9.0), expert, learner, 5.0) == []


@pytest.mark.parametrize(
    ("relation", "value", "demonstrated", "truth", "error"),
    [
        ("<", -1.0, -0.2, -3.0, 0.0),
        ("<", -3.5, -0.2, -3.0, 0.5),
        ("<", -0.1, -0.2, -3.0, 0.1),
        (">", 0.52, 0.4, 0.5, 0.02),
        (">", 0.3, 0.4, 0.5, 0.1),
        # Demonstrations beyond the wall leave nothing open.
        ("<", -3.5, -4.0, -3.0, 0.5),
        (">", 0.6, 0.8, 0.5, 0.1),
    ],
)
def test_error_counts_outside_the_open_band_alone(relation, value, demonstrated, truth, error):
    assert threshold_error(Bound("x", relation, value, demonstrated), truth) == pytest.approx(error)


def test_map_finds_the_wall_from_samples():
    """Demonstrations keep to x > 0 with any y; the learner has been everywhere: the map must blame x, not y."""
    rng = np.random.default_rng(1)
    expert = rng.uniform([0.0, -1.0], [2.0, 1.0], (3000, 2)).astype(np.float32)
    learner = rng.uniform([-2.0, -1.0], [2.0, 1.0], (8192, 2)).astype(np.float32)
    config = mce.Config(thresholds=8, joint=0)
    inputs = wall(0.0).inputs
    state = SimpleNamespace(
        inputs=inputs,
        nominal=learner,
        replay=learner.reshape(4, -1, 2),
        params=mce.features.init(rng, learner, thresholds=2, hidden=(), joint=0, lam=0.01, bias=0.0),
        forward=SimpleNamespace(rbar=1.0),
    )
    driving = mce.METHODS["network"].cost_of(state, config)
    cost_map = constraint_map.fit(config, state, driving, SimpleNamespace(rows=expert), seed=0)
    inside, outside = cost_map(np.array([[1.0, 0.9], [1.5, -0.9]])), cost_map(np.array([[-1.0, 0.0], [-1.9, 0.9]]))
    assert inside.max() < 0.3 < 2.0 < outside.min()
    first = boundaries(cost_map, expert, learner, config.ceiling)[0]
    assert (first.feature, first.relation) == ("x", "<")
    assert first.value == pytest.approx(0.0, abs=0.15)


def test_rows_are_drawn_by_costs_that_may_be_negative():
    """Two of 3002 rows cost something; what is negative is not drawn in their place."""
    rng = np.random.default_rng(0)
    expert = rng.uniform([0.0, -1.0], [2.0, 1.0], (3000, 2)).astype(np.float32)
    learner = np.concatenate([expert[:1000], [[-1.5, 0.0]] * 2, expert[1000:]]).astype(np.float32)
    cost = np.concatenate([np.full(1000, -0.02), [1.0, 1.0], np.full(2000, -0.03)]).astype(np.float32)
    drawn = constraint_map.fit_rows(wall(0.0).inputs, expert, learner, cost, rng, at="next")
    assert drawn(np.array([[-1.5, 0.0]]))[0] > 2.0


def test_clone_recovers_a_linear_policy_and_its_noise():
    rng = np.random.default_rng(2)
    obs = rng.standard_normal((4000, 3)).astype(np.float32)
    gain = np.array([[0.5], [-0.3], [0.1]])
    act = (obs @ gain + 0.05 * rng.standard_normal((4000, 1))).astype(np.float32)
    actor = nets.make_params(rng, 3, 1, (32, 32)).actor
    fitted = clone.fit(actor, obs, act, rng)
    fresh = rng.standard_normal((500, 3)).astype(np.float32)
    assert np.abs(np.asarray(fitted.net(fresh)) - fresh @ gain).mean() < 0.03
    assert float(np.exp(fitted.log_std[0])) == pytest.approx(0.05, rel=0.15)


def test_paper_preset_is_the_papers_table():
    """A few cells of each column, read off the paper again."""
    from tacit.algorithms import find

    expected = {
        "Ant": {"lr": 3e-5, "epochs": 20, "batch_size": 128, "pretrain_epochs": 20, "joint": 64},
        "HalfCheetah": {"bootstrap_steps": 200_000, "target_kl": 0.02, "pretrain_epochs": 200, "zeta_decay": 0.9},
        "Swimmer": {"forward_steps": 50_000, "feature_hidden": (40,), "dual_batch": 64, "gae_lambda": 0.9},
        "Walker": {"lr": 3e-4, "epochs": 10, "gae_lambda": 0.95, "target_kl": 0.01, "zeta_decay": 1.0},
        "Pendulum": {"joint": 16, "feature_hidden": (64,), "lr_zeta": 5e-4, "dual_batch": 128, "pretrain_epochs": 5},
        "Gridworld": {"beta": 1e-5, "feature_hidden": (40, 40), "lr_lam": 5e-4, "bootstrap_steps": 35_000},
        "HighwayDistance": {"rollout_steps": 1024, "joint": 10, "feature_hidden": (20,), "dual_batch": 1000},
        "HighwayVelocity": {"feature_hidden": (40, 20, 10), "joint": 8, "lr_zeta": 1e-6, "bootstrap_steps": 0},
    }
    for name, cells in expected.items():
        config = find("mce").config(f"tacit/{name}-v0", "paper")
        assert {key: getattr(config, key) for key in cells} == cells, name
        assert (config.lam_init, config.budget, config.gamma, config.hidden) == (1.0, 0.0, 0.99, (64, 64))
