"""Numbers that are never given twice: the places in the queue, and so the fencing tokens.

Two files. `counter` holds the last number and how far numbers are reserved; it is not synced, so
after a power failure it may be anything, and it counts only in the boot that wrote it. `reserve`
holds the end of the reservation, synced before any of those numbers is given away. Losing power
skips the rest of a reservation; killing a process at any point repeats and skips nothing.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from coterie.errors import ConfigError

RESERVED_AT_ONCE = 1024
RECORD = "{:020d} {:020d} {:<40}\n"  # of fixed length, so that a write replaces all of it
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Count(NamedTuple):
    """What `counter` says: numbers above `last` up to `reserved` can be given without a sync."""

    last: int
    reserved: int


def next_number(counter: int, folder: Path) -> int:
    """Return the next number; the caller has locked the file `counter`, passed as a descriptor."""
    boot = _boot()
    count = _read(counter, boot) or _after_reserve(folder)
    number = count.last + 1
    reserved = count.reserved
    if number > reserved:
        reserved = number + RESERVED_AT_ONCE - 1
        _save(folder, reserved)
    os.pwrite(counter, RECORD.format(number, reserved, boot).encode(), 0)
    return number


def _boot() -> str:
    """Name this run of the kernel; empty where it has no name, and then every number is synced."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _read(counter: int, boot: str) -> Count | None:
    words = os.pread(counter, len(RECORD.format(0, 0, "")), 0).decode("ascii", "replace").split()
    if not boot or len(words) != 3 or words[2] != boot:
        return None
    return Count(int(words[0]), int(words[1]))


def _after_reserve(folder: Path) -> Count:
    """Go on after everything that may have been given before.

    The very first number is the time in microseconds: if the directory is deleted, with a
    container for instance, later numbers are still larger unless the clock was set back.
    """
    path = folder / "reserve"
    try:
        last = int(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        last = time.time_ns() // 1000
    except ValueError:
        raise ConfigError(
            f"{path} is damaged, so tokens might not grow;"
            " write into it a number above every token in use"
        ) from None
    return Count(last, last)


def _save(folder: Path, reserved: int) -> None:
    """Write the end of the reservation so that a power failure leaves the old or the new one."""
    new = folder / "reserve.new"
    with new.open("w", encoding="ascii") as file:
        file.write(f"{reserved}\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / "reserve")
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
