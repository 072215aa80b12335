"""Demonstrations: the container, the checks, the experts, and collecting."""

from __future__ import annotations

import sys
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from demo_helpers import GRID, continuous, same
from tacit import demos as d
from tacit.demos.data import from_trajectories
from tacit.envs.gridworld import ENV_ID, GridworldEnv, GridworldVectorEnv, make_spec
from tacit.errors import RunFailed, UserError
from tacit.forward.soft_policy_iteration import occupancy


@pytest.fixture(scope="module")
def expert():
    return d.expert_demonstrations(GRID, n=12, seed=4)


# ---------------------------------------------------------------------------------------------------------------------
# The container


def test_trajectories_are_cut_at_the_right_places():
    data = continuous()
    first, second = data
    assert (len(data), len(first), len(second), data.n_steps) == (2, 2, 1, 3)
    np.testing.assert_array_equal(first.observations, data.observations[:3])
    np.testing.assert_array_equal(second.observations, data.observations[3:])
    np.testing.assert_array_equal(second.actions, data.actions[2:])
    assert (first.terminated, second.terminated) == (True, False)
    assert second.costs is not None
    assert (second.rewards[0], second.costs[0]) == (3.0, 0.0)
    np.testing.assert_array_equal(data.rows_before, [0, 1, 3])
    same(data, from_trajectories(list(data)))
    np.testing.assert_array_equal(data[-1].rewards, [3.0])
    with pytest.raises(IndexError):
        data[2]
    assert data.where("observations", 2) == "trajectory 0, step 2"
    assert data.where("observations", 3) == "trajectory 1, step 0"
    assert data.where("rewards", 2) == "trajectory 1, step 0"


def test_subset():
    data = continuous()
    turned = data.subset([1, 0])
    np.testing.assert_array_equal(turned.rewards, [3.0, 1.0, 2.0])
    assert turned.card == data.card
    assert turned.sha256 != data.sha256
    same(data.subset(data.terminated), data.subset([0]))
    same(data.subset(slice(None)), data)
    with pytest.raises(UserError, match="no demonstrations"):
        data.subset([False, False])


def test_summary_by_hand():
    summary = continuous().summary()
    assert (summary["trajectories"], summary["steps"], summary["length_mean"]) == (2, 3, 1.5)
    assert (summary["return_mean"], summary["return_std"], summary["return_max"]) == (3.0, 0.0, 3.0)
    assert (summary["violation_rate_step"], summary["violation_rate_episode"]) == (1 / 3, 0.5)
    assert continuous(costs=False).summary()["violation_rate_step"] is None


def test_arrays_are_read_only_and_copied():
    observations = np.zeros((2, 1))
    data = d.Demonstrations(observations, np.zeros(1), np.zeros(1), None, np.array([1]), np.array([True]))
    observations[:] = 7
    assert data.observations.max() == 0
    with pytest.raises(ValueError, match="read-only"):
        data.observations[0] = 1


def test_hash_follows_the_content_and_nothing_else():
    data = continuous()
    variants = [
        replace(data, observations=data.observations + 1e-12),
        replace(data, observations=data.observations.astype(np.float32)),
        replace(data, observations=data.observations.reshape(5, 3, 1), card={}),
        replace(data, actions=-data.actions),
        replace(data, rewards=data.rewards[::-1]),
        replace(data, costs=None),
        replace(data, costs=1 - data.costs),
        replace(data, lengths=data.lengths[::-1]),
        replace(data, terminated=~data.terminated),
        data.subset([0]),
    ]
    hashes = {data.sha256, *(variant.sha256 for variant in variants)}
    assert len(hashes) == 1 + len(variants)
    assert replace(data, card={"note": "other"}).sha256 == data.sha256
    assert replace(data, observations=np.asfortranarray(data.observations)).sha256 == data.sha256
    assert replace(data, observations=data.observations.astype(">f8")).sha256 == data.sha256


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": np.array([], dtype=int)}, "no demonstrations"),
        ({"lengths": np.array([3, 0])}, "trajectory 1 has a length of 0"),
        ({"lengths": np.array([2, 2])}, r"observations have shape \(5, 3\), expected \(6, ...\)"),
        ({"lengths": np.array([2, 10**18])}, "trajectory 1 has a length of 1000000000000000000"),
        ({"lengths": np.array([2.0, 1.0])}, "lengths must be an array of integers"),
        ({"actions": np.zeros((4, 2))}, "actions have shape"),
        ({"rewards": np.zeros((3, 1))}, "rewards have shape"),
        ({"costs": np.zeros(2)}, "costs have shape"),
        ({"terminated": np.array([1, 0])}, "terminated must be an array of booleans"),
        ({"observations": np.array(["a"] * 5)}, "observations must be an array of numbers"),
        ({"observations": np.array([None] * 5)}, "observations must be an array of numbers"),
        (
            {"observations": np.array([[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, np.nan, 0], [0, 0, 0]])},
            "trajectory 1, step 0",
        ),
        ({"rewards": np.array([0, np.inf, 0])}, "rewards hold NaN or infinity in trajectory 0, step 1"),
        ({"card": {"feature_names": ["x"]}}, "names 1 features but an observation has 3"),
        ({"card": {"feature_names": "xyz"}}, "must be a list of strings"),
        ({"card": {"env": 3}}, "env must be an environment's id"),
        ({"card": {"env_kwargs": []}}, "env_kwargs must be a mapping"),
    ],
)
def test_bad_content(change, message):
    with pytest.raises(UserError, match=message):
        replace(continuous(), **change)


