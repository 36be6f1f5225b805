"""Deadlocks that lead through several sites, found by asking twice.

A site where a request waits for long asks the others which requests wait there, and for which
transactions. If the answers show a cycle, its members' sites are asked once more: what is the same in
both passes existed as a whole at the moment in between (the argument is in `double_collect`; a request
waits once, so its count tells its wait from all others). The victim is refused where it waits, if it
waits there still; a transaction that has voted waits for nothing, so it is never the victim.

No search begins while one is under way: on links with a round trip longer than the pause between
searches, each one would take away the answers of the one before, and no deadlock would ever be found. The
timer that begins searches also measures how long a pass takes, in rings. A pass may take twice as long
as the last whole one; then the sites that have not answered are silent. They are asked in later passes as
well, but no pass waits for them until they are heard again. Each time a pass is given up the next one may
take twice as long, so a round trip that has become longer is measured in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.algorithms.deadlock.condition import all_of
from coterie.algorithms.deadlock.double_collect import Core, cores
from coterie.algorithms.deadlock.victim import seniority
from coterie.algorithms.deadlock.wait_for import Graph
from coterie.process import ProcessId
from coterie.transactions.site.messages import Collect, Collected, Sacrifice, Waiter

if TYPE_CHECKING:
    from coterie.clocks import Stamp
    from coterie.transactions.schemes.scheduler import Name
    from coterie.transactions.site.resource import Resource
    from coterie.transactions.site.step import Step

DEADLOCK = "a deadlock"
RINGS_MIN = 4  # that a pass may take, however short the last one was
RINGS_MAX = 64


class DeadlockSearch(msgspec.Struct, array_like=True):
    """Looks for cycles of waits, beginning with the waits at its own site."""

    search: int = 0  # the number of the pass under way, or of the last one
    seen: list[Waiter] = []  # in this pass
    suspects: tuple[Waiter, ...] = ()  # a core that the first pass has shown; none: it is the first
    awaited: list[ProcessId] = []  # sites whose answer to this pass is missing
    silent: list[ProcessId] = []  # sites that were given up, until they are heard again
    rings: int = 0  # of the timer since this pass began
    allowed: int = RINGS_MIN  # of them; then the pass is given up

    def ring(self, resource: Resource, step: Step) -> None:
        """Ask all other sites what waits there, unless a search is under way."""
        if self.awaited:
            self.rings += 1
            if self.rings < self.allowed:
                return
            self.silent += [site for site in self.awaited if site not in self.silent]
            self.allowed = min(2 * self.allowed, RINGS_MAX)
        others = [site for site in range(1, step.sites + 1) if site != step.me]
        self._begin_pass((), others, resource, step)

    def _begin_pass(
        self,
        suspects: tuple[Waiter, ...],
        others: list[ProcessId],
        resource: Resource,
        step: Step,
    ) -> None:
        self.search += 1
        self.suspects = suspects
        self.seen = list(resource.waiters(step))
        self.awaited = [site for site in others if site not in self.silent]
        self.rings = 0
        step.out.broadcast(others, Collect(step.clock, self.search))
        self._conclude(resource, step)

    def on_collected(
        self, sender: ProcessId, message: Collected, resource: Resource, step: Step
    ) -> None:
        """Take the answer of a site to the pass under way."""
        if sender in self.silent:
            self.silent.remove(sender)
        if message.search != self.search:
            return
        if sender in self.awaited:
            self.awaited.remove(sender)
            if not self.awaited:
                self.allowed = max(RINGS_MIN, 2 * (self.rings + 1))
        self.seen += message.waiters
        self._conclude(resource, step)

    def _conclude(self, resource: Resource, step: Step) -> None:
        """Look for a core in what has been said so far; silence of some sites hides none."""
        if not self.suspects:
            found = cores(self._graph(), self.seen)
            if found:
                core = found[0].reports
                sites = {waiter.site for waiter in core} - {step.me}
                self._begin_pass(core, sorted(sites), resource, step)
        elif Core(_names(self.suspects), self.suspects).stands(self.seen):
            self._accuse(self.suspects, step)
            self.suspects = ()
            self.awaited = []
            self.search += 1

    def _graph(self) -> Graph[Name]:
        """Join the waits of a transaction at several sites: it needs all of them to end."""
        targets: dict[Name, list[Name]] = {}
        for waiter in self.seen:
            targets.setdefault(waiter.attempt.name, []).extend(waiter.targets)
        return Graph({name: all_of(*dict.fromkeys(targets[name])) for name in sorted(targets)})

    def _accuse(self, core: tuple[Waiter, ...], step: Step) -> None:
        """Choose a victim, the same at every site that searches; an attempt keeps its age."""
        victim = max(core, key=_seniority)
        name = victim.attempt.name
        others = tuple(other for other in _names(core) if other != name)
        step.out.send(victim.site, Sacrifice(step.clock, name, victim.count, others))

    def on_sacrifice(self, message: Sacrifice, resource: Resource, step: Step) -> None:
        """Refuse the victim, unless that very wait is over: another one is not meant."""
        waits = {(waiter.attempt.name, waiter.count) for waiter in resource.waiters(step)}
        if (message.name, message.count) in waits:
            resource.refuse(message.name, DEADLOCK, step, message.others)


def _names(waiters: tuple[Waiter, ...]) -> tuple[Name, ...]:
    return tuple(dict.fromkeys(waiter.attempt.name for waiter in waiters))


def _seniority(waiter: Waiter) -> tuple[bool, Stamp, Name]:
    attempt = waiter.attempt
    return seniority(attempt.failures, attempt.age, attempt.name)
