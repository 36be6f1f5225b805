"""Locks of single bytes of a file, owned by an open file description (OFD).

They conflict between any two descriptors that were opened apart, in one process or in two, and they
end when they are unlocked or when the last copy of the descriptor is closed: also when the kernel
closes it because the process was killed. A byte need not exist to be locked.
"""

from __future__ import annotations

import fcntl
import struct
import sys

from coterie.errors import ConfigError

if not hasattr(fcntl, "F_OFD_SETLK"):
    raise ConfigError(
        "file: locks need byte locks of open file descriptions (F_OFD_SETLK), which this system or"
        " this build of Python does not have; connect to a coordinator on another machine"
    )

SET, ASK = fcntl.F_OFD_SETLK, fcntl.F_OFD_GETLK
ALONE, SHARED, FREE = fcntl.F_WRLCK, fcntl.F_RDLCK, fcntl.F_UNLCK

# struct flock; its l_pid must be 0 for these locks.
if sys.platform == "darwin":
    LAYOUT = struct.Struct("@qqihh")
    START, TYPE = 0, slice(20, 22)
else:
    LAYOUT = struct.Struct("@hhqqi0q")
    START, TYPE = 2, slice(0, 2)
IS_FREE = struct.pack("@h", FREE)

call = fcntl.fcntl


def request(kind: int, start: int, length: int = 1) -> bytes:
    """Make the argument of a call; a length of 0 reaches to the end of all offsets."""
    if sys.platform == "darwin":
        return LAYOUT.pack(start, length, 0, kind, 0)
    return LAYOUT.pack(kind, 0, start, length, 0)


def attempt(descriptor: int, wanted: bytes) -> bool:
    """Lock, or unlock, and return True; False if another descriptor has a lock in the way."""
    try:
        call(descriptor, SET, wanted)
    except (BlockingIOError, PermissionError):  # POSIX allows either
        return False
    return True


def blocked(descriptor: int, wanted: bytes) -> bool:
    """Return True if another descriptor has a lock in the way; nothing is locked."""
    return call(descriptor, ASK, wanted)[TYPE] != IS_FREE


def obstacle(descriptor: int, kind: int, start: int, end: int | None) -> int | None:
    """Return where a lock begins that is in the way between two offsets; not always the first.

    Without an end, all offsets from the start on count.
    """
    if end is not None and end <= start:
        return None
    return found(descriptor, request(kind, start, 0 if end is None else end - start))


def found(descriptor: int, wanted: bytes) -> int | None:
    """Return where a lock begins that is in the way of this request, if there is one."""
    answer = call(descriptor, ASK, wanted)
    return None if answer[TYPE] == IS_FREE else int(LAYOUT.unpack(answer)[START])
