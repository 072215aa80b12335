"""Check this installation: versions, threads, and how to install what is missing.

The exit status is 1 if a package that the core needs is missing or too old.

Examples:
  tacit doctor
  tacit doctor --json              to attach to a bug report
"""

from __future__ import annotations

import os
import platform
import re
import sys
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit import __version__
from tacit.commands import facts, new_table, print_json, print_table
from tacit.errors import DISTRIBUTION, install_command
from tacit.run import versions
from tacit.run.machine import usable_cpus

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PURPOSES = {
    "deep": "PPO and the deep method",
    "robots": "the robot environments and their videos",
    "onnx": "policies and costs as ONNX graphs",
    "minari": "demonstrations from and to Minari",
    "tensorboard": "curves in TensorBoard",
    "wandb": "curves in Weights & Biases",
    "sb3": "agents of Stable-Baselines3, torch modules",
    "ray": "sweeps over many machines",
    "all": "deep and robots together",
    "recordings": "making the shipped traffic recordings anew",
    "commonroad": "another implementation of the traffic's geometry, for tests",
    "docs": "the documentation as a site",
    "dev": "tests and tools of this project",
}
LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")
THREADS = (*LIBRARIES, "XLA_FLAGS")
ROOT = Path(__file__).resolve().parents[3]
"""The folder of a clone. An installed package has neither pyproject.toml nor lock files there."""


@cache
def requirements() -> dict[str, list[Requirement]]:
    """{extra: what it needs}, the core under ""; from pyproject.toml in a clone, else from what was installed."""
    from packaging.requirements import Requirement

    file = ROOT / "pyproject.toml"
    if file.is_file():
        table = tomllib.loads(file.read_text("utf-8"))["project"]
        texts = {"": table["dependencies"], **table["optional-dependencies"]}
        return _written_out({extra: [Requirement(line) for line in lines] for extra, lines in texts.items()})
    wanted: dict[str, list[Requirement]]
    wanted = {"": [], **{extra: [] for extra in metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or []}}
    for text in metadata.requires(DISTRIBUTION) or []:
        requirement = Requirement(text)
        extra = re.search(r"extra == ['\"]([^'\"]+)", str(requirement.marker or ""))
        wanted.setdefault(extra[1] if extra else "", []).append(requirement)
    return _written_out(wanted)


def _written_out(extras: dict[str, list[Requirement]]) -> dict[str, list[Requirement]]:
    """The project's own extras replaced by what they need."""

    def of(extra: str, above: tuple[str, ...] = ()) -> list[Requirement]:
        result: list[Requirement] = []
        for requirement in extras.get(extra, []):
            inner = sorted(requirement.extras - {*above, extra})
            own = requirement.name == DISTRIBUTION
            result += [one for name in inner for one in of(name, (*above, extra))] if own else [requirement]
        return result

    return {extra: of(extra) for extra in extras}


def examine() -> dict[str, Any]:
    """The report of `tacit doctor` as plain data."""
    needed = requirements()
    names = {extra: list(dict.fromkeys(one.name for one in wanted)) for extra, wanted in needed.items()}
    core = versions(names[""])
    extras: dict[str, dict[str, Any]] = {}
    for extra in sorted(names.keys() - {""}, key=lambda name: [*PURPOSES, name].index(name)):
        present = versions(names[extra])
        missing = [package for package in names[extra] if package not in present]
        extras[extra] = {
            "purpose": PURPOSES.get(extra, ""),
            "versions": present,
            "missing": missing,
            "install": install_command(extra) if missing else None,
        }
    installed = {**core, **{name: version for extra in extras.values() for name, version in extra["versions"].items()}}
    wrong = mismatches(needed, installed)
    return {
        "tacit": __version__,
        "installed": versions(["tacit"]).get("tacit"),
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "cpu_count": usable_cpus(),
        "threads": {name: os.environ.get(name) for name in THREADS},
        "core": core,
        "missing": [package for package in names[""] if package not in core],
        "mismatches": wrong,
        "unlocked": unlocked(installed),
        "extras": extras,
        "advice": _advice(installed, wrong),
    }


def mismatches(needed: dict[str, list[Requirement]], installed: dict[str, str]) -> list[dict[str, str]]:
    """Installed packages whose version is not one that Tacit, or JAX, asks for."""
    wrong: dict[str, dict[str, str]] = {}
    for extra, wanted in needed.items():
        for one in wanted:
            version = installed.get(one.name)
            if version is not None and not one.specifier.contains(version, prereleases=True):
                wrong.setdefault(one.name, _mismatch(one.name, version, one.specifier, extra or "core"))
    jaxlib = versions(["jaxlib"]).get("jaxlib")
    specifier = _jaxlib_wanted() if "jax" in installed else None
    if specifier is not None and (jaxlib is None or not specifier.contains(jaxlib, prereleases=True)):
        wrong["jaxlib"] = _mismatch("jaxlib", jaxlib or "none", specifier, f"jax {installed['jax']}")
    return list(wrong.values())


