"""Single tricks of a hostile run folder, cost file or map, each of which once worked."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks.maps import large_map

import hostile
import tacit
from tacit import demos as demonstrations
from tacit.cli import main
from tacit.cost import load_cost
from tacit.cost.ensemble import CostEnsemble
from tacit.envs.gridworld import make_spec
from tacit.errors import UserError
from tacit.run import Run, storage, terminal
from tacit.run.trainer import resume_point

ENV = {**os.environ, "PYTHONPATH": str(Path(tacit.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


# Modules beside a run ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shadowed", ["evil_module", "signal", "threading", "numpy", "__future__", "json"])
def test_no_module_of_the_current_folder_is_imported(shadowed, tmp_path):
    (tmp_path / f"{shadowed}.py").write_text("open('ran', 'w')\nraise SystemExit(9)\n")
    run = Run.start(tmp_path, algo="bc", env="evil_module:Evil-v0", env_kwargs={}, seed=0, config={})
    command = [sys.executable, "-m", "tacit", "report", run.path.name]
    ended = subprocess.run(command, cwd=tmp_path, env=ENV, capture_output=True, text=True)
    assert ended.returncode in (0, 1, 2), ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "ran").exists()


def test_a_module_that_was_typed_is_found_in_the_current_folder(tmp_path):
    (tmp_path / "my_module.py").write_text("open('ran', 'w')\n")
    command = [sys.executable, "-m", "tacit", "learn", "bc", "my_module:Mine-v0"]
    ended = subprocess.run(command, cwd=tmp_path, env=ENV, capture_output=True, text=True)
    assert ended.returncode == 2, ended.stderr
    assert (tmp_path / "ran").exists()


# Costs that forbid nothing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("card", [{"threshold": float("inf")}, {"threshold": 1e300}, {"clip": float("inf")}])
def test_endless_thresholds(card, tmp_path):
    with pytest.raises(UserError, match="damaged"):
        load_cost(hostile.network(tmp_path, "cost", **card))


@pytest.mark.parametrize("name", ["lam", "slopes", "offsets", "weight0", "bias0", "weight1"])
def test_weights_that_overflow(name, tmp_path):
    path = hostile.network(tmp_path, "cost")
    arrays, card = storage.load_arrays(path)
    one, vector = np.ones((1, 1), np.float32), np.ones(1, np.float32)
    arrays |= {"weight0": one, "bias0": vector, "weight1": one, "bias1": vector, "lam": np.ones(2, np.float32)}
    storage.save_arrays(path, arrays, card)
    assert np.isfinite(load_cost(path)(np.array([0]))).all()
    storage.save_arrays(path, {**arrays, name: np.full_like(arrays[name], 3e38)}, card)
    with pytest.raises(UserError, match="so large"):
        load_cost(path)


def test_tables_and_ensembles(tmp_path):
    arrays = {"cost": np.ones((1, 1)), "cells": np.zeros((1, 2), np.int64), "weights": np.ones(1)}
    path = tmp_path / "a.safetensors"
    for bad, card in ((1e300, {}), (np.inf, {}), (1.0, {"threshold": float("inf")})):
        storage.save_arrays(path, {**arrays, "cost": np.full((1, 1), bad)}, {"kind": "tabular", **card})
        with pytest.raises(UserError, match="damaged"):
            load_cost(path)
    arrays, card = storage.load_arrays(hostile.network(tmp_path, "cost"))
    stacked = {name: array[None] if name in ("lam", "slopes", "offsets") else array for name, array in arrays.items()}
    with pytest.raises(UserError, match="damaged"):
        CostEnsemble.from_arrays({**stacked, "thresholds": np.array([np.inf])}, {**card, "kind": "ensemble"})


# Texts ---------------------------------------------------------------------------------------------------------------

NASTY = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b1m\x7f\u202etxt\r"


def test_cleaning():
    assert terminal.clean("two\nlines\tand ümläut") == "two\nlines\tand ümläut"
    cleaned = terminal.clean(NASTY)
    assert cleaned.isprintable()
    assert cleaned.startswith("\\x1b]0;owned\\x07")


def test_escape_codes_do_not_reach_the_terminal(tmp_path, capsys):
    run = Run.start(tmp_path, algo="bc", env="tacit/Gridworld-v0", env_kwargs={}, seed=0, config={})
    storage.save_arrays(run.path / "model" / "cost.safetensors", {"a": np.ones(1)}, {"kind": NASTY, "env": NASTY})
    demos = tmp_path / "a.npz"
    one = demonstrations.Demonstrations(
        observations=np.zeros((2, 2)),
        actions=np.zeros(1, np.int64),
        rewards=np.zeros(1),
        costs=None,
        lengths=np.array([1]),
        terminated=np.array([True]),
        card={"env": NASTY, "source": NASTY, "note": NASTY, "feature_names": [NASTY, "b"]},
    )
    demonstrations.save(one, demos)
    config = storage.read_json(run.path / "config.json")
    storage.write_json(run.path / "config.json", {**config, "algo": NASTY, "env": NASTY})
    for command in (
        ["demos", "show", str(demos)],
        ["demos", "show", str(demos), "--json"],
        ["demos", "validate", str(demos)],
    ):
        main(command)
    for verb in ("report", "explain", "eval", "resume", "certify", "calibrate", "export"):
        main([verb, str(run.path)])
    output = capsys.readouterr()
    for text in (output.out, output.err):
        assert terminal.clean(text) == text
    assert "owned" in output.out
    assert "owned" in output.err


# Maps ----------------------------------------------------------------------------------------------------------------


def test_a_layout_in_a_run_folder_reads_no_file(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("password: hunter2\n")
    options = {"layout": str(secret)}
    with pytest.raises(UserError, match="names a map file") as caught:
        Run.start(tmp_path, algo="mce-exact", env="tacit/Gridworld-v0", env_kwargs=options, seed=0, config={})
    assert "password" not in str(caught.value)


def test_a_layout_in_demonstrations_reads_no_file(tmp_path, capsys):
    secret, file = tmp_path / "secret.txt", str(tmp_path / "a.npz")
    secret.write_text("password: hunter2\n")
    demos = demonstrations.Demonstrations(
        observations=np.zeros((2, 2)),
        actions=np.zeros(1, np.int64),
        rewards=np.zeros(1),
        costs=None,
        lengths=np.array([1]),
        terminated=np.array([True]),
        card={"env": "tacit/Gridworld-v0", "env_kwargs": {"layout": str(secret)}},
    )
    demonstrations.save(demos, file)
    learn = ["learn", "mce-exact", "tacit/Gridworld-v0", "--demos", file, "--out", str(tmp_path)]
    for command in (["demos", "validate", file], learn, ["preflight", "tacit/Gridworld-v0", "--demos", file]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "names a map file" in said
        assert "password" not in said


@pytest.mark.parametrize("rows", ["S" + "." * 199_998 + "G", "S\n" + ".\n" * 199_998 + "G", "." * 1001 + "\n"])
def test_limits_are_on_cells(rows):
    with pytest.raises(UserError, match="too many"):
        make_spec(rows + "\n")


def test_large_maps_are_still_read():
    assert make_spec(large_map(300)).n_states == 90_000


# Checkpoints ---------------------------------------------------------------------------------------------------------


class Learner:
    """A learner whose state is read without a thought."""

    @staticmethod
    def from_arrays(arrays, metadata):
        return metadata["steps"] + metadata["inner"]["x"]


@pytest.mark.parametrize("state", [None, 3, [], {}, {"steps": None, "inner": {"x": 1}}, {"steps": 1, "inner": None}])
def test_checkpoints_without_metadata(state, tmp_path):
    run = Run.start(tmp_path, algo="bc", env="x", env_kwargs={}, seed=0, config={})
    run.save_checkpoint(1, {"a": np.ones(1)}, {"state": state})
    with pytest.raises(UserError, match="cannot continue from step-00000001"):
        resume_point(run, Learner())


# Ctrl-C --------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.skipif(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, reason="a job in the background ignores Ctrl-C")
@pytest.mark.parametrize("seconds", [0.3, 0.7, 1.2, 2.5])
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c(seconds, times, tmp_path):
    command = [sys.executable, "-m", "tacit", "learn", "mce-exact", "tacit/Gridworld-v0", "--layout", "map.txt"]
    (tmp_path / "map.txt").write_text(large_map(60))  # takes longer than the test
    process = subprocess.Popen(
        command, cwd=tmp_path, env=ENV, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    time.sleep(seconds)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    try:
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert "Traceback" not in said
    assert process.returncode == 130
    assert "stopped" in said
