"""The lock of a run folder. One process writes; any other is told which one it is.

The operating system frees the lock when its owner dies, however it dies, so there are no stale locks to judge: a file
that a dead process left behind is nobody's, and is taken over. What the file says (process, host, time) is only for the
message to whoever comes second.
"""

from __future__ import annotations

import os
import socket
import warnings
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from tacit.errors import UserError
from tacit.run import disk


class RunInUse(UserError):
    """Another process is writing into the folder."""


def in_use(path: Path) -> str | None:
    """The process that is writing into a run folder, in words; None if there is none."""
    disk.guard(path)
    lock = path / ".lock"
    if disk.exists(lock):
        try:
            release(lock, acquire(lock))
        except RunInUse as error:
            return str(error)
    return None


def acquire(path: Path) -> BinaryIO:
    while True:
        try:
            file = disk.opened_in_place(path)
        except OSError as error:
            raise UserError(f"cannot write into the run folder {path.parent}: {error.strerror}") from None
        if os.fstat(file.fileno()).st_nlink > 1:  # the owner would be written into the other file, too
            file.close()
            raise UserError(f"{path} is also the name of another file (a hard link), which a lock never is: remove it")
        try:
            _lock_file(file)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().decode(errors="replace").strip() or "another process"
            file.close()
            raise RunInUse(f"{path.parent} is in use by {owner}; wait for it to end or stop it first") from None
        except OSError as error:
            warnings.warn(
                f"this file system has no locks ({error.strerror}); start only one process per run", stacklevel=3
            )
        # The former owner removes the file when it ends. Make sure that the locked file is the one that others see.
        try:
            current = os.lstat(path).st_ino == os.fstat(file.fileno()).st_ino
        except FileNotFoundError:
            current = False
        if current:
            break
        file.close()
    # Unbuffered, because on a full disk closing the file would try again. A failure is ignored.
    with suppress(OSError):
        os.ftruncate(file.fileno(), 0)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        os.write(file.fileno(), f"process {os.getpid()} on {socket.gethostname()} since {since}".encode())
    return file


def release(path: Path, file: BinaryIO) -> None:
    try:
        disk.remove(path)
    except PermissionError:
        pass  # Windows does not remove open files; an unlocked leftover does no harm.
    finally:
        file.close()


def _lock_file(file: BinaryIO) -> None:
    """Lock exclusively without waiting; BlockingIOError if another process holds the lock."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        # Far beyond the end, because Windows forbids others to read what is locked.
        file.seek(1 << 30)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError as error:
            raise BlockingIOError from error
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
