"""The three ways of two-phase locking out of a deadlock.

`Detection` lets every claim wait, and breaks a deadlock as soon as a wait closes it. A deadlock at
one site never outlives the request that makes it. One that runs through several sites cannot be seen
at any of them alone: `waits` gives a detector what it needs, and `refuse` ends the victim.

`WaitDie` and `WoundWait` (Rosenkrantz, Stearns and Lewis, 1978) have no deadlocks, because waits go
in one direction of age only: the older waits for the younger, or the younger for the older. Age is
that of the first attempt, so a transaction that is tried again becomes the oldest in the end, and is
not refused any more.

By age, a wait is judged against all holders and all claims in the queue before it. So a lock that
changes hands makes no new wait: its new holder was in the way before. Only an upgrade is put before
other claims, which are judged again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from coterie.algorithms.deadlock import Graph, all_of, explain
from coterie.algorithms.deadlock.victim import PICKS_MAX
from coterie.transactions.schemes.two_phase_locking.rules import TwoPhaseLocking

if TYPE_CHECKING:
    from coterie.clocks import Stamp
    from coterie.transactions.schemes.scheduler import Answer, Name
    from coterie.transactions.schemes.span import Span
    from coterie.transactions.schemes.two_phase_locking.lock_table import Claim


class Detection(TwoPhaseLocking):
    """A site that looks for deadlocks whenever a transaction has to wait."""

    def may_deadlock(self) -> bool:
        """Return True: waits may form a cycle that leads through other sites."""
        return True

    def _resolve(self, claim: Claim, out: list[Answer]) -> None:
        """Break every cycle that this wait has closed; each leads through it."""
        while cycle := self._cycle(claim.owner):
            victim = max(cycle, key=self._juniority)
            place = cycle.index(victim)
            keys = dict.fromkeys(str(self.locks.waiting[name]) for name in cycle)
            self.refuse(victim, "deadlock", keys, cycle[place + 1 :] + cycle[:place], out)

    def _juniority(self, name: Name) -> tuple[bool, Stamp, Stamp]:
        """Order victims: the youngest, but one that has failed often only if there is no other."""
        attempt = self.active[name].attempt
        return attempt.failures < PICKS_MAX, attempt.age, attempt.stamp

    def _cycle(self, name: Name) -> tuple[Name, ...]:
        """Return a cycle of waits, from this one on, each before one that it waits for."""
        path = self._way_back(name)
        if not path:
            return ()
        waits = {member: self.locks.blockers(self.locks.waiting[member]) for member in path}
        within = {
            member: [other for other in others if other in path] for member, others in waits.items()
        }
        return explain(
            Graph({member: all_of(*others) for member, others in within.items()}), name
        ).core

    def _way_back(self, name: Name) -> list[Name]:
        """Follow waits from a transaction; return those on a path that leads back to it."""
        if not self._is_awaited(name):
            return []
        reached_from = {name: name}
        border = [name]
        walked: dict[str | Span, Claim] = {}  # queues, up to which claim
        while border:
            waiter = border.pop()
            claim = self.locks.waiting.get(waiter)
            if claim is None or is_within(claim, walked.get(claim.target)):
                continue
            if not claim.upgrade and not self.locks.scans:
                walked[claim.target] = claim
            for other in self.locks.blockers(claim):
                if other == name:
                    return _path(reached_from, waiter)
                if other not in reached_from:
                    reached_from[other] = waiter
                    border.append(other)
        return []

    def _is_awaited(self, name: Name) -> bool:
        """Return False if it is cheap to see that no transaction waits for this one."""
        locks = self.locks
        if locks.scans or name in locks.spans:
            return True
        return any(key in locks.queues for key in locks.keys.get(name, ()))


def is_within(claim: Claim, walked: Claim | None) -> bool:
    """Return whether all that a claim waits for were met when its queue was walked.

    So it is if another claim that is no weaker stands behind it, and that one's owner has no lock
    there, for which this one could wait. It makes a search linear in the length of a queue.
    """
    return walked is not None and claim.mode <= walked.mode and claim.ticket < walked.ticket


def _path(reached_from: dict[Name, Name], end: Name) -> list[Name]:
    path = [end]
    while reached_from[path[-1]] != path[-1]:
        path.append(reached_from[path[-1]])
    return path


class ByAge(TwoPhaseLocking):
    """A site where age decides which of two transactions waits."""

    def _overtake(self, key: str, out: list[Answer]) -> None:
        for claim in tuple(self.locks.behind(key)):
            if self.locks.waiting.get(claim.owner) == claim:  # not ended because of another
                self._resolve(claim, out)

    def _before(self, claim: Claim) -> list[Name]:
        return list(dict.fromkeys(self.locks.blockers(claim)))

    def _age(self, name: Name) -> tuple[Stamp, Stamp]:
        attempt = self.active[name].attempt
        return attempt.age, attempt.stamp


class WaitDie(ByAge):
    """A site where the younger dies instead of waiting for the older."""

    def _resolve(self, claim: Claim, out: list[Answer]) -> None:
        age = self._age(claim.owner)
        older = [name for name in self._before(claim) if self._age(name) < age]
        if older:
            self.refuse(claim.owner, "younger than one in its way", [str(claim)], older, out)


class WoundWait(ByAge):
    """A site where the older wounds the younger instead of waiting for it.

    One that has voted at another site cannot be wounded there, so the older waits for it. If it waited
    here for the older at the same time, both would wait forever. So it is refused instead.
    """

    voters_may_wait: ClassVar[bool] = False

    def _resolve(self, claim: Claim, out: list[Answer]) -> None:
        age = self._age(claim.owner)
        younger = [name for name in self._before(claim) if self._age(name) > age]
        # Those that wait go first, or they would be granted what the holders leave behind.
        for name in reversed(younger):
            if name in self.active and not self.active[name].prepared:
                self.refuse(name, "in the way of an older one", [str(claim)], [claim.owner], out)
