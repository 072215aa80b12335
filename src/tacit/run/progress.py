"""Progress: a live bar where a program wants one and has a terminal, otherwise a message every two seconds.

    with live("solve", total=100) as update:
        for state, metrics in learn(config):
            update(f"kkt {metrics['kkt']:.1e}")

Work that is over within two seconds says only how it ended. The messages go to the logger (`tacit.log`). The command
line wants bars; in Python `tacit.learn(..., progress=True)` does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TextIO

from tacit import log
from tacit.terminal import clean, raw


class Update(Protocol):
    """Tell how far the work is."""

    def __call__(self, text: str, /, advance: int = 1) -> None:
        """`advance` pieces of the work are done since the last call."""


INTERVAL = 2.0
"""Seconds between plain lines."""


@contextmanager
def live(label: str, *, total: int | None = None, stream: TextIO | None = None) -> Iterator[Update]:
    """A function to call after every iteration with a text such as "kkt 1e-9". A `stream` gets it whatever happens."""
    terminal = raw(sys.stderr if stream is None else stream)
    if terminal.isatty() and (log.bars_wanted() or stream is not None):
        shown = _rich(label, total, terminal)
    elif stream is None:
        shown = _plain(label, total, log.logger.info)
    else:
        shown = _plain(label, total, partial(print, file=stream, flush=True))
    with shown as update:
        yield lambda text, advance=1: update(clean(text), advance)


@contextmanager
def _plain(label: str, total: int | None, write: Callable[[str], None]) -> Iterator[Update]:
    count, text, printed = 0, "", 0
    started = last = time.monotonic()

    def show() -> None:
        nonlocal printed
        seconds = time.monotonic() - started
        of = f"/{total}" if total else ""
        left = f", {seconds / count * (total - count):.0f} s left" if total and 0 < count < total else ""
        write(f"{label} {count}{of} {text} ({seconds:.1f} s{left})".replace("  ", " "))
        printed = count

    def update(message: str, advance: int = 1) -> None:
        nonlocal count, text, last
        count, text = count + advance, message
        if time.monotonic() - last >= INTERVAL:
            last = time.monotonic()
            show()

    try:
        yield update
    finally:
        if count > printed:
            show()


@contextmanager
def _rich(label: str, total: int | None, stream: TextIO) -> Iterator[Update]:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.progress import TimeRemainingColumn as Left
    from rich.text import Text

    columns = [SpinnerColumn(), TextColumn("[bold]{task.description}"), MofNCompleteColumn(), Elapsed()]
    if total:
        columns[2:2] = [BarColumn(bar_width=24)]
        columns += [TextColumn("left"), Left()]
    console = Console(file=stream)
    progress = Progress(*columns, console=console)
    task = progress.add_task(label, total=total)
    # The numbers have a line of their own: beside them, bar and time left would vanish on a narrow terminal.
    line = Text(no_wrap=True, overflow="ellipsis")

    def update(message: str, advance: int = 1) -> None:
        progress.update(task, advance=advance)
        line.plain = message

    with Live(Group(progress, line), console=console):
        yield update
