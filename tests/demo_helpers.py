"""What the tests of demonstrations share."""

from __future__ import annotations

import numpy as np

from tacit import demos as d
from tacit.envs.gridworld import make_spec

GRID = make_spec("far-wall", slip=0.2)


def continuous(costs=True):
    """Two trajectories of 2 and 1 steps with flat observations and actions."""
    rng = np.random.default_rng(0)
    return d.Demonstrations(
        observations=rng.normal(size=(5, 3)),
        actions=rng.uniform(-1, 1, size=(3, 2)),
        rewards=np.array([1.0, 2.0, 3.0]),
        costs=np.array([0.0, 1.0, 0.0]) if costs else None,
        lengths=np.array([2, 1]),
        terminated=np.array([True, False]),
        card={"feature_names": ["x", "y", "z"]},
    )


def same(a, b):
    assert a.arrays().keys() == b.arrays().keys()
    for name, array in a.arrays().items():
        assert array.dtype == b.arrays()[name].dtype
        np.testing.assert_array_equal(array, b.arrays()[name])
