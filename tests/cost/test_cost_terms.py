"""Costs that are sums of tables: saved, read by name and in parts, exported; damaged files are refused."""

from dataclasses import replace

import numpy as np
import pytest

from tacit.cost import Inputs, LearnedCost
from tacit.cost.terms import Term
from tacit.errors import UserError

NAMES = ("x", "y", "v")


def example(*, threshold=0.5, terms=2):
    rng = np.random.default_rng(0)
    inputs = Inputs(NAMES, (0, 1, 2), 3, 0, np.zeros(3, np.float32), np.ones(3, np.float32))
    none = np.zeros((3, 0), np.float32)
    plane = tuple(np.sort(rng.normal(size=n)).astype(np.float32) for n in (6, 4))
    line = (np.array([-1.0, 0.0, 2.0], np.float32),)
    tables = (
        Term(("x", "y"), (0, 1), plane, rng.random((6, 4)).astype(np.float32)),
        Term(("v",), (2,), line, np.array([0.0, 0.0, 3.0], np.float32)),
    )
    return LearnedCost(inputs, np.zeros(0, np.float32), none, none, terms=tables[:terms], threshold=threshold)


def test_the_cost_is_the_sum_of_its_terms():
    cost = example()
    assert cost([0.0, 0.0, 1.0]) == pytest.approx(cost([0.0, 0.0, 0.0]) + 1.5)
    assert cost([0.0, 0.0, 99.0]) == pytest.approx(cost([0.0, 0.0, 2.0]))  # constant beyond the last knot
    rows = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    assert np.allclose(cost(rows), sum(term.of_rows(rows) for term in cost.terms))


def test_a_saved_cost_is_the_same(tmp_path):
    rows = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    for terms in (0, 2):
        cost = example(terms=terms)
        cost.save(tmp_path / "cost.safetensors")
        loaded = LearnedCost.load(tmp_path / "cost.safetensors")
        assert np.array_equal(loaded(rows), cost(rows))
        assert loaded.threshold == cost.threshold
        assert [term.names for term in loaded.terms] == [term.names for term in cost.terms]
    assert not example(terms=0)(rows).any()


def test_inputs_are_found_by_name_and_parts_by_input():
    cost, rows = example(), np.random.default_rng(2).normal(size=(20, 3)).astype(np.float32)
    moved = cost.of_names(["v", "other", "y", "x"])
    wider = np.stack([rows[:, 2], np.zeros(20), rows[:, 1], rows[:, 0]], axis=1).astype(np.float32)
    assert np.array_equal(moved(wider), cost(rows))
    assert np.array_equal(cost.only(["v"])(rows), cost.terms[1].of_rows(rows))


@pytest.mark.parametrize(
    "damage",
    [
        lambda arrays, card: arrays.update(term0_values=-arrays["term0_values"]),
        lambda arrays, card: arrays.update(term0_values=arrays["term0_values"][:3]),
        lambda arrays, card: arrays.update(term0_knots0=arrays["term0_knots0"][::-1].copy()),
        lambda arrays, card: arrays.update(term1_knots0=np.array([0.0, np.nan, 1.0], np.float32)),
        lambda arrays, card: card.update(terms=[["x", "z"], ["v"]]),
        lambda arrays, card: card.update(terms="x"),
        lambda arrays, card: arrays.pop("term1_values"),
    ],
)
def test_damaged_terms_are_refused(damage):
    arrays, card = example().to_arrays()
    damage(arrays, card)
    with pytest.raises(UserError):
        LearnedCost.from_arrays(arrays, card)


def test_onnx_computes_the_same():
    runtime = pytest.importorskip("onnxruntime")
    from tacit.interop.onnx import cost_graph

    rows = np.random.default_rng(3).normal(scale=2, size=(200, 3)).astype(np.float32)
    for cost in (example(), example(terms=0), replace(example(), threshold=None)):
        session = runtime.InferenceSession(cost_graph(cost).SerializeToString())
        assert np.allclose(session.run(["cost"], {"obs": rows})[0], cost(rows), atol=1e-5)


def test_torch_computes_the_same():
    torch = pytest.importorskip("torch")
    from tacit.interop.torch import CostModule

    rows = np.random.default_rng(3).normal(scale=2, size=(200, 3)).astype(np.float32)
    for cost in (example(), example(terms=0)):
        assert np.allclose(CostModule(cost)(torch.tensor(rows)).detach().numpy(), cost(rows), atol=1e-5)
