"""Which owners of all processes that share a lock directory hold a lock, and what they wait for.

The board of the holder's program says which task holds a lock; its notice says in which wait that task
is.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from coterie.engines.file.directory.folder import WAITS
from coterie.engines.file.directory.wait_board import Notice, read_wait, sweep
from coterie.engines.file.parties import parties_of
from coterie.locks.deadlocks.reports import Hold, LockOwner, LockWait, OwnerId, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from coterie.engines.file.directory.folder import Directory
    from coterie.engines.file.directory.program_record import BoardEntry
    from coterie.locks.deadlocks.waits import Waits
    from coterie.locks.engine import Claim
    from coterie.locks.lock import Owner


class WaitBoard:
    """Reads the boards and notices of others, and puts up our own notices before."""

    round_trip = 0.0  # reading files waits for no other process

    def __init__(
        self, directory: Directory, waits: Waits, held: Callable[[], Iterable[Claim]]
    ) -> None:
        """Speak for these owners; `held` returns the claims that hold a lock."""
        self._directory = directory
        self._waits = waits
        self._held = held
        self._notices: dict[Owner, Notice] = {}
        with contextlib.suppress(OSError), directory.open() as folder, folder.enter(WAITS) as board:
            sweep(board)

    async def holds(self, locks: Sequence[Wanted]) -> dict[Wanted, list[Hold]]:
        """Find the owners that hold these locks."""
        self._put_up()
        return {lock: self._holds(lock) for lock in locks}

    def _put_up(self) -> None:
        """Put up notices of the owners that wait and hold something; the rest block no other."""
        for owner in {claim.owner for claim in self._held()} - set(self._notices):
            described = self._waits.describe(owner)
            # Where it cannot be written, on a full disk for instance, the others do not see it.
            with contextlib.suppress(OSError):
                if described.wait is not None:
                    self._notices[owner] = self._notice(described)

    def _notice(self, owner: LockOwner) -> Notice:
        with self._directory.open() as folder, folder.enter(WAITS, make=True) as board:
            return Notice(board, owner)

    def withdraw(self, owner: Owner) -> None:
        """Take the notice of an owner down, if there is one."""
        notice = self._notices.pop(owner, None)
        if notice is not None:
            notice.take_down()

    def _holds(self, wanted: Wanted) -> list[Hold]:
        return [
            self._hold(wanted, entry)
            for entry in parties_of(self._directory, wanted.lock).inside
            if not (wanted.shared and entry.shared)
        ]

    def _hold(self, wanted: Wanted, entry: BoardEntry) -> Hold:
        owner = OwnerId(entry.participant, entry.owner)
        wait = self._read_wait(owner, entry.user)
        if wait is not None and wanted in wait.condition.targets():
            wait = None  # it has just been granted this very lock, and is about to go on
        told = LockOwner(owner, entry.process, entry.task, wait)
        return Hold(wanted, entry.token, told, entry.shared)

    def _read_wait(self, owner: OwnerId, user: int) -> LockWait | None:
        # Where no task has waited so far there is no board.
        with (
            contextlib.suppress(OSError),
            self._directory.open() as folder,
            folder.enter(WAITS) as board,
        ):
            return read_wait(board, owner, user)
        return None
