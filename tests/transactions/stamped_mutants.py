"""Breaking one line of a stamp-ordered scheme, and whether anything notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.transactions.serializability import check
from tests.transactions.stamped import HISTORIES, RESTARTED, WATCHED, ends, stormy_restarts
from tests.transactions.storms import storm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.transactions.schemes.timestamp_ordering.stamp_ordered import StampOrdered

NOTICED = (AssertionError, LookupError)  # by the scheme itself or its watcher


def noticed(scheme: str, seeds: int = 60) -> bool:
    """Explore small histories and run storms until something is wrong."""
    kind = WATCHED[scheme]
    try:
        return (
            any(fails(kind, seed) for seed in range(10))  # most are noticed so, and soon
            or any(explored_wrong(kind))
            or any(fails(kind, seed) for seed in range(10, seeds))
        )
    except NOTICED:
        return True


def explored_wrong(kind: type[StampOrdered]) -> Iterator[bool]:
    for history in HISTORIES.values():
        end = ends(kind(), *history)
        yield bool(end.stuck or end.wrong)
    for name in RESTARTED:
        end = ends(kind(), *HISTORIES[name], restart=True)
        yield bool(end.stuck or end.wrong)


def fails(kind: type[StampOrdered], seed: int) -> bool:
    trials = [
        storm(kind(), seed),
        storm(kind(patience=1), seed, aborts=0.1),
        stormy_restarts(kind(), seed),
    ]
    return any(bool(t.waiting()) or not check(t.history()).serializable for t in trials)
