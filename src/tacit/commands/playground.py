"""Draw a gridworld in the browser, hide a constraint, demonstrate, and watch what can be inferred from it.

The page is served on a loopback address, for this machine alone. The server refuses other hosts, and neither reads nor
writes files. Everything is solved exactly, with a certificate. Ctrl-C ends it.

Examples:
  tacit playground
  tacit playground --port 0 --no-open             any free port, and only print the address
"""

from __future__ import annotations

import os
import sys
import webbrowser
from typing import Annotated, Any

import tyro

from tacit.playground.server import Server


def playground(*, port: Annotated[int, tyro.conf.arg(metavar="N")] = 8765, open: bool = True) -> None:
    """Serve the playground.

    Args:
        port: Port on 127.0.0.1; 0 takes any free one.
        open: Open the page in the browser.
    """
    with Server(port) as server:
        print(f"The playground is at {server.url} (Ctrl-C ends it)", flush=True)
        if open and _has_display():
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("The playground is closed")


def _has_display() -> bool:
    """Whether a browser would have a window; one in the terminal would be in the way."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def main(args: list[str]) -> Any:
    # Not `commands.call`: that has no --open beside --no-open.
    return tyro.cli(playground, prog="tacit playground", description=(__doc__ or "").strip(), args=args)
