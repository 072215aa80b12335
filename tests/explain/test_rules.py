"""Rules read off costs: planted rules are found again, what is not known is said, cells become rectangles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.cost.bounds import beside
from tacit.explain import rules, words
from tacit.explain.cells import Rectangle, cell_list, cover
from tacit.explain.rules import Bound, Clause, Rule, Sample
from tacit.explain.search import fit

COLUMNS = {"a": 0, "b": 1, "c": 2}


def sample(expert, nominal, learner=None) -> Sample:
    limits = np.stack([expert.min(axis=0), expert.max(axis=0)])
    return Sample(expert, limits, nominal, nominal[:10] if learner is None else learner)


def planted(seed: int = 0, n: int = 4000):
    """The agent goes anywhere in a cube; demonstrations keep to a > 0."""
    rng = np.random.default_rng(seed)
    nominal = rng.uniform(-4, 4, (n, 3))
    expert = rng.uniform(-4, 4, (n, 3))
    return sample(expert[expert[:, 0] > 0], nominal)


def test_one_bound():
    data = planted()
    rule = fit(data.tried[:, 0] < -1.0, data, COLUMNS)
    ((bound,),) = [clause.bounds for clause in rule.clauses]
    assert (bound.feature, bound.relation) == ("a", "<")
    assert bound.value == pytest.approx(-1.0, abs=0.1)
    assert bound.demonstrated == pytest.approx(0.0, abs=0.05)
    # A tenth of what the agent does below 0 lies below -3.6.
    assert bound.certain == pytest.approx(-3.6, abs=0.1)
    assert bound.open_band == (bound.certain, bound.demonstrated)
    held = rule.holds(data.tried, COLUMNS)
    assert rules.agreement(held, data.tried[:, 0] < -1.0)["agreement"] > 0.98


def test_two_bounds_and_an_order():
    rng = np.random.default_rng(1)
    nominal, expert = rng.uniform(-4, 4, (6000, 3)), rng.uniform(-2, 2, (4000, 3))
    data = sample(expert, nominal)
    forbidden = (data.tried[:, 1] > 2.5) | (data.tried[:, 2] < -3.5)
    rule = fit(forbidden, data, COLUMNS)
    assert [(b.feature, b.relation) for c in rule.clauses for b in c.bounds] == [("b", ">"), ("c", "<")]
    assert rule.clauses[0].share > rule.clauses[1].share > 0.1
    assert sum(clause.share for clause in rule.clauses) == pytest.approx(1.0, abs=0.05)


def test_a_hairs_breadth_comes_last():
    """A car at exactly its top speed, which demonstrators miss by a thousandth, and a zone that they avoid."""
    rng = np.random.default_rng(5)
    expert, nominal = rng.uniform(0, 1.999, (4000, 3)), rng.uniform(0, 2, (4000, 3))
    nominal[:2000, 1] = 2.0
    zone = lambda rows: (rows[:, 0] > 0.5) & (rows[:, 0] < 1.0) & (rows[:, 2] > 1.0)  # noqa: E731
    data = sample(expert[~zone(expert)], nominal)
    rule = fit((data.tried[:, 1] > 1.9995) | zone(data.tried), data, COLUMNS)
    first, *_, last = rule.clauses
    assert set(first.features) == {"a", "c"}
    assert not first.thin
    assert last.features == ("b",)
    assert last.thin
    assert last.share > first.share
    clauses = {"clauses": rule.to_json(), "also": [], "instead": []}
    lines = words._clause_lines(clauses)
    assert f"    {words.THIN}" == lines[-1]
    reached = float(lines[-2].rsplit(" ", 1)[1].rstrip("."))
    assert reached < last.bounds[0].value  # and not '2', which the rule would forbid
    assert [line for line in lines if line.startswith("    a: where the rest holds, the demonstrations ")]


@pytest.mark.parametrize(
    ("value", "other", "text"),
    [(1.99787, 1.998, "1.9979"), (1.234, 2.0, "1.23"), (0.5, 0.5, "0.5"), (-2.0004, -2, "-2.0004")],
)
def test_numbers_stay_on_their_side(value, other, text):
    assert beside(value, other) == text


def test_a_corner_needs_a_conjunction():
    rng = np.random.default_rng(2)
    everywhere = rng.uniform(-4, 4, (8000, 3))
    corner = (everywhere[:, 0] > 1) & (everywhere[:, 2] < 0)
    data = sample(everywhere[~corner], everywhere)
    rule = fit((data.tried[:, 0] > 1) & (data.tried[:, 2] < 0), data, COLUMNS)
    (clause,) = rule.clauses
    assert {(b.feature, b.relation) for b in clause.bounds} == {("a", ">"), ("c", "<")}
    truth = (data.tried[:, 0] > 1) & (data.tried[:, 2] < 0)
    assert rules.agreement(rule.holds(data.tried, COLUMNS), truth)["precision"] > 0.95
    # Where the other bound holds, demonstrations go up to the corner's edge.
    demonstrated = {b.feature: b.demonstrated for b in clause.bounds}
    assert demonstrated["a"] == pytest.approx(1.0, abs=0.6)
    assert " and " in str(rule)


def test_no_bound_rejects_what_is_demonstrated():
    """The cost may forbid what demonstrations do; the rule does not."""
    data = planted(3)
    rule = fit(data.tried[:, 0] < 2.0, data, COLUMNS)
    assert rule.holds(data.expert, COLUMNS).mean() <= 0.004


def test_nothing_forbidden_gives_an_empty_rule():
    data = planted(4)
    rule = fit(np.zeros(len(data.tried), dtype=bool), data, COLUMNS)
    assert rule.clauses == ()
    assert not rule.holds(data.tried, COLUMNS).any()
    assert str(rule) == "nothing is forbidden"


def test_noise_gives_no_long_rule():
    data = planted(5)
    forbidden = np.random.default_rng(0).random(len(data.tried)) < 0.05
    assert len(fit(forbidden, data, COLUMNS).clauses) == 0


def test_words():
    rule = Rule((Clause((Bound("x", "<", -2.41),)), Clause((Bound("y", ">", 3.0), Bound("z", "<", 0.1234)))))
    assert str(rule) == "x < -2.41 or (y > 3 and z < 0.1234)"
    assert Bound("x", "<", -1.0, demonstrated=-1.0, certain=-1.0).open_band is None
    assert Bound("x", "<", -1.0).open_band is None
    assert Bound("x", ">", 2.0, demonstrated=1.0).open_band == (1.0, 2.0)
    # The bound forbids some of what is demonstrated: not known is only what lies beyond all demonstrations.
    assert Bound("x", ">", 2.0, demonstrated=2.5, certain=3.0).open_band == (2.5, 3.0)
    assert Bound("x", ">", 2.0, demonstrated=2.5).open_band is None


def test_agreement_by_hand():
    held, target = np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool)
    assert rules.agreement(held, target) == {"agreement": 0.5, "precision": 0.5, "recall": 0.5, "n": 4}
    nothing = rules.agreement(np.zeros(2, bool), np.zeros(2, bool))
    assert nothing["agreement"] == 1.0
    assert np.isnan(nothing["precision"])
    assert np.isnan(nothing["recall"])


# ---------------------------------------------------------------------------------------------------------------------
# Cells


def cells_of(shape) -> np.ndarray:
    return np.argwhere(np.ones(shape, bool))


def test_an_l_is_two_rectangles():
    grid = np.zeros((5, 5), bool)
    grid[1:5, 1] = grid[4, 1:4] = True
    cells = cells_of(grid.shape)
    assert cover(cells, grid.ravel()) == [Rectangle(1, 4, 1, 1), Rectangle(4, 4, 2, 3)]
    assert cell_list(cells, grid.ravel()) == "rows 1 to 4, column 1; row 4, columns 2 to 3"
    assert cell_list(cells, np.zeros(25, bool)) == "no cell"
    single = np.zeros(25, bool)
    single[7] = True
    assert cell_list(cells, single) == "cell (1, 2)"


def test_walls_may_be_inside():
    cells = np.array([(0, c) for c in (0, 1, 3, 4)])  # (0, 2) is a wall
    assert cover(cells, np.ones(4, bool)) == [Rectangle(0, 0, 0, 4)]


@given(st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_cover_is_exact(marks):
    cells, marked = cells_of((3, 4)), np.array(marks)
    covered = np.zeros(12, bool)
    for rectangle in cover(cells, marked, most=12):
        inside = rectangle.contains(cells)
        assert (marked[inside]).all()
        covered |= inside
    np.testing.assert_array_equal(covered, marked)


def test_too_many_cells_are_counted():
    board = (np.indices((6, 6)).sum(axis=0) % 2 == 0).ravel()
    words = cell_list(cells_of((6, 6)), board, most=4)
    assert words.endswith("; and 14 more cells")
