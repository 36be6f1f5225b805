"""A history in the layout in which stores write it, read without an object for each line.

    {"transaction":"T1","op":"begin"}
    {"transaction":"T1","op":"read","key":"x","value":null,"version":[0,0]}
    {"transaction":"T1","op":"commit"}

What has to stand between names, keys, values and versions is compared with what stands there, eight
bytes of many lines at once. No string has a backslash in it, so each ends at the next quote; a version
is read backwards from the end of its line; and what is between a key and a version has to be JSON by
itself. So a line that passes is one that `read_columns` reads in the same way. Any other history,
if only there are blanks between its fields, is left to `read_columns`.
"""

from __future__ import annotations

from collections import deque
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from coterie.lab.serializability.columns import (
    ABORT,
    BEGIN,
    COMMIT,
    READ,
    WRITE,
    Columns,
    UnusualError,
    make_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from coterie.lab.serializability.columns import Numbers

    Words: TypeAlias = npt.NDArray[np.uint64]

BLOCK = 1 << 20  # bytes that are looked through at once
WORD = 8  # bytes
WORDS_MAX = 8  # in a name or key
DIGITS_MAX = 18  # of a number in a version, which is sure to fit into 64 bits
MARGIN = bytes(WORD * WORDS_MAX)  # behind the last line: a string without an end is read that far

START = b'{"transaction":"'
OP = b'","op":"'
AFTER_OP = {
    BEGIN: b'begin"}\n',
    READ: b'read","key":"',
    WRITE: b'write","key":"',
    COMMIT: b'commit"}\n',
    ABORT: b'abort"}\n',
}
VALUE = b'","value":'
VERSION = b',"version":'
COMMA, OPENING, CLOSING, BRACE = b",[]}"
NEWLINE, SPACE, ZERO = b"\n 0"


def _word(literal: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(literal, "little"))


ONES, TOPS, QUOTES = _word(b"\x01" * WORD), _word(b"\x80" * WORD), _word(b'"' * WORD)


class Block(NamedTuple):
    """Some lines in columns."""

    codes: Numbers  # by line: what happened
    names: Words  # by line: the name of the transaction, a row of words
    keys: Words  # by access, the same
    versions: Numbers  # by access, in rows
    values: list[bytes]  # by access


def read_layout(content: bytes) -> Columns:
    """Read JSON lines; raise `UnusualError` if they are not exactly in the layout of stores."""
    if not (content.startswith(START) and content.isascii()) or b"\\" in content:
        raise UnusualError
    text = _Text(content if content.endswith(b"\n") else content + b"\n")
    blocks = [text.read(start, stop) for start, stop in _blocks(text.content)]
    names, owners = _numbered([block.names for block in blocks])
    _, keys = _numbered([block.keys for block in blocks])
    return make_columns(
        names=names,
        codes=np.concatenate([block.codes for block in blocks]),
        owners=owners,
        keys=keys,
        stated=np.ones(len(keys), np.bool_),
        versions=[block.versions for block in blocks if len(block.versions)],
        values=[value for block in blocks for value in block.values],
    )


def _blocks(content: bytes) -> Iterator[tuple[int, int]]:
    """Cut the text behind ends of lines."""
    start = 0
    while start < len(content):
        stop = content.find(b"\n", start + BLOCK) + 1 or len(content)
        yield start, stop
        start = stop


class _Text:
    """The text as bytes and, from each byte on, as words."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        padded = content + MARGIN
        self._bytes = np.frombuffer(padded, np.uint8)
        size = len(padded) - WORD + 1
        self._words: Words = np.ndarray(size, np.dtype("<u8"), padded, strides=(1,))
        self._decode = msgspec.json.Decoder().decode

    def read(self, start: int, stop: int) -> Block:
        """Read whole lines."""
        block = self._bytes[start:stop]
        ends = np.flatnonzero(block == NEWLINE) + start
        if np.count_nonzero(block < SPACE) != len(ends):  # JSON has no such bytes in strings
            raise UnusualError
        starts = np.append(start, ends[:-1] + 1)
        self._expect(starts, START)
        names, name_ends = self._strings(starts + len(START))
        # No name or key goes beyond its line: the first quote of the next one, if there is a next, has
        # other letters behind it than are expected there.
        self._expect(name_ends, OP)
        codes, behind = self._operations(name_ends + len(OP))
        accesses = np.flatnonzero((codes == READ) | (codes == WRITE))
        keys, key_ends = self._strings(behind[accesses])
        versions, version_starts = self._versions(ends[accesses] - 1)
        values = self._values(key_ends, version_starts - len(VERSION))
        return Block(codes, names, keys, versions, values)

    def _expect(self, places: Numbers, literal: bytes) -> None:
        """Raise unless this, of one to two words, stands at all these places."""
        for offset in (0, len(literal) - WORD):
            if (self._words[places + offset] != _word(literal[offset : offset + WORD])).any():
                raise UnusualError

    def _operations(self, places: Numbers) -> tuple[Numbers, Numbers]:
        """Return the code of the operation at each place, and where what follows it begins."""
        codes, behind = np.full(len(places), -1), places.copy()
        words = self._words[places]
        for code, literal in AFTER_OP.items():
            found = np.flatnonzero(words == _word(literal[:WORD]))
            self._expect(places[found], literal)
            codes[found] = code
            behind[found] += len(literal)
        if (codes < 0).any():
            raise UnusualError
        return codes, behind

    def _strings(self, starts: Numbers) -> tuple[Words, Numbers]:
        """Return each string up to its quote as a row of words, and where the quotes stand.

        No byte of a string is 0, so two strings are equal if and only if their rows are.
        """
        columns: list[Words] = []
        ends = starts
        for _ in range(WORDS_MAX):
            words = self._words[ends]
            # A byte of `others` is 0 where a quote stands. The lowest bit of `marks` is the top bit of
            # the first such byte: only above it may the subtraction have borrowed from another.
            others = words ^ QUOTES
            marks = (others - ONES) & ~others & TOPS
            before = ((marks & -marks) >> np.uint64(7)) - np.uint64(1)  # all bits if there is none
            columns.append(words & before)
            lengths = ((before & ONES) * ONES >> np.uint64(56)).astype(np.int64)  # sum of its bytes
            ends = ends + lengths
            if not (lengths == WORD).any():
                return np.stack(columns, axis=1), ends
        raise UnusualError

    def _values(self, starts: Numbers, ends: Numbers) -> list[bytes]:
        """Cut out what stands between the end of a key and that of a value, and return the values."""
        self._expect(starts, VALUE)
        self._expect(ends, VERSION)
        starts = starts + len(VALUE)
        if (self._bytes[starts] == SPACE).any() or (self._bytes[ends - 1] == SPACE).any():
            raise UnusualError  # a null with blanks around it must not be taken for something else
        places = zip(starts.tolist(), ends.tolist(), strict=True)
        values = list(map(self.content.__getitem__, starmap(slice, places)))
        try:
            deque(map(self._decode, values), maxlen=0)
        except (msgspec.DecodeError, RecursionError):
            raise UnusualError from None
        return values

    def _versions(self, braces: Numbers) -> tuple[Numbers, Numbers]:
        """Read the numbers before the last brace of each line, and return where they begin.

        Raise unless there are equally many everywhere.
        """
        if (self._bytes[braces] != BRACE).any():
            raise UnusualError
        listed = self._bytes[braces - 1] == CLOSING
        column, ends = self._decimals(braces - listed)
        columns = [column]
        if not listed.any():
            return column[:, np.newaxis], ends + 1
        while listed.all() and (self._bytes[ends] == COMMA).all():
            column, ends = self._decimals(ends)
            columns.insert(0, column)
        if not listed.all() or (self._bytes[ends] != OPENING).any() or len(columns) == 1:
            raise UnusualError  # one number in a list is another version than the number
        return np.stack(columns, axis=1), ends

    def _decimals(self, ends: Numbers) -> tuple[Numbers, Numbers]:
        """Return the numbers that end before these places, and where stands what is before them."""
        numbers, starts = np.zeros(len(ends), np.int64), ends
        for place in range(DIGITS_MAX + 1):
            digits = self._bytes[starts - 1] - np.uint8(ZERO)
            more = digits < 10
            if not more.any():
                break
            numbers += np.where(more, digits, np.int64(0)) * 10**place
            starts = starts - more
        lengths = ends - starts
        zeros_first = (self._bytes[starts] == ZERO) & (lengths > 1)
        if (lengths == 0).any() or (lengths > DIGITS_MAX).any() or zeros_first.any():
            raise UnusualError
        return numbers, starts - 1


def _numbered(tables: list[Words]) -> tuple[list[str], Numbers]:
    """Number strings in the order in which they come; return them, and the number in each row."""
    width = max(table.shape[1] for table in tables)
    wide = [np.pad(table, ((0, 0), (0, width - table.shape[1]))) for table in tables]
    rows = np.concatenate(wide)
    merged = rows[:, 0]
    for column in rows.T[1:]:
        _, numbers = np.unique(merged, return_inverse=True)
        _, ranks = np.unique(column, return_inverse=True)
        merged = (numbers * len(rows) + ranks).astype(np.uint64)
    _, firsts, numbers = np.unique(merged, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    in_order = np.empty_like(order)
    in_order[order] = np.arange(len(order))
    strings = np.ascontiguousarray(rows[firsts[order]]).view(f"S{WORD * width}")
    return strings.ravel().astype(str).tolist(), in_order[numbers]
