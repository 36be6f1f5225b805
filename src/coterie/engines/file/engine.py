"""The engine behind `file:` and `file:/some/directory`."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from coterie.deadlock.service.waits import Waits, task_name
from coterie.engines.file.claim import LOOK_AGAIN_SECONDS, Author, FileClaim
from coterie.engines.file.directory import COMMON, PRIVATE, Directory
from coterie.engines.file.queue import Queue
from coterie.engines.file.tickets_alive import divide, living, party
from coterie.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from coterie.deadlock.service.lock_waits import Wanted
    from coterie.deadlock.service.waits import DeadlockSearch
    from coterie.engines.file.tickets_alive import Standing
    from coterie.engines.file.waits import WaitBoard
    from coterie.locks.engine import Party
    from coterie.locks.lock import Owner

VACANCY_SECONDS = 0.1
LOOK_FOR_DEADLOCKS_SECONDS = 0.05
# The one directory that every user may write and that is emptied neither when the user logs out nor when
# the machine starts, for the tokens would begin again.
DEFAULT_FOLDER = Path("/var/tmp/coterie")  # noqa: S108 - directory.py is about what that takes


class FileEngine:
    """Grants locks to the processes that share a directory of this machine."""

    def __init__(self, folder: Path, mode: int = PRIVATE) -> None:
        """Use that directory; it is made with that mode when the engine is opened."""
        self.folder = folder
        self._directory = Directory(folder, mode)
        self.waits = Waits(
            f"{os.getpid()}-{os.urandom(4).hex()}",
            self._blockers,
            on_block=self._search_later,
            on_change=self._withdraw_notice,
        )
        self._look: asyncio.TimerHandle | None = None
        self._search: DeadlockSearch | None = None  # made when a wait lasts for a while
        self._board: WaitBoard | None = None
        self._claims: dict[str, list[FileClaim]] = {}  # that have not ended, by lock

    def claims(self) -> list[FileClaim]:
        """List the claims of this process that have not ended."""
        return [claim for claims in self._claims.values() for claim in claims]

    async def open(self) -> None:
        """Make the directory unless it is there already."""
        try:
            with self._directory.open(make=True):
                pass
        except OSError as error:
            raise Unavailable(self._directory.complaint(error)) from None

    async def close(self) -> None:
        """End all claims."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if self._search is not None:
            self._search.stop()
            self._search = None
        for claim in self.claims():
            claim.close()

    def place(
        self, name: str, *, owner: Owner, shared: bool, ttl: float | None, wait: bool
    ) -> FileClaim:
        """Ask for a lock. The lease does not matter: the system knows at once which process is dead."""
        queue, number = Queue(self.folder, name), self.waits.name(owner).number
        author = Author(
            self.waits.process, time.time(), self.waits.participant, number, task_name(owner), name
        )
        claim = FileClaim(
            self._directory, queue, owner, author, self._forget, shared=shared, wait=wait
        )
        self._claims.setdefault(name, []).append(claim)
        return claim

    def _forget(self, claim: FileClaim) -> None:
        claims = self._claims.get(claim.lock, [])
        if claim in claims:
            claims.remove(claim)
        if not claims:
            self._claims.pop(claim.lock, None)

    def _blockers(self, wanted: Wanted) -> list[FileClaim]:
        """List the claims of this process that hold a lock; sharers do not block each other."""
        return [
            claim
            for claim in self._claims.get(wanted.lock, ())
            if claim.holds() and not (wanted.shared and claim.shared)
        ]

    def _held(self) -> list[FileClaim]:
        """List the claims of this process that hold a lock."""
        return [claim for claim in self.claims() if claim.holds()]

    def _search_later(self, owner: Owner) -> None:
        """Search for an owner that stays blocked; most waits are over before that."""
        if self._search is not None:
            self._search.plan(owner)
        elif self._look is None:
            loop = asyncio.get_running_loop()
            self._look = loop.call_later(LOOK_FOR_DEADLOCKS_SECONDS, self._look_for_deadlocks)

    def _look_for_deadlocks(self) -> None:
        self._look = None
        blocked = self.waits.blocked()
        if not blocked:
            return
        from coterie.deadlock.service.waits import DeadlockSearch  # noqa: PLC0415 - seldom needed
        from coterie.engines.file.waits import WaitBoard  # noqa: PLC0415

        if self._board is None:
            self._board = WaitBoard(self._directory, self.waits, self._held)
        self._search = DeadlockSearch(self.waits, self._board, self._held)
        for owner in blocked:
            self._search.plan(owner)

    def _withdraw_notice(self, owner: Owner) -> None:
        if self._board is not None:
            self._board.withdraw(owner)

    def obstacle(self, name: str) -> None:
        """Return what blocks a lock besides its holders: nothing."""

    async def holders(self, name: str) -> list[Party]:
        """List the holders: the first, or all that share before the first that does not."""
        return [party(name, each, inside=True) for each in self._divided(name)[0]]

    async def waiters(self, name: str) -> list[Party]:
        """List those that wait, the next first."""
        return [party(name, each, inside=False) for each in self._divided(name)[1]]

    async def watch(
        self, name: str, check: Callable[[], None]
    ) -> AsyncGenerator[Party | None, None]:
        """Follow the holder: its end is noticed at once, a successor within a tenth of a second."""
        queue = Queue(self.folder, name)
        seen: Party | None = None
        first = True
        while True:
            check()
            holders = await self.holders(name)
            now = holders[0] if holders else None
            if first or now != seen:
                yield now
            first, seen = False, now
            if now is None or now.token is None:
                await asyncio.sleep(VACANCY_SECONDS)
            else:
                await queue.place(now.token, shared=now.shared).wait(LOOK_AGAIN_SECONDS)

    def _divided(self, name: str) -> tuple[list[Standing], list[Standing]]:
        return divide(living(Queue(self.folder, name).tickets()))


def make_engine(url: str) -> FileEngine:
    """Make the engine of a URL: `file:` for the directory of all users, or `file:/path`.

    A directory that is named and does not exist is made for this user alone.
    """
    path = unquote(url.removeprefix("file:"))
    if path.startswith("//"):
        path = path.removeprefix("//")
        if not path.startswith("/"):
            raise UsageError(
                f"{url}: expected a directory of this machine, such as file:/var/lib/x"
            )
    folder = Path(path).absolute() if path else default_folder()
    return FileEngine(folder, COMMON if folder == DEFAULT_FOLDER else PRIVATE)


def default_folder() -> Path:
    """Return the directory of `file:`: COTERIE_DIR, or the one that all users of the machine share.

    A directory of each user would let the job of root and the shell of a person into one lock together.
    """
    chosen = os.environ.get("COTERIE_DIR")
    return Path(chosen).absolute() if chosen else DEFAULT_FOLDER
