"""The holders of locks and those that wait: voters name participants, which speak for themselves.

A voter knows which participant has its vote, but not whether the lock is held or only kept until
another wants it; that, the token, the times and which task it is are known to the participants alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie.locks.deadlocks.reports import Hold, Wanted
from coterie.locks.engine import Party
from coterie.locks.legible import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.locks.deadlocks.reports import LockOwner
    from coterie.locks.leases.frames import LockReport, LockStanding, OwnerReport, Owners
    from coterie.process import ProcessId


class OwnerQuery:
    """One question to some voters, and the answers so far."""

    def __init__(self, voters: Iterable[ProcessId]) -> None:
        """Begin to wait for answers."""
        self.complete = asyncio.Event()
        self._awaited = set(voters)
        # For each lock the identities concerned, in the order of the first voter's queue.
        self._concerned: dict[Wanted, dict[str, LockStanding | None]] = {}
        self._voted_for: dict[Wanted, dict[str, None]] = {}  # the identities that have a vote
        # Identities said to be ahead of a request to share; True where that request waits, too.
        self._ahead: dict[Wanted, dict[str, bool]] = {}
        # The locks with the identities that are named for them and have not answered for them. A voter asks a
        # participant only for those locks for which it names it, so one answer need not be for all of them.
        self._missing: set[tuple[Wanted, str]] = set()
        self._labels: dict[str, str] = {}
        self._check()

    def name(self, voter: ProcessId, answer: Owners) -> None:
        """Take the names that a voter gave."""
        self._awaited.discard(voter)
        self._labels.update({name: one_line(label) for name, label in answer.labels.items()})
        for report in answer.locks:
            concerned = self._concerned.setdefault(report.wanted, {})
            self._voted_for.setdefault(report.wanted, {}).update(dict.fromkeys(report.owners))
            for identity in (*report.owners, *report.queue):
                if concerned.setdefault(identity, None) is None:
                    self._missing.add((report.wanted, identity))
            self._note_ahead(report)
        self._check()

    def hear(self, answer: OwnerReport) -> None:
        """Take what a participant said of itself."""
        for standing in answer.locks:
            self._missing.discard((standing.wanted, answer.identity))
            self._concerned.setdefault(standing.wanted, {})[answer.identity] = standing
        self._check()

    def _check(self) -> None:
        if not self._awaited and not self._missing:
            self.complete.set()

    def _standings(self, wanted: Wanted) -> list[tuple[str, LockStanding]]:
        concerned = self._concerned.get(wanted, {})
        return [
            (identity, standing) for identity, standing in concerned.items() if standing is not None
        ]

    def is_taken(self, lock: str, own: str, *, shared: bool) -> bool:
        """Return True if another participant holds the lock or waits for it; not if all share it."""
        others = [
            standing for identity, standing in self._standings(Wanted(lock)) if identity != own
        ]
        modes = [standing.shared for standing in others if standing.state == "held"]
        modes += [mode for standing in others for mode in standing.modes]
        return not all(shared and mode for mode in modes)

    def holders(self, lock: str) -> list[Party]:
        """List those that say that they hold the lock; by the protocol it is one, or all share it.

        They have said it at different moments. A hold has ended if another that it excludes has a larger token.
        """
        held = [each for each in self._standings(Wanted(lock)) if each[1].holders]
        return [
            self._holder(lock, identity, standing, place)
            for identity, standing in held
            if not any(
                later.token > standing.token and not (later.shared and standing.shared)
                for _, later in held
            )
            for place in range(len(standing.holders))
        ]

    def _holder(self, lock: str, identity: str, standing: LockStanding, place: int) -> Party:
        since, waited = standing.since, None
        if place < len(standing.grants):
            since, waited = standing.grants[place]
        owner = self._label(identity)
        note = one_line(standing.notes[place]) if place < len(standing.notes) else ""
        return Party(lock, owner, since, standing.token, standing.shared, waited, note)

    def silent(self, lock: str) -> list[str]:
        """List those that have votes and do not answer: the lock is taken until their lease ends."""
        concerned = self._concerned.get(Wanted(lock), {})
        voted_for = self._voted_for.get(Wanted(lock), ())
        return [self._label(identity) for identity in voted_for if concerned[identity] is None]

    def suspects(self, lock: str) -> list[str]:
        """List the identities of those that hold the lock, or may hold it and do not answer."""
        concerned = self._concerned.get(Wanted(lock), {})
        voted_for = self._voted_for.get(Wanted(lock), ())
        return [
            identity
            for identity, standing in concerned.items()
            if (standing.holders if standing is not None else identity in voted_for)
        ]

    def waiters(self, lock: str) -> list[Party]:
        """List those that wait, the next first."""
        return [
            party
            for identity, _ in self._standings(Wanted(lock))
            for party in self.waiters_of(lock, identity) or ()
        ]

    def waiters_of(self, lock: str, identity: str) -> list[Party] | None:
        """List those of one participant that wait; None if it has not answered."""
        standing = self._concerned.get(Wanted(lock), {}).get(identity)
        if standing is None:
            return None
        owner = self._label(identity)
        return [Party(lock, owner, standing.since, None, mode) for mode in standing.modes]

    def holds(self, wanted: Wanted) -> list[Hold]:
        """List the tasks that hold what is wanted, with what they wait for themselves.

        A request to share is blocked by a claim before it in its own process that wants the lock
        alone; or by one that holds it alone; or by one ahead of it elsewhere. Each waits for the
        next.
        """
        holds = [
            Hold(wanted, standing.token, holder, standing.shared)
            for _, standing in self._standings(wanted)
            for holder in standing.holders
        ]
        if not wanted.shared:
            return holds
        alone = [hold for hold in holds if not hold.shared]
        return self._holds_before(wanted) or alone or self._holds_ahead(wanted)

    def _note_ahead(self, report: LockReport) -> None:
        requester = report.wanted.requester.participant
        if requester:
            ahead = self._ahead.setdefault(report.wanted, {})
            for identity in report.queue:
                ahead[identity] = ahead.get(identity, False) or requester in report.queue

    def _holds_before(self, wanted: Wanted) -> list[Hold]:
        """List the claim before a request to share in the line of its own process."""
        own = dict(self._standings(wanted)).get(wanted.requester.participant)
        return [Hold(wanted, 0, first) for first in own.waiting[:1]] if own else []

    def _holds_ahead(self, wanted: Wanted) -> list[Hold]:
        """List claims that are ahead: of a request at the voters, or behind a hold of its process."""
        standings = dict(self._standings(wanted))
        own = standings.get(wanted.requester.participant)
        behind_hold = own is not None and own.state == "held"
        return [
            Hold(wanted, 0, first)
            for identity, waits_too in self._ahead.get(wanted, {}).items()
            if identity in standings and (waits_too or behind_hold)
            for first in standings[identity].waiting[:1]
        ]

    def waiting(self, lock: str) -> list[LockOwner]:
        """List the tasks that wait for the lock."""
        return [
            owner for _, standing in self._standings(Wanted(lock)) for owner in standing.waiting
        ]

    def _label(self, identity: str) -> str:
        return self._labels.get(identity, one_line(identity))
