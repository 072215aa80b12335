"""Algorithms from outside the package: named by module, by entry point, refused when they are none; swept, resumed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tacit
from tacit import algorithms
from tacit.algorithms import every, find
from tacit.errors import UserError
from tacit.run import Run
from tacit.sweep import Job, prepare

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "own_algorithm.py"
PENDULUM = "tacit/Pendulum-v0"
TINY = ["--total-steps", 1024, "--bootstrap-steps", 512, "--forward-steps", 256, "--rollout-steps", 256]
TINY += ["--eval-episodes", 2]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The example as a file in the current folder, which is not on the path, and a module that nobody has imported."""
    shutil.copy(EXAMPLE, tmp_path / "own_algorithm.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    monkeypatch.delitem(sys.modules, "own_algorithm", raising=False)
    yield tmp_path
    sys.modules.pop("own_algorithm", None)


@pytest.fixture
def entry_point(monkeypatch):
    """Pretend that an installed package declares an entry point of this value."""

    def declare(name: str, value: str) -> None:
        entry = EntryPoint(name, value, algorithms.GROUP)
        monkeypatch.setattr(algorithms, "entry_points", lambda: (entry,))

    return declare


EXPERIMENT = """
name = "boxes"
description = "the box beside MCE-ICRL"
seeds = 1

[[group]]
name = "Pendulum"
env = "tacit/Pendulum-v0"

[[row]]
algo = "mce"

[[row]]
name = "box"
algo = "own_algorithm:Box"
settings = {margin = 0.1}
"""


@dataclass(frozen=True)
class Settings:
    number: int = 1


def forget(name: str) -> None:
    sys.modules.pop(name, None)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_learned_evaluated_explained_reported_resumed_swept(here, cli, monkeypatch):
    out = cli("learn", "own_algorithm:Box", PENDULUM, "--margin", 0.1, *TINY, "--json")
    assert out.status == 0, out.stderr
    run = Run.open(out.json()["run"])
    assert run.name.startswith("own-algorithm-box-pendulum-s0-")
    assert run.config["algo"] == "own_algorithm:Box"
    assert run.config["config"]["margin"] == 0.1
    for command in (("eval", run.path, "--episodes", 2), ("explain", run.path), ("report", run.path)):
        assert cli(*command).status == 0
    # The cost is the box: free inside, and the walls of the demonstrations.
    demos, cost = run.demonstrations(), tacit.load_cost(run)
    reached = demos.observations[demos.rows_before + 1]
    assert cost(reached).max() < 0.1
    outside = reached[:1] + 100 * cost.inputs.scale
    assert cost(outside)[0] == pytest.approx(len(cost.names), abs=1e-3)

    # A run folder holds its name: resuming does not import a file that lies in the current folder.
    (run.path / "DONE").unlink()
    (run.path / "checkpoints" / "step-00000003.safetensors").unlink(missing_ok=True)
    forget("own_algorithm")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(here)])
    refused = cli("resume", run.path)
    assert refused.status == 2
    assert "cannot import 'own_algorithm', the module of the algorithm" in refused.stderr
    monkeypatch.syspath_prepend(str(here))
    before = run.load_model("policy")[0]
    assert cli("resume", run.path).status == 0
    assert all((array == run.load_model("policy")[0][name]).all() for name, array in before.items())

    task = prepare([Job("own_algorithm:Box", PENDULUM, settings={"margin": 0.2})], here / "sweep")[0]
    assert task.path.name.startswith("own-algorithm-box-")


