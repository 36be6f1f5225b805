"""Promises between sites: null requests, which say that nothing with a small stamp will come.

A conservative scheduler waits for them; a multiversion one throws old versions away by them. They are
sent on request only: a site asks while something waits for them, or now and then when it has old
versions.

The promise of a site that is gone can be presumed, for the site that presumes it also keeps it: what
the other begins later with a smaller stamp is not let in here. So no other site has to agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.clocks import LogicalTime, Stamp
from coterie.process import ProcessId
from coterie.transactions.schemes.scheduler import Attempt, Scheduler
from coterie.transactions.site.messages import Promise, Want

if TYPE_CHECKING:
    from coterie.transactions.schemes.scheduler import Answer
    from coterie.transactions.site.coordinator import Coordinator
    from coterie.transactions.site.resource import Resource
    from coterie.transactions.site.step import Step

OUTDATED = 64  # stamps that a promise is behind, when it is asked for again to find garbage


def heeds_promises(scheduler: Scheduler) -> bool:
    """Return whether a scheme waits for promises, or drops versions by them."""
    return type(scheduler).promise is not Scheduler.promise


class Promises(msgspec.Struct, array_like=True):
    """Gives promises about the transactions that begin here, and asks others for theirs."""

    promised: list[Stamp] = []  # by each site, from 1 on: what begins there is larger
    wants: list[LogicalTime] = []  # what we have asked each site for
    owed: list[LogicalTime] = []  # what each site has asked us for, and did not get yet
    closed: list[ProcessId] = []  # sites whose promises are presumed until they are heard again

    def start(self, step: Step) -> None:
        """Begin without a promise of any site, but with our own word about the time before a crash.

        What others promised is forgotten, and what they began; nothing so early is let in again.
        """
        self.promised = [Stamp(step.journal.reserved, step.sites)] * step.sites
        self.wants = [0] * step.sites
        self.owed = [0] * step.sites

    def admits(self, opening: Attempt, step: Step) -> bool:
        """Return whether a beginning breaks no promise; one that is announced is a promise itself.

        It would break one only if messages were lost or came twice, or if this site has crashed.
        """
        place = opening.stamp.process - 1
        if heeds_promises(step.scheduler) and opening.stamp <= self.promised[place]:
            return False
        if step.scheduler.announced:
            self.promised[place] = opening.stamp
        return True

    # Ours

    def on_want(self, sender: ProcessId, stamp: Stamp, step: Step) -> None:
        """Owe a promise until it is true; nothing smaller begins here any more."""
        step.advance(stamp.time)
        self.owed[sender - 1] = max(self.owed[sender - 1], stamp.time)

    def pay(self, coordinator: Coordinator, step: Step) -> None:
        """Send the promises that have become true."""
        for place, time in enumerate(self.owed):
            if time and (bound := _bound(place + 1, coordinator, step)) >= time:
                self.owed[place] = 0
                step.out.send(place + 1, Promise(step.clock, Stamp(bound, step.sites)))

    # Those of others

    def on_promise(self, sender: ProcessId, stamp: Stamp, resource: Resource, step: Step) -> None:
        """Let go on what has waited for this promise."""
        if stamp <= self.promised[sender - 1]:
            return
        self.promised[sender - 1] = stamp
        answers: list[Answer] = []
        step.scheduler.promise(sender, stamp, answers)
        resource.pass_on(answers, step)

    def ask(self, resource: Resource, step: Step) -> None:
        """Ask the sites on whose promise a transaction waits, once for each stamp."""
        for source, stamp in step.scheduler.awaited():
            if source == step.me:
                self.on_want(step.me, stamp, step)
            elif source in self.closed:
                self.on_promise(source, stamp, resource, step)
            elif self.wants[source - 1] < stamp.time:
                self.wants[source - 1] = stamp.time
                step.out.send(source, Want(step.clock, stamp))

    def renew(self, resource: Resource, step: Step) -> None:
        """Ask again, since questions and promises get lost with a site that crashes."""
        self.wants = [0] * step.sites
        if not heeds_promises(step.scheduler) or step.scheduler.announced:
            return
        for place, promise in enumerate(self.promised):
            if step.clock - promise.time <= OUTDATED:
                continue
            if place + 1 in self.closed:
                self.on_promise(place + 1, Stamp(step.clock, step.sites), resource, step)
            else:
                step.out.send(place + 1, Want(step.clock, Stamp(step.clock, step.me)))

    def close(self, source: ProcessId) -> None:
        """Presume the promises of a site from now on."""
        if source not in self.closed:
            self.closed.append(source)

    def reopen(self, source: ProcessId) -> None:
        """Wait for the promises of a site again, since it was heard."""
        if source in self.closed:
            self.closed.remove(source)


def _bound(site: ProcessId, coordinator: Coordinator, step: Step) -> LogicalTime:
    """Return a time above which all stamps will be that begin at that site from now on.

    Announced transactions have begun at all their sites; of the others each may still go there.
    """
    if step.scheduler.announced:
        return step.clock
    courses = coordinator.courses.values()
    coming = [c.attempt.stamp.time - 1 for c in courses if site not in c.sites]
    return min((*coming, step.clock))
