"""MCE-ICRL, deep: the dual against hand computations and its closed form, moments, resuming, what the learner sees."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import gymnasium as gym
import jax
import numpy as np
import pytest

from tacit.cost import Inputs
from tacit.demos.data import Trajectory, from_trajectories
from tacit.errors import UserError
from tacit.forward.collect import Rollout, make_vec
from tacit.inverse import features, mce, mce_traps, samples
from tacit.policy import Interface

HYPER = features.Hyper(lr_zeta=0.0, lr_lam=0.02, budget=0.0, expert_square=2.0, learner_square=0.1)


def one_hot_batches(rho_expert, rho_learner, rng, count=3000, size=512) -> features.Batches:
    """Samples of two distributions over cells, as one-hot features."""
    eye = np.eye(len(rho_expert), dtype=np.float32)

    def draw(rho):
        return eye[rng.choice(len(rho), p=rho / rho.sum(), size=(count, size))], np.full((count, size), rho.sum())

    return features.Batches(*draw(rho_expert), *draw(rho_learner))


def linear(k: int, lam: float = 0.1) -> features.Params:
    return features.init(np.random.default_rng(0), np.zeros((2, k)), thresholds=0, hidden=(), joint=0, lam=lam, bias=0)


def test_dual_loss_by_hand():
    rng = np.random.default_rng(0)
    params = features.init(rng, rng.standard_normal((9, 2)), thresholds=2, hidden=(3,), joint=4, lam=0.5, bias=-1.0)
    part = features.Batches(*(rng.random(shape).astype(np.float32) for shape in ((5, 2), (5,), (7, 2), (7,))))
    hyper = features.Hyper(0.0, 0.0, 0.3, 2.0, 0.7)
    cost = [np.asarray(features.features(params.phi, z)) @ np.asarray(params.lam) for z in (part.expert, part.learner)]
    expected = (part.expert_weight * (cost[0] + 2.0 * cost[0] ** 2)).mean()
    expected -= (part.learner_weight * (cost[1] - 0.7 * cost[1] ** 2)).mean()
    expected += 0.3 * np.asarray(params.lam).sum()
    assert float(features.dual_loss(params, part, hyper)) == pytest.approx(expected, rel=1e-5)
    gradient = jax.grad(features.dual_loss)(params, part, hyper)
    moved = params._replace(lam=params.lam.at[3].add(1e-2))
    lower = params._replace(lam=params.lam.at[3].add(-1e-2))
    numeric = (features.dual_loss(moved, part, hyper) - features.dual_loss(lower, part, hyper)) / 2e-2
    assert float(gradient.lam[3]) == pytest.approx(float(numeric), rel=2e-2)


@pytest.mark.parametrize(("thresholds", "joint"), [(3, 0), (3, 4), (0, 4), (0, 0)])
def test_quick_gradient_of_the_cost_is_that_of_its_definition(thresholds, joint):
    rng = np.random.default_rng(3)
    z = rng.standard_normal((11, 2)).astype(np.float32)
    params = features.init(rng, z, thresholds=thresholds, hidden=(3,), joint=joint, lam=0.5, bias=-1.0)
    params = params._replace(lam=params.lam * rng.random(len(params.lam)).astype(np.float32))
    weight = rng.standard_normal(11).astype(np.float32)
    slow = jax.value_and_grad(lambda p: weight @ (features.features(p.phi, z) @ p.lam))(params)
    quick = jax.value_and_grad(lambda p: weight @ features.costs(p, z))(params)
    for expected, found in zip(jax.tree.leaves(slow), jax.tree.leaves(quick), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_dual_converges_to_its_closed_form():
    """One feature a cell: the minimum of the dual is (3) of the module, cell by cell, 0 where the expert goes more."""
    rng = np.random.default_rng(1)
    rho_expert = np.array([0.5, 0.3, 0.2, 0.0, 0.0])
    rho_learner = np.array([0.1, 0.3, 0.4, 0.15, 0.05])
    params = linear(5)
    batches = one_hot_batches(rho_expert, rho_learner, rng)
    for lr in (0.02, 0.004, 0.0008):
        hyper = HYPER._replace(lr_lam=lr)
        params, _, _ = features.dual_steps(params, features.OPTIMISER.init(params), batches, hyper, once=False)
    expected = np.maximum(0, rho_learner - rho_expert) / (2 * (2.0 * rho_expert + 0.1 * rho_learner))
    np.testing.assert_allclose(params.lam, expected, atol=0.08)
    assert float(params.lam[0]) == 0.0


def test_budget_loosens():
    """A larger budget never raises a multiplier, and one above every gap leaves no cost at all."""
    rho = np.array([0.6, 0.4, 0.0]), np.array([0.3, 0.4, 0.3])
    found = []
    for budget in (0.0, 0.1, 0.5):
        batches = one_hot_batches(*rho, np.random.default_rng(2))
        hyper = HYPER._replace(budget=budget)
        params, _, _ = features.dual_steps(linear(3), features.OPTIMISER.init(linear(3)), batches, hyper, once=False)
        found.append(np.asarray(params.lam))
    assert found[0][2] > found[1][2] > 0.5
    assert (found[2] == 0).all()


def test_absorbing_cost_is_the_closed_form_of_one_state_up_to_the_cost_of_living():
    config = mce.Config()
    assert (
        mce_traps.absorbing_cost(config, 0.0, 0.0, 9.0)
        == mce_traps.absorbing_cost(config, 0.0, 0.3, 9.0)
        == config.ceiling
    )
    assert mce_traps.absorbing_cost(config, 0.0, 0.3, 2.0) == 2.0
    assert mce_traps.absorbing_cost(config, 0.2, 0.2, 9.0) == mce_traps.absorbing_cost(config, 0.5, 0.1, 9.0) == 0.0
    expected = (0.4 - 0.1) / (2 * (20.0 * 0.1 + 0.1 * 0.4))
    assert mce_traps.absorbing_cost(config, 0.1, 0.4, 9.0) == pytest.approx(expected)
    assert mce_traps.absorbing_cost(replace(config, moments="normalised"), 0.0, 0.3, 9.0) == 0.0


# ---------------------------------------------------------------------------------------------------------------------
# Samples

FACE = Interface(obs_size=1, act_size=1, low=(-1.0,), high=(1.0,))
INPUTS = Inputs(("x",), (0,), 1, 0, np.zeros(1, np.float32), np.ones(1, np.float32))


def walk(length: int, start: float, terminated: bool) -> Trajectory:
    obs = start + np.arange(length + 1.0)[:, None]
    return Trajectory(obs, np.zeros((length, 1)), np.zeros(length), None, terminated)


def test_moments_of_demonstrations():
    demos = from_trajectories([walk(3, 0.0, True), walk(5, 10.0, False)], {})
    expert = samples.of_demonstrations(demos, FACE, INPUTS, "next", horizon=5)
    x = expert.rows[:, 0].astype(float)
    gamma = 0.9
    by_hand = np.mean([sum(gamma**t * (1 + t) for t in range(3)), sum(gamma**t * (11 + t) for t in range(5))])
    assert expert.weight("sum", gamma) @ x == pytest.approx(by_hand, rel=1e-6)
    assert expert.weight("normalised", gamma) @ x == pytest.approx(x.mean(), rel=1e-6)
    # The first one ends after 3 of 5 steps: 2 of 10 padded steps are absorbed.
    assert expert.absorbed == pytest.approx(0.2)
    assert expert.weight("absorbing", gamma) @ x == pytest.approx(x.sum() / 10, rel=1e-6)
    current = samples.of_demonstrations(demos, FACE, INPUTS, "current", horizon=5)
    np.testing.assert_array_equal(current.rows[:, 0], [0, 1, 2, 10, 11, 12, 13, 14])


def rollout_of(done, terminated, times) -> Rollout:
    shape = np.shape(done)
    obs = np.arange(float(np.size(done))).reshape(*shape, 1).astype(np.float32)
    zero = np.zeros((*shape, 1), np.float32)
    arrays = np.array(terminated, bool), np.array(done, bool), np.array(times)
    return Rollout(obs, zero, zero, obs + 0.5, np.zeros(shape), np.ones(shape), *arrays)


def test_moments_of_a_phase():
    # One environment: an episode of 4 that ends by itself, then one of 2 that is cut by the end of the phase.
    done = [[0], [0], [0], [1], [0], [0]]
    phase = samples.of_rollouts(
        [rollout_of(done[:3], done[:3], [[0], [1], [2]]), rollout_of(done[3:], done[3:], [[3], [0], [1]])],
        INPUTS,
        "current",
        horizon=10,
    )
    assert phase.absorbed == pytest.approx(6 / 12)
    assert phase.weight("absorbing", 0.9).sum() == pytest.approx(0.5)
    assert phase.mean_length == 4
    # The discounted mass of an episode of 4, spread over what was seen.
    assert phase.weight("sum", 0.9).sum() == pytest.approx((1 - 0.9**4) / (1 - 0.9), rel=1e-5)
    weight = phase.weight("sum", 0.9)
    assert weight[1] / weight[0] == pytest.approx(0.9)
    assert weight[4] == pytest.approx(weight[0])


def test_thinned_rows_are_of_all_copies():
    copies = np.tile(np.arange(8), 2048)
    kept = samples.thinned(copies, 4096)
    assert len(kept) == 4096
    counts = np.bincount(kept, minlength=8)
    assert counts.min() > 400
    np.testing.assert_array_equal(samples.thinned(copies[:100], 4096), copies[:100])
    np.testing.assert_array_equal(samples.thinned(copies + 10.0, 4096), kept + 10.0)  # the truth beside its rows


def test_scale_is_that_of_the_narrower_distribution():
    rng = np.random.default_rng(3)
    wide, narrow = 100.0 + 50.0 * rng.standard_normal((4000, 1)), 1.0 + 0.5 * rng.standard_normal((4000, 1))
    for pair in ((wide, narrow), (narrow, wide)):
        fitted = samples.fit_scale(INPUTS, *pair)
        assert fitted.centre[0] == pytest.approx(1.0, abs=0.05)
        assert fitted.scale[0] == pytest.approx(0.5, rel=0.05)
    constant = samples.fit_scale(INPUTS, np.full((10, 1), 7.0), np.full((10, 1), 7.0))
    assert constant.scale[0] == 1.0
    assert np.isfinite(constant.scaled(np.array([[7.0]]))).all()


def test_linear_features_must_not_be_negative():
    with pytest.raises(UserError, match="features >= 0, and x is -1"):
        samples.unit_scale(INPUTS, np.array([[2.0], [-1.0]]))


# ---------------------------------------------------------------------------------------------------------------------
# The loop, on a cart that may go either way


class Line(gym.Env):
    """A point on a line that is paid for being far from the origin; x < -1 costs, which only a judge should read."""

    metadata: ClassVar[dict[str, list[str]]] = {"render_modes": []}
    feature_names = ("x",)
    cost_size = 1.0

    def __init__(self, ends: bool = False) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.ends = ends

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = 0.0, 0
        return np.array([self.x], np.float32), {"cost": 0.0}

    def step(self, action):
        self.x += 0.2 * float(np.clip(action[0], -1, 1))
        self.t += 1
        # The forbidden side pays more: a nominal agent goes there.
        reward = 1.5 * max(0.0, -self.x) + max(0.0, self.x)
        ended = self.ends and abs(self.x) > 3.0
        info = {"cost": self.cost_size * float(self.x < -1.0)}
        return np.array([self.x], np.float32), reward, ended, self.t >= 20, info


gym.register("tacit-test/Line-v0", entry_point=Line)


def to_the_right(n: int = 8):
    rng = np.random.default_rng(0)
    trajectories = []
    for _ in range(n):
        act = np.clip(0.7 + 0.2 * rng.standard_normal((20, 1)), -1, 1)
        obs = np.concatenate([[[0.0]], np.cumsum(0.2 * act, axis=0)])
        trajectories.append(Trajectory(obs.astype(np.float32), act.astype(np.float32), np.zeros(20), None, False))
    return from_trajectories(trajectories, {})


SMALL = mce.Config(
    total_steps=12_000,
    n_envs=8,
    rollout_steps=512,
    batch_size=128,
    bootstrap_steps=2048,
    forward_steps=1024,
    minibatches=60,
    dual_batch=128,
    thresholds=8,
    joint=0,
    lr_zeta=3e-3,
    hidden=(16, 16),
    lr=1e-3,
)


def learn(config=SMALL, demos=None, state=None, env="tacit-test/Line-v0", **kwargs):
    vector = make_vec(env, config.n_envs, **kwargs)
    return list(mce.learn(vector, demos or to_the_right(), config, 0, state))


def test_linear_features_must_not_be_negative_where_the_learner_goes():
    """Demonstrations keep to x > 0; a learner at x < 0 would be paid for it."""
    with pytest.raises(UserError, match=r"x is -.* in a step of the learner"):
        learn(replace(SMALL, thresholds=0, joint=0))


@pytest.mark.parametrize("start", ["nominal", "clone"])
def test_it_learns_which_side_is_forbidden(start):
    history = learn(replace(SMALL, start=start, total_steps=25_000))
    state, metrics = history[-1]
    cost = mce.cost_of(state, SMALL)
    assert cost(np.array([-2.0])) > 2.0 > 0.2 > cost(np.array([1.5]))
    assert metrics["truth/violation_rate_step"] < 0.05
    # The nominal agent went there: it was the constraint that turned it round.
    assert history[0][0].nominal[:, 0].min() < -1.0


def test_the_true_cost_is_not_used(monkeypatch):
    """Another true cost, the same run."""
    first = learn(replace(SMALL, total_steps=5000))[-1][0]
    monkeypatch.setattr(Line, "cost_size", 0.0)
    second = learn(replace(SMALL, total_steps=5000))[-1][0]
    assert np.nanmax(first.nominal_truth) > 0 == np.nanmax(second.nominal_truth)
    same = jax.tree.map(
        np.array_equal, (first.params, first.forward.agent.params), (second.params, second.forward.agent.params)
    )
    assert all(jax.tree.leaves(same))


@pytest.mark.parametrize("critics", ["separate", "single"])
def test_the_scale_of_rewards_follows_the_cost_where_one_critic_learns_both(critics):
    """Frozen before there is a cost, it would be the scale of something else, and most of R - c beyond the clip."""
    config = replace(SMALL, critics=critics, penalty_unit="reward", lam_init=5.0, feature_bias=0.0, total_steps=5000)
    (first, _), *_, (last, _) = learn(config)
    sizes = [float(state.forward.agent.reward_scale.std) for state in (first, last)]
    if critics == "single":
        assert sizes[1] > 1.5 * sizes[0]
    else:
        assert sizes[1] == sizes[0]


@pytest.mark.parametrize("moments", ["absorbing", "sum"])
def test_resumed_from_arrays_is_the_same_run(moments):
    """On a robot, whose environments can be put back where they were."""
    from tacit.demos import collect

    env_id = "tacit/Pendulum-v0"
    config = replace(
        SMALL, n_envs=4, total_steps=6000, moments=moments, joint=4, feature_hidden=(4,), pretrain_epochs=1
    )
    test = make_vec(env_id, 4)
    demos = collect(test, lambda obs, rng: rng.uniform(-0.1, 0.1, (4, 1)), 6, seed=0)
    whole = learn(config, demos, env=env_id)
    half = whole[2][0]
    again = mce.METHODS["network"].from_arrays(*mce.METHODS["network"].to_arrays(half))
    rest = learn(config, demos, state=again, env=env_id)
    assert len(rest) == len(whole) - 3 > 0
    end, other = whole[-1][0], rest[-1][0]
    pair = zip(
        jax.tree.leaves((end.params, end.forward.agent.params)),
        jax.tree.leaves((other.params, other.forward.agent.params)),
        strict=True,
    )
    assert all(np.array_equal(a, b) for a, b in pair)
    np.testing.assert_array_equal(end.replay, other.replay)


def test_dying_is_as_dear_as_living_when_demonstrations_live():
    state, metrics = learn(replace(SMALL, total_steps=4000), ends=True)[-1]
    cost = mce.cost_of(state, SMALL).of_rows(state.replay[-1])
    assert metrics["dual/absorbing"] == state.absorbing == pytest.approx(np.quantile(cost, 0.9), rel=0.2)
    assert state.absorbing > 1.0


def test_survival_bias_is_warned_of():
    """Demonstrations that live on, a learner that falls, and moments that do not see it: the paper's pendulum."""
    from tacit import demos as demonstrations

    env_id = "tacit/Pendulum-v0"
    shown = demonstrations.load(demonstrations.shipped(env_id)).subset(np.arange(6))
    config = replace(SMALL, moments="sum", bootstrap_steps=512)
    with pytest.warns(UserWarning, match="survival bias"):
        next(mce.learn(make_vec(env_id, config.n_envs), shown, config, 0))


def test_guard_resets_a_trapped_policy():
    """A cost at its ceiling wherever the policy goes: judged by the charged cost alone."""
    state = learn(replace(SMALL, total_steps=3000))[-1][0]
    config = replace(SMALL, total_steps=100_000)
    for expected in (0, 0, 1):
        state, metrics = mce_traps.guarded(config, state, 0.96 * config.ceiling)
        assert (state.resets, metrics["guard/resets"]) == (expected, expected)
    state, _ = mce_traps.guarded(config, replace(state, saturated=2), 0.5 * config.ceiling)
    assert (state.saturated, state.resets) == (0, 1)
    late = replace(config, total_steps=3000)
    assert mce_traps.guarded(late, replace(state, saturated=2), config.ceiling)[0].resets == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"moments": "all"}, "moments must be absorbing, normalised or sum"),
        ({"use_action": True}, 'use at="current"'),
        ({"lr_zeta": -1.0}, "lr_zeta cannot be negative"),
        ({"replay_share": 1.0}, "replay_share"),
        ({"inputs": ("y",)}, "no feature 'y'; there are x"),
    ],
)
def test_settings_that_cannot_work(change, message):
    with pytest.raises(UserError, match=message):
        learn(replace(SMALL, **change))
