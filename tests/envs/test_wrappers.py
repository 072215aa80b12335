"""Costs around environments: Gymnasium's checker, the right observation, penalties, ends, vectors, the unknown."""

from __future__ import annotations

import warnings
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import tacit
from tacit.cost.table import TableCost
from tacit.envs.wrappers import CostWrapper, ShieldWrapper, VectorCostWrapper
from tacit.errors import UserError
from tacit.evaluate import evaluate
from wrapper_helpers import Line, expected, rising


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


def test_a_price_is_subtracted_and_a_set_counts_forbidden_steps():
    """x is 0.6, 1.2, 1.8; the cost exceeds 1 from x = 1 on; the run has seen x up to 1.5, and a tenth of 1.5 more."""
    cost = replace(rising(threshold=1.0), unit=0.5, card={"ranges": {"x": [0.0, 1.5]}})
    move = np.array([0.6], np.float32)
    env = CostWrapper(Line(), cost, charge="price")
    env.reset(seed=0)
    _, reward, *_, info = env.step(move)
    assert reward == pytest.approx(1.0 - 0.5 * expected(0.6), rel=1e-5)
    assert info["cost"] == pytest.approx(expected(0.6), rel=1e-5)

    env = CostWrapper(Line(), cost, charge="set", penalty=3.0)
    env.reset(seed=0)
    steps = [env.step(move) for _ in range(3)]
    assert [step[4]["cost"] for step in steps] == [0.0, 1.0, 1.0]
    assert [step[1] for step in steps] == [1.0, -2.0, -2.0]
    assert steps[1][4]["learned_cost"] == pytest.approx(expected(1.2), rel=1e-5)
    assert [step[4]["unknown"] for step in steps] == [False, False, True]

    envs = VectorCostWrapper(SyncVectorEnv([Line] * 2), cost, charge="set", penalty=3.0)
    envs.reset(seed=0)
    for step in steps:
        _, rewards, _, _, info = envs.step(np.stack([move, 0 * move]))
        assert info["cost"].tolist() == [step[4]["cost"], 0.0]
        assert rewards.tolist() == [step[1], 1.0]
        assert info["learned_cost"][0] == pytest.approx(step[4]["learned_cost"])
    with pytest.raises(UserError, match="a set needs a threshold"):
        CostWrapper(Line(), rising(), charge="set")
    with pytest.raises(UserError, match="price or set"):
        CostWrapper(Line(), cost, charge="prize")  # type: ignore[arg-type]


def test_a_set_forbids_an_observation_that_is_not_a_number():
    class Broken(Line):
        def _obs(self):
            return np.array([7.0, np.nan if self.t == 2 else 0.0])

    env = CostWrapper(Broken(), rising(threshold=1.0), charge="set", terminate=True)
    env.reset(seed=0)
    ends = [env.step(np.zeros(1, np.float32)) for _ in range(2)]
    assert [(end[4]["cost"], end[2]) for end in ends] == [(0.0, False), (1.0, True)]


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


# What a cost knows nothing about ------------------------------------------------------------------------------------


class Broken(Line):
    """The sensor of y or x gives `value` from the second step on."""

    def __init__(self, value=np.nan, entry=1, **options):
        super().__init__(**options)
        self.value, self.entry = value, entry

    def _obs(self):
        obs = super()._obs()
        if self.t >= 2:
            obs[self.entry] = self.value
        return obs


STAND = np.zeros(1, np.float32)


@pytest.mark.parametrize("at", ["next", "current"])
@pytest.mark.parametrize("entry", [0, 1])  # an entry that the cost does not read is a broken sensor, too
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_what_is_not_finite_is_forbidden(value, entry, at):
    env = CostWrapper(Broken(value, entry), rising(at, threshold=1.9), penalty=3.0)
    env.reset(seed=0)
    infos, rewards = [], []
    for _ in range(4):
        _, reward, *_, info = env.step(STAND)
        infos.append(info)
        rewards.append(reward)
    unknown = [False, True, True, True] if at == "next" else [False, False, True, True]
    assert [info["unknown"] for info in infos] == [info["forbidden"] for info in infos] == unknown
    assert [info["unknown_steps"] for info in infos] == np.cumsum(unknown).tolist()
    assert infos[3]["cost"] == 2.0  # the ceiling of 2 sigmoid(...)
    np.testing.assert_allclose(rewards, [1 - 3 * info["cost"] for info in infos])
    assert ("x is" if entry else "entry 0 is") in infos[3]["unknown_reason"]
    assert "unknown_reason" not in infos[0]


def test_unknown_ends_an_episode_and_needs_no_threshold():
    env = CostWrapper(Broken(), rising(threshold=1.9), terminate=True)
    env.reset(seed=0)
    assert [env.step(STAND)[2] for _ in range(2)] == [False, True]
    env = CostWrapper(Broken(), rising())
    env.reset(seed=0)
    assert "forbidden" not in env.step(STAND)[4]
    assert env.step(STAND)[4]["forbidden"] is True


