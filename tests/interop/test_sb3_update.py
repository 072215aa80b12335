"""One update of our PPO against Stable-Baselines3's own: the same rollout, networks and minibatches, the same step."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.forward import agent, nets
from tacit.forward.ppo_update import Batch, Hyper, update

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

from stable_baselines3 import PPO  # noqa: E402
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

COPIES, STEPS, BATCH, EPOCHS = 2, 128, 32, 4


class Transitions(BaseCallback):
    """Keeps what the rollout buffer does not: the observations that were reached, and why episodes ended."""

    def __init__(self) -> None:
        super().__init__()
        self.reached: list[Any] = []
        self.rewards: list[Any] = []
        self.terminated: list[Any] = []
        self.done: list[Any] = []

    def _on_step(self) -> bool:
        infos, done = self.locals["infos"], self.locals["dones"]
        reached = self.locals["new_obs"].copy()
        for i in np.flatnonzero(done):
            reached[i] = infos[i]["terminal_observation"]
        cut_off = [bool(info.get("TimeLimit.truncated", False)) for info in infos]
        self.reached.append(reached)
        self.rewards.append(self.locals["rewards"].copy())  # SB3 adds the value of a cut-off state to them later
        self.terminated.append(done & ~np.array(cut_off))
        self.done.append(done.copy())
        return True


def weights_of(model: PPO) -> nets.Params:
    """SB3's networks as ours."""

    def mlp(*layers: Any) -> nets.MLP:
        linear = [layer for layer in layers if hasattr(layer, "weight")]
        array = lambda x: jnp.asarray(x.detach().numpy().T.copy())  # noqa: E731
        return nets.MLP(tuple(array(x.weight) for x in linear), tuple(array(x.bias) for x in linear))

    policy = model.policy
    actor = nets.Actor(
        mlp(*policy.mlp_extractor.policy_net, policy.action_net), jnp.asarray(policy.log_std.detach().numpy().copy())
    )
    return nets.Params(actor, (mlp(*policy.mlp_extractor.value_net, policy.value_net),))


def flat(params: nets.Params) -> np.ndarray:
    return np.concatenate([array.ravel() for array in agent.named(params).values()])


def test_one_update_is_that_of_sb3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hopper falls, and a time limit cuts episodes off: both ends of an episode are in the rollout."""
    makers = [lambda: gym.make("Hopper-v5", max_episode_steps=20, disable_env_checker=True)] * COPIES
    model = PPO(
        "MlpPolicy",
        VecNormalize(DummyVecEnv(makers)),
        n_steps=STEPS,
        batch_size=BATCH,
        n_epochs=EPOCHS,
        learning_rate=1e-3,
        policy_kwargs={"net_arch": {"pi": [64, 64], "vf": [64, 64]}, "optimizer_kwargs": {"eps": 1e-5}},
        seed=0,
        device="cpu",
    )
    seen = Transitions()
    _, callback = model._setup_learn(STEPS * COPIES, seen)
    assert model.collect_rollouts(model.env, callback, model.rollout_buffer, STEPS)
    buffer, before = model.rollout_buffer, weights_of(model)
    assert np.any(seen.terminated), "nothing fell"
    assert np.any(np.array(seen.done) & ~np.array(seen.terminated)), "nothing was cut off"
    batch = Batch(
        obs=buffer.observations.copy(),
        next_obs=np.array(seen.reached, np.float32),
        act=buffer.actions.copy(),
        signals=np.array(seen.rewards, np.float32)[None],
        terminated=np.array(seen.terminated),
        done=np.array(seen.done),
    )
    rng = np.random.default_rng(7)
    theirs = np.stack([rng.permutation(STEPS * COPIES) for _ in range(EPOCHS)])
    # SB3 numbers the samples copy by copy, we number them step by step.
    order = (theirs % STEPS * COPIES + theirs // STEPS).astype(np.int32).reshape(EPOCHS, -1, BATCH)
    shuffles = iter(theirs)
    monkeypatch.setattr(np.random, "permutation", lambda n: next(shuffles))
    model.train()
    expected = weights_of(model)

    one = lambda x: np.array([x], np.float32)  # noqa: E731
    hyper = Hyper(
        weights=one(1.0),
        gammas=one(0.99),
        lambdas=one(0.95),
        lr=1e-3,
        lr_actor=1e-3,
        clip=0.2,
        beta_return=0.0,
        beta_loss=0.0,
        value_coef=0.5,
        max_grad_norm=0.5,
        adam_eps=1e-5,
        kl_limit=np.inf,
    )
    start = agent.optimiser().init(before)
    moved = np.abs(flat(expected) - flat(before)).max()
    distance = {}
    for together in (True, False):
        new, *_ = update(before, start, batch, order, hyper, standardise="minibatch", relative=False, together=together)
        distance[together] = np.abs(flat(new) - flat(expected)).max() / moved
    assert distance[True] < 0.01  # SB3's deviation of the advantages has n - 1 in the denominator, ours n
    assert distance[False] > 0.1  # our default, each network clipped by itself, is another update
