"""Runs by name: the list, beginnings of names, `latest`; and how much is said with -q and -v."""

from __future__ import annotations

import ast
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tacit
from tacit import startup
from tacit.run.find import find_run

FIXTURES = Path(__file__).parents[1] / "fixtures/v0.1/finished"
EXACT, DEEP = "mce-exact-gridworld-s0-354b6c59", "mce-pendulum-s0-9a64a54d"


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two finished runs in ./runs, the deep one the newer."""
    monkeypatch.chdir(tmp_path)
    for age, name in enumerate((DEEP, EXACT)):
        shutil.copytree(FIXTURES / name.partition("-gridworld")[0].partition("-pendulum")[0] / name, f"runs/{name}")
        os.utime(f"runs/{name}/provenance.json", (1e9 - 10_000 * age,) * 2)
    return tmp_path / "runs"


def test_lists_the_newest_first_with_what_it_found(cli, runs):
    lines = cli("runs").stdout.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [DEEP, EXACT]
    rule = json.loads((runs / EXACT / "explanation.json").read_text())["rule"]
    assert f"  forbidden: {rule}" in lines
    assert [row["run"] for row in cli("runs", "mce-exact", "--json").json()] == [EXACT]


def test_lists_what_is_not_finished_or_damaged(cli, runs):
    (runs / DEEP / "DONE").unlink()
    (runs / EXACT / "config.json").write_text("{")
    states = {row["run"]: row["state"] for row in cli("runs", "--json").json()}
    assert states == {DEEP: "interrupted", EXACT: "damaged"}


def test_an_empty_folder_says_how_to_begin(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "tacit demo" in cli("runs").stdout
    assert cli("runs", "--in", "nowhere").status == 2
    assert "no run" in cli("explain", "latest").stderr


def test_names(runs):
    assert find_run("latest").name == DEEP
    assert find_run("mce-p").name == find_run(f"runs/{DEEP}").name == DEEP
    assert find_run("mce-exact").name == EXACT
    with pytest.raises(tacit.UserError, match="beginning of 2 runs"):
        find_run("mce")
    with pytest.raises(tacit.UserError, match="no run folder"):
        find_run("bc")


def test_wherever_a_run_is_asked_for(cli, runs):
    assert cli("explain", "mce-exact", "--json").json()["run"].endswith(EXACT)
    assert cli("report", "latest", "--json").json()["runs"] == [f"runs/{DEEP}"]


def test_quiet_and_verbose(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    learn = ("learn", "mce-exact", "tacit/Gridworld-v0")
    normal, quiet = cli(*learn, "--out", "a"), cli("-q", *learn, "--out", "b")
    assert "by the built-in expert" in normal.stderr
    assert quiet.stderr == ""
    assert quiet.stdout.replace("b/", "a/") == normal.stdout
    assert "debug: wrote" in cli(*learn, "--out", "c", "-v").stderr
    assert "Traceback" not in cli("explain", "nothing").stderr
    wrong = cli("explain", "nothing", "-v")
    assert "Traceback" in wrong.stderr
    assert wrong.stderr.splitlines()[-1].startswith("error: ")
    assert not logging.getLogger("tacit").handlers  # nothing is left behind


def test_the_library_prints_nothing(tmp_path, capfd, caplog):
    with caplog.at_level(logging.INFO, logger="tacit"):
        tacit.learn("tacit/Gridworld-v0", method="mce-exact", out=tmp_path)
    assert capfd.readouterr() == ("", "")
    assert "by the built-in expert" in caplog.text
    assert "mce-exact, beta" in caplog.text  # progress is a message, too


def test_no_module_of_the_library_prints():
    root = Path(tacit.__file__).parent
    programs = {"cli.py", "run/log.py", "startup.py", "terminal.py", "sweep/worker.py"}
    printing = {
        str(path.relative_to(root)) for path in root.rglob("*.py") if path.parent.name != "commands" and _prints(path)
    }
    assert printing <= programs


def _prints(path: Path) -> bool:
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return any(isinstance(name, ast.Name) and name.id == "print" for name in calls)


@pytest.mark.parametrize("words", [("learn", "mce"), ("expert",), ("learn", "bc2l"), ("retrain",), ("eval",)])
def test_help_without_the_extras(words, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('jax', 'jaxlib', 'optax', 'equinox', 'mujoco', 'torch'):\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
    )
    command = [sys.executable, "-m", "tacit", *words, "--help"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"usage: tacit {' '.join(words)}" in done.stdout


@pytest.mark.parametrize(
    ("called", "on_the_path", "said"),
    [
        ("venv/bin/tacit", False, "venv/bin/tacit"),
        ("venv/bin/tacit", True, "tacit"),
        ("site-packages/tacit/__main__.py", False, "python -m tacit"),
        ("site-packages/tacit/__main__.py", True, "tacit"),
    ],
)
def test_what_to_type_next_is_what_was_typed(called, on_the_path, said, tmp_path, monkeypatch):
    program = tmp_path / "venv/bin/tacit"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / called), "demo"])
    monkeypatch.setenv("PATH", str(program.parent) if on_the_path else "")
    assert startup.program() == said
