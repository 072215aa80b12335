"""The agent that loses its income by violating: values in closed form, falls, quiet endings, means inside the box."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import probes
from tacit.errors import UserError
from tacit.forward import collect, lagrange, nets, ppo, ppo_lagrangian
from tacit.forward.gae import gae
from tacit.forward.ppo_update import Hyper, _policy_loss
from tacit.forward.retrain import Charge, Config, engine_of

N = 16
PLAIN = ppo_lagrangian.Config(
    total_steps=10**6,
    rollout_steps=256,
    batch_size=64,
    epochs=4,
    hidden=(16, 16),
    lr=1e-2,
    target_kl=None,
    beta=0.0,
    gamma=0.75,
    normalize_obs=False,
    normalize_reward=False,
    critics="single",
    multiplier="fixed",
    multiplier_init=0.5,
)


def train(env, config, iterations):
    state = ppo_lagrangian.init(env, config, 0)
    for _ in range(iterations):
        state, metrics, _ = ppo_lagrangian.iterate(env, config, state)
    return state, metrics


def test_a_kept_share_multiplies_the_future():
    rng = np.random.default_rng(0)
    r, v, nv, kept = rng.random((4, 6, 2)).astype(np.float32)
    no = np.zeros((6, 2), bool)
    got = np.asarray(gae(r, v, nv, no, no, 0.9, 0.8, kept))
    after = np.zeros(2)
    for t in reversed(range(6)):
        after = r[t] + 0.9 * kept[t] * nv[t] - v[t] + 0.9 * 0.8 * kept[t] * after
        np.testing.assert_allclose(got[t], after, rtol=1e-5)
    np.testing.assert_array_equal(gae(r, v, nv, no, no, 0.9, 0.8, np.ones_like(r)), gae(r, v, nv, no, no, 0.9, 0.8))


@pytest.mark.parametrize("reward", [1.0, -1.0])
def test_value_of_violating_for_ever(reward):
    """V = r~ / (1 - gamma (1 - e)), where the lost income also costs what the worst rollout lost."""
    env = probes.Tabular(N, [[[1.0]] * 2], np.full((1, 2), reward), costs=np.ones((1, 2)), observations=[[0.0]])
    state, _ = train(env, dataclasses.replace(PLAIN, forfeit=0.4), 120)
    worst = max(0.0, -reward)
    signal = reward - 0.5 - 0.4 * (worst + 0.5) * 0.75 / 0.25
    value = float(state.agent.params.critics[0](jnp.zeros((1, 1)))[0, 0])
    assert value == pytest.approx(signal / (1 - 0.75 * 0.6), rel=0.03)
    assert state.worst_loss == worst


def test_the_first_violation_counts_most():
    """Five steps at cost 1 or three: with an additive price haste is better; with a lost income both are the end."""
    gamma, p = 0.99, 1.0

    def price(steps, forfeit):
        total, alive = 0.0, 1.0
        for t in range(steps):
            total += gamma**t * alive * (1.0 + forfeit * gamma / (1 - gamma))
            alive *= 1 - forfeit
        return total

    assert price(5, 0.0) / price(3, 0.0) == pytest.approx(5 / 3, rel=0.02)
    assert price(5, p) == price(3, p)


def rollout(rewards, terminated):
    empty = np.zeros((len(rewards), 1, 1), np.float32)
    column = np.array(terminated)[:, None]
    rew = np.array(rewards, float)[:, None]
    return collect.Rollout(empty, empty, empty, empty, rew, np.zeros_like(rew), column, column, np.zeros_like(rew))


@pytest.mark.parametrize(
    ("rewards", "fall"),
    [([0.1, 1.0, 1.0], ppo_lagrangian.FALL), ([0.1, 0.2, 0.3], 0.0), ([-1.0, -1.0, -1.0], 0.0)],
    ids=["it earned and the end pays no bonus", "the end is the success", "the end is a relief"],
)
def test_what_counts_as_a_fall(rewards, fall):
    config = dataclasses.replace(PLAIN, forfeit=0.4, falls="forfeit")
    charged = np.array([[0.0], [2.0], [0.0]])
    ended = ppo_lagrangian.income_ended(config, rollout(rewards, [False, False, True]), charged)
    np.testing.assert_allclose(ended[:, 0], [0.0, 0.4, fall])
    free = dataclasses.replace(config, falls="free")
    assert ppo_lagrangian.income_ended(free, rollout(rewards, [False, False, True]), charged)[2] == 0.0


def test_growth_is_by_a_factor():
    assert lagrange.growth(lagrange.start(0.3), 0.5, 0.02).value == pytest.approx(0.3 * math.exp(0.01))
    assert lagrange.growth(lagrange.start(0.3), 50.0, 0.02).value == pytest.approx(0.3 * math.exp(0.02))
    assert lagrange.growth(lagrange.start(0.3), -0.5, 0.02).value < 0.3
    assert lagrange.growth(lagrange.start(0.3), 1.0, 5.0, maximum=2.0).value == 2.0


def test_noise_is_bounded_at_the_end_only():
    config = dataclasses.replace(PLAIN, total_steps=2048, lr=1e-6, lr_decay_start=0.5, log_std_final=-2.0)
    state, deviations = ppo.init(probes.Aim(N), config, 0), []
    for _ in range(8):
        state, metrics, _ = ppo.iterate(probes.Aim(N), config, state)
        deviations.append(metrics["train/std"])
    np.testing.assert_allclose(deviations[:4], 1.0, atol=1e-3)
    np.testing.assert_allclose(np.log(deviations[4:]), [-0.5, -1.0, -1.5, -2.0 - ppo.QUIET], atol=1e-3)


def test_noise_of_the_whole_action_vector():
    env = collect.make_vec("tacit/Nav-v0", 4)
    first = [
        np.asarray(ppo.init(env, dataclasses.replace(PLAIN, noise_of=kind, log_std_init=-0.2), 0).params.actor.log_std)
        for kind in ("action", "vector")
    ]
    np.testing.assert_allclose(first[0], [-0.2, -0.2])
    assert np.exp(2 * first[1]).sum() == pytest.approx(math.exp(-0.4))


def test_means_outside_of_the_box_are_pulled_back():
    actor = nets.make_params(np.random.default_rng(0), 1, 2, (4,)).actor
    net = nets.MLP(actor.net.weights, (*actor.net.biases[:-1], jnp.array([3.0, 0.5])))
    actor = nets.Actor(net, actor.log_std)
    rows = {"obs": jnp.zeros((8, 1)), "act": jnp.zeros((8, 2)), "advantage": jnp.zeros(8)}
    rows["log_prob"] = nets.log_prob(actor, rows["obs"], rows["act"])[0]
    hyper = Hyper(*([np.ones(1)] * 3), 1e-3, 1e-3, 0.2, 0.0, 0.0, 0.5, 0.5, 1e-5, math.inf)
    for weight, expected in ((0.0, [0.0, 0.0]), (0.1, [0.1 * 2 * 2.0, 0.0])):
        gradient = jax.grad(_policy_loss, has_aux=True)(actor, rows, hyper, weight)[0]
        np.testing.assert_allclose(gradient.net.biases[-1], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"forfeit": 0.3, "critics": "separate"}, 'forfeit needs critics "single"'),
        ({"forfeit": 0.3, "gamma": 1.0}, "gamma below 1"),
        ({"forfeit": 1.5}, "forfeit must be at least 0 and at most 1"),
        (
            {"multiplier": "ascent", "ascent_by": "factor", "multiplier_init": 0.0},
            '"factor" multiplier cannot start at 0',
        ),
        ({"bound_coef": 0.1, "scale_actions": False}, "bound_coef needs scale_actions"),
        ({"log_std_final": 1.0}, "log_std_final .* cannot exceed"),
    ],
)
def test_what_cannot_work_is_refused(setting, words):
    with pytest.raises(UserError, match=words):
        ppo_lagrangian.init(probes.Aim(N), dataclasses.replace(PLAIN, **setting), 0)


def test_only_the_excess_ends_the_income():
    """A cost that is nowhere 0 would end it everywhere."""
    config = Config(forfeit=0.3, ascent_by="factor", budget_per="episode")
    assert engine_of(config, Charge("excess", 0.1, 1.0, 0.05)) == config
    other = engine_of(config, Charge("budget", 0.1, 1.0, 0.05))
    assert (other.forfeit, other.budget, other.budget_per, other.ascent_by) == (0.0, 0.05, "step", "sum")
    raw = Charge("raw", 0.1, 1.0, 0.05)
    assert engine_of(config, raw).forfeit == 0.0
    fixed = dataclasses.replace(config, multiplier="fixed", multiplier_init=0.0)
    assert engine_of(fixed, raw) == dataclasses.replace(fixed, forfeit=0.0)  # what the user asked for stays
