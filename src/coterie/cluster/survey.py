"""Who holds a lock and who waits for it: voters name those concerned, who speak for themselves.

A voter knows who has its vote, but not whether the lock is held or only kept until somebody wants
it; that, the token and the times are known to the participants alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coterie.coordinator.engine import Party

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.cluster.frames import Concerned, Condition
    from coterie.process import ProcessId


class Survey:
    """One question to some voters, and the answers so far."""

    def __init__(self, lock: str, voters: Iterable[ProcessId]) -> None:
        """Begin to wait for answers."""
        self.lock = lock
        self.complete = asyncio.Event()
        self._awaited = set(voters)
        self._concerned: list[str] = []  # identities, in the order of the first voter's queue
        self._labels: dict[str, str] = {}
        self._conditions: dict[str, Condition] = {}
        self._check()

    def name(self, voter: ProcessId, answer: Concerned) -> None:
        """Take the names that a voter gave."""
        self._awaited.discard(voter)
        self._labels.update(answer.labels)
        for identity in (answer.owner, *answer.queue):
            if identity is not None and identity not in self._concerned:
                self._concerned.append(identity)
        self._check()

    def hear(self, condition: Condition) -> None:
        """Take what somebody concerned said of itself."""
        self._conditions[condition.identity] = condition
        self._check()

    def _check(self) -> None:
        missing = [who for who in self._concerned if who not in self._conditions]
        if not self._awaited and not missing:
            self.complete.set()

    def others(self, own: str) -> list[str]:
        """List how everybody else stands who has answered."""
        return [c.state for who, c in self._conditions.items() if who != own]

    def holders(self) -> list[Party]:
        """Name who says that it holds the lock; by the protocol at most one does truly."""
        return [
            Party(self.lock, self._label(who), condition.since, condition.token)
            for who, condition in self._conditions.items()
            if condition.state == "held"
        ]

    def waiters(self) -> list[Party]:
        """Name who waits, the next first."""
        parties = []
        for who in self._concerned:
            condition = self._conditions.get(who)
            if condition is None:
                continue
            own = condition.state == "waiting"
            party = Party(self.lock, self._label(who), condition.since, None)
            parties += [party] * (condition.local + own)
        return parties

    def _label(self, identity: str) -> str:
        return self._labels.get(identity, identity)
