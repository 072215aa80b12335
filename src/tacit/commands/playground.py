"""Draw a gridworld in the browser, hide a constraint, demonstrate, and watch what can be inferred from it.

The page is served on a loopback address, for this machine alone. The server refuses other hosts, and neither reads nor
writes files. Everything is solved exactly, with a certificate. Ctrl-C ends it.

Examples:
  tacit playground
  tacit playground --port 0 --no-open             any free port, and only print the address
"""

from __future__ import annotations

import webbrowser
from typing import Annotated, Any

import tyro

from tacit.commands import call
from tacit.envs.robot_rendering import has_display
from tacit.playground.server import Server


def playground(*, port: Annotated[int, tyro.conf.arg(metavar="N")] = 8765, open: bool = True) -> None:
    """Serve the playground.

    Args:
        port: Port on 127.0.0.1; 0 takes any free one.
        open: Open the page in the browser.
    """
    with Server(port) as server:
        print(f"The playground is at {server.url} (Ctrl-C ends it)", flush=True)
        if open and has_display():
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("The playground is closed")


def main(args: list[str]) -> Any:
    return call(playground, "playground", __doc__, args, style=())  # with --open beside --no-open