FENCE = """
from dataclasses import replace

import numpy as np
import own_algorithm


class Fence(own_algorithm.Box):
    name = "fence"

    def step(self, config, state, evidence, rng):
        low = np.asarray(state.params["low"])
        return replace(state, params={**state.params, "low": low - 0.1 * rng.random(low.shape, np.float32)}), {}
"""
"""A box with walls that move at random: a resumed run differs unless the state is whole. It logs nothing of its own."""


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_killed_and_resumed(here, cli):
    (here / "fence.py").write_text(FENCE)
    short = ["--bootstrap-steps", "256", "--forward-steps", "256", "--rollout-steps", "256", "--n-envs", "8"]
    short += ["--total-steps", "8192", "--epochs", "2", "--hidden", "8", "--eval-episodes", "2"]
    learn = ["learn", "fence:Fence", "tacit/SlowZone-v0", *short, "--checkpoint-every", "1"]
    process = subprocess.Popen([sys.executable, "-m", "tacit", *learn, "--out", "killed"], stderr=subprocess.PIPE)
    while process.poll() is None and not list(here.glob("killed/*/checkpoints/*.safetensors")):
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL, process.communicate()[1]
    (killed,) = (here / "killed").iterdir()
    assert not (killed / "DONE").exists()
    path = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "tacit", "resume", str(killed)]
    resumed = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    whole = Run.open(cli(*learn, "--out", "whole", "--json").json()["run"])
    for name in ("policy", "cost"):
        once, twice = whole.load_model(name)[0], Run.open(killed).load_model(name)[0]
        assert all(np.array_equal(once[key], twice[key]) for key in once)
    # What a step does not log itself, the loop adds.
    assert all("dual/learner_cost" in record for record in whole.metrics())


def test_compared_in_an_experiment(here, cli, monkeypatch):
    monkeypatch.syspath_prepend(str(here))
    (here / "boxes.toml").write_text(EXPERIMENT)
    out = cli("reproduce", "boxes.toml", "--dry-run")
    assert out.status == 0, out.stderr
    assert "2 jobs" in out.stdout + out.stderr


def test_from_python(here):
    assert find("own_algorithm:Box", here=True).config(PENDULUM, settings={"steepness": 10}).steepness == 10.0


def test_entry_points_are_listed_and_found(here, cli, entry_point, monkeypatch):
    monkeypatch.syspath_prepend(str(here))
    entry_point("fence", "own_algorithm:Box")
    assert find("fence").summary == "The box around the demonstrations, with PPO as the forward step"
    assert "fence" in {algorithm.name for algorithm in every()}
    listed = cli("learn", "--help").stdout
    assert "fence " in listed
    assert "MODULE:NAME" in listed
    assert cli("learn", "fence", "--help").status == 0


def test_a_package_that_cannot_be_loaded_hides_no_other(entry_point, cli):
    entry_point("broken", "no_such_module_at_all:Method")
    assert "mce" in {algorithm.name for algorithm in every()}
    assert "broken" not in cli("learn", "--help").stdout
    with pytest.raises(UserError, match=r"algorithm broken .* cannot be loaded"):
        find("broken")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "own_method has no Method, so there is no algorithm own_method:Method"),
        ("class Method: pass", "own_method:Method is not an algorithm: it has no Config and no train"),
        ("class Method:\n    Config = int\n    def train(self): pass", "own_method:Method.Config must be a dataclass"),
        ("raise RuntimeError('on fire')", "importing 'own_method' raised RuntimeError: on fire"),
    ],
)
def test_what_is_no_algorithm(tmp_path, monkeypatch, content, message):
    (tmp_path / "own_method.py").write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    forget("own_method")
    with pytest.raises(UserError, match=message):
        find("own_method:Method", here=True)
    forget("own_method")


def test_names_that_do_not_exist(cli):
    assert "did you mean 'mce'?" in cli("learn", "mcee", PENDULUM).stderr
    assert "is named own.thing:MyMethod" in cli("learn", "own.thing", PENDULUM).stderr


def test_an_object_will_do(monkeypatch):
    """No class is needed: a namespace, or a module, with Config and train."""
    method = SimpleNamespace(Config=Settings, train=lambda *given: {"steps": 0}, summary="Nothing at all.")
    monkeypatch.setitem(sys.modules, "own_namespace", SimpleNamespace(method=method, __name__="own_namespace"))
    algorithm = find("own_namespace:method")
    assert algorithm.summary == "Nothing at all"
    assert algorithm.config("any", settings={"number": 3}) == Settings(3)
