"""Which owners of all processes that share a lock directory hold a lock, and what they wait for.

The board of the holder's program says which task holds a lock; its notice says in which wait that task
is.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from coterie.engines.file.directory.folder import WAITS
from coterie.engines.file.directory.program_record import ReadingLimit
from coterie.engines.file.directory.wait_board import Notice, read_wait, sweep
from coterie.engines.file.parties import all_parties
from coterie.errors import CoterieError
from coterie.locks.deadlocks.reports import Hold, LockOwner, LockWait, OwnerId, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from coterie.engines.file.directory.folder import Directory, Folder
    from coterie.engines.file.directory.program_record import BoardEntry
    from coterie.engines.file.parties import LockParties
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
        """Find the owners that hold these locks.

        In another thread: there may be many boards of other users, and each says what its user likes.
        """
        self._put_up()
        return await asyncio.to_thread(self._read_holds, locks)

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

    def _read_holds(self, locks: Sequence[Wanted]) -> dict[Wanted, list[Hold]]:
        """Read all boards once, then the notices of the holders, each user's up to a limit."""
        parties: dict[str, LockParties] = {}
        with contextlib.suppress(OSError, CoterieError):  # what cannot be read says nothing
            parties = all_parties(self._directory, {wanted.lock for wanted in locks})
        with contextlib.ExitStack() as stack:
            board: Folder | None = None
            with contextlib.suppress(
                OSError, CoterieError
            ):  # there is none where no task has waited so far
                folder = stack.enter_context(self._directory.open())
                board = stack.enter_context(folder.enter(WAITS))
            reader = _WaitReader(board)
            return {
                wanted: [
                    reader.hold(wanted, entry)
                    for entry in (parties[wanted.lock].inside if wanted.lock in parties else ())
                    if not (wanted.shared and entry.shared)
                ]
                for wanted in locks
            }


class _WaitReader:
    """Reads the notice of each holder once."""

    def __init__(self, board: Folder | None) -> None:
        self._board = board
        self._limit = ReadingLimit()
        self._known: dict[tuple[OwnerId, int], tuple[LockWait | None, frozenset[Wanted]]] = {}

    def hold(self, wanted: Wanted, entry: BoardEntry) -> Hold:
        owner = OwnerId(entry.participant, entry.owner)
        wait, targets = self._read(owner, entry.user)
        if wanted in targets:
            wait = None  # it has just been granted this very lock, and is about to go on
        told = LockOwner(owner, entry.process, entry.task, wait)
        return Hold(wanted, entry.token, told, entry.shared)

    def _read(self, owner: OwnerId, user: int) -> tuple[LockWait | None, frozenset[Wanted]]:
        found = self._known.get((owner, user))
        if found is None:
            wait = None
            if self._board is not None:
                with contextlib.suppress(OSError):
                    wait = read_wait(self._board, owner, user, self._limit)
            targets = frozenset(() if wait is None else wait.condition.targets())
            found = self._known[owner, user] = wait, targets
        return found
