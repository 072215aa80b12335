"""The documentation as a site: it builds without a warning, stands alone, and works in a browser, from the disk."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import moved_pages
import site_pages
from browser import Browser
from report_helpers import browser as needs_a_browser
from tacit.envs.families import describe_envs

ROOT = Path(__file__).parent.parent
LOADED = r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="(https?:[^"]+)"'
WRITTEN = tuple(sorted(path.stem for path in (ROOT / "docs").glob("*.md")))
GENERATED = ("gallery", "tour", "results/index", "results/robots", "results/bench-traffic", "api/index", "api/exact")
CONTRAST = 4.2
"""The least of the theme's colours of code; running text has more than 4.5."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture
def window(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path) as opened:
        yield opened


def address(site: Path, page: str) -> str:
    return f"file://{site}/{page}.html"


# What is built -------------------------------------------------------------------------------------------------------


def test_every_page_is_there_and_stands_alone(site: Path) -> None:
    written = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert written <= {path.stem for path in site.glob("*.html")}
    for page in site.rglob("*.html"):
        loaded = re.findall(LOADED, page.read_text(encoding="utf-8"))
        assert not loaded, (page.name, loaded)
    assert (site / "results/table-robots.json").exists()


def test_moved_pages_leave_a_signpost(site: Path) -> None:
    for old, new in moved_pages.PAGES.items():
        page, _, section = new.replace(".md", ".html").partition("#")
        text = (site / old.replace(".md", ".html")).read_text(encoding="utf-8")
        assert f"url={page}" in text
        assert f'id="{section}"' in (site / page).read_text(encoding="utf-8") or not section


def test_every_experiment_has_a_page_with_its_commits(site: Path) -> None:
    results = sorted((ROOT / "results").glob("*.json"))
    assert len(results) > 30
    for file in results:
        text = (site / "results" / f"{file.stem}.html").read_text(encoding="utf-8")
        commits = set(re.findall(r'"([0-9a-f]{40})', file.read_text(encoding="utf-8")))
        assert commits
        assert not [commit for commit in commits if commit[:7] not in text], file.name
        assert "<h1 id=" in text
        picture = file.with_suffix(".png")
        assert not picture.exists() or f'src="{picture.name}"' in text


def test_notes_belong_to_an_experiment_and_are_on_its_page(site: Path) -> None:
    notes = sorted(site_pages.NOTES.glob("*.md"))
    assert len(notes) > 30
    for note in notes:
        text = (site / "results" / f"{note.stem}.html").read_text(encoding="utf-8")
        (first, *_) = re.findall(r"\*\*([\w .,?'-]+)\*\*|$", note.read_text(encoding="utf-8"))
        assert first in html.unescape(text)


def test_the_gallery_has_a_card_for_every_environment(site: Path) -> None:
    text = (site / "gallery.html").read_text(encoding="utf-8")
    for info in describe_envs():
        name = info.id.rpartition("/")[2].removesuffix("-v0")
        assert f'id="{name.lower()}"' in text
        assert (site / "images" / "gallery" / f"{name}.png").exists()
    assert "x_position &lt; -0.2036" in text, "what was learned on HalfCheetah"
    for name in ("Nav-discs", "Nav-ell", "Nav-wall", "Reactor-ratio"):
        assert f'id="{name.lower()}"' in text
        assert (site / "images" / "gallery" / f"{name}.png").exists()
    assert "tacit learn mce tacit/Nav-v0 --env shape=discs" in text
    assert text.count("an agent without constraint in") >= 7


def test_the_notebook_is_a_page_with_its_output(site: Path) -> None:
    text = (site / "tour.html").read_text(encoding="utf-8")
    notebook = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    code = sum(cell["cell_type"] == "code" for cell in notebook["cells"])
    assert text.count('class="highlight"') >= code + sum("text" in output for output in outputs)
    assert (site / "images" / "tour-1.png").read_bytes().startswith(b"\x89PNG")
    assert "50 demonstrations, mean return" in text


def test_the_api_has_every_public_name(site: Path) -> None:
    import tacit

    text = "".join(path.read_text(encoding="utf-8") for path in (site / "api").glob("*.html"))
    public = set(tacit.__all__) - {"__version__", "envs"}
    assert not [name for name in public if not re.search(rf'id="tacit[\w.]*\.{name}"', text)]


def test_reference_names_every_command_and_public_name() -> None:
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


# In a browser --------------------------------------------------------------------------------------------------------


