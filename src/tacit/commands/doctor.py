"""Is this installation in order? Versions, threads, and which extras are missing and how to get them.

Exit status 1 when something that the core needs is missing.

Examples:
  tacit doctor
  tacit doctor --json              to attach to a bug report
"""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

from tacit.commands import call, facts, new_table, print_json, print_table
from tacit.run import versions

CORE = ("numpy", "scipy", "gymnasium", "matplotlib", "rich", "tyro", "safetensors", "threadpoolctl")
EXTRAS = {
    "deep": (("jax", "optax", "equinox"), "PPO and the deep method"),
    "robots": (("mujoco", "imageio", "imageio-ffmpeg"), "the robot environments and their videos"),
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "XLA_FLAGS")


def examine() -> dict[str, Any]:
    """Everything that `tacit doctor` tells, as plain data."""
    from tacit import __version__

    core = versions(CORE)
    extras = {}
    for name, (packages, purpose) in EXTRAS.items():
        found = versions(packages)
        missing = [package for package in packages if package not in found]
        command = f"pip install 'tacit[{name}]'" if missing else None
        extras[name] = {"purpose": purpose, "versions": found, "missing": missing, "install": command}
    return {
        "tacit": __version__,
        "installed": versions(["tacit"]).get("tacit"),
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "cpu_count": _usable_cpus(),
        "threads": {name: os.environ.get(name) for name in THREADS},
        "core": core,
        "missing": [package for package in CORE if package not in core],
        "extras": extras,
        "advice": _advice(),
    }


def _usable_cpus() -> int:
    """Those that this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _advice() -> list[str]:
    advice = []
    if _usable_cpus() > 1 and not any(os.environ.get(name) for name in THREADS[:3]):
        advice.append(
            "several runs at once are fastest with one thread each: export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1"
        )
    try:
        mujoco = metadata.version("mujoco")
    except metadata.PackageNotFoundError:
        return advice
    if int(mujoco.split(".")[0]) >= 4:
        advice.append(f"mujoco {mujoco} moves robots differently from mujoco 3, for which the robots were made")
    return advice


def doctor(*, json: bool = False) -> int:
    """Examine the installation.

    Args:
        json: Print JSON.
    """
    found = examine()
    if json:
        print_json(found)
        return 1 if found["missing"] else 0
    core, extras, threads = found["core"], found["extras"], found["threads"]
    facts(
        {
            "tacit": found["tacit"],
            "python": f"{found['python']} on {found['platform']}",
            "processors": found["cpu_count"],
            **{name: value or "not set" for name, value in threads.items()},
        }
    )
    table = new_table("part", "for", "state")
    for column in table.columns:
        column.justify = "left"
    missing = ", ".join(f"{package} missing" for package in CORE if package not in core)
    table.add_row("core", "the exact method, gridworld, reports", missing or _listed(core))
    for name, extra in extras.items():
        lacking = ", ".join(f"{package} missing" for package in extra["missing"])
        state = lacking or _listed(extra["versions"])
        table.add_row(name, extra["purpose"], state)
    print_table(table)
    for name, extra in extras.items():
        if extra["install"]:
            print(f"to get {name}: {extra['install']}")
    for line in found["advice"]:
        print(f"advice: {line}")
    return 1 if found["missing"] else 0


def _listed(packages: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in packages.items())


def main(args: list[str]) -> int:
    return int(call(doctor, "doctor", __doc__, args))
