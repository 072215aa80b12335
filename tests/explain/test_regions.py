"""Rules that are regions: planted shapes come back in words, with high precision and recall on fresh states."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tacit.errors import UserError
from tacit.explain import rules
from tacit.explain.regions import Distance, Product, Sum, region_from_json
from tacit.explain.rules import Clause, Rule, Sample
from tacit.explain.search import fit, parts
from tacit.explain.weights import best_interval

NAMES = ("x", "y", "v", "w")
COLUMNS = {name: i for i, name in enumerate(NAMES)}


@dataclass
class Planted:
    """A cost of 1 where `truth` of the unscaled features holds."""

    truth: Any
    scale: float = 1.0

    def of_rows(self, rows):
        return self.truth(*(rows.T.astype(np.float64) / self.scale)).astype(float)


def disc(x, y, v, w):
    return np.hypot(x - 0.5, y + 0.25) < 1


def two_discs(x, y, v, w):
    return (np.hypot(x + 1.2, y + 1.2) < 0.8) | (np.hypot(x - 1.2, y - 1.0) < 0.9)


def ellipse(x, y, v, w):
    return np.hypot((x - 0.5) / 2, y / 0.7) < 1


def ring(x, y, v, w):
    return (np.hypot(x, y) > 1) & (np.hypot(x, y) < 2)


def far(x, y, v, w):
    return np.hypot(x, y) > 2.5


def ell(x, y, v, w):
    return ((x > -1) & (x < 0) & (y > -1) & (y < 2)) | ((x > -1) & (x < 2) & (y > -1) & (y < 0))


def slow_zone(x, y, v, w):
    return (x > 0) & (x < 1.5) & (v > 0.5)


def slow_room(x, y, v, w):
    return (x > 0) & (x < 2) & (y > -1) & (y < 1) & (v > 0.5)


def half_plane(x, y, v, w):
    return x + 2.1 * y > 3


def band(x, y, v, w):
    return np.abs(x - y) < 0.5


def threshold(x, y, v, w):
    return v > 1.25


def conditional(x, y, v, w):
    return np.where(x < 0, v > 1, v > 2)


def two_limits(x, y, v, w):
    """Two bounds are shorter than the outside of an ellipse."""
    return np.abs(v - 0.5) > 1.75


SHAPES = {
    two_limits: "v > 2.",
    disc: "(x, y) within",
    two_discs: "(x, y) within",
    ellipse: "(x, y) inside the ellipse around",
    ring: "(x, y) between",
    far: "(x, y) more than",
    ell: "< x < ",
    slow_zone: "v > 0.",
    slow_room: "v > 0.",
    half_plane: "x + ",
    band: "< x - ",
    threshold: "v > 1.",
    conditional: "v > ",
}


def sample_of(truth, seed=0, n=6000, scale=1.0, width=4) -> Sample:
    rng = np.random.default_rng(seed)
    tried = rng.uniform(-3, 3, (n, width))
    expert = rng.uniform(-3, 3, (n // 2, width))
    expert = expert[~truth(*expert.T[:4])]
    tried, expert = ((rows * scale).astype(np.float32) for rows in (tried, expert))
    return Sample(expert, np.stack([expert.min(axis=0), expert.max(axis=0)]), tried, tried[:10], history=tried[:0])


def learned(truth, scale=1.0, **how) -> tuple[Rule, rules.Agreement]:
    """The rule, and its agreement with the truth on fresh states."""
    sample = sample_of(truth, scale=scale, **how)
    cost = Planted(truth, scale)
    rule = fit(cost.of_rows(sample.tried) > 0.5, sample, COLUMNS, cost)
    fresh = sample_of(truth, seed=99, n=20_000, scale=scale).tried
    return rule, rules.agreement(rule.holds(fresh, COLUMNS), cost.of_rows(fresh) > 0.5)


@pytest.mark.parametrize("truth", SHAPES, ids=lambda truth: truth.__name__)
def test_a_planted_shape_is_said(truth):
    rule, quality = learned(truth)
    assert SHAPES[truth] in str(rule), str(rule)
    assert quality["precision"] >= 0.95, str(rule)
    assert quality["recall"] >= 0.95, str(rule)
    assert len(rule.clauses) <= 2, str(rule)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
@pytest.mark.parametrize("truth", [disc, slow_zone, half_plane], ids=lambda truth: truth.__name__)
def test_the_scale_does_not_matter(truth, scale):
    rule, quality = learned(truth, scale)
    assert min(quality["precision"], quality["recall"]) >= 0.95, str(rule)
    assert all(len(word) <= 12 for word in str(rule).split()), str(rule)


def product(x, y, v, w):
    """Like Ca (T - 300) > 30 of a reactor, with both factors positive."""
    return (x + 3.5) * (y + 3.2) > 16


def test_a_product_is_said_by_few_half_planes():
    rule, quality = learned(product)
    assert min(quality["precision"], quality["recall"]) >= 0.95, str(rule)
    assert len(rule.clauses) <= 3


def test_the_reactor_has_its_own_units():
    """Ca (T - 300) > 30: nobody has Ca < 0 or T < 300, and the features differ in scale."""
    rng = np.random.default_rng(0)
    rows = np.stack([rng.uniform(0.2, 1.0, 8000), rng.uniform(320, 380, 8000), rng.uniform(0, 1, 8000)], axis=1)
    truth = rows[:, 0] * (rows[:, 1] - 300) > 30
    expert = rows[4000:][~truth[4000:]]
    sample = Sample(expert, np.stack([expert.min(axis=0), expert.max(axis=0)]), rows[:4000], rows[:1], rows[:0])
    columns = {"Ca": 0, "T": 1, "Tc": 2}
    rule = fit(truth[:4000], sample, columns)
    quality = rules.agreement(rule.holds(rows, columns), truth)
    assert min(quality["precision"], quality["recall"]) >= 0.95, str(rule)
    assert str(rule).startswith("Ca (T - "), str(rule)


def test_a_soft_edge_does_not_split_a_disc():
    """A learned cost is not sharp: the share of rejected states falls from 1 to 0 over a third of the radius."""
    sample = sample_of(disc, n=8000)
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.12, len(sample.tried))
    rejected = np.hypot(sample.tried[:, 0] - 0.5, sample.tried[:, 1] + 0.25) + noise < 1
    rule = fit(rejected, sample, COLUMNS)
    (clause,) = rule.clauses
    (region,) = clause.regions
    assert isinstance(region, Distance)
    assert region.centre == pytest.approx((0.5, -0.25), abs=0.1)
    assert region.high == pytest.approx(1.0, abs=0.1)


def test_many_rows_and_features_take_seconds():
    rng = np.random.default_rng(3)
    tried, expert = rng.uniform(-3, 3, (20_000, 20)), rng.uniform(-3, 3, (4000, 20))
    columns = {f"f{i}": i for i in range(20)}

    def truth(rows):
        return two_discs(*rows[:, [7, 12, 0, 1]].T)

    @dataclass
    class Cost:
        def of_rows(self, rows):
            return truth(rows).astype(float)

    expert = expert[~truth(expert)]
    sample = Sample(expert, np.stack([expert.min(axis=0), expert.max(axis=0)]), tried, tried[:10], tried[:0])
    for cost in (Cost(), None):  # without the cost, the features are screened by the states alone
        start = time.perf_counter()
        rule = fit(truth(tried), sample, columns, cost)
        assert time.perf_counter() - start < 30
        quality = rules.agreement(rule.holds(tried, columns), truth(tried))
        assert min(quality["precision"], quality["recall"]) >= 0.95, str(rule)
        assert {name for clause in rule.clauses for name in clause.features} == {"f7", "f12"}


def test_named_pairs_of_the_cost_come_first():
    """The rule is about the pair that the cost names, although another one is correlated with it."""
    rng = np.random.default_rng(4)
    tried, expert = (rng.uniform(-3, 3, (4000, 4)) for _ in range(2))
    for rows in (tried, expert):
        rows[:, 2:] = rows[:, :2]  # v and w are copies of x and y

    @dataclass
    class Pair:
        names: tuple[str, ...] = ("v", "w")

        def of_rows(self, rows):
            return (np.hypot(rows[:, 2], rows[:, 3]) < 1).astype(float)

    @dataclass
    class Cost(Pair):
        terms: tuple[Pair, ...] = (Pair(),)

    cost = Cost()
    expert = expert[cost.of_rows(expert) < 0.5]
    sample = Sample(expert, np.stack([expert.min(axis=0), expert.max(axis=0)]), tried, tried[:10], tried[:0])
    assert str(fit(cost.of_rows(tried) > 0.5, sample, COLUMNS, cost)).startswith("(v, w) within")


def test_discrete_and_constant_inputs():
    rng = np.random.default_rng(5)
    tried = np.stack([rng.integers(0, 6, 4000), rng.integers(0, 4, 4000), np.full(4000, 7), np.zeros(4000)], axis=1)
    rejected = (tried[:, 0] == 3) & (tried[:, 1] >= 2)
    sample = Sample(tried[~rejected], np.stack([tried.min(axis=0), tried.max(axis=0)]), tried, tried[:1], tried[:0])
    rule = fit(rejected, sample, COLUMNS)
    np.testing.assert_array_equal(rule.holds(tried, COLUMNS), rejected)
    assert {name for clause in rule.clauses for name in clause.features} == {"x", "y"}
    constant = np.zeros((100, 4))
    same = Sample(constant, np.zeros((2, 4)), constant, constant[:1], constant[:0])
    assert fit(np.ones(100, dtype=bool), same, COLUMNS).clauses == ()


def test_nothing_and_everything_rejected():
    sample = sample_of(disc, n=1000)
    assert str(fit(np.zeros(1000, dtype=bool), sample, COLUMNS)) == "nothing is forbidden"
    everything = fit(np.ones(1000, dtype=bool), sample, COLUMNS)
    # The demonstrations go everywhere but into the disc: a rule says at most that.
    assert everything.holds(sample.expert, COLUMNS).mean() < 0.01
    apart = Sample(sample.expert, sample.expert_range, sample.tried + 10, sample.tried[:1], sample.tried[:0])
    rule = fit(np.ones(1000, dtype=bool), apart, COLUMNS)
    assert rule.holds(apart.tried, COLUMNS).all()
    assert not rule.holds(apart.expert, COLUMNS).any()
    expert = sample.tried
    alike = Sample(expert, np.stack([expert.min(axis=0), expert.max(axis=0)]), sample.tried, expert[:1], expert[:0])
    assert str(fit(np.ones(1000, dtype=bool), alike, COLUMNS)) == "no short rule says what the cost forbids"


def test_one_rejected_state_makes_no_rule_that_forbids_much():
    sample = sample_of(disc, n=1000)
    one = np.zeros(1000, dtype=bool)
    one[17] = True
    assert fit(one, sample, COLUMNS).holds(sample.tried, COLUMNS).mean() < 0.01


def test_the_same_data_give_the_same_rule():
    assert [str(learned(ell)[0]) for _ in range(2)] == [str(learned(ell)[0])] * 2


def test_what_is_said_is_what_is_judged():
    """The rule that is read back from its JSON holds in the same states, and its words have all of its digits."""
    for truth in (disc, ell, half_plane, slow_zone, product):
        rule, _ = learned(truth)
        rows = sample_of(truth, seed=5).tried
        again = Rule(tuple(Clause.from_json(entry) for entry in rule.to_json()))
        np.testing.assert_array_equal(again.holds(rows, COLUMNS), rule.holds(rows, COLUMNS))
        assert str(again) == str(rule)
        assert all(f"{bound.value:.10g}" in str(rule) for bound in rule.bounds)


def test_how_far_the_demonstrations_go():
    rule, _ = learned(disc)
    (region,) = rule.clauses[0].regions
    assert region.demonstrated[0] is None
    assert region.demonstrated[1] == pytest.approx(1.0, abs=0.03)
    rule, _ = learned(slow_zone)
    assert {(b.feature, b.relation): round(b.demonstrated, 1) for b in rule.bounds} == {
        ("v", ">"): 0.5,
        ("x", ">"): 0.0,
        ("x", "<"): 1.5,
    }


def test_best_interval_by_hand():
    values, weights = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([-1.0, 1.0, 1.0, -1.0, -1.0])
    assert best_interval(values, weights) == (pytest.approx(2 - 0.02), 1.5, 3.5)
    assert best_interval(values, -weights)[1:] == (3.5, None)
    assert best_interval(values, np.ones(5)) == (5.0, None, None)
    assert best_interval(np.ones(5), weights)[1:] == (None, None)
    assert best_interval(np.zeros(0), np.zeros(0)) == (0.0, None, None)


def test_parts_are_blocks():
    part = parts(4000)
    assert [int((part == i).sum()) for i in range(4)] == [1000] * 4
    assert (np.diff(part) != 0).sum() == 39
    assert set(parts(3)) <= {0, 1, 2, 3}


def test_words_of_regions():
    pair = ("x", "y")
    assert str(Distance(pair, high=1.02, centre=(0.01, -0.03))) == "(x, y) within 1.02 of (0.01, -0.03)"
    assert str(Distance(pair, low=2.0)) == "(x, y) more than 2 from (0, 0)"
    assert str(Distance(pair, 1.0, 2.0)) == "(x, y) between 1 and 2 from (0, 0)"
    ellipse = Distance(pair, high=2.0, centre=(1.0, 3.0), ratio=0.25)
    assert str(ellipse) == "(x, y) inside the ellipse around (1, 3) with half-axes 2 and 0.5"
    assert str(Sum(pair, low=3.0, weight=2.1)) == "x + 2.1 y > 3"
    assert str(Sum(pair, low=-1.0, high=1.5, weight=-1.0)) == "-1 < x - y < 1.5"
    assert str(Product(pair, low=30.0, offsets=(0.0, 300.0))) == "x (y - 300) > 30"
    for region in (ellipse, Sum(pair, low=3.0, weight=2.1), Product(pair, high=1.0, demonstrated=(None, 2.0))):
        assert region_from_json(region.to_json()) == region
    with pytest.raises(UserError, match="shape"):
        region_from_json({**ellipse.to_json(), "shape": "star"})