class TestInABrowser:
    pytestmark = needs_a_browser

    def test_nothing_complains_and_nothing_overflows(self, site: Path, window: Browser) -> None:
        wide = ("algorithms", "benchmarks", "environments", "shapes", *GENERATED)
        for width, pages in ((400, (*WRITTEN, *GENERATED)), (1280, wide)):
            window.resize(width, 900, phone=width < 500)
            for page in pages:
                window.open(address(site, page))
                assert window.ask("document.documentElement.scrollWidth") <= width, (page, width)
                broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
                assert window.ask(broken) == [], page
        assert window.complaints == []

    def test_formulas_are_drawn(self, site: Path, window: Browser) -> None:
        for page in ("concepts", "exact-method", "algorithms", "mce", "ppo", "constraint", "transfer"):
            window.open(address(site, page))
            window.wait("document.querySelectorAll('.katex').length > 0")
            assert window.ask("document.querySelectorAll('.katex-error').length") == 0, page
            undrawn = "[...document.querySelectorAll('.arithmatex')].filter(e => !e.querySelector('.katex')).length"
            assert window.ask(undrawn) == 0, page
            # A dollar that is left over would be a formula that Markdown did not see.
            left = "[...document.querySelectorAll('.md-content p, .md-content td')].filter(e => /\\$[^$]+\\$/.test("
            left += "[...e.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join(''))).length"
            assert window.ask(left) == 0, page

    def test_the_search_works_from_the_disk_by_keyboard(self, site: Path, window: Browser) -> None:
        window.open(address(site, "index"))
        window.press("/")
        window.wait("document.activeElement.classList.contains('md-search__input')")
        for letter in "identifiability":
            window.press(letter)
        window.wait("document.querySelectorAll('.md-search-result__link').length > 0")
        found = window.ask("[...document.querySelectorAll('.md-search-result__link')].map(a => a.href).join(' ')")
        assert "unknowable.html" in found or "exact-method.html" in found
        window.press("ArrowDown")
        window.press("Enter")
        window.wait("!location.pathname.endsWith('index.html')")
        assert window.complaints == []

    def test_a_signpost_leads_on(self, site: Path, window: Browser) -> None:
        window.open(address(site, "gacl"))
        window.wait("location.pathname.endsWith('algorithms.html') && location.hash === '#gacl'")

    def test_the_first_tab_skips_to_the_text(self, site: Path, window: Browser) -> None:
        window.open(address(site, "concepts"))
        window.press("Tab")
        assert window.ask("document.activeElement.classList.contains('md-skip')")

    def test_it_is_dark_where_the_reader_wants_it_dark(self, site: Path, window: Browser) -> None:
        brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
        window.prefer("dark")
        window.open(address(site, "concepts"))
        window.wait(f"Math.max(...{brightness}) < 80")
        window.prefer("light")
        window.wait(f"Math.min(...{brightness}) > 200")

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_everything_can_be_read_and_has_a_name(self, site: Path, window: Browser, scheme: str) -> None:
        window.prefer(scheme)
        for page in ("index", "start", "claims", "gallery", "tour", "results/robots", "api/tacit"):
            window.open(address(site, page))
            window.wait("document.querySelector('.md-content h1') !== null")
            assert window.faint(CONTRAST) == [], page
            assert window.nameless() == [], page

    def test_a_picture_opens_in_full_size(self, site: Path, window: Browser) -> None:
        for page in ("start", "shapes", "concepts", "benchmarks", "gallery", "tour"):
            window.open(address(site, page))
            pictures = "[...document.querySelectorAll('.md-content img')].filter(i => !i.src.endsWith('.gif'))"
            assert window.ask(f"{pictures}.length") > 0, page
            assert window.ask(f"{pictures}.filter(i => i.closest('a')?.href !== i.src).map(i => i.src)") == [], page
        window.open(address(site, "start"))
        window.click(".md-content img")
        window.wait("location.pathname.endsWith('.png')")

    def test_it_prints(self, site: Path, window: Browser) -> None:
        window.open(address(site, "benchmarks"))
        window.send("Emulation.setEmulatedMedia", media="print")
        for part in (".md-sidebar", ".md-header"):
            hidden = f"[...document.querySelectorAll('{part}')].every(e => getComputedStyle(e).display === 'none')"
            assert window.ask(hidden), part
        printed = window.print()
        assert printed.startswith(b"%PDF")
        assert len(printed) > 20_000
