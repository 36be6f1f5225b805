"""Where a value that was read came from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.errors import UsageError
from coterie.transactions.history import (
    WRITES,
    HistoryAccess,
    HistoryTransaction,
    Key,
    Name,
    identity,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


class Write(NamedTuple):
    """A write and its transaction."""

    owner: HistoryTransaction
    access: HistoryAccess


class Sources:
    """All writes of a history, by what they wrote."""

    def __init__(self, transactions: Iterable[HistoryTransaction]) -> None:
        """Index the writes; without versions, no two of a key may write the same."""
        self.appended: dict[tuple[Key, Name], list[Any]] = {}  # elements, by key and owner
        self.lists: dict[Key, None] = {}  # keys that are appended to
        self.versioned: dict[Key, None] = {}  # keys of which some write states a version
        self._writes: dict[tuple[Key, Any], list[Write]] = {}
        self._written: dict[Key, int] = {}  # the first line that writes a key as a whole
        self._final: dict[tuple[Name, Key], HistoryAccess] = {}
        for transaction in transactions:
            for access in transaction.accesses:
                if access.op in WRITES:
                    self._index(Write(transaction, access))

    def _index(self, write: Write) -> None:
        access = write.access
        is_append = access.op == "append"
        if is_append:
            self.lists[access.key] = None
            elements = self.appended.setdefault((access.key, write.owner.name), [])
            elements.append(identity(access.value))
        else:
            self._written.setdefault(access.key, access.line)
        if access.key in self.lists and access.key in self._written:
            raise UsageError(
                f"line {access.line}: {access.key} is both written and appended to (line"
                f" {self._written[access.key]}); a key is one or the other"
            )
        same = self._writes.setdefault((access.key, identity(access.value)), [])
        if same and access.version is None and same[-1].access.version is None:
            raise UsageError(
                f"line {access.line}: {access.key} = {shown(access.value)} was written on line"
                f" {same[-1].access.line}, too; without versions, the values of a key must differ"
            )
        same.append(write)
        self._final[write.owner.name, access.key] = access
        if access.version is not None:
            self.versioned[access.key] = None

    def final(self, owner: Name, key: Key) -> HistoryAccess:
        """Return the last write of a transaction to a key: the one that stays if it commits."""
        return self._final[owner, key]

    def is_final(self, write: Write) -> bool:
        """Return whether it is the last write of its owner to the key."""
        return self._final[write.owner.name, write.access.key] is write.access

    def is_list(self, read: HistoryAccess) -> bool:
        """Return whether a read is of a list: one that is appended to, or that is empty for good."""
        return read.key in self.lists or (read.value == [] and read.key not in self._written)

    def element(self, key: Key, element: Any) -> Write | None:
        """Return the append of an element, given by its identity; None if there was none."""
        same = self._writes.get((key, element))
        return same[0] if same else None

    def of(self, read: HistoryAccess) -> Write | None:
        """Return the write that a read saw; None if that was never written."""
        same = self._writes.get((read.key, identity(read.value)), [])
        if read.version is not None:
            same = [write for write in same if write.access.version in (None, read.version)]
        elif same and (read.value is None or any(w.owner is not same[0].owner for w in same)):
            raise UsageError(
                f"line {read.line}: {read.key} = {shown(read.value)} may be of several versions;"
                " the read must say which it saw"
            )
        return same[-1] if same else None


def shown(value: Any) -> str:
    """Write a value as JSON, cut short if it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."
