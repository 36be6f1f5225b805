"""Reads of lists that transactions append to, and the order of versions that they show.

A read of [1, 2, 3] shows the whole past of the key: 1 was appended first, then 2, then 3 (Elle, by
Kingsbury and Alvaro). All lists of a key have to be beginnings of the longest. An element that no list
shows was appended after all that were seen, or the longest list would have it; in which order several of
them came does not matter, since nothing has read them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.errors import UsageError
from coterie.lab.serializability.report import Anomaly, Dependency
from coterie.lab.serializability.sources import shown
from coterie.transactions.history import (
    HistoryAccess,
    HistoryTransaction,
    Key,
    Name,
    TransactionOutcome,
    identity,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.lab.serializability.sources import Sources, Write


class SeenList(NamedTuple):
    """What a transaction saw in a list, without what it had appended itself."""

    reader: HistoryTransaction
    access: HistoryAccess
    elements: list[Any]  # by identity


class Lists:
    """Sorts reads of lists into those that one order of appends explains and those that none can."""

    def __init__(self, sources: Sources) -> None:
        """Begin without reads."""
        self.sources = sources
        self.dirty: list[Anomaly] = []
        self._seen: dict[Key, list[SeenList]] = {}

    def examine(
        self, reader: HistoryTransaction, access: HistoryAccess, own: list[Any]
    ) -> Iterator[HistoryTransaction]:
        """Yield the transactions whose elements a read shows; `own` is what the reader appended."""
        elements = _elements(access)
        if len(set(elements)) < len(elements):
            self._complain("duplicate elements", reader, access, None)
            return
        if own:
            if elements[-len(own) :] != own:
                self._complain("internal", reader, access, None)
                return
            elements = elements[: -len(own)]
        writes: list[Write] = []
        for element in elements:
            write = self.sources.element(access.key, element)
            if write is None:
                self._complain("garbage read", reader, access, None)
                return
            if write.owner is reader:
                self._complain("internal", reader, access, None)
                return
            if write.owner.outcome is TransactionOutcome.ABORTED:
                self._complain("G1a", reader, access, write)
                return
            writes.append(write)
        yield from {write.owner.name: write.owner for write in writes}.values()
        if writes and not self.sources.is_final(writes[-1]):
            self._complain("G1b", reader, access, writes[-1])
            return
        self._seen.setdefault(access.key, []).append(SeenList(reader, access, elements))

    def readings(self) -> Iterator[tuple[Name, Key, Name | None]]:
        """Yield reader, key and the writer of the last element, where all agree on the order."""
        for key, reads in self._seen.items():
            longest = self._longest(key)
            for seen in reads:
                if seen.elements != longest.elements[: len(seen.elements)]:
                    self.dirty.append(_incompatible(seen, longest))
                else:
                    yield seen.reader.name, key, self._owner(key, seen.elements[-1:])

    def order(self, key: Key) -> list[Name]:
        """Return the transactions whose elements were seen, oldest first, each once."""
        if key not in self._seen:
            return []
        longest = self._longest(key)
        owners = [self._owner(key, [element]) for element in longest.elements]
        distinct = {owner: None for owner in owners if owner is not None}
        self._check_whole(key, longest, owners)
        return list(distinct)

    def _longest(self, key: Key) -> SeenList:
        return max(self._seen[key], key=lambda seen: len(seen.elements))

    def _owner(self, key: Key, elements: list[Any]) -> Name | None:
        write = self.sources.element(key, elements[0]) if elements else None
        return write.owner.name if write else None

    def _check_whole(self, key: Key, longest: SeenList, owners: list[Name | None]) -> None:
        """Report transactions whose elements do not stand together, all and in their order."""
        places: dict[Name | None, list[int]] = {}
        for place, owner in enumerate(owners):
            places.setdefault(owner, []).append(place)
        for owner, own in places.items():
            assert owner is not None  # what was never appended has been sorted out
            appended = self.sources.appended[key, owner]
            if [longest.elements[place] for place in own] != appended[: len(own)]:
                self.dirty.append(_incompatible(longest, longest))
                continue
            gap = next((before + 1 for before, after in pairwise(own) if after > before + 1), None)
            if gap is None and len(own) < len(appended):
                gap = own[-1] + 1  # the rest came later, behind an element of another
            if gap is not None and gap < len(owners):
                other = owners[gap]
                assert other is not None  # as above
                self.dirty.append(_interleaved(key, owner, other))

    def _complain(
        self, name: str, reader: HistoryTransaction, access: HistoryAccess, source: Write | None
    ) -> None:
        meaning, why = DIRTY_LISTS[name]
        involved = (source.owner.name, reader.name) if source else (reader.name,)
        text = f"{reader.name} read {access.key} = {shown(access.value)}, {why}"
        if source:
            text = text.replace("WRITER", str(source.owner.name))
            text = text.replace("ELEMENT", shown(source.access.value))
        dependency = Dependency(involved[0], reader.name, "wr", access.key, text)
        self.dirty.append(Anomaly(name, meaning, involved, (dependency,)))


DIRTY_LISTS = {
    "duplicate elements": ("list with an element twice", "in which an element stands twice"),
    "internal": (
        "read that misses the transaction's own write",
        "which does not end in what it had appended itself",
    ),
    "garbage read": (
        "read of a value that was never written",
        "of which an element was never appended",
    ),
    "G1a": ("aborted read", "of which WRITER appended ELEMENT before it aborted"),
    "G1b": ("intermediate read", "after which WRITER appended more than ELEMENT"),
}


def _elements(access: HistoryAccess) -> list[Any]:
    if access.value is None:
        return []
    if not isinstance(access.value, list):
        raise UsageError(
            f"line {access.line}: {access.key} is appended to, so a read of it sees a list or null,"
            f" got {shown(access.value)}"
        )
    return [identity(element) for element in access.value]


def _incompatible(seen: SeenList, longest: SeenList) -> Anomaly:
    key, one = seen.access.key, seen.reader.name
    text = f"{one} read {key} = {shown(seen.access.value)}"
    if seen is longest:
        involved: tuple[Name, ...] = (one,)
        text += ", not in the order in which a transaction appended"
    else:
        involved = (longest.reader.name, one)
        text += f", which is no beginning of {shown(longest.access.value)}"
    dependency = Dependency(involved[0], one, "wr", key, text)
    meaning = "lists that no one order of appends explains"
    return Anomaly("incompatible order", meaning, involved, (dependency,))


def _interleaved(key: Key, owner: Name, other: Name) -> Anomaly:
    return Anomaly(
        name="G0",
        meaning="dirty write",
        cycle=(owner, other),
        dependencies=(
            Dependency(owner, other, "ww", key, f"{owner} appended to {key} before {other} did"),
            Dependency(other, owner, "ww", key, f"{other} appended to {key} before {owner} did"),
        ),
    )
