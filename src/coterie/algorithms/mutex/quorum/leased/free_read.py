"""Reading a value without the lock: what a quorum of voters has, and nothing that was complete before is above it (21.7).

The newest of a quorum is not enough. It may be what a writer has left that died, and who returned it would have to
keep the next holder from deciding against it: a reader writes nothing back. Nor need a quorum have one version while its
holder writes. A quorum with a version *or later ones of the same hold* is as good: later holders find at least that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from coterie.algorithms.mutex.quorum.leased.stored import StoredValue
from coterie.process import ProcessId

if TYPE_CHECKING:
    from coterie.coteries import Coterie


class FreeRead(msgspec.Struct, array_like=True):
    """One question to all voters, which may be asked again."""

    lock: str
    number: int  # of the configuration by which it is asked
    known: StoredValue  # whose data need not come again
    answers: dict[ProcessId, StoredValue] = field(default_factory=dict)  # the newest of each voter
    goal: StoredValue | None = None  # was the newest of a quorum after the read had begun

    def take(self, voter: ProcessId, value: StoredValue, *, whole: bool) -> None:
        """Take the answer of a voter."""
        if not whole and value.version == self.known.version:
            value = msgspec.structs.replace(value, data=self.known.data)
        self.answers[voter] = value

    def agreed(self, quorums: Coterie) -> StoredValue | None:
        """Return the value that counts, if the answers show one."""
        if not quorums.contains_quorum(self.answers):
            return None
        for value in self.answers.values():
            same = self._having(value, later=False)
            if quorums.contains_quorum(same):
                return self._certain(value, same)
        # Nothing that was acknowledged or returned before the read began is above the newest of a quorum.
        # Another hold may have begun before any quorum had the one of before: then that is to be had.
        newest = max(self.answers.values(), key=lambda each: each.version)
        if self.goal is None or self.goal.token < newest.token:
            self.goal = newest
        beyond = self._having(self.goal)
        return self._certain(self.goal, beyond) if quorums.contains_quorum(beyond) else None

    def _having(self, value: StoredValue, *, later: bool = True) -> list[ProcessId]:
        """List the voters that have this version, or a later one of the same hold.

        Not of another hold: what that has written may rest on less, if it began with none of these voters.
        """
        return [
            voter
            for voter, other in self.answers.items()
            if not other.loose
            and other.token == value.token
            and (other.sequence == value.sequence or (later and other.sequence > value.sequence))
        ]

    def _certain(self, value: StoredValue, having: list[ProcessId]) -> StoredValue:
        doubtful = value.doubtful or any(self.answers[voter].doubtful for voter in having)
        return msgspec.structs.replace(value, loose=False, doubtful=doubtful)
