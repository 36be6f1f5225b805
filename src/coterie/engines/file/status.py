"""What a lock directory shows: looking makes, joins and removes nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from coterie.deadlock.condition import any_of
from coterie.deadlock.service.lock_collection import Collection
from coterie.deadlock.service.lock_graph import lasting_graph
from coterie.deadlock.service.lock_waits import Hold, LockOwner, LockWait, OwnerId, Wanted
from coterie.engines.file.queue import Queue, all_tickets
from coterie.engines.file.tickets_alive import divide, living, party
from coterie.errors import Unavailable
from coterie.locks.engine import LockState

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.deadlock.wait_for import Graph
    from coterie.engines.file.tickets_alive import Standing

# An owner that waits for any one of several locks and gets one leaves the other queues a moment later;
# after this pause it no longer looks as if it waited.
PAUSE_SECONDS = 0.05


class DirectoryState(msgspec.Struct, frozen=True):
    """The locks of a directory, in the shape in which a cluster shows its own."""

    directory: str
    locks: list[LockState]
    nodes: tuple[()] = ()  # there are none
    health: int = 0  # it works as long as it can be read


def inspect(folder: Path) -> DirectoryState:
    """List the locks that are held or waited for."""
    locks = []
    for name, line in sorted(_lines(folder).items()):
        inside, waiting = divide(line)
        holders = [party(name, standing, inside=True) for standing in inside]
        waiters = [party(name, standing, inside=False) for standing in waiting]
        locks.append(LockState(name, holders, [], waiters))
    return DirectoryState(str(folder), locks)


def inspect_waits(folder: Path) -> Graph[str]:
    """Look twice which owners wait for which, and return what lasted.

    Numbers are never used again, so a ticket that is seen twice was there all the time between.
    """
    first = _collect(_lines(folder))
    time.sleep(PAUSE_SECONDS)
    return lasting_graph(first, _collect(_lines(folder)))


def _lines(folder: Path) -> dict[str, list[Standing]]:
    """Read the living tickets of each lock, in the order of their numbers."""
    lines: dict[str, list[Standing]] = {}
    try:
        for standing in living(all_tickets(folder)):
            if not _is_of_its_lock(folder, standing):
                continue
            lines.setdefault(standing.author.lock, []).append(standing)
    except OSError as error:
        raise Unavailable(f"the lock directory {folder}: {error}") from None
    return lines


def _is_of_its_lock(folder: Path, standing: Standing) -> bool:
    """Return True if a ticket stands in the queue of the lock that it names."""
    place, lock = standing.place, standing.author.lock
    return Queue(folder, lock).place(place.number, shared=place.shared) == place


def _collect(lines: dict[str, list[Standing]]) -> Collection:
    divided = {lock: divide(line) for lock, line in sorted(lines.items())}
    waits: dict[OwnerId, dict[str, Standing]] = {}
    for lock, (_, waiting) in divided.items():
        for standing in waiting:
            waits.setdefault(_owner_id(standing), {})[lock] = standing
    collection = Collection(
        _owner(standing, waits) for _, waiting in divided.values() for standing in waiting
    )
    for lock, (inside, _) in divided.items():
        wanted = Wanted(lock)
        holds = [Hold(wanted, each.place.number, _owner(each, waits)) for each in inside]
        collection.hear(wanted, holds)
    return collection


def _owner(standing: Standing, waits: dict[OwnerId, dict[str, Standing]]) -> LockOwner:
    author, owner = standing.author, _owner_id(standing)
    return LockOwner(owner, author.owner, author.task, _wait(waits.get(owner, {})))


def _owner_id(standing: Standing) -> OwnerId:
    return OwnerId(standing.author.participant, standing.author.number)


def _wait(places: dict[str, Standing]) -> LockWait | None:
    """Describe the wait of an owner by its tickets: any one of their locks would do.

    Another wait for the same locks has another ticket, and its number is greater than all before.
    """
    if not places:
        return None
    numbers = [standing.place.number for standing in places.values()]
    since = min(standing.author.since for standing in places.values())
    return LockWait(max(numbers), any_of(*map(Wanted, places)), min(numbers), since)
