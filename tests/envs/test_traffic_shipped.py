"""The highway demonstrations that come with the package: what they are, and that learning from them works at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit import demos
from tacit.algorithms import find
from tacit.envs.traffic.env import RULES, TrafficVectorEnv

TASKS = {"distance": "tacit/HighwayDistance-v0", "velocity": "tacit/HighwayVelocity-v0"}


@pytest.mark.parametrize("rule", TASKS)
def test_the_shipped_demonstrations_keep_the_rule_and_arrive(rule: str) -> None:
    path = demos.shipped(TASKS[rule])
    assert path is not None
    assert path.stat().st_size < 150_000
    data = demos.load(path)
    assert len(data) == 50
    assert data.costs is not None
    assert data.costs.sum() == 0
    assert not RULES[rule].violated(data.observations).any()  # the first states included
    assert TrafficVectorEnv.succeeded(data.observations[data.row_offsets + data.lengths]).all()
    assert np.all(data.returns == 50.0)
    # They come near what is forbidden, or nobody could learn where it begins.
    assert 0 < data.card["distance_kept"] < 2.0
    assert data.card["expert"]["seed"] in (0, 1, 2)
    assert demos.problems(data, TASKS[rule]) == []


def test_the_presets_take_as_many_as_the_paper() -> None:
    assert find("mce").config(TASKS["distance"], "paper").demonstrations == 20
    assert find("mce").config(TASKS["velocity"], "paper").demonstrations == 0  # all 50
    for task in TASKS.values():
        assert find("expert").config(task).demonstrations == 50


PAPER = {
    "distance": (20_000, 50_000, 100, (20,), 10, 1e-4, 1e-4, 20),
    "velocity": (0, 25_000, 50, (40, 20, 10), 8, 1e-6, 1e-6, 0),
}
"""The paper's table: bootstrap and forward steps, iterations, network, features, learning rates, pre-training."""


@pytest.mark.parametrize("rule", TASKS)
def test_the_papers_columns(rule: str) -> None:
    config = find("mce").config(TASKS[rule], "paper")
    bootstrap, forward, iterations, hidden, k, lr_zeta, lr_lam, pretraining = PAPER[rule]
    assert (config.bootstrap_steps, config.forward_steps) == (bootstrap, forward)
    assert config.total_steps == bootstrap + iterations * forward
    assert (config.feature_hidden, config.joint, config.pretrain_epochs) == (hidden, k, pretraining)
    assert (config.lr_zeta, config.lr_lam, config.lam_init, config.zeta_decay) == (lr_zeta, lr_lam, 1.0, 0.9)
    assert (config.batch_size, config.lr, config.rollout_steps, config.epochs) == (64, 1e-4, 1024, 20)
    assert (config.gae_lambda, config.target_kl, config.gamma, config.beta) == (0.9, 0.02, 0.99, 1e-4)
    assert (config.hidden, config.dual_batch, config.budget) == ((64, 64), 1000, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("rule", TASKS)
def test_learning_out_of_the_box(cli: Callable[..., Any], rule: str) -> None:
    done = cli(
        "learn",
        "mce",
        TASKS[rule],
        "--total-steps",
        32_768,
        "--minibatches",
        20,
        "--eval-episodes",
        20,
        "--out",
        "runs",
    )
    assert done.status == 0, done.stderr
    assert "those that come with Tacit" in done.stderr
    assert "simulated" in done.stdout
    assert "goal" in done.stdout
