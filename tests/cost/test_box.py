"""The box around the demonstrations: what it forbids, as a cost and as an agent's constraint."""

from __future__ import annotations

import numpy as np
import pytest

from baseline_helpers import LINE, to_the_right
from tacit import demos as demonstrations
from tacit import launch
from tacit.cost import LearnedCost, box_cost, load_cost
from tacit.errors import UserError
from tacit.learned import Learned


def test_it_counts_the_inputs_outside_of_their_range():
    rows = np.random.default_rng(0).normal(size=(200, 3)) * [1.0, 50.0, 0.0] + [0.0, 1000.0, 7.0]
    cost = box_cost(("a", "b", "c"), rows)
    assert cost.threshold is not None
    assert cost(rows) == pytest.approx(np.zeros(200))  # float32 is exact for what was demonstrated
    low, high = rows.min(axis=0), rows.max(axis=0)
    outside = np.tile(rows[0], (4, 1))
    outside[0, 0], outside[1, 1], outside[2, 2] = high[0] + 1, low[1] - 20, 7.1
    outside[3] = high + np.array([1, 20, 1])
    assert cost(outside) == pytest.approx([1, 1, 1, 3])
    # The edge is narrow: forbidden from half a hundredth of the width on.
    width = high[0] - low[0]
    near = np.tile(rows[0], (2, 1))
    near[:, 0] = high[0] + width * np.array([0.004, 0.006])
    assert (cost(near) > cost.threshold).tolist() == [False, True]
    again = LearnedCost.from_arrays(*cost.to_arrays())
    np.testing.assert_array_equal(again(outside), cost(outside))


def test_an_agent_from_nothing_stays_in_the_box_and_its_cost_can_be_frozen(tmp_path):
    """The line pays more on the left, where no demonstration goes."""
    demonstrations.save(to_the_right(), tmp_path / "right.npz")
    settings = {"total_steps": 24_576, "rollout_steps": 512, "batch_size": 128, "hidden": [16, 16], "eval_episodes": 16}
    run, data = launch.start_run(
        "box", LINE, out=str(tmp_path), settings=settings, demos=str(tmp_path / "right.npz"), say=lambda text: None
    )
    summary = launch.execute(run, data)
    assert summary["table"]["learned, deterministic"]["violation_rate_episode"]["value"] == 0.0
    cost = load_cost(run)
    assert cost(np.array([[-3.0], [1.0]])).tolist() == [1.0, 0.0]
    assert cost.unit > 0
    fresh = Learned.load(run.path).retrain("set", **{**settings, "total_steps": 512})
    assert fresh.summary["source"]["algo"] == "box"
    assert fresh.summary["source"]["charge"]["threshold"] == 0.5
    assert fresh.run.config["seed"] == 1000
    with pytest.raises(UserError, match="numbered states have no range"):
        launch.execute(
            *launch.start_run("box", "tacit/Gridworld-v0", env_kwargs={"observation": "index"}, out=str(tmp_path))
        )
