"""One PPO update against the same arithmetic written as a plain loop, and with two threads against one."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tacit.envs.mujoco_vector import RobotVectorEnv
from tacit.errors import UserError
from tacit.forward import agent, nets, normalize, ppo, ppo_lagrangian

CONFIG = ppo_lagrangian.Config(
    rollout_steps=64, batch_size=16, epochs=3, hidden=(8,), lr=3e-3, target_kl=None, beta=0.01, max_grad_norm=0.3
)


def rollout_of(state, env):
    state, rollout = ppo.gather(env, CONFIG, state)
    rng = np.random.default_rng(1)
    return state, rollout, [rollout.rew, rng.random(rollout.rew.shape)]


def largest_difference(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(float(np.abs(np.asarray(x) - np.asarray(y)).max()) for x, y in pairs)


def plain_loop(config, state, rollout, signals, weights):
    """Section by section from the definition: GAE by hand, one joint loss, optax's own chain for each network."""
    n, k = len(rollout), len(signals)
    order = agent.generator(state).permuted(np.tile(np.arange(n, dtype=np.int32), (config.epochs, 1)), axis=1)
    obs = normalize.standardise(state.obs_stats, rollout.obs, state.obs_clip)
    reached = normalize.standardise(state.obs_stats, rollout.next_obs, state.obs_clip)
    params = state.params
    flat = obs.reshape(n, -1)
    old, _ = nets.log_prob(params.actor, flat, rollout.act.reshape(n, *rollout.act.shape[2:]))
    total, targets = np.zeros(rollout.rew.shape), []
    for critic, signal, weight, first in zip(params.critics, signals, weights, range(k), strict=True):
        reward = signal - (config.beta * np.asarray(old).reshape(signal.shape) if first == 0 else 0.0)
        value, after = (np.asarray(critic(x.reshape(n, -1)))[:, 0].reshape(signal.shape) for x in (obs, reached))
        trace, advantage = np.zeros(signal.shape[1]), np.zeros(signal.shape)
        for t in reversed(range(len(signal))):
            delta = reward[t] + config.gamma * after[t] * ~rollout.terminated[t] - value[t]
            trace = delta + config.gamma * config.gae_lambda * trace * ~rollout.done[t]
            advantage[t] = trace
        total += weight * advantage
        targets.append((advantage + value).reshape(n))
    total = ((total - total.mean()) / (total.std() + 1e-8)).reshape(n)

    chain = optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.adam(config.lr, eps=config.adam_eps))
    networks = [params.actor, *params.critics]
    states = [chain.init(network) for network in networks]

    def loss(networks, chosen):
        log_prob, _ = nets.log_prob(networks[0], flat[chosen], rollout.act.reshape(n, -1)[chosen])
        ratio = jnp.exp(log_prob - old[chosen])
        gain = jnp.minimum(ratio * total[chosen], jnp.clip(ratio, 1 - config.clip, 1 + config.clip) * total[chosen])
        error = sum(
            jnp.mean((critic(flat[chosen])[:, 0] - target[chosen]) ** 2)
            for critic, target in zip(networks[1:], targets, strict=True)
        )
        return -gain.mean() + config.value_coef * error

    for epoch in order:
        for chosen in epoch.reshape(-1, config.batch_size):
            gradients = jax.grad(loss)(networks, chosen)
            if config.clip_gradients == "together":
                whole = optax.clip_by_global_norm(config.max_grad_norm)
                gradients, _ = whole.update(gradients, whole.init(gradients))
            for i, gradient in enumerate(gradients):
                step, states[i] = chain.update(gradient, states[i])
                networks[i] = optax.apply_updates(networks[i], step)
    return nets.Params(networks[0], tuple(networks[1:]))


@pytest.fixture(scope="module")
def begun():
    env = RobotVectorEnv(8, "Pendulum")
    yield rollout_of(agent.init(env, CONFIG, 0, n_critics=2), env)
    env.close()


@pytest.mark.parametrize("clipped", ["each", "together"])
def test_update_equals_the_plain_loop(begun, clipped):
    state, rollout, signals = begun
    config = dataclasses.replace(CONFIG, clip_gradients=clipped)
    new, metrics = ppo.improve(config, state, rollout, signals, weights=(1.0, -0.5))
    expected = plain_loop(config, state, rollout, signals, (1.0, -0.5))
    moved = largest_difference(state.params, expected)
    assert moved > 1e-3
    assert largest_difference(new.params, expected) < 1e-3 * moved + 2e-5
    assert metrics["train/epochs"] == config.epochs
    other = dataclasses.replace(config, clip_gradients="each" if clipped == "together" else "together")
    assert largest_difference(plain_loop(other, state, rollout, signals, (1.0, -0.5)), expected) > 1e-3 * moved + 2e-5


def test_clipped_together_it_stops_early_too(begun):
    state, rollout, signals = begun
    config = dataclasses.replace(CONFIG, clip_gradients="together", target_kl=1e-9)
    new, metrics = ppo.improve(config, state, rollout, signals, weights=(1.0, -0.5))
    assert metrics["train/epochs"] == 1
    assert int(new.opt_state.count) == CONFIG.rollout_steps // CONFIG.batch_size


def test_two_threads_learn_the_same(begun):
    state, rollout, signals = begun
    one, first = ppo.improve(CONFIG, state, rollout, signals, weights=(1.0, -0.5))
    config = dataclasses.replace(CONFIG, threads=2)
    two, second = ppo.improve(config, state, rollout, signals, weights=(1.0, -0.5))
    assert largest_difference((one.params, one.opt_state), (two.params, two.opt_state)) < 1e-5
    assert first == pytest.approx(second, abs=1e-5)


def test_an_early_stop_ends_the_critics_too(begun):
    state, rollout, signals = begun
    config = dataclasses.replace(CONFIG, target_kl=1e-9, threads=2)
    new, metrics = ppo.improve(config, state, rollout, signals, weights=(1.0, -0.5))
    assert metrics["train/epochs"] == 1
    assert int(new.opt_state.count) == CONFIG.rollout_steps // CONFIG.batch_size
    once = dataclasses.replace(CONFIG, epochs=1)
    order = agent.generator(state).permuted(np.tile(np.arange(64, dtype=np.int32), (3, 1)), axis=1)[:1]

    class Fixed:
        bit_generator = agent.generator(state).bit_generator

        def permuted(self, *_, **__):
            return order

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent, "generator", lambda _: Fixed())
        alone, _ = ppo.improve(once, state, rollout, signals, weights=(1.0, -0.5))
    assert largest_difference(new.params.critics, alone.params.critics) < 1e-6


def test_threads_step_the_copies_and_change_no_number():
    one, two = RobotVectorEnv(8, "Swimmer"), RobotVectorEnv(8, "Swimmer")
    config = dataclasses.replace(CONFIG, threads=2)
    before = ppo.init(one, CONFIG, 3)
    after = ppo.init(two, config, 3)
    assert (one.nthread, two.nthread) == (1, 2)
    _, first = ppo.gather(one, CONFIG, before)
    _, second = ppo.gather(two, config, after)
    np.testing.assert_array_equal(first.next_obs, second.next_obs)
    with pytest.raises(UserError, match="threads must be at least 1"):
        ppo.init(one, dataclasses.replace(CONFIG, threads=0), 0)
    one.close()
    two.close()
