"""GAE against its definition as a sum over the future of each step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.forward.gae import gae


def by_definition(r, v, nv, terminated, done, gamma, lam):
    """A_t = sum_l (gamma lam)^l delta_{t+l}, up to and including the first step that ends an episode."""
    steps, n = r.shape
    out = np.zeros((steps, n))
    for i in range(n):
        for t in range(steps):
            for k in range(t, steps):
                future = 0.0 if terminated[k, i] else nv[k, i]
                out[t, i] += (gamma * lam) ** (k - t) * (r[k, i] + gamma * future - v[k, i])
                if done[k, i]:
                    break
    return out


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), gamma=st.floats(0, 1), lam=st.floats(0, 1), ends=st.floats(0, 0.6))
def test_equals_the_definition(seed, gamma, lam, ends):
    rng = np.random.default_rng(seed)
    r, v, nv = rng.normal(size=(3, 9, 3))
    done = rng.random((9, 3)) < ends
    terminated = done & (rng.random((9, 3)) < 0.5)
    got = gae(*(np.float32(x) for x in (r, v, nv)), terminated, done, gamma, lam)
    np.testing.assert_allclose(got, by_definition(r, v, nv, terminated, done, gamma, lam), atol=1e-4)


def test_lambda_one_is_the_return_minus_the_value():
    rng = np.random.default_rng(0)
    r, v = rng.normal(size=(2, 9, 3)).astype(np.float32)
    nv = np.concatenate([v[1:], rng.normal(size=(1, 3)).astype(np.float32)])
    no = np.zeros((9, 3), bool)
    got = gae(r, v, nv, no, no, 0.9, 1.0)
    powers = 0.9 ** np.arange(9)
    assert got[0] == pytest.approx(powers @ r + 0.9**9 * nv[-1] - v[0], abs=1e-5)


@pytest.mark.parametrize("terminates", [True, False])
def test_a_time_limit_bootstraps_and_a_terminal_does_not(terminates):
    one = np.ones((9, 3), np.float32)
    done = np.zeros((9, 3), bool)
    done[4] = True
    got = gae(one, 0 * one, 7 * one, done & terminates, done, 0.5, 0.0)
    assert got[4] == pytest.approx([1.0] * 3 if terminates else [4.5] * 3)
    assert got[3] == pytest.approx([4.5] * 3)
