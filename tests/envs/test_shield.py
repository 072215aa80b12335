"""The shield: it keeps out, says when it cannot, and tries actions on copies that behave as the environment does."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import FrameStackObservation, RescaleAction

from tacit.cost import Inputs, LearnedCost
from tacit.cost.table import TableCost
from tacit.envs.wrappers import CostWrapper, ShieldWrapper, simulate
from tacit.errors import UserError
from wrapper_helpers import Line, expected, rising

STAND = np.zeros(1, np.float32)


def forward(obs, actions):
    return obs + np.concatenate([np.zeros_like(actions), actions], axis=1)


def test_the_shield_keeps_out():
    env = ShieldWrapper(Line(length=100), rising(threshold=1.0), predict=forward)
    env.reset(seed=0)
    for _ in range(50):
        obs, *_, info = env.step(np.array([0.4], np.float32))
        assert obs[1] <= 1.0 + 1e-6
        assert info["shielded"] == (info["action"] is not None and float(info["action"][0]) != np.float32(0.4))
    assert env.steps == 50
    assert env.interventions == env.episode_interventions > 30
    assert env.stuck == 0
    env.reset()
    assert env.episode_interventions == 0 < env.interventions


def test_the_nearest_allowed_action_is_taken():
    env = ShieldWrapper(Line(), rising("current", act=True, threshold=float(expected(0.5))), candidates=4000)
    env.reset(seed=0)
    done = env.step(np.array([0.9], np.float32))[4]["action"]
    assert 0.49 < float(done[0]) <= 0.5
    assert env.step(np.array([0.3], np.float32))[4]["action"][0] == np.float32(0.3)


def test_a_brake():
    env = ShieldWrapper(Line(), rising(threshold=1.0), predict=forward, instead=np.array([-1.0], np.float32))
    env.reset(seed=0)
    env.step(np.array([0.9], np.float32))
    assert env.step(np.array([1.0], np.float32))[4]["action"][0] == -1.0


def test_a_shield_that_cannot_work_is_refused():
    with pytest.raises(UserError, match="predict=model"):
        ShieldWrapper(Line(), rising(threshold=1.0))
    with pytest.raises(UserError, match="no action is better"):
        ShieldWrapper(Line(), rising("current", threshold=1.0))
    with pytest.raises(UserError, match="tacit calibrate"):
        ShieldWrapper(Line(), rising(), predict=forward)
    with pytest.raises(UserError, match="is no action"):
        ShieldWrapper(Line(), rising(threshold=1.0), predict=forward, instead=np.array([9.0], np.float32))
    with pytest.raises(UserError, match="nearest"):
        ShieldWrapper(Line(), rising(threshold=1.0), predict=forward, instead="best")


def test_trying_actions_on_a_copy_of_the_gridworld():
    env = gym.make("tacit/Gridworld-v0", slip=0.0)
    spec = env.unwrapped.grid
    table = np.tile(spec.constrained[:, None] * 5.0, (1, spec.n_actions)).astype(np.float64)
    cost = TableCost(spec.cells, table, np.zeros(1))
    costed = CostWrapper(env, cost)
    costed.reset(seed=0)
    assert costed.step(0)[4]["cost"] == 0.0
    with pytest.raises(UserError, match="no action is better"):  # of the cell acted in
        ShieldWrapper(env, replace(cost, threshold=1.0))
    # The same cells as a cost of the state that is reached.
    inputs = Inputs(("row", "column"), (0, 1), 2, 0, np.zeros(2, np.float32), np.ones(2, np.float32), squash=False)
    wall = LearnedCost(
        inputs,
        np.array([5.0, 0.0], np.float32),
        np.array([[0.0], [30.0]], np.float32),
        np.array([[-30.0], [-30.0 * 3.5]], np.float32),
        threshold=2.0,
    )
    wall = replace(wall, lam=np.array([0.0, 5.0], np.float32))  # column > 3.5
    env.reset(seed=0)
    shield = ShieldWrapper(env, wall, predict=simulate(env))
    obs, _ = shield.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(60):
        obs, _, terminated, truncated, _ = shield.step(int(rng.integers(spec.n_actions)))
        assert obs[1] <= 3
        if terminated or truncated:
            obs, _ = shield.reset()
    assert shield.interventions > 0


def test_trying_actions_on_a_robot():
    pytest.importorskip("mujoco")
    env = gym.make("tacit/Pendulum-v0")
    predict = simulate(env)
    obs, _ = env.reset(seed=0)
    for action in env.action_space.sample()[None].repeat(3, axis=0) * np.array([[1.0], [0.5], [-1.0]], np.float32):
        ahead = predict(obs, action[None])[0]
        obs = env.step(action)[0]
        np.testing.assert_allclose(ahead, obs, atol=1e-12)


# No way out, and the unknown ----------------------------------------------------------------------------------------


def nowhere(obs, actions):
    """Every action leads to x = 50 + the action."""
    return np.stack([np.array([7.0, 50.0 + float(np.asarray(action).reshape(-1)[0])]) for action in actions])


@pytest.mark.parametrize("discrete", [True, False])
def test_a_shield_without_an_allowed_action(discrete):
    """Costs of the three actions would all be the ceiling: a linear cost tells them apart."""
    linear = replace(rising(threshold=1.0), slopes=np.zeros((1, 0), np.float32), offsets=np.zeros((1, 0), np.float32))
    linear = replace(linear, inputs=replace(linear.inputs, clip=1e4))
    action = 2 if discrete else np.array([0.9], np.float32)

    def shield(**options):
        env = ShieldWrapper(Line(discrete), linear, predict=nowhere, **options)
        env.reset(seed=0)
        return env

    env = shield()
    with pytest.warns(RuntimeWarning, match="least cost .when_stuck='least_cost'"):
        *_, info = env.step(action)
    assert (info["action"] == 0) if discrete else (float(info["action"][0]) < -0.9)
    assert (info["stuck"], info["shielded"], info["unknown"]) == (True, True, False)
    *_, info = env.step(action)  # without another warning
    assert env.stuck == env.interventions == 2

    env = shield(when_stuck="pass")
    with pytest.warns(RuntimeWarning, match="lets the action pass"):
        *_, info = env.step(action)
    assert info["action"] is action
    assert info["stuck"]

    env = shield(when_stuck="stop")
    with pytest.warns(RuntimeWarning, match="ends the episode"):
        obs, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated, info["action"]) == (0.0, False, True, None)
    assert env.unwrapped.t == 0  # nothing was done
    np.testing.assert_array_equal(obs, [7.0, 0.0])

    with pytest.raises(UserError, match="'stop', 'least_cost', 'pass'"):
        shield(when_stuck="hope")


def test_a_brake_that_is_forbidden_as_well_is_being_stuck():
    brake = np.array([-1.0], np.float32)
    env = ShieldWrapper(Line(), rising(threshold=1.0), predict=nowhere, instead=brake)
    env.reset(seed=0)
    with pytest.warns(RuntimeWarning, match="no allowed action"):
        *_, info = env.step(np.array([1.0], np.float32))
    assert info["stuck"]
    assert info["action"] is brake


def test_actions_that_lead_to_the_unknown_are_replaced():
    """Beyond 0.5 nothing was seen; left of -0.5 the model gives NaN. The cost itself is low everywhere there."""

    def model(obs, actions):
        reached = forward(obs, actions)
        return np.where(reached[:, 1:] < -0.5, np.nan, reached)

    env = ShieldWrapper(Line(), rising(threshold=1.9), predict=model, seen=([-9.0], [0.5]), candidates=500)
    env.reset(seed=0)
    for asked, reason in ((0.9, "outside of what was seen"), (-0.9, "entry 0 is nan")):
        env.reset(seed=0)
        obs, *_, info = env.step(np.array([asked], np.float32))
        assert info["shielded"]
        assert info["unknown"]
        assert reason in info["unknown_reason"]
        assert -0.5 <= obs[1] <= 0.5
        assert abs(obs[1]) > 0.45  # the nearest one
    assert (env.stuck, env.unknown_steps, info["unknown_steps"]) == (0, 2, 2)
    np.testing.assert_array_equal(np.isinf(env.judge(np.array([[5.0], [0.0]]))), [True, False])


@pytest.mark.parametrize("when_stuck", ["stop", "least_cost", "pass"])
def test_a_broken_sensor_leaves_the_shield_without_an_allowed_action(when_stuck):
    class Blind(Line):
        def _obs(self):
            return np.array([7.0, np.nan if self.t else 0.0])

    cost = rising("current", act=True, threshold=1.9)
    env = ShieldWrapper(Blind(), cost, when_stuck=when_stuck, candidates=200)
    env.reset(seed=0)
    assert not env.step(np.array([0.3], np.float32))[4]["shielded"]
    with pytest.warns(RuntimeWarning):
        _, _, _, truncated, info = env.step(np.array([0.3], np.float32))
    assert info["unknown"]
    assert info["stuck"]
    assert "not finite" in info["unknown_reason"]
    assert truncated == (when_stuck == "stop")
    if when_stuck != "stop":
        assert abs(float(info["action"][0]) - 0.3) < 0.05  # nothing is known about any: the nearest


# Trying actions out -------------------------------------------------------------------------------------------------


class Doubled(gym.ObservationWrapper):
    """A user's wrapper that Gymnasium cannot make again, because it does not know its arguments."""

    def observation(self, obs):
        return 2.0 * obs


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "tacit/Pendulum-v0", "tacit/Nav-v0"])
def test_trials_go_through_the_wrappers_of_the_user(env_id):
    if "Pendulum-v0" in env_id:
        pytest.importorskip("mujoco")
    env = gym.make(env_id, disable_env_checker=True)
    env = FrameStackObservation(Doubled(RescaleAction(env, np.float32(-1.0), np.float32(1.0))), 3)
    predict = simulate(env)
    obs, _ = env.reset(seed=3)
    env.action_space.seed(0)
    for _ in range(5):
        actions = np.stack([env.action_space.sample() for _ in range(3)])
        ahead = predict(obs, actions)
        obs = env.step(actions[1])[0]
        np.testing.assert_allclose(ahead[1], obs, atol=1e-12)
        assert not np.array_equal(ahead[0], ahead[1])


