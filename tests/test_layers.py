"""Layers: which part of the package may import which. A module imports its own layer and those above it in the table.

Imports are read from the source, those inside functions included. Imports for type checking alone do not count. There
are limits, too: on the length of a file, on the files of the paper's method, and on those that run while it learns.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import tacit

ROOT = Path(tacit.__file__).parent
GENERATED = "tacit.presets.settings"
"""Written by tools/settings.py."""

LAYERS: tuple[tuple[str, str], ...] = (
    (
        "errors moved metrics stats startup run.log run.machine run.terminal",
        "words, numbers and the machine: nothing of Tacit's own",
    ),
    ("run.storage run.disk", "files on disk, whatever they hold"),
    ("run.summary", "the types of a run folder's files, for those who write and those who read them"),
    ("cost.learned cost.table cost.ensemble cost.bounds cost", "a learned cost as an artefact: NumPy alone"),
    ("policy", "a policy as an artefact: NumPy alone"),
    ("tabular forward.soft_policy_iteration", "finite MDPs and their exact planner"),
    (
        "envs demos interop imports",
        "environments, demonstrations and file formats, ours and others', which name each other",
    ),
    ("run", "the run folder, with its demonstrations; it knows no algorithm"),
    (
        "presets algorithms",
        "names and settings; an algorithm's module is imported when somebody asks for its name",
    ),
    ("forward.evaluate_exact evaluate", "one protocol for every agent"),
    (
        "cost.card cost.calibration cost.quality cost.avoided",
        "a run's cost: its card, threshold and quality; it knows no algorithm",
    ),
    ("forward", "agents that maximise a reward under a cost that is given"),
    (
        "inverse.state inverse.samples inverse.soft_thresholds inverse.features inverse.clone inverse.constraint_net "
        "inverse.screen inverse.judge inverse.trainer inverse.loop",
        "what the deep inverse methods share; it imports no method",
    ),
    ("inverse", "the inverse methods"),
    ("plots", "pictures of what the run folder holds"),
    ("explain", "rules and words"),
    ("report", "the page; nothing below knows it"),
    ("launch learned", "from a request to a finished, explained run, and what Python can ask of it"),
    ("sweep", "many runs"),
    ("reproduce", "experiments: many runs, tables and figures"),
    ("playground", "the exact method on a web page"),
    ("commands", "one module per command"),
    ("cli __main__", "the command line"),
)
"""(modules or packages, why they stand here), the lowest first. The longest name that fits a module counts."""

ALLOWED = {
    ("tacit.tabular", "tacit.inverse.mce_exact"): "`tacit.tabular.solve` is the public door to the exact method",
}
"""Single imports that go up, each with its reason."""

REMAINING: set[tuple[str, str]] = set()
"""Single imports that go up and are to be removed: take a pair out once it is gone."""


@cache
def level(module: str) -> int:
    """The number of a module's layer."""
    fits = [
        (len(name), number)
        for number, (names, _) in enumerate(LAYERS)
        for name in names.split()
        if f"{module}.".startswith(f"tacit.{name}.")
    ]
    assert fits, f"{module} stands in no layer: add it to the table"
    return max(fits)[1]


def modules() -> dict[str, Path]:
    """{dotted name: file} of the package, without `tacit` itself, which loads its public names when they are used."""
    found = {}
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name != "tacit":
            found[name] = file
    return found


MODULES = modules()


def imports(file: Path) -> Iterator[str]:
    """Modules of the package that a file imports when it is used."""
    waiting: list[ast.AST] = [ast.parse(file.read_text("utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("tacit."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tacit":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in MODULES:
                    yield inner
                elif node.module != "tacit":
                    yield str(node.module)


def upward() -> set[tuple[str, str]]:
    """(importer, imported) of all imports that go up."""
    return {
        (module, target)
        for module, file in MODULES.items()
        for target in imports(file)
        if level(target) > level(module)
    }


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module: str) -> None:
    for target in imports(MODULES[module]):
        allowed = level(target) <= level(module) or (module, target) in {*ALLOWED, *REMAINING}
        assert allowed, (
            f"{module} ({LAYERS[level(module)][1]}) must not import {target} ({LAYERS[level(target)][1]}): move what "
            "it needs down, or turn the call around"
        )


def test_exceptions_are_needed() -> None:
    assert {*ALLOWED, *REMAINING} <= upward(), "an exception is no longer needed: take it out of the table"


def test_the_paper_can_be_read_in_three_files() -> None:
    read = [(ROOT / "inverse" / name).read_text("utf-8") for name in ("mce.py", "features.py", "loop.py")]
    assert sum(len(text.splitlines()) for text in read) <= 900
    assert sum('features == "terms"' in text for text in read) == 0, "the ways part in `mce.METHODS` alone"


@pytest.mark.slow
def test_learning_runs_through_few_files() -> None:
    """While an agent learns. Checks, judging, explanation and report come on top."""
    tool = ROOT.parents[1] / "tools" / "way_of_learn.py"
    done = subprocess.run([sys.executable, str(tool)], capture_output=True, text=True, check=True)
    files, lines = re.search(r"while it learns: (\d+) files, ([\d,]+) lines", done.stdout).groups()  # type: ignore[union-attr]
    assert int(files) <= 50
    assert int(lines.replace(",", "")) <= 10_000


@pytest.mark.parametrize("module", MODULES)
def test_files_are_short(module: str) -> None:
    assert len(MODULES[module].read_text("utf-8").splitlines()) <= (450 if module != GENERATED else 1000)


def test_imports_for_type_checking_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "if TYPE_CHECKING:\n    import tacit.report.page\nelse:\n    import tacit.stats\n"
        "def f():\n    from tacit.report import html\n    from tacit import demos, __version__\n"
    )
    assert set(imports(file)) == {"tacit.stats", "tacit.report.html", "tacit.demos"}
