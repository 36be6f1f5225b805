"""Deadlocks that lead through several sites, found by asking twice.

A site where somebody waits for long asks the others who waits for whom there. If the answers show a
cycle, its members' sites are asked once more. All answers of the first pass precede all of the
second, and a request waits once: so what is the same in both existed as a whole at the moment in
between, and a deadlock is not over before somebody is aborted. The victim is refused where it waits,
if it waits there still; one that has voted waits for nothing, so it is never the victim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.deadlock.condition import all_of
from coterie.deadlock.victim import PICKS_MAX
from coterie.deadlock.wait_for import Graph
from coterie.transactions.site.messages import Collect, Message, Sacrifice, Waiter
from coterie.transactions.site.promising import Promising

if TYPE_CHECKING:
    from coterie.clocks import Stamp
    from coterie.process import Outbox, ProcessId
    from coterie.transactions.schemes.scheduler import Answer, Name

DEADLOCK = "a deadlock"


class Searching(Promising):
    """Looks for cycles of waits, from its own waits on."""

    search: int = 0  # the number of the pass under way, or of the last one
    seen: list[Waiter] = []  # in this pass
    suspects: list[Waiter] = []  # a core that the first pass has shown; none: it is the first

    def _waiters(self) -> tuple[Waiter, ...]:
        """Tell who waits for whom here."""
        found = []
        for name, targets in sorted(self.scheduler.waits().items()):
            part = self.parts[name]
            found.append(Waiter(self.me, part.attempt, part.count + bool(part.sites), targets))
        return tuple(found)

    def _begin_search(self, out: Outbox[Message]) -> None:
        others = [site for site in range(1, self.sites + 1) if site != self.me]
        self._begin_pass([], others, out)

    def _begin_pass(
        self, suspects: list[Waiter], others: list[ProcessId], out: Outbox[Message]
    ) -> None:
        self.search += 1
        self.suspects = suspects
        self.seen = list(self._waiters())
        out.broadcast(others, Collect(self.clock, self.search))
        self._conclude(out)

    def _collected(self, search: int, waiters: tuple[Waiter, ...], out: Outbox[Message]) -> None:
        if search == self.search:
            self.seen += waiters
            self._conclude(out)

    def _conclude(self, out: Outbox[Message]) -> None:
        """Look whether what has been said so far shows a core; silence of some hides none."""
        if not self.suspects:
            core = self._core()
            if core:
                sites = {waiter.site for waiter in core} - {self.me}
                self._begin_pass(core, sorted(sites), out)
        elif all(self._is_still(suspect) for suspect in self.suspects):
            self._accuse(self.suspects, out)
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
        """Tell whether this pass has seen the same wait at the same site for the same others."""
        return any(
            _identity(waiter) == _identity(suspect) and set(suspect.targets) <= set(waiter.targets)
            for waiter in self.seen
        )

    def _accuse(self, core: list[Waiter], out: Outbox[Message]) -> None:
        """Choose as everybody does: seldom picked, then young; an attempt keeps its age."""
        victim = max(core, key=_juniority)
        name = victim.attempt.name
        names = dict.fromkeys(waiter.attempt.name for waiter in core)
        others = tuple(other for other in names if other != name)
        out.send(victim.site, Sacrifice(self.clock, name, victim.count, others))

    def _sacrifice(self, message: Sacrifice, out: Outbox[Message]) -> None:
        waits = {(waiter.attempt.name, waiter.count) for waiter in self._waiters()}
        if (message.name, message.count) in waits:
            answers: list[Answer] = []
            self.scheduler.refuse(message.name, DEADLOCK, (), message.others, answers)
            self._pass_on(answers, out)


def _within(waiter: Waiter, members: set[Name]) -> Waiter:
    """Keep the waits for members."""
    kept = tuple(name for name in waiter.targets if name in members)
    return Waiter(waiter.site, waiter.attempt, waiter.count, kept)


def _identity(waiter: Waiter) -> tuple[ProcessId, Name, int]:
    return waiter.site, waiter.attempt.name, waiter.count


def _juniority(waiter: Waiter) -> tuple[bool, Stamp, Name]:
    attempt = waiter.attempt
    return attempt.failures < PICKS_MAX, attempt.age, attempt.name
