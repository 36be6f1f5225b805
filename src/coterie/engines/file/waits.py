"""Which owners of all processes that share a lock directory hold a lock, and what they wait for.

The first living ticket of a queue is the holder's, and says which task it is; its notice says in
which wait that task is.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from coterie.deadlock.service.lock_waits import Hold, LockOwner, OwnerId, Wanted
from coterie.engines.file.claim import Author
from coterie.engines.file.queue import Queue
from coterie.engines.file.wait_board import Notice, read_wait, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from coterie.deadlock.service.waits import Waits
    from coterie.engines.file.place import Place
    from coterie.locks.engine import Claim
    from coterie.locks.lock import Owner


class WaitBoard:
    """Reads the tickets and notices of others, and puts up our own before."""

    round_trip = 0.0  # reading files waits for no other process

    def __init__(self, folder: Path, waits: Waits, held: Callable[[], Iterable[Claim]]) -> None:
        """Speak for these owners; `held` returns the claims that hold a lock."""
        self._folder = folder
        self._board = folder / "waits"
        self._waits = waits
        self._held = held
        self._notices: dict[Owner, Notice] = {}
        self._board.mkdir(exist_ok=True)
        sweep(self._board)

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
                    self._notices[owner] = Notice(self._board, described)

    def withdraw(self, owner: Owner) -> None:
        """Take the notice of an owner down, if there is one."""
        notice = self._notices.pop(owner, None)
        if notice is not None:
            notice.take_down()

    def _holds(self, wanted: Wanted) -> list[Hold]:
        return [
            self._hold(wanted, place, author)
            for place, author in _inside(Queue(self._folder, wanted.lock))
            if not (wanted.shared and place.shared)
        ]

    def _hold(self, wanted: Wanted, place: Place, author: Author) -> Hold:
        owner = OwnerId(author.participant, author.number)
        wait = read_wait(self._board, owner)
        if wait is not None and wanted in wait.condition.targets():
            wait = None  # it has just been granted this very lock, and is about to go on
        told = LockOwner(owner, author.owner, author.task, wait)
        return Hold(wanted, place.number, told, place.shared)


def _inside(queue: Queue) -> list[tuple[Place, Author]]:
    """List the tickets inside: the first that lives, or all that share before the first that does not."""
    found: list[tuple[Place, Author]] = []
    for place in queue.tickets():
        if found and not (place.shared and found[0][0].shared):
            break
        content = place.content()
        if content is not None:
            found.append((place, msgspec.json.decode(content, type=Author)))
    return found
