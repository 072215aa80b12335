"""Are the pinned dependencies what they should be, and is anything known against them?

    python tools/audit.py --offline          lock files and pyproject.toml agree, and every entry has hashes
    python tools/audit.py PIP_AUDIT          the same, and then what PIP_AUDIT (its executable) knows of the versions

Exit status: 0 nothing found; 1 the files disagree, or a version has a known vulnerability; 2 the advisory service could
not be asked, which means that nothing is known. `make audit` installs pip-audit in an environment of its own.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Lock:
    """What a lock file is for."""

    extras: tuple[str, ...] = ()
    group: str | None = None
    """A dependency group of pyproject.toml."""
    project: bool = True
    """Does it hold the dependencies of the project?"""
    without: frozenset[str] = frozenset()
    """Packages that are left out on purpose."""


LOCKS = {
    "core.lock": Lock(),
    "dev.lock": Lock(extras=("dev",)),
    "build.lock": Lock(group="build", project=False),
    "release.lock": Lock(group="release", project=False),
    # torch: builds of one version, with and without CUDA, differ from index to index.
    "extras.lock": Lock(
        extras=("sb3", "ray", "wandb", "onnx", "minari", "tensorboard"), group="extras", without=frozenset({"torch"})
    ),
}
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
CLEAN, FOUND, UNKNOWN = 0, 1, 2


def entries(lock: str) -> Iterator[tuple[str, int]]:
    """(requirement, number of hashes) of each entry of a lock file."""
    for entry in lock.replace("\\\n", " ").splitlines():
        words = entry.partition("#")[0].strip()
        if words:
            yield HASH.sub("", words).strip(), len(HASH.findall(words))


def wanted(project: dict[str, Any], lock: Lock) -> list[Requirement]:
    """What pyproject.toml asks for, the extras of the project itself and groups within groups written out."""
    table = project["project"]
    extras, groups = table.get("optional-dependencies", {}), project.get("dependency-groups", {})
    texts = list(table.get("dependencies", [])) if lock.project else []
    waiting = [*lock.extras]
    seen: set[str] = set()
    members = list(groups[lock.group]) if lock.group else []
    while members:
        member = members.pop()
        if isinstance(member, str):
            texts.append(member)
        else:
            members += groups[member["include-group"]]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        for text in extras[one]:
            requirement = Requirement(text)
            if canonicalize_name(requirement.name) == canonicalize_name(str(table["name"])):
                waiting += sorted(requirement.extras)
            else:
                texts.append(text)
    return [requirement for text in texts if (requirement := Requirement(text)).name not in lock.without]


def problems(root: Path) -> list[str]:
    """What is wrong with the lock files, one sentence each."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    found: list[str] = []
    pinned: dict[str, dict[str, set[str]]] = {}
    for name, lock in LOCKS.items():
        versions: dict[str, set[str]] = {}
        for text, hashes in entries((root / "requirements" / name).read_text("utf-8")):
            if text.startswith("-"):
                found.append(f"{name}: {text[:60]!r} is an option; where packages come from is not the file's business")
                continue
            requirement = Requirement(text)
            pins = [spec.version for spec in requirement.specifier if spec.operator == "=="]
            if requirement.url or len(pins) != 1 or "*" in pins[0]:
                found.append(f"{name}: {requirement.name} is not pinned to one version")
                continue
            if not hashes:
                found.append(f"{name}: {requirement.name} {pins[0]} has no hash")
            versions.setdefault(canonicalize_name(requirement.name), set()).add(pins[0])
        for requirement in wanted(project, lock):
            there = versions.get(canonicalize_name(requirement.name))
            if there is None:
                found.append(f"{name}: {requirement.name} is missing, and pyproject.toml asks for it: make lock")
            elif not all(requirement.specifier.contains(version, prereleases=True) for version in there):
                has = ", ".join(sorted(there))
                found.append(f"{name}: {requirement.name} {has}, and pyproject.toml asks for {requirement.specifier}")
        pinned[name] = versions
    for name, versions in pinned.items():
        for package, versions_of in versions.items():
            other = pinned["dev.lock"].get(package)
            if other != versions_of and (other is not None or name == "core.lock"):
                has = ", ".join(sorted(other or ())) or "none"
                found.append(f"{package} is {', '.join(sorted(versions_of))} in {name} and {has} in dev.lock")
    return found


def known(pip_audit: str, root: Path) -> int:
    """Ask the advisory service about the pinned versions, and say what it answers."""
    status = CLEAN
    for name in LOCKS:
        command = [pip_audit, "--disable-pip", "--require-hashes", "--format", "json", "--progress-spinner", "off"]
        try:
            ended = subprocess.run(
                [*command, "-r", str(root / "requirements" / name)], capture_output=True, text=True, timeout=600
            )
            answer = json.loads(ended.stdout)["dependencies"]
        except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
            said = error if isinstance(error, OSError | subprocess.TimeoutExpired) else last_line(ended.stderr)
            print(f"{name}: the advisory service could not be asked ({said}). NOTHING WAS AUDITED.", file=sys.stderr)
            return UNKNOWN
        skipped = [one["name"] for one in answer if "skip_reason" in one]
        for one in answer:
            for flaw in one.get("vulns", []):
                fixed = ", ".join(flaw.get("fix_versions", [])) or "no version yet"
                print(f"{name}: {one['name']} {one['version']}: {flaw['id']}, fixed in {fixed}")
                status = FOUND
        if skipped:
            print(f"{name}: nothing is known about {', '.join(skipped)}", file=sys.stderr)
            status = max(status, FOUND)
        print(f"{name}: {len(answer)} packages asked about")
    return status


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no answer")[:300]


def main(args: list[str], root: Path = ROOT) -> int:
    found = problems(root)
    for problem in found:
        print(problem, file=sys.stderr)
    if not found:
        print("lock files: every entry is pinned and hashed, and they agree with pyproject.toml")
    if args == ["--offline"]:
        return FOUND if found else CLEAN
    if len(args) != 1:
        print(__doc__, file=sys.stderr)
        return UNKNOWN
    return max(known(args[0], root), FOUND if found else CLEAN)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
