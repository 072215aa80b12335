"""A margin: what a cost forbids reaches out further, never less than asked for, and not much more."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.cost import Inputs, LearnedCost
from tacit.cost.terms import Term
from tacit.errors import UserError
from tacit.forward import retrain


def random_term(rng: np.random.Generator, inputs: int) -> Term:
    knots = tuple(np.sort(rng.choice(1000, 6, replace=False)).astype(np.float32) / 100 for _ in range(inputs))
    values = rng.uniform(0.0, 5.0, (6,) * inputs).astype(np.float32)
    return Term(("v", "w")[:inputs], tuple(range(inputs)), knots, values)


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_no_cost_within_reach_is_larger(inputs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    term, margins = random_term(rng, inputs), {"v": 0.3, "w": 0.7}
    wide = term.widened(margins)
    x = rng.uniform(-1.0, 11.0, (400, inputs)).astype(np.float32)
    near = np.array(list(margins.values()))[:inputs] * rng.uniform(-0.999, 0.999, (400, 50, inputs))
    reached = term.of_rows((x[:, None] + near).reshape(-1, inputs)).reshape(400, 50).max(axis=1)
    assert (wide.of_rows(x) >= reached - 1e-3).all()
    assert wide.highest == pytest.approx(term.highest)
    assert (wide.of_rows(x) > term.of_rows(x) + 0.1).any()


def test_an_edge_moves_by_the_margin_and_no_further() -> None:
    term = Term(("v",), (0,), (np.array([0.0, 1.0, 1.01, 2.0], np.float32),), np.array([0, 0, 5, 5], np.float32))
    wide = term.widened({"v": 0.25})
    rows = np.array([[0.74], [0.77], [0.9], [1.5]], np.float32)
    np.testing.assert_allclose(wide.of_rows(rows), [0.0, 5.0, 5.0, 5.0], atol=0.01)
    assert term.of_rows(rows)[2] == 0.0
    assert term.widened({"other": 1.0}).of_rows(rows)[2] == 0.0


def cost_of(*terms: Term) -> LearnedCost:
    none = np.zeros((2, 0), np.float32)
    inputs = Inputs(("v", "w"), (0, 1), 2, 0, np.zeros(2, np.float32), np.ones(2, np.float32), squash=False)
    return LearnedCost(inputs, np.zeros(0, np.float32), none, none, terms=terms, threshold=0.5)


def test_a_cost_with_a_margin_is_saved_and_says_so() -> None:
    cost = cost_of(random_term(np.random.default_rng(0), 2))
    wide = cost.with_margin({"v": 0.2})
    again = LearnedCost.from_arrays(*wide.to_arrays())
    rows = np.random.default_rng(1).uniform(0, 10, (100, 2)).astype(np.float32)
    np.testing.assert_array_equal(again.of_rows(rows), wide.of_rows(rows))
    assert again.card["margin"] == {"v": 0.2}
    assert retrain.with_margin(cost, "v=0.2").of_rows(rows).tolist() == wide.of_rows(rows).tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("margin", "message"),
    [("u=0.1", "there is no margin in 'u': the cost reads v"), ("v=-1", "positive"), ("v", "NAME=VALUE")],
)
def test_a_bad_margin_gets_one_sentence(margin: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        retrain.with_margin(cost_of(random_term(np.random.default_rng(0), 1)), margin)
    if margin == "v=-1":
        with pytest.raises(UserError, match="only a cost of terms"):
            cost_of().with_margin({"v": 0.1})
