"""Statistics against SciPy, brute force, and values computed by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from tacit import stats
from tacit.errors import UserError

scores_2d = st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32 - 1)).map(
    lambda t: np.random.default_rng(t[2]).normal(size=t[:2]).round(1)
)


def test_mean_and_standard_error_by_hand() -> None:
    mean, error = stats.mean_and_standard_error([1.0, 2.0, 3.0, 6.0])
    assert mean == 3.0
    assert error == pytest.approx(math.sqrt(14 / 3) / 2)
    assert math.isnan(stats.mean_and_standard_error([4.0])[1])


def test_mean_interval_matches_scipy() -> None:
    sample = np.random.default_rng(0).normal(3, 2, size=17)
    reference = scipy_stats.ttest_1samp(sample, 0).confidence_interval(0.9)
    value, low, high = stats.mean_interval(sample, confidence=0.9)
    assert (low, high) == pytest.approx((reference.low, reference.high))
    assert value == pytest.approx(sample.mean())
    assert stats.mean_interval([2.0]) == (2.0, -math.inf, math.inf)


@given(scores_2d)
def test_iqm_is_the_trimmed_mean(scores: np.ndarray) -> None:
    assert stats.iqm(scores) == pytest.approx(scipy_stats.trim_mean(scores, 0.25, axis=None))
    np.testing.assert_allclose(stats.iqm(scores, axis=0), scipy_stats.trim_mean(scores, 0.25, axis=0))
    np.testing.assert_allclose(stats.iqm(scores[None], axis=(-2, -1)), [stats.iqm(scores)])


def test_iqm_by_hand() -> None:
    assert stats.iqm([100.0, 1.0, 2.0, 3.0, -50.0]) == 2.0  # one cut at each end
    assert stats.iqm([1.0, 2.0, 9.0]) == 4.0  # nothing cut


def test_optimality_gap_ignores_what_exceeds_the_target() -> None:
    assert stats.optimality_gap([[0.5, 7.0], [1.0, 0.7]]) == pytest.approx((0.5 + 0 + 0 + 0.3) / 4)


def test_bootstrap_enumerates_all_resamples_of_a_tiny_sample() -> None:
    """With 3 runs and 2 tasks the bootstrap distribution is known exactly: 27 x 27 equally likely resamples."""
    scores = np.array([[0.0, 10.0], [1.0, 20.0], [5.0, 60.0]])
    first, second = (
        [np.mean(c) for c in itertools.product(column, repeat=3)] for column in (scores[:, 0], scores[:, 1])
    )
    exact = np.array([(a + b) / 2 for a in first for b in second])
    value, low, high = stats.bootstrap_interval(scores, np.mean, rng=np.random.default_rng(1), resamples=200_000)
    assert value == pytest.approx(16.0)
    assert (low, high) == pytest.approx(tuple(np.quantile(exact, [0.025, 0.975])), abs=0.2)


def test_bootstrap_is_stratified() -> None:
    """Tasks of very different scale and no spread between runs: resampling within tasks changes nothing."""
    scores = np.tile([0.0, 1000.0, -5.0], (6, 1))
    for statistic in (np.mean, stats.iqm, np.median):
        value, low, high = stats.bootstrap_interval(scores, statistic, rng=np.random.default_rng(0), resamples=500)
        assert low == value == high


def test_bootstrap_coverage_and_determinism() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(300):
        sample = rng.normal(size=(30, 2))
        _, low, high = stats.bootstrap_interval(sample, np.mean, rng=rng, resamples=400)
        hits += low <= 0 <= high
    assert 0.90 <= hits / 300 <= 0.98
    sample = rng.normal(size=(10, 3))
    first, second = (stats.bootstrap_interval(sample, rng=np.random.default_rng(3), resamples=999) for _ in range(2))
    assert first == second


def test_bootstrap_chunks_give_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = np.random.default_rng(0).normal(size=(10, 3))
    whole = stats.bootstrap_interval(sample, rng=np.random.default_rng(3), resamples=1000)
    monkeypatch.setattr(stats, "_CHUNK", 100)
    chunked = stats.bootstrap_interval(sample, rng=np.random.default_rng(3), resamples=1000)
    assert whole == pytest.approx(chunked)


@given(scores_2d, scores_2d)
def test_probability_of_improvement_is_mann_whitney(x: np.ndarray, y: np.ndarray) -> None:
    tasks = min(x.shape[1], y.shape[1])
    x, y = x[:, :tasks], y[:, :tasks]
    reference = [scipy_stats.mannwhitneyu(x[:, m], y[:, m]).statistic / (len(x) * len(y)) for m in range(tasks)]
    assert stats.probability_of_improvement(x, y) == pytest.approx(np.mean(reference))
    assert stats.probability_of_improvement(x, x) == pytest.approx(0.5)


def test_probability_of_improvement_interval() -> None:
    rng = np.random.default_rng(0)
    better, worse = rng.normal(2, 1, size=(10, 4)), rng.normal(0, 1, size=(12, 4))
    value, low, high = stats.probability_of_improvement_interval(better, worse, rng=rng)
    assert 0.5 < low < value < high <= 1.0
    assert stats.probability_of_improvement_interval([1, 1], [0, 0], rng=rng) == (1.0, 1.0, 1.0)


def test_performance_profile_by_hand() -> None:
    scores = np.array([[0.1, 0.9], [0.5, 0.5]])
    np.testing.assert_array_equal(stats.performance_profile(scores, [0.0, 0.1, 0.5, 2.0]), [1.0, 0.75, 0.25, 0.0])
    value, low, high = stats.performance_profile_interval(
        scores, [0.0, 0.5], rng=np.random.default_rng(0), resamples=500
    )
    np.testing.assert_array_equal(value, [1.0, 0.25])
    np.testing.assert_array_equal(low, [1.0, 0.0])
    np.testing.assert_array_equal(high, [1.0, 0.5])  # at most one task can be all above


@given(st.integers(1, 400), st.data(), st.sampled_from([0.8, 0.95, 0.99]))
def test_clopper_pearson_matches_scipy(trials: int, data: st.DataObject, confidence: float) -> None:
    successes = data.draw(st.integers(0, trials))
    sides = {"two-sided": "two-sided", "upper": "less", "lower": "greater"}
    for side, alternative in sides.items():
        reference = scipy_stats.binomtest(successes, trials, alternative=alternative).proportion_ci(confidence, "exact")
        value, low, high = stats.clopper_pearson(successes, trials, confidence, side)  # type: ignore[arg-type]
        assert value == successes / trials
        assert (low, high) == pytest.approx((reference.low, reference.high), abs=1e-9)


def test_zero_counts_are_not_zero() -> None:
    assert stats.clopper_pearson(0, 100, side="upper").high == pytest.approx(1 - 0.05 ** (1 / 100))  # 3.0 %
    assert stats.clopper_pearson(0, 3000, side="upper").high == pytest.approx(0.001, abs=2e-6)
    assert stats.clopper_pearson(0, 100).high == pytest.approx(1 - 0.025 ** (1 / 100))
    assert stats.clopper_pearson(7, 7).low == pytest.approx(0.025 ** (1 / 7))


def test_the_difference_of_means_has_an_interval_over_runs() -> None:
    x, y = np.array([3.0, 4.0, 5.0]), np.array([1.0, 1.0])
    gap = stats.mean_difference_interval(x, y, rng=np.random.default_rng(0))
    assert gap.value == pytest.approx(3.0)
    assert 2.0 <= gap.low < 3.0 < gap.high <= 4.0


def test_rates_of_one_run_are_bounded_as_by_clopper_pearson() -> None:
    for count in (0, 3, 100):
        bounds = stats.rate_over_runs([count], [100], rng=np.random.default_rng(0), resamples=200_000)
        assert bounds.value == count / 100
        assert bounds.low == pytest.approx(stats.clopper_pearson(count, 100, side="lower").low, abs=1e-3)
        assert bounds.high == pytest.approx(stats.clopper_pearson(count, 100, side="upper").high, abs=1e-3)


def test_rates_that_differ_between_runs_are_less_certain_than_their_pooled_episodes() -> None:
    alike, apart = (stats.rate_over_runs(k, [100] * 3, rng=np.random.default_rng(0)) for k in ([20] * 3, [60, 0, 0]))
    assert alike.value == pytest.approx(apart.value)
    assert apart.high > 0.4 > alike.high > stats.clopper_pearson(60, 300, side="upper").high - 0.01
    with pytest.raises(UserError, match="counts <= trials"):
        stats.rate_over_runs([3], [2], rng=np.random.default_rng(0))


labelled = st.tuples(st.integers(1, 25), st.integers(0, 2**32 - 1)).map(
    lambda t: (
        np.random.default_rng(t[1]).integers(0, 6, size=t[0]) / 2,
        np.random.default_rng(t[1] + 1).random(t[0]) < 0.4,
        np.random.default_rng(t[1] + 2).integers(0, 4, size=t[0]).astype(float),
    )
)


@given(labelled)
def test_auroc_against_all_pairs_and_ranks(sample: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    scores, labels, weights = sample
    positive, negative = scores[labels], scores[~labels]
    if not len(positive) or not len(negative):
        assert math.isnan(stats.auroc(scores, labels))
        return
    ranks = scipy_stats.rankdata(scores)
    by_ranks = (ranks[labels].sum() - len(positive) * (len(positive) + 1) / 2) / (len(positive) * len(negative))
    assert stats.auroc(scores, labels) == pytest.approx(by_ranks)
    assert stats.auroc(-scores, labels) == pytest.approx(1 - by_ranks)
    # A weight of w is the same as w copies.
    copies = np.repeat(np.arange(len(scores)), weights.astype(int))
    if len(copies) and 0 < labels[copies].sum() < len(copies):
        for metric in (stats.auroc, stats.auprc):
            assert metric(scores, labels, weights) == pytest.approx(metric(scores[copies], labels[copies]))


@given(labelled)
def test_auprc_against_the_definition(sample: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    scores, labels, _ = sample
    if not labels.any():
        assert math.isnan(stats.auprc(scores, labels))
        return
    total, previous = 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        marked = scores >= threshold
        precision, recall = labels[marked].mean(), labels[marked].sum() / labels.sum()
        total += (recall - previous) * precision
        previous = recall
    assert stats.auprc(scores, labels) == pytest.approx(total)


def test_detector_scores_by_hand() -> None:
    labels = np.array([True, True, False, False])
    assert stats.auroc([0.9, 0.4, 0.4, 0.1], labels) == pytest.approx(3.5 / 4)
    # Thresholds from the top: 1 of 1 (recall 1/2), then the tie enters together: 2 of 3 (recall 1).
    assert stats.auprc([0.9, 0.4, 0.4, 0.1], labels) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    assert stats.iou_at([0.9, 0.4, 0.4, 0.1], labels, 0.4) == pytest.approx(1 / 2)
    assert stats.iou_at([0.9, 0.4, 0.4, 0.1], labels, 0.3) == pytest.approx(2 / 3)
    assert math.isnan(stats.iou_at([0.0, 0.0], [False, False], 0.5))


@settings(max_examples=200)
@given(labelled, st.sampled_from([-math.inf, 0.0, 1.0, 99.0]))
def test_best_iou_against_all_thresholds(sample: tuple[np.ndarray, np.ndarray, np.ndarray], floor: float) -> None:
    scores, labels, weights = sample
    value, threshold = stats.best_iou(scores, labels, weights, floor)
    if not weights[labels].sum():
        assert math.isnan(value)
        return
    candidates = [tau for tau in (*np.arange(-0.25, 3.0, 0.5), floor) if tau >= floor and np.isfinite(tau)] or [floor]
    assert value == pytest.approx(max(stats.iou_at(scores, labels, tau, weights) for tau in candidates))
    assert stats.iou_at(scores, labels, threshold, weights) == pytest.approx(value)
    assert threshold >= floor


def test_a_zero_cost_marks_nothing() -> None:
    labels = np.array([True, False, False, False])
    assert stats.best_iou(np.zeros(4), labels)[0] == 0.25
    assert stats.best_iou(np.zeros(4), labels, floor=0.0) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.mean_interval([]), "empty"),
        (lambda: stats.mean_interval([1.0, math.nan]), "NaN"),
        (lambda: stats.mean_interval([1.0], confidence=95), "confidence"),
        (lambda: stats.bootstrap_interval(np.ones((2, 2, 2)), rng=np.random.default_rng()), "shape"),
        (lambda: stats.bootstrap_interval([1.0, 2.0], rng=np.random.default_rng(), resamples=0), "resamples"),
        (lambda: stats.probability_of_improvement(np.ones((2, 2)), np.ones((2, 3))), "same tasks"),
        (lambda: stats.clopper_pearson(3, 2), "3 of 2"),
        (lambda: stats.clopper_pearson(0, 0), "trials"),
        (lambda: stats.auroc([1.0, 2.0], [0, 1]), "booleans"),
        (lambda: stats.auroc([1.0, 2.0], [True]), "match"),
        (lambda: stats.auroc([1.0, 2.0], [True, False], [1.0, -1.0]), "negative"),
    ],
)
def test_bad_input_is_explained(call, message: str) -> None:
    with pytest.raises(UserError, match=message):
        call()
