"""The queue of one lock: who stands in it, and who stands in whose way."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING

from coterie.engines.file.place import EXCLUSIVE, SHARED, Place

if TYPE_CHECKING:
    from pathlib import Path


class Queue:
    """The queue of one lock: the tickets in a folder whose names begin with its digest."""

    def __init__(self, folder: Path, name: str) -> None:
        """Find the files; locks share a fixed number of folders, so names leave nothing behind."""
        self.name = name
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        self.folder = folder / "queues" / digest[:2]
        self._prefix = digest[2:]

    def place(self, number: int, *, shared: bool) -> Place:
        """Name a place."""
        return Place(self.folder / f"{self._prefix}-{number}", number, shared)

    def tickets(self) -> list[Place]:
        """List the tickets, also of the dead, in the order of their numbers."""
        return [self.place(number, shared=shared) for number, shared in self._line()]

    def living(self) -> list[tuple[Place, bytes]]:
        """List the tickets of the living with what they wrote."""
        contents = [(place, place.content()) for place in self.tickets()]
        return [(place, content) for place, content in contents if content is not None]

    def is_busy(self, *, shared: bool) -> bool:
        """Tell whether a newcomer would have to wait."""
        return self._last_living(self._line(), shared=shared) is not None

    def in_the_way(self, own: Place) -> Place | None:
        """Find the nearest living one before us whom we have to wait for."""
        before = [(number, sharing) for number, sharing in self._line() if number < own.number]
        return self._last_living(before, shared=own.shared)

    def _last_living(self, line: list[tuple[int, bool]], *, shared: bool) -> Place | None:
        """Find the last who lives and does not share with us; bury the dead on the way."""
        for number, sharing in reversed(line):
            if sharing and shared:
                continue
            place = self.place(number, shared=sharing)
            if place.content() is not None:
                return place
            place.remove()
        return None

    def sweep(self) -> None:
        """Remove what was left by processes that died while they joined; only at the gate."""
        files = self._files()
        born = {number for number, kind in files if kind in (EXCLUSIVE, SHARED)}
        for number, kind in files:
            if number not in born:
                with contextlib.suppress(OSError):
                    (self.folder / f"{self._prefix}-{number}.{kind}").unlink()

    def _line(self) -> list[tuple[int, bool]]:
        """List the numbers of all tickets in their order, each with whether it shares.

        A ticket that was there before the listing began and is there after it ended is in it
        (POSIX, readdir), and nobody joins before us: so no one in our way is overlooked.
        """
        files = sorted(self._files())
        return [(number, kind == SHARED) for number, kind in files if kind in (EXCLUSIVE, SHARED)]

    def _files(self) -> list[tuple[int, str]]:
        found = []
        for name in self._names():
            prefix, _, rest = name.partition("-")
            number, _, kind = rest.partition(".")
            if prefix == self._prefix and number.isdigit():
                found.append((int(number), kind))
        return found

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.folder)  # noqa: PTH208 - many times faster than making paths
        except FileNotFoundError:
            return []
