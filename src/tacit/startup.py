"""What runs before everything else when Tacit is a program (`tacit`, `python -m tacit`). As a library it does nothing.

Modules are not looked for in the current folder: it may hold what somebody has sent. `python -m` puts it in front.

Ctrl-C stops at any time with one line and status 130. While the program is loading there is nothing to tidy up, and it
ends at once: Python would show a traceback, or lose the signal inside of a compiled module. Afterwards the first one
raises KeyboardInterrupt, so that the run can say how to go on. It waits while a module is imported. The second one ends
the program at once: files are whole and locks are freed whatever happens.
"""

# ruff: noqa: E402  (as long as the current folder is in the search, only what Python has loaded already is imported)
import os
import sys


def is_program() -> bool:
    """Whether this process was started as `tacit` or `python -m tacit`."""
    # While `python -m tacit` looks for the module, argv[0] is "-m".
    argv = getattr(sys, "argv", [])  # none where Python is a part of another program
    if argv[:1] == ["-m"]:
        words = sys.orig_argv
        return any(words[i : i + 2] in (["-m", "tacit"], ["-m", "tacit.cli"]) for i in range(len(words)))
    return os.path.basename(argv[0] if argv else "") in ("tacit", "tacit.exe")


def program() -> str:
    """What to type to call this program again: `tacit`, its path, or `python -m tacit`."""
    import shutil

    called, installed = "".join(getattr(sys, "argv", [])[:1]), shutil.which("tacit")
    if os.path.basename(called) not in ("tacit", "tacit.exe") or not os.path.exists(called):
        return "tacit" if installed else "python -m tacit"
    same = installed is not None and os.path.realpath(installed) == os.path.realpath(called)
    return "tacit" if same else min(os.path.relpath(called), called, key=len)


def forget_current_folder() -> None:
    """Undo what `python -m` does to the search for modules."""
    added = sys.argv[:1] == ["-m"] and not sys.flags.safe_path
    if added and sys.path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]


if is_program():
    forget_current_folder()

import signal
import threading
from contextlib import suppress
from types import FrameType

STOPPED = 130
_RETRY_SECONDS = 0.05

_active = False
_asked = False
_waiting = False


def begin() -> None:
    """To be called before other modules are imported."""
    global _active
    if not is_program():
        return
    # A program in the background of a shell ignores Ctrl-C, and so do we.
    if threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        _active = True
        signal.signal(signal.SIGINT, _end)


def loaded() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on."""
    if _active:
        signal.signal(signal.SIGINT, _interrupt)


def end(status: int) -> None:
    """Leave after Ctrl-C: Python's own way out can fail when the signal came inside of `exec`."""
    if _active and status == STOPPED:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(STOPPED)


def _end(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, b"stopped\n")
    finally:
        os._exit(STOPPED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _asked, _waiting
    if _asked and not _waiting:
        _end(number, frame)
    _asked = True
    _waiting = _importing(frame)
    if _waiting:
        again = threading.Timer(_RETRY_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()
        return
    raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if "importlib._bootstrap" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
