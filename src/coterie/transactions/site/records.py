"""The log of a site: what it has promised and decided, and what that amounts to after a crash.

A commit is one record wherever it becomes one: `Wrote` where a single site took part, `Decided` at
the coordinator of several. There are no records of aborts without a vote: what the log says
nothing about is aborted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coterie.clocks import LogicalTime
from coterie.transactions.schemes.scheduler import Attempt, Item, Name, Number, Value
from coterie.transactions.schemes.span import Span

if TYPE_CHECKING:
    from collections.abc import Iterable


class Record(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all records."""


class Reserved(Record, frozen=True):
    """The clock has not passed this time: what happens after a crash happens later."""

    time: LogicalTime


class Ready(Record, frozen=True):
    """The writes of a transaction, and what it may not lose; its commit is another site's word."""

    attempt: Attempt
    number: Number  # proposed
    writes: dict[str, Value]
    reads: tuple[Span, ...]
    sites: tuple[int, ...]
    life: int = 0  # of this site, in which it has carried out the requests


class Settled(Record, frozen=True):
    """What was ready has committed by this number; without one, aborted."""

    name: Name
    number: Number | None


class Wrote(Record, frozen=True):
    """The writes of a transaction that took part at this site alone, and has committed."""

    name: Name
    number: Number
    writes: dict[str, Value]


class Decided(Record, frozen=True):
    """A transaction has committed, and these sites have not confirmed that they know."""

    name: Name
    number: Number
    sites: tuple[int, ...]


class Ended(Record, frozen=True):
    """All sites have acknowledged that commit."""

    name: Name


AnyRecord: TypeAlias = Reserved | Ready | Settled | Wrote | Decided | Ended

_decode_record = msgspec.msgpack.Decoder(AnyRecord).decode


class Past(msgspec.Struct, array_like=True):
    """All that a log amounts to; written as a whole, it takes the place of the log."""

    time: LogicalTime = 0
    items: dict[str, Item] = {}
    ready: dict[Name, Ready] = {}
    decided: dict[Name, Decided] = {}
    outcomes: dict[Name, Number] = {}  # of commits that others may still ask about
    installed: list[Wrote] = []  # what has taken effect here; not kept when the log is replaced

    def play(self, record: AnyRecord) -> None:
        """Apply a record."""
        match record:
            case Reserved(time):
                self.time = time
            case Ready(attempt):
                self.ready[attempt.name] = record
            case Settled(name, number):
                ready = self.ready.pop(name)
                if number is not None:
                    self.outcomes[name] = number
                    self._install(Wrote(name, number, ready.writes))
            case Wrote():
                self._install(record)
            case Decided(name):
                self.decided[name] = record
            case Ended(name):
                del self.decided[name]

    def _install(self, wrote: Wrote) -> None:
        """Keep the newest version of each key; commits need not come in the order of stamps."""
        self.installed.append(wrote)
        for key, value in wrote.writes.items():
            known = self.items.get(key)
            if known is None or known.number < wrote.number:
                self.items[key] = Item(value, wrote.number)


def recall(saved: bytes, log: Iterable[bytes]) -> Past:
    """Return what the stable storage of a site amounts to."""
    past = msgspec.msgpack.decode(saved, type=Past) if saved else Past()
    for record in log:
        past.play(_decode_record(record))
    return past
