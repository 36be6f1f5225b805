"""A server in memory that keeps queues, to be cut off, slowed down and made to forget sessions."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from coterie import system
from coterie.engines.queue.server import QueueEntry, ServerNode, SessionLost, inside
from coterie.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.engines.queue.server import Author, SessionListener, Ticket
    from coterie.locks.value import ValueRecord


class MemoryServer:
    """The queues, and the sessions that are open."""

    lease_min = 0.1

    def __init__(self, lease: float = 5.0) -> None:
        self.lease = lease
        self.number = 0
        self.requests = 0
        self.under_way: Counter[str] = Counter()
        self.most_under_way = 0
        self.reachable = True
        self.renews = True
        self.refuses = ""  # requests of that kind
        self.trouble = ""  # for which it takes no entry into a queue
        self.tried: list[tuple[MemorySession, Ticket]] = []  # joins
        self.left_by_joins: list[Ticket | None] = []
        self.breaks = ""  # what the next session that is opened is lost for, before it is open
        self.loses_mail = 0  # letters
        self.closed = 0  # sessions
        self.queues: dict[str, list[tuple[MemorySession, Ticket, Author, int]]] = {}
        self.sessions: dict[str, MemorySession] = {}
        self.records: dict[str, ValueRecord] = {}
        self.has_values = True
        self.late = asyncio.Event()  # until it is set, writes are under way
        self.late.set()
        self.loses_answers = 0  # of writes, which arrive later
        self.arriving: list[asyncio.Future[bool]] = []
        self.changed = asyncio.Condition()

    def __str__(self) -> str:
        return "memory"

    async def open(self, participant: str, told: SessionListener, lease: float) -> MemorySession:
        await self.answer()
        if self.refuses == "open":
            raise ConfigError("memory: no right to open")
        session = self.sessions[participant] = MemorySession(self, participant, told, lease)
        told.renewed(system.now())
        if self.breaks:
            reason, self.breaks = self.breaks, ""
            told.lost(reason)
        return session

    async def nodes(self) -> list[ServerNode]:
        return [ServerNode("memory", "1", trouble="" if self.reachable else "cut off")]

    async def answer(self) -> None:
        """Take a turn of the loop, as a round trip does."""
        self.requests += 1
        await asyncio.sleep(0)
        if not self.reachable:
            raise Unavailable("memory: cut off")

    async def forget(self, session: MemorySession, reason: str) -> None:
        """End a session and tell the client of it, if there is one."""
        session.lost = True
        self.sessions = {
            name: other for name, other in self.sessions.items() if other is not session
        }
        for lock, line in list(self.queues.items()):
            self.queues[lock] = [entry for entry in line if entry[0] is not session]
        session.told.lost(reason)
        await self.tell()

    async def tell(self) -> None:
        """Wake all that wait."""
        self.queues = {lock: line for lock, line in self.queues.items() if line}
        async with self.changed:
            self.changed.notify_all()

    def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        found = {}
        for lock, line in self.queues.items():
            if locks is None or lock in locks:
                count = inside([ticket.shared for _, ticket, _, _ in line])
                found[lock] = [
                    QueueEntry(author, ticket.shared, number <= line[count - 1][3], number)
                    for _, ticket, author, number in line
                ]
        return found


class MemorySession:
    """One session of a client."""

    carries = True

    def __init__(
        self, server: MemoryServer, name: str, told: SessionListener, lease: float
    ) -> None:
        self.server = server
        self.name = name
        self.told = told
        self.lease = lease
        self.lost = False
        self._beat = asyncio.get_running_loop().call_later(lease / 3, self._renew)

    def _renew(self) -> None:
        if self.server.renews and not self.lost:
            self.told.renewed(system.now())
            self._beat = asyncio.get_running_loop().call_later(self.lease / 3, self._renew)

    async def _answer(self, kind: str) -> None:
        under_way = self.server.under_way
        under_way[kind] += 1
        self.server.most_under_way = max(self.server.most_under_way, under_way.total())
        try:
            await self.server.answer()
        finally:
            under_way[kind] -= 1
        if self.lost:
            raise SessionLost
        if self.server.refuses == kind:
            raise ConfigError(f"memory: no right to {kind}")

    def _number(self, ticket: Ticket) -> int | None:
        """Return the number of an entry that is inside."""
        line = self.server.queues.get(ticket.lock, [])
        count = inside([other.shared for _, other, _, _ in line])
        for session, other, _, number in line[:count]:
            if session is self and other == ticket:
                return number
        return None

    async def join(self, ticket: Ticket, author: Author, leaving: Ticket | None) -> int | None:
        self.server.tried.append((self, ticket))
        self.server.left_by_joins.append(leaving)
        await self._answer("join")
        if self.server.trouble:
            raise Unavailable(f"memory: {self.server.trouble}")
        if leaving is not None:
            await self._remove(leaving)
        self.server.number += 1
        line = self.server.queues.setdefault(ticket.lock, [])
        line.append((self, ticket, author, self.server.number))
        return self._number(ticket)

    async def wait(self, ticket: Ticket) -> int:
        await self._answer("wait")
        async with self.server.changed:
            await self.server.changed.wait_for(lambda: self.lost or self._number(ticket))
        await self._answer("wait")
        number = self._number(ticket)
        assert number is not None
        return number

    async def leave(self, ticket: Ticket) -> None:
        await self._answer("leave")
        await self._remove(ticket)

    async def _remove(self, ticket: Ticket) -> None:
        line = self.server.queues.get(ticket.lock, [])
        line[:] = [entry for entry in line if (entry[0], entry[1]) != (self, ticket)]
        await self.server.tell()

    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        await self._answer("lines")
        return self.server.lines(locks)

    @property
    def values(self) -> MemoryValues | None:
        return MemoryValues(self) if self.server.has_values else None

    def is_inside(self, ticket: Ticket) -> bool:
        return not self.lost and self._number(ticket) is not None

    async def answer(self) -> None:
        await self._answer("value")

    async def send(self, participant: str, letter: bytes) -> None:
        await self._answer("send")
        if self.server.loses_mail:
            self.server.loses_mail -= 1
        elif participant in self.server.sessions:
            asyncio.get_running_loop().call_soon(
                self.server.sessions[participant].told.mail, letter
            )

    async def close(self) -> None:
        self.server.closed += 1
        if not self.lost:
            self.lost = True
            for lock, line in list(self.server.queues.items()):
                self.server.queues[lock] = [entry for entry in line if entry[0] is not self]
            self.server.sessions.pop(self.name, None)
            await self.server.tell()


class MemoryValues:
    """The values of one session."""

    def __init__(self, session: MemorySession) -> None:
        self._session = session
        self._server = session.server

    async def read(self, lock: str, token: int | None) -> ValueRecord | None:
        await self._session.answer()
        return self._server.records.get(lock)

    async def write(self, ticket: Ticket, record: ValueRecord, *, is_alone: bool) -> bool:
        await self._session.answer()
        if self._server.loses_answers:
            self._server.loses_answers -= 1
            self._server.arriving.append(asyncio.ensure_future(self._arrive(ticket, record)))
            raise Unavailable("memory: no answer")
        return await self._arrive(ticket, record)

    async def _arrive(self, ticket: Ticket, record: ValueRecord) -> bool:
        await self._server.late.wait()
        stored = self._server.records.get(record.name)
        is_late = stored is not None and stored.version >= record.version
        if is_late or not self._session.is_inside(ticket):
            return False
        self._server.records[record.name] = record
        return True

    async def all(self) -> list[ValueRecord]:
        await self._session.answer()
        return list(self._server.records.values())
