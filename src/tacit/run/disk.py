"""The one place where files are opened. Only regular files are opened, and a run folder may contain no links.

A run folder may come from anybody. If its log were a link to a file elsewhere, adding a line would change that file; if
its settings were a pipe, reading them would never end. So:

    guard(folder)       from now on, links below this folder are refused, in reading and in writing
    reading(path)       a regular file of a size that was checked
    writing(path)       a file that appears whole or not at all
    appending(path)     a file that grows in place; never through a link
    remove(path)        one file, never what a link leads to
    subfolder(path)     a folder, made if it is missing, for other people's writers

The guarded folder itself may be a link: its user has named it. Below it, every folder is opened by a descriptor of the
one above and without following links (`O_NOFOLLOW`), so a link cannot be put in the way between check and use. Where
the system lacks this (Windows), the type of every part is looked up first (`lstat`).

A path outside of guarded folders is one that the user has typed. Links are followed there, as every program does, but
pipes, devices, sockets and folders are refused.
"""

from __future__ import annotations

import fnmatch
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tacit.errors import UserError
from tacit.run.log import logger

TMP_SUFFIX = ".tmp"
MAX_BYTES = 1 << 31
"""Largest file that is read, unless the reader says otherwise."""

_DESCRIPTORS = hasattr(os, "O_NOFOLLOW") and {os.open, os.stat, os.mkdir, os.unlink, os.rename} <= os.supports_dir_fd
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_QUICK = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_DIRECTORY", 0)
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

AnyPath = str | os.PathLike[str]
_guarded: set[str] = set()


def guard(folder: AnyPath) -> None:
    """Forbid links below this folder from now on."""
    _guarded.add(os.path.abspath(folder))


def guarded_root(path: AnyPath) -> Path | None:
    """The outermost guarded folder above a path, as the path spells it; None if there is none."""
    if not _guarded:
        return None
    return next((up for up in reversed(Path(path).parents) if os.path.abspath(up) in _guarded), None)


class _Place:
    """A name in an open folder. `at` and `folder` are arguments for the functions of `os`."""

    def __init__(self, path: Path, folder: int | None, guarded: bool) -> None:
        self.path, self.folder, self.guarded = path, folder, guarded
        self.name = path.name

    def at(self, name: str | None = None) -> str:
        name = self.name if name is None else name
        return name if self.folder is not None else os.fspath(self.path.with_name(name))

    def status(self) -> os.stat_result | None:
        """Status of the entry; outside guarded folders, of the target of a link. None if nothing is there."""
        try:
            return os.stat(self.at(), dir_fd=self.folder, follow_symlinks=not self.guarded)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open(self, flags: int, name: str | None = None) -> int:
        no_link = _NO_LINK if self.guarded else 0
        return os.open(self.at(name), flags | no_link | _QUICK, 0o666, dir_fd=self.folder)


@contextmanager
def _place(path: AnyPath, *, make: bool = False) -> Iterator[_Place]:
    """The place that a path names, with its folder open. `make` makes missing folders. UserError for links on the
    way."""
    path = Path(path)
    if not path.name or path.name == "..":
        raise UserError(f"{path} is a folder, not a regular file")
    root = guarded_root(path)
    if root is None:
        if make:
            path.parent.mkdir(parents=True, exist_ok=True)
        yield _Place(path, None, False)
        return
    between = path.parent.relative_to(root).parts
    if ".." in between:
        raise UserError(f"{path} leads out of {root}")
    if make:
        root.mkdir(parents=True, exist_ok=True)
    if not _DESCRIPTORS:
        up = root
        for name in between:
            up /= name
            if make and not os.path.lexists(up):
                up.mkdir(exist_ok=True)
            if up.is_symlink():
                raise UserError(_refusal(up, "a link", True))
        yield _Place(path, None, True)
        return
    descriptor = os.open(root, _FOLDER)
    try:
        up = root
        for name in between:
            up /= name
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=descriptor)
            inner = _inner_folder(up, name, descriptor)
            # In this order: a Ctrl-C in between leaves one open, and none is closed twice.
            outer, descriptor = descriptor, inner
            os.close(outer)
        yield _Place(path, descriptor, True)
    finally:
        os.close(descriptor)


