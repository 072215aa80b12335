"""The picture of docs/playground.md: `python tools/draw_playground.py` opens the playground in Chromium."""

from __future__ import annotations

import base64
import sys
import tempfile
import threading
from pathlib import Path

from tacit.playground.server import Server

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from browser import Browser  # noqa: E402

SOLVED = "document.querySelector('#badge').textContent.startsWith('solved')"


def main() -> None:
    with Server() as server, tempfile.TemporaryDirectory() as folder:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with Browser(Path(folder), width=1280, height=900) as page:
                page.prefer("light")
                page.open(server.url)
                page.wait("document.querySelector('#inferred-card').ariaBusy === 'false'")
                page.click("#ask")  # 50 demonstrations of the expert
                page.wait(SOLVED)
                page.click("#compare")
                page.wait(f"{SOLVED} && !document.querySelector('#truth').hidden")
                page.resize(
                    1280, page.ask("Math.ceil(document.querySelector('#verdict').getBoundingClientRect().bottom) + 8")
                )
                assert not page.complaints
                picture = page.send("Page.captureScreenshot", format="png")["data"]
        finally:
            server.shutdown()
            thread.join()
    (ROOT / "docs" / "images" / "playground.png").write_bytes(base64.b64decode(picture))


if __name__ == "__main__":
    main()
