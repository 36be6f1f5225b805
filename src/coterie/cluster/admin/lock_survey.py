"""Who holds locks and who waits for them: voters name those concerned, who speak for themselves.

A voter knows who has its vote, but not whether the lock is held or only kept until somebody wants
it; that, the token, the times and which task it is are known to the participants alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie.deadlock.service.lock_waits import Hold, Wanted
from coterie.locks.engine import Party

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.cluster.voter.frames import LockReport, OwnerReport, Owners, Standing
    from coterie.deadlock.service.lock_waits import LockOwner
    from coterie.process import ProcessId


class Survey:
    """One question to some voters, and the answers so far."""

    def __init__(self, voters: Iterable[ProcessId]) -> None:
        """Begin to wait for answers."""
        self.complete = asyncio.Event()
        self._awaited = set(voters)
        # For each lock the identities concerned, in the order of the first voter's queue.
        self._concerned: dict[Wanted, dict[str, Standing | None]] = {}
        self._voted_for: dict[Wanted, dict[str, None]] = {}  # the identities that have a vote
        # Who is said to be ahead of a request to share a lock; True where that request waits, too.
        self._ahead: dict[Wanted, dict[str, bool]] = {}
        self._missing: set[str] = set()  # identities that are named and have not answered
        self._heard: set[str] = set()
        self._labels: dict[str, str] = {}
        self._check()

    def name(self, voter: ProcessId, answer: Owners) -> None:
        """Take the names that a voter gave."""
        self._awaited.discard(voter)
        self._labels.update(answer.labels)
        for report in answer.locks:
            concerned = self._concerned.setdefault(report.wanted, {})
            self._voted_for.setdefault(report.wanted, {}).update(dict.fromkeys(report.owners))
            for identity in (*report.owners, *report.queue):
                concerned.setdefault(identity, None)
                self._missing.add(identity)
            self._note_ahead(report)
        self._missing -= self._heard
        self._check()

    def hear(self, answer: OwnerReport) -> None:
        """Take what somebody concerned said of itself."""
        self._heard.add(answer.identity)
        self._missing.discard(answer.identity)
        for standing in answer.locks:
            self._concerned.setdefault(standing.wanted, {})[answer.identity] = standing
        self._check()

    def _check(self) -> None:
        if not self._awaited and not self._missing:
            self.complete.set()

    def _standings(self, wanted: Wanted) -> list[tuple[str, Standing]]:
        concerned = self._concerned.get(wanted, {})
        return [(who, standing) for who, standing in concerned.items() if standing is not None]

    def is_taken(self, lock: str, own: str, *, shared: bool) -> bool:
        """Tell whether somebody else holds the lock or waits for it; not if all want to share it."""
        others = [standing for who, standing in self._standings(Wanted(lock)) if who != own]
        modes = [standing.shared for standing in others if standing.state == "held"]
        modes += [mode for standing in others for mode in standing.modes]
        return not all(shared and mode for mode in modes)

    def holders(self, lock: str) -> list[Party]:
        """Name who says that it holds the lock; by the protocol one does truly, or all share it."""
        return [
            Party(lock, self._label(who), standing.since, standing.token, standing.shared)
            for who, standing in self._standings(Wanted(lock))
            for _ in standing.holders
        ]

    def silent(self, lock: str) -> list[str]:
        """Name who has votes and does not answer: the lock is taken until its lease has ended."""
        concerned = self._concerned.get(Wanted(lock), {})
        voted_for = self._voted_for.get(Wanted(lock), ())
        return [self._label(who) for who in voted_for if concerned[who] is None]

    def waiters(self, lock: str) -> list[Party]:
        """Name who waits, the next first."""
        return [
            Party(lock, self._label(who), standing.since, None, mode)
            for who, standing in self._standings(Wanted(lock))
            for mode in standing.modes
        ]

    def holds(self, wanted: Wanted) -> list[Hold]:
        """Name the tasks that hold what is wanted, with what they wait for themselves.

        In the way of a request to share is who is before it in its own process and wants the lock
        alone; or who holds it alone; or who is ahead of it elsewhere. Each waits for the next.
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
        who = report.wanted.requester.participant
        if who:
            ahead = self._ahead.setdefault(report.wanted, {})
            for identity in report.queue:
                ahead[identity] = ahead.get(identity, False) or who in report.queue

    def _holds_before(self, wanted: Wanted) -> list[Hold]:
        """Name who is before a request to share in the line of its own process."""
        own = dict(self._standings(wanted)).get(wanted.requester.participant)
        return [Hold(wanted, 0, first) for first in own.waiting[:1]] if own else []

    def _holds_ahead(self, wanted: Wanted) -> list[Hold]:
        """Name who is ahead: of a request that waits with voters, or behind a hold of its process."""
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
        """Name the tasks that wait for the lock."""
        return [
            owner for _, standing in self._standings(Wanted(lock)) for owner in standing.waiting
        ]

    def _label(self, identity: str) -> str:
        return self._labels.get(identity, identity)
