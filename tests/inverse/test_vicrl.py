"""Variational ICRL: the posterior against scipy, gradients where its parameters are nearly 0, and the loop."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from baseline_helpers import (
    SMALL,
    learn,
    net_of,
    output_by_hand,
    slope,
    start,
    stopped_and_resumed_is_the_same_run,
    to_the_right,
)
from tacit.cost import BETA_FLOOR, LearnedCost
from tacit.errors import UserError
from tacit.inverse import constraint_net, vicrl
from tacit.report import load_run

CONFIG = vicrl.Config(**SMALL, forward_steps=1024, lr_constraint=0.02, anneal=1.0)
TINY = {
    "total_steps": 3072,
    "bootstrap_steps": 1024,
    "forward_steps": 1024,
    "rollout_steps": 512,
    "eval_episodes": 2,
    "hidden": (16, 16),
    "checkpoint_every": 1,
    "replay_share": 0.5,
    "inputs": ("x_position",),
}
DEMOS = to_the_right(30)
"""As many steps as the Pendulum's six: inverse steps of one shape, because compiling one takes seconds."""
PRIORS = [(0.9, 0.1), (0.09, 0.01), (0.009, 0.001), (9.0, 1.0)]


def kl_by_quadrature(a: float, b: float, p: float, q: float) -> float:
    one, other = stats.beta(a, b), stats.beta(p, q)
    value, _ = integrate.quad(lambda x: one.pdf(x) * (one.logpdf(x) - other.logpdf(x)), 0, 1, limit=200)
    return value


@pytest.mark.parametrize(("a", "b"), [(2.0, 3.0), (5.0, 1.5), (1.0, 1.0)])
@pytest.mark.parametrize("prior", PRIORS)
def test_divergence_is_the_integral_that_defines_it(a, b, prior):
    found = float(vicrl.divergence(jnp.float32(a), jnp.float32(b), *prior))
    assert found == pytest.approx(kl_by_quadrature(a, b, *prior), rel=1e-3, abs=1e-4)


def test_divergence_of_the_prior_from_itself_is_zero_and_never_negative():
    for p, q in PRIORS:
        assert float(vicrl.divergence(jnp.float32(p), jnp.float32(q), p, q)) == pytest.approx(0.0, abs=1e-3)
    grid = np.geomspace(BETA_FLOOR, 100.0, 25).astype(np.float32)
    a, b = (x.reshape(-1) for x in np.meshgrid(grid, grid))
    assert (np.asarray(vicrl.divergence(a, b, 0.9, 0.1)) > -1e-3).all()


def test_loss_by_hand():
    """With the samples that were drawn: -mean log x of demonstrations, + that of the learner, + delta times both KL."""
    net, rng, key = net_of(0, 3, 4, 2), np.random.default_rng(0), jax.random.key(3)
    sides = [rng.standard_normal((n, 3)).astype(np.float32) for n in (6, 8)]
    hyper = vicrl.Hyper(lr=0.0, delta=0.3, p=0.9, q=0.1)
    a, b = (np.logaddexp(output_by_hand(net, np.concatenate(sides)), 0.0) + BETA_FLOOR).T
    log_x = np.asarray(vicrl.log_sample(key, a.astype(np.float32), b.astype(np.float32)), np.float64)
    log_x = np.log(np.clip(np.exp(log_x), 1e-5, 1.0))
    digamma = special.digamma
    kl = special.betaln(0.9, 0.1) - special.betaln(a, b)
    kl += (a - 0.9) * (digamma(a) - digamma(a + b)) + (b - 0.1) * (digamma(b) - digamma(a + b))
    kls = [kl[:6].mean(), kl[6:].mean()]
    expected = log_x[6:].mean() - log_x[:6].mean()
    value, both = vicrl.loss(net, key, *sides, hyper)
    assert float(value) == pytest.approx(expected + 0.3 * sum(kls), rel=1e-4)
    np.testing.assert_allclose(both, kls, rtol=1e-4)


