"""The part of a site that lasts: its items, its clock, and the log that brings both back."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from coterie.clocks import LogicalTime, Stamp
from coterie.process import Channel, Outbox, Process, encode
from coterie.transactions.schemes.scheduler import Name, Number
from coterie.transactions.site.events import Installed
from coterie.transactions.site.messages import Message
from coterie.transactions.site.records import (
    AnyRecord,
    Decided,
    Ended,
    Past,
    Ready,
    Reserved,
    recall,
    written,
)

RESERVE = 1000  # of the clock, at a time
RECORDS_MAX = 1000  # of a log that is not longer than what it amounts to


class Keeper(Process[Message]):
    """Keeps one scheduler, and writes down what a crash must not undo."""

    channel: ClassVar[Channel] = Channel.FIFO  # promises must not overtake what they are about

    sites: int
    scheduler: Any  # a Scheduler of any scheme, of this site
    clock: LogicalTime = 0  # as high as any that was heard of
    reserved: LogicalTime = 0  # the clock has not passed it, says the log
    logged: int = 0  # records since the log was last replaced
    overdue: list[Ended] = []  # records that are written with the next one: they may be lost
    weight: int = 0  # items when they were last counted: a shorter log is not replaced
    ready: dict[Name, Ready] = {}  # in doubt: they wait for a decision, and nothing else ends them
    decided: dict[Name, Decided] = {}  # commits that not everybody has acknowledged
    outcomes: dict[Name, Number] = {}  # of commits here that others may still ask about

    def start(self, out: Outbox[Message]) -> None:
        """Begin with what is on stable storage: later than everything before, with all promises."""
        if not out.saved and not out.log:
            return
        past = recall(out.saved, out.log)
        self.clock = self.reserved = past.time
        self.logged = len(out.log)
        self.ready, self.decided, self.outcomes = past.ready, past.decided, past.outcomes
        items = sorted(past.items.items())
        self.scheduler.restore(items, Stamp(past.time, self.sites))
        for ready in self.ready.values():
            self.scheduler.reinstate(ready.attempt, ready.number, ready.writes, ready.reads)
        for wrote in past.installed:  # the crash may have come before it was told
            out.tell(Installed(wrote.name, wrote.number, tuple(wrote.writes.items())))

    def log(self, record: AnyRecord, out: Outbox[Message]) -> None:
        """Write a record, before anything leaves that rests on it."""
        for each in (*self.overdue, record):
            self.logged += 1
            out.append(written(each))
        self.overdue.clear()

    def tidy(self, out: Outbox[Message]) -> None:
        """Between two steps: replace the log when it has become longer than what it amounts to."""
        if self.logged <= max(self.weight, RECORDS_MAX):
            return
        items = dict(self.scheduler.latest())
        self.weight = len(items)
        if self.logged > self.weight:
            past = Past(self.reserved, items, self.ready, self.decided, self.outcomes)
            out.save(encode(past))
            self.logged = 0
            self.overdue.clear()

    def advance(self, time: LogicalTime, out: Outbox[Message]) -> None:
        """Let the clock be at least so late, which it will be after a crash as well."""
        self.clock = max(self.clock, time)
        if self.clock > self.reserved:
            self.reserved = self.clock + RESERVE
            self.log(Reserved(self.reserved), out)

    def tick(self, out: Outbox[Message]) -> Stamp:
        """Take a stamp that is larger than all that were heard of, and never given again."""
        self.advance(self.clock + 1, out)
        return Stamp(self.clock, self.me)


def coordinator_of(name: Name) -> int:
    """Name the site where a transaction began; its name is its stamp."""
    return int(name.rpartition(".")[2])


def time_of(name: Name) -> LogicalTime:
    """Give the time at which a transaction began."""
    return int(name.partition(".")[0])


def typed(kind: type[Keeper], scheduler: type[msgspec.Struct]) -> type[Any]:
    """Make the class of sites with this kind of scheduler, which can be saved and restored."""
    key = kind, scheduler
    if key not in _TYPED:
        name = f"{kind.__name__}{scheduler.__name__}"
        _TYPED[key] = msgspec.defstruct(
            name, [("scheduler", scheduler)], bases=(kind,), module=kind.__module__, array_like=True
        )
    return _TYPED[key]


_TYPED: dict[tuple[type, type], type[Any]] = {}
