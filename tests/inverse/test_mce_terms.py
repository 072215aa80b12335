"""MCE-ICRL with a cost of terms: a short run finds the rule, resumes exactly, and says when agents are beginners."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from tacit import demos
from tacit.errors import UserError
from tacit.forward.collect import make_vec
from tacit.inverse import mce

ROAD = "tacit/SlowZone-v0"
SHORT = {
    "features": "terms",
    "start": "clone",
    "total_steps": 60_000,
    "n_envs": 16,
    "rollout_steps": 2048,
    "batch_size": 256,
    "lr": 1e-3,
    "bootstrap_steps": 12_288,
    "tempted_steps": 6144,
    "forward_steps": 8192,
    "expert_square": 2.0,
}


@pytest.fixture(scope="module")
def road():
    data = demos.load(demos.shipped(ROAD))
    config = mce.Config(**SHORT)
    return data, config, list(mce.learn(make_vec(ROAD, 16), data, config, seed=0))


def test_the_cost_is_about_speed_and_place(road):
    data, config, states = road
    state, metrics = states[-1]
    cost = mce.cost_of(state, config)
    assert set().union(*(term.names for term in cost.terms)) == {"x", "v"}
    inside, allowed = np.array([[3.0, 1.5]]), data.observations[data.rows_before + 1]
    assert cost(inside)[0] > cost.threshold
    assert (cost(allowed) > cost.threshold).mean() < 0.05
    assert metrics["dual/share"] > 0.2
    assert state.price >= 1
    assert cost.unit == pytest.approx(state.price * state.forward.rbar)


def test_a_resumed_run_is_the_same(road):
    data, config, states = road
    halfway = mce.METHODS["terms"].from_arrays(*mce.METHODS["terms"].to_arrays(states[2][0]))
    # `from_arrays` gives what a file would: plain arrays without the environment.
    last = list(mce.learn(make_vec(ROAD, 16), data, config, seed=0, state=halfway))[-1][0]
    expected = states[-1][0]
    assert last.price == expected.price
    for one, other in zip(jax.tree.leaves(last.params), jax.tree.leaves(expected.params), strict=True):
        assert np.array_equal(one, other)
    for one, other in zip(
        jax.tree.leaves(last.forward.agent.params), jax.tree.leaves(expected.forward.agent.params), strict=True
    ):
        assert np.array_equal(one, other)


def test_beginners_are_named():
    data = demos.load(demos.shipped("tacit/Pendulum-v0")).first(2)
    rich = replace(data, rewards=100.0 * data.rewards)  # demonstrators who earn what no agent can
    config = mce.Config(**{**SHORT, "total_steps": 8192, "bootstrap_steps": 2048, "tempted_steps": 2048})
    with pytest.warns(UserWarning, match="not competent"):
        list(mce.learn(make_vec("tacit/Pendulum-v0", 16), rich, config, seed=0))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"start": "nominal"}, "clone"), ({"moments": "sum"}, "moments"), ({"tempted_steps": -1}, "tempted")],
)
def test_settings_that_cannot_work(change, message):
    with pytest.raises(UserError, match=message):
        mce.METHODS["terms"].check_settings(mce.Config(**{**SHORT, **change}))
