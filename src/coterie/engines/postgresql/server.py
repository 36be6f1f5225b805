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
from coterie.engines.postgresql.line import CALL_SECONDS_MAX, TLS_PARAMETERS, Address
from coterie.engines.postgresql.statements import key_of
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.server import Author, Entry, SessionLost
from coterie.engines.queue.url import parse_server_url
from coterie.errors import ConfigError, CoterieError
from coterie.system.postgresql import FAILURES

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence

    from coterie.engines.postgresql.line import Line
    from coterie.engines.queue.server import Place, ServerNode, Told
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


class Letter(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A letter for the user of a session."""

    content: bytes


class AskNames(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Ask for the names of locks, of which the server knows keys alone."""

    sender: str
    keys: list[int]


class Names(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Tell the names of locks."""

    names: list[str]


Mail: TypeAlias = Letter | AskNames | Names

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Mail)


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
        self._address = Address(url)

    def __str__(self) -> str:
        """Name the server for people."""
        return str(self._address)

    async def open(self, participant: str, told: Told, lease: float) -> PostgresqlSession:
        """Begin a session: the connection for locks that are free, and for mail."""
        label = _label(participant)
        line = await self._address.connect(label, lease)
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                await self._address.check_direct(line, lease)
                pause = await epoch.enter(line.connection, line.run, lease)
                opens_at = system.now() + pause * (1 + CLOCK_RATE_ERROR)
                session = PostgresqlSession(line, participant, told, lease, opens_at)
                await session.start()
        except BaseException as error:
            await line.close()
            if isinstance(error, FAILURES):
                raise self._address.error(error) from None
            raise
        return session

    async def nodes(self) -> list[ServerNode]:
        """Ask each server by itself: one is the primary, others are standbys."""
        each = [Address(self._url._replace(addresses=[one])) for one in self._url.addresses]
        return list(await asyncio.gather(*(address.describe() for address in each)))


class Request:
    """An entry of ours: a lock that is held on the main connection, or asked for on one of its own."""

    def __init__(self, line: Line, leaving: Place | None = None) -> None:
        """Begin on a connection, where another lock is given back first."""
        self.line = line
        self.leaving = leaving
        self.task: asyncio.Task[Any] | None = None  # that waits
        self.holds = False


class PostgresqlSession:
    """The connections of one process."""

    def __init__(
        self, main: Line, participant: str, told: Told, lease: float, opens_at: float
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
        self._requests: dict[Place, Request] = {}
        self._on_main: set[int] = set()  # keys; a session can take a lock twice that it has
        self._spare: list[Line] = []
        self._lines: dict[Line, None] = {main: None}
        self._contended: dict[str, int] = {}  # how many more times it is to be found free
        self._parts: dict[int, str] = {}  # of letters that are not complete, by sender
        self._asked: dict[int, asyncio.Future[str]] = {}  # names of locks, by key
        self._tasks: dict[asyncio.Task[Any], None] = {}

    async def start(self) -> None:
        """Listen to mail, and renew the lease from now on."""
        main = self._main
        main.on_end(self._end_line)
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
        lines = list(self._lines)
        self._lines.clear()
        await asyncio.gather(*(line.close() for line in lines))

    # The lease

    async def _renew(self) -> None:
        while not self._lost:
            await asyncio.sleep(self.lease / BEATS_PER_LEASE)
            self._close_spare()
            now = system.now()
            lines = {self._main, *self._holding(), *self._spare}
            await asyncio.gather(*(self._beat(line, now) for line in lines))
            self._tell()

    async def _beat(self, line: Line, since: float) -> None:
        try:
            await line.beat(since)
        except ConfigError as error:
            self._end(str(error))
        except FAILURES:
            self._end_line(line)

    def _holding(self) -> Iterator[Line]:
        return (request.line for request in self._requests.values() if request.holds)

    def _tell(self) -> None:
        """Tell from when on the lease counts, on whichever connection a lock is held.

        The server began to count no earlier than the last statement was sent that it has answered.
        """
        if not self._lost:
            self._told_at = min(line.sent_at for line in (self._main, *self._holding()))
            self._told.renewed(self._told_at)

    def _end(self, reason: str) -> None:
        if not self._lost:
            self._lost = reason
            for request in self._requests.values():
                if request.task is not None:
                    request.task.cancel()
            self._told.lost(reason)

    def _end_line(self, line: Line) -> None:
        """Take note that a connection has ended; with it goes what it held."""
        if line not in self._lines:
            return
        del self._lines[line]
        line.connection.terminate()
        if line in self._spare:
            self._spare.remove(line)
        if line is self._main or line in self._holding():
            self._end(CONNECTION_ENDED)

    # Entries

    async def join(self, place: Place, author: Author, leaving: Place | None) -> int | None:
        """Take the lock on the main connection if it is free, or begin to wait on another one."""
        self._check()
        left = self._requests.pop(leaving, None) if leaving is not None else None
        if left is not None and left.line is not self._main:
            self._requests[place] = Request(left.line, leaving)
            return None
        if left is not None or (
            place.lock not in self._contended and system.now() >= self._opens_at
        ):
            number = await self._try(place, leaving if left is not None else None)
            if number is not None:
                return number
        self._requests[place] = Request(await self._take_spare())
        return None

    async def _try(self, place: Place, leaving: Place | None) -> int | None:
        main, key = self._main, key_of(place.lock)
        async with main.turn:
            keys = [key]
            if leaving is not None:
                keys.append(key_of(leaving.lock))
            elif key in self._on_main:
                return None  # the server would let us in beside ourselves
            query = statements.take(
                shared=place.shared,
                leaving=leaving.shared if leaving is not None else None,
                waits=False,
            )
            try:
                number = await self._call(main, main.run_now(query, *keys))
            except CoterieError:
                # The lock may have been taken before there was no number to be had, or not yet left.
                with contextlib.suppress(*FAILURES):
                    for each in (place, leaving):
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
            self._requests[place] = Request(main)
            self._requests[place].holds = True
            return int(number)

    async def wait(self, place: Place) -> int:
        """Wait on the connection that was chosen, until the server has granted the lock."""
        self._check()
        request = self._requests[place]
        request.task = asyncio.current_task()
        try:
            return await self._obtain(place, request)
        except asyncio.CancelledError:
            self._check()
            raise
        except Exception:
            request.task = None
            await self.leave(place)
            raise
        finally:
            request.task = None

    async def _obtain(self, place: Place, request: Request) -> int:
        line, leaving = request.line, request.leaving
        query = statements.take(
            shared=place.shared,
            leaving=leaving.shared if leaving is not None else None,
            waits=True,
        )
        keys = [key_of(each.lock) for each in (place, leaving) if each is not None]
        number = int(await self._call(line, line.ask(query, *keys)))
        if line not in self._lines:
            raise SessionLost(CONNECTION_ENDED)
        self._note(place.lock, waited=number < 0)
        # The server counts from the grant on, and that was after the statement was sent. Where a later time
        # was told meanwhile, this connection has to be sound for as long before anything is held on it.
        while line.sent_at < self._told_at:
            await self._call(line, line.beat(self._told_at))
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

    async def leave(self, place: Place) -> None:
        """Give a lock back, or stop to wait for it by ending the connection that waits."""
        self._check()
        request = self._requests.get(place)
        if request is None:
            return
        line, query, key = request.line, statements.unlock(shared=place.shared), key_of(place.lock)
        if line is self._main:
            async with line.turn:
                await self._call(line, line.run_now(query, key))
                self._on_main.discard(key)
            self._requests.pop(place, None)
        elif request.task is None and request.holds:
            await self._call(line, line.ask(query, key))
            self._requests.pop(place, None)
            line.used_at = system.now()
            self._spare.append(line)
        else:
            self._requests.pop(place, None)
            if request.task is not None:
                request.task.cancel()
                await asyncio.wait([request.task])
            await self._close_line(line)

    # Connections

    async def _take_spare(self) -> Line:
        """Return a connection that is not used, or make one to the same run of the server."""
        while self._spare:
            line = self._spare.pop()
            if not line.connection.is_closed():
                return line
        line = await self._main.address.connect(self._label, self.lease)
        if self._lost or line.run != self._main.run:
            await line.close()
            self._end("the server was restarted")
            raise SessionLost(self._lost)
        self._lines[line] = None
        line.on_end(self._end_line)
        return line

    def _close_spare(self) -> None:
        """Close connections that were not used for a while."""
        now = system.now()
        for line in [each for each in self._spare if now - each.used_at > SPARE_SECONDS_MAX]:
            self._spare.remove(line)
            self._run(self._close_line(line))

    async def _close_line(self, line: Line) -> None:
        self._lines.pop(line, None)
        await line.close()

    # Questions

    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[Entry]]:
        """Read queues; the server knows keys, of which other processes tell the names."""
        if locks is not None and not locks:
            return {}
        keys = None if locks is None else {key_of(lock): lock for lock in locks}
        rows = await self._look(keys)
        names = keys if keys is not None else await self._ask_names(rows)
        lines: dict[str, list[Entry]] = {}
        for key, shared, granted, _, label, since in rows:
            entry = Entry(Author(*_parties(label), since), shared, granted, 0)
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
                for place, request in self._requests.items()
                if request.task is not None
                if keys is None or key_of(place.lock) in keys
            ]
            if all(request.line.pid in seen for request in sent) or system.now() >= end:
                return rows
            await asyncio.sleep(LOOK_SECONDS)

    async def _ask_names(self, rows: Any) -> dict[int, str]:
        """Ask the processes in the queues for the names; a lock whose name is not told keeps its key."""
        names = {key_of(place.lock): place.lock for place in self._requests}
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
        await self._post(participant, Letter(letter))

    async def _post(self, participant: str, mail: Mail) -> None:
        text = base64.b64encode(_encode(mail)).decode()
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
            mail: Mail = _decoder.decode(base64.b64decode(text))
        except (ValueError, msgspec.MsgspecError):
            return  # any role may notify any channel
        match mail:
            case Letter(content):
                self._told.mail(content)
            case AskNames(sender, keys):
                names = {place.lock for place in self._requests if key_of(place.lock) in set(keys)}
                self._run(self._answer(sender, Names(sorted(names))))
            case Names(names):
                for name in names:
                    asked = self._asked.get(key_of(name))
                    if asked is not None and not asked.done():
                        asked.set_result(name)

    async def _answer(self, participant: str, mail: Mail) -> None:
        with contextlib.suppress(SessionLost, CoterieError):
            await self._post(participant, mail)

    # Calls

    async def _call(self, line: Line, work: Coroutine[Any, Any, Any]) -> Any:
        """Carry out a statement; the end of a connection is the end of what was asked on it."""
        if self._lost:
            work.close()
            raise SessionLost(self._lost)
        try:
            return await work
        except FAILURES as error:
            if line.connection.is_closed():
                self._end_line(line)
                raise SessionLost(CONNECTION_ENDED) from None
            raise line.address.error(error) from None

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
