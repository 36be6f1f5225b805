"""Gives back the space at the beginning of a file that others go on appending to."""

from __future__ import annotations

import sys

FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2


def punch(descriptor: int, end: int) -> None:
    """Let the bytes up to `end` read as zeros and take no space, where the system can do that.

    Linux can, on its own file systems. Elsewhere nothing happens: the file just keeps its space.
    """
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - most programs never come to this

    if ctypes.sizeof(ctypes.c_long) != 8:  # the offsets below
        return
    length = ctypes.c_long(end)
    mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
    ctypes.CDLL(None).fallocate(descriptor, mode, ctypes.c_long(0), length)
