"""`tacit.learn`: the deep method in five lines of Python."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tacit
from tacit import demos as demonstrations
from tacit.algorithms import find
from tacit.launch import resolve

PENDULUM = "tacit/Pendulum-v0"
TINY = {
    "total_steps": 2048,
    "bootstrap_steps": 1024,
    "forward_steps": 1024,
    "rollout_steps": 512,
    "minibatches": 5,
    "eval_episodes": 2,
    "hidden": (8,),
}


def test_learns_from_demonstrations_in_memory_and_finds_the_run_again(tmp_path):
    data = demonstrations.load(demonstrations.shipped(PENDULUM)).subset(np.arange(6))
    learned = tacit.learn(PENDULUM, data, seed=3, out=tmp_path, **TINY)
    assert learned.path.parent == tmp_path
    assert learned.summary["steps"] == 2048
    assert learned.cost(np.zeros((2, 4), np.float32)).shape == (2,)
    assert learned.map(np.zeros((2, 4), np.float32)).shape == (2,)
    assert learned.policy.act(np.zeros((2, 4), np.float32), np.random.default_rng(0)).shape == (2, 1)
    assert learned.report().read_text().startswith("<!doctype html>")
    assert learned.run.demonstrations().sha256 == data.sha256

    # The same settings as the command line's, so the same folder; and a file is as good as an object.
    demonstrations.save(data, tmp_path / "demos.npz")
    again = tacit.learn(PENDULUM, tmp_path / "demos.npz", preset="reference", seed=3, out=str(tmp_path), **TINY)
    assert again.path == learned.path
    assert again.summary["table"] == learned.summary["table"]


def test_preset_is_that_of_the_command_line():
    settings, data = resolve("mce", PENDULUM, say=lambda _: None)
    assert len(data) > 6  # those that come with Tacit
    assert settings["config"]["start"] == find("mce").config(PENDULUM, "reference").start == "clone"


def test_mistakes_are_said_at_once(tmp_path):
    with pytest.raises(tacit.UserError, match="total_steps"):
        tacit.learn(PENDULUM, out=tmp_path / "r", totl_steps=5)
    with pytest.raises(tacit.UserError, match="does not learn"):
        tacit.learn(PENDULUM, algo="expert", out=tmp_path / "r")
    data = demonstrations.load(demonstrations.shipped(PENDULUM))
    with pytest.raises(tacit.UserError, match="was made in tacit/Pendulum-v0"):
        tacit.learn("tacit/Ant-v0", data, out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_importing_tacit_loads_none_of_it():
    code = "import sys, tacit; print(any(m in sys.modules for m in ('tacit.launch', 'jax', 'matplotlib')), tacit.learn)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False <function learn")


def test_help_says_where_demonstrations_come_from_and_shows_deep_examples(capsys):
    from tacit.cli import main

    assert main(["learn", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "robots and highway use the demonstrations that come with Tacit" in text
    assert "tacit learn mce tacit/HalfCheetah-v0" in text
