"""What boards and cells say of a holder: whose end a waiter watches for, and which token was drawn last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.engines.file.directory.pipes import lent
from coterie.engines.file.directory.program_record import ASKS, HOLDS, programs, read_board

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
    likely = _life(directory, drawer, lock_bytes, HOLDS) if drawn_for == lock_bytes.offset else None
    if likely is not None:
        return likely
    # One that only asks may have been refused; it counts if no other has the lock.
    everyone = programs(directory.boards.descriptor)
    for state in (HOLDS, ASKS):
        for program in everyone:
            found = _life(directory, program, lock_bytes, state)
            if found is not None:
                return found
    return None


def _life(directory: LockDirectory, program: int, lock_bytes: LockBytes, state: int) -> str | None:
    """Name the life of a program if a slot of its board says so; that of a handle if it was lent."""
    for entry in _entries(directory, program, lock_bytes, state):
        return lent(program, entry.life) if entry.lent else f"{program:016x}"
    return None


def _entries(
    directory: LockDirectory, program: int, lock_bytes: LockBytes, state: int
) -> Iterator[BoardEntry]:
    """Find what the board of a program says of a lock."""
    for entry in read_board(directory.boards.descriptor, program, directory.descriptor):
        if entry.offset == lock_bytes.offset and entry.state == state:
            yield entry
