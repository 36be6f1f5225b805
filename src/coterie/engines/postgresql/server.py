"""A session with PostgreSQL: one connection for all locks that are free, and one for each wait.

The lease is the server's: it ends the session of a connection that has been idle for so long. A statement
on a connection begins its lease again, no earlier than the statement was sent. So what a holder may count
on is told as the earliest of such times over all connections that hold a lock.

PostgreSQL's lock manager keeps the queues. A connection that waits holds nothing, and one that holds does
not wait, so the server's own search for deadlocks never finds one: tasks of one process are not one owner.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import math
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from coterie import system
from coterie.engines.postgresql import epoch, statements
from coterie.engines.postgresql.session import (
    CALL_SECONDS_MAX,
    TLS_PARAMETERS,
    describe,
    open_session,
    servers_of,
)
from coterie.engines.postgresql.statements import key_of
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.server import Author, QueueEntry, SessionLost
from coterie.engines.queue.url import parse_server_url
from coterie.errors import ConfigError, CoterieError
from coterie.system.postgresql import FAILURES

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence

    from coterie.engines.postgresql.session import ServerSession
    from coterie.engines.queue.server import ServerNode, SessionListener, Ticket
    from coterie.engines.queue.url import ServerUrl

BEATS_PER_LEASE = 3
LEASE_SECONDS_MIN = 0.5
LABEL_BYTES_MAX = 63  # of an application_name
PART_CHARACTERS_MAX = 7000  # of a letter: a notice has less than 8000 bytes
AT_ONCE_TIMES = 2  # in a row that a lock is found free before it counts as free
CONTENDED_MAX = 4096  # names that had to be waited for lately
SPARE_SECONDS_MAX = 10.0  # that a connection is kept without use
NAMES_SECONDS_MAX = 1.0  # for the answers of processes that know the names of locks
LOOK_SECONDS = 0.005
CLOCK_RATE_ERROR = 0.05

CONNECTION_ENDED = "the connection has ended"


class Mail(msgspec.Struct, frozen=True, array_like=True, tag="Letter"):
    """A letter for the user of a session."""

    content: bytes


class AskNames(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Ask for the names of locks, of which the server knows keys alone."""

    sender: str
    keys: list[int]


