"""What the library says while it works: messages of the logger "tacit". The library itself prints nothing.

    import logging
    logging.basicConfig(level=logging.INFO)      # Python: see the messages; without it only warnings are shown

The command line shows them on stderr (`on_stderr`): warnings alone with -q, also what is read and written with -v.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

logger = logging.getLogger("tacit")
QUIET, NORMAL, VERBOSE = logging.WARNING, logging.INFO, logging.DEBUG
WARNING = "warning: "
_bars: ContextVar[bool] = ContextVar("whether progress is a bar", default=False)


def say(text: str) -> None:
    """Log one message. A text that begins with "warning: " is a warning."""
    if text.startswith(WARNING):
        logger.warning(text.removeprefix(WARNING))
    else:
        logger.info(text)


def quiet() -> bool:
    """Whether remarks are unwanted (-q)."""
    return not logger.isEnabledFor(NORMAL)


class _Lines(logging.Handler):
    """Write each message as a line on the present stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        before = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        print(before + record.getMessage(), file=sys.stderr, flush=True)


@contextmanager
def on_stderr(level: int = NORMAL) -> Iterator[None]:
    """Within this block messages are written to stderr, one per line."""
    handler, before, propagates = _Lines(), logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = propagates


@contextmanager
def bars(wanted: bool = True) -> Iterator[None]:
    """Within this block stderr shows a progress bar, if it is a terminal (see `tacit.run.terminal`)."""
    token = _bars.set(wanted)
    try:
        yield
    finally:
        _bars.reset(token)


def bars_wanted() -> bool:
    return _bars.get()