def _mismatch(package: str, version: str, specifier: object, wanted_for: str) -> dict[str, str]:
    return {"package": package, "installed": version, "wanted": str(specifier), "for": wanted_for}


def _jaxlib_wanted() -> Any:
    """The versions of jaxlib that the installed JAX works with."""
    from packaging.requirements import Requirement

    for text in metadata.requires("jax") or []:
        one = Requirement(text)
        if one.name == "jaxlib" and one.marker is None:
            return one.specifier
    return None


def unlocked(installed: dict[str, str]) -> dict[str, str]:
    """{package: version in the lock file} where a clone has one and another version is installed."""
    file = ROOT / "requirements" / "dev.lock"
    if not file.is_file():
        return {}
    pinned: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", file.read_text("utf-8"), re.MULTILINE):
        pinned.setdefault(_plain(name), []).append(version)
    return {
        name: " or ".join(pinned[_plain(name)])
        for name, version in installed.items()
        if _plain(name) in pinned and version not in pinned[_plain(name)]
    }


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _advice(installed: dict[str, str], wrong: list[dict[str, str]]) -> list[str]:
    advice = [
        f"{one['package']} {one['installed']} is installed, {one['for']} wants {one['package']}{one['wanted']}: "
        f"pip install '{one['package']}{one['wanted']}'"
        for one in wrong
    ]
    if int(installed.get("mujoco", "3").split(".")[0]) > 3:
        advice.append(
            f"mujoco {installed['mujoco']} moves robots differently from mujoco 3, for which the robots were made"
        )
    return advice + thread_advice(usable_cpus())


def thread_advice(cpus: int) -> list[str]:
    """Advice if more threads are asked for than there are processors, or if nothing sets their number."""
    advice = []
    for name in LIBRARIES:
        value = os.environ.get(name, "")
        if value and not value.isdigit():
            advice.append(f"{name} is {value!r}, which is no number of threads")
        elif value and int(value) > cpus:
            advice.append(f"{name}={value} on {cpus} processors: that is slower; export {name}={cpus} or less")
    if cpus > 1 and not any(os.environ.get(name) for name in LIBRARIES[:3]):
        advice.append(
            "several runs at once are fastest with one thread each: export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1"
        )
    for pool in _pools():
        if pool["num_threads"] > cpus and not any(os.environ.get(name) for name in LIBRARIES[:3]):
            advice.append(f"{pool['internal_api']} uses {pool['num_threads']} threads on {cpus} processors")
    return advice


def _pools() -> list[dict[str, Any]]:
    """The thread pools of the libraries that are loaded."""
    try:
        from threadpoolctl import threadpool_info
    except ModuleNotFoundError:
        return []
    return list(threadpool_info())


def doctor(*, json: bool = False) -> int:
    """Check the installation.

    Args:
        json: Print everything as JSON.
    """
    state = examine()
    status = 1 if state["missing"] or any(one["for"] == "core" for one in state["mismatches"]) else 0
    if json:
        print_json(state)
        return status
    core, extras, threads = state["core"], state["extras"], state["threads"]
    facts(
        {
            "tacit": state["tacit"],
            "python": f"{state['python']} on {state['platform']}",
            "processors": state["cpu_count"],
            **{name: value or "not set" for name, value in threads.items()},
        }
    )
    table = new_table("part", "for", "state")
    for column in table.columns:
        column.justify = "left"
    basis = {"purpose": "the exact method, gridworld, reports", "versions": core, "missing": state["missing"]}
    for name, part in {"core": basis, **extras}.items():
        lacking = ", ".join(f"{package} missing" for package in part["missing"])
        versions_there = ", ".join(f"{package} {version}" for package, version in part["versions"].items())
        table.add_row(name, part["purpose"], lacking or versions_there)
    print_table(table)
    if state["missing"]:
        print(f"to get what the core lacks: pip install {' '.join(state['missing'])}")
    if any(extra["install"] for extra in extras.values()):
        print(f"to get a part: {install_command('PART')}")
    for line in state["advice"]:
        print(f"advice: {line}")
    if state["unlocked"]:
        names = ", ".join(f"{name} ({version})" for name, version in state["unlocked"].items())
        print(f"note: these versions differ from requirements/dev.lock (in brackets): {names}")
    return status
