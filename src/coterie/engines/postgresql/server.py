"""Sessions with PostgreSQL: a row with a counter, and entries in the rows of locks.

A session does not depend on its connection: a process whose connection has ended makes another one, and goes on
with its session as long as its lease runs. No timer of the server and no end of a connection takes part in what
is promised: another process removes a session, when it has seen its counter unchanged for a whole lease.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from coterie import system
from coterie.engines.postgresql import schema, statements
from coterie.engines.postgresql.connection import (
    CALL_SECONDS_MAX,
    TLS_PARAMETERS,
    connect,
    describe,
    servers_of,
)
from coterie.engines.postgresql.values import PostgresqlValues
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.nonsense import author_of, sensible
from coterie.engines.queue.observation import PAST, Observations
from coterie.engines.queue.server import QueueEntry, SessionLost, inside
from coterie.engines.queue.url import WITNESS, parse_server_url
from coterie.engines.queue.witness import Witness
from coterie.errors import CoterieError, Unavailable, UsageError
from coterie.locks.legible import legible
from coterie.system.aio import Calls, Tasks

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from coterie.engines.postgresql.connection import LockConnection
    from coterie.engines.queue.server import Author, ServerNode, SessionListener, Ticket
    from coterie.engines.queue.url import ServerUrl

BEATS_PER_LEASE = 3
LEASE_SECONDS_MIN = 0.5
RETRY_SECONDS = 0.1
PART_CHARACTERS_MAX = 7000  # of a letter: a notice has less than 8000 bytes

LAPSED = "it was removed: its lease has run out for those who wait, an operator has ended it, or the server has lost it"

logger = logging.getLogger("coterie.engines")


def make_engine(url: str) -> QueueEngine:
    """Return the engine of a program that takes locks on PostgreSQL."""
    parsed = parse_server_url(url, port=5432, parameters=(*TLS_PARAMETERS, WITNESS, "durable"))
    return QueueEngine(
        PostgresqlServer(parsed), deadlock_detection=parsed.detects, witness=parsed.is_seen
    )


class PostgresqlServer:
    """A server of PostgreSQL, or several of which one is the primary."""

    lease_min = LEASE_SECONDS_MIN

    def __init__(self, url: ServerUrl) -> None:
        """Remember where it is; raise `UsageError` where `durable` is neither yes nor no."""
        self.lease = url.lease_from(self.lease_min)
        self.known = 0  # the highest number that this process was given
        self._url = url
        self._servers = servers_of(url)
        self._observed: dict[str, Observations] = {}  # by participant
        durable = url.parameters.get("durable", "no")
        if durable not in ("yes", "no"):
            raise UsageError(f"{self}: durable must be yes or no, got {durable!r}")
        self._durable = durable == "yes"

    def __str__(self) -> str:
        """Name the server for people."""
        return str(self._servers)

    async def open(
        self, participant: str, told: SessionListener, lease: float
    ) -> PostgresqlSession:
        """Begin a session; what was seen of others in former ones stays true."""
        observed = self._observed.setdefault(participant, Observations())
        session = PostgresqlSession(self, participant, told, lease, observed)
        try:
            await session.start()
        except BaseException:
            await session.close()
            raise
        return session

    async def connect(self, lease: float) -> LockConnection:
        """Connect to the primary, for leases of that length."""
        return await connect(self._servers, lease, self.known, durable=self._durable)

    async def nodes(self) -> list[ServerNode]:
        """Ask each server by itself: one is the primary, others are standbys."""
        each = [self._url._replace(addresses=[address]) for address in self._url.addresses]
        return list(await asyncio.gather(*map(describe, each)))


class LockEntry:
    """An entry of ours, as the server knows it, and who waits for it."""

    def __init__(self, text: str) -> None:
        """Begin before the join is sent: news may come before its answer."""
        self.text = text
        self.news = False  # look at it
        self.has_waited = False
        self.is_doubtful = (
            False  # a join that was not answered may be carried out after it was left
        )
        self.waiting: asyncio.Future[int] | None = None


class PostgresqlSession:
    """One session, over one connection after the other."""

    carries = True

    def __init__(
        self,
        server: PostgresqlServer,
        participant: str,
        told: SessionListener,
        lease: float,
        observed: Observations,
    ) -> None:
        """Prepare; `start` announces the session."""
        self.lease = lease
        self._server = server
        self._name = participant
        self._told = told
        self._id = system.secret(8).hex()  # never used again
        self._counter = 0
        self._is_doubtful = False  # whether a renewal may have been carried out, or still be
        self._lost = ""
        self._connection: LockConnection | None = None
        self._connecting = asyncio.Lock()
        self._run = ""  # of the server, which our entries were compared with
        self._is_open = False  # whether the run is
        self._entries: dict[Ticket, LockEntry] = {}
        self._observed = observed  # the sessions before our entries, and the past
        self._late: dict[
            str, tuple[str, int]
        ] = {}  # doubtful entries that were left: for some beats
        self._neighbours = Observations()  # the next sessions in the order of names
        self._witness = Witness(str(server), lease, self._lives, self._bury_dead)
        self._news = asyncio.Event()
        self._over = asyncio.Event()
        self._parts: dict[int, str] = {}  # of letters that are not complete, by sender
        self._tasks = Tasks()
        self._calls = Calls()
        self.values = PostgresqlValues(
            server, self._ask_to_the_end, self._name_entry, self._name_run
        )

    async def start(self) -> None:
        """Announce the session, and renew it from now on."""
        sent_at, _ = await self._ask(statements.OPEN, self._id, self.lease)
        self._told.renewed(sent_at)
        self._tasks.run(self._to_the_end(self._renew()))
        self._tasks.run(self._to_the_end(self._watch()))
        self._tasks.run(self._witness.run())

    async def close(self) -> None:
        """End the session and remove all of its entries."""
        is_over, self._lost = bool(self._lost), self._lost or "it was closed"
        self._stop()
        try:
            # A statement that is under way is not cancelled: that would cost the connection.
            await self._tasks.done()
            if self._connection is not None and self._connection.is_up and not is_over:
                with contextlib.suppress(CoterieError):
                    await self._remove_all(self._connection)
        finally:
            await self._tasks.end()
            if self._connection is not None:
                await self._connection.close()

    async def _to_the_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what a session is nothing without: whatever ends it ends the session."""
        try:
            await work
        finally:
            self._end("its work has ended")

    async def _remove_all(self, connection: LockConnection) -> None:
        """Remove first the session, then its entries: from then on these are of no session."""
        locks = sorted({ticket.lock for ticket in self._entries})
        limit = self._limit
        await connection.ask(statements.CLOSE, self._id, limit=limit)
        if locks:
            await connection.ask(statements.DROP, locks, [self._id], limit=limit)
            await connection.ask(statements.TIDY, locks, limit=limit)

    # The lease

    async def _renew(self) -> None:
        pause = self.lease / BEATS_PER_LEASE
        while not self._lost:
            await self._pause(pause)
            try:
                self._check()
                with sensible(self._server):
                    pause = await self._renew_once()
            except SessionLost:
                return
            except CoterieError:
                pause = RETRY_SECONDS

    async def _renew_once(self) -> float:
        """Move the counter on by compare-and-set; return after how many seconds to do so again."""
        if self._is_doubtful:
            # A renewal was not answered. It may have been carried out: that keeps the session, but the lease is
            # counted from answers alone.
            _, rows = await self._ask(statements.FIND, self._id)
            if not rows or rows[0][0] not in (self._counter, self._counter + 1):
                self._end(LAPSED)
                raise SessionLost(self._lost)
            self._counter = rows[0][0]
        was_doubtful, self._is_doubtful = self._is_doubtful, True
        sent_at, rows = await self._ask(statements.RENEW, self._id, self._counter)
        if not rows:
            if not was_doubtful:
                self._end(LAPSED)
                raise SessionLost(self._lost)
            return RETRY_SECONDS  # one that was late came between
        self._is_doubtful = False
        self._counter += 1
        self._told.renewed(sent_at)
        self._meet(rows[0][0])
        for text, (lock, beats) in list(self._late.items()):
            self._late[text] = lock, beats - 1
            if not beats:
                del self._late[text]
            else:
                await self._remove(lock, LockEntry(text))
        return self.lease / BEATS_PER_LEASE

    def _meet(self, neighbours: Sequence[str]) -> None:
        """Observe the next sessions in the order of names, which each renewal shows."""
        found = _sessions(neighbours)
        self._neighbours.keep(found)
        for name, (counter, lease, _) in found.items():
            self._neighbours.saw(name, counter, lease, system.now())
        self._news.set()

    async def _pause(self, seconds: float) -> None:
        """Do nothing for a while, unless the session ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()

    def _end(self, reason: str) -> None:
        if not self._lost:
            self._lost = reason
            self._stop()
            self._told.lost(reason)

    def _stop(self) -> None:
        """End waits and pauses."""
        self._witness.stop()
        self._over.set()
        self._news.set()
        for entry in self._entries.values():
            if entry.waiting is not None and not entry.waiting.done():
                entry.waiting.set_exception(SessionLost(self._lost))

    def _wake_all(self) -> None:
        """Look at all entries."""
        for entry in self._entries.values():
            entry.news = True
        self._news.set()

    # Entries

    async def join(self, ticket: Ticket, author: Author, leaving: Ticket | None) -> int | None:
        """Enter the queue, and see at once who is before us."""
        entry = self._entries[ticket] = LockEntry(self._text(ticket, author))
        left = self._entries.get(leaving) if leaving is not None else None
        elsewhere = ""
        if left is not None and leaving is not None and leaving.lock != ticket.lock:
            elsewhere = leaving.lock
        query = statements.join(
            shared=ticket.shared, leaves=left is not None, elsewhere=bool(elsewhere)
        )
        leaves = [each for each in (left.text if left is not None else "", elsewhere) if each]
        try:
            rows = await self._ask_in_run(query, ticket.lock, entry.text, *leaves)
        except CoterieError:
            entry.is_doubtful = True
            raise
        number, queue, *gone = rows[0]
        if left is not None and elsewhere and not gone[0]:
            await self._remove(elsewhere, left)  # others stand there, or change its row just now
        if leaving is not None:
            self._entries.pop(leaving, None)
        if number is not None:
            return self._granted(number)
        entry.has_waited = True
        before = map(_session_of, queue[: queue.index(entry.text)])
        if any(name not in self._observed for name in before):
            entry.news = True  # for a look of its own, by which they begin to be observed
        return None

    async def wait(self, ticket: Ticket) -> int:
        """Wait until a look has found the entry inside."""
        self._check()
        entry = self._entries[ticket]
        entry.waiting = asyncio.get_running_loop().create_future()
        self._news.set()
        try:
            return await entry.waiting
        finally:
            entry.waiting = None

    async def leave(self, ticket: Ticket) -> None:
        """Remove an entry, and wake those who are inside now."""
        self._check()
        entry = self._entries.get(ticket)
        if entry is not None:
            await self._remove(ticket.lock, entry)
            self._entries.pop(ticket, None)
            if entry.is_doubtful:
                self._late[entry.text] = ticket.lock, BEATS_PER_LEASE

    async def _remove(self, lock: str, entry: LockEntry) -> bool:
        """Remove an entry, if it is there; most that were let in at once are alone, and cost less."""
        if not entry.has_waited:
            _, removed = await self._ask(statements.LEAVE_ALONE, lock, entry.text)
            if removed:
                return True
        _, removed = await self._ask(statements.LEAVE, lock, entry.text, self._is_open)
        if not removed:
            _, removed = await self._ask(statements.REMOVE, lock, entry.text)
            if removed:
                await self._ask(statements.TIDY, [lock])
        return bool(removed)

    def _text(self, ticket: Ticket, author: Author) -> str:
        mode = "s" if ticket.shared else "x"
        return f"{mode}{ticket.attempt} {self._id} {self._name} {author.since!r} {author.process}"

    def _granted(self, number: int) -> int:
        self._server.known = max(self._server.known, number)
        return number

    # What is before us

    async def _watch(self) -> None:
        """Look at the entries that have news, and at the sessions before us; remove those that are over."""
        while not self._lost:
            next_at = min(self._observed.next_at(), self._neighbours.next_removal_at())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(next_at - system.now(), self.lease))):
                    await self._news.wait()
            self._news.clear()
            try:
                with sensible(self._server):
                    await self._bury(system.now())
                    await self._look(system.now())
                self._witness.look_at(self._observed.sessions)
            except SessionLost:
                return
            except CoterieError:
                await self._pause(RETRY_SECONDS)
                self._wake_all()

    async def _look(self, now: float) -> None:
        """Look at what has news; if it is time for the sessions before us, at all in one request."""
        waiting = {t: e for t, e in self._entries.items() if e.waiting and not e.waiting.done()}
        is_time = bool(self._observed.looks(now))
        if is_time and not self._is_open:
            await self._look_at_past()
        asked = waiting if is_time else {t: e for t, e in waiting.items() if e.news}
        if not asked:
            if is_time:
                self._observed.keep([] if self._is_open else [PAST])
            return
        for entry in asked.values():
            entry.news = False
        rows = await self._ask_in_run(
            statements.LOOK, [t.lock for t in asked], [e.text for e in asked.values()]
        )
        before: set[str] = set()
        over: dict[str, set[str]] = {}
        by_text = {(t.lock, e.text): e for t, e in asked.items()}
        for lock, text, number, queue, sessions in rows:
            entry = by_text[lock, text]
            if number is not None:
                self._let_in(entry, number)
            elif queue is None or text not in queue:
                self._refuse(entry)
            else:
                gone = self._learn(lock, entry, queue, sessions or ())
                if gone:
                    over.setdefault(lock, set()).update(gone)
                before.update(_session_of(each) for each in queue[: queue.index(text)])
        if is_time:
            self._observed.keep(before if self._is_open else [*before, PAST])
        for lock, gone in over.items():
            await self._ask(statements.DROP, [lock], sorted(gone))

    def _let_in(self, entry: LockEntry, number: int) -> None:
        """End a wait; whether our lease is in force now is asked by the one who waits."""
        if entry.waiting is None:
            entry.news = True  # its join is not answered yet
        elif not entry.waiting.done():
            entry.waiting.set_result(self._granted(number))

    def _refuse(self, entry: LockEntry) -> None:
        """Let a wait fail whose entry was removed by hand: it joins again."""
        if entry.waiting is not None and not entry.waiting.done():
            entry.waiting.set_exception(Unavailable(f"{self._server}: the entry is gone"))

    def _learn(
        self, lock: str, entry: LockEntry, queue: Sequence[str], sessions: Sequence[str]
    ) -> set[str]:
        """Observe the sessions before an entry; return those of which the answer shows that they are not alive."""
        now = system.now()  # after the arrival of the answer
        found = _sessions(sessions)
        gone = set()
        for text in queue[: queue.index(entry.text)]:
            name = _session_of(text)
            if name == self._id:
                self._disown(lock, text)
            elif name in found and found[name][2]:
                self._observed.saw(name, *found[name][:2], now)
            else:
                gone.add(name)
        return gone

    def _disown(self, lock: str, text: str) -> None:
        """Remove an entry of ours that no task knows: a join that was carried out after it was left."""
        if all((t.lock, e.text) != (lock, text) for t, e in self._entries.items()):
            self._tasks.run(self._remove_quietly(lock, LockEntry(text)))

    async def _remove_quietly(self, lock: str, entry: LockEntry) -> None:
        with contextlib.suppress(SessionLost, CoterieError):
            await self._remove(lock, entry)

    async def _bury(self, now: float) -> None:
        """Remove sessions that were silent for their whole lease; open a run whose past is over."""
        for observed in (self._observed, self._neighbours):
            for name, counter in observed.due(now):
                if name == PAST:
                    await self._ask(schema.OPEN, counter)
                    await self._look_at_past()
                    continue
                _, rows = await self._ask(statements.KILL, name, counter)
                if rows:
                    observed.forget(name)
                    logger.info(
                        "%s: session %s was silent for its lease, and is removed",
                        self._server,
                        legible(name),
                        extra={"event": "session-removed"},
                    )
                    await self._sweep(name)

    async def _bury_dead(self, name: str, life: str) -> bool:
        """Remove a session whose program is gone, as its neighbour on the same machine has seen."""
        _, rows = await self._ask(statements.BURY, name, life)
        if rows:
            self._observed.forget(name)
            await self._sweep(name)
        return bool(rows)

    async def _sweep(self, name: str) -> None:
        """Remove all entries of a session that is dead, which wakes those behind them."""
        _, rows = await self._ask(statements.SWEEP, name)
        await self._ask(statements.TIDY, [lock for lock, _ in rows])
        await self._ask(statements.FORGET)

    async def _look_at_past(self) -> None:
        connection = await self._connected()
        _, rows = await connection.ask(schema.IS_OPEN, connection.run.name, limit=self._limit)
        if not rows or connection is not self._connection:
            return
        ((is_open, lease),) = rows
        self._learn_of_past(connection.run.name, lease, is_open=is_open)

    def _learn_of_past(self, run: str, lease: float, *, is_open: bool) -> None:
        """Note whether the run is open, whose past is a session that no process renews."""
        self._is_open = is_open
        if is_open:
            self._observed.forget(PAST)
            self._told.closed("", system.now())
            self._wake_all()
        else:
            self._observed.saw(PAST, run, lease, system.now())
            self._told.closed("it was restarted", self._observed.removal_at(PAST))

    # The end of programs, seen on this machine

    async def live(self, life: str) -> None:
        """Write down by which processes we are known; it goes with our session."""
        if (await self._connected()).run.has_lives:
            await self._ask(statements.LIVE, self._id, life)

    async def _lives(self, sessions: Sequence[str]) -> dict[str, str]:
        if not (await self._connected()).run.has_lives:
            return {}
        _, rows = await self._ask(statements.LIVES, list(sessions))
        with sensible(self._server):
            return dict(map(tuple, rows))

    # Orders of operators

    async def condemn(self, lock: str, participant: str) -> float | None:
        """Set the counter of that session to a number which none of its renewals compares with."""
        _, rows = await self._ask_to_the_end(statements.CONDEMN, lock, participant)
        return max((float(lease) for (lease,) in rows), default=None)

    # Questions

    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        """Read queues, all at one moment, without the entries of sessions that are over."""
        if locks is not None and not locks:
            return {}
        asked = None if locks is None else list(locks)
        _, rows = await self._ask_to_the_end(statements.LINES, asked)
        with sensible(self._server):
            return {lock: _line(queue) for lock, queue in rows if queue}

    # Mail

    async def send(self, participant: str, letter: bytes) -> None:
        """Notify the channel of the reader."""
        text = base64.b64encode(letter).decode()
        size = PART_CHARACTERS_MAX
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        # Of equal notices of one transaction one arrives: so each says how many follow.
        notices = [f"{len(parts) - 1 - number}:{part}" for number, part in enumerate(parts)]
        await self._ask_to_the_end(statements.NOTIFY, _channel(participant), notices)

    def _hear(self, pid: int, notice: str) -> None:
        if notice.startswith(statements.INSIDE):
            with contextlib.suppress(ValueError, IndexError):  # any role may notify any channel
                number, text, lock = notice[1:].split("\n", 2)
                self._hear_inside(int(number), text, lock)
            return
        if notice.startswith(statements.NEWS):
            for ticket, entry in self._entries.items():
                if ticket.lock == notice[1:]:
                    entry.news = True
            self._news.set()
            return
        follow, _, part = notice.partition(":")
        text = self._parts.pop(pid, "") + part
        if follow != "0":
            self._parts[pid] = text
            return
        with contextlib.suppress(ValueError):
            self._told.mail(base64.b64decode(text, validate=True))

    def _hear_inside(self, number: int, text: str, lock: str) -> None:
        for ticket, entry in self._entries.items():
            if (ticket.lock, entry.text) == (lock, text):
                self._let_in(entry, number)
                return
        if _session_of(text) == self._id:
            self._disown(lock, text)

    # Calls

    @property
    def _limit(self) -> float:
        """How long an answer is waited for: a connection that is silent is replaced within the lease."""
        return min(CALL_SECONDS_MAX, self.lease / BEATS_PER_LEASE)

    async def _connected(self) -> LockConnection:
        """Return the connection, or make another one: the session goes on over it."""
        async with self._connecting:
            self._check()
            if self._connection is None or not self._connection.is_up:
                made = await self._server.connect(self.lease)
                try:
                    await self._begin_on(made)
                except BaseException:
                    await made.close()
                    raise
                self._connection = made
                self._parts.clear()
                self._learn_of_past(made.run.name, made.run.lease, is_open=made.run.is_open)
                made.on_end(self._wake_all)  # connect again, for notices
                self._wake_all()  # some may have been lost
            return self._connection

    async def _begin_on(self, made: LockConnection) -> None:
        """Listen, and compare our entries on another run of the server: it may have come up with an older state.

        Then it may have our session, which goes on to be renewed, and not an entry which we hold a lock by. No
        one is let in on that run before the leases of the former one are over; ours is not renewed there.
        """
        try:
            async with asyncio.timeout(self._limit):
                await made.listen(_channel(self._name), self._hear)
        except Exception:  # noqa: BLE001 - whatever asyncpg raises where a connection ends
            raise Unavailable(f"{self._server}: no answer in time") from None
        if self._run in ("", made.run.name):
            self._run = made.run.name
            return
        _, rows = await made.ask(statements.MINE, self._id, limit=self._limit)
        found = {(lock, text) for lock, text in rows}
        for lock, text in found:
            self._disown(lock, text)
        for ticket, entry in self._entries.items():
            if entry.waiting is None and (ticket.lock, entry.text) not in found:
                self._end("the server was restarted with an older state")
                raise SessionLost(self._lost)
        self._run = made.run.name

    async def _ask(self, query: str, *arguments: object) -> tuple[float, Any]:
        """Carry out a statement; return when it was sent, and its rows."""
        connection = await self._connected()
        return await connection.ask(query, *arguments, limit=self._limit)

    async def _ask_to_the_end(self, query: str, *arguments: object) -> tuple[float, Any]:
        """Carry out a statement for a task that is not ours: if it is cancelled, the connection stays."""
        return await self._calls.run(self._ask(query, *arguments))

    async def _ask_in_run(self, query: str, *arguments: object) -> Any:
        """Carry out a statement that finds our session, on the run that the connection has led to."""
        connection = await self._connected()
        _, rows = await connection.ask(
            query, self._id, connection.run.start, self._is_open, *arguments, limit=self._limit
        )
        if not rows:
            _, found = await connection.ask(statements.FIND, self._id, limit=self._limit)
            if found:  # behind a pooler, which has connected again
                await connection.close()
                raise Unavailable(f"{self._server}: it was restarted")
            self._end(LAPSED)
            raise SessionLost(self._lost)
        return rows

    def _check(self) -> None:
        if self._lost:
            raise SessionLost(self._lost)

    def _name_entry(self, ticket: Ticket) -> tuple[str, str] | None:
        """Return the session, and an entry of it as the server knows it."""
        entry = self._entries.get(ticket)
        return None if entry is None else (self._id, entry.text)

    def _name_run(self) -> str:
        """Return the run of the server that the connection leads to."""
        return self._run


def _sessions(texts: Iterable[str]) -> dict[str, tuple[int, float, bool]]:
    """Read what the server shows of sessions: of each its counter, its lease, and whether it is alive."""
    found = {}
    for text in texts:
        name, counter, lease, alive = text.split(" ")
        found[name] = int(counter), float(lease), alive == "true"
    return found


def _session_of(text: str) -> str:
    return text.split(" ", 2)[1]


def _line(queue: Sequence[str]) -> list[QueueEntry]:
    count = inside([text.startswith("s") for text in queue])
    entries = []
    for place, text in enumerate(queue):
        mode, _, participant, since, process = text.split(" ", 4)
        author = author_of(participant, process, float(since))
        entries.append(QueueEntry(author, mode.startswith("s"), place < count, 0))
    return entries


def _channel(participant: str) -> str:
    return f"coterie_{participant}"
