"""The value of a lock in the hands of a participant that has the lock, or is about to (21.3 to 21.6).

A vote says which value its voter has, and until it is given back no other participant writes there. So the newest of the
reports of a quorum, the *base*, is at least what was acknowledged last: the voters of that quorum have one in common
with those that acknowledged. It may also be what a writer left that died in the middle. So a holder *settles* what it
reads: it writes the same data again, as a version of its own, and that is above all that any earlier hold may
still bring. Only where all voters report the same is nothing left to be settled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from coterie.algorithms.mutex.quorum.leased.stored import NOTHING, StoredValue
from coterie.process import ProcessId

if TYPE_CHECKING:
    from collections.abc import Collection

    from coterie.coteries import Coterie


class Writing(msgspec.Struct, array_like=True):
    """One version on its way to the voters."""

    value: StoredValue
    settles: bool  # it is what was found, and not what the user writes
    sent: list[ProcessId] = field(default_factory=list)  # with votes that are in hand
    kept: list[ProcessId] = field(default_factory=list)  # voters that have it on disk
    refused: list[ProcessId] = field(default_factory=list)
    is_done: bool = False  # a quorum has it


class ClaimedValue(msgspec.Struct, array_like=True):
    """What is known of the value by the votes of one bid."""

    reports: dict[ProcessId, StoredValue] = field(
        default_factory=dict
    )  # of votes in hand; none: nothing
    base: StoredValue = NOTHING  # the newest report, or what we have written
    is_whole: bool = True  # the data of the base is here
    has_entered: bool = False
    has_written: bool = False  # so reports say less than there is
    is_known: bool = False  # the base is settled, and no other writes as long as the votes are ours
    spread: list[ProcessId] = field(
        default_factory=list
    )  # voters with the base, once it is settled
    is_wanted: bool = False  # the user reads, or voters have asked us to settle
    sequence: int = 0  # of the last write in this hold
    writing: Writing | None = None
    asked: list[ProcessId] = field(default_factory=list)  # for the data of the base

    @property
    def is_pending(self) -> bool:
        """Whether the user, or a voter, waits for something."""
        return self.is_wanted or (self.writing is not None and not self.writing.is_done)

    def hear(self, voter: ProcessId, value: StoredValue, *, whole: bool) -> None:
        """Take the report of a vote that is in hand or follows at once."""
        self.reports[voter] = value.without_data()
        if value.version > self.base.version:
            # What is known by votes that were kept is over if others have written in between.
            self.base, self.is_whole, self.is_known = value, whole, False
            self.asked.clear()
        elif value.version == self.base.version and whole and not self.is_whole:
            self.base, self.is_whole = value, True

    def drop(self, voter: ProcessId) -> None:
        """Forget the report of a vote that is given back or lost.

        From the entry on the base outlives it (21.3): the next votes may be of voters that had not heard
        of it when they reported. Before, it could be a version that others have replaced since.
        """
        self.reports.pop(voter, None)
        if voter in self.asked:
            self.asked.remove(voter)
        if self.writing is not None and voter in self.writing.sent:
            self.writing.sent.remove(voter)
        if not self.has_entered:
            reports = sorted(self.reports.values(), key=lambda report: report.version)
            if not reports or reports[-1].version != self.base.version:
                self.base = reports[-1] if reports else NOTHING
                self.is_whole = not reports
                self.asked.clear()

    def begin(self) -> None:
        """Begin a hold: what an earlier one has begun counts no more."""
        self.has_entered = True
        self.sequence = 0
        self.stop()

    def stop(self) -> None:
        """Wait for no answer any more."""
        self._leave_unfinished()
        self.writing = None
        self.is_wanted = False

    def _leave_unfinished(self) -> None:
        """Take what may be on the disks of a quorum for the newest that there is.

        A reader without the lock may have returned it. So a later hold with the same votes settles it, and not what
        was there before.
        """
        if self.writing is not None and not self.writing.is_done:
            self.base, self.is_whole, self.is_known = self.writing.value, True, False

    def is_agreed(self, voters: Collection[ProcessId], votes: Collection[ProcessId]) -> bool:
        """Return whether the votes of all voters are in hand and report the same: nothing else is anywhere."""
        if self.has_written or self.base.loose or not set(voters) <= set(votes):
            return False
        reports = [self.reports.get(voter, NOTHING) for voter in voters]
        return all(
            each.version == self.base.version
            and not each.loose
            and each.doubtful == self.base.doubtful
            for each in reports
        )

    def write(self, token: int, value: StoredValue, *, settles: bool) -> None:
        """Begin to write a version of this hold, in the place of what was being written."""
        self._leave_unfinished()
        self.sequence += 1
        self.has_written, self.is_known = True, False
        version = msgspec.structs.replace(value, token=token, sequence=self.sequence, loose=False)
        self.writing = Writing(version, settles)

    def complete(self) -> None:
        """Take what a quorum has on disk for the value."""
        assert self.writing is not None, "something was written"
        self.writing.is_done = True
        self.base, self.is_whole, self.is_known = self.writing.value, True, True
        self.spread = list(self.writing.kept)

    def settle_for(self, quorums: Coterie) -> None:
        """Begin to decide the value for readers, who find different versions.

        What we know may have been settled by voters of an earlier number. Those of the present one may have it as
        a loose copy, which no reader takes (21.8), and a hold may last for months: so it is settled again.
        """
        if not quorums.contains_quorum(self.spread):
            self.is_known = False
        self.is_wanted = True
