"""ONNX graphs beside the originals, in onnxruntime: every kind of policy and cost, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from interop_helpers import COSTS, POLICIES, random_policy
from tacit.cli import main
from tacit.cost import LearnedCost
from tacit.errors import RunFailed
from tacit.policy import Interface, Policy
from tacit.run import Run

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tacit.interop import onnx as graphs  # noqa: E402


def observations(policy: Policy, n: int = 400) -> np.ndarray:
    face, rng = policy.interface, np.random.default_rng(7)
    if face.n_states:
        return rng.integers(face.n_states, size=n)
    return (20 * rng.standard_normal((n, face.obs_size))).astype(np.float32)  # many beyond the clip


@pytest.mark.parametrize("kind", POLICIES)
def test_a_policy(kind: str) -> None:
    policy = POLICIES[kind]
    obs, rng = observations(policy), np.random.default_rng(0)
    found = graphs.run_graph(graphs.policy_graph(policy), {"obs": obs})
    expected = policy.act(obs, rng, deterministic=True)
    if policy.log_std is None:
        np.testing.assert_array_equal(found["action"], expected)
        # The logits are those of the policy's own probabilities.
        log_pi = found["logits"] - np.logaddexp.reduce(found["logits"], axis=1, keepdims=True)
        np.testing.assert_allclose(log_pi[np.arange(len(obs)), expected], policy.log_prob(obs, expected), atol=1e-5)
        return
    np.testing.assert_allclose(found["action"], expected, atol=1e-5)
    low, high = np.array(policy.interface.low), np.array(policy.interface.high)
    assert (np.abs(found["action"] - np.clip(found["mean"], low, high)) < 1e-6).all()
    assert ((found["mean"] < low) | (found["mean"] > high)).any(), "nothing was clipped: the test shows too little"
    # Mean and deviation are the density that the policy itself reports.
    act = found["mean"] + found["std"] * rng.standard_normal(found["mean"].shape)
    z = (act - found["mean"]) / found["std"]
    density = (-0.5 * z**2 - np.log(found["std"]) - 0.5 * np.log(2 * np.pi)).sum(-1)
    np.testing.assert_allclose(density, policy.log_prob(obs, act), atol=1e-4)


@pytest.mark.parametrize("kind", COSTS)
def test_a_cost(kind: str) -> None:
    cost, rng = COSTS[kind], np.random.default_rng(0)
    given = {"obs": (5 * rng.standard_normal((400, 5))).astype(np.float32)}
    if cost.inputs.n_actions:
        given["act"] = rng.integers(cost.inputs.n_actions, size=400)
    elif cost.inputs.act_size:
        given["act"] = rng.standard_normal((400, cost.inputs.act_size)).astype(np.float32)
    found = graphs.run_graph(graphs.cost_graph(cost), given)
    expected = cost(given["obs"], given.get("act"))
    np.testing.assert_allclose(found["cost"], expected, rtol=1e-5, atol=1e-5)
    assert set(found) == ({"cost"} if cost.threshold is None else {"cost", "forbidden"})
    if cost.threshold is not None:
        far = np.abs(expected - cost.threshold) > 1e-4
        np.testing.assert_array_equal(found["forbidden"][far], (expected > cost.threshold)[far])
        assert 0 < found["forbidden"].mean() < 1


def test_what_is_not_a_number_stays_so() -> None:
    """A broken sensor must not look like a cost of zero or like an action."""
    bad = np.full((1, 5), np.nan, np.float32)
    assert np.isnan(graphs.run_graph(graphs.cost_graph(COSTS["thresholds and network"]), {"obs": bad})["cost"]).all()
    found = graphs.run_graph(graphs.policy_graph(POLICIES["box"]), {"obs": bad[:, :4]})
    assert np.isnan(found["action"]).all()


def test_the_card_and_the_names_travel_along() -> None:
    model = graphs.cost_graph(COSTS["of actions"])
    card = json.loads({p.key: p.value for p in model.metadata_props}["tacit"])
    assert card["inputs"] == list(COSTS["of actions"].inputs.names)
    assert card["at"] == "current"
    assert [i.name for i in model.graph.input] == ["obs", "act"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A finished run with a policy and a cost that fit together."""
    made = Run.start(
        tmp_path / "runs", algo="expert", env="tacit/Ant-v0", env_kwargs={}, seed=0, config={}, demos=None, command="x"
    )
    with made:
        made.save_model("policy", *random_policy(Interface(5, 2, low=(-1.0,) * 2, high=(1.0,) * 2)).to_arrays())
        made.save_model("cost", *COSTS["of actions"].to_arrays())
        made.finish({})
    return made


def test_the_command(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(run.path), "--onnx", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {Path(file).name for file in told["files"]} == {"policy.onnx", "cost.onnx"}
    for file, difference in told["files"].items():
        assert difference < 1e-5
        onnx.checker.check_model(onnx.load(file))
    before = (tmp_path / "out" / "policy.onnx").read_bytes()
    assert main(["export", str(run.path), "--onnx", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "policy.onnx").read_bytes() == before, "equal input gives equal bytes"
    assert main(["export", str(run.path)]) == 2
    assert "nothing to export" in capsys.readouterr().err


def test_a_graph_that_differs_is_not_written(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = graphs.cost_graph

    def wrong(cost: LearnedCost) -> object:
        return other(LearnedCost(**{**vars(cost), "lam": cost.lam * 1.01}))

    monkeypatch.setattr(graphs, "cost_graph", wrong)
    with pytest.raises(RunFailed, match=r"cost.onnx differs from the original"):
        graphs.export(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_exact_runs_are_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", "mce-exact", "tacit/Gridworld-v0", "--out", str(tmp_path)]) == 0
    (folder,) = tmp_path.glob("mce-exact-*")
    assert main(["export", str(folder), "--onnx", str(tmp_path / "out")]) == 2
    assert "are tables and not networks" in capsys.readouterr().err
