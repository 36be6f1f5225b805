"""The versions of one key, oldest first, each with the largest stamp that has read it."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import msgspec

from coterie.clocks import Stamp
from coterie.transactions.schemes.scheduler import BEGINNING, Active, Item, Name

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    until: Stamp | None = None  # the next version, if that one is not kept any more

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
        if not place:
            return None
        version = self.versions[place - 1]
        return version if version.until is None or stamp < version.until else None

    def next_kept(self, stamp: Stamp) -> Stamp:
        """Return the version after a stamp whose own is not kept."""
        return self.versions[self.place(stamp)].number

    def pend(self, stamp: Stamp, writer: Name) -> None:
        """Add a version of that stamp, whose transaction is not decided."""
        place = self.place(stamp)
        pending = Version(stamp, writer=writer, pending=True)
        if place:  # it is the next one now, and is followed by what has followed before
            before = self.versions[place - 1]
            before.until, pending.until = None, before.until
        self.versions.insert(place, pending)

    def withdraw(self, stamp: Stamp) -> None:
        """Take away the version of that stamp, whose transaction is aborted."""
        place = self.place(stamp) - 1
        if place:
            self.versions[place - 1].until = self.versions[place].until
        del self.versions[place]

    def trim(self, under_way: Sequence[Stamp], promised: Stamp, versions_max: int | None) -> None:
        """Drop versions that no transaction can see any more, and the oldest ones beyond a limit.

        A version is seen by the stamps from its own up to the next one: those under way, in order,
        and all later ones than what was promised. The next one counts only if it is decided. So a
        pending version and the one before it are kept for its writer, which is under way.
        """
        kept: list[Version] = []
        after: Stamp | None = None  # the next version that is decided
        dropped: Stamp | None = None  # the oldest of those just dropped
        for version in reversed(self.versions):
            end = after if version.until is None else version.until
            if end is None or end > promised or _any_within(under_way, version.number, end):
                if dropped is not None and version.until is None:
                    version.until = dropped
                dropped = None
                kept.append(version)
            else:
                dropped = version.number
            if not version.pending:
                after = version.number
        kept.reverse()
        if versions_max is not None:
            decided = next((n for n, version in enumerate(kept) if version.pending), len(kept))
            del kept[: max(0, min(len(kept) - versions_max, decided - 1))]
        self.versions = kept
        self.trim_at = max(TRIM_AT, 2 * len(kept))  # to look at all must pay off


def _any_within(stamps: Sequence[Stamp], low: Stamp, high: Stamp) -> bool:
    return bisect_left(stamps, low) < bisect_left(stamps, high)