def test_gradient_of_the_divergence_is_that_of_differences():
    net, z = net_of(1, 3, 4, 2), np.random.default_rng(1).standard_normal((9, 3)).astype(np.float32)

    def mean_kl(net):
        return vicrl.divergence(*vicrl.parameters(net, z), 0.9, 0.1).mean()

    for layer, place in ((0, (1, 2)), (1, (3, 0)), (1, (2, 1))):
        found = float(jax.grad(mean_kl)(net).weights[layer][place])
        assert found == pytest.approx(slope(mean_kl, net, layer, place, by=2e-3), rel=2e-2, abs=2e-3)


@pytest.mark.parametrize(("a", "b"), [(2.0, 3.0), (0.05, 0.2)])
def test_samples_are_of_the_beta_distribution_and_so_is_their_gradient(a, b):
    n = 20_000
    keys = jax.random.key(0)
    log_x = np.asarray(vicrl.log_sample(keys, jnp.full(n, a), jnp.full(n, b)), np.float64)
    assert np.exp(log_x).mean() == pytest.approx(a / (a + b), abs=0.01)
    assert log_x.mean() == pytest.approx(special.digamma(a) - special.digamma(a + b), rel=0.03)
    # E log x = psi(a) - psi(a + b): its derivatives, through the samples.
    gradient = jax.grad(lambda a, b: vicrl.log_sample(keys, jnp.full(n, a), jnp.full(n, b)).mean(), (0, 1))(a, b)
    trigamma = lambda x: float(special.polygamma(1, x))  # noqa: E731
    assert float(gradient[0]) == pytest.approx(trigamma(a) - trigamma(a + b), rel=0.06)
    assert float(gradient[1]) == pytest.approx(-trigamma(a + b), rel=0.06)


@pytest.mark.parametrize("shape", [0.003, 0.2, 1.0, 7.0])
def test_slopes_of_gamma_samples_are_those_of_quantiles(shape):
    """d log g / d shape at a fixed quantile: by differences of quantiles, and as JAX has it where that is exact."""
    key, shapes = jax.random.key(5), jnp.full(200, shape)
    sample = np.asarray(vicrl.log_gamma(key, shapes), np.float64)
    found = np.asarray(jax.grad(lambda a: vicrl.log_gamma(key, a).sum())(shapes))
    usual = sample > vicrl.SMALLEST
    theirs = np.asarray(jax.grad(lambda a: jax.random.loggamma(key, a).sum())(shapes))
    np.testing.assert_allclose(found[usual], theirs[usual], rtol=1e-4)
    # Far below, log g = (log u + log Gamma(shape + 1)) / shape for a uniform u: the quantile itself is 0.
    log_u = shape * sample[~usual] - special.gammaln(shape + 1.0)
    h = 1e-4 * shape
    high, low = ((log_u + special.gammaln(at + 1.0)) / at for at in (shape + h, shape - h))
    np.testing.assert_allclose(found[~usual], (high - low) / (2.0 * h), rtol=1e-3)
    level = stats.gamma(shape).cdf(np.exp(sample[usual]))
    inside = (level > 1e-6) & (level < 1.0 - 1e-6)
    high, low = (np.log(stats.gamma(at).ppf(level[inside])) for at in (shape + h, shape - h))
    np.testing.assert_allclose(found[usual][inside], (high - low) / (2.0 * h), rtol=2e-2)


def test_gradients_are_finite_where_the_parameters_are_nearly_zero():
    """The network's outputs at the edge: parameters at their floor, or very large."""
    z = np.random.default_rng(0).standard_normal((256, 2)).astype(np.float32)
    slopes = jax.jit(jax.value_and_grad(vicrl.loss, has_aux=True))
    for output in [(-100, -100), (-100, 5), (5, -100), (-20, 0), (-8, -9), (50, 80)]:
        net = net_of(0, 2, 2)
        net = net._replace(weights=(0 * net.weights[0],), biases=(jnp.array(output, jnp.float32),))
        a, b = vicrl.parameters(net, z)
        assert min(a.min(), b.min()) >= np.float32(BETA_FLOOR)
        for prior in PRIORS:
            (value, _), gradient = slopes(net, jax.random.key(0), z, z, vicrl.Hyper(0.1, 0.5, *prior))
            assert np.isfinite(float(value)), (output, prior)
            assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient)), (output, prior)


