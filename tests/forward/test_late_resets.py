"""Vector environments that reset in a step of their own (AutoresetMode.NEXT_STEP, the default of Gymnasium).

Stock environments, and plain loops over single ones as the oracle.
"""

from __future__ import annotations

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from tacit import demos
from tacit.cost import Inputs, LearnedCost
from tacit.envs.wrappers import CostWrapper, VectorCostWrapper
from tacit.evaluate import evaluate
from tacit.forward import collect, ppo
from tacit.policy import Interface

N, SEED = 3, 11
SMALL = ppo.Config(total_steps=10**6, rollout_steps=240, batch_size=80, epochs=2, hidden=(16, 16))
STOCK = {
    "CartPole-v1": {},
    "Pendulum-v1": {"max_episode_steps": 9},
    "MountainCarContinuous-v0": {"max_episode_steps": 7},
}


def vector(env_id, kind=SyncVectorEnv):
    options = {"context": "forkserver"} if kind is AsyncVectorEnv else {}  # JAX is no friend of forks
    env = kind([partial(gym.make, env_id, **STOCK[env_id])] * N, **options)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    return env


class Reflex:
    """A policy without noise, so that a plain loop can do the same."""

    def __init__(self, env):
        self.interface = Interface.of(env.single_observation_space, env.single_action_space)

    def noise(self, rng, shape):
        return np.zeros(shape)

    def head(self, obs):
        return obs[:, :1]  # a bad driver: the pole falls after a few steps

    def perturb(self, head, noise):
        if self.interface.n_actions:
            return (head[:, 0] > 0).astype(np.int64)
        return np.clip(head, -1, 1).astype(np.float32)

    def act(self, obs, rng=None):
        """In the coordinates of the environment."""
        chosen = self.perturb(self.head(self.interface.encode(np.asarray(obs))), None)
        return chosen if self.interface.n_actions else self.interface.to_env(chosen)


def plain_loop(env_id, policy, seed, episodes):
    """[(observations, actions, rewards, terminated)] of a single environment."""
    env, record = gym.make(env_id, **STOCK[env_id]), []
    for number in range(episodes):
        obs, _ = env.reset(seed=seed if number == 0 else None)
        observations, actions, rewards, over = [obs], [], [], False
        while not over:
            action = policy.act(obs[None])[0]
            obs, reward, terminated, truncated, _ = env.step(action)
            observations.append(obs)
            actions.append(action)
            rewards.append(reward)
            over = terminated or truncated
        record.append((np.array(observations), np.array(actions), np.array(rewards), terminated))
    return record


@pytest.mark.parametrize(
    ("env_id", "kind"),
    [("CartPole-v1", SyncVectorEnv), ("CartPole-v1", AsyncVectorEnv), ("Pendulum-v1", SyncVectorEnv)],
)
def test_rollouts_are_those_of_a_plain_loop(env_id, kind):
    """Each rollout is an unbroken piece of what the copy does alone; at most one step a reset is left out between."""
    env = vector(env_id, kind)
    policy = Reflex(env)
    carry = collect.begin(env, policy.interface, SEED)
    rollouts, summaries = [], []
    for _ in range(4):
        rollout, carry = collect.collect(env, policy, carry, 25, np.random.default_rng(0))
        rollouts.append(rollout)
        summaries = carry.recent
    env.close()
    for i in range(N):
        record = plain_loop(env_id, policy, SEED + i, 25)
        obs = np.concatenate([episode[0][:-1] for episode in record])
        reached = np.concatenate([episode[0][1:] for episode in record])
        act = np.concatenate([episode[1] for episode in record])
        rewards = np.concatenate([episode[2] for episode in record])
        times = np.concatenate([np.arange(len(episode[1])) for episode in record])
        done = np.concatenate([np.arange(len(episode[1])) == len(episode[1]) - 1 for episode in record])
        begin = 0
        for rollout in rollouts:
            while not np.array_equal(rollout.obs[0, i], obs[begin].astype(np.float32)):
                begin += 1
            piece = slice(begin, begin + 25)
            np.testing.assert_array_equal(rollout.obs[:, i], obs[piece])
            np.testing.assert_array_equal(rollout.next_obs[:, i], reached[piece])
            np.testing.assert_array_equal(rollout.sent[:, i], act[piece])
            np.testing.assert_array_equal(rollout.rew[:, i], rewards[piece])
            np.testing.assert_array_equal(rollout.times[:, i], times[piece])
            np.testing.assert_array_equal(rollout.done[:, i], done[piece])
            begin = piece.stop
        assert done[:100].sum() > 5
        assert begin <= 100 + 4 * max(rollout.done.sum(axis=0).max() for rollout in rollouts) + 4
        # Episodes are summed up whole, also where steps are left out of a rollout.
        whole = {(episode[2].sum(), len(episode[1])) for episode in record}
        assert sum((total, length) in whole for total, length, _ in summaries) > 5