# ---------------------------------------------------------------------------------------------------------------------
# Checks


def test_experts_fit_their_world(expert):
    for target in (
        GRID,
        ENV_ID,
        gym.make(ENV_ID, layout="far-wall", slip=0.2),
        GridworldVectorEnv(2, "far-wall", slip=0.2),
    ):
        assert d.problems(expert, target) == []
        d.validate(expert, target)
    by_index = d.expert_demonstrations(GRID, n=3, observation="index")
    assert d.problems(by_index, GRID) == d.problems(by_index, ENV_ID) == []
    for (states, actions), trajectory in zip(GRID.to_tabular(by_index), by_index, strict=True):
        np.testing.assert_array_equal(states, trajectory.observations)
        assert len(states) == len(actions) + 1
    for (states, _), trajectory in zip(GRID.to_tabular(expert), expert, strict=True):
        np.testing.assert_array_equal([GRID.position_of(s) for s in states], trajectory.observations)


def edited(expert, name, row, value):
    array = np.array(getattr(expert, name))
    array[row] = value
    return replace(expert, **{name: array})


@pytest.mark.parametrize(
    ("name", "row", "value", "message"),
    [
        ("observations", 0, (0, 0), r"trajectory 0 starts at \(0, 0\), not at \(6, 1\)"),
        ("observations", 3, (9, 1), r"trajectory 0, step 3: \[9. 1.\] is a wall or outside the grid"),
        ("observations", 3, (0.5, 1), "trajectory 0, step 3: .* outside the grid"),
        ("observations", 3, (8, 8), r"trajectory 0, step 2: the move '\w+' cannot lead from \(.*\) to \(8, 8\)"),
        ("actions", 2, 4, r"trajectory 0, step 2: action 4 is not in 0 \.\.\. 3"),
        ("rewards", 2, 0.0, "trajectory 0, step 2: reward 0, here it is -1"),
        ("costs", 2, 1.0, "trajectory 0, step 2: cost 1, here it is 0"),
        ("terminated", 1, False, "trajectory 1 ends at the goal but is not marked as terminated"),
    ],
)
def test_impossible_gridworld_demonstrations(expert, name, row, value, message):
    wrong = edited(expert, name, row, value)
    with pytest.raises(UserError, match=message):
        d.validate(wrong, GRID)
    with pytest.raises(UserError, match=message):
        GRID.to_tabular(wrong)


