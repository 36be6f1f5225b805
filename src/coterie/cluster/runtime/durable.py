"""A folder that belongs to one process, and files in it that are replaced whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from typing import IO, TYPE_CHECKING

from coterie import system
from coterie.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from pathlib import Path


LOCK = "lock"  # a file in each folder that has been taken


class FolderLock:
    """Keeps other processes out of a folder while it is taken."""

    def __init__(self, folder: Path, what: str) -> None:
        """Remember the folder; `what` is run on it: a node or a site."""
        self._folder = folder
        self._what = what
        self._file: IO[bytes] | None = None

    def take(self) -> None:
        """Make the folder, and take it or raise `ConfigError`."""
        try:
            make_private(self._folder)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
            file = os.fdopen(open_private(self._folder / LOCK, flags), "rb+", buffering=0)
        except OSError as error:
            raise Unavailable(f"the data directory {self._folder}: {error.strerror}") from None
        try:
            system.lock(file)
        except BlockingIOError:
            file.close()
            raise ConfigError(f"another process runs a {self._what} on {self._folder}") from None
        self._file = file

    def release(self) -> None:
        """Let another process have the folder."""
        if self._file is not None:
            self._file.close()
            self._file = None


def make_private(folder: Path) -> None:
    """Make a folder that its owner alone can read; close one of ours that an earlier version left open.

    A folder with other things in it may have been named by mistake, and keeps its mode.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        known, names = os.fstat(descriptor), os.listdir(descriptor)  # noqa: PTH208 - not by its path
        is_open = known.st_uid == os.geteuid() and stat.S_IMODE(known.st_mode) & 0o077
        if is_open and (not names or LOCK in names):
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file that its owner alone can read, if it is made: the opener for `open`.

    A link in its place is not followed: where others may write the folder, it is one of theirs.
    """
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def replace(path: Path, content: bytes) -> None:
    """Put content under a name; after a crash at any time the old or the new is found there whole."""
    new = path.with_suffix(".new")
    with open(new, "wb", opener=open_private) as file:
        file.write(content)
        file.flush()
        system.sync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        system.sync(descriptor)
    finally:
        os.close(descriptor)
