"""A site of a store that is spread over several: two-phase commit with presumed abort.

The layers, each in its file: it keeps items and a log (`keeper`), carries out requests (`serving`),
votes and obeys decisions (`participant`), passes on what its own users ask for (`asking`), ends their
transactions (`coordinator`), exchanges promises (`promising`) and looks for deadlocks (`searching`).
Here is what reaches it, and its two timers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from coterie.transactions.schemes.scheduler import (
    EVERYTHING,
    Attempt,
    Declaration,
)
from coterie.transactions.site.messages import (
    Acknowledge,
    Aside,
    Ask,
    Collect,
    Collected,
    Decide,
    Inquire,
    Message,
    Pending,
    Prepare,
    Promise,
    Reply,
    Sacrifice,
    Vote,
    Want,
)
from coterie.transactions.site.searching import Searching

if TYPE_CHECKING:
    from coterie.process import Outbox, ProcessId

SILENCE = "silence"  # nothing was heard about something that is under way
BLOCKED = "blocked"  # somebody waits for long


class Site(Searching):
    """One of several sites. Links are reliable and in order as long as both ends live.

    Transactions are serializable by the site's scheme, and atomic over all sites, whatever crashes,
    pauses or gets lost, as long as stable storage is stable. What they cannot be is live: a site
    that has voted waits for its coordinator or for somebody who knows the outcome.
    """

    messages: ClassVar[Any] = Message

    patience: float | None = 1.0  # None: there are no timers, so nobody is ever taken for gone
    search_after: float = 0.2  # of waiting
    minding: bool = False  # SILENCE is set
    blocked: bool = False  # BLOCKED is set

    def start(self, out: Outbox[Message]) -> None:
        """Begin, and settle what a crash has left open."""
        super().start(out)
        self._remind_coordinators(out)
        self._remind_sites(out)
        self._follow_up(out)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a message; clocks are merged first."""
        if sender in self.closed:
            self.closed.remove(sender)
        self.tidy(out)
        self.advance(message.time, out)
        match message:
            case Ask():
                self._asked(sender, message, out)
            case Reply():
                self._replied(sender, message, out)
            case Prepare():
                self._prepare(sender, message, out)
            case Vote():
                self._voted(sender, message, out)
            case Decide(_, name, number):
                self._decide(sender, name, number, out)
            case Acknowledge(_, name):
                self._acknowledged(sender, name)
            case Inquire(_, name):
                self._inquired(sender, name, out)
            case Pending(_, name, others):
                self._heard_of(sender, name, others)
            case Want() | Promise() | Collect() | Collected() | Sacrifice():
                self._receive_aside(sender, message, out)
        self._follow_up(out)

    def _receive_aside(self, sender: ProcessId, message: Aside, out: Outbox[Message]) -> None:
        match message:
            case Want(_, stamp):
                self._wanted(sender, stamp, out)
            case Promise(_, stamp):
                self._hear_promise(sender, stamp, out)
            case Collect(_, search):
                out.send(sender, Collected(self.clock, search, self._waiters()))
            case Collected(_, search, waiters):
                self._collected(search, waiters, out)
            case Sacrifice():
                self._sacrifice(message, out)

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        """Ask for what is missing."""
        if timer == BLOCKED:
            self.blocked = False
            if self.scheduler.waits():
                self._begin_search(out)
        else:
            self.minding = False
            self._remind_coordinators(out)
            self._remind_sites(out)
            self._renew_wants(out)
        self._follow_up(out)

    def _follow_up(self, out: Outbox[Message]) -> None:
        """At the end of a step: promises, and the timers that are needed now."""
        self._ask_for_promises(out)
        self._pay(out)
        if self.patience is None:
            return
        if not self.minding and (self.parts or self.courses or self.decided):
            self.minding = True
            out.set_timer(SILENCE, self.patience)
        if not self.blocked and self._may_be_deadlocked():
            self.blocked = True
            out.set_timer(BLOCKED, self.search_after)

    def _may_be_deadlocked(self) -> bool:
        return self.sites > 1 and self.scheduler.may_deadlock() and bool(self.scheduler.waits())

    # The user's verbs end a step as well

    def begin(
        self, out: Outbox[Message], declaration: Declaration = EVERYTHING, **again: Any
    ) -> Attempt:
        """Begin a transaction, or another attempt of one that was refused."""
        attempt = super().begin(out, declaration, **again)
        self._follow_up(out)
        return attempt

    def close_source(self, source: ProcessId, out: Outbox[Message]) -> None:
        """Wait no more for promises of a site, until it is heard again."""
        if source not in self.closed:
            self.closed.append(source)
        self._follow_up(out)

    def facts(self) -> dict[str, Any]:
        """Tell what is under way, and above all what is in doubt."""
        stamps = {name: part.attempt.stamp for name, part in self.parts.items()}
        return {
            "in doubt": sorted(self.ready),
            "under way": sorted(self.parts),
            "oldest": min(stamps, key=stamps.__getitem__, default=""),
            "not acknowledged": sorted(self.decided),
            "waiting": {name: list(others) for name, others in self.scheduler.waits().items()},
        }
