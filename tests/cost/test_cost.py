"""The learned cost as an artefact: the same numbers in NumPy and JAX, on disk and back; clear errors."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tacit.cost import Inputs, LearnedCost, choose_columns
from tacit.errors import UserError
from tacit.run import storage


def inputs(d: int = 3, act_size: int = 0, **fields) -> Inputs:
    rng = np.random.default_rng(0)
    return Inputs(
        names=tuple(f"f{i}" for i in range(d)),
        columns=tuple(range(d)),
        obs_size=d - act_size,
        act_size=act_size,
        centre=rng.standard_normal(d).astype(np.float32),
        scale=(0.5 + rng.random(d)).astype(np.float32),
        **fields,
    )


def cost(d: int = 3, thresholds: int = 4, hidden: tuple[int, ...] = (5,), joint: int = 6, **fields) -> LearnedCost:
    from tacit.inverse import features

    rng = np.random.default_rng(1)
    z = rng.standard_normal((50, d))
    params = features.init(rng, z, thresholds=thresholds, hidden=hidden, joint=joint, lam=0.3, bias=-1.0)
    return features.to_cost(params, fields.pop("inputs", inputs(d)), **fields)


@pytest.mark.parametrize(("thresholds", "joint"), [(4, 6), (4, 0), (0, 6), (0, 0)])
def test_numpy_and_jax_agree(thresholds, joint):
    from tacit.inverse import features

    learned = cost(thresholds=thresholds, joint=joint)
    phi = features.Phi(learned.slopes, learned.offsets, learned.weights, learned.biases)
    rows = np.random.default_rng(2).standard_normal((40, 3)).astype(np.float32)
    z = learned.inputs.scaled(rows)
    np.testing.assert_allclose(learned.features(z), features.features(phi, z), rtol=2e-6, atol=2e-7)
    expected = np.asarray(features.features(phi, z)) @ learned.lam
    np.testing.assert_allclose(learned(rows), expected, rtol=1e-5)
    assert learned(rows[0]).shape == ()


def test_by_hand():
    """One threshold on one input: lam sigmoid(slope arsinh((x - centre) / scale) + offset)."""
    one = Inputs(("x",), (1,), 2, 0, np.array([1.0], np.float32), np.array([2.0], np.float32))
    arrays = (np.array([3.0], np.float32), np.array([[-4.0]], np.float32), np.array([[0.5]], np.float32))
    learned = LearnedCost(one, *arrays)
    u = np.arcsinh((7.0 - 1.0) / 2.0)
    assert learned(np.array([99.0, 7.0])) == pytest.approx(3.0 / (1.0 + np.exp(4.0 * u - 0.5)), rel=1e-5)
    straight = replace(learned, inputs=replace(one, squash=False, clip=2.0))
    assert straight(np.array([0.0, 7.0])) == pytest.approx(3.0 / (1.0 + np.exp(4.0 * 2.0 - 0.5)), rel=1e-5)


def test_costs_are_not_negative_and_bounded_by_lam():
    learned = cost()
    rows = 1e4 * np.random.default_rng(3).standard_normal((1000, 3))
    assert (learned(rows) >= 0).all()
    assert (learned(rows) <= learned.lam.sum() + 1e-5).all()


@pytest.mark.parametrize("at", ["next", "current"])
def test_of_steps_looks_at_the_right_observation(at):
    learned = cost(at=at)
    obs, following = np.random.default_rng(4).standard_normal((2, 7, 3))
    expected = learned(following if at == "next" else obs)
    np.testing.assert_array_equal(learned.of_steps(obs, np.zeros((7, 1)), following), expected)


def test_discrete_actions_are_read_one_hot():
    learned = cost(d=5, inputs=inputs(5, act_size=3, n_actions=3), at="current")
    obs, act = np.ones((4, 2)), np.array([0, 1, 2, 1])
    rows = np.concatenate([obs, np.eye(3)[act]], axis=1).astype(np.float32)
    np.testing.assert_array_equal(learned(obs, act), learned.of_rows(rows))
    with pytest.raises(UserError, match="reads actions"):
        learned(obs)


def test_saved_and_loaded(tmp_path):
    learned = cost(at="current", unit=2.5, threshold=0.7).with_card(env="tacit/Pendulum-v0")
    learned.save(tmp_path / "cost.safetensors")
    again = LearnedCost.load(tmp_path / "cost.safetensors")
    rows = np.random.default_rng(5).standard_normal((20, 3))
    np.testing.assert_array_equal(again(rows), learned(rows))
    assert (again.at, again.unit, again.threshold, again.inputs.names) == ("current", 2.5, 0.7, learned.inputs.names)
    assert again.card["env"] == "tacit/Pendulum-v0"


@pytest.mark.parametrize(
    "damage", ["lam", "slopes", "weight0", "centre", "negative", "nan", "columns", "kind", "missing"]
)
def test_damaged_files_are_refused(tmp_path, damage):
    arrays, card = cost().to_arrays()
    if damage in arrays:
        arrays[damage] = arrays[damage][:-1]
    elif damage == "negative":
        arrays["lam"] = -arrays["lam"]
    elif damage == "nan":
        arrays["offsets"] = arrays["offsets"] * np.nan
    elif damage == "columns":
        card["columns"] = [0, 1, 99]
    elif damage == "kind":
        card["kind"] = "policy"
    else:
        del arrays["slopes"]
    storage.save_arrays(tmp_path / "x.safetensors", arrays, card)
    with pytest.raises(UserError):
        LearnedCost.load(tmp_path / "x.safetensors")


def test_wrong_observations_and_names_are_refused():
    learned = cost()
    with pytest.raises(UserError, match="observations of 3 numbers"):
        learned(np.zeros((2, 4)))
    with pytest.raises(UserError, match="does not read 'y'"):
        learned.profile("y", [0.0], np.zeros(3))
    with pytest.raises(UserError, match="did you mean 'x_position'"):
        choose_columns(("x_position", "angle"), ("x_positon",))


def test_profile_moves_one_input():
    learned = cost()
    values = np.linspace(-2, 2, 5)
    rows = np.tile(np.array([0.1, 0.2, 0.3]), (5, 1))
    rows[:, 1] = values
    np.testing.assert_allclose(learned.profile("f1", values, [0.1, 0.2, 0.3]), learned(rows), rtol=1e-6)


def test_needs_neither_jax_nor_torch(tmp_path):
    cost().save(tmp_path / "cost.safetensors")
    code = (
        "import sys, numpy; from tacit.cost import LearnedCost;"
        "c = LearnedCost.load(sys.argv[1]); assert c(numpy.zeros(3)) >= 0;"
        "assert not {'jax', 'torch', 'scipy'} & set(sys.modules), set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "cost.safetensors")], check=True)


def test_loaded_from_a_folder_or_a_file(tmp_path):
    import tacit

    (tmp_path / "model").mkdir()
    learned = cost(threshold=0.25)
    learned.save(tmp_path / "model" / "cost.safetensors")
    for source in (tmp_path, str(tmp_path), tmp_path / "model" / "cost.safetensors"):
        again = tacit.load_cost(source)
        assert again.threshold == 0.25
        assert again.names == ("f0", "f1", "f2")
    with pytest.raises(UserError, match="has no map"):
        tacit.load_cost(tmp_path, "map")
    with pytest.raises(UserError, match="does not exist"):
        tacit.load_cost(tmp_path / "nothing.safetensors")


def test_inputs_are_found_by_name_in_another_order():
    learned = cost(d=4, inputs=inputs(4, act_size=1), at="current")
    row = np.array([0.5, -1.0, 2.0])
    moved = learned.of_names(("other", "f2", "f0", "f1"))
    np.testing.assert_array_equal(learned(row, [0.3]), moved(np.array([9.0, 2.0, 0.5, -1.0]), [0.3]))
    with pytest.raises(UserError, match="no feature 'f1'"):
        learned.of_names(("f0", "f2"))


def test_numbered_states_are_read_one_hot():
    one_hot = Inputs(
        tuple(f"state[{i}]" for i in range(3)), (0, 1, 2), 3, 0, np.zeros(3), np.ones(3), squash=False, clip=np.inf
    )
    empty = np.zeros((3, 0), np.float32)
    learned = LearnedCost(one_hot, np.array([0.0, 2.0, 5.0], np.float32), empty, empty)
    np.testing.assert_array_equal(learned(np.array([2, 0, 1])), [5.0, 0.0, 2.0])
    assert learned(1) == 2.0
    np.testing.assert_array_equal(learned(np.eye(3)), [0.0, 2.0, 5.0])
    with pytest.raises(UserError, match=r"0 \.\.\. 2"):
        learned(3)


@pytest.mark.parametrize(
    "card",
    [
        {"clip": -1.0},
        {"clip": "wide"},
        {"unit": None},
        {"threshold": -1.0},
        {"threshold": "high"},
        {"obs_size": 2.5},
        {"inputs": [1, 2, 3]},
        {"n_actions": -3},
        {"squash": "yes"},
        {"columns": 7},
        {"at": "later"},
    ],
)
def test_cards_that_make_no_sense_are_refused(tmp_path, card):
    arrays, own = cost().to_arrays()
    storage.save_arrays(tmp_path / "x.safetensors", arrays, {**own, **card})
    with pytest.raises(UserError):
        LearnedCost.load(tmp_path / "x.safetensors")


class TestTable:
    cells = np.array([(0, 0), (0, 1), (1, 1)])
    table = np.array([[0.0, 1.0], [2.0, 2.0], [0.0, 0.0]])

    def make(self, **fields):
        from tacit.cost.table import TableCost

        return TableCost(self.cells, self.table, np.zeros(2), **fields)

    def test_it_reads_cells_and_numbers(self):
        learned = self.make()
        np.testing.assert_array_equal(learned(np.array([(0, 1), (0, 0)]), [0, 1]), [2.0, 1.0])
        numbered = self.make(card={"env_kwargs": {"observation": "index"}})
        np.testing.assert_array_equal(numbered(np.array([1, 0]), [1, 0]), [2.0, 0.0])
        assert learned(np.array([0.0, 1.0], np.float32), 0) == 2.0
        with pytest.raises(UserError, match="reads actions"):
            learned(np.array([0, 1]))
        for wall in ((1, 0), (5, 5), (-1, 0)):
            with pytest.raises(UserError, match="wall or outside"):
                learned(np.array(wall), 0)
        with pytest.raises(UserError, match="numbered"):
            learned(np.array([0, 1]), 2)

    def test_it_is_saved(self, tmp_path):
        from tacit.cost import load_cost

        self.make(threshold=0.5, card={"kind": "tabular"}).save(tmp_path / "t.safetensors")
        again = load_cost(tmp_path / "t.safetensors")
        assert again.threshold == 0.5
        np.testing.assert_array_equal(again(np.array([1, 1]), 0), 0.0)
        arrays, card = again.to_arrays()
        for damage in ({"cells": self.cells[:2]}, {"cost": -self.table}, {"cost": self.table.ravel()}):
            storage.save_arrays(tmp_path / "x.safetensors", {**arrays, **damage}, card)
            with pytest.raises(UserError, match="damaged"):
                load_cost(tmp_path / "x.safetensors")


def test_the_public_name_needs_neither_jax_nor_torch(tmp_path):
    cost().save(tmp_path / "cost.safetensors")
    code = (
        "import sys, numpy, tacit; c = tacit.load_cost(sys.argv[1]); c(numpy.zeros((5, 3)));"
        "bad = {'jax', 'torch', 'scipy', 'mujoco', 'matplotlib', 'optax'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "cost.safetensors")], check=True)