def test_what_was_never_seen_is_forbidden():
    """By the card, by hand, and by the card of a cost that this one is a part of."""
    low, high = [-0.25], [0.25]
    card = rising(threshold=1.9).with_card(seen={"low": low, "high": high})
    whole = rising(threshold=1.9).with_card(inputs=["z", "x"], seen={"low": [0.0, *low], "high": [0.0, *high]})
    for cost, seen in ((card, None), (whole, None), (rising(threshold=1.9), (low, high)), (card, (-9.0, 0.25))):
        env = CostWrapper(Line(), cost, seen=seen)
        env.reset(seed=0)
        unknown = []
        for _ in range(3):
            *_, info = env.step(np.array([0.125], np.float32))
            unknown.append(info["forbidden"])
            assert info["cost"] == pytest.approx(expected(0.125 * len(unknown)), rel=1e-5)
        assert unknown == [False, False, True]
        assert info["unknown_reason"].startswith("x = 0.375 is outside of what was seen (")
    off = CostWrapper(Line(), card, seen=(-np.inf, np.inf))
    off.reset(seed=0)
    assert not off.step(np.array([0.9], np.float32))[4]["unknown"]
    with pytest.raises(UserError, match="one for each of x"):
        CostWrapper(Line(), card, seen=([0.0, 1.0], [2.0, 3.0]))
    for damaged in ({"low": [0.0]}, {"low": [0.0, 1.0], "high": [0.0, 1.0]}, {"low": ["a"], "high": [0.0]}, 3):
        with pytest.raises(UserError, match="card of this cost is damaged"):
            CostWrapper(Line(), rising().with_card(seen=damaged))


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_the_unknown_in_vectors_is_that_of_the_copies(mode):
    makers = [lambda: Broken(length=3), lambda: Line(length=4), lambda: Broken(np.inf, 0, length=5)]
    seen = ([-0.5], [0.5])
    envs = VectorCostWrapper(SyncVectorEnv(makers, autoreset_mode=mode), rising(threshold=1.9), seen=seen)
    singles = [CostWrapper(make(), rising(threshold=1.9), seen=seen) for make in makers]
    envs.reset(seed=0)
    for single in singles:
        single.reset(seed=0)
    over = [False] * 3
    for actions in np.random.default_rng(0).uniform(-1, 1, (15, 3, 1)).astype(np.float32):
        *_, info = envs.step(actions)
        for i, single in enumerate(singles):
            if over[i]:
                single.reset()
                over[i] = False
                if mode is AutoresetMode.NEXT_STEP:
                    assert not info["unknown"][i]
                    assert not info["forbidden"][i]
                    assert info["cost"][i] == 0.0
                    continue
            *_, cut, own = single.step(actions[i])
            for key in ("unknown", "forbidden", "unknown_steps"):
                assert info[key][i] == own[key], key
            assert info["cost"][i] == pytest.approx(own["cost"], rel=1e-5)
            if own["unknown"]:
                assert info["unknown_reason"][i] == own["unknown_reason"]
                assert info["_unknown_reason"][i]
            over[i] = cut
    assert envs.unknown_steps.min() > 0


def test_a_table_of_states_is_asked_about_a_broken_sensor():
    table = TableCost(np.array([[0, 0], [0, 1]]), np.array([[0.0], [3.0]]), np.zeros(1), threshold=1.0)

    class Cells(Broken):
        feature_names = ("row", "column")

        def _obs(self):
            return super()._obs() * [0.0, 1.0]

    env = CostWrapper(Cells(), table)
    env.reset(seed=0)
    infos = [env.step(STAND)[4] for _ in range(3)]
    assert [info["forbidden"] for info in infos] == [False, False, True]
    assert infos[2]["cost"] == 3.0
    with pytest.raises(UserError, match="seen"):
        CostWrapper(Cells(), table, seen=([0.0], [1.0]))


def test_thresholds_and_costs_that_are_not_numbers():
    for wrap in (
        lambda: CostWrapper(Line(), rising(), threshold=np.nan),
        lambda: CostWrapper(Line(), rising(threshold=np.nan), terminate=True),
        lambda: VectorCostWrapper(SyncVectorEnv([Line]), rising(), threshold=np.nan),
        lambda: ShieldWrapper(Line(), rising("current", act=True), threshold=np.nan),
    ):
        with pytest.raises(UserError, match="nothing would be forbidden"):
            wrap()
    env = CostWrapper(Line(), replace(rising(threshold=1.0), lam=np.array([np.nan], np.float32)))
    env.reset(seed=0)
    info = env.step(STAND)[4]
    assert info["forbidden"]
    assert info["unknown_reason"] == "the cost is not a number"


def test_public_names():
    assert tacit.CostWrapper is CostWrapper
    assert tacit.ShieldWrapper is ShieldWrapper
