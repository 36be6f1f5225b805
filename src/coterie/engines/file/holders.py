"""What boards and cells say of a holder: whose end a waiter watches for, and which token was drawn last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.engines.file.directory.pipes import lent
from coterie.engines.file.directory.program_record import (
    ASKS,
    HOLDS,
    ReadingLimit,
    programs,
    read_board,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coterie.engines.file.directory.lock_file import LockBytes, LockDirectory
    from coterie.engines.file.directory.program_record import BoardEntry
    from coterie.engines.file.directory.wait_queue import QueuedWaiter


def life_to_watch(
    directory: LockDirectory, before: QueuedWaiter | None, lock_bytes: LockBytes
) -> str | None:
    """Name the life of the one before in the queue, or of the holder; None if there seems to be none."""
    return _holder(directory, lock_bytes) if before is None else f"{before.program:016x}"


def last_drawn(directory: LockDirectory, lock_bytes: LockBytes) -> tuple[int, int]:
    """Return what the cell of a lock says, and the token of its holder on the board of the last drawer.

    Whenever the lock is taken, one of them changes: a program that draws ahead leaves the cell as it is.
    """
    last, drawer, drawn_for = lock_bytes.cell.read(directory.descriptor)
    entries = (
        _entries(directory, drawer, lock_bytes, HOLDS) if drawn_for == lock_bytes.offset else ()
    )
    return last, max((entry.token for entry in entries), default=0)


def _holder(directory: LockDirectory, lock_bytes: LockBytes) -> str | None:
    """Name the life of a holder, by the boards; None if the lock seems to be free."""
    _, drawer, drawn_for = lock_bytes.cell.read(directory.descriptor)
    # Most often it is the program that drew the last token, and no other board need be read.
    if drawn_for == lock_bytes.offset:
        for entry in _entries(directory, drawer, lock_bytes, HOLDS):
            return _life_of(entry)
    # One that only asks may have been refused; it counts if no other has the lock.
    asks, limit = None, ReadingLimit()
    for program in programs(directory.boards.descriptor):
        for entry in read_board(directory.boards.descriptor, program, directory.descriptor, limit):
            if entry.offset != lock_bytes.offset:
                continue
            if entry.state == HOLDS:
                return _life_of(entry)
            if entry.state == ASKS and asks is None:
                asks = _life_of(entry)
    return asks


def _life_of(entry: BoardEntry) -> str:
    """Name the life of the program of a slot; that of a handle if it was lent."""
    return lent(entry.program, entry.life) if entry.lent else f"{entry.program:016x}"


def _entries(
    directory: LockDirectory, program: int, lock_bytes: LockBytes, state: int
) -> Iterator[BoardEntry]:
    """Find what the board of a program says of a lock."""
    for entry in read_board(directory.boards.descriptor, program, directory.descriptor):
        if entry.offset == lock_bytes.offset and entry.state == state:
            yield entry
