"""How a changer brings values from the voters of a number that is finished to those of the present one (21.8).

Every quorum of the present number meets every one of the number before, but quorums of the next number need not. So a
number leaves `open` only when a quorum of the present one has, of each name, what was acknowledged by it.

If a quorum of the old rule has one version, that is settled, and a copy of it is as good as a write. Else the newest
is copied of voters that every quorum of the old rule has one of: no acknowledged write is above it. It may be what a writer has left that died, so the copy
is *loose*: a holder that finds it settles it or something later, and until then no reader returns it. Were it returned, a
holder that has entered before the copy came could still decide against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from coterie.algorithms.mutex.quorum.leased.frames import CopyValue, GetValue, ListValues
from coterie.algorithms.mutex.quorum.leased.stored import NOTHING, StoredValue
from coterie.process import ProcessId

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.algorithms.mutex.quorum.leased.configuration import Rule
    from coterie.algorithms.mutex.quorum.leased.frames import (
        Frame,
        ValueCopied,
        ValueFound,
        ValueList,
    )
    from coterie.process import Outbox

AT_A_TIME = 64  # names that are copied


class Stock(msgspec.Struct, array_like=True):
    """What one voter has."""

    values: dict[str, StoredValue] = field(default_factory=dict)  # without data
    last: str = ""  # name that was listed
    is_complete: bool = False


class Transfer(msgspec.Struct, array_like=True):
    """One name that is lacking somewhere."""

    value: StoredValue  # what is to be copied, without data until it has come
    has_data: bool = False
    owners: list[ProcessId] = field(default_factory=list)  # that have this version, to be asked
    done: list[ProcessId] = field(default_factory=list)  # voters of the present number that have it


class Carry(msgspec.Struct, array_like=True):
    """The values of one number, on their way."""

    number: int
    present: int  # the number to which they go
    stocks: dict[ProcessId, Stock] = field(default_factory=dict)
    transfers: dict[str, Transfer] = field(default_factory=dict)  # not complete, by name
    is_listed: bool = False  # `transfers` has all that was to be copied

    @property
    def is_over(self) -> bool:
        """Whether a quorum of the present number has everything."""
        return self.is_listed and not self.transfers

    def begin(self, voters: Iterable[ProcessId], out: Outbox[Frame]) -> None:
        """Ask for what there is; only what is said after the number was finished counts."""
        for voter in sorted(voters):
            self.stocks[voter] = Stock()
        self.ask(out)

    def ask(self, out: Outbox[Frame]) -> None:
        """Ask for all that is missing, which is sent again until it is answered."""
        if not self.is_listed:
            for voter, stock in sorted(self.stocks.items()):
                if not stock.is_complete:
                    out.send(voter, ListValues(self.present, stock.last))
            return
        for lock in sorted(self.transfers)[:AT_A_TIME]:
            self._send(lock, out)

    def _send(self, lock: str, out: Outbox[Frame]) -> None:
        transfer = self.transfers[lock]
        if not transfer.has_data:
            out.broadcast(transfer.owners, GetValue(lock))
            return
        for voter in sorted(self.stocks):
            if voter not in transfer.done:
                out.send(voter, CopyValue(self.number, lock, transfer.value))

    def take_list(
        self, voter: ProcessId, listed: ValueList, old: Rule, new: Rule, out: Outbox[Frame]
    ) -> None:
        """Take a page of what a voter has; when enough voters have said all, see what is lacking."""
        stock = self.stocks.get(voter)
        if stock is None or stock.is_complete or stock.last != listed.after or self.is_listed:
            return
        stock.values.update(listed.values)
        if listed.more and listed.values:
            stock.last = listed.values[-1][0]
            out.send(voter, ListValues(self.present, stock.last))
            return
        stock.is_complete = True
        complete = [voter for voter, stock in self.stocks.items() if stock.is_complete]
        # One voter of each quorum that may have acknowledged something; as many have said that the number is
        # finished, and of the others some may be lost.
        if old.is_blocked_by(complete) and new.quorums.contains_quorum(complete):
            self.is_listed = True
            self._compare(complete, old, new)
            self.ask(out)

    def _compare(self, complete: list[ProcessId], old: Rule, new: Rule) -> None:
        told = [voter for voter in complete if voter in old.seats]
        for lock in sorted({lock for voter in told for lock in self.stocks[voter].values}):
            found = {voter: self.stocks[voter].values.get(lock, NOTHING) for voter in told}
            value = _settled(found, old) or msgspec.structs.replace(
                max(found.values(), key=lambda each: each.version), loose=True
            )
            transfer = Transfer(value)
            for voter in complete:
                theirs = self.stocks[voter].values.get(lock, NOTHING).version
                if theirs == value.version:
                    transfer.owners.append(voter)
                if theirs >= value.version:
                    transfer.done.append(voter)
            if value.version > NOTHING.version and not new.quorums.contains_quorum(transfer.done):
                self.transfers[lock] = transfer

    def take_value(self, voter: ProcessId, found: ValueFound, out: Outbox[Frame]) -> None:
        """Take the data of what is to be copied."""
        transfer = self.transfers.get(found.lock)
        if transfer is None or transfer.has_data or found.value.version < transfer.value.version:
            return
        if found.value.version != transfer.value.version:
            # A holder by the present number has written meanwhile. What it has left is as good, for it is
            # later; whether it was acknowledged is not known.
            transfer.owners = [voter]
            transfer.done = [voter]
            loose = True
        else:
            loose = transfer.value.loose
        transfer.value = msgspec.structs.replace(found.value, loose=loose)
        transfer.has_data = True
        self._send(found.lock, out)

    def take_copy(
        self, voter: ProcessId, copied: ValueCopied, new: Rule, out: Outbox[Frame]
    ) -> None:
        """A voter has this version of a name now."""
        transfer = self.transfers.get(copied.lock)
        if transfer is None or (copied.token, copied.sequence) < transfer.value.version:
            return
        if voter not in transfer.done:
            transfer.done.append(voter)
        if new.quorums.contains_quorum(transfer.done):
            del self.transfers[copied.lock]
            waiting = sorted(self.transfers)
            if len(waiting) >= AT_A_TIME:
                self._send(waiting[AT_A_TIME - 1], out)


def _settled(found: dict[ProcessId, StoredValue], rule: Rule) -> StoredValue | None:
    """Return the version that a quorum has, as its own and not as a loose copy."""
    for value in found.values():
        same = [
            voter
            for voter, other in found.items()
            if other.version == value.version and not other.loose
        ]
        if rule.quorums.contains_quorum(same):
            return msgspec.structs.replace(value, loose=False)
    return None
