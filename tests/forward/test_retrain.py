"""A frozen cost and a fresh agent: what is charged, where a cost can go, and agents whose right answer is known."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from baseline_helpers import LINE, Line, Stop, to_the_right
from tacit import demos as demonstrations
from tacit import launch
from tacit.cli import main
from tacit.commands.summary import print_summary
from tacit.cost import Inputs, LearnedCost, load_cost, quality
from tacit.errors import UserError
from tacit.explain.alarms import alarms
from tacit.forward import retrain
from tacit.run import Run, storage
from tacit.sweep import Job, prepare
from tacit.sweep.worker import DONE, work

PLANE, STRANGE = "tacit-retrain/Plane-v0", "tacit-retrain/Strange-v0"
NAMELESS, OTHER_NAMELESS = "tacit-retrain/Nameless-v0", "tacit-retrain/OtherNameless-v0"
FAST = {"rollout_steps": 512, "n_envs": 8, "batch_size": 128, "hidden": [16, 16], "lr": 1e-3, "eval_episodes": 16}
FAST |= {"checkpoint_every": 3, "lr_adaptive": False, "target_kl": 0.05}
FREE = ["multiplier=fixed", "multiplier_init=0"]
SET = ["--set", *(f"{key}={json.dumps(value)}" for key, value in FAST.items())]


class Plane(Line):
    """The same line, seen as (height above it, place on it)."""

    feature_names = ("y", "x")

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        return np.array([0.5, obs[0]], np.float32), info

    def step(self, action: Any):
        obs, *rest = super().step(action)
        return np.array([0.5, obs[0]], np.float32), *rest


class Strange(Plane):
    feature_names = ("a", "b")


class Nameless(Line):
    feature_names = None


gym.register(PLANE, entry_point=Plane)
gym.register(STRANGE, entry_point=Strange)
gym.register(NAMELESS, entry_point=Nameless)
gym.register(OTHER_NAMELESS, entry_point=Nameless)


def fence(names: tuple[str, ...] = ("x",), at: tuple[float, ...] = (-0.9,), **fields: Any) -> LearnedCost:
    """5 / (1 + exp(4 (x - at))) of every input: 5 to the left of a soft fence, never 0 to its right."""
    d = len(names)
    inputs = Inputs(
        names, tuple(range(d)), d, 0, np.zeros(d, np.float32), np.ones(d, np.float32), squash=False, clip=100.0
    )
    offsets = np.array([[4.0 * place] for place in at], np.float32)
    return LearnedCost(inputs, np.full(d, 5.0, np.float32), np.full((d, 1), -4.0, np.float32), offsets, **fields)


def source_run(out: Path, cost: LearnedCost | None = None, env: str = LINE, seed: int = 0) -> Run:
    """A finished run on the line that has learned this cost; its learner has been everywhere."""
    cost = cost or fence()
    run = Run.start(out, algo="mce", env=env, env_kwargs={}, seed=seed, config={"demonstrations": 0}, command="by hand")
    demos = to_the_right()
    rows = np.linspace(-4, 4, 201, dtype=np.float32)[:, None]
    if len(cost.names) == 2:
        still = np.full((len(demos.observations), 1), 0.5, np.float32)
        demos = replace(demos, observations=np.concatenate([still, demos.observations], axis=1))
        rows = np.concatenate([np.full_like(rows, 0.5), rows], axis=1)
    demonstrations.save(demos, run.path / "demos.npz")
    run.save_model("cost", *cost.to_arrays())
    truth = (rows[:, -1] < -1.0).astype(np.float32)
    arrays = {"nominal": rows, "history": rows, "learner": rows[100:], "expert": rows[110:], "nominal_truth": truth}
    storage.save_arrays(run.path / "samples.safetensors", arrays, {"names": ["x"]})
    run.finish({"table": {}})
    return run


class Given:
    """A cost that has these values, whatever it is asked about."""

    def __init__(self, costs: np.ndarray) -> None:
        self.of_steps = lambda obs, act, next_obs: costs


def folders(out: Path) -> list[Path]:
    return sorted(out.glob("retrain-*"))


# ---------------------------------------------------------------------------------------------------------------------
# What is charged


def test_excess_is_free_for_demonstrations_and_1_at_most(tmp_path):
    source = source_run(tmp_path)
    charge = retrain.charge_of(fence(), source, retrain.Config(charge="excess"))
    assert charge.top == pytest.approx(5.0, abs=1e-4)
    assert charge.threshold == pytest.approx(0.5, abs=1e-4)  # a tenth of it: demonstrations cost next to nothing
    assert 1e-4 < charge.budget < 0.1
    charged = charge.of(fence())
    obs = np.array([[-4.0], [-0.9], [0.0], [3.0]], np.float32)
    found = charged(obs, obs, obs)
    assert found == pytest.approx([1.0, (2.5 - 0.5) / 4.5, 0.0, 0.0], abs=1e-5)
    assert found[2] == found[3] == 0.0  # exactly, or a multiplier would grow for ever
    raw = retrain.charge_of(fence(), source, retrain.Config(charge="raw")).of(fence())(obs, obs, obs)
    assert raw[2] > 0
    calibrated = retrain.charge_of(replace(fence(), threshold=2.5), source, retrain.Config(charge="excess"))
    assert calibrated.threshold == 2.5


def test_a_soft_edge_rises_up_to_the_threshold_and_beyond(tmp_path):
    """At the threshold 0.5 it is EDGE, at half of it a quarter of EDGE, and at the highest tried cost 1."""
    charge = retrain.charge_of(fence(), source_run(tmp_path), retrain.Config(charge="soft"))
    costs = np.array([0.0, 0.25, 0.5, 2.75, 5.0, 9.0])
    charged = charge.of(Given(costs))(*[np.zeros((len(costs), 1), np.float32)] * 3)
    edge, top = retrain.EDGE, charge.top
    beyond = edge + (1 - edge) * (2.75 - 0.5) / (top - 0.5)
    assert charged == pytest.approx([0.0, edge / 4, edge, beyond, 1.0, 1.0], rel=1e-3)
    nothing = replace(charge, threshold=6.0).of(fence())(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))
    assert nothing.tolist() == [0.0]  # as with the other sets, a cost that forbids nothing charges nothing


def test_a_cost_that_forbids_nothing_is_refused(tmp_path):
    flat = replace(fence(), slopes=np.zeros((1, 1), np.float32), offsets=np.zeros((1, 1), np.float32))
    source = source_run(tmp_path, flat)
    with pytest.raises(UserError, match="forbids nothing"):
        retrain.charge_of(flat, source, retrain.Config(charge="excess"))
    assert retrain.charge_of(flat, source, retrain.Config(charge="budget")).budget == pytest.approx(2.5)


def test_a_cost_that_forbids_nothing_counts_in_experiments(tmp_path):
    """Left out, it would flatter its method: the seeds that are left are those where the cost was good."""
    flat = replace(fence(), slopes=np.zeros((1, 1), np.float32), offsets=np.zeros((1, 1), np.float32))
    charge = retrain.charge_of(flat, source_run(tmp_path, flat), retrain.Config(charge="excess", free=True))
    assert charge.nothing
    obs = np.array([[-4.0], [3.0]], np.float32)
    assert charge.of(flat)(obs, obs, obs).tolist() == [0.0, 0.0]
    assert not retrain.charge_of(
        fence(), source_run(tmp_path / "b"), retrain.Config(charge="excess", free=True)
    ).nothing
    run, demos = launch.start_run(
        "retrain",
        LINE,
        out=str(tmp_path),
        seed=3,
        settings={**FAST, "cost": str(source_run(tmp_path, flat).path), "free": True, "total_steps": 512},
    )
    summary = launch.execute(run, demos)
    assert "forbids nothing that its learner tried" in summary["statement"]
    from tacit.reproduce import columns

    assert columns.charges_nothing({"source": summary["source"]})


def test_a_set_forbids_what_costs_more_than_the_threshold_and_the_unknown(tmp_path):
    """The run has seen x from -4 to 4; a tenth of 8 beyond that is still known."""
    source = source_run(tmp_path)
    charge = retrain.charge_of(fence(), source, retrain.Config(charge="set"))
    assert charge.seen == {"x": (pytest.approx(-4.8), pytest.approx(4.8))}
    obs = np.array([[-4.0], [-0.9 + np.log(9) / 4 - 0.01], [-0.9 + np.log(9) / 4 + 0.01], [3.0]], np.float32)
    assert charge.of(fence())(obs, obs, obs).tolist() == [1.0, 1.0, 0.0, 0.0]
    strange = np.array([[4.7], [4.9], [np.nan], [np.inf]], np.float32)
    assert charge.of(fence())(strange, strange, strange).tolist() == [0.0, 1.0, 1.0, 1.0]
    free = retrain.charge_of(fence(), source, retrain.Config(charge="set", unknown="free"))
    assert free.of(fence())(strange, strange, strange).tolist() == [0.0, 0.0, 1.0, 1.0]
    # The state that the cost is about: here the one that is acted in.
    current = replace(fence(), at="current")
    assert charge.of(current)(obs, obs, obs[::-1]).tolist() == [1.0, 1.0, 0.0, 0.0]


def test_a_price_is_constant_and_in_units_of_reward(tmp_path):
    cost = fence(unit=0.7)
    config = retrain.Config(charge="price", forfeit=1.0, critics="single", multiplier="ascent")
    charge = retrain.charge_of(cost, source_run(tmp_path, cost), config)
    settings = retrain.engine_of(config, charge)
    assert (settings.multiplier, settings.penalty_unit, settings.multiplier_init) == ("fixed", "reward", 0.7)
    assert settings.forfeit == 0.0
    obs = np.array([[-0.9]], np.float32)
    assert charge.of(cost)(obs, obs, obs) == pytest.approx([2.5])
    dearer = retrain.charge_of(cost, source_run(tmp_path, cost), replace(config, price=30.0))
    assert retrain.engine_of(config, dearer).multiplier_init == 30.0
    # As a set the engine's recipe stays as it is: that of `rcpo`.
    assert retrain.engine_of(replace(config, charge="set"), replace(charge, kind="set")).forfeit == 1.0


def test_parts_of_an_additive_cost_add_up():
    cost = fence(("y", "x", "z"), (0.3, -0.9, 1.0), threshold=1.0)
    obs = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    parts = [cost.only(["x"]), cost.only(["z", "y"])]
    np.testing.assert_allclose(sum(part(obs) for part in parts), cost(obs), rtol=1e-5)
    assert parts[1].names == ("y", "z")
    assert parts[0].threshold is None
    again = LearnedCost.from_arrays(*parts[1].to_arrays())
    np.testing.assert_array_equal(again(obs), parts[1](obs))
    with pytest.raises(UserError, match="not all of"):
        cost.only(["x", "w"])


def test_a_finished_run_is_judged_at_its_present_threshold(tmp_path):
    """201 places from -4 to 4, 75 of them below -1; the fence exceeds 0.5 left of -0.9 + log(9)/4, 2.5 left of -0.9."""
    source = source_run(tmp_path)
    found = quality.of_run(source)["cost"]
    assert list(found["on"]) == ["nominal"]  # nobody knows the truth of the others
    assert found["on"]["nominal"]["auroc"] == 1.0
    places = np.linspace(-4, 4, 201)
    assert found["on"]["nominal"]["iou"] == pytest.approx(75 / (places < -0.9 + np.log(9) / 4).sum())
    source.save_model("cost", *fence(threshold=2.5).to_arrays())
    again = quality.of_run(source)["cost"]
    assert again["calibrated"]
    assert again["on"]["nominal"]["iou"] == pytest.approx(75 / (places < -0.9 - 1e-6).sum())
    shutil.rmtree(source.path)
    bare = source_run(tmp_path)
    (bare.path / "samples.safetensors").unlink()
    assert quality.of_run(bare) == {}


# ---------------------------------------------------------------------------------------------------------------------
# Where it can go


def test_inputs_are_found_by_name_or_named_as_missing():
    one, two = fence(), fence(("y", "x"), (0.3, -0.9))
    assert retrain.fit(one, ("y", "x"), 1, False, PLANE) is one
    with pytest.raises(UserError, match=r"Line.* has no y, which the cost reads.*--inputs x.*--shared"):
        retrain.fit(two, ("x",), 1, False, "Line")
    assert retrain.fit(two, ("x",), 1, True, "Line").names == ("x",)
    with pytest.raises(UserError, match="no input in common"):
        retrain.fit(two, ("a", "b"), 1, True, STRANGE)
    net = replace(two, weights=(np.ones((2, 1), np.float32),), biases=(np.zeros(1, np.float32),))
    with pytest.raises(UserError, match=r"network on all of its inputs.*--inputs x"):
        retrain.fit(net, ("x",), 1, True, "Line")


def test_mistakes_write_nothing(tmp_path, capsys):
    source = source_run(tmp_path / "runs")
    out = tmp_path / "out"
    unfinished = source_run(tmp_path / "begun")
    (unfinished.path / "DONE").unlink()
    for args, text in (
        ([str(source.path), "--to", STRANGE], "has no x"),
        ([str(source.path), "--to", "tacit/Pont-v0"], "did you mean 'tacit/Point-v0'"),
        ([str(source.path), "--to", LINE, "--which", "map"], "has no map"),
        ([str(source.path), "--to", LINE, "--set", "multiplyer=3"], "did you mean 'multiplier'"),
        (
            [str(source.path), "--to", LINE, "--set", "charge=budget"],
            "a place of its own on the command line: --as",
        ),
        ([str(source.path), "--to", LINE, "--set", "total_steps=9"], "--steps"),
        ([str(source.path), "--to", LINE, "--steps", "0"], "total_steps must be at least 1"),
        ([str(unfinished.path), "--to", LINE], "is not finished"),
        ([str(tmp_path), "--to", LINE], "not a run folder"),
    ):
        assert main(["transfer", *args, "--out", str(out)]) == 2
        assert text in " ".join(capsys.readouterr().err.split())
    assert not out.exists()
    assert main(["learn", "retrain", LINE]) == 2


def test_the_folder_depends_on_the_cost_and_not_on_where_it_lies(tmp_path):
    one = source_run(tmp_path / "a")
    shutil.copytree(one.path, tmp_path / "b" / one.name)
    other = source_run(tmp_path / "c", fence(at=(-0.5,)))
    assert other.name == one.name
    places = [folder / one.name for folder in (tmp_path / "a", tmp_path / "b", tmp_path / "c")]
    settings = {**FAST, "total_steps": 512}
    jobs = [Job("retrain", LINE, settings={**settings, "cost": str(place)}) for place in places]
    assert len(prepare(jobs, tmp_path / "out")) == 2
    with pytest.raises(UserError, match="no cost is named"):
        prepare([Job("retrain", LINE, settings=settings)], tmp_path / "out")


def test_numbers_are_no_names(tmp_path, capsys):
    """Of two environments without names, the first entry of one is not that of the other."""
    source = source_run(tmp_path, fence(names=("obs[0]",)), env=NAMELESS)
    assert main(["transfer", str(source.path), "--to", OTHER_NAMELESS, "--out", str(tmp_path / "out")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "does not name its features: obs[0] may be something else" in said
    assert "`feature_names`" in said
    config = retrain.Config(cost=str(source.path))
    retrain.prepare(source, NAMELESS, {}, config)  # where it was learned it is the same


def test_the_run_that_a_cost_comes_from_may_be_anywhere_and_go(tmp_path):
    source = source_run(tmp_path / "elsewhere")
    settings = {**FAST, "total_steps": 512, "cost": str(source.path)}
    assert work("retrain", LINE, str(tmp_path / "runs"), {"settings": settings}) == (DONE, "")
    run, _ = launch.start_run("retrain", LINE, seed=1, settings=settings, out=str(tmp_path / "runs"))
    shutil.rmtree(source.path)
    launch.execute(run, None)
    assert run.done
    settled = {**settings, "cost": source.name, "sha256": run.config["config"]["sha256"]}
    lost, _ = launch.start_run("retrain", LINE, seed=2, settings=settled, out=str(tmp_path / "runs"))
    with pytest.raises(UserError, match="no copy of its cost: start it again"):
        launch.execute(lost, None)


# ---------------------------------------------------------------------------------------------------------------------
# Agents


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """{name: (run, summary)} of fresh agents on the line, which pays more on its forbidden left."""
    out = tmp_path_factory.mktemp("runs")
    source = source_run(out)
    arguments = {
        "fence": ["retrain", str(source.path), "--steps", "24576", *SET],
        "set": ["retrain", str(source.path), "--steps", "24576", "--as", "set", *SET],
        "price": ["retrain", str(source.path), "--steps", "24576", "--as", "price", *SET, "price=3"],
        "nothing": ["retrain", str(source.path), "--steps", "24576", "--charge", "raw", *SET, *FREE],
        "plane": ["transfer", str(source.path), "--to", PLANE, "--steps", "24576", *SET],
    }
    found = {}
    for name, args in arguments.items():
        before = folders(out)
        assert main([*args, "--out", str(out), "--json"]) == 0
        (path,) = set(folders(out)) - set(before)
        # The recorded command, given again, finds the run.
        recorded = shlex.split(Run.open(path).read("provenance.json")["command"])
        assert recorded[:2] == ["tacit", args[0]]
        assert main(recorded[1:]) == 0
        assert set(folders(out)) == {*before, path}
        found[name] = Run.open(path), Run.open(path).read("summary.json")
    return found


def test_the_fence_alone_keeps_a_fresh_agent_on_the_right(trained):
    """Twenty steps of at most 0.2 to the right earn up to 42; to the left half as much again, beyond -1 forbidden."""
    table = {name: summary["table"]["learned, deterministic"] for name, (_, summary) in trained.items()}
    for name in ("fence", "plane", "set", "price"):
        assert table[name]["violation_rate_episode"]["value"] == 0.0
        assert table[name]["return"]["value"] > 20
    assert table["nothing"]["violation_rate_episode"]["value"] == 1.0
    assert table["nothing"]["return"]["value"] > table["fence"]["return"]["value"]


def test_whether_it_obeys_is_told_without_the_truth(trained, capsys):
    """The agent that nothing is charged goes left, where the cost forbids nearly all; the others keep to it."""
    obedience = {name: summary["obedience"] for name, (_, summary) in trained.items()}
    assert obedience["nothing"]["above"]["value"] == 1.0
    assert obedience["nothing"]["above"]["low"] > 0.75
    for name in ("fence", "set"):
        assert obedience[name]["above"]["value"] <= 0.1
    assert obedience["fence"]["demonstrations"]["value"] == 0.0
    assert "demonstrations" not in obedience["plane"]  # another task: nothing to compare with
    raised = {name: [one.name for one in alarms(summary, [])] for name, (_, summary) in trained.items()}
    assert "not obeyed" in raised["nothing"]
    print_summary(*trained["nothing"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "doubtful: Do not use this yet: 100 % of its episodes have a step that the cost forbids" in printed
    assert "not obeyed" not in raised["fence"]
    # It goes where reward draws agents, and no demonstrator has been there.
    assert trained["nothing"][1]["joint_test"]["p"] < 0.01
    assert trained["fence"][1]["joint_test"]["p"] > 0.01


def test_the_folder_says_what_was_tested(trained):
    run, summary = trained["fence"]
    assert summary["source"]["charge"]["kind"] == "soft"
    hard = trained["set"][1]
    assert hard["source"]["charge"]["kind"] == "set"
    assert "A step that costs more than 0.5 or lies outside of what was seen of x is forbidden" in hard["statement"]
    assert "where it was learned" in summary["statement"]
    assert "demonstrations" in summary["table"]
    assert run.config["config"]["cost"] == summary["source"]["run"]
    assert run.config["seed"] == 1000
    moved, other = trained["plane"]
    assert "demonstrations" not in other["table"]
    assert f"learned in {LINE}" in other["statement"]
    # The copy is in the layout of the new environment, where x is the second entry.
    assert load_cost(moved, "frozen")(np.array([0.5, -4.0])) == pytest.approx(5.0, abs=1e-4)
    assert any("truth/violation_rate_episode" in record for record in run.metrics())


def test_resumed_without_its_source_is_the_same_run(tmp_path, monkeypatch):
    """The cost of an exact run on a gridworld, a table of states, which can be restored bit by bit."""
    env = "tacit/Gridworld-v0"
    exact, data = launch.start_run("mce-exact", env, out=str(tmp_path / "whole"), say=lambda text: None)
    launch.execute(exact, data)
    shutil.copytree(exact.path, tmp_path / "stopped" / exact.name)
    runs = []
    for name in ("whole", "stopped"):
        settings = {**FAST, "total_steps": 2048, "cost": str(tmp_path / name / exact.name), "checkpoint_every": 1}
        given = {"env_kwargs": exact.config["env_kwargs"], "settings": settings, "out": str(tmp_path / name)}
        runs.append(launch.start_run("retrain", env, **given)[0])
    whole, stopped = runs
    summary = launch.execute(whole, None)
    assert summary["source"]["charge"]["top"] == pytest.approx(float(load_cost(exact).table.max()))
    assert "demonstrations" in summary["table"]
    original = Run.save_checkpoint

    def save_then_stop(self, step, *rest):
        original(self, step, *rest)
        if step == 2:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(Run, "save_checkpoint", save_then_stop)
        with pytest.raises(Stop):
            launch.execute(stopped, None)
    shutil.rmtree(tmp_path / "stopped" / exact.name)
    again = launch.execute(stopped, None)
    assert again["table"] == summary["table"]
    one, two = (run.load_model("policy")[0] for run in runs)
    assert all(np.array_equal(one[key], two[key]) for key in one)
    assert [record["steps"] for record in stopped.metrics()] == [512, 1024, 1536, 2048]
