"""One key of a scheme that keeps one version: stamps, pending writes, and who waits for them."""

from __future__ import annotations

import msgspec

from coterie.clocks import Stamp
from coterie.transactions.schemes.scheduler import BEGINNING, Active, Item, Name


class Prewrite(msgspec.Struct, array_like=True, gc=False):
    """A write that was accepted and is not installed yet."""

    stamp: Stamp
    writer: Name
    item: Item | None = None  # what to install, once its transaction has committed


class Cell(msgspec.Struct, array_like=True):
    """A key: what is installed, who was there, and who waits."""

    item: Item | None = None  # None: never written, as far as is remembered
    writer: Name = ""
    read: Stamp = BEGINNING  # the largest stamp that has read it; aborts do not lower it
    reader: Name = ""
    pending: list[Prewrite] = []  # by stamp; between requests the first is undecided
    readers: list[Name] = []  # who wait for pending writes before them

    def blocks(self, stamp: Stamp) -> bool:
        """Tell whether a write before that stamp is pending."""
        return bool(self.pending) and self.pending[0].stamp < stamp

    def overtaken(self, stamp: Stamp) -> bool:
        """Tell whether a write after that stamp is installed."""
        return self.item is not None and stamp < self.item.number

    def note(self, active: Active) -> None:
        """Remember who has read it, if nobody later has."""
        if self.read < active.attempt.stamp:
            self.read, self.reader = active.attempt.stamp, active.attempt.name

    def pend(self, active: Active) -> None:
        """Give a write its place among the pending ones."""
        stamp, place = active.attempt.stamp, len(self.pending)
        while place and stamp < self.pending[place - 1].stamp:
            place -= 1
        self.pending.insert(place, Prewrite(stamp, active.attempt.name))
