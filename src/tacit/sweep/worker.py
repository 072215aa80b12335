"""One job in a process of its own (`main`), which reads the job from standard input.

The first line of standard input is JSON, the arguments of `work`. The exit status says how it went; the message is a
line of the output that begins with `last_words`. The parent keeps the pipe open: when it dies,
however it dies, the worker ends too. It may be killed at any moment, and the next one goes on from the run folder's
newest checkpoint.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from typing import Any

from tacit.errors import RunFailed, UserError
from tacit.launch import execute, start_run
from tacit.run import RunInUse, log, storage

DONE, FAILED, WRONG, CRASHED, BUSY = 0, 1, 2, 70, 75


def work(algo: str, env: str, out: str, wanted: dict[str, Any]) -> tuple[int, str]:
    """Run the job; returns (exit status, message)."""
    try:
        given = {name: value for name, value in wanted.items() if value not in (None, {})}
        command = f"tacit sweep: {algo} {env} {storage.to_json(given)}"
        run, demos = start_run(algo, env, out=out, command=command, **wanted)
        execute(run, demos)
    except RunInUse as error:
        return BUSY, str(error)
    except UserError as error:
        return WRONG, str(error)
    except RunFailed as error:
        return FAILED, str(error)
    except Exception as error:
        traceback.print_exc()
        return CRASHED, f"{type(error).__name__}: {error}"
    return DONE, ""


def last_words(pid: int) -> str:
    """The beginning of the last line of a worker."""
    return f"[worker {pid}] "


def main() -> None:
    task = storage.from_json(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    with log.on_stderr():  # into the job's log file
        status, text = work(**task)
    if text:
        print(last_words(os.getpid()) + " ".join(text.split()), flush=True)
    sys.exit(status)


def _end_with_the_parent() -> None:
    os.read(0, 1)  # returns when the parent closes its end; not through sys.stdin, whose lock would outlive main()
    os._exit(CRASHED)
