"""Networks, distributions, the NumPy policy, and running statistics, against scipy, JAX and plain sums."""

import gymnasium as gym
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.errors import UserError
from tacit.forward import nets, normalize
from tacit.policy import Interface, Policy
from tacit.run.storage import load_arrays, save_arrays


def numpy_policy(params, interface, *, mean=0.0, scale=1.0, clip=np.inf):
    actor = jax.tree.map(np.asarray, params.actor)
    vectors = (np.full(interface.obs_size, x, np.float32) for x in (mean, scale))
    return Policy(interface, actor.net.weights, actor.net.biases, actor.log_std, *vectors, clip)


@pytest.fixture
def gaussian():
    rng = np.random.default_rng(0)
    params = nets.make_params(rng, 5, 3, (16, 16), log_std=-0.5)
    # Away from the initialisation: a mean of visible size and unequal deviations.
    actor = nets.Actor(nets.make_mlp(rng, (5, 16, 16, 3), 1.0), np.float32([-0.5, 0.2, -1.5]))
    params = nets.Params(actor, params.critics)
    interface = Interface(5, 3, low=(-1.0, -3.0, -0.25), high=(1.0, 3.0, 0.75))
    return params, interface, rng.normal(size=(50, 5)).astype(np.float32)


@pytest.fixture
def categorical():
    rng = np.random.default_rng(1)
    actor = nets.Actor(nets.make_mlp(rng, (5, 16, 16, 4), 1.0), None)
    return nets.Params(actor, ()), Interface(5, 4, n_actions=4), rng.normal(size=(50, 5)).astype(np.float32)


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (5, 5)])
def test_orthogonal(shape):
    w = nets.orthogonal(np.random.default_rng(0), *shape, 2.0).astype(float)
    product = w.T @ w if shape[0] >= shape[1] else w @ w.T
    np.testing.assert_allclose(product, 4.0 * np.eye(min(shape)), atol=1e-5)


def test_gaussian_against_scipy(gaussian):
    params, _, obs = gaussian
    act = np.random.default_rng(2).normal(size=(50, 3)).astype(np.float32)
    log_prob, entropy = nets.log_prob(params.actor, obs, act)
    mean, std = np.asarray(params.actor.net(obs)), np.exp(np.asarray(params.actor.log_std))
    np.testing.assert_allclose(log_prob, stats.norm(mean, std).logpdf(act).sum(1), rtol=1e-4)
    np.testing.assert_allclose(entropy, stats.norm(0, std).entropy().sum(), rtol=1e-5)


def test_categorical_against_scipy(categorical):
    params, _, obs = categorical
    act = np.random.default_rng(2).integers(4, size=50)
    log_prob, entropy = nets.log_prob(params.actor, obs, act)
    logits = np.asarray(params.actor.net(obs), float)
    pi = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(log_prob, np.log(pi[np.arange(50), act]), atol=1e-5)
    np.testing.assert_allclose(entropy, stats.entropy(pi, axis=1), atol=1e-5)


def test_numpy_policy_equals_jax_policy(gaussian, categorical):
    for params, interface, obs in (gaussian, categorical):
        policy = numpy_policy(params, interface, mean=0.3, scale=2.0, clip=1.5)
        seen = np.clip((obs - 0.3) * 2.0, -1.5, 1.5)
        np.testing.assert_allclose(policy.head(obs), params.actor.net(seen), atol=1e-5)
        act = policy.act(obs, np.random.default_rng(3))
        own = interface.from_env(act)
        expected = np.asarray(nets.log_prob(params.actor, seen, own)[0]) - interface.log_volume
        np.testing.assert_allclose(policy.log_prob(obs, act), expected, atol=1e-4)
        np.testing.assert_allclose(policy.log_prob(obs[0], act[0]), expected[0], atol=1e-4)


def test_log_density_is_in_the_units_of_the_environment(gaussian):
    """The density of the actions in the box's own coordinates integrates to 1 over them."""
    _, _, obs = gaussian
    one = nets.Params(nets.Actor(nets.make_mlp(np.random.default_rng(0), (5, 8, 1), 1.0), np.float32([-1.0])), ())
    policy = numpy_policy(one, Interface(5, 1, low=(-3.0,), high=(3.0,)))
    grid = np.linspace(-30, 30, 6001)[:, None]
    density = np.exp(policy.log_prob(np.tile(obs[0], (6001, 1)), grid))
    assert density.sum() * 0.01 == pytest.approx(1.0, abs=1e-3)


def test_draws_follow_the_policy(gaussian, categorical):
    rng, n = np.random.default_rng(5), 20_000
    params, interface, obs = categorical
    policy = numpy_policy(params, interface)
    draws = policy.act(np.tile(obs[0], (n, 1)), rng)
    expected = np.exp([float(policy.log_prob(obs[0], np.array(a))) for a in range(4)])
    assert expected.sum() == pytest.approx(1.0, abs=1e-5)
    assert stats.chisquare(np.bincount(draws, minlength=4), n * expected / expected.sum()).pvalue > 1e-3
    assert policy.act(obs[0], rng, deterministic=True) == np.argmax(expected)

    params, interface, obs = gaussian
    policy = numpy_policy(params, interface)
    own = policy.perturb(policy.head(np.tile(obs[0], (n, 1))), policy.noise(rng, (n,)))
    for i in range(3):
        law = stats.norm(policy.head(obs[0])[i], np.exp(policy.log_std[i]))
        assert stats.kstest(own[:, i], law.cdf).pvalue > 1e-3
    mode = policy.act(obs, rng, deterministic=True)
    np.testing.assert_allclose(mode, interface.to_env(policy.head(obs)))


