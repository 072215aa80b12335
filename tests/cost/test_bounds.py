"""Bounds on features: what they forbid, how they are written, and the two shapes in which files hold them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.cost.bounds import BOUNDARY, CLAUSE, Bound
from tacit.errors import UserError


@pytest.mark.parametrize(
    ("relation", "forbidden", "below"),
    [("<", [1, 0, 0], True), ("<=", [1, 1, 0], True), (">", [0, 0, 1], False), (">=", [0, 1, 1], False)],
)
def test_the_forbidden_side(relation: str, forbidden: list[int], below: bool) -> None:
    bound = Bound("x", relation, 2.0)
    assert bound.holds(np.array([1.0, 2.0, 3.0])).tolist() == [bool(one) for one in forbidden]
    assert bound.holds(np.zeros((4, 3), np.float32)).shape == (4, 3)
    assert bound.below is below
    assert bound.side == ("x", below)


def test_text() -> None:
    bound = Bound("x position", ">", 0.123456)
    assert str(bound) == "x position > 0.1235"
    assert f"{bound:.3g}" == "x position > 0.123"
    assert f"{bound:g}" == "x position > 0.123456"
    assert Bound.parse("x position > 0.5") == Bound("x position", ">", 0.5)
    for text in (None, "", "x > y", "x ~ 1", "x >", {"a": 1}):
        assert Bound.parse(text) is None
    with pytest.raises(UserError, match="one of <, <=, >, >=, not '='"):
        Bound("x", "=", 1.0)


@pytest.mark.parametrize("entries", [BOUNDARY, CLAUSE])
def test_files(entries: tuple[str, ...]) -> None:
    bound = Bound("x", "<", -1.0, demonstrated=-0.5, certain=-3.0, low=-1.2, high=-0.9, share=0.25)
    stored = bound.to_json(entries)
    assert list(stored) == list(entries)
    assert Bound.from_json(stored).to_json(entries) == stored
    assert Bound.from_json({"feature": "x", "relation": "<", "value": -1, "share": math.nan}) == Bound("x", "<", -1.0)
    with pytest.raises(KeyError):
        Bound.from_json({"feature": "x", "value": 1.0})
