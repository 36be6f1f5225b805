"""Sessions with NATS JetStream: messages of a stream, over one connection after the other."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie import system
from coterie.engines.cas.session import BEATS_PER_LEASE, RETRY_SECONDS, CasSession
from coterie.engines.cas.steps import (
    CountedSession,
    EntryBefore,
    Renewal,
    ServerPast,
    Sight,
)
from coterie.engines.nats import past as runs
from coterie.engines.nats.connection import NatsConnection, name_of
from coterie.engines.nats.news import QueueNews
from coterie.engines.nats.records import DEAD, ENDED, SessionRecord, Subjects, read_session
from coterie.engines.nats.stream import SUBJECTS_MAX, LockStream, TooMany
from coterie.engines.nats.values import NatsValues
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.nonsense import read_author
from coterie.engines.queue.observation import Observations
from coterie.engines.queue.server import QueueEntry, ServerNode, SessionLost, Ticket, inside
from coterie.engines.queue.url import TLS_PARAMETERS, WITNESS, parse_server_url
from coterie.errors import CoterieError, Unavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from coterie.engines.cas.steps import Wake
    from coterie.engines.nats.records import PastRecord
    from coterie.engines.nats.stream import Stored
    from coterie.engines.queue.server import Author, SessionListener
    from coterie.engines.queue.url import ServerUrl

STREAM = "coterie"  # where the URL names none
LEASE_SECONDS_MIN = 0.5
CALL_SECONDS_MAX = 5.0
SILENT_MAX = 64  # sessions that a renewal shows: all processes see the same ones
NUMBER_DIGITS_MAX = 20
TRIES = 5  # where others write at the same moment

_encode = msgspec.json.Encoder().encode
_encode_author = msgspec.msgpack.Encoder().encode


def make_engine(url: str) -> QueueEngine:
    """Return the engine of a program that takes locks on NATS."""
    parsed = parse_server_url(url, port=4222, parameters=(*TLS_PARAMETERS, WITNESS))
    if not re.fullmatch(r"[A-Za-z0-9_-]*", parsed.path):
        raise UsageError(
            f"{parsed.scheme}://{parsed.shown}: the path names the stream of the locks, with letters, digits, _"
            f" and - alone; got {parsed.path!r}"
        )
    return QueueEngine(
        NatsServer(parsed), deadlock_detection=parsed.detects, witness=parsed.is_seen
    )


class NatsServer:
    """One server, or several that are a cluster."""

    lease_min = LEASE_SECONDS_MIN

    def __init__(self, url: ServerUrl) -> None:
        """Remember where it is; raise `UsageError` where a lease is too short."""
        self.lease = url.lease_from(self.lease_min)
        self.known = 0  # the highest number that this process was given
        self.stream = url.path or STREAM
        self._url = url
        self._first = 0  # the address that answered last
        self._observed: dict[str, Observations] = {}  # by participant

    def __str__(self) -> str:
        """Name the servers for people."""
        return name_of(self._url)

    async def open(self, participant: str, told: SessionListener, lease: float) -> CasSession:
        """Begin a session; what was seen of others in former ones stays true."""
        observed = self._observed.setdefault(participant, Observations())
        name = system.secret(8).hex()
        steps = NatsSteps(self, name, participant, lease)
        session = CasSession(str(self), name, steps, told, lease=lease, observed=observed)
        try:
            await session.start()
        except BaseException:
            await session.close()
            raise
        return session

    async def connect(
        self, limit: float, heard: Callable[[str, bytes], None] | None
    ) -> NatsConnection:
        """Connect to the server that answered last, or the next one."""
        trouble: Unavailable | None = None
        for _ in self._url.addresses:
            address = self._url.addresses[self._first % len(self._url.addresses)]
            made = NatsConnection(self._url._replace(addresses=[address]), limit, heard)
            try:
                await made.connect()
            except Unavailable as error:
                trouble, self._first = error, self._first + 1
            else:
                return made
        raise trouble or Unavailable(f"{self}: no server is named")

    async def nodes(self) -> list[ServerNode]:
        """Ask each server by itself."""
        each = [self._url._replace(addresses=[address]) for address in self._url.addresses]
        return list(await asyncio.gather(*(self._node(url) for url in each)))

    async def _node(self, url: ServerUrl) -> ServerNode:
        connection = NatsConnection(url, CALL_SECONDS_MAX)
        try:
            await connection.connect()
            state = await LockStream(connection, self.stream, "").state()
        except Unavailable as error:
            return ServerNode(url.shown, trouble=str(error).removeprefix(f"{connection}: "))
        finally:
            await connection.close()
        info = connection.info
        role = "" if info.cluster else "alone"
        if info.cluster and state is not None and state.leader:
            role = "leader" if state.leader == info.server_name else "follower"
        return ServerNode(url.shown, info.version, role)


class Queued(NamedTuple):
    """An entry of any session, as the stream has it."""

    ticket: Ticket
    session: str
    number: int  # of its message
    author: bytes


class NatsSteps:
    """The requests of one session."""

    carries = False  # it would take a request of its own
    renews_by_reading = False

    def __init__(self, server: NatsServer, session: str, participant: str, lease: float) -> None:
        """Prepare; the first step connects."""
        self._server = server
        self._session = session
        self._participant = participant
        self._lease = lease
        self._subjects = Subjects(server.stream)
        self._is_begun = False
        self._life = ""  # by which processes our program is known
        self._revision = 0  # the number of our session's message
        self._connecting = asyncio.Lock()
        self._stream: LockStream | None = None
        self._run = ""  # of the servers that the connection leads to
        self._is_counted = False  # whether our entries were, over this connection
        self._entries: dict[Ticket, int] = {}  # of ours, with the numbers of their messages
        self._doubtful: set[Ticket] = set()  # that a join may write, or write again
        self._news = QueueNews()
        self._wake: Wake = _sleep_on
        self._mail: Callable[[bytes], None] = _drop
        self._closed = False
        self.values = NatsValues(server, self._subjects, self._connected)

    @property
    def known(self) -> int:
        """The highest number that this process was given."""
        return self._server.known

    @known.setter
    def known(self, number: int) -> None:
        self._server.known = number

    # Sessions

    async def open(self) -> tuple[float, ServerPast]:
        """Begin the session."""
        stream = await self._connected()
        past = await self._past(stream)
        self._is_begun = True
        sent_at = system.now()
        written = await stream.put(self._own_subject, self._record(0), 0)
        if written is None:
            raise Unavailable(f"{self._server}: the session is there already")
        self._revision = written
        return sent_at, past

    async def find(self) -> int | None:
        """Read the counter, and the number to be compared by the next renewal."""
        stream = await self._connected()
        found = await stream.get(self._own_subject)
        record = self._read_session(found)
        if found is None or record is None:
            return None
        self._revision = found.number
        return record.counter

    async def renew(self, counter: int) -> Renewal | None:
        """Move the counter on, then look around."""
        stream = await self._connected()
        sent_at = system.now()
        written = await stream.put(self._own_subject, self._record(counter + 1), self._revision)
        if written is None:
            return None
        self._revision = written
        past = await self._past(stream)
        entries = 0
        if not self._is_counted:  # servers that have an older state show it to a new connection
            entries = len(await self.own())
            self._is_counted = True
        silent = await self._longest_silent(stream)
        return Renewal(sent_at, past, entries, silent[0] if silent else None, silent[1:])

    async def _longest_silent(self, stream: LockStream) -> list[CountedSession]:
        """Return the sessions whose renewals are the oldest of all: those that have died are among them, soon."""
        sessions: list[CountedSession] = []
        for found in await stream.first(self._subjects.sessions, SILENT_MAX):
            name, record = self._subjects.read_session(found.subject), read_session(found.body)
            if record is None or name == self._session:
                continue
            if record.is_alive:
                sessions.append(CountedSession(name, found.number, record.lease))
            else:
                await self.sweep(name)
        return sessions

    async def remove(self, session: str, counter: int) -> bool:
        """Make a session dead, then remove its entries."""
        stream = await self._connected()
        if await stream.put(self._subjects.session(session), _encode(DEAD), counter) is None:
            return False
        await self.sweep(session)
        return True

    async def live(self, life: str) -> bool:
        """Have it in the record from the next renewal on: one more writer of it would make a renewal fail."""
        self._life = life
        return False

    async def lives(self, sessions: Sequence[str]) -> dict[str, str]:
        """Read the records of other sessions."""
        found = await self._sessions(await self._connected(), sessions)
        records = {name: read_session(written.body) for name, written in found.items()}
        return {name: record.life for name, record in records.items() if record and record.life}

    async def bury(self, session: str, life: str) -> bool:
        """Make a session dead, then remove its entries."""
        stream = await self._connected()
        for _ in range(TRIES):
            found = await stream.get(self._subjects.session(session))
            record = self._read_session(found)
            if found is None or record is None or record.life != life:
                return False
            # It fails where a renewal comes between that the program has sent before its end.
            if await self.remove(session, found.number):
                return True
        raise Unavailable(f"{self._server}: the session is renewed again and again")

    async def sweep(self, session: str) -> None:
        """Remove the entries of a session that is over, then its record; wake those behind."""
        stream = await self._connected()
        found = await stream.get(self._subjects.session(session))
        if self._read_session(found) is not None:
            return
        await self._remove_all(stream, session)
        if found is not None:
            await stream.delete(found.number)

    async def _remove_all(self, stream: LockStream, session: str) -> None:
        """Remove all entries of a session."""
        subjects = self._subjects.entries_of(session)
        if written := await stream.all(subjects):
            await stream.purge(subjects)
            for entry in self._queued(written):
                self._tell(stream, entry.ticket.lock, entry.number)

    async def condemn(self, lock: str, participant: str) -> float | None:
        """End the renewals of a participant that is inside, by a counter that none of them compares with."""
        stream = await self._connected()
        for _ in range(TRIES):
            line = self._queued(await stream.all(self._subjects.queue(lock)))
            count = inside([entry.ticket.shared for entry in line])
            names = (
                e.session for e in line[:count] if read_author(e.author).participant == participant
            )
            name = next(names, None)
            found = await stream.get(self._subjects.session(name)) if name else None
            record = self._read_session(found)
            if found is None or record is None:
                return None
            ended = _encode(msgspec.structs.replace(record, counter=ENDED))
            if await stream.put(found.subject, ended, found.number) is not None:
                return record.lease
        raise Unavailable(f"{self._server}: the session is renewed again and again")

    async def open_past(self, run: str) -> None:
        """Open a run that is closed."""
        await runs.open_run(await self._connected(), self._subjects, run)

    async def close(self, *, is_over: bool) -> None:
        """End the session over the connection that is there, and disconnect."""
        self._closed = True
        stream = self._stream
        if stream is None:
            return
        try:
            if self._is_begun and stream.connection.is_up and not is_over:
                with contextlib.suppress(CoterieError):
                    if self._entries or self._doubtful:
                        await self._remove_all(stream, self._session)
                    # A join that comes later than this is of no session.
                    await stream.purge(self._own_subject)
        finally:
            await stream.connection.close()

    # Entries

    async def join(
        self, ticket: Ticket, author: Author, leaving: Ticket | None
    ) -> tuple[ServerPast, Sight]:
        """Write an entry unless it is there, leave the other one, and look."""
        stream = await self._connected()
        self._doubtful.add(ticket)
        is_first = ticket not in self._entries
        self._entries.setdefault(ticket, 0)
        subject = self._subjects.entry(ticket, self._session)
        written = await stream.put(subject, _encode_author(author), 0)
        if written is not None:
            self._entries[ticket] = written
            if is_first:  # nothing of an earlier try is under way
                self._doubtful.discard(ticket)
        if leaving is not None:
            await self.leave(leaving)
        past, sights = await self.look([ticket])
        if ticket not in sights:
            raise Unavailable(f"{self._server}: the entry is gone")
        return past, sights[ticket]

    async def look(self, tickets: Sequence[Ticket]) -> tuple[ServerPast, dict[Ticket, Sight]]:
        """Look at these entries, and hear news of those who are in their way from then on."""
        stream = await self._connected()
        past, sights = await self._look_once(stream, tickets)
        blocked = [ticket.lock for ticket, sight in sights.items() if _is_blocked(ticket, sight)]
        if unheard := self._news.unheard(blocked):
            for lock in unheard:
                self._hear_of(stream, lock)
            past, sights = await self._look_once(stream, tickets)
        return past, sights

    async def _look_once(
        self, stream: LockStream, tickets: Sequence[Ticket]
    ) -> tuple[ServerPast, dict[Ticket, Sight]]:
        """Read the queues, then the sessions of those who stand before us: each is older than its entries."""
        # Only a state that has our entries has all that stand before them.
        least = max((self._entries.get(ticket, 0) for ticket in tickets), default=0)
        locks = sorted({ticket.lock for ticket in tickets})
        past, queues = await self._queues(stream, locks, least)
        before: dict[Ticket, list[Queued]] = {}
        numbers: dict[Ticket, int] = {}
        for ticket in tickets:
            for place, entry in enumerate(queue := queues[ticket.lock]):
                if entry.session == self._session and entry.ticket == ticket:
                    numbers[ticket], before[ticket] = entry.number, queue[:place]
        self._entries.update(numbers)
        others = {entry.session for line in before.values() for entry in line}
        counted = await self._counted(stream, others)
        for ticket, line in before.items():
            in_the_way = (e.number for e in line if not (ticket.shared and e.ticket.shared))
            if self._news.saw(ticket, in_the_way):
                self._wake(ticket.lock)
        sights = {
            ticket: Sight(
                past.base + numbers[ticket],
                [EntryBefore(e.ticket.shared, e.session, counted[e.session]) for e in line],
            )
            for ticket, line in before.items()
        }
        return _shown(past), sights

    async def leave(self, ticket: Ticket) -> None:
        """Remove an entry, whether it is known to be there or not, and say so."""
        stream = await self._connected()
        number = self._entries.get(ticket, 0)
        if number:
            await stream.delete(number)
        if not number or ticket in self._doubtful:
            await self._mark(stream, self._subjects.entry(ticket, self._session))
        self._entries.pop(ticket, None)
        self._news.forget(ticket)
        if number:
            self._tell(stream, ticket.lock, number)

    async def _mark(self, stream: LockStream, subject: str) -> None:
        """Write a mark in the place of an entry, where a join that comes late finds it."""
        for _ in range(TRIES):
            if await stream.put(subject, b"", 0) is not None:
                return
            found = await stream.get(subject)
            if found is not None and not found.body:
                return
            if found is not None:
                await stream.delete(found.number)
                lock = self._subjects.read_entry(subject).ticket.lock
                self._tell(stream, lock, found.number)
        raise Unavailable(f"{self._server}: an entry is written again and again")

    async def own(self) -> list[Ticket]:
        """Return all entries of the session."""
        stream = await self._connected()
        written = await stream.all(self._subjects.entries_of(self._session))
        return [entry.ticket for entry in self._queued(written)]

    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        """Read queues."""
        stream = await self._connected()
        found: dict[str, list[Queued]] = {}
        if locks is None:
            for entry in self._queued(await stream.all(self._subjects.entries)):
                found.setdefault(entry.ticket.lock, []).append(entry)
        else:
            _, found = await self._queues(stream, locks)
        names = {entry.session for line in found.values() for entry in line}
        records = await self._sessions(stream, names)
        living = {name for name in names if self._read_session(records.get(name)) is not None}
        lines = {lock: [e for e in line if e.session in living] for lock, line in found.items()}
        return {lock: _line(line) for lock, line in lines.items() if line}

    # Reading

    async def _queues(
        self, stream: LockStream, locks: Sequence[str], least: int = 0
    ) -> tuple[PastRecord, dict[str, list[Queued]]]:
        """Read queues, and the past."""
        queues: dict[str, list[Queued]] = {lock: [] for lock in locks}
        past: PastRecord | None = None
        for part in _parts([*locks]) if locks else [[]]:
            subjects = [self._subjects.past, *map(self._subjects.queue, part)]
            try:
                written = await stream.last(subjects, least)
            except TooMany:
                written = []
                for lock in part:
                    written += await stream.all(self._subjects.queue(lock))
            for entry in self._queued(written):
                queues[entry.ticket.lock].append(entry)
            past = next(
                (self._checked(stream, w) for w in written if w.subject == subjects[0]), past
            )
        return past or self._checked(stream, await stream.get(self._subjects.past)), queues

    def _queued(self, written: Iterable[Stored]) -> list[Queued]:
        """Read entries; what marks one that has left is none, nor is what no program of ours has written."""
        found = []
        for message in written:
            if message.body and message.subject != self._subjects.past:
                with contextlib.suppress(ValueError):
                    ticket, session = self._subjects.read_entry(message.subject)
                    found.append(Queued(ticket, session, message.number, message.body))
        return found

    async def _sessions(self, stream: LockStream, names: Iterable[str]) -> dict[str, Stored]:
        """Read the records of sessions; one that is renewed at this moment may be left out at first."""
        found = {}
        for part in _parts(sorted(names)):
            for written in await stream.last([self._subjects.session(name) for name in part]):
                found[self._subjects.read_session(written.subject)] = written
            for name in part:
                if name not in found and (again := await stream.get(self._subjects.session(name))):
                    found[name] = again
        return found

    async def _counted(
        self, stream: LockStream, names: set[str]
    ) -> dict[str, CountedSession | None]:
        """Return the counters of sessions, None for each that is over.

        A replica may lag behind, so one that it does not show may be alive. It is dead if it can be written
        that it is: sessions are made before their entries, and once.
        """
        counted: dict[str, CountedSession | None] = {}
        if self._session in names:
            counted[self._session] = CountedSession(self._session, self._revision, self._lease)
        records = await self._sessions(stream, names - counted.keys())
        for name in names - counted.keys():
            found = records.get(name)
            counted[name] = None
            if found is None:
                subject = self._subjects.session(name)
                if await stream.put(subject, _encode(DEAD), 0) is None:
                    raise Unavailable(f"{self._server}: a session is not to be read")
            elif (record := self._read_session(found)) is not None:
                counted[name] = CountedSession(name, found.number, record.lease)
        return counted

    def _read_session(self, found: Stored | None) -> SessionRecord | None:
        """Return the record of a session that is alive."""
        if found is None:
            return None
        record = read_session(found.body)
        if record is None:
            raise Unavailable(f"{self._server}: the record of a session makes no sense")
        return record if record.is_alive else None

    async def _past(self, stream: LockStream) -> ServerPast:
        return _shown(self._checked(stream, await stream.get(self._subjects.past)))

    def _checked(self, stream: LockStream, found: Stored | None) -> PastRecord:
        """Read the past, which has to be of the run that was entered."""
        past = runs.read_past(stream, found) if found is not None else None
        if past is None or past.run != self._run:
            stream.connection.terminate()
            raise Unavailable(f"{self._server}: it was restarted")
        return past

    # News

    async def send(self, participant: str, letter: bytes) -> None:
        """Send a letter to who listens now."""
        stream = await self._connected()
        stream.connection.publish(self._subjects.mail(participant), letter)

    async def listen(self, wake: Wake, mail: Callable[[bytes], None]) -> None:
        """Tell of news and letters as they come, over one connection after the other."""
        self._wake, self._mail = wake, mail
        while True:
            try:
                stream = await self._connected()
            except (CoterieError, SessionLost):
                await asyncio.sleep(RETRY_SECONDS)
                continue
            wake()
            await stream.connection.ended.wait()

    def _take(self, subject: str, body: bytes) -> None:
        """Take a message: news of a lock, or a letter."""
        lock = self._subjects.lock_of_news(subject)
        if not lock:
            self._mail(body)
            return
        number = int(body) if body.isdigit() and len(body) < NUMBER_DIGITS_MAX else 0
        if self._news.left(lock, number):
            self._wake(lock)

    def _tell(self, stream: LockStream, lock: str, number: int) -> None:
        """Say that an entry has left; who has missed it looks by itself after a while."""
        with contextlib.suppress(Unavailable):
            stream.connection.publish(self._subjects.news(lock), b"%d" % number)

    def _hear_of(self, stream: LockStream, lock: str) -> None:
        """Have news of a lock, in place of one that no task waits for."""
        stream.connection.subscribe(self._subjects.news(lock))
        if idle := self._news.hear(lock):
            stream.connection.unsubscribe(self._subjects.news(idle))

    # Connections

    @property
    def _own_subject(self) -> str:
        return self._subjects.session(self._session)

    def _record(self, counter: int) -> bytes:
        return _encode(SessionRecord(self._participant, counter, self._lease, life=self._life))

    async def _connected(self) -> LockStream:
        """Return the stream over the connection that is there, or another one: the session goes on over it."""
        async with self._connecting:
            self._check()
            if self._stream is None or not self._stream.connection.is_up:
                self._stream = await self._entered()
            return self._stream

    def _check(self) -> None:
        if self._closed:
            raise SessionLost("it was closed")

    async def _entered(self) -> LockStream:
        """Connect, enter the run of the servers, and hear what was heard before."""
        # One that is silent is replaced within the lease.
        limit = min(CALL_SECONDS_MAX, self._lease / BEATS_PER_LEASE)
        connection = await self._server.connect(limit, self._take)
        try:
            stream = LockStream(connection, self._server.stream, self._subjects.all)
            longest = max(self._lease, self._server.lease)
            self._run = await runs.enter(stream, self._subjects, longest, self._server.known)
            connection.subscribe(self._subjects.mail(self._participant))
            for lock in self._news.begin_again():
                connection.subscribe(self._subjects.news(lock))
            await connection.flush()
            self._check()
        except BaseException:
            connection.terminate()
            raise
        self._is_counted = False
        return stream


def _shown(past: PastRecord) -> ServerPast:
    return ServerPast(past.run, past.is_open, past.lease)


def _is_blocked(ticket: Ticket, sight: Sight) -> bool:
    return any(not (ticket.shared and each.shared) for each in sight.before)


def _parts(names: Sequence[str]) -> Iterable[Sequence[str]]:
    return (names[at : at + SUBJECTS_MAX] for at in range(0, len(names), SUBJECTS_MAX))


def _line(queue: Sequence[Queued]) -> list[QueueEntry]:
    count = inside([entry.ticket.shared for entry in queue])
    return [
        QueueEntry(read_author(entry.author), entry.ticket.shared, place < count, 0)
        for place, entry in enumerate(queue)
    ]


def _sleep_on(lock: str = "") -> None:
    """Wake no one: no one listens yet."""


def _drop(letter: bytes) -> None:
    """Leave a letter unread: no one listens yet."""
