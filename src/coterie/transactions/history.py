"""What transactions did: reads and writes in the order of events, and how each transaction ended.

    {"transaction": "T1", "op": "begin"}
    {"transaction": "T1", "op": "read", "key": "x", "value": null}
    {"transaction": "T1", "op": "write", "key": "x", "value": 1, "version": 10}
    {"transaction": "T1", "op": "commit"}

A read tells what it saw, null for a key that was never written. A write may tell the place of its
version in the order of all versions of the key: a whole number or a list of them, such as the time
and the site of a stamp. Without versions the values written to a key must differ, so that a value
that was read tells which one wrote it. Without a begin, a transaction begins with the first that it does.

    {"transaction": "T2", "op": "append", "key": "l", "value": 7}
    {"transaction": "T3", "op": "read", "key": "l", "value": [5, 7]}

An append adds one element to the list of a key, and a read of such a key sees the list, null or [] while
it is empty. The lists show the order of versions by themselves. An event may also name the session of
its transaction. Fields of other names are left aside.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from enum import Enum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.transactions.history_columns import HistoryColumns

Name: TypeAlias = str | int  # of a transaction
Key: TypeAlias = str | int
Version: TypeAlias = int | tuple[int, ...]

OPERATIONS = ("begin", "read", "write", "append", "commit", "abort")
WRITES = ("write", "append")
LONG = 1 << 20  # bytes of a history that take longer to read event by event than numpy to be loaded


class HistoryEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a history."""

    transaction: Name
    op: str  # one of OPERATIONS
    key: Key | None = None
    value: Any = msgspec.UNSET
    version: Version | None = None
    session: Name | None = None  # whose transactions follow each other


class HistoryAccess(NamedTuple):
    """A read, a write or an append."""

    line: int
    op: str
    key: Key
    value: Any
    version: Version | None


class TransactionOutcome(Enum):
    """How a transaction ended, as far as the history tells."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class HistoryTransaction:
    """The reads and writes of one transaction, in its order."""

    name: Name
    first: int  # line of its first event
    last: int  # line of its last event, its end if it has ended
    outcome: TransactionOutcome = TransactionOutcome.UNKNOWN
    session: Name | None = None
    accesses: list[HistoryAccess] = field(default_factory=list)


class WrittenHistory(NamedTuple):
    """A long history as it was read."""

    content: bytes  # JSON lines, of which each is an event that makes sense
    columns: HistoryColumns


class History:
    """Transactions in the order in which they began, gathered event by event."""

    def __init__(self, written: WrittenHistory | None = None) -> None:
        """Start empty, or with what was read: its events are made when its transactions are looked at."""
        self._written = written
        self._transactions: dict[Name, HistoryTransaction] = {}
        self._lines = 0

    @property
    def transactions(self) -> dict[Name, HistoryTransaction]:
        """The transactions by their names, in the order in which they began."""
        self._make_events()
        return self._transactions

    @property
    def columns(self) -> HistoryColumns | None:
        """A long history in columns, as it was read, until its transactions are looked at or added to."""
        return None if self._written is None else self._written.columns

    def add(self, event: HistoryEvent, line: int | None = None) -> None:
        """Append an event; without a line given, it stands on the next."""
        if self._written is not None:
            self._make_events()
        line = self._lines = self._lines + 1 if line is None else line
        transaction = self._transactions.get(event.transaction)
        if transaction is None:
            transaction = HistoryTransaction(event.transaction, line, line)
            self._transactions[event.transaction] = transaction
        elif transaction.outcome is not TransactionOutcome.UNKNOWN:
            outcome = transaction.outcome.value
            raise UsageError(
                f"line {line}: {event.transaction} has {outcome} on line {transaction.last}"
                " and can do nothing more"
            )
        elif event.op == "begin":
            began = transaction.first
            raise UsageError(f"line {line}: {event.transaction} has already begun on line {began}")
        transaction.last = line
        if event.session is not None:
            _join(transaction, event.session, line)
        match event.op:
            case "begin":
                pass
            case "read" | "write" | "append":
                transaction.accesses.append(_access(event, line))
            case "commit":
                transaction.outcome = TransactionOutcome.COMMITTED
            case "abort":
                transaction.outcome = TransactionOutcome.ABORTED
            case _:
                choices = ", ".join(OPERATIONS)
                raise UsageError(f"line {line}: op must be one of {choices}, got {event.op!r}")

    def _make_events(self) -> None:
        written, self._written = self._written, None
        if written is not None:
            for line, event in _events(written.content):
                self.add(event, line)


def _join(transaction: HistoryTransaction, session: Name, line: int) -> None:
    if transaction.session not in (None, session):
        raise UsageError(
            f"line {line}: {transaction.name} is of session {transaction.session}, not of {session}"
        )
    transaction.session = session


def _access(event: HistoryEvent, line: int) -> HistoryAccess:
    if event.key is None:
        raise UsageError(f"line {line}: a {event.op} needs a key")
    if event.value is msgspec.UNSET:
        hint = " (null for a key never written)" if event.op == "read" else ""
        raise UsageError(f"line {line}: a {event.op} needs a value{hint}")
    if event.op == "write" and event.value is None and event.version is None:
        raise UsageError(
            f"line {line}: a write of null needs a version, to be told from a key never written"
        )
    if event.op == "append" and event.version is not None:
        raise UsageError(
            f"line {line}: an append states no version; the lists that are read show the order"
        )
    return HistoryAccess(line, event.op, event.key, event.value, event.version)


def parse_history(content: bytes) -> History:
    """Read JSON lines; raise `UsageError` with the line if one is wrong."""
    if len(content) >= LONG and find_spec("numpy") is not None:
        from coterie.transactions.history_columns import (  # noqa: PLC0415 - numpy
            UnusualError,
            read_columns,
        )

        with contextlib.suppress(UnusualError):
            return History(WrittenHistory(content, read_columns(content)))
    history = History()
    for line, event in _events(content):
        history.add(event, line)
    return history


def _events(content: bytes) -> Iterator[tuple[int, HistoryEvent]]:
    """Read the events with their lines."""
    decode = msgspec.json.Decoder(HistoryEvent).decode
    for line, text in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not text.strip():
            continue
        try:
            event = decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"line {line}: {_complaint(error)}") from None
        yield line, event


def _complaint(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    if isinstance(error, RecursionError):
        return "nested too deep"
    return str(error).replace("`$.", "`").removeprefix("JSON is malformed: ")


def identity(value: Any) -> Any:
    """Return something hashable that is equal for equal JSON values, and only for those."""
    if value is None or type(value) in (int, str):
        return value
    if type(value) is float and not math.isnan(value):  # which is not equal to itself
        return value
    return msgspec.json.encode(value, order="sorted")
