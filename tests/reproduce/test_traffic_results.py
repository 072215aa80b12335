"""What is measured of highway driving: how episodes end, and rates with starts that violate counted apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tacit.envs.capabilities import capabilities
from tacit.envs.traffic import layout
from tacit.envs.traffic.env import TrafficVectorEnv
from tacit.evaluate import Episodes, evaluate, summarize
from tacit.forward.expert import cautious_cost
from traffic_scenes import FAR_AWAY, Car, recording


def road(*cars: Car) -> layout.Traffic:
    # A truck is never the ego.
    return layout.build([recording([replace(FAR_AWAY, kind="truck"), *cars])], layout.Rules())


def coast(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.zeros((len(obs), 2))


@pytest.mark.parametrize(
    ("action", "rate"),
    [
        ((0.0, 0.0), "goal_rate"),
        ((0.0, 1.0), "off_road_rate"),
        ((0.0, -1.0), "off_road_rate"),
        ((-1, 0), "time_out_rate"),
    ],
)
def test_how_episodes_end(action: tuple[float, float], rate: str) -> None:
    env = TrafficVectorEnv(4, "velocity", traffic=road(Car(x=100.0)))
    result = evaluate(env, lambda obs, rng: np.tile(action, (len(obs), 1)), 8, seed=0)
    summary = summarize(result)
    assert summary[rate]["value"] == 1.0
    others = {"goal_rate", "collision_rate", "off_road_rate", "time_out_rate"} - {rate}
    assert all(summary[other]["value"] == 0.0 for other in others)


def test_a_collision_is_counted() -> None:
    slow = Car(x=130.0, speed=10.0, kind="truck")
    env = TrafficVectorEnv(2, "distance", traffic=road(Car(x=60.0, speed=40.0, frames=150), slow))
    summary = summarize(evaluate(env, coast, 4, seed=0))
    assert summary["collision_rate"]["value"] == 1.0
    assert summary["return"]["value"] == -50.0


def test_violations_of_legal_starts_are_apart() -> None:
    steps, lengths = np.array([10, 0, 4, 0]), np.full(4, 20)
    zeros, start = np.zeros(4), np.array([True, False, False, True])
    summary = summarize(Episodes(zeros, zeros, zeros, steps, start, lengths, ~start))
    assert summary["violation_rate_legal_start"]["value"] == pytest.approx((0.0 + 0.2) / 2)
    assert summary["violation_rate_legal_start"]["n"] == 2
    assert summary["initial_violation_rate"]["value"] == 0.5
    assert "goal_rate" not in summary
    # No violation seen in three episodes does not mean that there is none: 1 - 0.025 ** (1 / 3).
    spared = summarize(Episodes(zeros, zeros, zeros, np.array([10, 0, 0, 0]), np.arange(4) == 0, lengths, ~start))
    found = spared["violation_rate_legal_start"]
    assert (found["value"], found["low"]) == (0.0, 0.0)
    assert found["high"] == pytest.approx(1 - 0.025 ** (1 / 3))
    legal = summarize(Episodes(zeros, zeros, zeros, steps, np.zeros(4, bool), lengths, ~start))
    assert "violation_rate_legal_start" not in legal


def test_the_rule_is_a_bound_on_a_feature() -> None:
    """What the expert's margin and the judgement of a learned boundary rely on."""
    rng = np.random.default_rng(0)
    for constraint in ("distance", "velocity"):
        env = TrafficVectorEnv(1, constraint, traffic=road(Car(x=100.0)))
        obs = rng.uniform(0.0, 80.0, (500, 74))
        obs[:, 7] = 0.0  # no lateral speed
        rule = capabilities(env).rule
        value = rule.values(obs)
        expected = value < rule.value if rule.relation == "<" else value > rule.value
        np.testing.assert_array_equal(rule.violated(obs), expected)
        assert str(rule) == f"{rule.feature} {rule.relation} {rule.value:g}"


def test_an_expert_with_a_margin_is_charged_earlier() -> None:
    env = TrafficVectorEnv(1, "distance", traffic=road(Car(x=100.0)))
    cost = cautious_cost(env, 2.0)
    assert cost is not None
    obs = np.zeros((3, 74))
    obs[:, capabilities(env).rule.column] = (19.0, 21.0, 23.0)
    np.testing.assert_array_equal(cost(obs, obs, obs), [1.0, 1.0, 0.0])
