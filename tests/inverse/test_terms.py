"""The convex inverse step: against an independent solver, on probes with known answers, and on odd inputs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

from tacit.cost.terms import Term
from tacit.inverse import screen, terms
from tacit.inverse.terms import Fitted, Problem, Samples


def samples_of(expert, learner, trajectories=20):
    lengths = np.full(trajectories, len(expert) // trajectories)
    expert = expert[: lengths.sum()]
    weight = np.full(len(learner), 1.0 / len(learner))
    return Samples(expert, screen.folds_of(lengths), learner, weight, 2.0, 0.1)


def avoiding(rng, inside, n=4000, columns=4):
    """Demonstrations that are uniform outside of a set, and a learner that is uniform everywhere."""
    x = rng.uniform(-3, 3, size=(4 * n, columns))
    return x[~inside(x)][:n], rng.uniform(-3, 3, size=(n, columns))


def in_disc(x):
    return np.hypot(x[:, 0], x[:, 2]) < 1.2


def in_zone(x):
    return (np.abs(x[:, 1]) < 1) & (x[:, 3] > 0.5)


def beyond(x):
    return x[:, 2] > 1.5


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_the_minimum_is_that_of_another_solver(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(12, 8))
    square, linear = root.T @ root / 12 + 0.05 * np.eye(8), rng.normal(size=8)
    ours = terms.minimise(sparse.csr_matrix(square), linear, None, 5000)
    theirs = minimize(
        lambda x: linear @ x + x @ square @ x,
        np.ones(8),
        jac=lambda x: linear + 2 * square @ x,
        bounds=[(0, None)] * 8,
        method="L-BFGS-B",
        options={"ftol": 1e-14, "gtol": 1e-10},
    )
    assert (ours >= 0).all()
    assert linear @ ours + ours @ square @ ours == pytest.approx(theirs.fun, abs=1e-6)


def test_hat_functions_sum_to_one_and_agree_with_the_saved_term():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 3)).astype(np.float32)
    knots = (np.sort(rng.normal(size=7)).astype(np.float32), np.sort(rng.normal(size=5)).astype(np.float32))
    values = rng.random((7, 5)).astype(np.float32)
    phi = terms.design((2, 0), knots, x.astype(np.float64))
    assert np.allclose(phi.sum(axis=1), 1.0)
    term = Term(("c", "a"), (2, 0), knots, values)
    assert np.allclose(term.of_rows(x), phi @ values.ravel(), atol=1e-4)


def test_where_no_demonstration_goes_the_cost_nears_the_ceiling():
    """Two cells, one of them without demonstrations: (3) of `mce` says 1 / (2 learner_square) there and 0 here."""
    samples = samples_of(np.zeros((100, 1)), np.repeat([[0.0], [1.0]], 50, axis=0))
    lam = Problem(samples, [((0,), (np.array([0.0, 1.0]),))]).solve(1e-6, most=2000)
    assert lam[0] == pytest.approx(0.0, abs=1e-3)
    assert lam[1] == pytest.approx(5.0, rel=1e-2)


@pytest.mark.parametrize(("inside", "inputs"), [(in_disc, (0, 2)), (in_zone, (1, 3)), (beyond, (2,))])
def test_the_right_inputs_are_found(inside, inputs):
    rng = np.random.default_rng(1)
    expert, learner = avoiding(rng, inside)
    fitted = terms.search(samples_of(expert, learner), Fitted())
    assert [table.inputs for table in fitted.tables] == [inputs]
    # The share of the learner's steps where no demonstrator goes, and the threshold that tells them apart.
    assert fitted.share == pytest.approx(inside(learner).mean(), rel=0.35)
    fresh, _ = avoiding(np.random.default_rng(2), inside)
    names = ["a", "b", "c", "d"]
    cost = fitted.tables[0].named(names, range(4))
    forbidden = cost.of_rows(rng.uniform(-3, 3, size=(4000, 4)))
    assert (cost.of_rows(fresh) > fitted.threshold).mean() < 0.03
    assert (cost.of_rows(learner[inside(learner)]) > fitted.threshold).mean() > 0.85
    assert forbidden.min() >= 0


def test_nothing_is_found_where_nothing_is_avoided():
    rng = np.random.default_rng(3)
    fitted = terms.search(samples_of(rng.normal(size=(3000, 4)), rng.normal(size=(3000, 4))), Fitted())
    assert not fitted.tables
    assert fitted.share == 0


def test_a_term_that_explains_nothing_is_dropped():
    rng = np.random.default_rng(4)
    expert, learner = avoiding(rng, beyond)
    samples = samples_of(expert, learner)
    useless = Problem(samples, [((0, 1), tuple(np.linspace(-3, 3, 5) for _ in range(2)))]).tables_of(np.zeros(25))
    fitted = terms.search(samples, Fitted(useless))
    assert [table.inputs for table in fitted.tables] == [(2,)]


def test_refitting_keeps_terms_and_knots():
    rng = np.random.default_rng(5)
    expert, learner = avoiding(rng, in_disc)
    samples = samples_of(expert, learner)
    fitted = terms.search(samples, Fitted())
    again = terms.refit(samples, fitted)
    assert [table.inputs for table in again.tables] == [table.inputs for table in fitted.tables]
    assert np.abs(again.tables[0].values - fitted.tables[0].values).max() < 0.2
    assert terms.refit(samples, Fitted()).tables == ()


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_scales_constants_copies_and_whole_numbers(scale):
    rng = np.random.default_rng(6)
    expert, learner = avoiding(rng, beyond)
    for x in (expert, learner):
        x[:, 0] = 7.0  # constant
        x[:, 3] = rng.integers(0, 3, len(x))
        x[:, 2] *= scale
    expert, learner = (np.column_stack([x, x[:, 1]]) for x in (expert, learner))  # column 1 twice
    fitted = terms.search(samples_of(expert, learner), Fitted())
    assert [table.inputs for table in fitted.tables] == [(2,)]


@pytest.mark.parametrize("lengths", [[1], [3], [1, 1], [50, 2, 1]])
def test_few_or_short_demonstrations(lengths):
    folds = screen.folds_of(np.array(lengths))
    assert len(folds) == sum(lengths)
    assert set(folds) == set(range(int(folds.max()) + 1))
    rng = np.random.default_rng(7)
    learner = rng.normal(size=(300, 2))
    samples = Samples(rng.normal(size=(sum(lengths), 2)), folds, learner, np.full(300, 1 / 300), 2.0, 0.1)
    fitted = terms.search(samples, Fitted())
    assert all(np.isfinite(table.values).all() and (table.values >= 0).all() for table in fitted.tables)


# -- a term by itself --------------------------------------------------------------------------------------------------


def crossing(rng, n=3000):
    """Demonstrators avoid a disc in (0, 1). Agents cross it, and column 2 tells them apart, too: their style."""
    expert, agents = avoiding(rng, lambda x: np.hypot(x[:, 0], x[:, 1]) < 1.2, n)
    agents[: n // 2, :2] = rng.uniform(-0.8, 0.8, size=(n // 2, 2))
    agents[:, 2] = np.where(rng.random(n) < 0.6, rng.uniform(3.2, 4.0, n), agents[:, 2])
    beginners = rng.uniform(-3, 3, size=(n, 4))
    return expert, agents, beginners


def test_a_search_keeps_what_is_needed_and_leaves_out_what_is_laid_aside():
    rng = np.random.default_rng(0)
    expert, agents, beginners = crossing(rng)
    samples = replace(samples_of(expert, agents), beginners=beginners)
    everything = terms.search(samples, Fitted())
    assert (0, 1) in [table.inputs for table in everything.tables]
    needed = terms.search(samples, everything, needed=[(0, 1), (2, 3)])
    inputs = [table.inputs for table in needed.tables]
    assert {(0, 1), (2, 3)} <= set(inputs)
    assert len(inputs) == len(set(inputs)), "no term stands twice"
    without = terms.search(samples, everything, without=[(0, 1)])
    assert (0, 1) not in [table.inputs for table in without.tables]


def test_what_beginners_do_more_than_competent_agents_is_not_drawn():
    rng = np.random.default_rng(1)
    expert, agents, beginners = crossing(rng)
    clumsy = beginners.copy()
    clumsy[:, 3] = rng.uniform(3.5, 4.5, len(clumsy))  # all beginners, and a tenth of the agents
    agents[: len(agents) // 10, 3] = rng.uniform(3.5, 4.5, len(agents) // 10)
    samples = replace(samples_of(expert, agents), beginners=clumsy)
    assert terms.Single(samples, (3,)).drawn < 0.3
    assert terms.Single(samples, (0, 1)).drawn > 1.5
    assert terms.Single(replace(samples, beginners=None), (3,)).drawn == 1.0


def test_a_term_that_demonstrators_pay_for_may_not_be_added():
    rng = np.random.default_rng(4)
    expert, agents, _ = crossing(rng)
    samples = samples_of(expert, agents)
    assert terms.Single(samples, (0, 1)).may_be_added
    assert terms.Single(samples, (0, 1)).paid < 0.3
    assert terms.Single(samples, (3,)).paid > 0.5, "both are everywhere"
    assert not terms.Single(samples, (3,)).may_be_added


def test_a_superfluous_term_does_not_weaken_another():
    samples = samples_of(*crossing(np.random.default_rng(5))[:2])
    tables = [terms.new_table(samples, inputs) for inputs in ((0, 1), (2,))]
    both, alone = (Problem(samples, chosen).fit(0.3, most=600)[1].tables[0] for chosen in (tables, tables[:1]))
    assert alone.values.max() > 1.0
    np.testing.assert_allclose(both.values, alone.values, atol=0.02)


def test_at_most_one_held_out_step_in_twenty_is_above_the_threshold():
    rng = np.random.default_rng(2)
    for inside in (in_disc, in_zone, beyond):
        samples = samples_of(*avoiding(rng, inside))
        problem = Problem(samples, [terms.new_table(samples, (0, 2))])
        _, fitted, held_out = problem.fit(0.3)
        assert (held_out > fitted.threshold).mean() <= 0.05
