"""The documentation as a site: no warning, every page there, nothing loaded from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOADED = r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="(https?:[^"]+)"'


def test_site_builds_without_a_warning_and_stands_alone(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    site = {path.stem for path in (tmp_path / "site").glob("*.html")}
    assert pages <= site
    for page in (tmp_path / "site").glob("*.html"):
        loaded = re.findall(LOADED, page.read_text())
        assert not loaded, (page.name, loaded)
    assert (tmp_path / "site/results/table-robots.json").exists()


def test_reference_names_every_command_and_public_name():
    import tacit
    from tacit.cli import VERBS
    from tacit.moved import MOVED

    page = (ROOT / "docs" / "reference.md").read_text()
    missing = [f"tacit {verb}" for verb in VERBS if f"`tacit {verb}`" not in page]
    missing += [f"tacit.{name}" for name in tacit.__all__ if f"`tacit.{name}`" not in page]
    assert not missing
    old_names = {name.removeprefix("tacit") for name in MOVED}
    for name in set(re.findall(r"`tacit((?:\.\w+)+)`", page)) - old_names:
        found = tacit
        for part in name[1:].split("."):
            if not hasattr(found, part):
                __import__(f"{found.__name__}.{part}")
            found = getattr(found, part)
