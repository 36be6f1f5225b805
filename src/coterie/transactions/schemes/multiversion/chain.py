"""The versions of one key, oldest first, each with the largest stamp that has read it."""

from __future__ import annotations

import msgspec

from coterie.clocks import Stamp
from coterie.transactions.schemes.scheduler import BEGINNING, Active, Item, Name

NOTHING = Stamp(-1, 0)  # the number of what was there before the first version: no key
TRIM_AT = 8  # versions of a key, before it pays to look which are of use


class Version(msgspec.Struct, array_like=True, gc=False):
    """What a key was from one stamp to the next."""

    number: Stamp
    item: Item | None = None  # None: there was no key, or the write is pending
    writer: Name = ""
    pending: bool = False
    read: Stamp = BEGINNING  # the largest stamp that has read it; aborts do not lower it
    reader: Name = ""

    def note(self, active: Active) -> None:
        """Remember the reader, unless a later one has read it."""
        if self.read < active.attempt.stamp:
            self.read, self.reader = active.attempt.stamp, active.attempt.name


class Chain(msgspec.Struct, array_like=True):
    """The versions of a key, and the readers that wait for one of them to be decided."""

    versions: list[Version]
    readers: list[Name] = []
    trim_at: int = TRIM_AT

    def place(self, stamp: Stamp) -> int:
        """Return where a version of that stamp belongs: behind all that are not later."""
        place = len(self.versions)
        while place and stamp < self.versions[place - 1].number:
            place -= 1
        return place

    def at(self, stamp: Stamp) -> Version | None:
        """Return the version that a transaction of that stamp sees; None if it is not kept."""
        place = self.place(stamp)
        return self.versions[place - 1] if place else None

    def trim(self, horizon: Stamp, versions_max: int | None) -> None:
        """Drop versions that no stamp from the horizon on sees, and more beyond a limit.

        Of the versions up to the horizon the newest is still seen. Pending ones are kept.
        """
        decided = 0
        while decided < len(self.versions) and not self.versions[decided].pending:
            decided += 1
        useless = min(self.place(horizon), decided) - 1
        if versions_max is not None:
            useless = max(useless, min(len(self.versions) - versions_max, decided - 1))
        if useless > 0:
            del self.versions[:useless]
        self.trim_at = max(TRIM_AT, 2 * len(self.versions))  # to look at all must pay off
