"""A session with etcd: a lease, keys that go with it, and watches.

An entry is a key `coterie/q/LOCK:x.LEASE.ATTEMPT` (`:s.` where it shares) of our lease, by whose number it
cannot be mistaken for one of a former session, which goes with another lease. Its number
is the revision in which it was created: revisions are agreed on by the members, so they never go back,
and survive failovers and restarts. The queue of a lock is its keys in the order of their creation.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

import grpc.aio
import msgspec

from coterie import system
from coterie.engines.etcd import messages as api
from coterie.engines.etcd.channel import EtcdChannel
from coterie.engines.etcd.values import EtcdValues
from coterie.engines.etcd.watches import Watches, after
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.nonsense import read_author, sensible
from coterie.engines.queue.server import QueueEntry, ServerNode, SessionLost, inside
from coterie.engines.queue.url import TLS_PARAMETERS, WITNESS, parse_server_url
from coterie.engines.queue.witness import watched
from coterie.errors import ConfigError, CoterieError, Unavailable, UsageError
from coterie.system.aio import Tasks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from coterie.engines.etcd.messages import FoundKey, KeyChange, KeyValue
    from coterie.engines.queue.server import Author, SessionListener, Ticket
    from coterie.engines.queue.url import ServerUrl

QUEUES = b"coterie/q/"
MAILBOXES = b"coterie/m/"
ABANDONED = b"coterie/a/"
# From these on a leader that was stopped for a while ends no lease that was renewed elsewhere meanwhile (etcd#15247).
SOUND_SINCE = {(3, 4): 31, (3, 5): 13}
HERE = b"here."  # in our mailbox, what is no letter
LIVES = b"coterie/w/"  # of the sessions, by lease
KNOWN_MAX = 1024  # lives of others
LEASE_SECONDS_MIN = 2  # a lease of etcd counts in seconds, and not below its election ticks
BEATS_PER_LEASE = 3
CALL_SECONDS_MAX = 5.0
RETRY_SECONDS = 0.1
ENDED = "its lease has run out at etcd"

logger = logging.getLogger("coterie.engines")

_encode_author = msgspec.msgpack.Encoder().encode


def make_engine(url: str) -> QueueEngine:
    """Return the engine of a program that takes locks on etcd."""
    parsed = parse_server_url(url, port=2379, parameters=(*TLS_PARAMETERS, WITNESS))
    if parsed.path:
        raise UsageError(
            f"{parsed.scheme}://{parsed.shown}: a path after the addresses means nothing, got {parsed.path!r}"
        )
    return QueueEngine(
        EtcdServer(parsed), deadlock_detection=parsed.detects, witness=parsed.is_seen
    )


class EtcdServer:
    """A cluster of etcd."""

    lease_min = float(LEASE_SECONDS_MIN)

    def __init__(self, url: ServerUrl) -> None:
        """Remember where it is."""
        self.lease = url.lease_from(self.lease_min)
        self._url = url
        self._next = itertools.cycle(range(len(url.addresses)))
        self._warned = len(url.addresses) == 1  # which is not led by another one

    def __str__(self) -> str:
        """Name the cluster for people."""
        return f"etcd at {self._url.shown}"

    async def open(self, participant: str, told: SessionListener, lease: float) -> EtcdSession:
        """Begin a session: a lease of etcd.

        Each begins with another member: one that is cut off from the others accepts connections,
        too, and would be asked in vain again and again.
        """
        first, addresses = next(self._next), self._url.addresses
        channel = EtcdChannel(self._url._replace(addresses=addresses[first:] + addresses[:first]))
        limit = min(CALL_SECONDS_MAX, lease)
        try:
            await channel.open(limit)
            sent_at = system.now()
            request = api.number(1, math.ceil(lease))
            answer = await channel.call("Lease/LeaseGrant", request, limit)
            with sensible(channel):
                granted = api.lease(answer)
        except BaseException:
            await channel.close()
            raise
        session = EtcdSession(channel, participant, told, granted)
        try:
            told.renewed(sent_at)
            await session.start()
            await self._warn(channel, limit)
        except BaseException:
            await session.close()
            raise
        return session

    async def _warn(self, channel: EtcdChannel, limit: float) -> None:
        """Say once what a member of that version may do to leases."""
        if self._warned:
            return
        with contextlib.suppress(CoterieError), sensible(channel):
            status = api.status(await channel.call("Maintenance/Status", b"", limit))
            self._warned = True
            if not is_sound(status.version):
                logger.warning(
                    "%s: version %s may end the leases of programs that live, when its leader goes on that was"
                    " stopped for longer than a lease: then two programs hold a lock for a moment. Version 3.4.31,"
                    " 3.5.13 or newer does not",
                    self,
                    status.version,
                    extra={"event": "etcd-outdated"},
                )

    async def nodes(self) -> list[ServerNode]:
        """Ask each member by itself; one that knows no leader can decide nothing."""
        members = [self._url._replace(addresses=[address]) for address in self._url.addresses]
        return list(await asyncio.gather(*map(_node, members)))


def is_sound(version: str) -> bool:
    """Return whether etcd of that version ends no lease that is renewed; True where it does not say."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if numbers is None:
        return True
    major, minor, patch = map(int, numbers.groups())
    return patch >= SOUND_SINCE.get((major, minor), 0)