def _inner_folder(path: Path, name: str, above: int) -> int:
    try:
        return os.open(name, _FOLDER | _NO_LINK, dir_fd=above)
    except FileNotFoundError:
        raise
    except OSError as error:
        mode = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            raise
        raise UserError(_refusal(path, _kind(mode), True, "folder")) from error


def _kind(mode: int) -> str:
    return next((word for test, word in _KINDS if test(mode)), "a regular file")


def _refusal(path: AnyPath, kind: str, guarded: bool, wanted: str = "regular file") -> str:
    if kind == "a link" and guarded:
        return f"{path} is a link, and nothing inside a run folder may be one: put a copy of the {wanted} in its place"
    return f"{path} is {kind}, not a {wanted}"


def _check(place: _Place, status: os.stat_result) -> None:
    """UserError unless it is a regular file."""
    if not stat.S_ISREG(status.st_mode):
        raise UserError(_refusal(place.path, _kind(status.st_mode), place.guarded))


def _opened(place: _Place, flags: int, mode: str) -> BinaryIO:
    """Open the file. It is checked before, because opening a device can have effects, and again afterwards."""
    status = place.status()
    if status is not None:
        _check(place, status)
    try:
        descriptor = place.open(flags)
    except OSError as error:
        if place.guarded and (now := place.status()) is not None:
            _check(place, now)
        error.filename = os.fspath(place.path)
        raise
    try:
        _check(place, os.fstat(descriptor))
        if hasattr(os, "set_blocking"):
            os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, mode)  # type: ignore[return-value]
    except BaseException:
        with suppress(OSError):  # a Ctrl-C may come when the file has taken the descriptor, and closed it
            os.close(descriptor)
        raise


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def reading(path: AnyPath, *, max_bytes: int = MAX_BYTES) -> BinaryIO:
    """Open a regular file for reading; UserError that names it if it is missing, unreadable, too large or no file."""
    try:
        with _place(path) as place:
            file = _opened(place, os.O_RDONLY, "rb")
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path} does not exist") from None
    except ValueError as error:
        raise error if isinstance(error, UserError) else UserError(f"{path!r} is not a path: {error}") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    size = os.fstat(file.fileno()).st_size
    if size > max_bytes:
        file.close()
        raise UserError(f"{path} has {size} bytes, which is too many: at most {max_bytes} are read")
    logger.debug("reading %s", path)
    return file


