"""Any damage to any file that Tacit reads: it is read, or refused with a UserError in one line. Nothing else.

Bytes are flipped, cut and inserted; and, because checksums would catch most of that, content is changed as a hostile
writer would: JSON and arrays replaced before they are written and signed again. What is read must also work. Pickles,
highD and CommonRoad files have fuzz tests of their own (test_demo_import.py, test_traffic_*.py); files that ask for
much memory or time are in test_hostile_files.py.
"""

import contextlib
import json
import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demo_helpers import GRID, continuous
from fuzz import damaged_arrays, damaged_bytes, damaged_json
from tacit import demos, presets
from tacit.cost import Inputs, LearnedCost, load_cost
from tacit.cost.ensemble import CostEnsemble
from tacit.cost.table import TableCost
from tacit.envs.gridworld import make_spec
from tacit.errors import UserError
from tacit.policy import Interface, Policy
from tacit.run import Run, storage
from tacit.sweep import file as sweep_file

RNG = np.random.default_rng(0)
many = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
few = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nothing here is about power cuts or commits, and both cost more than all the rest."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr("tacit.run.folder._commit", lambda: None)


@contextlib.contextmanager
def may_be_refused():
    """UserError in one line, and no other exception; warnings are allowed where something was passed over."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            yield
        except UserError as error:
            text = str(error)
            assert text
            assert "\n" not in text, text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def learned() -> LearnedCost:
    inputs = Inputs(("x", "v", "action[0]"), (0, 1, 2), 2, 1, *(np.ones(3, np.float32) * k for k in (0, 1)))
    slopes = np.ones((3, 2), np.float32)
    weights, biases = ([np.ones(size, np.float32) for size in sizes] for sizes in (((3, 4), (4, 2)), (4, 2)))
    joint = {"weights": tuple(weights), "biases": tuple(biases)}
    return LearnedCost(inputs, np.ones(8, np.float32), slopes, slopes, **joint, threshold=0.5, card={"env": "a/B-v0"})


def ensemble() -> CostEnsemble:
    inputs = Inputs(("x", "v"), (0, 1), 2, 0, np.zeros(2, np.float32), np.ones(2, np.float32))
    slopes = np.ones((2, 2), np.float32)
    members = [LearnedCost(inputs, np.ones(4, np.float32), slopes, slopes * k, threshold=0.5) for k in (1, 2)]
    return CostEnsemble(tuple(members), {"demonstrations": 3})


def policy(discrete: bool) -> Policy:
    face = Interface(3, 2, 3, 2) if discrete else Interface(3, 2, 0, 0, (-1.0, -2.0), (1.0, float("inf")))
    weights = tuple(RNG.normal(size=size).astype(np.float32) for size in ((3, 4), (4, 2)))
    biases = tuple(np.zeros(size, np.float32) for size in (4, 2))
    std = None if discrete else np.zeros(2, np.float32)
    return Policy(face, weights, biases, std, np.zeros(3, np.float32), np.ones(3, np.float32), 5.0)


def table() -> TableCost:
    cells = np.array([(0, 0), (0, 1), (1, 1)])
    return TableCost(cells, np.array([[0.0, 1.0], [2.0, 2.0], [0.0, 0.0]]), np.zeros(2), 0.5, {"kind": "tabular"})


def use_cost(path):
    found = load_cost(path)
    if isinstance(found, TableCost):
        found.of_steps(found.cells[:1], np.zeros(1, int), found.cells[:1])
        found(found.cells, np.zeros(len(found.cells), int))
        return
    size = found.inputs.obs_size
    act = np.zeros(5, int) if found.inputs.n_actions else np.zeros((5, found.inputs.act_size))
    if size < 10_000:
        with np.errstate(over="ignore"):
            assert np.isfinite(found(np.zeros((5, size)), act)).all()
        found.of_names([f"n{i}" for i in range(size - len(found.names))] + list(found.names))


def use_ensemble(path):
    found = CostEnsemble.load(path)
    size = found.members[0].inputs.obs_size
    if size < 10_000:
        with np.errstate(over="ignore"):
            found.votes(np.zeros((5, size)), np.zeros((5, found.members[0].inputs.act_size)))


def use_policy(path):
    found = Policy.from_arrays(*storage.load_arrays(path))
    obs = np.zeros(4, int) if found.interface.n_states else np.zeros((4, found.interface.obs_size))
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        found.log_prob(obs, found.act(obs, rng))
        found.act(obs, rng, deterministic=True)


MODELS = {
    "cost": (learned().to_arrays(), use_cost),
    "table": (table().to_arrays(), use_cost),
    "ensemble": (ensemble().to_arrays(), use_ensemble),
    "policy": (policy(False).to_arrays(), use_policy),
    "discrete policy": (policy(True).to_arrays(), use_policy),
}


@pytest.mark.parametrize("kind", MODELS)
def test_models(kind, folder):
    (arrays, card), use = MODELS[kind]
    file = folder / "model.safetensors"
    storage.save_arrays(file, arrays, card)
    use(file)
    whole = file.read_bytes()

    @few
    @given(damaged_bytes(whole))
    def bytes_of_it(data):
        file.write_bytes(data)
        with may_be_refused():
            use(file)

    @many
    @given(damaged_arrays(arrays) | st.just(arrays), damaged_json(card) | st.just(card))
    def content_of_it(changed, told):
        storage.save_arrays(file, changed, told if isinstance(told, dict) else {"kind": told})
        with may_be_refused():
            use(file)

    bytes_of_it()
    content_of_it()


def test_any_metadata(folder):
    """Under a right hash: whatever JSON stands where an object is expected."""
    file = folder / "meta.safetensors"

    @many
    @given(damaged_json({"metadata": {"a": [1, {"b": None}]}, "sha256": "0" * 64}))
    def check(header):
        from safetensors.numpy import save

        file.write_bytes(save({"x": np.zeros(2)}, {"tacit": storage.to_json(header)}))
        with may_be_refused():
            _, metadata = storage.load_arrays(file)
            assert isinstance(metadata, dict)

    check()


@pytest.mark.parametrize("text", ['"\\ud800"', '{"a": "\\udfff x"}', '["\\ud83d"]'])
def test_half_a_character_is_no_text(folder, text):
    """It could be read, but neither hashed, written nor printed."""
    (folder / "half.json").write_text(text)
    with pytest.raises(UserError, match="not valid JSON"):
        storage.read_json(folder / "half.json")
    (folder / "half.json").write_text('"\\ud83d\\ude00"')
    assert storage.read_json(folder / "half.json") == "😀"


# Demonstrations ------------------------------------------------------------------------------------------------------


def signed(arrays, card):
    """The card with the hash that a hostile writer would put there."""
    return {**card, "schema": 1, "sha256": storage.sha256_of_arrays(arrays)} if isinstance(card, dict) else card


@pytest.mark.parametrize("data", [continuous(), demos.expert_demonstrations(GRID, n=2, seed=0)], ids=["box", "grid"])
def test_demonstrations(data, folder):
    from hostile import npy, packed

    file = folder / "demos.npz"

    @many
    @given(damaged_arrays(data.arrays()) | st.just(data.arrays()), damaged_json(dict(data.card)) | st.just(data.card))
    def content(arrays, card):
        members = {f"{name}.npy": npy(array) for name, array in arrays.items()}
        file.write_bytes(packed({**members, "card.json": storage.to_json(signed(arrays, card)).encode()}))
        for read in (demos.load, demos.from_npz):
            with may_be_refused():
                found = read(file)
                found.summary()
                assert len(list(found)) == len(found)
                demos.save(found, folder / "again.npz")
                assert demos.load(folder / "again.npz").sha256 == found.sha256
                assert demos.problems(found, GRID) is not None

    content()


def test_replays(folder):
    """Problem and actions: what is driven is what was recorded, or a sentence."""
    from tacit.envs.traffic import demonstrations

    arrays = {
        "problem": np.array([0, 1]),
        "lengths": np.array([3, 2]),
        "returns": np.zeros(2),
        "actions": np.zeros((5, 2), np.float32),
    }
    card = {"env": "tacit/HighwayDistance-v0", "env_kwargs": {}, "fingerprint": None}
    file = folder / f"r{demonstrations.SUFFIX}"

    @few
    @given(damaged_arrays(arrays) | st.just(arrays), damaged_json(card) | st.just(card))
    def content(changed, told):
        storage.save_arrays(file, changed, told if isinstance(told, dict) else {})
        with may_be_refused():
            demos.load(file)

    content()


# Run folders ---------------------------------------------------------------------------------------------------------


def begun(root: Path) -> Run:
    run = Run.start(
        root, algo="mce", env="a/B-v0", env_kwargs={"x": [1]}, seed=0, config={"beta": 0.1}, demos={"sha256": "0"}
    )
    with run:
        for i in range(3):
            run.log({"iteration": i, "loss": 0.5})
        run.save_checkpoint(1, {"w": np.ones(2)}, {"rng": {"state": 1}})
        run.log_eval({"step": 1})
        run.save_checkpoint(2, {"w": np.ones(2)}, {"rng": {"state": 2}})
    return run


def go_on(path: Path) -> None:
    """What resuming does with a folder before the algorithm gets it."""
    run = Run.open(path)
    run.metrics(), run.evals()
    with run:
        checkpoint = run.latest_checkpoint()
        run.log({"iteration": 9})
        run.save_checkpoint(9, {"w": np.ones(2)})
        assert checkpoint is None or isinstance(checkpoint[2], dict)


@pytest.mark.parametrize("name", ["config.json", "provenance.json", "metrics.jsonl", "checkpoint"])
def test_run_folders(name, folder):
    whole = begun(folder / f"whole-{name}").path
    place = folder / f"copy-{name}"

    def copy() -> Path:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(whole, place)
        return max((place / "checkpoints").iterdir()) if name == "checkpoint" else place / name

    intact = copy().read_bytes()

    @few
    @given(damaged_bytes(intact))
    def bytes_of_it(data):
        copy().write_bytes(data)
        with may_be_refused():
            go_on(place)

    @many
    @given(st.data())
    def content_of_it(data):
        file = copy()
        if name == "checkpoint":
            arrays, header = storage.load_arrays(file)
            told = data.draw(damaged_json(header))
            storage.save_arrays(file, arrays, told if isinstance(told, dict) else {"step": told})
        elif name == "metrics.jsonl":
            lines = [data.draw(damaged_json({"iteration": i, "loss": {"a": [1]}})) for i in range(3)]
            file.write_text("".join(storage.to_json(line) + "\n" for line in lines))
        else:
            storage.write_json(file, data.draw(damaged_json(storage.from_json(intact))))
        with may_be_refused():
            go_on(place)

    bytes_of_it()
    content_of_it()


# Settings and maps ---------------------------------------------------------------------------------------------------


@few
@given(st.text(max_size=20) | st.sampled_from(["../reference", "/etc/passwd", "reference.toml", "reference\x00"]))
def test_presets_are_found_by_name_only(name):
    with may_be_refused():
        presets.load("mce", name, "tacit/Ant-v0")
        assert name in ("paper", "reference")


SWEEP = b"""algo = "mce-exact"
env = ["tacit/Gridworld-v0"]
seeds = [0, 1]
[settings]
beta = [0.1, 0.01]
objective = "likelihood"
[env_kwargs]
slip = [0.0, 0.1]
layout = \"\"\"
S.G
.X.
\"\"\"
"""


@many
@given(damaged_bytes(SWEEP))
def test_sweep_files(tmp_path_factory, data):
    file = tmp_path_factory.getbasetemp() / "sweep.toml"
    file.write_bytes(data)
    with may_be_refused():
        assert sweep_file.read(file)


MAP = b"description: two ways\nmoves: 8\nhorizon: 50\n\n.....\n.SX.G\n.#...\n"


@many
@given(damaged_bytes(MAP))
def test_maps(tmp_path_factory, data):
    file = tmp_path_factory.getbasetemp() / "map.txt"
    file.write_bytes(data)
    with may_be_refused():
        spec = make_spec(str(file))
        assert spec.targets.shape == (spec.n_states, spec.moves + 1)


def test_json_lines_of_any_bytes(folder):
    file = folder / "m.jsonl"
    lines = b"".join(json.dumps({"iteration": i}).encode() + b"\n" for i in range(3))

    @many
    @given(damaged_bytes(lines))
    def check(data):
        file.write_bytes(data)
        with may_be_refused():
            before = storage.read_jsonl(file)
            storage.append_jsonl(file, {"last": 1})
            assert storage.read_jsonl(file) == [*before, {"last": 1}]

    check()
