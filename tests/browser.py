"""A real browser, driven through its debugging pipe (no port, no further package): open a page, click, type, look."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from report_helpers import CHROMIUM, FLAGS

KEYS = {
    "ArrowRight": 39,
    "ArrowLeft": 37,
    "ArrowDown": 40,
    "ArrowUp": 38,
    "Enter": 13,
    "Escape": 27,
    "Tab": 9,
    "End": 35,
}

# Texts with less contrast to what is behind them than asked for, as WCAG 2 defines it. Text over a picture is left out.
FAINT = """(least) => {
  const parts = (text) => {
    const numbers = text.match(/[\\d.]+(?:e-?\\d+)?/g).map(Number);
    return text.startsWith("color(") ? [...numbers.slice(0, 3).map((x) => 255 * x), numbers[3] ?? 1]
      : [...numbers.slice(0, 3), numbers[3] ?? 1];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[3] * top[i] + (1 - top[3]) * below[i]);
  const bright = (rgb) => {
    const [r, g, b] = rgb.map((x) => x / 255).map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
    const seen = e.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    if (!own || !seen || e.closest("script, style, noscript, .katex, svg, :disabled")) continue;
    if (e.getBoundingClientRect().right < 0) continue;
    const grounds = [];
    let picture = false;
    for (let up = e; up; up = up.parentElement) {
      const style = getComputedStyle(up);
      picture ||= style.backgroundImage !== "none";
      grounds.unshift(parts(style.backgroundColor));
      if (grounds[0][3] === 1) break;
    }
    if (picture) continue;
    const ground = grounds.reduce((below, top) => over(top, below), [255, 255, 255]);
    const one = bright(over(parts(getComputedStyle(e).color), ground)), other = bright(ground);
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < least) found.push(`${own.slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return found;
}"""

NAMELESS = """() => [...document.querySelectorAll("img, svg, button, a[href], select, input, textarea, summary")]
  .filter((e) => e.checkVisibility() && !e.closest("[aria-hidden='true'], svg *"))
  .filter((e) => !(e.alt || e.ariaLabel || e.getAttribute("aria-labelledby") || e.title || e.textContent.trim()
    || e.labels?.length || e.closest("button, a, label, summary")?.textContent.trim()
    || e.querySelector("img[alt]:not([alt=''])") || e.parentElement.closest("[aria-label], [title]")))
  .map((e) => e.outerHTML.slice(0, 120))"""


class Navigated(AssertionError):
    """The page has gone to another address before it could answer."""


class Browser:
    """One page in headless Chromium. Everything that the page complains about is collected in `complaints`."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900) -> None:
        assert CHROMIUM is not None
        to_browser, from_us = os.pipe()
        to_us, from_browser = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        flags = [*FLAGS, "--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}"]
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", script, "chromium", CHROMIUM, *flags, "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._out, self._in, self._rest, self._count = from_us, to_us, b"", 0
        self.complaints: list[str] = []
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        targets = self.send("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._session = None
            self.send("Browser.close")
            self.process.wait(10)
        except (OSError, AssertionError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait(10)
        finally:
            os.close(self._out)
            os.close(self._in)

    # -- the protocol --------------------------------------------------------------------------------------------------

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._count:
                if "navigated" in answer.get("error", {}).get("message", ""):
                    raise Navigated(f"{method}: {answer['error']}")
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser has gone"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.complaints.append(json.dumps(parameters["args"])[:500])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(json.dumps(parameters["entry"])[:500])

    # -- what a person does --------------------------------------------------------------------------------------------

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def prefer(self, scheme: str) -> None:
        """Light or dark."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address: str) -> None:
        self.send("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression: str, seconds: float = 30) -> Any:
        """Until the expression is true."""
        deadline = time.monotonic() + seconds
        while True:
            # A page that leads on to another one may go while it is asked.
            with suppress(Navigated):
                if value := self.ask(expression):
                    return value
            assert time.monotonic() < deadline, f"never true: {expression}\n{self.complaints}"
            time.sleep(0.05)

    def middle(self, selector: str) -> tuple[float, float]:
        """Of an element, scrolled into view and at rest."""
        x, y = self.ask(
            f"(async () => {{ const e = document.querySelector({json.dumps(selector)}); let last = '';"
            " for (;;) { e.scrollIntoView({block: 'nearest'}); await new Promise(requestAnimationFrame);"
            " const b = e.getBoundingClientRect(); const now = [b.x + b.width / 2, b.y + b.height / 2];"
            " if (String(now) === last) return now; last = String(now); } })()"
        )
        return x, y

    def click(self, selector: str) -> None:
        x, y = self.middle(selector)
        self.drag([(x, y)])

    def drag(self, points: list[tuple[float, float]]) -> None:
        """Press at the first point, move through the others, release at the last."""
        mouse = {"button": "left", "clickCount": 1}
        for number, (x, y) in enumerate(points):
            self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, buttons=1 if number else 0)
            if not number:
                self.send("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, **mouse)
        x, y = points[-1]
        self.send("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, **mouse)

    def press(self, key: str, *, ctrl: bool = False) -> None:
        code = KEYS.get(key) or ord(key.upper())
        text = {"text": key} if len(key) == 1 and not ctrl else {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            extra = text if kind == "keyDown" else {}
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                modifiers=2 if ctrl else 0,
                **extra,
            )

    def faint(self, least: float) -> list[str]:
        """Texts with less contrast than this, which makes them hard to read. 4.5 is good, 3 will do for large print."""
        return self.ask(f"({FAINT})({least})")

    def nameless(self) -> list[str]:
        """Pictures and controls without a name for those who cannot see them."""
        return self.ask(f"({NAMELESS})()")

    def print(self) -> bytes:
        """The page as a PDF."""
        return base64.b64decode(self.send("Page.printToPDF")["data"])

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))