class Names(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Tell the names of locks."""

    names: list[str]


Posted: TypeAlias = Mail | AskNames | Names

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Posted)


def make_engine(url: str) -> QueueEngine:
    """Return the engine of a program that takes locks on PostgreSQL."""
    parsed = parse_server_url(url, port=5432, parameters=TLS_PARAMETERS)
    return QueueEngine(PostgresqlServer(parsed), deadlock_detection=parsed.detects)


class PostgresqlServer:
    """A server of PostgreSQL, or several of which one is the primary."""

    lease_min = LEASE_SECONDS_MIN

    def __init__(self, url: ServerUrl) -> None:
        """Remember where it is."""
        self.lease = max(url.lease, self.lease_min)
        self._url = url
        self._servers = servers_of(url)

    def __str__(self) -> str:
        """Name the server for people."""
        return str(self._servers)

    async def open(
        self, participant: str, told: SessionListener, lease: float
    ) -> PostgresqlSession:
        """Begin a session: the connection for locks that are free, and for mail."""
        main = await open_session(self._servers, _label(participant), lease)
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                await main.check_direct(lease)
                pause = await epoch.enter(main.connection, main.run, lease)
                opens_at = system.now() + pause * (1 + CLOCK_RATE_ERROR)
                session = PostgresqlSession(main, participant, told, lease, opens_at)
                await session.start()
        except BaseException as error:
            await main.close()
            if isinstance(error, FAILURES):
                raise self._servers.error(error) from None
            raise
        return session

    async def nodes(self) -> list[ServerNode]:
        """Ask each server by itself: one is the primary, others are standbys."""
        each = [self._url._replace(addresses=[address]) for address in self._url.addresses]
        return list(await asyncio.gather(*map(describe, each)))


class LockRequest:
    """An entry of ours: a lock that is held on the main connection, or asked for on one of its own."""

    def __init__(self, session: ServerSession, leaving: Ticket | None = None) -> None:
        """Begin on a connection, where another lock is given back first."""
        self.session = session
        self.leaving = leaving
        self.task: asyncio.Task[Any] | None = None  # that waits
        self.holds = False


class PostgresqlSession:
    """The connections of one process."""

    def __init__(
        self,
        main: ServerSession,
        participant: str,
        told: SessionListener,
        lease: float,
        opens_at: float,
    ) -> None:
        """Begin with a connection; before `opens_at` leases of a former run may not be over."""
        self.lease = lease
        self._main = main
        self._name = participant
        self._label = _label(participant)
        self._told = told
        self._told_at = -math.inf  # from when on the lease counts, as was told last
        self._opens_at = opens_at
        self._lost = ""
        self._requests: dict[Ticket, LockRequest] = {}
        self._on_main: set[int] = set()  # keys; a session can take a lock twice that it has
        self._spare: list[ServerSession] = []
        self._sessions: dict[ServerSession, None] = {main: None}
        self._contended: dict[str, int] = {}  # how many more times it is to be found free
        self._parts: dict[int, str] = {}  # of letters that are not complete, by sender
        self._asked: dict[int, asyncio.Future[str]] = {}  # names of locks, by key
        self._tasks: dict[asyncio.Task[Any], None] = {}

    async def start(self) -> None:
        """Listen to mail, and renew the lease from now on."""
        main = self._main
        main.on_end(self._end_session)
        await main.connection.add_listener(_channel(self._name), self._hear)
        await main.beat(system.now())
        self._tell()
        self._run(self._renew())

    async def close(self) -> None:
        """Disconnect; the server gives back all locks of a session that ends."""
        self._lost = self._lost or "it was closed"
        # A statement is cancelled before its connection is closed: or it would wait at the server for a while.
        waits = [each.task for each in self._requests.values() if each.task is not None]
        tasks = [*waits, *self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        sessions = list(self._sessions)
        self._sessions.clear()
        await asyncio.gather(*(session.close() for session in sessions))

    # The lease

    async def _renew(self) -> None:
        while not self._lost:
            await asyncio.sleep(self.lease / BEATS_PER_LEASE)
            self._close_spare()
            now = system.now()
            sessions = {self._main, *self._holding(), *self._spare}
            await asyncio.gather(*(self._beat(session, now) for session in sessions))
            self._tell()

    async def _beat(self, session: ServerSession, since: float) -> None:
        try:
            await session.beat(since)
        except ConfigError as error:
            self._end(str(error))
        except Exception as error:
            if not isinstance(error, FAILURES) and not session.connection.is_closed():
                raise
            self._end_session(session)

    def _holding(self) -> Iterator[ServerSession]:
        return (request.session for request in self._requests.values() if request.holds)

    def _tell(self) -> None:
        """Tell from when on the lease counts, on whichever connection a lock is held.

        The server began to count no earlier than the last statement was sent that it has answered.
        """
        if not self._lost:
            self._told_at = min(session.sent_at for session in (self._main, *self._holding()))
            self._told.renewed(self._told_at)

    def _end(self, reason: str) -> None:
        if not self._lost:
            self._lost = reason
            for request in self._requests.values():
                if request.task is not None:
                    request.task.cancel()
            self._told.lost(reason)

    def _end_session(self, session: ServerSession) -> None:
        """Take note that a connection has ended; with it goes what it held."""
        if session not in self._sessions:
            return
        del self._sessions[session]
        session.connection.terminate()
        if session in self._spare:
            self._spare.remove(session)
        if session is self._main or session in self._holding():
            self._end(CONNECTION_ENDED)

    # Entries

    async def join(self, ticket: Ticket, author: Author, leaving: Ticket | None) -> int | None:
        """Take the lock on the main connection if it is free, or begin to wait on another one."""
        self._check()
        left = self._requests.pop(leaving, None) if leaving is not None else None
        if left is not None and left.session is not self._main:
            self._requests[ticket] = LockRequest(left.session, leaving)
            return None
        if left is not None or (
            ticket.lock not in self._contended and system.now() >= self._opens_at
        ):
            number = await self._try(ticket, leaving if left is not None else None)
            if number is not None:
                return number
        self._requests[ticket] = LockRequest(await self._take_spare())
        return None

    async def _try(self, ticket: Ticket, leaving: Ticket | None) -> int | None:
        main, key = self._main, key_of(ticket.lock)
        async with main.turn:
            keys = [key]
            if leaving is not None:
                keys.append(key_of(leaving.lock))
            elif key in self._on_main:
                return None  # the server would let us in beside ourselves
            query = statements.take(
                shared=ticket.shared,
                leaving=leaving.shared if leaving is not None else None,
                waits=False,
            )
            try:
                number = await self._call(main, main.run_now(query, *keys))
            except CoterieError:
                # The lock may have been taken before there was no number to be had, or not yet left.
                with contextlib.suppress(*FAILURES):
                    for each in (ticket, leaving):
                        if each is not None:
                            unlock = statements.unlock(shared=each.shared)
                            await main.run_now(unlock, key_of(each.lock))
                            self._on_main.discard(key_of(each.lock))
                raise
            if leaving is not None:
                self._on_main.discard(keys[1])
            if number is None:
                return None
            self._on_main.add(key)
            self._requests[ticket] = LockRequest(main)
            self._requests[ticket].holds = True
            return int(number)

    async def wait(self, ticket: Ticket) -> int:
        """Wait on the connection that was chosen, until the server has granted the lock."""
        self._check()
        request = self._requests[ticket]
        request.task = asyncio.current_task()
        try:
            return await self._obtain(ticket, request)
        except asyncio.CancelledError:
            self._check()
            raise
        except Exception:
            request.task = None
            await self.leave(ticket)
            raise
        finally:
            request.task = None

    async def _obtain(self, ticket: Ticket, request: LockRequest) -> int:
        session, leaving = request.session, request.leaving
        query = statements.take(
            shared=ticket.shared,
            leaving=leaving.shared if leaving is not None else None,
            waits=True,
        )
        keys = [key_of(each.lock) for each in (ticket, leaving) if each is not None]
        number = int(await self._call(session, session.ask(query, *keys)))
        if session not in self._sessions:
            raise SessionLost(CONNECTION_ENDED)
        self._note(ticket.lock, waited=number < 0)
        # The server counts from the grant on, and that was after the statement was sent. Where a later time
        # was told meanwhile, this connection has to be sound for as long before anything is held on it.
        while session.sent_at < self._told_at:
            await self._call(session, session.beat(self._told_at))
        request.holds = True
        if system.now() < self._opens_at:
            await asyncio.sleep(self._opens_at - system.now())
            self._check()
        return abs(number)

    def _note(self, lock: str, *, waited: bool) -> None:
        """Remember a lock that had to be waited for: to try it on the main connection would be in vain."""
        times = AT_ONCE_TIMES if waited else self._contended.get(lock, 0) - 1
        self._contended.pop(lock, None)
        if times > 0:
            self._contended[lock] = times
        if len(self._contended) > CONTENDED_MAX:
            del self._contended[next(iter(self._contended))]

    async def leave(self, ticket: Ticket) -> None:
        """Give a lock back, or stop to wait for it by ending the connection that waits."""
        self._check()
        request = self._requests.get(ticket)
        if request is None:
            return
        session, query, key = (
            request.session,
            statements.unlock(shared=ticket.shared),
            key_of(ticket.lock),
        )
        if session is self._main:
            async with session.turn:
                await self._call(session, session.run_now(query, key))
                self._on_main.discard(key)
            self._requests.pop(ticket, None)
        elif request.task is None and request.holds:
            await self._call(session, session.ask(query, key))
            self._requests.pop(ticket, None)
            session.used_at = system.now()
            self._spare.append(session)
        else:
            self._requests.pop(ticket, None)
            if request.task is not None:
                request.task.cancel()
                await asyncio.wait([request.task])
            await self._close_session(session)

    # Connections

    async def _take_spare(self) -> ServerSession:
        """Return a connection that is not used, or make one to the same run of the server."""
        while self._spare:
            session = self._spare.pop()
            if not session.connection.is_closed():
                return session
        session = await open_session(self._main.servers, self._label, self.lease)
        if self._lost or session.run != self._main.run:
            await session.close()
            self._end("the server was restarted")
            raise SessionLost(self._lost)
        self._sessions[session] = None
        session.on_end(self._end_session)
        return session

    def _close_spare(self) -> None:
        """Close connections that were not used for a while."""
        now = system.now()
        for session in [each for each in self._spare if now - each.used_at > SPARE_SECONDS_MAX]:
            self._spare.remove(session)
            self._run(self._close_session(session))

    async def _close_session(self, session: ServerSession) -> None:
        self._sessions.pop(session, None)
        await session.close()

    # Questions

    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        """Read queues; the server knows keys, of which other processes tell the names."""
        if locks is not None and not locks:
            return {}
        keys = None if locks is None else {key_of(lock): lock for lock in locks}
        rows = await self._look(keys)
        names = keys if keys is not None else await self._ask_names(rows)
        lines: dict[str, list[QueueEntry]] = {}
        for key, shared, granted, _, label, since in rows:
            entry = QueueEntry(Author(*_parties(label), since), shared, granted, 0)
            lines.setdefault(names[key], []).append(entry)
        return lines

    async def _look(self, keys: dict[int, str] | None) -> Any:
        """Read what the server shows, until that has in it what we wait for ourselves.

        A request that has been sent may not have arrived; one that looks at those before it, to tell
        them that it waits, has to be behind them.
        """
        end = system.now() + self.lease / BEATS_PER_LEASE
        while True:
            given = list(keys) if keys is not None else None
            rows = await self._call(self._main, self._main.ask_rows(statements.LINES, given))
            seen = {pid for _, _, _, pid, _, _ in rows}
            sent = [
                request
                for ticket, request in self._requests.items()
                if request.task is not None
                if keys is None or key_of(ticket.lock) in keys
            ]
            if all(request.session.pid in seen for request in sent) or system.now() >= end:
                return rows
            await asyncio.sleep(LOOK_SECONDS)

    async def _ask_names(self, rows: Any) -> dict[int, str]:
        """Ask the processes in the queues for the names; a lock whose name is not told keeps its key."""
        names = {key_of(ticket.lock): ticket.lock for ticket in self._requests}
        unknown: dict[str, list[int]] = {}
        for key, _, _, _, label, _ in rows:
            if key not in names:
                unknown.setdefault(_parties(label)[0], []).append(key)
        asked = {
            key: self._asked.setdefault(key, asyncio.get_running_loop().create_future())
            for keys in unknown.values()
            for key in keys
        }
        for participant, keys in unknown.items():
            await self._post(participant, AskNames(self._name, keys))
        if asked:
            await asyncio.wait(asked.values(), timeout=min(NAMES_SECONDS_MAX, self.lease))
        for key, told in asked.items():
            self._asked.pop(key, None)
            names[key] = told.result() if told.done() else f"?{key & (1 << 64) - 1:016x}"
        return names

    # Mail

    async def send(self, participant: str, letter: bytes) -> None:
        """Notify the channel of the reader."""
        await self._post(participant, Mail(letter))

    async def _post(self, participant: str, posted: Posted) -> None:
        text = base64.b64encode(_encode(posted)).decode()
        size = PART_CHARACTERS_MAX
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        # Of equal notices of one transaction one arrives: so each says how many follow.
        notices = [f"{len(parts) - 1 - number}:{part}" for number, part in enumerate(parts)]
        await self._call(
            self._main, self._main.ask(statements.NOTIFY, _channel(participant), notices)
        )

    def _hear(self, _connection: object, pid: int, _channel: str, notice: str) -> None:
        follow, _, part = notice.partition(":")
        text = self._parts.pop(pid, "") + part
        if follow != "0":
            self._parts[pid] = text
            return
        try:
            posted: Posted = _decoder.decode(base64.b64decode(text))
        except (ValueError, msgspec.MsgspecError):
            return  # any role may notify any channel
        match posted:
            case Mail(content):
                self._told.mail(content)
            case AskNames(sender, keys):
                names = {
                    ticket.lock for ticket in self._requests if key_of(ticket.lock) in set(keys)
                }
                self._run(self._answer(sender, Names(sorted(names))))
            case Names(names):
                for name in names:
                    asked = self._asked.get(key_of(name))
                    if asked is not None and not asked.done():
                        asked.set_result(name)

    async def _answer(self, participant: str, posted: Posted) -> None:
        with contextlib.suppress(SessionLost, CoterieError):
            await self._post(participant, posted)

    # Calls

    async def _call(self, session: ServerSession, work: Coroutine[Any, Any, Any]) -> Any:
        """Carry out a statement; the end of a connection is the end of what was asked on it."""
        if self._lost:
            work.close()
            raise SessionLost(self._lost)
        try:
            return await work
        except Exception as error:
            # asyncpg raises TypeError, among others, for a statement that was under way.
            if session.connection.is_closed():
                self._end_session(session)
                raise SessionLost(CONNECTION_ENDED) from None
            if isinstance(error, FAILURES):
                raise session.servers.error(error) from None
            raise

    def _check(self) -> None:
        if self._lost:
            raise SessionLost(self._lost)

    def _run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._finish)
        return task

    def _finish(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled():
            task.exception()  # it is told where the task is awaited, if that is still so


def _label(participant: str) -> str:
    """Return what a connection says about its process: the directory of who is who."""
    room = LABEL_BYTES_MAX - len(f"coterie {participant} :{system.pid()}")
    host = system.host_name().encode(errors="replace")[:room].decode(errors="ignore")
    return f"coterie {participant} {host}:{system.pid()}"


def _parties(label: str) -> tuple[str, str]:
    """Return the participant and the process that a connection is of."""
    _, participant, process = (*label.split(" ", 2), "", "")[:3]
    return participant, process


def _channel(participant: str) -> str:
    return f"coterie_{participant}"
