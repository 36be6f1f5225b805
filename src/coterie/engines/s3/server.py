"""Sessions with a bucket: objects that are compared and set, and looked at again and again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie import system
from coterie.engines.cas.session import RETRY_SECONDS, CasSession
from coterie.engines.cas.steps import (
    CountedSession,
    EntryBefore,
    Renewal,
    ServerPast,
    Sight,
)
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.nonsense import author_of
from coterie.engines.queue.observation import LOOKS_PER_LEASE, Observations
from coterie.engines.queue.server import QueueEntry, ServerNode, Ticket, inside
from coterie.engines.queue.url import TLS_PARAMETERS, WITNESS, parse_server_url
from coterie.engines.s3 import past as runs
from coterie.engines.s3.bucket import PAGE, PAUSES, Bucket, BucketAccess
from coterie.engines.s3.http import HttpClient
from coterie.engines.s3.mailbox import Mailbox
from coterie.engines.s3.polls import Polls
from coterie.engines.s3.records import (
    DEAD,
    EMPTY_BYTES_MAX,
    ENDED,
    Keys,
    QueuedEntry,
    QueueObject,
    SessionObject,
    fingerprint,
    is_entry_of,
    read,
    write,
)
from coterie.engines.s3.signature import AccessKeys
from coterie.engines.s3.values import S3Values
from coterie.errors import ConfigError, CoterieError, Unavailable, UsageError
from coterie.locks.legible import legible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from coterie.engines.cas.steps import Wake
    from coterie.engines.queue.server import Author, SessionListener
    from coterie.engines.queue.url import ServerUrl
    from coterie.engines.s3.bucket import StoredObject

SECURE = "s3s"
PREFIX = "coterie"  # where the URL names none
REGION = "us-east-1"
LEASE_SECONDS = 30.0
LEASE_SECONDS_MIN = 1.0
CALL_SECONDS_MAX = 5.0
BOX = ""  # stands for our letters among the names of locks that are looked at
LISTERS = 3  # sessions that list all in each third of a lease; the others do so seldom
LIST_LEASES = 2
NEIGHBOURS_MAX = 64


def make_engine(url: str) -> QueueEngine:
    """Return the engine of a program that takes locks in a bucket."""
    secure = url.lower().startswith(f"{SECURE}:")
    parsed = parse_server_url(
        url,
        port=443 if secure else 80,
        parameters=("region", *TLS_PARAMETERS, WITNESS),
        lease=LEASE_SECONDS,
    )
    if not parsed.path or len(parsed.addresses) > 1:
        raise UsageError(
            f"{parsed.scheme}://{parsed.shown}: write one host and a bucket, such as"
            " s3s://s3.eu-central-1.amazonaws.com/BUCKET?region=eu-central-1"
        )
    return QueueEngine(S3Server(parsed), deadlock_detection=parsed.detects, witness=parsed.is_seen)


class S3Server:
    """One bucket, or what stands below a prefix there."""

    lease_min = LEASE_SECONDS_MIN

    def __init__(self, url: ServerUrl) -> None:
        """Remember where it is; raise `UsageError` where a lease is too short."""
        self.lease = url.lease_from(self.lease_min)
        self.poll_seconds = Polls(self.lease).pause_max
        self.known = 0  # the highest number that this process was given
        self.is_checked = False  # whether it honours the conditions of writes
        self._url = url
        self._bucket, _, prefix = url.path.partition("/")
        self.keys = Keys(prefix or PREFIX)
        self._credentials = _credentials(url)
        self._observed: dict[str, Observations] = {}  # by participant

    def __str__(self) -> str:
        """Name the bucket for people."""
        return f"s3 at {self._url.shown}/{self._bucket}"

    async def open(self, participant: str, told: SessionListener, lease: float) -> CasSession:
        """Begin a session; what was seen of others in former ones stays true."""
        observed = self._observed.setdefault(participant, Observations())
        name = system.secret(8).hex()
        # A renewal that is not answered leaves time for another one within the lease.
        bucket = self._connect(min(CALL_SECONDS_MAX, lease / 2))
        steps = S3Steps(self, bucket, name, participant, lease)
        session = CasSession(str(self), name, steps, told, lease=lease, observed=observed)
        try:
            await session.start()
        except BaseException:
            await session.close()
            raise
        return session

    async def nodes(self) -> list[ServerNode]:
        """Ask the server for an object."""
        bucket = self._connect(CALL_SECONDS_MAX)
        try:
            await bucket.get(self.keys.past)
        except Unavailable as error:
            return [ServerNode(self._url.shown, trouble=str(error).removeprefix(f"{self}: "))]
        finally:
            await bucket.close()
        return [ServerNode(self._url.shown, legible(bucket.server))]

    def _connect(self, limit: float) -> Bucket:
        (host, port) = self._url.addresses[0]
        is_secure = self._url.scheme == SECURE
        tls = _tls(self._url) if is_secure else None
        client = HttpClient(str(self), (host, port), tls, limit)
        shown = f"[{host}]" if ":" in host else host
        named = shown if port == (443 if is_secure else 80) else f"{shown}:{port}"
        region = self._url.parameters.get("region") or _variable("AWS_REGION", "AWS_DEFAULT_REGION")
        access = BucketAccess(named, self._bucket, region or REGION, self._credentials)
        return Bucket(str(self), client, access)


class EntryPlace(NamedTuple):
    """An entry of ours, and the queue that it stands in."""

    number: int
    before: Sequence[QueuedEntry]


class S3Steps:
    """The requests of one session."""

    carries = False  # it would take a request of its own
    renews_by_reading = False

    def __init__(
        self, server: S3Server, bucket: Bucket, session: str, participant: str, lease: float
    ) -> None:
        """Prepare; the first step connects."""
        self._server = server
        self._bucket = bucket
        self._keys = server.keys
        self._session = session
        self._participant = participant
        self._lease = lease
        self._is_begun = False
        self._life = ""  # by which processes our program is known
        self._etag = ""  # of our session's object
        self._past = ServerPast("", is_open=False, lease=lease)
        self._tickets: set[Ticket] = set()  # of ours, also those that may be there
        self._doubtful: set[Ticket] = set()  # whose join may be carried out later
        self._ghosts: dict[str, set[str]] = defaultdict(set)  # sessions that are over, by locks
        self._neighbours: list[CountedSession] = []
        self._leases: dict[str, float] = {}  # of the sessions that were listed last
        self._list_at = 0.0
        self._polls = Polls(lease)
        self._shown: dict[str, str] = {}  # ETags of queues, as the last look has shown them
        self._answers_until = 0.0  # to letters that we have sent
        self._mailbox = Mailbox(bucket, self._keys, participant)
        self._stirred = asyncio.Event()
        self.values = S3Values(bucket, self._keys)

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
        await self._enter()
        self._is_begun = True
        key, body = self._own_key, write(self._record(0))
        sent_at = system.now()
        etag = await self._bucket.put(key, body, None)
        if etag is None:
            raise Unavailable(f"{self._server}: the session is there already")
        self._etag = etag
        if not self._server.is_checked:
            await self._bucket.check(key, body)
            self._server.is_checked = True
        return sent_at, self._past

    async def find(self) -> int | None:
        """Read the counter, and the ETag to be compared by the next renewal."""
        found = await self._bucket.get(self._own_key)
        record = self._living(found)
        if found is None or record is None:
            return None
        self._etag = found.etag
        return record.counter

    async def renew(self, counter: int) -> Renewal | None:
        """Move the counter on, then look around."""
        body = write(self._record(counter + 1))
        sent_at = system.now()
        etag = await self._bucket.put(self._own_key, body, self._etag)
        if etag is None:
            return None
        self._etag = etag
        await self._enter()
        await self._list_neighbours()
        near = self._neighbours
        return Renewal(sent_at, self._past, 0, near[0] if near else None, near[1:])

    async def _list_neighbours(self) -> None:
        """Note the counters of other sessions; those that come first by name list them for all."""
        if system.now() < self._list_at:
            return
        listed = await self._bucket.list(self._keys.sessions, is_whole=False)
        names = [self._keys.session_of(each.key) for each in listed]
        is_lister = self._session in names[:LISTERS]
        self._list_at = system.now() + (0 if is_lister else LIST_LEASES * self._lease)
        if len(listed) >= PAGE:
            listed += await self._bucket.list(
                self._keys.sessions, after=self._own_key, is_whole=False
            )
        etags = {self._keys.session_of(each.key): each.etag for each in listed}
        etags.pop(self._session, None)
        names = sorted(etags, key=lambda name: (name < self._session, name))[:NEIGHBOURS_MAX]
        leases = await asyncio.gather(*map(self._lease_of, names))
        self._leases = {n: lease for n, lease in zip(names, leases, strict=True) if lease}
        self._neighbours = [
            CountedSession(name, fingerprint(etags[name]), lease)
            for name, lease in self._leases.items()
        ]

    async def _lease_of(self, name: str) -> float:
        """Return the lease of a session, which never changes; 0 if it is over."""
        if name in self._leases:
            return self._leases[name]
        record = self._living(await self._bucket.get(self._keys.session(name)))
        if record is None:
            await self.sweep(name)
        return record.lease if record else 0.0

    async def remove(self, session: str, counter: int) -> bool:
        """Make a session dead, then remove its entries as far as they are known, and its letters."""
        found = await self._bucket.get(self._keys.session(session))
        record = self._living(found)
        if found is None or record is None or fingerprint(found.etag) != counter:
            return False
        if await self._bucket.put(self._keys.session(session), write(DEAD), found.etag) is None:
            return False
        self._neighbours = [each for each in self._neighbours if each.name != session]
        await self._bucket.delete(self._keys.mail(record.participant))
        await self.sweep(session)
        return True

    async def live(self, life: str) -> bool:
        """Have it in the record from the next renewal on: one more writer of it would make a renewal fail."""
        self._life = life
        return False

    async def lives(self, sessions: Sequence[str]) -> dict[str, str]:
        """Read the records of other sessions."""
        records = await self._read_sessions(sessions)
        return {name: record.life for name, record in records.items() if record.life}

    async def bury(self, session: str, life: str) -> bool:
        """Make a session dead, then remove its entries."""
        for _ in PAUSES:
            found = await self._bucket.get(self._keys.session(session))
            record = self._living(found)
            if found is None or record is None or record.life != life:
                return False
            # It fails where a renewal comes between that the program has sent before its end.
            if await self.remove(session, fingerprint(found.etag)):
                return True
        raise Unavailable(f"{self._server}: the session is renewed again and again")

    async def sweep(self, session: str) -> None:
        """Remove the entries of a session that is over where we have met them, then its record.

        An entry that is met later is of a session that is not there. A program that meets it makes that session dead before the
        entry is passed over: so its record need not stay.
        """
        found = await self._bucket.get(self._keys.session(session))
        if self._living(found) is not None:
            return
        for lock in sorted(self._ghosts.pop(session, ())):
            await self._change(lock, lambda queue: _without_session(queue, session))
        if found is not None:
            await self._bucket.delete(self._keys.session(session))

    async def condemn(self, lock: str, participant: str) -> float | None:
        """End the renewals of a participant that is inside, by an ETag that none of them compares with."""
        for _ in PAUSES:
            queue = (await self._queues([lock]))[lock]
            count = inside([entry.shared for entry in queue.entries])
            holders = (
                e.session for e in queue.entries[:count] if e.author.participant == participant
            )
            name = next(holders, None)
            found = await self._bucket.get(self._keys.session(name)) if name else None
            record = self._living(found)
            if name is None or found is None or record is None:
                return None
            ended = write(msgspec.structs.replace(record, counter=ENDED))
            if await self._bucket.put(self._keys.session(name), ended, found.etag) is not None:
                return record.lease
        raise Unavailable(f"{self._server}: the session is renewed again and again")

    async def open_past(self, run: str) -> None:
        """Open a run that is closed."""
        await runs.open_run(self._bucket, self._keys, run)

    async def close(self, *, is_over: bool) -> None:
        """End the session, and disconnect."""
        try:
            if self._is_begun and not is_over:
                with contextlib.suppress(CoterieError):
                    await asyncio.gather(*map(self._drop, list(self._tickets)))
                    # A join that comes later than this is of no session.
                    await self._bucket.delete(self._own_key)
                    await self._mailbox.remove()
        finally:
            await self._bucket.close()

    # Entries

    async def join(
        self, ticket: Ticket, author: Author, leaving: Ticket | None
    ) -> tuple[ServerPast, Sight]:
        """Write an entry unless it is there, leave the other one, and look."""
        if leaving is not None and leaving.lock != ticket.lock:
            await self.leave(leaving)
            leaving = None
        self._tickets.add(ticket)
        self._doubtful.add(ticket)
        self._stirred.set()  # there is mail from now on
        author = author_of(*msgspec.structs.astuple(author))
        await self._change(
            ticket.lock, lambda queue: self._with_entry(queue, ticket, author, leaving)
        )
        # What was sent for it before expects an ETag that is gone.
        self._doubtful.discard(ticket)
        if leaving is not None:
            self._tickets.discard(leaving)
        past, sights = await self.look([ticket])
        if ticket not in sights:
            raise Unavailable(f"{self._server}: the entry is gone")
        return past, sights[ticket]

    def _with_entry(
        self, queue: QueueObject, ticket: Ticket, author: Author, leaving: Ticket | None
    ) -> QueueObject | None:
        entries = [
            e for e in queue.entries if not (leaving and is_entry_of(e, self._session, leaving))
        ]
        number = queue.number
        if not any(is_entry_of(each, self._session, ticket) for each in entries):
            number += 1
            entries.append(
                QueuedEntry(self._session, ticket.attempt, ticket.shared, number, author)
            )
        elif len(entries) == len(queue.entries):
            return None
        return QueueObject(number=number, entries=tuple(entries))

    async def leave(self, ticket: Ticket) -> None:
        """Remove an entry, whether it is known to be there or not."""
        await self._drop(ticket)
        self._tickets.discard(ticket)
        if all(each.lock != ticket.lock for each in self._tickets):
            self._polls.forget(ticket.lock)
            self._shown.pop(ticket.lock, None)

    async def _drop(self, ticket: Ticket) -> None:
        is_doubtful = ticket in self._doubtful

        def without(queue: QueueObject) -> QueueObject | None:
            kept = tuple(
                each for each in queue.entries if not is_entry_of(each, self._session, ticket)
            )
            # A join that comes late compares an ETag: it fails if any write has come before it.
            if len(kept) == len(queue.entries) and not is_doubtful:
                return None
            return QueueObject(number=queue.number, entries=kept)

        await self._change(ticket.lock, without)
        self._doubtful.discard(ticket)

    async def look(self, tickets: Sequence[Ticket]) -> tuple[ServerPast, dict[Ticket, Sight]]:
        """Read the queues, then the sessions of those who stand before us: each is older than its entries.

        What was read a moment ago is good enough: entries before ours go, and none come.
        """
        if not self._past.is_open:
            await self._enter()
        locks = sorted({ticket.lock for ticket in tickets})
        queues = await self._queues(locks, self._polls.pause_max / 2)
        found: dict[Ticket, EntryPlace] = {}
        for ticket in tickets:
            entries = queues[ticket.lock].entries
            for place, entry in enumerate(entries):
                if is_entry_of(entry, self._session, ticket):
                    found[ticket] = EntryPlace(entry.number, entries[:place])
        counted = await self._counted({e.session for each in found.values() for e in each.before})
        for ticket, each in found.items():
            for entry in each.before:
                if counted[entry.session] is None:
                    self._ghosts[entry.session].add(ticket.lock)
            self._poll(ticket, [e for e in each.before if counted[e.session] is not None])
        return self._past, {
            ticket: Sight(
                each.number,
                [EntryBefore(e.shared, e.session, counted[e.session]) for e in each.before],
            )
            for ticket, each in found.items()
        }

    def _poll(self, ticket: Ticket, before: Sequence[QueuedEntry]) -> None:
        """Look at the queue from now on, if others are in our way."""
        in_the_way = {e.session for e in before if not (ticket.shared and e.shared)}
        if in_the_way:
            self._polls.watch(ticket.lock, len(in_the_way), system.now())
            self._stirred.set()
        else:
            self._polls.forget(ticket.lock)

    async def own(self) -> list[Ticket]:
        """Return the entries of the session, in the queues of locks that it has asked for."""
        queues = await self._queues(sorted({ticket.lock for ticket in self._tickets}))
        return [
            Ticket(lock, entry.shared, entry.attempt)
            for lock, queue in queues.items()
            for entry in queue.entries
            if entry.session == self._session
        ]

    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        """Read queues; of all, those that are not empty by their size."""
        if locks is None:
            listed = await self._bucket.list(self._keys.queues)
            locks = [self._keys.lock_of(e.key) for e in listed if e.size > EMPTY_BYTES_MAX]
        queues = await self._queues(locks)
        names = {entry.session for queue in queues.values() for entry in queue.entries}
        living = (await self._read_sessions(names)).keys()
        lines = {
            lock: [entry for entry in queue.entries if entry.session in living]
            for lock, queue in queues.items()
        }
        return {lock: _line(line) for lock, line in lines.items() if line}

    # Reading and writing

    async def _change(
        self, lock: str, edit: Callable[[QueueObject], QueueObject | None]
    ) -> QueueObject:
        """Write a queue in the place of the one that is there, unless nothing is to be changed."""
        key = self._keys.queue(lock)
        for pause in PAUSES:
            found = await self._bucket.get(key)
            queue = self._queue(found)
            changed = edit(queue)
            if changed is None:
                return queue
            if await self._bucket.put(key, write(changed), found.etag if found else None):
                if found is None:
                    await self._enter()  # the bucket may have been emptied, with holds
                return changed
            await asyncio.sleep(pause * system.random().random())
        raise Unavailable(f"{self._server}: lock {lock!r} is written again and again")

    async def _queues(self, locks: Iterable[str], recent: float = 0.0) -> dict[str, QueueObject]:
        """Read queues; with `recent` what was read so many seconds ago will do."""
        names = list(locks)
        reads = (self._bucket.get_recent(self._keys.queue(lock), recent) for lock in names)
        found = dict(zip(names, await asyncio.gather(*reads), strict=True))
        for lock, each in found.items():
            self._shown[lock] = each.etag if each else ""
        return {lock: self._queue(each) for lock, each in found.items()}

    def _queue(self, found: StoredObject | None) -> QueueObject:
        if found is None:
            return QueueObject(number=max(self.known, runs.number_by_time()))
        return read(self._server, found.body, QueueObject)

    async def _counted(self, names: set[str]) -> dict[str, CountedSession | None]:
        """Return the counters of sessions, None for each that is over.

        A store may show a session late, so one that it does not show may be alive. It is dead if it can be written that
        it is: sessions are made before their entries, and once.
        """
        others = sorted(names - {self._session})
        counted = dict(zip(others, await asyncio.gather(*map(self._count, others)), strict=True))
        return {self._session: CountedSession(self._session, 0, self._lease), **counted}

    async def _count(self, name: str) -> CountedSession | None:
        key = self._keys.session(name)
        found = await self._bucket.get_recent(key, self._lease / LOOKS_PER_LEASE / 2)
        if found is None:
            if await self._bucket.put(key, write(DEAD), None) is None:
                raise Unavailable(f"{self._server}: a session is not to be read")
            return None
        record = self._living(found)
        return CountedSession(name, fingerprint(found.etag), record.lease) if record else None

    async def _read_sessions(self, names: Iterable[str]) -> dict[str, SessionObject]:
        """Read the records of sessions that are alive."""
        wanted = sorted(names)
        found = await asyncio.gather(
            *(self._bucket.get(self._keys.session(name)) for name in wanted)
        )
        records = zip(wanted, map(self._living, found), strict=True)
        return {name: record for name, record in records if record is not None}

    def _living(self, found: StoredObject | None) -> SessionObject | None:
        """Return the record of a session that is alive."""
        if found is None:
            return None
        record = read(self._server, found.body, SessionObject)
        return record if record.is_alive else None

    async def _enter(self) -> None:
        """Read the past; where there is none, the bucket is new, or has been emptied."""
        longest = max(self._lease, self._server.lease)
        self._past = await runs.enter(self._bucket, self._keys, longest)

    def _record(self, counter: int) -> SessionObject:
        return SessionObject(
            participant=self._participant, counter=counter, lease=self._lease, life=self._life
        )

    @property
    def _own_key(self) -> str:
        return self._keys.session(self._session)

    # News and letters

    async def listen(self, wake: Wake, mail: Callable[[bytes], None]) -> None:
        """Look at what we wait for, and at our letters as long as we have entries or await an answer."""
        while True:
            with contextlib.suppress(TimeoutError):
                pause = max(0.0, self._polls.next_at() - system.now())
                async with asyncio.timeout(min(pause, self._lease)):
                    await self._stirred.wait()
            self._stirred.clear()
            try:
                if self._tickets:
                    await self._await_letters()
                elif system.now() >= self._answers_until:
                    self._polls.forget(BOX)
                for name in self._polls.due(system.now()):
                    if name == BOX:
                        await self._read_letters(mail)
                    else:
                        await self._look_for_news(name, wake)
            except CoterieError:
                await asyncio.sleep(RETRY_SECONDS)

    async def _look_for_news(self, lock: str, wake: Wake) -> None:
        found = await self._bucket.get(self._keys.queue(lock))
        if (found.etag if found else "") != self._shown.get(lock):
            wake(lock)

    async def _await_letters(self) -> None:
        await self._mailbox.make()
        if BOX not in self._polls:
            self._polls.rest(BOX, system.now())

    async def _read_letters(self, mail: Callable[[bytes], None]) -> None:
        for letter in await self._mailbox.read():
            mail(letter)

    async def send(self, participant: str, letter: bytes) -> None:
        """Put a letter into the box of a program, and look often for the answer."""
        await self._await_letters()
        await self._mailbox.send(participant, letter)
        self._answers_until = system.now() + self._lease
        self._polls.hurry(BOX, system.now())
        self._stirred.set()


def _without_session(queue: QueueObject, session: str) -> QueueObject | None:
    kept = tuple(each for each in queue.entries if each.session != session)
    return (
        None if len(kept) == len(queue.entries) else QueueObject(number=queue.number, entries=kept)
    )


def _line(entries: Sequence[QueuedEntry]) -> list[QueueEntry]:
    count = inside([entry.shared for entry in entries])
    return [
        QueueEntry(
            author_of(*msgspec.structs.astuple(entry.author)), entry.shared, place < count, 0
        )
        for place, entry in enumerate(entries)
    ]


def _credentials(url: ServerUrl) -> AccessKeys:
    """Return the keys of the URL, or of the environment where Amazon's own tools find theirs."""
    if url.user:
        if not url.secret:
            raise ConfigError(f"{url.scheme}://{url.shown}: it names an access key, and no secret")
        return AccessKeys(url.user, url.secret)
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    return AccessKeys(*map(_variable, names))


def _variable(*names: str) -> str:
    """Return the first of these variables of the environment that says something."""
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def _tls(url: ServerUrl) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=url.tls_file("ca") or None)
    if url.tls_file("certificate"):
        context.load_cert_chain(url.tls_file("certificate"), url.tls_file("key") or None)
    return context
