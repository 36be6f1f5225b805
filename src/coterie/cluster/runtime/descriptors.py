"""File descriptors: how many this process may have, and some that are kept for the disk.

Each connection takes one, also that of a caller that never proves itself. A node that has none left
must neither end nor fail to save what it promises.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform != "win32":
    import resource

LIMIT_MAX = 65_536  # more are of no use to a node, and some systems do not grant what they promise
UNKNOWN_LIMIT = 512
RESERVED = 2  # saving needs one at a time; another thread may take one just then
EXHAUSTED = (errno.EMFILE, errno.ENFILE)  # none left: to this process, or on this machine


def limit() -> int:
    """Return how many descriptors this process may have."""
    if sys.platform == "win32":
        return UNKNOWN_LIMIT
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return LIMIT_MAX if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Let this process have as many descriptors as it may ask for without privileges."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, LIMIT_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # the system knows a limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Reserve:
    """Descriptors that are kept for the disk, and given up while it is written."""

    def __init__(self) -> None:
        """Begin without any."""
        self._kept: list[int] = []
        weakref.finalize(self, _close, self._kept)

    def fill(self) -> None:
        """Take as many as are missing, if there are any left."""
        with contextlib.suppress(OSError):
            while len(self._kept) < RESERVED:
                self._kept.append(os.open(os.devnull, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Give them up for what is opened inside, and take them back afterwards."""
        self.empty()
        try:
            yield
        finally:
            self.fill()

    def empty(self) -> None:
        """Give them up."""
        _close(self._kept)


def _close(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
