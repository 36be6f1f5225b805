"""The fence around a resource: it refuses every token older than one it has seen."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from coterie.errors import CoterieError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DIGITS = 20  # of a 64-bit number


class Refused(CoterieError):  # noqa: N818 - says what happened, like the errors of locks
    """An access with a token that is older than one that the fence has seen."""

    definite = True


class Fence:
    """The largest token seen so far, kept in a file under an OS lock.

    Tokens grow with each grant of a lock, so a holder that is refused has lost the lock to a later
    holder that has been here since. It rests on no assumption about time.
    """

    def __init__(self, path: Path) -> None:
        """Use the file of that name, which is created on first use."""
        self._path = path

    @contextlib.contextmanager
    def passed(self, token: int) -> Iterator[None]:
        """Run the body while no other process is past the fence; raise `Refused` if too old."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            largest = int(os.pread(file, DIGITS, 0) or b"0")
            if token < largest:
                raise Refused(f"token {token} is older than {largest}, which the fence has seen")
            os.pwrite(file, b"%0*d" % (DIGITS, token), 0)
            yield
        finally:
            os.close(file)