def read_bytes(path: AnyPath, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a file; UserError that names it if it is missing, unreadable, too large or not a regular file."""
    with reading(path, max_bytes=max_bytes) as file:
        try:
            return file.read()
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror or error}") from None


def read_text(path: AnyPath, *, max_bytes: int = MAX_BYTES) -> str:
    """The text of a file in UTF-8, with or without a byte order mark; UserError as for `read_bytes`."""
    try:
        return read_bytes(path, max_bytes=max_bytes).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file in UTF-8") from None


def exists(path: AnyPath) -> bool:
    """Whether the name exists, including a link to nowhere. UserError for a link on the way."""
    try:
        with _place(path) as place:
            os.stat(place.at(), dir_fd=place.folder, follow_symlinks=False)
    except OSError:
        return False
    return True


# ---------------------------------------------------------------------------------------------------------------------
# Writing


@contextmanager
def writing(path: AnyPath) -> Iterator[BinaryIO]:
    """Open `path` for binary writing. The file appears, complete, when the block ends; it is unchanged if that raises.

    Missing parent folders are made. A link that the user has typed is replaced by the new file.
    """
    with _place(path, make=True) as place:
        try:
            before = os.stat(place.at(), dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            before = None
        if before is not None and (place.guarded or not stat.S_ISLNK(before.st_mode)):
            _check(place, before)
        draft = f".{place.name}.{secrets.token_hex(4)}{TMP_SUFFIX}"
        known_as = (draft, place.at(draft), place.at(), place.name)
        try:
            descriptor = place.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, draft)
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(place.at(draft), place.at(), src_dir_fd=place.folder, dst_dir_fd=place.folder)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(place.at(draft), dir_fd=place.folder)
            # The error of a full disk names no file, and users do not know the temporary names.
            if isinstance(error, OSError) and error.filename in (None, *known_as):
                error.filename, error.filename2 = os.fspath(path), None
            raise
        _sync_folder(place)
    logger.debug("wrote %s", path)


@contextmanager
def written_elsewhere(path: AnyPath) -> Iterator[Path]:
    """A path for other writers: a file of the same name in a temporary folder, moved to `path` at the end.

    A draft beside the destination would have a name that can be guessed, and a link could lie there.
    """
    with tempfile.TemporaryDirectory(prefix="tacit-") as folder:
        draft = Path(folder) / Path(path).name
        yield draft
        with open(draft, "rb") as source, writing(path) as target:
            shutil.copyfileobj(source, target)


def _sync_folder(place: _Place) -> None:
    """Make a rename survive a power cut. Where a platform cannot open folders, this does nothing."""
    with suppress(OSError):
        if place.folder is not None:
            os.fsync(place.folder)
            return
        descriptor = os.open(place.path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def appending(path: AnyPath) -> Iterator[BinaryIO]:
    """Open a file that grows in place ("a+b"), made if missing. UserError for a link or anything but a regular file.

    A file that has a second name elsewhere (a hard link) is replaced by a copy first: the other one stays as it is.
    """
    with opened_in_place(path) as file:
        shared = os.fstat(file.fileno()).st_nlink > 1
    if shared:
        content = read_bytes(path)
        with writing(path) as copy:
            copy.write(content)
    with opened_in_place(path) as file:
        yield file


def opened_in_place(path: AnyPath, *, make: bool = True) -> BinaryIO:
    """Open a file for reading and appending ("a+b"), never through a link, whoever typed the path."""
    with _place(path) as place:
        place.guarded = True
        flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT if make else 0)
        return _opened(place, flags, "a+b")


def remove(path: AnyPath) -> None:
    """Remove a file, or the link itself; do nothing if there is none. UserError for a folder."""
    try:
        with _place(path) as place:
            status = os.stat(place.at(), dir_fd=place.folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                raise UserError(_refusal(path, "a folder", place.guarded))
            os.unlink(place.at(), dir_fd=place.folder)
    except FileNotFoundError:
        return


def move(old: AnyPath, new: AnyPath) -> None:
    """Rename a file, replacing any file of the new name."""
    with _place(old) as place, _place(new, make=True) as target:
        for end in (place, target):
            status = end.status()
            if status is not None:
                _check(end, status)
        os.replace(place.at(), target.at(), src_dir_fd=place.folder, dst_dir_fd=target.folder)


def subfolder(path: AnyPath) -> Path:
    """A folder for other writers, made if missing; UserError if it is a link or a file."""
    path = Path(path)
    if path.is_symlink():
        raise UserError(_refusal(path, "a link", True, "folder"))
    with _place(path / "file", make=True):
        return path


def listed(folder: AnyPath, pattern: str) -> list[Path]:
    """Sorted entries of a folder that match a pattern; [] if there is no folder, UserError if it is a link."""
    folder = Path(folder)
    try:
        with _place(folder / "file"):
            return sorted(folder.glob(pattern))
    except (FileNotFoundError, NotADirectoryError):
        return []


def drafts(folder: AnyPath) -> list[Path]:
    """Remove temporary files of killed writers below a folder, without following links."""
    below = os.walk(folder, followlinks=False)
    return [Path(up) / name for up, _, names in below for name in fnmatch.filter(names, f".*{TMP_SUFFIX}")]
