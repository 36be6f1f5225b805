"""One step of a site, as the parts of the site see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from coterie.process import Outbox, ProcessId
from coterie.transactions.schemes.scheduler import Name, Scheduler
from coterie.transactions.site.events import UserAnswer
from coterie.transactions.site.journal import Journal
from coterie.transactions.site.messages import Acknowledge, Message

if TYPE_CHECKING:
    from coterie.clocks import LogicalTime, Stamp
    from coterie.transactions.site.records import AnyRecord, Settled

RINGS_MAX = 4  # of silence, after which a site that is not bound by a vote is taken for gone


class Step(msgspec.Struct, gc=False):  # a struct, since there are some fifteen for each commit
    """What the parts of a site share, and what this step wishes for.

    A site makes one for each input and passes it on; no part keeps it. So the state of a site stays
    a value: parts hold neither each other nor the site.
    """

    me: ProcessId
    sites: int
    scheduler: Scheduler
    journal: Journal
    out: Outbox[Message]
    has_timers: bool  # what may come late is put off until something else is written, or one rings
    on_answer: Callable[[UserAnswer, Outbox[Message]], None]  # tells users how their requests ended

    @property
    def clock(self) -> LogicalTime:
        """The site's clock, which every message carries."""
        return self.journal.clock

    def log(self, record: AnyRecord) -> None:
        """Put a record on disk before any message of this step leaves."""
        self.journal.log(record, self.out)

    def log_late(self, record: Settled) -> None:
        """Put a record on disk with the next one, or when a timer rings: it may be lost."""
        if self.has_timers:
            self.journal.overdue.append(record)
        else:
            self.log(record)

    def acknowledge(self, to: ProcessId, name: Name, *, again: bool = False) -> None:
        """Acknowledge a commit, when it is on disk; at once if it was told again."""
        if self.has_timers:
            self.journal.acknowledge(to, name, self.out, again=again)
        else:
            self.out.send(to, Acknowledge(self.clock, name))

    def advance(self, time: LogicalTime) -> None:
        """Let the clock be at least this late."""
        self.journal.advance(time, self.out)

    def tick(self) -> Stamp:
        """Return a stamp that is larger than all that this site has heard of."""
        return self.journal.tick(self.me, self.out)

    def answer(self, answer: UserAnswer) -> None:
        """Tell a user of this site how its request has ended."""
        self.on_answer(answer, self.out)
