"""A cost as a detector on several distributions of states: by hand, and where a wrong cost must be found out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tacit.cost import Inputs, LearnedCost, quality
from tacit.demos.data import Trajectory, from_trajectories
from tacit.envs.capabilities import Rule
from tacit.envs.gridworld import GridworldVectorEnv
from tacit.evaluate import reachable_states
from tacit.forward.collect import interface_of
from tacit.policy import Interface


def linear(name: str, column: int, obs_size: int, **fields: Any) -> LearnedCost:
    """The cost is that entry of the observation itself."""
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    inputs = Inputs((name,), (column,), obs_size, 0, zero, one, squash=False, clip=np.inf)
    return LearnedCost(inputs, one, np.zeros((1, 0), np.float32), np.zeros((1, 0), np.float32), **fields)


def test_detection_by_hand():
    """Costs 0 1 2 3 4, the truth is {1, 3, 4}, the threshold 2: {3, 4} are marked."""
    found = quality.detection(np.arange(5.0), np.array([False, True, False, True, True]), 2.0)
    # Pairs (constrained, allowed) in order: 1 beats 0 and loses to 2; 3 and 4 beat both.
    assert found["auroc"] == pytest.approx(5 / 6)
    # Recall goes up at 4, 3 and 1, with precision 1, 1 and 3/4.
    assert found["auprc"] == pytest.approx((1 + 1 + 3 / 4) / 3)
    assert found["iou"] == pytest.approx(2 / 3)
    assert found["best_iou"] == pytest.approx(3 / 4)
    assert (found["false_alarms"], found["missed"]) == (0.0, pytest.approx(1 / 3))
    assert (found["constrained"], found["n"]) == (0.6, 5)


def test_what_is_not_defined_is_left_out():
    free = quality.detection(np.arange(4.0), np.zeros(4, bool), 2.0)
    assert "auroc" not in free
    assert "missed" not in free
    assert (free["iou"], free["false_alarms"], free["constrained"]) == (0.0, 0.25, 0.0)
    assert "iou" not in quality.detection(np.zeros(4), np.zeros(4, bool), 2.0)


def test_threshold_is_that_of_the_calibration_or_the_usual_one():
    rows = np.array([[0.1], [0.3], [0.2], [0.5]], np.float32)
    cost = linear("x", 0, 1)
    lengths = np.array([2, 2])
    # Two demonstrations cost at most 0.3 and 0.5; the second of two is rank ceil(3 * 0.9).
    assert quality.threshold_of(cost, rows, lengths, rows) == (pytest.approx(0.5), False)
    # A tenth of the dearest that was tried, if that is more.
    assert quality.threshold_of(cost, rows, lengths, np.array([[9.0]], np.float32)) == (pytest.approx(0.9), False)
    calibrated = linear("x", 0, 1, threshold=0.25)
    assert quality.threshold_of(calibrated, rows, lengths, rows) == (0.25, True)


def world(relation: str = ">", bound: float = 1.0) -> Any:
    return SimpleNamespace(unwrapped=SimpleNamespace(rule=Rule("x", relation, bound, column=0)))


def test_perturbed_states_find_out_a_cost_that_looks_at_the_wrong_entry():
    """x and y are the same wherever anybody goes: a cost of y looks perfect there, and knows nothing of x."""
    rng = np.random.default_rng(0)
    tried = np.repeat(rng.normal(0, 2, (4000, 1)), 2, axis=1).astype(np.float32)
    expert = tried[tried[:, 0] < 1]
    right, wrong = linear("x", 0, 2), linear("y", 1, 2)
    truth = (tried[:, 0] > 1).astype(np.float64)
    for cost, wanted in ((right, (0.999, 1.0)), (wrong, (0.4, 0.75))):
        seen, shaken = quality.labelled(tried, truth), quality.perturbed(world(), cost, expert, tried, 0)
        assert seen is not None
        assert shaken is not None
        found = quality.judge(cost, {"nominal": seen, "perturbed": shaken}, 1.0)["on"]
        assert found["nominal"]["auroc"] == 1.0
        assert wanted[0] <= found["perturbed"]["auroc"] <= wanted[1]
        np.testing.assert_array_equal(shaken.violates, shaken.rows[:, 0] > 1.0)


def test_actions_are_not_shaken():
    inputs = Inputs(("x",), (0,), 1, 2, np.zeros(1, np.float32), np.ones(1, np.float32))
    cost = LearnedCost(inputs, np.ones(1, np.float32), np.zeros((1, 0), np.float32), np.zeros((1, 0), np.float32))
    expert = np.tile(np.array([[0.0, 0.3, -0.7]], np.float32), (5, 1))
    tried = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    shaken = quality.perturbed(world(), cost, expert, tried, 0)
    assert shaken is not None
    assert np.ptp(shaken.rows[:, 0]) > 1
    np.testing.assert_array_equal(shaken.rows[:, 1:], np.tile(expert[0, 1:], (len(shaken.rows), 1)))


def test_uniform_is_every_reachable_cell_once():
    env = GridworldVectorEnv(2, "paper")
    names = tuple(env.feature_names)
    cost = linear(names[1], 1, 2)
    interface = interface_of(env)
    found = quality.uniform(env, cost, interface)
    assert found is not None
    there = reachable_states(env.grid.model())
    assert len(found.rows) == there.sum()
    assert len(np.unique(found.rows, axis=0)) == there.sum()
    assert found.violates.sum() == (np.asarray(env.grid.constrained) & there).sum() > 0


def test_the_band_of_which_nothing_can_be_known_is_left_out():
    """Demonstrations reach down to -1, the wall is at -3: what lies between counts against no cost."""
    env = world("<", -3.0)
    band = quality.band_of(env, np.array([-1.0, -9.0]), np.array([5.0, 9.0]))
    rows = np.array([[-4.0, 0.0], [-2.0, 0.0], [-1.0, 0.0], [3.0, -2.0]])
    assert band(rows).tolist() == [False, True, False, False]
    cautious = np.array([1.0, 2.0, 0.0, 0.0])
    found = quality.detection(cautious, rows[:, 0] < -3, 0.5, band(rows))
    assert (found["auroc"], found["auroc_outside"]) == (pytest.approx(2 / 3), 1.0)
    assert "auroc_outside" not in quality.detection(cautious, rows[:, 0] < -3, 0.5)
    assert quality.band_of(SimpleNamespace(unwrapped=SimpleNamespace()), rows[0], rows[0]) is None
    beyond = quality.band_of(env, np.array([-5.0, -9.0]), np.array([5.0, 9.0]))
    assert not beyond(rows).any()  # demonstrations that violate leave nothing open


def test_the_band_of_a_wall_above():
    env = world(">", 0.5)
    rows = np.array([[0.2], [0.45], [0.7]])
    assert quality.band_of(env, np.array([-1.0]), np.array([0.4]))(rows).tolist() == [False, True, False]
    assert not quality.band_of(env, np.array([-1.0]), np.array([0.9]))(rows).any()


def test_only_what_has_labels_is_judged():
    env = SimpleNamespace(unwrapped=SimpleNamespace())
    rows, unknown = np.zeros((3, 1), np.float32), np.full(3, np.nan)
    interface = Interface(1, 1)
    cost = linear("x", 0, 1)
    nothing = quality.distributions(
        env,
        cost,
        interface,
        expert=rows,
        nominal=(rows, unknown),
        learner=(rows[:0], unknown[:0]),
        tried=(rows, unknown),
        seed=0,
    )
    assert nothing == {}
    some = quality.distributions(
        world(),
        cost,
        interface,
        expert=rows,
        nominal=(rows, np.ones(3)),
        learner=(rows[:0], unknown[:0]),
        tried=(rows, np.ones(3)),
        seed=0,
    )
    assert list(some) == ["nominal", "tried", "perturbed"]


def test_held_out_demonstrations_that_are_rejected():
    def walk(*xs: float) -> Trajectory:
        obs = np.array([[0.0], *([x] for x in xs)], np.float32)
        return Trajectory(obs, np.zeros((len(xs), 1), np.float32), np.zeros(len(xs)), None, False)

    held = from_trajectories([walk(0.1, 0.2), walk(0.1, 0.9), walk(0.3, 0.1), walk(0.0, 0.1)], {})
    found = quality.judge(linear("x", 0, 1), {}, 0.5, held=held)["rejected"]
    assert found["trajectories"]["value"] == 0.25
    assert found["steps"] == 1 / 8
    # Clopper-Pearson of 1 of 4, from tables.
    ends = found["trajectories"]["low"], found["trajectories"]["high"]
    assert ends == pytest.approx((0.0063, 0.8059), abs=1e-4)
    assert "rejected" not in quality.judge(linear("x", 0, 1), {}, 0.5)
