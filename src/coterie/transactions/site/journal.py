"""What a site keeps when it crashes: its items, its clock, its votes and its decisions.

All of it is in a log of records. What is not there a site may forget
(docs/transactions/several-sites.md, "What blocks, and when"):

- A transaction that has not voted here. The site has promised nothing about it, so it is free to
  refuse it: each request carries its count, and the next one, or the prepare, shows that some are
  missing.
- A transaction of an own user without a decision. No site has been told to commit it, and the rule of
  presumed abort answers every question about it (Mohan, Lindsay and Obermarck, 1986).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.clocks import LogicalTime, Stamp
from coterie.process import encode
from coterie.transactions.schemes.scheduler import Name, Number
from coterie.transactions.site.events import Installed
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

if TYPE_CHECKING:
    from coterie.process import Outbox, ProcessId
    from coterie.transactions.schemes.scheduler import Scheduler
    from coterie.transactions.site.messages import Message

RESERVE = 1000  # of the clock, at a time
RECORDS_MAX = 1000  # of a log that is not longer than what it amounts to


class Journal(msgspec.Struct, array_like=True):
    """Writes down what a crash must not undo, and brings it back."""

    clock: LogicalTime = 0  # as high as any that was heard of
    reserved: LogicalTime = 0  # the clock has not passed it, says the log
    logged: int = 0  # records since the log was last replaced
    overdue: list[Ended | Ready] = []  # written with the next record, before it: they may be lost
    weight: int = 0  # items when they were last counted: a shorter log is not replaced
    ready: dict[Name, Ready] = {}  # in doubt: they wait for a decision, and nothing else ends them
    decided: dict[Name, Decided] = {}  # commits that some sites have not acknowledged
    outcomes: dict[Name, Number] = {}  # of commits here that others may still ask about

    def recover(self, sites: int, scheduler: Scheduler, out: Outbox[Message]) -> None:
        """Begin with what is on stable storage: later than everything before, with all promises.

        Transactions that have voted come back with what they hold, before the first request: a
        coordinator may have committed them on the strength of that vote.
        """
        if not out.saved and not out.log:
            return
        past = recall(out.saved, out.log)
        # Never below a time that was used before the crash, or two transactions had one name.
        self.clock = self.reserved = past.time
        self.logged = len(out.log)
        self.ready, self.decided, self.outcomes = past.ready, past.decided, past.outcomes
        scheduler.restore(sorted(past.items.items()), Stamp(past.time, sites))
        for ready in self.ready.values():
            scheduler.reinstate(ready.attempt, ready.number, ready.writes, ready.reads)
        for wrote in past.installed:  # the crash may have come before it was told
            out.tell(Installed(wrote.name, wrote.number, tuple(wrote.writes.items())))

    def log(self, record: AnyRecord, out: Outbox[Message]) -> None:
        """Write a record, before anything leaves that rests on it.

        A world puts what a step appends on disk before it sends a message of that step or tells its
        users anything. So a record has to be logged in the step that makes it known, not later.
        """
        for each in (*self.overdue, record):
            self.logged += 1
            out.append(written(each))
        self.overdue.clear()

    def tidy(self, scheduler: Scheduler, out: Outbox[Message]) -> None:
        """Between two steps: replace the log when it has become longer than what it amounts to."""
        if self.logged <= max(self.weight, RECORDS_MAX):
            return
        items = dict(scheduler.latest())
        self.weight = len(items)
        if self.logged > self.weight:
            past = Past(self.reserved, items, self.ready, self.decided, self.outcomes)
            out.save(encode(past))
            self.logged = 0
            self.overdue.clear()

    def advance(self, time: LogicalTime, out: Outbox[Message]) -> None:
        """Let the clock be at least this late, which it will be after a crash as well."""
        self.clock = max(self.clock, time)
        if self.clock > self.reserved:
            self.reserved = self.clock + RESERVE
            self.log(Reserved(self.reserved), out)

    def tick(self, me: ProcessId, out: Outbox[Message]) -> Stamp:
        """Return a stamp that is larger than all that were heard of, and never given again."""
        self.advance(self.clock + 1, out)
        return Stamp(self.clock, me)

    def commit_number(self, name: Name) -> Number | None:
        """Return the number by which a transaction has committed, if that is known here."""
        decided = self.decided.get(name)
        return self.outcomes.get(name) if decided is None else decided.number
