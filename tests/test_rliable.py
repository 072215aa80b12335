"""Our aggregates beside those of rliable, where it is installed (it brings pandas, statsmodels and seaborn).

What does not resample must agree to rounding; bootstrap intervals come from other random numbers and must agree within
what resampling leaves open.
"""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest

from tacit import stats

metrics = pytest.importorskip("rliable.metrics")


@pytest.fixture(scope="module")
def library():
    """Its bootstrap needs arch, which does not work with every pandas."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module("rliable.library")
        except Exception as error:
            pytest.skip(f"rliable.library cannot be imported: {error}")


@pytest.fixture
def scores() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"x": rng.normal(1.0, 0.4, (10, 5)).round(2), "y": rng.normal(0.9, 0.6, (8, 5)).round(2)}


@pytest.mark.parametrize("shape", [(5, 3), (10, 5), (7, 1), (3, 2)])
def test_aggregates(shape):
    array = np.random.default_rng(1).normal(size=shape)
    assert stats.iqm(array) == pytest.approx(metrics.aggregate_iqm(array))
    assert stats.optimality_gap(array, 0.5) == pytest.approx(metrics.aggregate_optimality_gap(array, 0.5))


def test_probability_of_improvement(scores):
    """Rounded scores: ties are there, and count half in both."""
    ours = stats.probability_of_improvement(scores["x"], scores["y"])
    assert ours == pytest.approx(metrics.probability_of_improvement(scores["x"], scores["y"]))
    assert ours + stats.probability_of_improvement(scores["y"], scores["x"]) == pytest.approx(1.0)


def test_performance_profile(library, scores):
    taus = np.linspace(-1.0, 2.0, 31)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, _ = library.create_performance_profile({"x": scores["x"]}, taus, reps=20)
    np.testing.assert_allclose(stats.performance_profile(scores["x"], taus), found["x"])


@pytest.mark.parametrize("ours", ["iqm", "improvement"])
def test_stratified_bootstrap_intervals(library, scores, ours):
    resamples = 2000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if ours == "iqm":
            points, ends = library.get_interval_estimates(
                {"x": scores["x"]}, metrics.aggregate_iqm, reps=resamples, random_state=np.random.RandomState(0)
            )
            value, low, high = stats.bootstrap_interval(scores["x"], rng=np.random.default_rng(0), resamples=resamples)
        else:
            points, ends = library.get_interval_estimates(
                {"x": (scores["x"], scores["y"])},
                metrics.probability_of_improvement,
                reps=resamples,
                random_state=np.random.RandomState(0),
            )
            value, low, high = stats.probability_of_improvement_interval(
                scores["x"], scores["y"], rng=np.random.default_rng(0), resamples=resamples
            )
    assert value == pytest.approx(float(points["x"]))
    width = high - low
    # A 2.5 % quantile of 2000 draws is known to about a thirtieth of the interval's width.
    assert np.ravel(ends["x"]) == pytest.approx([low, high], abs=0.08 * width)
