"""Promises between sites: null requests, which say that nothing with a small stamp will come.

A conservative scheduler waits for them; a multiversion one throws old versions away by them. Nobody
sends them unasked: whoever waits asks, and whoever has garbage asks now and then.

The promise of a site that is gone can be presumed, for whoever presumes it also keeps it: what that
site begins later with a smaller stamp is not let in here. So no other site has to agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.clocks import LogicalTime, Stamp
from coterie.transactions.schemes.scheduler import Attempt, Scheduler
from coterie.transactions.site.coordinator import Coordinator
from coterie.transactions.site.messages import Message, Promise, Want

if TYPE_CHECKING:
    from coterie.process import Outbox, ProcessId
    from coterie.transactions.schemes.scheduler import Answer


OUTDATED = 64  # stamps that a promise is behind, when it is asked for again to find garbage


class Promising(Coordinator):
    """Gives promises about the transactions that begin here, and asks others for theirs."""

    promised: list[Stamp] = []  # by each site, from 1 on: what begins there is larger
    wants: list[LogicalTime] = []  # what we have asked each site for
    owed: list[LogicalTime] = []  # what each site has asked us for, and did not get yet
    closed: list[int] = []  # sites whose promises are presumed until they are heard again

    def start(self, out: Outbox[Message]) -> None:
        """Begin without a promise of anybody, but with our own word about the time before a crash.

        What others promised is forgotten, and what they began; nothing so early is let in again.
        """
        super().start(out)
        self.promised = [Stamp(self.reserved, self.sites)] * self.sites
        self.wants = [0] * self.sites
        self.owed = [0] * self.sites

    def heeds_promises(self) -> bool:
        """Tell whether the scheme waits for promises, or drops versions by them."""
        return type(self.scheduler).promise is not Scheduler.promise

    def _admits(self, opening: Attempt) -> bool:
        """Tell whether a beginning breaks no promise; one that is announced is a promise itself.

        It would break one only if messages were lost or came twice, or if this site has crashed.
        """
        place = opening.stamp.process - 1
        if self.heeds_promises() and opening.stamp <= self.promised[place]:
            return False
        if self.scheduler.announced:
            self.promised[place] = opening.stamp
        return True

    def _bound(self, site: ProcessId) -> LogicalTime:
        """Give a time above which all stamps will be that begin at that site from now on.

        Announced transactions have begun wherever they will; of the others each may still go there.
        """
        if self.scheduler.announced:
            return self.clock
        courses = self.courses.values()
        coming = [c.attempt.stamp.time - 1 for c in courses if site not in c.sites]
        return min((*coming, self.clock))

    def _wanted(self, sender: ProcessId, stamp: Stamp, out: Outbox[Message]) -> None:
        """Promise, now or as soon as it is true; nothing smaller begins here any more."""
        self.advance(stamp.time, out)
        self.owed[sender - 1] = max(self.owed[sender - 1], stamp.time)

    def _pay(self, out: Outbox[Message]) -> None:
        """Send the promises that are due."""
        for place, time in enumerate(self.owed):
            if time and (bound := self._bound(place + 1)) >= time:
                self.owed[place] = 0
                out.send(place + 1, Promise(self.clock, Stamp(bound, self.sites)))

    def _hear_promise(self, sender: ProcessId, stamp: Stamp, out: Outbox[Message]) -> None:
        if stamp <= self.promised[sender - 1]:
            return
        self.promised[sender - 1] = stamp
        answers: list[Answer] = []
        self.scheduler.promise(sender, stamp, answers)
        self._pass_on(answers, out)

    def _ask_for_promises(self, out: Outbox[Message]) -> None:
        """Ask the sites on whose promise somebody waits, once for each stamp."""
        for source, stamp in self.scheduler.awaited():
            if source == self.me:
                self._wanted(self.me, stamp, out)
            elif source in self.closed:
                self._hear_promise(source, stamp, out)
            elif self.wants[source - 1] < stamp.time:
                self.wants[source - 1] = stamp.time
                out.send(source, Want(self.clock, stamp))

    def _renew_wants(self, out: Outbox[Message]) -> None:
        """Ask again, since questions and promises get lost with a site that crashes."""
        self.wants = [0] * self.sites
        if not self.heeds_promises() or self.scheduler.announced:
            return
        for place, promise in enumerate(self.promised):
            if self.clock - promise.time <= OUTDATED:
                continue
            if place + 1 in self.closed:
                self._hear_promise(place + 1, Stamp(self.clock, self.sites), out)
            else:
                out.send(place + 1, Want(self.clock, Stamp(self.clock, self.me)))
