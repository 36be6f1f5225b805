"""Numbers that are never given twice: the places in the queue, and so the fencing tokens.

Two files. `counter` holds the last number and how far numbers are reserved; it is not synced, so
after a power failure it may be anything, and it counts only in the boot that wrote it. `reserve`
holds the end of the reservation, synced before any of those numbers is given away. Losing power
skips the rest of a reservation; killing a process at any point repeats and skips nothing.

Where users share the directory each has a `reserve` of its own, `reserve-UID`, since none may replace a
file of another; the highest of them counts. Exclusion does not rest on what others wrote into these
files: a number is above those of all tickets in its queue, whatever they say.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from coterie.engines.file.directory import READ
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from coterie.engines.file.directory import Folder

NUMBER_MAX = 2**53 - 1  # a token fits a double precision number
RESERVED_AT_ONCE = 1024
RECORD = "{:020d} {:020d} {:<40}\n"  # of fixed length, so that a write replaces all of it
RESERVE = re.compile(r"reserve(-\d+)?")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Count(NamedTuple):
    """What `counter` says: numbers above `last` up to `reserved` can be given without a sync."""

    last: int
    reserved: int


def next_number(counter: int, folder: Folder, above: int = 0) -> int:
    """Return the next number, `above` that one too.

    The caller has locked the file `counter`, passed as a descriptor.
    """
    boot = _boot()
    count = _read(counter, boot) or _after_reserve(folder)
    number = max(count.last, above) + 1
    if number > NUMBER_MAX:
        raise ConfigError(
            f"the next number of the lock directory is {number}, above 2^53: a program or user has"
            " written there what coterie has not; stop all programs that use it and remove it"
        )
    reserved = count.reserved
    if number > reserved:
        reserved = number + RESERVED_AT_ONCE - 1
        _save(folder, reserved)
    os.pwrite(counter, RECORD.format(number, reserved, boot).encode(), 0)
    return number


def _boot() -> str:
    """Name this run of the kernel; empty where it has no name, and then every number is synced."""
    try:
        descriptor = os.open(BOOT_ID, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 100).decode("ascii").strip()
    finally:
        os.close(descriptor)


def _read(counter: int, boot: str) -> Count | None:
    words = os.pread(counter, len(RECORD.format(0, 0, "")), 0).decode("ascii", "replace").split()
    if not boot or len(words) != 3 or words[2] != boot:
        return None
    try:
        return Count(int(words[0]), int(words[1]))
    except ValueError:
        return None


def _after_reserve(folder: Folder) -> Count:
    """Go on after everything that may have been given before.

    The very first number is the time in microseconds: if the directory is deleted, with a
    container for instance, later numbers are still larger unless the clock was set back.
    """
    names = [name for name in folder.names() if RESERVE.fullmatch(name)]
    last = max((_reserved(folder, name) for name in names), default=time.time_ns() // 1000)
    return Count(last, last)


def _reserved(folder: Folder, name: str) -> int:
    descriptor = os.open(name, READ, dir_fd=folder.descriptor)
    try:
        return int(os.read(descriptor, 100).decode("ascii"))
    except ValueError:
        raise ConfigError(
            f"{name} in the lock directory is damaged, so tokens might not grow;"
            " write into it a number above every token in use"
        ) from None
    finally:
        os.close(descriptor)


def _save(folder: Folder, reserved: int) -> None:
    """Write the end of the reservation so that a power failure leaves the old or the new one."""
    name = f"reserve-{os.geteuid()}" if folder.sharing.writers else "reserve"
    # A name that no other user can have taken before us.
    new = f"{name}-{os.urandom(8).hex()}.new"
    file = folder.create(new)
    try:
        os.write(file, f"{reserved}\n".encode())
        os.fsync(file)
        folder.rename(new, name)
    except BaseException:
        folder.unlink(new)
        raise
    finally:
        os.close(file)
    os.fsync(folder.descriptor)