def test_trials_of_dictionaries():
    class Split(Line):
        feature_names = None
        observation_space = gym.spaces.Dict(a=gym.spaces.Box(-9, 9, (1,)), b=gym.spaces.Box(-9, 9, (1,)))

        def _obs(self):
            return {"a": np.array([self.x], np.float32), "b": np.array([7.0], np.float32)}

    two = replace(rising(threshold=1.0), inputs=replace(rising().inputs, obs_size=2))
    env = Split(length=100)
    shield = ShieldWrapper(env, two, predict=simulate(env))
    shield.reset(seed=0)
    for _ in range(10):
        obs, *_ = shield.step(np.array([0.4], np.float32))
    assert 0.5 < obs["a"][0] <= 1.0
    assert shield.interventions > 5


class Uncopied:
    def __deepcopy__(self, memo):
        raise AssertionError


def test_environments_that_cannot_be_tried_out_are_refused_with_a_sentence():
    class Foreign(Line):
        def reset(self, *, seed=None, options=None):
            self.engine = Uncopied()  # made late, as by Box2D
            return super().reset(seed=seed)

    env = Foreign()
    predict = simulate(env)
    obs, _ = env.reset(seed=0)
    with pytest.raises(UserError, match=r"cannot be tried out on a copy .AssertionError.: give a model"):
        predict(obs, STAND[None])
    with pytest.raises(UserError, match="give a model"):  # of one that has been reset
        simulate(env)


def test_copies_that_share_their_simulator_are_refused():
    engine = {"x": 0.0}

    class Shared(Line):
        """As a client of a physics server is."""

        x = property(lambda self: engine["x"], lambda self, value: engine.update(x=value))

    env = Shared()
    predict = simulate(env)
    obs, _ = env.reset(seed=0)
    with pytest.raises(UserError, match="the same action leads to different observations"):
        predict(obs, np.ones((1, 1), np.float32))
