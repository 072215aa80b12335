"""MkDocs hooks: pages link to files beside docs/ as one sees them in the repository; the site takes those in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
HOME = "](../README.md"


def on_files(files: Files, config: Any) -> Files:
    """Results become part of the site: numbers, pictures, and tables as pages."""
    for path in sorted((ROOT / "results").glob("*")):
        files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    return markdown.replace("](../results/", "](results/").replace(HOME, "](index.md")
