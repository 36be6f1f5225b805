"""What the transactions of a store did, told as a history that the checkers can judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from coterie.clocks import Stamp
from coterie.transactions.history import History, HistoryEvent
from coterie.transactions.schemes.scheduler import BEGINNING
from coterie.transactions.store.values import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from coterie.transactions.schemes.scheduler import (
        Attempt,
        Found,
        Item,
        Listed,
        Name,
        Number,
        Value,
    )
    from coterie.transactions.schemes.span import Span

RECOVERED = "recovered"  # the name under which a history tells what was there before


class _Read(NamedTuple):
    key: str
    value: Value
    number: Number | None  # None: a version that was there is forgotten, or there was none
    own: bool  # of what it has written itself


class _Scan(NamedTuple):
    items: tuple[_Read, ...]
    covered: Span


class _Write(NamedTuple):
    key: str
    value: Value


class _Turn(NamedTuple):
    op: str  # begin, commit or abort


_Doing: TypeAlias = _Read | _Scan | _Write | _Turn


class Record:
    """Everything that transactions asked for and got, in its order; it grows without bound."""

    def __init__(self, items: Iterable[tuple[str, Item]] = (), *, forgets: bool = True) -> None:
        """Begin with what was there before; `forgets` says whether old deletions are forgotten."""
        self._before = list(items)
        self._forgets = forgets
        self._doings: list[tuple[Name, _Doing]] = []
        self._numbers: dict[Name, Number] = {}  # of commits; until then what no version has
        self._written: dict[Name, dict[str, Value]] = {}  # by transactions that are under way
        self._deletions: dict[str, dict[Name, Number]] = {}  # by key, those that were committed
        self._asked: dict[Name, int] = {}  # how much had been done when a commit was asked for

    def start_from(self, items: Iterable[tuple[str, Item]]) -> None:
        """Note what was there before the first request, where that is known so late only."""
        self._before += items

    def begin(self, attempt: Attempt) -> None:
        """Note that an attempt begins."""
        self._numbers[attempt.name] = Stamp(-attempt.stamp.time, attempt.stamp.process)
        self._written[attempt.name] = {}
        self._doings.append((attempt.name, _Turn("begin")))

    def read(self, found: Found) -> None:
        """Note what a transaction has read."""
        self._doings.append((found.transaction, self._seen(found)))

    def scan(self, listed: Listed) -> None:
        """Note what a scan has found; what it has not found follows from how far it looked."""
        items = tuple(self._seen(found) for found in listed.items)
        self._doings.append((listed.transaction, _Scan(items, listed.covered)))

    def write(self, name: Name, key: str, value: Value) -> None:
        """Note what a transaction will have written if it commits."""
        self._written[name][key] = value
        self._doings.append((name, _Write(key, value)))

    def ask(self, name: Name) -> None:
        """Note that a transaction wants to commit; from now on it may have."""
        self._asked[name] = len(self._doings)

    def commit(self, name: Name, number: Number) -> None:
        """Note that a transaction has committed with this number."""
        self._numbers[name] = number
        self._doings.append((name, _Turn("commit")))
        for key, value in self._written.pop(name).items():
            if value is None:
                self._deletions.setdefault(key, {})[name] = number

    def abort(self, name: Name) -> None:
        """Note that a transaction has no effect."""
        self._doings.append((name, _Turn("abort")))
        del self._written[name]

    def history(self) -> History:
        """Return it so far, for `coterie.lab.serializability.check`."""
        history = History()
        for event in self._events():
            history.add(event)
        return history

    def lines(self) -> bytes:
        """Return it so far as JSON lines, for `coterie history`."""
        return b"".join(msgspec.json.encode(event) + b"\n" for event in self._events())

    def _seen(self, found: Found) -> _Read:
        own = found.key in self._written[found.transaction]
        return _Read(found.key, found.value, found.number, own)

    def _events(self) -> Iterator[HistoryEvent]:
        for key, item in self._before:
            yield _event(RECOVERED, "write", key, item.value, item.number)
        if self._before:
            yield HistoryEvent(RECOVERED, "commit")
        keys = sorted(self._keys())
        active = {name for name, doing in self._doings if not isinstance(doing, _Turn)}
        for place, (name, doing) in enumerate(self._doings):
            if name in active:  # one that has done nothing is not worth a line
                yield from self._told(place, name, doing, keys)

    def _keys(self) -> set[str]:
        keys = {key for key, _ in self._before}
        for _, doing in self._doings:
            if isinstance(doing, _Read | _Write):
                keys.add(doing.key)
            elif isinstance(doing, _Scan):
                keys.update(item.key for item in doing.items)
        return keys

    def _told(
        self, place: int, name: Name, doing: _Doing, keys: list[str]
    ) -> Iterator[HistoryEvent]:
        match doing:
            case _Read():
                yield self._reading(place, name, doing)
            case _Write(key, value):
                yield _event(name, "write", key, value, self._numbers[name])
            case _Scan(items, covered):
                listed = {item.key for item in items}
                yield from (self._reading(place, name, item) for item in items)
                for key in keys:
                    if key in covered and key not in listed:
                        yield self._reading(place, name, _Read(key, None, None, own=False))
            case _Turn(op):
                yield HistoryEvent(name, op)

    def _reading(self, place: int, name: Name, read: _Read) -> HistoryEvent:
        """Make an event of a read; what is forgotten was the last deletion before the reader.

        The number of a commit is not below that of any version it has seen. Nor is it above that of
        any that replaced such a version, except where a transaction that has only read at a site
        leaves it with its vote and gets a larger number from another site: what replaced it there
        had to wait for that vote, and so was not about to commit when this was read.
        """
        if read.own:
            return _event(name, "read", read.key, read.value, None)
        if read.number is not None:
            return _event(name, "read", read.key, read.value, read.number)
        if not self._forgets:
            return _event(name, "read", read.key, read.value, BEGINNING)
        deletions = self._deletions.get(read.key, {}).items()
        last = self._numbers[name]
        seen = [
            number
            for other, number in deletions
            if number <= last and other != name and self._asked[other] <= place
        ]
        return _event(name, "read", read.key, read.value, max(seen, default=BEGINNING))


def _event(name: Name, op: str, key: str, value: Value, number: Number | None) -> HistoryEvent:
    return HistoryEvent(name, op, key, None if value is None else _plain(value), number)


def _plain(value: bytes) -> Any:
    """Return a value as JSON shows it; one that JSON has no form for is shown by its bytes."""
    try:
        return msgspec.to_builtins(decode(value), str_keys=True)
    except TypeError:  # such as a dict whose keys are lists
        return msgspec.to_builtins(value)