def test_other_misfits(expert):
    with pytest.raises(UserError, match=r"cannot lead from .* with slip 0 \(and \d+ more problems\)"):
        d.validate(expert, make_spec("far-wall", slip=0.0))
    with pytest.raises(UserError, match="more than the environment's horizon of 13"):
        d.validate(expert, make_spec(GRID, horizon=13))
    unfinished = expert.subset([0])
    cut = from_trajectories(
        [
            replace(
                unfinished[0],
                **{k: getattr(unfinished[0], k)[:-1] for k in ("observations", "actions", "rewards", "costs")},
            )
        ]
    )
    with pytest.raises(UserError, match="does not end at the goal but is marked as terminated"):
        d.validate(cut, GRID)
    onward = from_trajectories(
        [
            d.Trajectory(
                np.concatenate([expert[0].observations, [(6, 7)]]),
                np.append(expert[0].actions, 0),
                np.append(expert[0].rewards, 1.0),
                None,
                True,
            )
        ]
    )
    with pytest.raises(UserError, match=r"goes on after reaching the goal at \(6, 7\)"):
        d.validate(onward, GRID)
    with pytest.raises(UserError, match="feature names are"):
        d.validate(replace(expert, card={"feature_names": ["column", "row"]}), GRID)
    with pytest.raises(UserError, match="expected integers"):
        d.validate(replace(expert, actions=expert.actions.astype(float)), GRID)
    with pytest.raises(UserError, match=r"expected \(2,\)"):
        d.validate(continuous(), GRID)
    with pytest.raises(TypeError, match="expected an environment"):
        d.validate(expert, 7)
    with pytest.raises(UserError, match="no environment 'tacit/Nowhere-v0'"):
        d.validate(expert, "tacit/Nowhere-v0")
    assert len(d.problems(expert, make_spec("far-wall", slip=0.0), limit=3)) == 3