async def _node(url: ServerUrl) -> ServerNode:
    channel = EtcdChannel(url)
    try:
        await channel.open(CALL_SECONDS_MAX)
        answer = await channel.call("Maintenance/Status", b"", CALL_SECONDS_MAX)
        with sensible(channel):
            status = api.status(answer)
    except Unavailable as error:
        return ServerNode(url.shown, trouble=str(error).removeprefix(f"{channel}: "))
    finally:
        await channel.close()
    trouble = "" if status.leader else "it knows no leader"
    role = "leader" if status.leader == status.member else "follower"
    return ServerNode(url.shown, status.version, "" if trouble else role, trouble)


class Created(NamedTuple):
    """An entry of ours, and what stood before it in that revision."""

    number: int  # its revision
    near: bytes = b""  # the nearest key in its way; empty if none is, or if that is not known
    alone: bool = False  # there was no other in its way


class EtcdSession:
    """One lease of etcd and the keys that go with it."""

    def __init__(
        self, channel: EtcdChannel, participant: str, told: SessionListener, lease: api.Lease
    ) -> None:
        """Begin with a lease that was granted; `start` keeps it alive."""
        self.lease = float(lease.seconds)
        self._channel = channel
        self._name = participant
        self._told = told
        self._id = lease.id
        self._lost = ""
        self._limit = min(CALL_SECONDS_MAX, self.lease)
        self._created: dict[Ticket, Created] = {}
        # A join of these was not answered, and may be carried out after they are left.
        self._doubtful: set[Ticket] = set()
        self._lives: dict[bytes, str] = {}  # of others, by lease
        self._letters = itertools.count(1)
        self._ready = asyncio.Event()
        self._tasks = Tasks()
        mailbox = MAILBOXES + f"{participant}/".encode()
        self._mailbox = (mailbox, after(mailbox))
        # A key of our lease. Where that ends, the watch of our mail shows it before the next beat would.
        self._here = mailbox + HERE + f"{lease.id:x}".encode()
        self._is_here = False
        self.values = EtcdValues(channel, self._call, self._find_entry)
        self._refusal: ConfigError | None = None
        self._watches = Watches(
            channel, self._mailbox, self._receive, self._look_for_mail, self._refuse
        )

    async def start(self) -> None:
        """Renew the lease from now on, and listen to mail."""
        self._tasks.run(self._renew())
        self._tasks.run(self._watches.run())
        try:
            async with asyncio.timeout(self._limit):
                await self._ready.wait()
        except TimeoutError:
            trouble = self._watches.trouble or "no answer"
            raise Unavailable(
                f"{self._channel}: no watch could be set up in {self._limit:g} s: {trouble}"
            ) from None
        if self._refusal is not None:
            raise self._refusal
        await self._call("KV/Put", api.put(self._here, b"", self._id))
        self._is_here = True

    async def close(self) -> None:
        """End the lease; etcd removes all keys that go with it."""
        self._lost = self._lost or "it was closed"
        try:
            await self._tasks.end()
            with contextlib.suppress(CoterieError, SessionLost):
                await self._channel.call("Lease/LeaseRevoke", api.number(1, self._id), self._limit)
        finally:
            await self._channel.close()

    # The lease

    async def _renew(self) -> None:
        """Send a beat each third of the lease, over one stream as long as it lasts."""
        while True:
            stream = self._channel.stream("Lease/LeaseKeepAlive")
            try:
                while True:
                    await self._beat(stream)
                    await asyncio.sleep(self.lease / BEATS_PER_LEASE)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError, Unavailable):
                await asyncio.sleep(RETRY_SECONDS)
            except SessionLost as error:
                self._end(str(error))
                return
            finally:
                stream.cancel()

    async def _beat(self, stream: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        sent_at = system.now()
        async with asyncio.timeout(self.lease / BEATS_PER_LEASE):
            await stream.write(api.number(1, self._id))
            answer = await stream.read()
        if not isinstance(answer, bytes):
            raise TimeoutError
        with sensible(self._channel):
            left = api.lease(answer).seconds
        if left <= 0:
            raise SessionLost(ENDED)
        self._told.renewed(sent_at)

    def _end(self, reason: str) -> None:
        if not self._lost:
            self._lost = reason
            self._watches.wake_all()
            self._told.lost(reason)

    def _refuse(self, error: ConfigError) -> None:
        """Give up where watches are refused: waits would not end."""
        self._refusal = error
        self._ready.set()
        self._end(str(error))

    # Entries

    async def join(self, ticket: Ticket, author: Author, leaving: Ticket | None) -> int | None:
        """Create our key and read the head of the queue in one transaction.

        Where the key is there already, an earlier request whose answer was lost has created it.
        """
        key, way = self._key(ticket), _way(ticket)
        read_last = api.chunk(1, api.get(*way, limit=2, order=api.DESCENDING, keys_only=True))
        then = [read_last, api.chunk(2, api.put(key, _encode_author(author), self._id))]
        if leaving is not None:
            then[:0] = self._leaves(leaving)
        read_own = api.chunk(1, api.get(key, keys_only=True))
        compare = [api.absent(key), api.absent(self._abandoned(ticket))]
        try:
            written = await self._call("KV/Txn", api.transaction(compare, then, [read_own]))
        except BaseException:
            self._doubtful.add(ticket)
            raise
        if leaving is not None:
            self._forget(leaving)
        with sensible(self._channel):
            answer = api.done(written)
            (read,) = answer.reads
            if not answer.succeeded:
                # Others may stand behind an entry that has been there before: `wait` has to look.
                self._created[ticket] = Created(read[0].created)
                return None
            number = answer.revision
            self._created[ticket] = Created(number, read[0].key if read else b"", len(read) == 1)
            return None if read else number

    async def wait(self, ticket: Ticket) -> int:
        """Wait for the end of the nearest entry in our way, then look for one before it.

        Nothing joins before us. So where the nearest entry was the only one in our way, or had the lock
        for itself, there is none in our way when it has gone.
        """
        number, near, alone = self._created[ticket]
        seen = number  # a revision in which `near` was there
        while True:
            if not near:
                seen, near, alone = await self._nearest(ticket, number, seen)
                if not near:
                    return number
            with sensible(self._channel):
                waiting = await self._watches.until_deleted(near)
            try:
                if await waiting.since() > seen:
                    # It may have gone before the watch began, which would then be silent.
                    seen, still, alone = await self._nearest(ticket, number, seen)
                    if still != near:
                        near = still
                        if not near:
                            return number
                        continue
                async with self._watching(near):
                    gone = await waiting.ended
            finally:
                waiting.give_up()
            self._check()
            if gone.revision and gone.passed_on and b":x." in near:
                return number
            if gone.revision and alone:
                await self._check_entry(ticket, gone.revision)
                return number
            seen, near = max(seen, gone.revision), b""

    async def _nearest(self, ticket: Ticket, number: int, seen: int) -> tuple[int, bytes, bool]:
        """Read the nearest entry in our way, in which revision it was there, and if it is the only one.

        One member may lag behind. What it says counts only if it has seen our own entry, and the
        event that made us look; or else another holder might be hidden, or one that has gone be
        waited for.
        """
        start, end = _way(ticket)
        answer = await self._read_since(seen, start, end, limit=2, created_before=number)
        seen = max(seen, answer.revision)
        if not answer.keys:
            await self._check_entry(ticket, seen)
            return seen, b"", False
        return seen, answer.keys[0].key, len(answer.keys) == 1

    async def _check_entry(self, ticket: Ticket, seen: int) -> None:
        """End the session if our entry, which nothing is in the way of, is gone: etcd has ended the lease."""
        answer = await self._read_since(seen, self._key(ticket), b"", limit=1)
        if not answer.keys:
            self._end(ENDED)
            raise SessionLost(self._lost)

    async def _read_since(
        self, seen: int, start: bytes, end: bytes, *, limit: int, created_before: int = 0
    ) -> FoundKey:
        """Read the last keys of a range at the member that is asked, or at the leader if that one lags behind."""
        for serializable in (True, False):
            request = api.get(
                start,
                end,
                limit=limit,
                order=api.DESCENDING,
                created_before=created_before,
                serializable=serializable,
                keys_only=True,
            )
            written = await self._call("KV/Range", request)
            with sensible(self._channel):
                answer = api.found(written)
            if answer.revision >= seen:
                break
        return answer

    # The end of others, seen on this machine

    async def live(self, life: str) -> None:
        """Write down by which processes we are known; it goes with our lease."""
        await self._call(
            "KV/Put", api.put(LIVES + f"{self._id:x}".encode(), life.encode(), self._id)
        )

    def _watching(self, key: bytes) -> AbstractAsyncContextManager[None]:
        """Watch the program that a key belongs to, by the lease in its name."""
        with sensible(self._channel):
            lease = key.split(b".")[-2]
            name = f"{self._channel}: the program of lease {int(lease, 16):x}"
        find, end = partial(self._find_life, lease), partial(self._revoke, lease)
        return watched(name, self.lease, find, end)

    async def _find_life(self, lease: bytes) -> str:
        if lease not in self._lives:
            found = await self._read(LIVES + lease, b"")
            if not found:
                return ""
            if len(self._lives) >= KNOWN_MAX:
                self._lives.clear()
            self._lives[lease] = found[0].value.decode("utf-8", "replace")
        return self._lives[lease]

    async def _revoke(self, lease: bytes) -> None:
        """End the lease of a program that is dead, with all its keys; etcd never gives its number again.

        What the program has sent before and is still on its way goes with that lease, so it is refused.
        """
        await self._call("Lease/LeaseRevoke", api.number(1, int(lease, 16)))

    async def leave(self, ticket: Ticket) -> None:
        """Delete our key."""
        delete = api.delete(self._key(ticket))
        if ticket in self._created and ticket not in self._doubtful:
            await self._call("KV/DeleteRange", delete)
        else:
            try:
                await self._call("KV/Txn", api.transaction([], self._leaves(ticket)))
            except Unavailable:  # a server that is full takes no marks
                await self._call("KV/DeleteRange", delete)
                raise
        self._forget(ticket)

    def _leaves(self, ticket: Ticket) -> list[bytes]:
        """Return the operations that delete our key for good.

        Where a join was not answered, its request may still be under way and arrive later than this one, also if
        another one has created the key. A mark, which goes with our lease, then stops it.
        """
        operations = [api.chunk(3, api.delete(self._key(ticket)))]
        if ticket in self._doubtful or ticket not in self._created:
            operations.append(api.chunk(2, api.put(self._abandoned(ticket), b"", self._id)))
        return operations

    def _forget(self, ticket: Ticket) -> None:
        self._created.pop(ticket, None)
        self._doubtful.discard(ticket)

    # Questions

    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        """Read queues; each lock is read at one revision."""
        if locks is None:
            return _divided(await self._read(QUEUES, after(QUEUES)))
        found = {}
        for lock in locks:
            start = _queue(lock)
            found.update(_divided(await self._read(start, after(start))))
        return found

    async def _read(self, key: bytes, end: bytes) -> list[KeyValue]:
        request = api.get(key, end, order=api.ASCENDING)
        answer = await self._call("KV/Range", request)
        with sensible(self._channel):
            return api.found(answer).keys

    async def send(self, participant: str, letter: bytes) -> None:
        """Put a letter where its reader watches; it goes with our lease if it is never read."""
        key = MAILBOXES + f"{participant}/{self._name}.{next(self._letters)}".encode()
        await self._call("KV/Put", api.put(key, letter, self._id))

    def _look_for_mail(self) -> None:
        """Read what has come while no stream was there."""
        self._ready.set()
        self._tasks.run(self._read_mail())

    async def _read_mail(self) -> None:
        was_here = self._is_here
        with contextlib.suppress(CoterieError, SessionLost):
            found = {letter.key: letter.value for letter in await self._read(*self._mailbox)}
            if was_here and self._here not in found:
                self._end(ENDED)
            for key, letter in found.items():
                await self._open(key, letter)

    def _receive(self, change: KeyChange) -> None:
        if change.deleted:
            if change.key == self._here:
                self._end(ENDED)
        else:
            self._tasks.run(self._open(change.key, change.value))

    async def _open(self, key: bytes, letter: bytes) -> None:
        """Take a letter out; the one that has deleted it reads it, so it is read once."""
        if key.startswith(self._mailbox[0] + HERE):
            return
        with contextlib.suppress(CoterieError, SessionLost):
            answer = await self._call("KV/DeleteRange", api.delete(key))
            with sensible(self._channel):
                is_ours = bool(dict(api.fields(answer)).get(2))
            if is_ours:
                self._told.mail(letter)

    # Calls

    async def _call(self, method: str, request: bytes) -> bytes:
        self._check()
        try:
            return await self._channel.call(method, request, self._limit)
        except SessionLost as error:
            self._end(str(error))
            raise

    def _check(self) -> None:
        if self._lost:
            raise SessionLost(self._lost)

    def _key(self, ticket: Ticket) -> bytes:
        mode = "s" if ticket.shared else "x"
        return _queue(ticket.lock) + f"{mode}.{self._id:x}.{ticket.attempt}".encode()

    def _find_entry(self, ticket: Ticket) -> tuple[bytes, int] | None:
        """Return the key of an entry, and the revision in which it was created, as far as that is known."""
        known = self._created.get(ticket)
        return None if known is None else (self._key(ticket), known.number)

    def _abandoned(self, ticket: Ticket) -> bytes:
        return ABANDONED + f"{self._id:x}.{ticket.attempt}".encode()


def _queue(lock: str) -> bytes:
    """Return how the keys of a lock begin: no other lock's do."""
    return QUEUES + f"{quote(lock)}:".encode()


def _way(ticket: Ticket) -> tuple[bytes, bytes]:
    """Return the range of the keys that can be in the way: for a sharer only exclusive ones."""
    start = _queue(ticket.lock) + (b"x." if ticket.shared else b"")
    return start, after(start)


def _divided(keys: Sequence[KeyValue]) -> dict[str, list[QueueEntry]]:
    """Sort entries, which are in the order of creation, into the queues of their locks."""
    lines: dict[str, list[tuple[bool, KeyValue]]] = {}
    for found in keys:
        lock, _, rest = found.key[len(QUEUES) :].decode(errors="replace").partition(":")
        lines.setdefault(unquote(lock), []).append((rest.startswith("s."), found))
    return {lock: _entries(line) for lock, line in lines.items()}


def _entries(line: Sequence[tuple[bool, KeyValue]]) -> list[QueueEntry]:
    count = inside([shared for shared, _ in line])
    return [
        QueueEntry(read_author(found.value), shared, position < count, found.created)
        for position, (shared, found) in enumerate(line)
    ]