def test_actions_reach_the_environment_rescaled_and_clipped():
    own = np.float32([[-5.0, -0.5, 0.5], [0.0, 5.0, -1.0]])
    scaled = Interface(5, 3, low=(-1.0, -3.0, -0.25), high=(1.0, 3.0, 0.75))
    np.testing.assert_allclose(scaled.to_env(own), [[-1, -1.5, 0.5], [0, 3, -0.25]])
    plain = Interface(5, 3, low=(-1.0, -3.0, -0.25), high=(1.0, 3.0, 0.75), scaled=False)
    np.testing.assert_allclose(plain.to_env(own), [[-1, -0.5, 0.5], [0, 3, -0.25]])
    endless = Interface(5, 1, low=(-np.inf,), high=(2.0,))
    np.testing.assert_allclose(endless.to_env(np.float32([[-7.0], [3.0]])), [[-7.0], [2.0]])
    np.testing.assert_allclose(scaled.from_env(scaled.to_env(own[1] * 0.1)), own[1] * 0.1, atol=1e-6)


def test_policy_survives_saving(tmp_path, gaussian, categorical):
    for params, interface, obs in (gaussian, categorical):
        policy = numpy_policy(params, interface)
        save_arrays(tmp_path / "policy.safetensors", *policy.to_arrays())
        loaded = Policy.from_arrays(*load_arrays(tmp_path / "policy.safetensors"))
        rngs = np.random.default_rng(0), np.random.default_rng(0)
        np.testing.assert_array_equal(policy.act(obs, rngs[0]), loaded(obs, rngs[1]))
        assert loaded.interface == interface
    with pytest.raises(UserError, match="does not hold a policy"):
        Policy.from_arrays({}, {"kind": "cost"})


def test_interface_of_spaces():
    box, five = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(5)
    assert Interface.of(five, box) == Interface(5, 2, n_states=5, low=(-1.0, -1.0), high=(1.0, 1.0))
    np.testing.assert_array_equal(Interface.of(five, five).encode([1, 3]), np.eye(5)[[1, 3]])
    for bad in (gym.spaces.Box(0, 1, (8, 8)), gym.spaces.MultiBinary(3)):
        with pytest.raises(UserError, match="observations must be"):
            Interface.of(bad, box)
    with pytest.raises(UserError, match="actions must be"):
        Interface.of(box, gym.spaces.MultiDiscrete([2, 2]))
    with pytest.raises(UserError, match="obs_size = 2, the environment has 5"):
        Interface.of(box, five).require(Interface(5, 5, n_actions=5), "the agent")
    with pytest.raises(UserError, match="observations of 2 numbers"):
        Interface.of(box, box).encode(np.zeros((4, 3)))


# ---------------------------------------------------------------------------------------------------------------------
# normalize


@settings(max_examples=50)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(0, 10**6))
def test_running_statistics_are_those_of_all_samples(sizes, seed):
    rng = np.random.default_rng(seed)
    chunks = [rng.normal(rng.normal() * 100, rng.exponential(), (n, 3)) for n in sizes]
    stats_ = normalize.running((3,))
    for chunk in chunks:
        stats_ = normalize.update(stats_, chunk)
    everything = np.concatenate(chunks)
    assert stats_.count == len(everything)
    if len(everything):
        np.testing.assert_allclose(stats_.mean, everything.mean(0), rtol=1e-9)
        np.testing.assert_allclose(stats_.var, everything.var(0), rtol=1e-6, atol=1e-9)
    frozen = normalize.freeze(stats_)
    assert normalize.update(frozen, np.ones((4, 3))) is frozen


def test_standardise_clips():
    stats_ = normalize.update(normalize.running((2,)), np.array([[0.0, 5.0], [2.0, 5.0]]))
    np.testing.assert_allclose(
        normalize.standardise(stats_, np.float32([[3.0, 5.0], [99, 6]]), 10.0), [[2, 0], [10, 10]]
    )


def test_return_scale_tracks_discounted_returns_across_rollouts():
    rng = np.random.default_rng(0)
    rewards, done = rng.normal(size=(30, 4)), rng.random((30, 4)) < 0.2
    seen = []
    for i in range(4):
        total = 0.0
        for t in range(30):
            total = 0.9 * total + rewards[t, i]
            seen.append(total)
            total = 0.0 if done[t, i] else total
    scale = normalize.return_scale(4)
    for part in (slice(0, 7), slice(7, 30)):
        scale = normalize.track_returns(scale, rewards[part], done[part], 0.9)
    assert scale.std == pytest.approx(np.std(seen))
