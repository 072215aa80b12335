"""A policy cloned from demonstrations is held, as a function of observations, until the critics know it."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from baseline_helpers import LINE, SMALL, to_the_right
from tacit.forward import ppo_lagrangian
from tacit.forward.collect import make_vec
from tacit.inverse import bc2l, clone, gacl, irl_correction, mce, me_icrl, vicrl

OBSERVATIONS = np.linspace(-4.0, 4.0, 9, dtype=np.float32)[:, None]
PHASE = 1024


def heads(module, config, n: int) -> list[np.ndarray]:
    """What the policy makes of fixed observations after the bootstrap and after n - 1 further phases."""
    history = module.learn(make_vec(LINE, config.n_envs), to_the_right(4), config, 0)
    return [np.asarray(module.policy_of(next(history)[0]).head(OBSERVATIONS)) for _ in range(n)]


@pytest.mark.parametrize("module", [mce, me_icrl, vicrl, bc2l, irl_correction], ids=lambda module: module.__name__)
def test_the_clone_is_the_same_policy_after_the_first_phase(module, monkeypatch):
    monkeypatch.setattr(clone, "HELD_STEPS", PHASE)
    config = module.Config(**{**SMALL, "forward_steps": PHASE, "start": "clone"})
    cloned, held, released = heads(module, config, 3)
    np.testing.assert_array_equal(held, cloned)
    assert np.abs(released - cloned).max() > 1e-4


def test_the_clone_of_gacl_is_the_same_policy_until_its_critic_is_ready(monkeypatch):
    monkeypatch.setattr(clone, "HELD_STEPS", 2 * SMALL["rollout_steps"])
    cloned, *held, released = heads(gacl, gacl.Config(**SMALL, start="clone"), 4)
    for one in held:
        np.testing.assert_array_equal(one, cloned)
    assert np.abs(released - cloned).max() > 1e-4


@pytest.mark.parametrize("each", [2048, 4096, 8192, 16_384, 20_000])
def test_every_method_holds_its_clone_for_as_many_steps(each):
    """However long its phases are, and at most for a tenth of a run; the scale of rewards freezes once, at the end."""
    config = mce.Config(start="clone", total_steps=600_000)
    held = [clone.held(config, phase, each) for phase in range(20)]
    assert each * sum(held) == max(each, 16_384)
    assert [clone.released(config, phase, each) for phase in range(20)].index(True) == sum(held) - 1
    short = replace(config, total_steps=30_000)
    assert sum(clone.held(short, phase, each) for phase in range(20)) == -(-3000 // each)
    assert not clone.held(replace(config, start="nominal"), 0, each)


def test_an_entry_that_demonstrators_never_move_keeps_a_hundredth_of_the_nominal_scale():
    env = make_vec(LINE, 8)
    config = ppo_lagrangian.Config(n_envs=8, rollout_steps=256, batch_size=256, hidden=(16, 16))
    state, _, _ = ppo_lagrangian.iterate(env, config, ppo_lagrangian.init(env, config, 0))
    still = to_the_right(2)
    still = replace(still, observations=np.full_like(still.observations, 0.5))
    stats = clone.start_from(state, still, np.random.default_rng(0), -4.0).agent.obs_stats
    assert stats.frozen
    assert stats.mean[0] == pytest.approx(0.5)
    assert stats.var[0] == pytest.approx(1e-4 * state.agent.obs_stats.var[0])


@pytest.mark.parametrize("critics", ["separate", "single"])
def test_after_a_hold_the_first_step_is_as_long_as_any_first_step(critics):
    """Adam's first step moves no weight by more than the learning rate; statistics, rate and multiplier have waited."""
    config = ppo_lagrangian.Config(
        n_envs=8,
        rollout_steps=256,
        batch_size=256,
        epochs=1,
        hidden=(16, 16),
        lr=1e-3,
        beta=0.01,
        entropy="loss",
        target_kl=0.01,
        lr_adaptive=True,
        multiplier="ascent",
        penalty_unit="rbar",
        critics=critics,
    )
    env = make_vec(LINE, 8)
    state, _, _ = ppo_lagrangian.iterate(env, config, ppo_lagrangian.init(env, config, 0))
    state = replace(state, agent=replace(state.agent, lr_factor=0.5))
    before = state
    for _ in range(5):
        state, _, _ = ppo_lagrangian.iterate(env, config, state, hold_policy=True)
    assert state.multiplier == before.multiplier
    assert state.agent.lr_factor == 0.5
    np.testing.assert_array_equal(state.agent.obs_stats.mean, before.agent.obs_stats.mean)
    assert all(map(np.array_equal, *(jax.tree.leaves(one.agent.params.actor) for one in (state, before))))
    critic = [np.asarray(one.agent.params.critics[0].weights[0]) for one in (state, before)]
    assert np.abs(critic[0] - critic[1]).max() > 1e-3

    after, _, _ = ppo_lagrangian.iterate(env, config, state)
    moves = jax.tree.map(
        lambda a, b: np.abs(np.asarray(a) - np.asarray(b)).max(), *(one.agent.params.actor for one in (after, state))
    )
    assert 0.5 * 0.5e-3 < max(jax.tree.leaves(moves)) <= 1.001 * 0.5e-3
