"""The terminal: text that cannot control it, and a progress line.

Escape codes can move the cursor, change the window's title, or hide what was printed before, and names and cards in
other people's files may contain them. While a command runs, everything it prints passes through `clean`. Only help
texts, tables and progress lines need codes of their own: they are written to the terminal itself (`raw`), after their
texts were cleaned.

Progress is a live bar where a program wants one and has a terminal, otherwise a message every two seconds.

    with live("solve", total=100) as update:
        for state, metrics in learn(config):
            update(f"kkt {metrics['kkt']:.1e}")

Work that is over within two seconds says only how it ended. The messages go to the logger (`tacit.run.log`). The
command line wants bars; in Python `tacit.learn(..., progress=True)` does.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TextIO, cast

from tacit.run import log

# Control characters but tab and line feed, and those that turn the direction of writing.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """The text with its control characters spelled out: \\x1b instead of an escape."""
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text.replace("\r\n", "\n"))


class Cleaned:
    """A stream that cleans the text it writes. It reports that it is no terminal, so nobody sends it control codes."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(clean(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def isatty(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def raw(stream: TextIO) -> TextIO:
    """The stream itself, for text that is already clean."""
    return stream.stream if isinstance(stream, Cleaned) else stream


@contextmanager
def cleaned() -> Iterator[None]:
    """A context in which everything printed to stdout and stderr is cleaned."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, Cleaned(raw(stream))) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def width() -> int:
    """Columns of the terminal; 80 in a pipe is too few for a log, so there it is 120, as for tables."""
    return shutil.get_terminal_size((120, 24)).columns


# ---------------------------------------------------------------------------------------------------------------------
# Progress


class Update(Protocol):
    """A function that reports progress."""

    def __call__(self, text: str, /, advance: int = 1) -> None:
        """Report that `advance` further pieces of the work are done."""


INTERVAL = 2.0
"""Seconds between plain progress lines."""


@contextmanager
def live(label: str, *, total: int | None = None, stream: TextIO | None = None) -> Iterator[Update]:
    """A function to call after every iteration with a text such as "kkt 1e-9". A `stream` gets it whatever happens."""
    terminal = raw(sys.stderr if stream is None else stream)
    if terminal.isatty() and (log.bars_wanted() or stream is not None):
        bar = _rich(label, total, terminal)
    elif stream is None:
        bar = _plain(label, total, log.logger.info)
    else:
        bar = _plain(label, total, partial(print, file=stream, flush=True))
    with bar as update:
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
        unit = " iterations:" if label.endswith(":") and not total else ""  # what follows a colon has no name yet
        write(f"{label} {count}{of}{unit} {text} ({seconds:.1f} s{left})".replace("  ", " "))
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
