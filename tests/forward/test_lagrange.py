"""Multipliers: hand-computed steps, an independent Adam, and which way they move."""

import math

import jax
import jax.numpy as jnp
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.forward import lagrange


def test_ascent_is_projected_and_bounded():
    state = lagrange.start(0.3)
    assert lagrange.ascent(state, 0.5, 0.2).value == pytest.approx(0.4)
    assert lagrange.ascent(state, -5.0, 0.2).value == 0.0
    assert lagrange.ascent(state, 50.0, 0.2, maximum=2.0).value == 2.0


@given(st.floats(1e-6, 700))
def test_start_inverts_softplus(value):
    raw = lagrange.start(value).raw
    assert math.log1p(math.exp(-abs(raw))) + max(raw, 0.0) == pytest.approx(value, rel=1e-9)


def test_softplus_is_adam_on_the_lagrangian():
    errors = [0.3, 0.1, -0.2, -0.4, 0.05]
    state = lagrange.start(0.7)
    u = jnp.float32(state.raw)
    adam = optax.adam(0.1)
    memory = adam.init(u)
    for error in errors:
        state = lagrange.softplus(state, error, 0.1)
        gradient = jax.grad(lambda u, e=error: -jax.nn.softplus(u) * e)(u)
        step, memory = adam.update(gradient, memory)
        u = u + step
        assert state.value == pytest.approx(float(jax.nn.softplus(u)), rel=1e-4)


def test_softplus_bound_can_be_left_again():
    state = lagrange.start(1.0)
    for _ in range(200):
        state = lagrange.softplus(state, 1.0, 0.1, maximum=2.0)
    assert state.value == 2.0
    for _ in range(100):
        state = lagrange.softplus(state, -1.0, 0.1, maximum=2.0)
    assert state.value < 1.0


def test_pid_by_hand():
    gains = (2.0, 0.5, 10.0)
    state = lagrange.pid(lagrange.start(0.0), 0.2, gains, smoothing=0.5)
    assert state.value == pytest.approx(2.0 * 0.2 + 0.5 * 0.2)  # no slope yet
    state = lagrange.pid(state, 0.6, gains, smoothing=0.5)
    smooth = 0.5 * 0.2 + 0.5 * 0.6
    assert state.value == pytest.approx(2.0 * smooth + 0.5 * 0.8 + 10.0 * (smooth - 0.2))
    state = lagrange.pid(state, -10.0, gains, smoothing=0.5)
    assert state.value == 0.0
    assert state.integral == 0.0
    assert lagrange.start(3.0, ki=0.5).integral * 0.5 == 3.0


def test_pid_does_not_wind_up():
    state = lagrange.start(0.0)
    for _ in range(1000):
        state = lagrange.pid(state, 1.0, (0.0, 0.1, 0.0), maximum=5.0)
    assert state.value == 5.0
    state = lagrange.pid(state, -1.0, (0.0, 0.1, 0.0), maximum=5.0)
    assert state.value == pytest.approx(4.9)


def trace(rule, errors):
    state, values = lagrange.start(1.0, ki=0.1), []
    for error in errors:
        state = rule(state, error)
        values.append(state.value)
    return values


RULES = {
    "ascent": lambda state, error: lagrange.ascent(state, error, 0.1),
    "softplus": lambda state, error: lagrange.softplus(state, error, 0.1),
    "pid": lambda state, error: lagrange.pid(state, error, (1.0, 0.1, 0.0), 0.5),
}


@pytest.mark.parametrize("name", RULES)
def test_comes_down_with_a_positive_budget(name):
    values = trace(RULES[name], [0.5] * 30 + [-0.3] * 60)
    assert values[29] > 1.3
    assert values[-1] < 0.5 * values[29]


@pytest.mark.parametrize(("name", "falls"), [("ascent", False), ("softplus", False), ("pid", True)])
def test_budget_zero_only_lets_pid_come_down(name, falls):
    """Without a budget the error is never negative: cost 0.5 for a while, then none."""
    values = trace(RULES[name], [0.5] * 30 + [0.0] * 30)
    assert (values[-1] < values[29] - 0.1) == falls
