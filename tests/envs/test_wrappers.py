"""Costs around environments: Gymnasium's checker, the right observation, penalties, ends, vectors, and the shield."""

from __future__ import annotations

import warnings
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import tacit
from tacit.cost import Inputs, LearnedCost
from tacit.cost.table import TableCost
from tacit.envs.wrappers import CostWrapper, ShieldWrapper, VectorCostWrapper, simulate
from tacit.errors import UserError
from tacit.evaluate import evaluate


class Line(gym.Env):
    """x moves by the action; episodes last `length` steps."""

    feature_names = ("y", "x")
    observation_space = gym.spaces.Box(-1e6, 1e6, (2,), np.float64)

    def __init__(self, discrete: bool = False, length: int = 5) -> None:
        self.length = length
        self.discrete = discrete
        self.action_space = gym.spaces.Discrete(3) if discrete else gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = 0.0, 0
        return self._obs(), {}

    def _obs(self):
        return np.array([7.0, self.x])

    def step(self, action):
        self.x += float(action) - 1.0 if self.discrete else float(np.asarray(action)[0])
        self.t += 1
        return self._obs(), 1.0, False, self.t >= self.length, {"cost": 9.0}


def rising(at: str = "next", act: bool = False, **fields) -> LearnedCost:
    """2 sigmoid(4 x - 4), of x alone, or 2 sigmoid(4 action - 4): half of the ceiling at 1."""
    names, columns = (("action[0]",), (1,)) if act else (("x",), (0,))
    inputs = Inputs(names, columns, 1, 1 if act else 0, np.zeros(1, np.float32), np.ones(1, np.float32), squash=False)
    arrays = (np.array([2.0], np.float32), np.array([[4.0]], np.float32), np.array([[-4.0]], np.float32))
    return LearnedCost(inputs, *arrays, at=at, **fields)


def expected(x) -> float:
    return 2.0 / (1.0 + np.exp(-(4.0 * np.asarray(x) - 4.0)))


def test_the_checker_is_content():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(CostWrapper(Line(), rising(), penalty=0.5, terminate=True, threshold=1.0), skip_render_check=True)
        check_env(
            ShieldWrapper(Line(), rising(threshold=1.0), predict=lambda obs, act: obs + np.pad(act, ((0, 0), (1, 0)))),
            skip_render_check=True,
        )


@pytest.mark.parametrize("at", ["next", "current"])
def test_the_cost_is_of_the_right_state(at):
    env = CostWrapper(Line(), rising(at), penalty=3.0)
    env.reset(seed=0)
    for t in range(3):
        obs, reward, _, _, info = env.step(np.array([0.5], np.float32))
        x = 0.5 * (t + 1) if at == "next" else 0.5 * t
        assert info["cost"] == pytest.approx(expected(x), rel=1e-5)
        assert reward == pytest.approx(1.0 - 3.0 * expected(x), rel=1e-5)
        assert info["true_cost"] == 9.0
        assert obs[1] == 0.5 * (t + 1)


def test_inputs_are_found_by_name():
    class Renamed(Line):
        feature_names = ("x", "z")

    env = CostWrapper(Renamed(), rising())
    env.reset(seed=0)
    assert env.step(np.array([0.5], np.float32))[4]["cost"] == pytest.approx(expected(7.0), rel=1e-5)

    class Other(Line):
        feature_names = ("speed", "height")

    with pytest.raises(UserError, match="no feature 'x'"):
        CostWrapper(Other(), rising())

    class Nameless(Line):
        feature_names = None

    with pytest.raises(UserError, match="1 numbers"):
        CostWrapper(Nameless(), rising())


def test_episodes_end_above_the_threshold():
    env = CostWrapper(Line(), rising(), terminate=True, threshold=1.0)
    env.reset(seed=0)
    ends = [env.step(np.array([0.6], np.float32))[2:] for _ in range(2)]
    assert [bool(end[0]) for end in ends] == [False, True]
    assert [end[2]["forbidden"] for end in ends] == [False, True]
    with pytest.raises(UserError, match="tacit calibrate"):
        CostWrapper(Line(), rising(), terminate=True)


