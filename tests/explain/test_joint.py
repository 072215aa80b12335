"""The joint test: it keeps its level, names the inputs that a region lies in, and knows the share of steps inside."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from tacit.explain import joint


def walks(rng, n, steps, inputs=3):
    """Trajectories around a centre of their own."""
    return [rng.standard_normal(inputs) + 0.3 * rng.standard_normal((steps, inputs)) for _ in range(n)]


def test_the_level_is_kept(monkeypatch):
    monkeypatch.setattr(joint, "PERMUTATIONS", 19)
    worlds, alarms = 60, 0
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        alarms += joint.compare_jointly(walks(rng, 8, 15), walks(rng, 8, 15), "abc", rng)[0].clear
    assert alarms <= binom.ppf(1 - 1e-3, worlds, 0.05)


@pytest.mark.parametrize("pair", [(0, 1), (1, 2)])
def test_a_relation_between_two_inputs_is_named(pair):
    """Demonstrators keep to x y > 0, the agent to x y < 0: every input alone has the same distribution."""
    rng = np.random.default_rng(0)
    names = ("x", "y", "z")

    def steps(sign):
        made = walks(rng, 20, 40)
        for rows in made:
            rows[:, pair[1]] = sign * np.sign(rows[:, pair[0]]) * np.abs(rows[:, pair[1]])
        return made

    first, *others = joint.compare_jointly(steps(1), steps(-1), names, rng)
    assert first.inputs == tuple(names[j] for j in pair)
    assert first.clear
    assert first.share > 0.8
    assert max(one.share for one in others) < 0.3


@pytest.mark.parametrize("inside", [0.1, 0.4])
def test_the_share_is_that_of_the_steps_where_no_demonstrator_goes(inside):
    """Demonstrators stay out of a disc; this share of the agent's steps lies in it."""
    rng = np.random.default_rng(1)

    def ring(n):
        radius, angle = rng.uniform(1.0, 2.0, n), rng.uniform(0, 2 * np.pi, n)
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)

    demos = [ring(50) for _ in range(40)]
    agent = [np.concatenate([0.4 * ring(int(50 * inside)), ring(50 - int(50 * inside))]) for _ in range(40)]
    first = joint.compare_jointly(demos, agent, ("x", "y"), rng)[0]
    assert first.inputs == ("x", "y")
    assert first.clear
    assert 0.6 * inside < first.share < 1.1 * inside


def test_inputs_that_say_nothing_are_no_trouble():
    """Constant inputs, equal columns, whole numbers, scales of 1e-9 and 1e9, few and short trajectories."""
    rng = np.random.default_rng(2)

    def odd(n):
        base = [rng.standard_normal((6, 1)) for _ in range(n)]
        return [np.concatenate([np.ones((6, 1)), x, x, 1e9 * x, 1e-9 * x, np.round(x)], axis=1) for x in base]

    listed = joint.compare_jointly(odd(6), odd(6), "abcdef", rng)
    assert listed
    assert all("a" not in one.inputs for one in listed)
    assert not any(one.clear for one in joint.compare_jointly(odd(2), odd(2), "abcdef", rng))