class Flat(gym.Env):
    """Three numbers in, two out."""

    observation_space = gym.spaces.Box(-5, 5, (3,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    feature_names = ("x", "y", "z")
    horizon = 2


def test_continuous_spaces():
    data, env = continuous(), Flat()
    assert d.problems(data, env) == []
    assert d.problems(replace(data, actions=data.actions / np.abs(data.actions).max()), env) == []  # on the bound
    found = d.problems(replace(data, actions=data.actions + np.array([[0, 0], [9, 0], [0, 0]])), env)
    assert len(found) == 1
    assert found[0].startswith("actions of trajectory 0, step 1 are")
    assert "horizon of 1" in d.problems(data, type("Short", (Flat,), {"horizon": 1})())[0]
    assert "have shape (2,)" in d.problems(replace(data, observations=data.observations[:, :2], card={}), env)[0]
    assert "feature names" in d.problems(replace(data, card={"feature_names": ["a", "b", "c"]}), env)[0]


# ---------------------------------------------------------------------------------------------------------------------
# Experts and collecting


def soft_values(grid, beta, weight, sweeps=4000):
    """Soft value iteration written out: the expert's policy by other means."""
    mdp = grid.model()
    table = mdp.transitions.toarray().reshape(grid.n_states, grid.n_actions, grid.n_states)
    table[:, :, grid.goal] = 0.0
    reward = mdp.rewards - weight * (mdp.transitions @ grid.constrained.astype(float)).reshape(mdp.rewards.shape)
    value = np.zeros(grid.n_states)
    for _ in range(sweeps):
        q = reward + mdp.discount * table @ value
        value = beta * np.log(np.exp((q - q.max(1, keepdims=True)) / beta).sum(1)) + q.max(1)
        value[grid.goal] = 0.0
    return np.exp((q - value[:, None]) / beta)


def test_the_expert_is_soft_optimal():
    grid = make_spec("wall-1", slip=0.2)
    ours, theirs = d.expert_policy(grid, 0.3, 10.0), soft_values(grid, 0.3, 10.0)
    live = np.arange(grid.n_states) != grid.goal
    np.testing.assert_allclose(ours[live], theirs[live], atol=1e-8)
    with pytest.raises(UserError, match="beta must be positive"):
        d.expert_policy(grid, 0.0)
    with pytest.raises(UserError, match="must not be negative"):
        d.expert_policy(grid, 0.1, -1.0)


@pytest.mark.parametrize("finite", [False, True])
def test_samples_follow_the_exact_occupancy(finite):
    grid = make_spec("far-wall", slip=0.3, horizon=40)
    policy = d.expert_policy(grid, 0.5, 5.0, finite=finite)
    assert policy.ndim == (3 if finite else 2)
    data = d.sample_demonstrations(grid, policy, n=20_000, seed=1)
    mdp = grid.model(horizon=40, discount=1.0)
    exact = occupancy(mdp, np.broadcast_to(policy, (40, grid.n_states, grid.n_actions))).sum(axis=0)
    states = grid.states_of(data.observations)[data.rows_before]
    counts = np.zeros(exact.shape)
    np.add.at(counts, (states, data.actions), 1 / len(data))
    error = np.abs(counts - exact) / np.sqrt(np.maximum(exact, 1e-3) / len(data) * 10)
    assert (
        error.max() < 5
    )  # visits of an episode are correlated: a tenfold variance is generous, a bug is not that small
    assert data.returns.mean() == pytest.approx((exact * mdp.rewards).sum(), abs=5 * data.returns.std() / 141)


def test_default_demonstrations():
    data = d.expert_demonstrations(make_spec("far-wall", slip=0.0))
    assert len(data) == 50
    assert data.summary()["violation_rate_step"] == 0
    assert "can avoid every violation" in data.card["note"]
    assert data.card["weight"] == 30.0
    assert d.expert_demonstrations(GRID, seed=1).sha256 == d.expert_demonstrations(GRID, seed=1).sha256
    assert d.expert_demonstrations(GRID, seed=1).sha256 != d.expert_demonstrations(GRID, seed=2).sha256


def test_bad_policies():
    policy = d.expert_policy(GRID)
    for bad, message in (
        (policy[:-1], "has shape"),
        (policy[None], "has shape"),
        (policy * 2, "must be a distribution"),
        (-policy, "must be a distribution"),
        (policy * np.nan, "must be a distribution"),
    ):
        with pytest.raises(UserError, match=message):
            d.sample_demonstrations(GRID, bad)
    with pytest.raises(UserError, match="at least one"):
        d.sample_demonstrations(GRID, policy, n=0)
    with pytest.raises(UserError, match="'position' or 'index'"):
        d.sample_demonstrations(GRID, policy, observation="pixels")


def detour(observations, rng):
    """A scripted agent for the paper layout without slip: up to row 1, right, down."""
    row, column = np.asarray(observations, dtype=int).T
    return np.where((column < 7) & (row > 1), 3, np.where(column < 7, 0, 2))


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_collecting_in_both_restart_modes(mode):
    env = SyncVectorEnv([lambda: GridworldEnv("far-wall", slip=0.0)] * 3, autoreset_mode=mode)
    data = d.collect(env, detour, 7, seed=0, card={"source": "a script"})
    assert len(data) == 7
    assert data.lengths.tolist() == [16] * 7
    assert data.returns.tolist() == [-14.0] * 7
    assert data.terminated.all()
    assert data.costs is not None
    assert data.costs.sum() == 0
    d.validate(data, make_spec("far-wall", slip=0.0))
    assert data.card["source"] == "a script"


def test_collecting_is_fair_and_complete():
    """Random walks in our own batch: complete episodes, possible, and as long on average as the exact model says."""
    grid = make_spec("S.X\n..G\n", slip=0.2, horizon=15)
    env = GridworldVectorEnv(16, grid)
    data = d.collect(env, lambda obs, rng: rng.integers(4, size=len(obs)), 2000, seed=3)
    d.validate(data, grid)
    assert data.card["feature_names"] == ["row", "column"]
    mdp = grid.model(horizon=15, discount=1.0)
    uniform = np.full((15, grid.n_states, 4), 0.25)
    exact = occupancy(mdp, uniform)
    assert data.lengths.mean() == pytest.approx(exact.sum(), abs=4 * data.lengths.std() / np.sqrt(2000))
    assert data.costs is not None
    expected = (exact * grid.expected(grid.entry_costs)).sum()
    assert data.costs.sum() / 2000 == pytest.approx(expected, abs=0.1)
    with pytest.raises(UserError, match="at least one"):
        d.collect(env, detour, 0, seed=0)
    disabled = SyncVectorEnv([lambda: GridworldEnv()], autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(UserError, match="does not reset its copies"):
        d.collect(disabled, detour, 1, seed=0)


def test_an_episode_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(sys.modules[d.collect.__module__], "LONGEST", 50)
    env = GridworldVectorEnv(2, layout="paper", horizon=10_000)
    with pytest.raises(RunFailed, match="did not end within 50 steps: give the environment a time limit"):
        d.collect(env, lambda obs, rng: np.zeros(len(obs), int), 2, seed=0)