def test_a_threshold_of_zero_is_one():
    env = CostWrapper(Line(), rising(threshold=5.0), threshold=0.0)
    env.reset()
    assert env.threshold == 0.0
    assert env.step(np.array([0.5], np.float32))[4]["forbidden"]


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_the_true_cost_is_nowhere_taken_for_the_learned_one(mode):
    """Line costs 9 in truth at every step, and its first state, too; the learned cost is 0."""

    class Starting(Line):
        def reset(self, *, seed=None, options=None):
            obs, info = super().reset(seed=seed)
            return obs, {**info, "cost": 9.0}

    nothing = replace(rising(), lam=np.zeros(1, np.float32))
    assert "cost" not in CostWrapper(Starting(), nothing).reset()[1]
    envs = VectorCostWrapper(SyncVectorEnv([Starting] * 2, autoreset_mode=mode), nothing)
    stand = np.zeros((2, 1), np.float32)
    found = evaluate(envs, lambda obs, rng: stand, 4, seed=0)
    assert found.violation_steps.tolist() == [0] * 4
    assert not found.initial_violations.any()
    envs.reset(seed=0)
    for _ in range(5):
        *_, info = envs.step(stand)
    assert "true_cost" in (info["final_info"] if mode is AutoresetMode.SAME_STEP else info)
    # A learned cost above 0 everywhere violates at every step, and the first state is not judged by the last step.
    found = evaluate(VectorCostWrapper(envs.env, rising()), lambda obs, rng: stand, 4, seed=0)
    assert found.violation_steps.tolist() == [5] * 4
    assert not found.initial_violations.any()


@pytest.mark.parametrize("at", ["next", "current"])
@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_a_vector_is_like_its_copies(at, mode):
    """Against single environments driven by hand, over ends of episodes of different lengths."""
    lengths, actions = (3, 5), np.random.default_rng(0).uniform(-1, 1, (12, 2, 1)).astype(np.float32)
    envs = VectorCostWrapper(
        SyncVectorEnv([lambda n=n: Line(length=n) for n in lengths], autoreset_mode=mode),
        rising(at, threshold=0.5),
        penalty=2.0,
    )
    envs.reset(seed=0)
    singles = [CostWrapper(Line(length=n), rising(at, threshold=0.5), penalty=2.0) for n in lengths]
    for single in singles:
        single.reset()
    over = [False, False]
    for t in range(12):
        _, rewards, _, truncated, info = envs.step(actions[t])
        for i, single in enumerate(singles):
            if over[i] and mode is AutoresetMode.NEXT_STEP:
                single.reset()
                over[i] = False
                assert info["cost"][i] == 0.0
                continue
            _, reward, _, cut, own = single.step(actions[t, i])
            assert info["cost"][i] == pytest.approx(own["cost"], rel=1e-5)
            assert rewards[i] == pytest.approx(reward, rel=1e-5)
            assert truncated[i] == cut
            assert bool(info["forbidden"][i]) == own["forbidden"]
            over[i] = cut
            if cut and mode is AutoresetMode.SAME_STEP:
                single.reset()


def test_dictionaries_are_flattened():
    class Split(Line):
        feature_names = None
        observation_space = gym.spaces.Dict(
            a=gym.spaces.Box(-1e6, 1e6, (1,), np.float32), b=gym.spaces.Box(-1e6, 1e6, (1,), np.float32)
        )

        def _obs(self):
            return {"a": np.array([self.x], np.float32), "b": np.array([7.0], np.float32)}

    two = replace(rising(), inputs=replace(rising().inputs, obs_size=2))
    env = CostWrapper(Split(), two)
    env.reset(seed=0)
    assert env.step(np.array([0.5], np.float32))[4]["cost"] == pytest.approx(expected(0.5), rel=1e-5)
    envs = VectorCostWrapper(SyncVectorEnv([Split, Split]), two)
    envs.reset(seed=0)
    cost = envs.step(np.full((2, 1), 0.5, np.float32))[4]["cost"]
    np.testing.assert_allclose(cost, expected(0.5), rtol=1e-5)


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


def test_a_brake_and_no_way_out():
    env = ShieldWrapper(Line(), rising(threshold=1.0), predict=forward, instead=np.array([-1.0], np.float32))
    env.reset(seed=0)
    env.step(np.array([0.9], np.float32))
    assert env.step(np.array([1.0], np.float32))[4]["action"][0] == -1.0
    stuck = ShieldWrapper(
        Line(discrete=True), rising(threshold=1.0), predict=lambda obs, a: np.tile([[7.0, 50.0]], (len(a), 1))
    )
    stuck.reset(seed=0)
    stuck.step(1)
    assert stuck.stuck == stuck.interventions == 1


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


def test_public_names():
    assert tacit.CostWrapper is CostWrapper
    assert tacit.ShieldWrapper is ShieldWrapper
