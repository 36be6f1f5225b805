"""Reading a value without the lock: a quorum of voters that have the same version (21.7).

The newest of a quorum is not enough. It may be what a writer has left that died, and who returned it would have to
keep the next holder from deciding against it: a reader writes nothing back.
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
    """One question to all voters."""

    question: int
    number: int  # of the configuration by which it was asked
    known: StoredValue  # whose data need not come again
    answers: dict[ProcessId, StoredValue] = field(default_factory=dict)

    def take(self, voter: ProcessId, value: StoredValue, *, whole: bool) -> None:
        """Take the answer of a voter."""
        if not whole and value.version == self.known.version:
            value = msgspec.structs.replace(value, data=self.known.data)
        self.answers[voter] = value

    def agreed(self, quorums: Coterie) -> StoredValue | None:
        """Return the value that a quorum has, if there is one."""
        for value in self.answers.values():
            same = [
                voter
                for voter, other in self.answers.items()
                if other.version == value.version and not other.loose
            ]
            if quorums.contains_quorum(same):
                doubtful = any(self.answers[voter].doubtful for voter in same)
                return msgspec.structs.replace(value, loose=False, doubtful=doubtful)
        return None
