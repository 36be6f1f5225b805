"""Who of all processes that share a lock directory holds a lock, and what does that owner wait for?

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

    from coterie.deadlock.service.local_waits import Waits
    from coterie.engines.file.place import Place
    from coterie.locks.engine import Claim
    from coterie.locks.session import Owner


class FileQuestions:
    """Reads the tickets and notices of others, and puts up our own before."""

    round_trip = 0.0  # there is nobody to be waited for

    def __init__(self, folder: Path, waits: Waits, held: Callable[[], Iterable[Claim]]) -> None:
        """Speak for these owners; `held` gives the claims that hold a lock."""
        self._folder = folder
        self._board = folder / "waits"
        self._waits = waits
        self._held = held
        self._notices: dict[Owner, Notice] = {}
        waits.on_change = self._take_down
        self._board.mkdir(exist_ok=True)
        sweep(self._board)

    async def holds(self, locks: Sequence[Wanted]) -> dict[Wanted, list[Hold]]:
        """Find out who holds these locks."""
        self._put_up()
        return {lock: self._holds(lock) for lock in locks}

    def _put_up(self) -> None:
        """Tell the others of those who wait and hold something; nobody waits for the rest."""
        for owner in {claim.owner for claim in self._held()} - set(self._notices):
            described = self._waits.describe(owner)
            # Where it cannot be written, on a full disk for instance, the others do not see it.
            with contextlib.suppress(OSError):
                if described.wait is not None:
                    self._notices[owner] = Notice(self._board, described)

    def _take_down(self, owner: Owner) -> None:
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
    """List who is inside: the first who lives, or all who share before the first who does not."""
    found: list[tuple[Place, Author]] = []
    for place in queue.tickets():
        if found and not (place.shared and found[0][0].shared):
            break
        content = place.content()
        if content is not None:
            found.append((place, msgspec.json.decode(content, type=Author)))
    return found
