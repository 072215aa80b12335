"""Scores on decided cells: which columns a rule reads, what cells count, and a cost that is right by construction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.cost import Inputs, LearnedCost
from tacit.cost.terms import Term
from tacit.demos import Demonstrations
from tacit.reproduce import decided
from tacit.run import Run, storage

LEFT, RIGHT = 0.25, 0.5
"""Agents violate left of the first number. Demonstrations stay right of the second one. Between them nobody goes."""


def test_a_rule_is_about_the_columns_that_change_its_answer() -> None:
    obs = np.random.default_rng(0).uniform(size=(500, 4))
    assert decided.read_by(lambda x: x[:, 1] * x[:, 3] > 0.3, obs) == (1, 3)
    assert decided.read_by(lambda x: np.zeros(len(x), bool), obs) == ()


def _task(tmp_path: Path, rng: np.random.Generator, knots: tuple[float, float]) -> tuple[Run, decided.Yardstick]:
    """A run whose cost falls from 1 to 0 between two knots on a, and its yardstick: a < LEFT is forbidden."""
    none = np.zeros((2, 0), np.float32)
    inputs = Inputs(("a", "b"), (0, 1), 2, 0, np.zeros(2, np.float32), np.ones(2, np.float32), squash=False)
    term = Term(("a",), (0,), (np.array(knots, np.float32),), np.array([1.0, 0.0], np.float32))
    cost = LearnedCost(inputs, np.zeros(0, np.float32), none, none, terms=(term,), threshold=0.5)
    run = Run.start(tmp_path, algo="mce", env="tacit/Nav-v0", env_kwargs={}, seed=0, config={})
    run.save_model("cost", *cost.to_arrays())
    seekers = np.stack([rng.uniform(0.0, LEFT, 20_000), rng.uniform(size=20_000)], axis=1).astype(np.float32)
    arrays = {"nominal": seekers, "nominal_truth": np.ones(len(seekers), np.float32)}
    storage.save_arrays(run.path / "samples.safetensors", arrays, {})
    run.write("explanation.json", {"clauses": []})
    steps = 20_000
    fresh = Demonstrations(
        observations=np.stack([rng.uniform(RIGHT, 1.0, steps + 1), rng.uniform(size=steps + 1)], axis=1),
        actions=np.zeros((steps, 1)),
        rewards=np.ones(steps),
        lengths=np.array([steps]),
        terminated=np.array([True]),
        costs=None,
        card={},
    )
    return run, decided.Yardstick(fresh, (0, 1), 0.0, 1.0, lambda obs: obs[:, 0] < LEFT)


@pytest.mark.parametrize(("knots", "iou"), [((0.3, 0.45), 1.0), ((0.1, 0.15), 0.5), ((0.74, 0.76), 0.5)])
def test_a_cost_is_scored_where_agents_or_demonstrations_go(tmp_path: Path, knots: Any, iou: float) -> None:
    scores = decided.scores(*_task(tmp_path, np.random.default_rng(1), knots))
    assert scores is not None
    assert scores["auroc"] > (0.99 if iou == 1.0 else 0.7)
    assert scores["iou"] == pytest.approx(iou, abs=0.06)
    assert scores["open"] == pytest.approx(RIGHT - LEFT, abs=0.03)
    assert scores["identifiable"] == pytest.approx(1.0, abs=0.02)
    assert scores["rule_recall"] == 0.0, "no rule was found"
