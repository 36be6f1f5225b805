"""A claim to a lock of the directory: join the queue, wait for those before us, hold, leave."""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING

import msgspec

from coterie.deadlock.service.lock_waits import Wanted
from coterie.engines.file.directory import QUEUES
from coterie.engines.file.gate import gate
from coterie.engines.file.numbers import next_number
from coterie.engines.file.ticket import Ticket
from coterie.errors import MisuseError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.engines.file.directory import Directory
    from coterie.engines.file.gate import Gate
    from coterie.engines.file.queue import Queue
    from coterie.locks.lock import Owner

# A broken pipe wakes us at once; looking again from time to time covers file systems whose pipes
# are not shared by all machines that see the queue.
LOOK_AGAIN_SECONDS = 1.0
WATCH_SECONDS = 0.25
JOIN_TRIES = 100


class Author(msgspec.Struct):
    """What a ticket says: which task wants which lock."""

    owner: str
    since: float
    participant: str = ""  # with the number: which task or thread it is
    number: int = 0
    task: str = ""
    lock: str = ""  # its name, of which the name of the file has a digest


class FileClaim:
    """One request of this process for one lock."""

    expires_at = math.inf

    def __init__(
        self,
        directory: Directory,
        queue: Queue,
        owner: Owner,
        author: Author,
        on_end: Callable[[FileClaim], None],
        *,
        shared: bool,
        wait: bool,
    ) -> None:
        """Begin to ask; the author is what the ticket will say of the owner."""
        self.owner = owner
        self._author = author
        self._loop = asyncio.get_running_loop()
        self.token: int | None = None
        self.granted: asyncio.Future[int | None] = self._loop.create_future()
        self.lost: asyncio.Future[str] = self._loop.create_future()
        self._directory = directory
        self._queue = queue
        self.shared = shared
        self._wait = wait
        self.lock = queue.name
        self.awaits = Wanted(queue.name, shared)
        self._on_end = on_end
        self._ticket: Ticket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asking = self._loop.create_task(self._ask())

    @property
    def lifelines(self) -> tuple[int, ...]:
        """The lock and the pipe of our ticket: a process that has them stands in the queue for us."""
        return () if self._ticket is None else self._ticket.descriptors

    def valid(self) -> bool:
        """Return True if the lock is ours: entered, and the ticket still there for all to see."""
        ticket = self._ticket  # another thread may end the claim meanwhile
        return ticket is not None and self.granted.done() and ticket.in_place()

    def holds(self) -> bool:
        """Return True if the lock was granted and no loss of it has been noticed."""
        return self.token is not None and not self.lost.done()

    def obstacle(self) -> None:
        """Return None: nothing but a holder ever blocks a claim."""

    async def release(self) -> None:
        """Leave the queue, wherever we stand in it."""
        self._end()
        await asyncio.wait({self._asking})

    def close(self) -> None:
        """End the claim because its coordinator is closed."""
        if not self.granted.done():
            self.granted.set_exception(MisuseError(f"{self._name()}: the coordinator was closed"))
        elif self._ticket is not None and not self.lost.done():
            self.lost.set_result("the coordinator was closed")
        self._end()

    def _end(self) -> None:
        self._on_end(self)
        self._asking.cancel()
        self.granted.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._ticket is not None:
            self._ticket.drop()
            self._ticket = None

    async def _ask(self) -> None:
        try:
            token = await self._enter()
        except OSError as error:
            self.fail(Unavailable(f"{self._name()}: {self._directory.complaint(error)}"))
        except Exception as error:  # noqa: BLE001 - what was not foreseen must not look like a long wait
            self.fail(error)
        else:
            if not self.granted.done():
                self.token = token
                self.granted.set_result(token)
            self._watch()

    async def _enter(self) -> int | None:
        """Join the queue, then wait until no living ticket is before ours; return our number."""
        ticket = await self._join()
        if ticket is None:
            return None
        self._ticket = ticket
        while (before := self._queue.blocker(ticket.place)) is not None:
            # None joins before us, so as long as it lives there is no need to read the queue again:
            # a crowd that did so every second would do nothing else.
            while before.content() is not None:
                await before.wait(LOOK_AGAIN_SECONDS)
        return ticket.place.number

    async def _join(self) -> Ticket | None:
        """Draw a number and show it; a claim that does not wait does so only if the lock is free.

        If the directory or the gate is removed meanwhile, the others do not see us: try again.
        """
        for _ in range(JOIN_TRIES):
            with contextlib.suppress(FileNotFoundError):
                async with gate(self._directory) as entered:
                    ticket = self._join_at(entered)
                    if ticket is None:
                        return None
                    if entered.in_place() and ticket.in_place():
                        return ticket
                    ticket.drop()
        raise Unavailable(
            f"{self._name()}: the lock directory {self._directory.path}, or a file in it, is removed"
            " again and again while we use it"
        )

    def _join_at(self, entered: Gate) -> Ticket | None:
        with (
            entered.folder.enter(QUEUES, make=True) as queues,
            queues.enter(self._queue.folder.name, make=True) as bucket,
        ):
            highest = self._queue.sweep()
            if not self._wait and self._queue.is_busy(shared=self.shared):
                return None
            number = next_number(entered.counter, entered.folder, highest)
            place = self._queue.place(number, shared=self.shared)
            return Ticket(place, msgspec.json.encode(self._author), bucket)

    def _watch(self) -> None:
        """Notice if the ticket was removed: then others no longer see that we are inside."""
        if self._ticket is None:
            return
        if self._ticket.in_place():
            self._timer = self._loop.call_later(WATCH_SECONDS, self._watch)
        elif not self.lost.done():
            self.lost.set_result(f"its file {self._ticket.place.path} was removed")

    def fail(self, error: Exception) -> None:
        """Give up waiting with this error."""
        if not self.granted.done():
            self.granted.set_exception(error)
        self._end()

    def _name(self) -> str:
        return f"lock {self._queue.name!r}"
