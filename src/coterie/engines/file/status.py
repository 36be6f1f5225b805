"""What a lock directory shows, also in words: looking makes, joins and removes nothing."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from typing import TYPE_CHECKING

import msgspec

from coterie.algorithms.deadlock.condition import any_of
from coterie.engines.file.directory.folder import Directory, directory_at, folder_of
from coterie.engines.file.directory.lock_file import LOCK_FILE
from coterie.engines.file.directory.program_record import FOREIGN_BYTES_MAX, ReadingLimit
from coterie.engines.file.engine import make_engine
from coterie.engines.file.parties import LockParties, all_parties, party, user_name
from coterie.errors import Unavailable
from coterie.locks.deadlocks.collection import Collection
from coterie.locks.deadlocks.graph import lasting_graph
from coterie.locks.deadlocks.reports import Hold, LockOwner, LockWait, OwnerId, Wanted
from coterie.locks.engine import LockState
from coterie.locks.status import Status

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.algorithms.deadlock.wait_for import Graph
    from coterie.engines.file.directory.program_record import BoardEntry

# An owner that waits for any one of several locks and gets one leaves the other parties a moment later;
# after this pause it no longer looks as if it waited.
PAUSE_SECONDS = 0.05


class DirectoryState(msgspec.Struct, frozen=True):
    """The locks of a directory, in the shape in which a cluster shows its own."""

    directory: str
    locks: list[LockState]
    nodes: tuple[()] = ()  # there are none
    health: int = 0  # it works as long as it can be read


def inspect(folder: Path, limit: ReadingLimit | None = None) -> DirectoryState:
    """List the locks that are held or waited for; the limit counts boards that are left out."""
    locks = [
        LockState(name, list(map(party, inside)), [], list(map(party, waiting)))
        for name, (inside, waiting) in sorted(_parties(folder, limit).items())
    ]
    return DirectoryState(str(folder), locks)


def inspect_waits(folder: Path) -> Graph[str]:
    """Look twice which owners wait for which, and return what lasted.

    Numbers of requests are never used again, so a wait that is seen twice has lasted all the time
    between.
    """
    first = _collect(_parties(folder))
    time.sleep(PAUSE_SECONDS)
    return lasting_graph(first, _collect(_parties(folder)))


def _parties(folder: Path, limit: ReadingLimit | None = None) -> dict[str, LockParties]:
    try:
        return all_parties(Directory(str(folder)), limit=limit)
    except OSError as error:
        raise Unavailable(f"the lock directory {folder}: {error}") from None


def _collect(parties: dict[str, LockParties]) -> Collection:
    waits: dict[OwnerId, dict[str, BoardEntry]] = {}
    for lock, (_, waiting) in sorted(parties.items()):
        for entry in waiting:
            waits.setdefault(_owner_id(entry), {})[lock] = entry
    collection = Collection(
        _owner(entry, waits) for _, (_, waiting) in sorted(parties.items()) for entry in waiting
    )
    for lock, (inside, _) in sorted(parties.items()):
        wanted = Wanted(lock)
        collection.hear(
            wanted, [Hold(wanted, entry.token, _owner(entry, waits)) for entry in inside]
        )
    return collection


def _owner(entry: BoardEntry, waits: dict[OwnerId, dict[str, BoardEntry]]) -> LockOwner:
    owner = _owner_id(entry)
    return LockOwner(owner, entry.process, entry.task, _wait(waits.get(owner, {})))


def _owner_id(entry: BoardEntry) -> OwnerId:
    return OwnerId(entry.participant, entry.owner)


def _wait(entries: dict[str, BoardEntry]) -> LockWait | None:
    """Describe the wait of an owner by its places in parties: any one of their locks would do.

    Another wait for the same locks has another request, whose number is greater than all before.
    """
    if not entries:
        return None
    numbers = [entry.request for entry in entries.values()]
    since = min(entry.since for entry in entries.values())
    return LockWait(max(numbers), any_of(*map(Wanted, entries)), int(since * 1e9), since)


def doubts(url: str) -> list[tuple[str, str]]:
    """Say who besides root could take away the locks of a shared directory, and what to do; nothing is changed."""
    path = folder_of(url)
    directory = directory_at(path)
    try:
        with directory.open() as folder:
            sharing = folder.sharing
            words = os.stat(LOCK_FILE, dir_fd=folder.descriptor, follow_symlinks=False)
    except OSError:  # there is none yet, or it cannot be read, which the status has said
        return []
    if not sharing.is_for_all:
        if not directory.of_machine or not sharing.user:
            return []
        text = f"{path} belongs to {user_name(sharing.user)}, and is closed to other users"
        return [(text, f"sudo rm -r {path}, when no lock is held")]
    found = []
    for name, user in ((path, sharing.user), (f"{path}/{LOCK_FILE}", words.st_uid)):
        if user:
            text = f"{name} belongs to {user_name(user)}, who can take away the locks of all users"
            found.append((text, f"sudo chown root {name}"))
    if not sharing.mode & stat.S_ISVTX:
        text = f"{path} is not sticky, so every user can remove its files"
        found.append((text, f"chmod 1777 {path}"))
    return found


# In words


def make_source(url: str) -> DirectorySource:
    """Return the source of the directory that a URL names."""
    return DirectorySource(make_engine(url).folder)


class DirectorySource:
    """Reads a lock directory; one that does not exist has no locks, and is not created."""

    def __init__(self, folder: Path) -> None:
        """Remember the directory."""
        self._folder = folder

    async def look(self, *, locks: bool = False, waits: bool = False) -> Status:
        """Read it in a thread, since it pauses between two looks at the waits."""
        return await asyncio.to_thread(self._read, locks=locks, waits=waits)

    def _read(self, *, locks: bool, waits: bool) -> Status:
        name, limit = str(self._folder), ReadingLimit()
        notes = []
        if (locks or waits) and not self._folder.exists():
            notes.append(f"{name} does not exist: no lock has been taken yet")
        state = inspect(self._folder, limit) if locks else DirectoryState(name, [])
        for user, count in limit.left_out.items():
            notes.append(
                f"{count} boards of {user_name(user)} are left out: together they are larger than"
                f" {FOREIGN_BYTES_MAX >> 20} MiB"
            )
        return Status(
            "lock directory",
            name,
            state,
            [],
            (),
            "readable",
            f"no nodes: {name} is a lock directory on this machine; try coterie status locks",
            inspect_waits(self._folder) if waits else None,
            notes=notes,
        )
