"""The joint test: it keeps its level, finds a hole that demonstrators go round, and is not disturbed by style."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from tacit.cost.avoided import joint_test

NAMES = ("x", "y", "speed")


def ways(rng, n, *, straight=0.0, speed=0.7):
    """Ways from left to right of a hole. This share of them goes straight through it, the others round."""
    made = []
    for _ in range(n):
        side, offset = rng.choice([-1.0, 1.0]), rng.uniform(-0.5, 0.5)
        x = np.linspace(-3, 3, 40) + 0.05 * rng.standard_normal(40)
        round_it = side * (1.3 + abs(offset)) * np.exp(-((x / 1.8) ** 2))
        y = np.full(40, offset) if rng.random() < straight else offset * np.abs(x) / 3 + round_it
        pace = speed + 0.1 * rng.standard_normal(40)
        made.append(np.stack([x, y + 0.05 * rng.standard_normal(40), pace], axis=1))
    return made


def seekers(rng, **options):
    return np.concatenate(ways(rng, 60, **{"straight": 1.0, **options}))


def test_equal_behaviour_raises_no_alarm_more_often_than_its_level():
    worlds, alarms = 20, 0
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        alarms += joint_test(ways(rng, 12), ways(rng, 15), NAMES, seekers(rng))["p"] <= 0.05
    assert alarms <= binom.ppf(1 - 1e-3, worlds, 0.05)


@pytest.mark.parametrize("share", [0.4, 1.0])
def test_a_hole_that_demonstrators_go_round_is_found(share):
    rng = np.random.default_rng(1)
    found = joint_test(ways(rng, 40), ways(rng, 100, straight=share), NAMES, seekers(rng))
    assert found["p"] < 1e-3
    assert found["inputs"] == ["x", "y"]
    assert np.hypot(*np.mean(found["box"], axis=1)) < 1.8  # its middle lies in the hole
    assert found["learner"]["low"] < share < found["learner"]["high"] + 0.1
    assert found["demonstrations"]["value"] < 0.1
    assert 0.5 < found["auroc"]["low"] < found["auroc"]["value"] <= found["auroc"]["high"] <= 1.0


def test_a_style_that_no_reward_seeker_shares_is_no_alarm():
    """The learner is faster on the same ways. If reward-seekers are as fast, it cannot be told from a broken rule."""
    rng = np.random.default_rng(2)
    demos, faster = ways(rng, 40), ways(rng, 100, speed=1.6)
    assert joint_test(demos, faster, NAMES, seekers(rng))["p"] > 0.05
    assert joint_test(demos, faster, NAMES, seekers(rng, speed=1.6))["p"] < 1e-3


def test_without_seekers_the_agent_is_one_itself():
    rng = np.random.default_rng(3)
    assert joint_test(ways(rng, 40), ways(rng, 50, straight=0.5), NAMES)["p"] < 1e-3
    assert joint_test(ways(rng, 40), ways(rng, 50), NAMES)["p"] > 0.05


def test_the_same_data_give_the_same_answer():
    answers = []
    for _ in range(2):
        rng = np.random.default_rng(4)
        answers.append(joint_test(ways(rng, 12), ways(rng, 12, straight=0.5), NAMES, seekers(rng)))
    assert answers[0] == answers[1]


def test_odd_inputs_are_no_trouble():
    """Constant inputs, equal columns, whole numbers, huge and tiny scales, one input, few and short trajectories."""
    rng = np.random.default_rng(5)

    def odd(n):
        base = [rng.standard_normal((6, 1)) for _ in range(n)]
        return [np.concatenate([np.ones((6, 1)), x, x, 1e9 * x, 1e-9 * x, np.round(x)], axis=1) for x in base]

    assert joint_test(odd(6), odd(6), "abcdef", np.concatenate(odd(6)))["p"] > 0.05
    assert joint_test(odd(2), odd(2), "abcdef")["p"] > 0.05
    assert joint_test(odd(1), odd(5), "abcdef") is None
    one = [rows[:, :1] for rows in ways(rng, 40)]
    assert joint_test(one, [rows + 10.0 for rows in one], "x")["p"] < 1e-3
    assert joint_test([np.ones((3, 1))] * 4, [np.ones((3, 1))] * 4, "x")["p"] == 1.0
    assert joint_test([np.ones((1, 2))] * 9, [np.zeros((1, 2))] * 9, "xy")["p"] == 1.0  # nobody stays for two steps