def test_every_summed_up_episode_is_whole():
    env = vector("CartPole-v1")
    policy = Reflex(env)
    carry = collect.begin(env, policy.interface, SEED)
    for _ in range(5):
        _, carry = collect.collect(env, policy, carry, 13, np.random.default_rng(0))
    lengths = [len(episode[1]) for i in range(N) for episode in plain_loop("CartPole-v1", policy, SEED + i, 30)]
    assert set(carry.recent[:, 1]) <= set(lengths)
    np.testing.assert_array_equal(carry.recent[:, 0], carry.recent[:, 1])  # a reward of 1 a step


def test_the_batched_cart_of_gymnasium():
    """It has one random generator for all copies, so each step is compared with the single cart put in its state."""
    env = gym.make_vec("CartPole-v1", num_envs=4)
    assert type(env.unwrapped) is not SyncVectorEnv
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    state = ppo.init(env, SMALL, 0)
    single = gym.make("CartPole-v1").unwrapped
    single.reset(seed=0)
    for _ in range(2):
        state, _, rollout = ppo.iterate(env, SMALL, state)
        assert rollout.done.sum() > 5
        for t, i in np.ndindex(rollout.rew.shape):
            single.state, single.steps_beyond_terminated = rollout.obs[t, i].astype(np.float64), None
            obs, reward, terminated, _, _ = single.step(int(rollout.act[t, i]))
            np.testing.assert_allclose(rollout.next_obs[t, i], obs, atol=1e-5)
            assert (rollout.rew[t, i], bool(rollout.terminated[t, i])) == (reward, terminated)
            starts = np.abs(rollout.obs[t, i]).max() <= 0.05
            assert starts or rollout.times[t, i] > 0
    assert np.isfinite(state.carry.recent).all()


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_demonstrations_and_evaluations_are_those_of_a_plain_loop(env_id, kind):
    env = vector(env_id, kind)
    policy = Reflex(env)
    data = demos.collect(env, policy.act, 8, seed=SEED)
    quota = (3, 3, 2)
    expected = [episode for i in range(N) for episode in plain_loop(env_id, policy, SEED + i, quota[i])]
    assert len(data) == 8
    for trajectory, (observations, actions, rewards, terminated) in zip(data, expected, strict=True):
        np.testing.assert_array_equal(trajectory.observations, observations)
        np.testing.assert_array_equal(trajectory.actions, actions)
        np.testing.assert_allclose(trajectory.rewards, rewards)
        assert trajectory.terminated == terminated

    seed = int(np.random.SeedSequence([SEED, 0]).generate_state(1)[0])  # as `evaluate` hashes it
    found = evaluate(env, policy.act, 8, seed=SEED)
    env.close()
    expected = [episode for i in range(N) for episode in plain_loop(env_id, policy, seed + i, quota[i])]
    np.testing.assert_allclose(found.returns, [episode[2].sum() for episode in expected])
    assert found.lengths.tolist() == [len(episode[1]) for episode in expected]
    assert found.terminated.tolist() == [episode[3] for episode in expected]


def test_a_cost_around_a_stock_vector_is_that_around_single_environments():
    inputs = Inputs(("obs[2]",), (2,), 4, 0, np.zeros(1, np.float32), np.ones(1, np.float32), squash=False)
    arrays = (np.array([2.0], np.float32), np.array([[40.0]], np.float32), np.array([[-2.0]], np.float32))
    cost = LearnedCost(inputs, *arrays, threshold=1.0)
    envs = VectorCostWrapper(vector("CartPole-v1"), cost, penalty=2.0)
    policy = Reflex(envs)
    found = evaluate(envs, policy.act, 6, seed=SEED)
    seed = int(np.random.SeedSequence([SEED, 0]).generate_state(1)[0])
    returns = []
    for i in range(N):
        env = CostWrapper(gym.make("CartPole-v1"), cost, penalty=2.0)
        for number in range(2):
            obs, _ = env.reset(seed=seed + i if number == 0 else None)
            total, over = 0.0, False
            while not over:
                obs, reward, terminated, truncated, _ = env.step(policy.act(obs[None])[0])
                total, over = total + reward, terminated or truncated
            returns.append(total)
    np.testing.assert_allclose(found.returns, returns, rtol=1e-5)


def test_ppo_learns_from_a_stock_vector():
    env = gym.make_vec("CartPole-v1", num_envs=8)
    config = ppo.Config(total_steps=10**6, rollout_steps=1024, batch_size=128, epochs=8, hidden=(32, 32), lr=3e-3)
    state = ppo.init(env, config, 0)
    lengths = []
    for _ in range(12):
        state, metrics, _ = ppo.iterate(env, config, state)
        lengths.append(metrics["rollout/ep_len_mean"])
    assert lengths[-1] > 3 * lengths[0]
