"""Deadlocks that lead through several sites, found by asking twice.

A site where a request waits for long asks the others which requests wait there, and for which
transactions. If the answers show a cycle, its members' sites are asked once more. All answers of the
first pass precede all of the second, and a request waits once: so what is the same in both existed as
a whole at the moment in between, and a deadlock is not over before one of its members is aborted. The
victim is refused where it waits, if it waits there still; a transaction that has voted waits for
nothing, so it is never the victim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.deadlock.condition import all_of
from coterie.deadlock.victim import PICKS_MAX
from coterie.deadlock.wait_for import Graph
from coterie.transactions.site.messages import Collect, Sacrifice, Waiter

if TYPE_CHECKING:
    from coterie.clocks import Stamp
    from coterie.process import ProcessId
    from coterie.transactions.schemes.scheduler import Name
    from coterie.transactions.site.resource import Resource
    from coterie.transactions.site.step import Step

DEADLOCK = "a deadlock"


class DeadlockSearch(msgspec.Struct, array_like=True):
    """Looks for cycles of waits, beginning with the waits at its own site."""

    search: int = 0  # the number of the pass under way, or of the last one
    seen: list[Waiter] = []  # in this pass
    suspects: list[Waiter] = []  # a core that the first pass has shown; none: it is the first

    def begin(self, resource: Resource, step: Step) -> None:
        """Ask all other sites what waits there."""
        others = [site for site in range(1, step.sites + 1) if site != step.me]
        self._begin_pass([], others, resource, step)

    def _begin_pass(
        self, suspects: list[Waiter], others: list[ProcessId], resource: Resource, step: Step
    ) -> None:
        self.search += 1
        self.suspects = suspects
        self.seen = list(resource.waiters(step))
        step.out.broadcast(others, Collect(step.clock, self.search))
        self._conclude(resource, step)

    def on_collected(
        self, search: int, waiters: tuple[Waiter, ...], resource: Resource, step: Step
    ) -> None:
        """Take the answer of a site to the pass under way."""
        if search == self.search:
            self.seen += waiters
            self._conclude(resource, step)

    def _conclude(self, resource: Resource, step: Step) -> None:
        """Look for a core in what has been said so far; silence of some sites hides none."""
        if not self.suspects:
            core = self._core()
            if core:
                sites = {waiter.site for waiter in core} - {step.me}
                self._begin_pass(core, sorted(sites), resource, step)
        elif all(self._is_still(suspect) for suspect in self.suspects):
            self._accuse(self.suspects, step)
            self.suspects = []
            self.search += 1

    def _core(self) -> list[Waiter]:
        targets: dict[Name, list[Name]] = {}
        for waiter in self.seen:
            targets.setdefault(waiter.attempt.name, []).extend(waiter.targets)
        graph = Graph({name: all_of(*dict.fromkeys(targets[name])) for name in sorted(targets)})
        cores = graph.cores()
        members = set(cores[0]) if cores else set()
        waiters = [waiter for waiter in self.seen if waiter.attempt.name in members]
        within = [_within(waiter, members) for waiter in waiters]
        return [waiter for waiter in within if waiter.targets]

    def _is_still(self, suspect: Waiter) -> bool:
        """Return whether this pass has seen the same wait at the same site for the same others."""
        return any(
            _identity(waiter) == _identity(suspect) and set(suspect.targets) <= set(waiter.targets)
            for waiter in self.seen
        )

    def _accuse(self, core: list[Waiter], step: Step) -> None:
        """Choose the same victim at every site: seldom picked, then young; an attempt keeps its age."""
        victim = max(core, key=_juniority)
        name = victim.attempt.name
        names = dict.fromkeys(waiter.attempt.name for waiter in core)
        others = tuple(other for other in names if other != name)
        step.out.send(victim.site, Sacrifice(step.clock, name, victim.count, others))

    def on_sacrifice(self, message: Sacrifice, resource: Resource, step: Step) -> None:
        """Refuse the victim, unless that very wait is over: another one is not meant."""
        waits = {(waiter.attempt.name, waiter.count) for waiter in resource.waiters(step)}
        if (message.name, message.count) in waits:
            resource.refuse(message.name, DEADLOCK, step, message.others)


def _within(waiter: Waiter, members: set[Name]) -> Waiter:
    """Keep the waits for members."""
    kept = tuple(name for name in waiter.targets if name in members)
    return Waiter(waiter.site, waiter.attempt, waiter.count, kept)


def _identity(waiter: Waiter) -> tuple[ProcessId, Name, int]:
    return waiter.site, waiter.attempt.name, waiter.count


def _juniority(waiter: Waiter) -> tuple[bool, Stamp, Name]:
    attempt = waiter.attempt
    return attempt.failures < PICKS_MAX, attempt.age, attempt.name
