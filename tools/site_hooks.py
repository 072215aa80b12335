"""MkDocs hooks: the site takes in what lies beside docs/ and what is made from code and results.

Written pages link to files as one sees them in the repository (`../results/robots.md`, `../examples/tour.ipynb`). In
the site, these are pages: SITE says which. Old addresses are followed by `moved_pages`.
"""

from __future__ import annotations

import html
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "src")]

import moved_pages  # noqa: E402
import site_pages  # noqa: E402

SITE = {
    "../README.md": "index.md",
    "../results": "results/index.md",
    "../examples/tour.ipynb": "tour.md",
    "../src/tacit": "api/index.md",
    "../src/tacit/tabular.py": "api/exact.md",
    "../src/tacit/inverse": "api/inverse.md",
    "../src/tacit/forward": "api/forward.md",
    "../src/tacit/cost": "api/cost.md",
    "../src/tacit/envs": "api/envs.md",
    "../src/tacit/demos": "api/demos.md",
    "../src/tacit/run": "api/runs.md",
    "../src/tacit/interop": "api/interop.md",
    "images/gallery": "gallery.md",
}
"""What a written page links to, and which page of the site it is."""
PICTURE = re.compile(r"^(!\[[^\]]*\]\(([^)\s]+\.png)\))$", re.MULTILINE)
"""A picture that stands by itself. In the site, a click shows it in full size."""
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Results, notebook, gallery and API become part of the site."""
    for path in sorted((ROOT / "results").glob("*")):
        if path.suffix in (".json", ".png"):
            files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    notebook, pictures = site_pages.tour()
    pages = {**site_pages.experiment_pages(), **site_pages.gallery(), **site_pages.api_pages(), **notebook}
    for address, content in {**pages, **pictures}.items():
        files.append(File.generated(config, address, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    folder = posixpath.dirname(page.file.src_uri) or "."
    # Fences also say when a block is run by the tests, which is not a language.
    markdown = re.sub(r"^```python (?:slow|sb3)$", "```python", markdown, flags=re.MULTILINE)
    markdown = PICTURE.sub(r"[\1](\2)", markdown)
    return LINK.sub(lambda link: in_the_site(link, folder), moved_pages.follow(markdown, folder))


def in_the_site(link: re.Match[str], folder: str) -> str:
    """A link of the repository, as the site has it."""
    target, section = link[1], link[2] or ""
    if re.match(r"\w+:", target):
        return link[0]
    address = posixpath.normpath(posixpath.join(folder, target))
    if address in SITE:
        address = SITE[address]
    elif (name := re.fullmatch(r"\.\./results/(?:notes/)?(.+)", address)) is not None:
        address = f"results/{name[1]}"
    else:
        return link[0]
    return f"]({posixpath.relpath(address, folder)}{section})"


def on_post_build(config: Any) -> None:
    """A signpost at the address of every page that has moved."""
    for old, new in moved_pages.PAGES.items():
        page, hash_sign, section = new.partition("#")
        address = html.escape(page.replace(".md", ".html") + hash_sign + section)
        (Path(config.site_dir) / old.replace(".md", ".html")).write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Moved</title>'
            f'<meta http-equiv="refresh" content="0; url={address}">'
            f'<p>This page is now <a href="{address}">{address}</a>.</p></html>\n',
            encoding="utf-8",
        )
