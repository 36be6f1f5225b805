"""The fence around a resource: it lets nobody pass whose token is older than one it has seen."""

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

    Tokens grow with each grant of a lock, so whoever is refused has lost it to somebody who has
    been here since. It rests on no assumption about time.
    """

    def __init__(self, path: Path) -> None:
        """Guard by the file of that name, which is made when it is needed."""
        self._path = path

    @contextlib.contextmanager
    def passed(self, token: int) -> Iterator[None]:
        """Let the body run alone among all who pass the fence; raises `Refused`."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            largest = int(os.pread(file, DIGITS, 0) or b"0")
            if token < largest:
                raise Refused(f"token {token} is older than {largest}, which has been here")
            os.pwrite(file, b"%0*d" % (DIGITS, token), 0)
            yield
        finally:
            os.close(file)
