"""Who holds locks and who waits for them: voters name those concerned, who speak for themselves.

A voter knows who has its vote, but not whether the lock is held or only kept until somebody wants
it; that, the token, the times and which task it is are known to the participants alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie.coordinator.engine import Party
from coterie.deadlock.lock_waits import Hold

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.cluster.frames import Concerned, Standing, Standings
    from coterie.deadlock.lock_waits import LockOwner
    from coterie.process import ProcessId


class Survey:
    """One question to some voters, and the answers so far."""

    def __init__(self, voters: Iterable[ProcessId]) -> None:
        """Begin to wait for answers."""
        self.complete = asyncio.Event()
        self._awaited = set(voters)
        # For each lock the identities concerned, in the order of the first voter's queue.
        self._concerned: dict[str, dict[str, Standing | None]] = {}
        self._voted_for: dict[str, dict[str, None]] = {}  # the identities that have a vote
        self._missing: set[str] = set()  # identities that are named and have not answered
        self._heard: set[str] = set()
        self._labels: dict[str, str] = {}
        self._check()

    def name(self, voter: ProcessId, answer: Concerned) -> None:
        """Take the names that a voter gave."""
        self._awaited.discard(voter)
        self._labels.update(answer.labels)
        for report in answer.locks:
            concerned = self._concerned.setdefault(report.lock, {})
            self._voted_for.setdefault(report.lock, {}).update(dict.fromkeys(report.owners))
            for identity in (*report.owners, *report.queue):
                concerned.setdefault(identity, None)
                self._missing.add(identity)
        self._missing -= self._heard
        self._check()

    def hear(self, answer: Standings) -> None:
        """Take what somebody concerned said of itself."""
        self._heard.add(answer.identity)
        self._missing.discard(answer.identity)
        for standing in answer.locks:
            self._concerned.setdefault(standing.lock, {})[answer.identity] = standing
        self._check()

    def _check(self) -> None:
        if not self._awaited and not self._missing:
            self.complete.set()

    def _standings(self, lock: str) -> list[tuple[str, Standing]]:
        concerned = self._concerned.get(lock, {})
        return [(who, standing) for who, standing in concerned.items() if standing is not None]

    def others(self, lock: str, own: str) -> list[str]:
        """List how everybody else stands who has answered."""
        return [standing.state for who, standing in self._standings(lock) if who != own]

    def holders(self, lock: str) -> list[Party]:
        """Name who says that it holds the lock; by the protocol at most one does truly."""
        return [
            Party(lock, self._label(who), standing.since, standing.token)
            for who, standing in self._standings(lock)
            if standing.state == "held"
        ]

    def silent(self, lock: str) -> list[str]:
        """Name who has votes and does not answer: the lock is taken until its lease has ended."""
        concerned = self._concerned.get(lock, {})
        voted_for = self._voted_for.get(lock, ())
        return [self._label(who) for who in voted_for if concerned[who] is None]

    def waiters(self, lock: str) -> list[Party]:
        """Name who waits, the next first."""
        parties = []
        for who, standing in self._standings(lock):
            own = standing.state == "waiting"
            party = Party(lock, self._label(who), standing.since, None)
            parties += [party] * (standing.local + own)
        return parties

    def holds(self, lock: str) -> list[Hold]:
        """Name the tasks that hold the lock, with what they wait for."""
        return [
            Hold(lock, standing.token, standing.holder)
            for _, standing in self._standings(lock)
            if standing.holder is not None
        ]

    def waiting(self, lock: str) -> list[LockOwner]:
        """Name the tasks that wait for the lock."""
        return [owner for _, standing in self._standings(lock) for owner in standing.waiting]

    def _label(self, identity: str) -> str:
        return self._labels.get(identity, identity)
