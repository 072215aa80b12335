"""What the tests of reports share: a page taken apart, and a real browser to look at it."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest


class Page(html.parser.HTMLParser):
    """Text, ids, references and balance of a page."""

    VOID = frozenset(("meta", "link", "br", "img", "hr", "input"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "srcset", "xlink:href", "action", "data"):
                self.references.append(value or "")
            if name in ("aria-labelledby", "aria-describedby"):
                self.references.append(f"#{value}")
            if value is not None:
                self.references += re.findall(r"url\(([^)]*)\)", value)
            assert not name.startswith("on"), f"a script in {name}"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def assert_whole_and_alone(text: str) -> Page:
    """Tags balance, ids are unique, every reference stays inside the file, nothing runs."""
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    for reference in page.references:
        assert reference.startswith(("#", "data:")), reference
        if reference.startswith("#"):
            assert reference[1:] in page.ids
    assert "script" not in page.tags
    assert not re.search(r"https?:|@import|\bfile:", text)
    assert "default-src 'none'" in text
    return page


# ---------------------------------------------------------------------------------------------------------------------
# In a real browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--enable-logging=stderr", "--v=0"),
)
browser = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]

# Looks at the report through two windows, a desk's and a phone's, from outside: the page itself lets no script run.
PROBE = """<!doctype html><meta charset="utf-8">
<iframe id="desk" width="1280" height="900" src="report.html"></iframe>
<iframe id="phone" width="390" height="800" src="report.html"></iframe>
<pre id="result">waiting</pre>
<script>
addEventListener("load", () => {
  const out = {};
  for (const id of ["desk", "phone"]) {
    const page = document.getElementById(id).contentWindow, doc = page.document;
    const box = (e) => { const r = e.getBoundingClientRect(); return [r.width, r.height]; };
    const tip = doc.querySelector("thead abbr");
    tip.focus();
    const shown = page.getComputedStyle(tip, "::after");
    out[id] = {
      overflow: doc.documentElement.scrollWidth - doc.documentElement.clientWidth,
      figures: [...doc.querySelectorAll("figure > svg")].map(box),
      pictures: [...doc.querySelectorAll("figure > img")].map((e) => [...box(e), e.naturalWidth]),
      headings: [...doc.querySelectorAll("h2")].map((h) => h.textContent),
      background: page.getComputedStyle(doc.body).backgroundColor,
      ink: page.getComputedStyle(doc.querySelector("figure svg text")).fill,
      smallest: Math.min(...[...doc.querySelectorAll("p, li, td, th, dd, dt, figcaption")]
        .filter((e) => !e.closest(".cells")).map((e) => parseFloat(page.getComputedStyle(e).fontSize))),
      tooltip: shown.content,
      focusable: doc.querySelectorAll("abbr[tabindex='0'], a[href], summary").length,
    };
  }
  document.getElementById("result").textContent = JSON.stringify(out);
});
</script>
"""


def chromium(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "CONSOLE" not in done.stderr, done.stderr
    return done


def look(report: Path, folder: Path, *arguments: str) -> dict[str, Any]:
    """What the two windows show."""
    shutil.copy(report, folder / "report.html")
    (folder / "probe.html").write_text(PROBE)
    address = (folder / "probe.html").as_uri()
    done = chromium(
        folder, "--allow-file-access-from-files", "--window-size=1400,1000", *arguments, "--dump-dom", address
    )
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    assert found is not None
    return json.loads(found[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
