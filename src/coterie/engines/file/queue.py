"""The queue of one lock: the tickets in it, and which of them blocks which."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from coterie.engines.file.directory import QUEUES, bucket_of
from coterie.engines.file.numbers import NUMBER_MAX
from coterie.engines.file.place import EXCLUSIVE, SHARED, Place

if TYPE_CHECKING:
    from pathlib import Path


class Queue:
    """The queue of one lock: the tickets in a folder whose names begin with its digest."""

    def __init__(self, folder: Path, name: str) -> None:
        """Find the files; locks share a fixed number of folders, so names leave nothing behind."""
        self.name = name
        self.directory = folder
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        self.folder = folder / QUEUES / digest[:2]
        self._prefix = digest[2:]

    def place(self, number: int, *, shared: bool) -> Place:
        """Name a place."""
        return Place(self.folder / f"{self._prefix}-{number}", number, shared)

    def tickets(self) -> list[Place]:
        """List the tickets, also of the dead, in the order of their numbers."""
        return [self.place(number, shared=shared) for number, shared in self._line()]

    def is_busy(self, *, shared: bool) -> bool:
        """Return True if a newcomer would have to wait."""
        return self._last_living(self._line(), shared=shared) is not None

    def blocker(self, own: Place) -> Place | None:
        """Find the nearest living ticket before ours that we have to wait for."""
        before = [(number, sharing) for number, sharing in self._line() if number < own.number]
        return self._last_living(before, shared=own.shared)

    def _last_living(self, line: list[tuple[int, bool]], *, shared: bool) -> Place | None:
        """Find the last ticket that lives and does not share with us; remove the dead on the way."""
        for number, sharing in reversed(line):
            if sharing and shared:
                continue
            place = self.place(number, shared=sharing)
            if place.content() is not None:
                return place
            place.remove()
        return None

    def sweep(self) -> int:
        """Remove what was left by processes that died while they joined; only at the gate.

        Return the highest number in use: a newcomer must be behind it, and take no name that is taken.
        """
        files = self.files()
        born = {number for number, kind in files if kind in (EXCLUSIVE, SHARED)}
        left = [(number, kind) for number, kind in files if number not in born]
        if left:
            with bucket_of(self.folder / self._prefix) as bucket:
                for number, kind in left:
                    bucket.unlink(f"{self._prefix}-{number}.{kind}")
        return max((number for number, _ in files), default=0)

    def _line(self) -> list[tuple[int, bool]]:
        """List the numbers of all tickets in their order, each with whether it shares.

        A ticket that was there before the listing began and is there after it ended is in it
        (POSIX, readdir), and none joins before ours: so no blocker is overlooked.
        """
        files = sorted(self.files())
        return [(number, kind == SHARED) for number, kind in files if kind in (EXCLUSIVE, SHARED)]

    def files(self) -> list[tuple[int, str]]:
        """List the numbers and kinds of all files of this queue."""
        return [
            (number, kind) for prefix, number, kind in _files(self.folder) if prefix == self._prefix
        ]


def all_tickets(folder: Path) -> list[Place]:
    """List the tickets of all locks of a directory, also of the dead; nothing is changed."""
    places = [
        Place(bucket / f"{prefix}-{number}", number, kind == SHARED)
        for bucket in (folder / QUEUES / name for name in _names(folder / QUEUES))
        for prefix, number, kind in _files(bucket)
        if kind in (EXCLUSIVE, SHARED)
    ]
    return sorted(places, key=lambda place: place.number)


def _files(folder: Path) -> list[tuple[str, int, str]]:
    """Take the names of files apart: of which lock, which number, of which kind."""
    found = []
    for name in _names(folder):
        prefix, _, rest = name.partition("-")
        number, _, kind = rest.partition(".")
        if number.isascii() and number.isdecimal() and int(number) <= NUMBER_MAX:
            found.append((prefix, int(number), kind))
    return found


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - many times faster than making paths
    except FileNotFoundError:
        return []
