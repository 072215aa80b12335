"""Texts for the terminal. The names and cards in other people's files must not control it.

Escape codes can move the cursor, change the window's title, or hide what was printed before. While a command runs,
whatever it prints passes through `clean`. Only help texts, tables and progress lines, whose own codes are wanted, are
written to the terminal itself (`raw`), after their texts were cleaned.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

# Control characters but tab and line feed, and those that turn the direction of writing.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """The text with its control characters spelled out: \\x1b instead of an escape."""
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text.replace("\r\n", "\n"))


class Cleaned:
    """A stream that cleans what is written. It says that it is no terminal: nobody should send it codes."""

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
    """The stream itself, for texts that are clean."""
    return stream.stream if isinstance(stream, Cleaned) else stream


@contextmanager
def cleaned() -> Iterator[None]:
    """Within this block, what is printed to stdout and stderr is cleaned."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, Cleaned(raw(stream))) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def width() -> int:
    """Columns of the terminal; 80 in a pipe is too few for a log, so there it is 120, as for tables."""
    return shutil.get_terminal_size((120, 24)).columns
