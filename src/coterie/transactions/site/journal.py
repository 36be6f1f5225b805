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
from coterie.process import ProcessId, encode
from coterie.transactions.schemes.scheduler import Name, Number
from coterie.transactions.site.events import Installed
from coterie.transactions.site.messages import Acknowledge
from coterie.transactions.site.records import (
    AnyRecord,
    Decided,
    Ended,
    Past,
    Ready,
    Reserved,
    Settled,
    recall,
)

if TYPE_CHECKING:
    from coterie.process import Outbox
    from coterie.transactions.schemes.scheduler import Scheduler
    from coterie.transactions.site.messages import Message

RESERVE = 1000  # of the clock, at a time
OWED_MAX = 16  # acknowledgements that a record takes along, unless a timer rings before
RECORDS_MAX = 1000  # of a log that is not longer than what it amounts to


class Journal(msgspec.Struct, array_like=True):
    """Writes down what a crash must not undo, and brings it back."""

    clock: LogicalTime = 0  # as high as any that was heard of
    reserved: LogicalTime = 0  # the clock has not passed it, says the log
    logged: int = 0  # records since the log was last replaced
    overdue: list[Ended | Ready | Settled] = []  # go with the next record, before it: may be lost
    owed: list[tuple[ProcessId, Name]] = []  # acknowledgements that leave with what is overdue
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
        self._write_overdue(out)
        self.logged += 1
        out.append(encode(record))
        if len(self.owed) >= OWED_MAX:
            self._pay(out)

    def catch_up(self, out: Outbox[Message]) -> None:
        """Write what is overdue, and send what waits for it."""
        self._write_overdue(out)
        self._pay(out)

    def _write_overdue(self, out: Outbox[Message]) -> None:
        for each in self.overdue:
            self.logged += 1
            out.append(encode(each))
        self.overdue.clear()

    def _pay(self, out: Outbox[Message]) -> None:
        names: dict[ProcessId, list[Name]] = {}
        for site, name in self.owed:
            names.setdefault(site, []).append(name)
        self.owed.clear()
        for site, (first, *others) in names.items():
            out.send(site, Acknowledge(self.clock, first, tuple(others)))

    def acknowledge(self, to: ProcessId, name: Name, out: Outbox[Message], *, again: bool) -> None:
        """Acknowledge a commit after its record is on disk, together with others.

        The coordinator forgets a commit that all sites have acknowledged, and then presumes an abort.
        A site that acknowledges first and crashes before its record is on disk would come back in
        doubt, ask, and be told to abort. So an acknowledgement never leaves before what is overdue.
        That may take as long as it likes: until then the coordinator knows the commit, and tells it
        to a site that has lost the record in a crash.
        """
        if again or out.durable:
            self._write_overdue(out)  # what this step writes anyway takes it along
        if again or (to == out.me and not self.overdue):
            # One that tells it again has waited long enough. It may also be of a version that reads
            # one name of a message, so this one is by itself. To ourselves there is nothing to share.
            out.send(to, Acknowledge(self.clock, name))
            self.owed = [each for each in self.owed if each != (to, name)]
        else:
            self.owed.append((to, name))

    def tidy(self, scheduler: Scheduler, out: Outbox[Message]) -> None:
        """Between two steps: replace the log when it has become longer than what it amounts to."""
        if self.logged <= RECORDS_MAX or self.logged <= self.weight:
            return
        items = dict(scheduler.latest())
        self.weight = len(items)
        if self.logged > self.weight:
            past = Past(self.reserved, items, self.ready, self.decided, self.outcomes)
            out.save(encode(past))
            self.logged = 0
            self.overdue.clear()
            self._pay(out)  # the value says what those records would have said

    def advance(self, time: LogicalTime, out: Outbox[Message]) -> None:
        """Let the clock be at least this late, which it will be after a crash as well."""
        if time <= self.clock:
            return
        self.clock = time
        if time > self.reserved:
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