def test_a_tiny_prior_pulls_the_parameters_down_and_nothing_breaks():
    """The published prior of Walker: the parameters go down towards it, all finite."""
    net, rng = net_of(0, 1, 20, 2), np.random.default_rng(0)
    expert, learner = (rng.standard_normal((n, 1)).astype(np.float32) for n in (600, 1024))
    before = sum(float(x.mean()) for x in vicrl.parameters(net, learner))
    opt_state, hyper = constraint_net.OPTIMISER.init(net), vicrl.Hyper(0.05, 0.6, 0.009, 0.001)
    orders = constraint_net.orders(rng, 600, 1024, 0, 10)
    for i in range(60):
        net, opt_state, info = vicrl.descend(net, opt_state, jax.random.key(i), (expert, learner), orders, hyper)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((net, info)))
    assert 0.003 < float(info["inverse/concentration"]) < 0.5 * before


def test_cost_is_the_mean_and_samples_average_to_it():
    config = vicrl.Config(**{**vars(CONFIG), "total_steps": 2000})
    state = learn(vicrl, config, DEMOS)[-1][0]
    obs = np.linspace(-3, 3, 7)[:, None].astype(np.float32)
    cost = vicrl.cost_of(state, config)
    a, b = (np.asarray(x) for x in vicrl.parameters(state.params, state.inputs.scaled(obs)))
    np.testing.assert_allclose(cost(obs), b / (a + b), rtol=1e-4)
    again = LearnedCost.from_arrays(*cost.to_arrays())
    np.testing.assert_array_equal(again(obs), cost(obs))
    many, act = np.repeat(obs, 2000, axis=0), np.zeros((14_000, 1), np.float32)
    sampled = vicrl.METHOD.charged(config, state, np.random.default_rng(0))(many, act, many).reshape(7, -1)
    np.testing.assert_allclose(sampled.mean(axis=1), cost(obs), atol=0.03)
    assert sampled.std(axis=1).min() > 0.01
    mean = vicrl.METHOD.charged(vicrl.Config(**{**vars(config), "cost": "mean"}), state, np.random.default_rng(0))
    np.testing.assert_array_equal(mean(obs, act[:7], obs), cost(obs))


def test_a_cost_of_another_head_is_refused():
    net = net_of(0, 1, 3, 2)
    inputs = learn(vicrl, vicrl.Config(**{**vars(CONFIG), "total_steps": 2048}), DEMOS)[-1][0].inputs
    arrays, card = constraint_net.to_cost(net, inputs, "next", head="beta").to_arrays()
    for wrong in ("sigmoid", "gamma"):
        with pytest.raises(UserError, match="do not fit together"):
            LearnedCost.from_arrays(arrays, {**card, "head": wrong})


# ---------------------------------------------------------------------------------------------------------------------
# The loop


def test_the_cost_separates_the_forbidden_side():
    history = learn(vicrl, CONFIG, DEMOS)
    cost = vicrl.cost_of(history[-1][0], CONFIG)
    assert cost(np.array([-2.0])) > 0.75 > 0.35 > cost(np.array([1.5]))
    assert history[0][0].nominal[:, 0].min() < -1.0


def test_in_a_run_folder(tmp_path, monkeypatch):
    run = stopped_and_resumed_is_the_same_run("vicrl", tmp_path, monkeypatch, **TINY)
    assert LearnedCost.load(run.path / "model" / "cost.safetensors").head == "beta"
    assert load_run(run).notes == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prior": (0.9, 0.0)}, "prior must be positive"),
        ({"prior": (0.9,)}, "not of type"),
        ({"cost": "median"}, "cost"),
        ({"replay_share": 1.0}, "replay_share"),
        ({"delta": -0.1}, "delta cannot be negative"),
    ],
)
def test_settings_that_cannot_work(tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        start("vicrl", tmp_path, **{**TINY, **change})
    assert not (tmp_path / "runs").exists()
