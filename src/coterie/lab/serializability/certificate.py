"""A proof that a history of stated versions is serializable, by sorting and searching in columns.

It finds what the checker of single events would find, or nothing: whatever may be an anomaly or a
mistake, that checker looks at and explains. Where every dependency points forward in the order of
commits, as with strict two-phase locking, that order is the proof.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coterie.lab.serializability.dependencies import serial_order
from coterie.lab.serializability.report import Report
from coterie.transactions.history_columns import NO_VERSION, NULL, UnusualError

if TYPE_CHECKING:
    from coterie.transactions.history_columns import Flags, HistoryColumns, Numbers


class Seen(NamedTuple):
    """Reads of what others wrote, and where it came from: accesses by number."""

    reads: Numbers
    sources: Numbers  # the writes; -1 where the key was as in the beginning


def certify(columns: HistoryColumns) -> Report | None:
    """Judge a history; None if it is not serializable, or if something may be wrong with it."""
    try:
        return _judge(columns)
    except UnusualError:
        return None


def _judge(columns: HistoryColumns) -> Report | None:
    """Judge a history; None if it is not serializable. Raise if that is not sure."""
    own, finals = _own_writes(columns)
    counted, seen = _counted(columns, own, _sources(columns, own, finals))
    order = np.flatnonzero(counted)
    order = order[np.argsort(columns.ends[order])]
    edges = _dependencies(columns, finals[counted[columns.owners[finals]]], seen, order)
    serial = _serial(len(order), *edges)
    return None if serial is None else _report(columns, counted, order, serial)


def _own_writes(columns: HistoryColumns) -> tuple[Numbers, Numbers]:
    """Return the own write that stands before each access, or -1, and all writes that are final.

    The accesses of a transaction to a key stand together once they are sorted, in their order.
    """
    size = len(columns.owners)
    group = columns.owners * (int(columns.keys.max(initial=0)) + 1) + columns.keys
    by_group = np.argsort(group, kind="stable")
    group = group[by_group]
    places = np.arange(size)
    starts = np.ones(size, np.bool_)
    starts[1:] = group[1:] != group[:-1]
    beginning = np.maximum.accumulate(np.where(starts, places, 0))
    latest = np.maximum.accumulate(np.where(columns.writes[by_group], places, -1))
    written = latest >= beginning
    own = np.full(size, -1)
    own[by_group[written]] = by_group[latest[written]]
    last = np.append(starts[1:], True)[:size] & written
    return own, by_group[latest[last]]


def _sources(columns: HistoryColumns, own: Numbers, finals: Numbers) -> Seen:
    """Find out which write each read saw, by the version that it states."""
    stride = int(columns.versions.max(initial=0)) + 1
    stated = columns.keys * stride + columns.versions
    writes = np.flatnonzero(columns.writes)
    writes = writes[np.argsort(stated[writes])]
    same = stated[writes[1:]] == stated[writes[:-1]]
    if (same & (columns.owners[writes[1:]] != columns.owners[writes[:-1]])).any():
        raise UnusualError  # a version of two transactions
    is_final = np.zeros(len(stated), np.bool_)
    is_final[finals] = True
    finals = writes[is_final[writes]]
    reads = np.flatnonzero(~columns.writes & (own < 0))
    places = np.searchsorted(stated[finals], stated[reads])
    places = np.minimum(places, len(finals) - 1)
    sources = np.full(len(reads), -1)
    if len(finals):
        found = (stated[finals[places]] == stated[reads]) & (columns.versions[reads] != NO_VERSION)
        sources[found] = finals[places[found]]
    return Seen(reads, sources)


def _counted(columns: HistoryColumns, own: Numbers, seen: Seen) -> tuple[Flags, Seen]:
    """Return which transactions count, and what those have read from others; check what they saw.

    One of unknown outcome counts if one that counts has read from it.
    """
    counted = columns.committed.copy()
    readers = columns.owners[seen.reads]
    written = seen.sources >= 0
    writers = np.where(written, columns.owners[seen.sources], -1)
    while True:
        read_from = np.zeros(len(counted), np.bool_)
        read_from[writers[written & counted[readers]]] = True
        if (read_from & columns.aborted).any():
            raise UnusualError  # a read of what was aborted
        if not (read_from & ~counted).any():
            break
        counted |= read_from
    chosen = counted[readers]
    if (writers[chosen] == readers[chosen]).any():
        raise UnusualError  # a read of what the reader itself writes later
    seen = Seen(seen.reads[chosen], seen.sources[chosen])
    written = seen.sources >= 0
    _check_equal(columns, seen.reads[written], seen.sources[written])
    _check_beginning(columns, seen.reads[~written])
    again = np.flatnonzero(~columns.writes & (own >= 0) & counted[columns.owners])
    _check_equal(columns, again, own[again])
    return counted, seen


def _check_equal(columns: HistoryColumns, reads: Numbers, writes: Numbers) -> None:
    """Raise if another value was read than was written."""
    values = columns.values
    if [values[read] for read in reads.tolist()] != [values[write] for write in writes.tolist()]:
        raise UnusualError


def _check_beginning(columns: HistoryColumns, reads: Numbers) -> None:
    """Raise if something else than nothing was read as it was in the beginning."""
    values = columns.values
    if any(values[read] != NULL for read in reads.tolist()):
        raise UnusualError
    if len(reads) and NULL in compress(values, columns.writes.tolist()):
        raise UnusualError  # a null that was written may be meant


def _dependencies(
    columns: HistoryColumns, finals: Numbers, seen: Seen, order: Numbers
) -> tuple[Numbers, Numbers]:
    """Return the ends of all edges, as in `dependencies`: transactions by their place in `order`."""
    numbers = np.full(len(columns.names), -1)
    numbers[order] = np.arange(len(order))
    finals = finals[np.lexsort((columns.versions[finals], columns.keys[finals]))]
    writers, keys = numbers[columns.owners[finals]], columns.keys[finals]
    replaced = np.flatnonzero(keys[1:] == keys[:-1])  # by the next one
    successors = np.full(len(columns.owners), -1)  # by access
    successors[finals[replaced]] = writers[replaced + 1]
    oldest = np.full(int(columns.keys.max(initial=0)) + 1, -1)
    oldest[keys[::-1]] = writers[::-1]
    readers = numbers[columns.owners[seen.reads]]
    written = seen.sources >= 0
    sources = seen.sources[written]
    replacing = np.where(written, successors[seen.sources], oldest[columns.keys[seen.reads]])
    anti = (replacing >= 0) & (replacing != readers)
    before = (writers[replaced], numbers[columns.owners[sources]], readers[anti])
    behind = (writers[replaced + 1], readers[written], replacing[anti])
    return np.concatenate(before), np.concatenate(behind)


def _serial(size: int, sources: Numbers, targets: Numbers) -> list[int] | None:
    if (sources < targets).all():
        return list(range(size))  # which is what the search below would return
    order, tangled = serial_order(range(size), zip(sources.tolist(), targets.tolist(), strict=True))
    return None if tangled else order


def _report(columns: HistoryColumns, counted: Flags, order: Numbers, serial: list[int]) -> Report:
    names = columns.names
    unknown = ~(columns.committed | columns.aborted)
    ended = order.tolist()
    return Report(
        serializable=True,
        anomalies=(),
        order=tuple([names[ended[number]] for number in serial]),
        versions="stated",
        transactions=len(ended),
        presumed_committed=tuple(names[number] for number in order[unknown[order]].tolist()),
        left_out=tuple(names[number] for number in np.flatnonzero(unknown & ~counted).tolist()),
    )
