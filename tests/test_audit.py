"""`make audit`: what is wrong with lock files is found, and silence of the advisory service is never taken for good."""

import importlib.util
import json
import stat
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("audit", ROOT / "tools" / "audit.py")
audit = sys.modules["audit"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(audit)

HASH = "--hash=sha256:" + "0a" * 32
PROJECT = """
[project]
name = "tacit"
dependencies = ["one>=1.2", "two"]
[project.optional-dependencies]
deep = ["three>=3,<4"]
all = ["tacit[deep]"]
dev = ["tacit[all]", "four[x]>=4"]
sb3 = ["torch==9.9"]
ray = []
wandb = []
onnx = []
minari = []
tensorboard = []
[dependency-groups]
build = ["back>=1"]
release = [{ include-group = "build" }, "front"]
extras = ["five<6"]
"""
CORE = f"one==1.3 \\\n    {HASH}\ntwo==2.0 ; python_version < '3.12' \\\n    {HASH} \\\n    {HASH}\n"
BUILD = f"back==1.0 {HASH}\n"
RELEASE = BUILD + f"front==2.0 {HASH}\n"
EXTRAS = CORE + f"five==5.0 {HASH}\n"
DEV = CORE + f"# a remark\nthree==3.1 \\\n    {HASH}\nFour==4.0 {HASH}\n"


@pytest.fixture
def project(tmp_path):
    def write(text=PROJECT, **changed):
        (tmp_path / "requirements").mkdir(exist_ok=True)
        (tmp_path / "pyproject.toml").write_text(text)
        locks = {"core": CORE, "dev": DEV, "build": BUILD, "release": RELEASE, "extras": EXTRAS} | changed
        for name, lock in locks.items():
            (tmp_path / "requirements" / f"{name}.lock").write_text(lock)
        return tmp_path

    return write


def test_good_lock_files(project):
    assert audit.problems(project()) == []
    assert audit.main(["--offline"], project()) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dev": DEV.replace(f"three==3.1 \\\n    {HASH}", "three==3.1")}, "three 3.1 has no hash"),
        ({"dev": DEV.replace("three==3.1", "three==4.1")}, "three 4.1, and pyproject.toml asks for <4,>=3"),
        ({"dev": DEV.replace("three==3.1", "three>=3.1")}, "three is not pinned"),
        ({"dev": DEV.replace("three==3.1", "three==3.*")}, "three is not pinned"),
        ({"dev": DEV.replace("Four==4.0", "five==4.0")}, "four is missing"),
        ({"dev": DEV.replace("one==1.3", "one==1.4")}, "one is 1.3 in core.lock and 1.4 in dev.lock"),
        ({"core": "--extra-index-url https://elsewhere.example\n" + CORE}, "is an option"),
        ({"build": BUILD.replace(HASH, "")}, "build.lock: back 1.0 has no hash"),
        ({"build": BUILD.replace("back==1.0", "back==0.9")}, "build.lock: back 0.9, and pyproject.toml asks for >=1"),
        ({"release": BUILD}, "release.lock: front is missing"),
        ({"release": RELEASE.replace("back", "Back2")}, "release.lock: back is missing"),
        ({"extras": EXTRAS.replace("five==5.0", "five==6.0")}, "extras.lock: five 6.0"),
        ({"extras": EXTRAS.replace("one==1.3", "one==1.4")}, "one is 1.4 in extras.lock and 1.3 in dev.lock"),
        ({"core": CORE.replace("one==1.3", "one==1.1")}, "core.lock: one 1.1, and pyproject.toml asks for >=1.2"),
    ],
)
def test_bad_lock_files(project, capsys, change, said):
    root = project(**change)
    assert any(said in problem for problem in audit.problems(root)), audit.problems(root)
    assert audit.main(["--offline"], root) == 1
    assert said in capsys.readouterr().err


@pytest.fixture
def service(tmp_path):
    def write(answer, status=0, err=""):
        script = tmp_path / "pip-audit"
        script.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\necho '{err}' >&2\nexit {status}\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return str(script)

    return write


def test_what_the_service_says(project, service, capsys):
    fine = {"dependencies": [{"name": "one", "version": "1.3", "vulns": []}]}
    assert audit.main([service(json.dumps(fine))], project()) == 0
    flaw = {"name": "one", "version": "1.3", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.4"]}]}
    assert audit.main([service(json.dumps({"dependencies": [flaw]}), 1)], project()) == 1
    assert "one 1.3: PYSEC-1, fixed in 1.4" in capsys.readouterr().out
    unknown = {"dependencies": [{"name": "one", "skip_reason": "not found"}]}
    assert audit.main([service(json.dumps(unknown))], project()) == 1


def test_a_service_that_does_not_answer_is_no_good_news(project, service, capsys):
    assert audit.main([service("", 1, "ConnectionError: Max retries exceeded")], project()) == 2
    said = capsys.readouterr().err
    assert "could not be asked (ConnectionError: Max retries exceeded)" in said
    assert "NOTHING WAS AUDITED" in said
    assert audit.main(["/no/such/pip-audit"], project()) == 2


def test_the_lock_files_of_this_project():
    assert audit.problems(ROOT) == []
