"""A lock directory of the format before this one: tickets in a folder `queues`, a gate on `counter`.

Programs of the earlier version and of this one would not see each other's locks. So the first program of
this version goes through the gate, by which those of the earlier version join, and looks whether one of
them holds or waits for a lock. If so, the directory is refused. If not, it puts a plain file in the place
of the folder `queues`: whatever program of the earlier version still runs cannot join any more, and says
why. A directory that is made by this version has that file from the beginning.

The tokens of the earlier version are below what its `reserve` files say, and these count here, too.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from typing import TYPE_CHECKING

from coterie.engines.file.directory import READ
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.engines.file.directory import Folder

QUEUES, COUNTER = "queues", "counter"
TICKETS = (".x", ".s")
NOTICE = b"This lock directory is in a format that this program does not know: update coterie.\n"
GATE_SECONDS_MAX = 10.0
PAUSE_SECONDS = 0.001


def take_over(folder: Folder, path: str) -> None:
    """Bar programs of the earlier version from an open lock directory; refuse one that they use.

    Only before the file `words` is made: where that is, this has been done.
    """
    if not _is_folder(folder):
        _put_up_notice(folder)
        return
    counter = _gate(folder, path)
    try:
        if _is_folder(folder):  # else another program has been here meanwhile
            _replace(folder, path)
    finally:
        if counter >= 0:
            fcntl.flock(counter, fcntl.LOCK_UN)
            os.close(counter)


def _replace(folder: Folder, path: str) -> None:
    """Put a plain file in the place of the tickets; at the gate, so none can join meanwhile."""
    for ticket in _tickets(folder):
        if _is_locked(ticket, folder):
            raise ConfigError(
                f"the lock directory {path} is in use by programs of an earlier version of coterie,"
                " whose locks this version does not see; let them end, or choose another directory"
                " by COTERIE_DIR or file:/path"
            )
    old = f"{QUEUES}-{os.urandom(8).hex()}"
    try:
        folder.rename(QUEUES, old)
    except PermissionError:
        raise ConfigError(
            f"the lock directory {path} is of an earlier version of coterie, and its folder {QUEUES}"
            " belongs to another user: let that user, or root, take a lock there once, or remove it"
        ) from None
    _put_up_notice(folder)
    import shutil  # noqa: PLC0415 - once in the life of a directory

    shutil.rmtree(f"{path}/{old}", ignore_errors=True)  # what is of other users stays


def _put_up_notice(folder: Folder) -> None:
    try:
        notice = folder.create(QUEUES)
    except FileExistsError:
        return
    os.write(notice, NOTICE)
    os.close(notice)


def _is_folder(folder: Folder) -> bool:
    try:
        found = os.stat(QUEUES, dir_fd=folder.descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode)


def _gate(folder: Folder, path: str) -> int:
    """Lock the file `counter` as programs of the earlier version do; -1 if there is none."""
    try:
        counter = os.open(COUNTER, READ, dir_fd=folder.descriptor)
    except FileNotFoundError:
        return -1
    stuck_at = time.monotonic() + GATE_SECONDS_MAX
    while True:
        try:
            fcntl.flock(counter, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > stuck_at:
                os.close(counter)
                raise ConfigError(
                    f"{path}/{COUNTER} is locked by a program of an earlier version of coterie,"
                    " which has been stopped there; `lslocks` shows which"
                ) from None
            time.sleep(PAUSE_SECONDS)
        else:
            return counter


def _tickets(folder: Folder) -> Iterator[str]:
    with folder.enter(QUEUES) as queues:
        for bucket in queues.names():
            try:
                with queues.enter(bucket) as opened:
                    names = opened.names()
            except OSError:
                continue  # no folder: not of the earlier version
            yield from (f"{QUEUES}/{bucket}/{name}" for name in names if name.endswith(TICKETS))


def _is_locked(ticket: str, folder: Folder) -> bool:
    try:
        descriptor = os.open(ticket, READ, dir_fd=folder.descriptor)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
