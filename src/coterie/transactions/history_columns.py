"""A history as columns of numbers: what a checker of many transactions can sort and search.

Only the plain case is read here: every line one event, every write with a version. `read_columns`
refuses all others, mistakes included, and what is read event by event takes over. What it accepts,
`parse_history` would accept event by event.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from coterie.transactions.history import Key, Name, Version

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

CODES = {"begin": 0, "read": 1, "write": 2, "commit": 3, "abort": 4}
BEGIN, READ, WRITE, COMMIT, ABORT = CODES.values()
ACCESSES = {"read", "write"}
NO_VERSION = NO_SESSION = -1
RANKS_MAX = 1 << 31  # so that a key and a rank fit into one number
PIECE = 1 << 15  # bytes that are read at once: what becomes of them stays in the cache

encode = msgspec.json.Encoder(order="sorted").encode
NULL = b"null"


class HistoryLine(msgspec.Struct, gc=False):
    """One line of a history, unknown to the garbage collector: there are many, and no cycles."""

    transaction: Name
    op: Literal["begin", "read", "write", "commit", "abort"]
    key: Key | None = None
    value: Any = msgspec.UNSET
    version: Version | None = None
    session: Name | None = None


class HistoryColumns(NamedTuple):
    """Transactions, numbered as they began, and their reads and writes, in the order of lines."""

    names: Sequence[Name]  # of transactions
    ends: Numbers  # by transaction: its last line
    committed: Flags  # by transaction
    aborted: Flags  # by transaction
    owners: Numbers  # by access: the transaction
    keys: Numbers  # by access: the number of its key
    writes: Flags  # by access
    versions: Numbers  # by access, in the order of the versions, or NO_VERSION
    values: list[bytes]  # by access, in JSON: equal ones are equal, but others may be, as 1 and 1.0


class UnusualError(Exception):
    """Something that the checker of single events has to look at."""


class HistoryPiece(NamedTuple):
    """Some lines in columns."""

    codes: Numbers  # by line: what happened
    owners: Numbers  # by line
    keys: Numbers  # by access
    stated: Flags  # by access: whether there is a version
    versions: Numbers  # those that are stated, in rows
    sessions: Numbers  # by line, or NO_SESSION


def read_columns(content: bytes) -> HistoryColumns:
    """Read JSON lines; raise `UnusualError` if something is, whether it is wrong or not."""
    reader = _ColumnReader()
    try:
        pieces = [reader.read(piece) for piece in _pieces(content)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError, TypeError):
        raise UnusualError from None
    if not pieces:
        raise UnusualError
    codes, owners, keys, stated = (
        np.concatenate(column) for column in list(zip(*pieces, strict=True))[:4]
    )
    _check_sessions(owners, np.concatenate([piece.sessions for piece in pieces]))
    versions = [piece.versions for piece in pieces if len(piece.versions)]
    if len({table.shape[1] for table in versions}) > 1:
        raise UnusualError
    ranks = np.full(len(keys), NO_VERSION)
    if versions:
        ranks[stated] = _merged(np.concatenate(versions))
    accesses = np.flatnonzero((codes == READ) | (codes == WRITE))
    writes = codes[accesses] == WRITE
    if (ranks[writes] == NO_VERSION).any():
        raise UnusualError
    names = list(reader.transactions)
    ends = _ends(codes, owners, len(names))
    return HistoryColumns(
        names=names,
        ends=ends,
        committed=codes[ends] == COMMIT,
        aborted=codes[ends] == ABORT,
        owners=owners[accesses],
        keys=keys,
        writes=writes,
        versions=ranks,
        values=reader.values,
    )


def _pieces(content: bytes) -> Iterator[bytes]:
    """Cut the text at ends of lines."""
    start = len(b"\xef\xbb\xbf") if content.startswith(b"\xef\xbb\xbf") else 0
    stop = len(content) - content.endswith(b"\n")
    while start < stop:
        end = content.find(b"\n", start + PIECE, stop)
        end = stop if end < 0 else end
        yield content[start:end]
        start = end + 1


class _ColumnReader:
    """Gives numbers to names and keys in the order in which they come, and collects values."""

    def __init__(self) -> None:
        self.transactions: defaultdict[Name, int] = _numbers()
        self.keys: defaultdict[Key, int] = _numbers()
        self.sessions: defaultdict[Name, int] = _numbers()
        self.values: list[bytes] = []
        self._decode = msgspec.json.Decoder(HistoryLine).decode_lines

    def read(self, piece: bytes) -> HistoryPiece:
        """Read whole lines."""
        lines = self._decode(piece)
        if not _stand_alone(piece, len(lines)):
            raise UnusualError
        accesses = [line for line in lines if line.op in ACCESSES]
        keys = [line.key for line in accesses]
        versions = [line.version for line in accesses]
        if None in keys:
            raise UnusualError
        stated = np.ones(len(accesses), np.bool_)
        if None in versions:
            stated[:] = [version is not None for version in versions]
            versions = [version for version in versions if version is not None]
        self.values += map(encode, [line.value for line in accesses])  # none must be missing
        return HistoryPiece(
            codes=np.array([CODES[line.op] for line in lines], np.int64),
            owners=_column(self.transactions, [line.transaction for line in lines]),
            keys=_column(self.keys, keys),
            stated=stated,
            versions=_table(versions),
            sessions=self._sessions([line.session for line in lines]),
        )

    def _sessions(self, named: list[Name | None]) -> Numbers:
        if named.count(None) == len(named):
            return np.full(len(named), NO_SESSION)
        numbers = [NO_SESSION if name is None else self.sessions[name] for name in named]
        return _numbers_of(numbers)


def _numbers() -> defaultdict[Any, int]:
    return defaultdict(count().__next__)


def _column(numbers: defaultdict[Any, int], things: Sequence[Hashable]) -> Numbers:
    return np.fromiter(map(numbers.__getitem__, things), np.int64, len(things))


def _stand_alone(piece: bytes, size: int) -> bool:
    """Return whether each line is one object; the decoder takes any white space between objects.

    So it is if there are as many lines as objects and a brace stands on both sides of each break:
    within an object, no closing brace stands before an opening one.
    """
    return piece.count(b"\n") == size - 1 == piece.count(b"}\n{")


def _numbers_of(column: Sequence[int]) -> Numbers:
    return np.fromiter(column, np.int64, len(column))


def _table(versions: list[Any]) -> Numbers:
    """Return the numbers of each version in a row; raise unless all are of one length."""
    if not versions or type(versions[0]) is int:
        return _numbers_of(versions)[:, np.newaxis]
    try:
        columns = [_numbers_of(column) for column in zip(*versions, strict=True)]
    except ValueError:
        raise UnusualError from None
    if len(columns) <= 1:
        raise UnusualError  # one number in a list is another version than the number
    return np.stack(columns, axis=1)


def _merged(table: Numbers) -> Numbers:
    """Return a small number for each row, in the lexical order of the rows."""
    lows, highs = table.min(axis=0), table.max(axis=0)
    spans = [high - low + 1 for high, low in zip(highs.tolist(), lows.tolist(), strict=True)]
    merged = np.zeros(len(table), np.int64)
    if math.prod(spans) <= RANKS_MAX:
        for span, column in zip(spans, (table - lows).T, strict=True):
            merged = merged * span + column
        return merged
    for column in table.T:
        _, ranks = np.unique(column, return_inverse=True)
        _, merged = np.unique(merged * len(table) + ranks, return_inverse=True)
    return merged


def _check_sessions(owners: Numbers, sessions: Numbers) -> None:
    """Raise if a transaction is of two sessions."""
    named = np.flatnonzero(sessions != NO_SESSION)
    if not named.size:
        return
    of = np.full(int(owners.max()) + 1, NO_SESSION)
    of[owners[named]] = sessions[named]
    if (of[owners[named]] != sessions[named]).any():
        raise UnusualError


def _ends(codes: Numbers, owners: Numbers, transactions: int) -> Numbers:
    """Return the last line of each; raise if one does something before it begins or after its end."""
    first, last = np.empty(transactions, np.int64), np.empty(transactions, np.int64)
    places = np.arange(len(codes))
    first[owners[::-1]] = places[::-1]
    last[owners] = places
    begins = np.flatnonzero(codes == BEGIN)
    ends = np.flatnonzero(codes >= COMMIT)
    if (first[owners[begins]] != begins).any() or (last[owners[ends]] != ends).any():
        raise UnusualError
    return last
