"""A session with Redis or Valkey: a key that expires, entries in sorted sets, and a channel for news."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import TYPE_CHECKING, Any

import msgspec
from redis import asyncio as client
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from coterie import system
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.server import Author, QueueEntry, ServerNode, SessionLost
from coterie.engines.queue.url import TLS_PARAMETERS, parse_server_url
from coterie.engines.redis import scripts
from coterie.errors import ConfigError, CoterieError, Unavailable, UsageError
from coterie.system.aio import Tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from coterie.engines.queue.server import SessionListener, Ticket
    from coterie.engines.queue.url import ServerUrl

VERSION_MIN = (6, 2)
LEASE_SECONDS_MIN = 0.5
BEATS_PER_LEASE = 3
CALL_SECONDS_MAX = 5.0
RETRY_SECONDS = 0.1
LOOK_SECONDS_MIN = 0.01  # after the end of a lease that is waited for
SECURE = ("rediss", "valkeys")

# A replica that may be promoted, a start, a full memory; then a full disk, and a lack of replicas.
PASSING = (exceptions.ReadOnlyError, exceptions.BusyLoadingError, exceptions.OutOfMemoryError)
PASSING_CODES = ("MISCONF ", "NOREPLICAS ")

# uvloop raises RuntimeError where asyncio raises OSError: at the use of a connection that was reset.
FAILURES = (OSError, RuntimeError, exceptions.RedisError)

logger = logging.getLogger("coterie.engines")

_decode_author = msgspec.msgpack.Decoder(Author).decode
_encode_author = msgspec.msgpack.Encoder().encode


def make_engine(url: str) -> QueueEngine:
    """Return the engine of a program that takes locks on Redis or Valkey."""
    parsed = parse_server_url(url, port=6379, parameters=TLS_PARAMETERS)
    if len(parsed.addresses) > 1:
        raise UsageError(
            f"{parsed.scheme}://{parsed.shown}: locks are kept by one server; for several machines use coterie://"
        )
    return QueueEngine(RedisServer(parsed), deadlock_detection=parsed.detects)


class RedisServer:
    """One Redis or Valkey."""

    lease_min = LEASE_SECONDS_MIN

    def __init__(self, url: ServerUrl) -> None:
        """Remember where it is; raise `UsageError` where a path is not the number of a database."""
        if url.path and not url.path.isdecimal():
            raise UsageError(
                f"{url.scheme}://{url.shown}: expected the number of a database after the address, as in"
                f" {url.scheme}://host:6379/0, got {url.path!r}"
            )
        self.lease = max(url.lease, self.lease_min)
        self._url = url
        self._warned = False

    def __str__(self) -> str:
        """Name the server for people."""
        return f"{self._url.scheme} at {self._url.shown}"

    async def open(self, participant: str, told: SessionListener, lease: float) -> RedisSession:
        """Begin a session, if the server is one that can keep locks."""
        connection = RedisConnection(self)
        try:
            info = await connection.connect()
            self._check(info)
        except BaseException:
            await connection.close()
            raise
        session = RedisSession(connection, participant, told, lease)
        try:
            await session.start(float(info.get("uptime_in_seconds", 0)))
        except BaseException:
            await session.close()
            raise
        return session

    async def nodes(self) -> list[ServerNode]:
        """Ask the server what it is."""
        connection = RedisConnection(self)
        try:
            info = await connection.connect()
        except Unavailable as error:
            return [ServerNode(self._url.shown, trouble=str(error).removeprefix(f"{self}: "))]
        finally:
            await connection.close()
        known = info.get("valkey_version") or info.get("redis_version", "")
        role = "replica" if info.get("role") == "slave" else "primary"
        return [ServerNode(self._url.shown, str(known), role)]

    def client(self, *, alone: bool) -> client.Redis:
        """Make a client which does not try again by itself; `alone` with one connection.

        A connection that is made again without a word may lead to another run of the server.
        """
        url = self._url
        host, port = url.addresses[0]
        tls: dict[str, Any] = {}
        if url.scheme in SECURE:
            tls = {
                "ssl": True,
                "ssl_ca_certs": url.tls_file("ca") or None,
                "ssl_certfile": url.tls_file("certificate") or None,
                "ssl_keyfile": url.tls_file("key") or None,
            }
        return client.Redis(
            host=host,
            port=port,
            db=int(url.path or 0),
            username=url.user or None,
            password=url.secret or None,
            retry=Retry(NoBackoff(), 0),
            # A connection has limits of its own, which cost less.
            socket_timeout=None if alone else CALL_SECONDS_MAX,
            socket_connect_timeout=CALL_SECONDS_MAX,
            single_connection_client=alone,
            **tls,
        )

    def error(self, error: Exception) -> CoterieError:
        """Say what an error of a call means."""
        if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError):
            return ConfigError(f"{self}: refused: {error}")
        if isinstance(error, exceptions.ResponseError) and not _passes(error):
            return ConfigError(f"{self}: {error}")
        if isinstance(error, TimeoutError):
            return Unavailable(f"{self}: no answer in {CALL_SECONDS_MAX:g} s")
        if isinstance(error, RuntimeError):
            return Unavailable(f"{self}: the connection was reset")
        cause = error.__cause__ or error.__context__
        if isinstance(cause, OSError) and (cause.errno or 0) > 0:
            return Unavailable(f"{self}: {os.strerror(cause.errno or 0)}")
        return Unavailable(f"{self}: {error!s}")

    def _check(self, info: dict[str, Any]) -> None:
        """Refuse a server that cannot keep locks, and warn of one that may lose them."""
        known = str(info.get("redis_version", "0"))
        version = tuple(int(part) for part in known.split(".")[:2] if part.isdigit())
        if version < VERSION_MIN:
            raise ConfigError(f"{self}: version {known} is too old; locks need 6.2 or newer")
        if info.get("role") == "slave":
            raise ConfigError(f"{self}: it is a replica; name the primary")
        policy = info.get("maxmemory_policy", "noeviction")
        if info.get("maxmemory", 0) and policy != "noeviction":
            raise ConfigError(
                f"{self}: it may evict locks when its memory is full (maxmemory-policy {policy});"
                " set it to noeviction, or use another server for locks"
            )
        if info.get("connected_slaves", 0) and not self._warned:
            self._warned = True
            logger.warning(
                "%s has replicas: a failover may lose locks that are held, and then two programs hold"
                " one at the same time. Where that must not be, use etcd:// or coterie://",
                self,
                extra={"event": "replicas-found"},
            )


class RedisConnection:
    """A connection to the server, which is made again only when that is asked for."""

    def __init__(self, server: RedisServer) -> None:
        """Prepare; `connect` calls the server."""
        self.server = server
        self.number = 0  # counts the connections
        self.run = ""  # of the server that we are connected to
        self._client: client.Redis | None = None
        self._turn = asyncio.Lock()

    async def connect(self) -> dict[str, Any]:
        """Connect, and return what the server says about itself."""
        await self.close()
        made = self.server.client(alone=True)
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                info: dict[str, Any] = await made.info()
        except BaseException as error:
            await made.aclose()
            if isinstance(error, FAILURES):
                raise self.server.error(error) from None
            raise
        self._client = made
        self.number += 1
        self.run = str(info["run_id"])
        return info

    async def close(self) -> None:
        """Disconnect."""
        gone, self._client = self._client, None
        if gone is not None:
            with contextlib.suppress(*FAILURES):
                await gone.aclose()

    @property
    def is_up(self) -> bool:
        """Whether no call has failed since it was connected."""
        return self._client is not None

    async def publish(self, channel: str, message: bytes) -> None:
        """Publish a message; it reaches those that listen now."""
        await self._use(lambda made: made.publish(channel, message))

    async def run_script(self, script: scripts.Script, *arguments: str | bytes | float) -> Any:
        """Run a script, and return what it returns."""

        async def run(made: client.Redis) -> Any:
            try:
                return await made.evalsha(script.digest, 0, *arguments)
            except exceptions.NoScriptError:
                return await made.eval(script.text, 0, *arguments)

        return await self._use(run)

    async def _use(self, call: Callable[[client.Redis], Awaitable[Any]]) -> Any:
        """Make a call over the connection as it is.

        The client would connect again by itself after a failure, also one that is a cancellation, and
        perhaps to another run of the server. So it is not used any more then, and calls that have
        waited for their turn fail.
        """
        wanted = self._client
        async with self._turn:
            if self._client is not wanted or wanted is None:
                raise Unavailable(f"{self.server}: not connected")
            try:
                async with asyncio.timeout(CALL_SECONDS_MAX):
                    return await call(wanted)
            except exceptions.ResponseError as error:
                raise self.server.error(error) from None
            except BaseException as error:
                await self.close()
                # The client raises KeyError for a call that was under way when it was closed.
                if isinstance(error, (*FAILURES, KeyError)):
                    raise self.server.error(error) from None
                raise


class RedisEntry:
    """An entry of ours: whether there is news, and when to look without any."""

    def __init__(self) -> None:
        """Begin before the join is sent: news may come before its answer."""
        self.news = asyncio.Event()
        self.patience = 0  # milliseconds until the lease of an entry before us may have run out


class RedisSession:
    """One session, with its entries in queues."""

    def __init__(
        self, connection: RedisConnection, participant: str, told: SessionListener, lease: float
    ) -> None:
        """Begin on a connection that is connected; `start` announces the session."""
        self.lease = lease
        self._connection = connection
        self._name = participant
        self._told = told
        self._session = system.secret(8).hex()
        self._run_id = connection.run
        self._lost = ""
        self._tickets: dict[Ticket, RedisEntry] = {}
        self._ready = asyncio.Event()
        self._trouble = "no answer"  # with the channel
        self._connecting = asyncio.Lock()
        self._calls: dict[asyncio.Task[Any], None] = {}  # that go on if their callers do not
        self._tasks = Tasks()

    async def start(self, up_seconds: float) -> None:
        """Announce the session, renew it from now on, and listen to news."""
        self._tasks.run(self._listen())
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                await self._ready.wait()
        except TimeoutError:
            raise Unavailable(
                f"{self._connection.server}: no channel could be subscribed to: {self._trouble}"
            ) from None
        sent_at = system.now()
        milliseconds = int(self.lease * 1000)
        await self._connection.run_script(
            scripts.OPEN,
            self._session,
            self._connection.number,
            milliseconds,
            max(milliseconds, int(self._connection.server.lease * 1000)),
            self._run_id,
            int(up_seconds * 1000),
        )
        self._told.renewed(sent_at)
        self._tasks.run(self._renew())

    async def close(self) -> None:
        """End the session and take its entries away."""
        self._lost = self._lost or "it was closed"
        tasks, calls = self._tasks.cancel(), list(self._calls)
        try:
            # What is under way keeps the connection: a call that is cancelled would cost it.
            await asyncio.gather(*tasks, *calls, return_exceptions=True)
            entries = [
                part for ticket in self._tickets for part in (ticket.lock, self._member(ticket))
            ]
            with contextlib.suppress(CoterieError):
                await self._connection.run_script(
                    scripts.CLOSE, self._session, self._connection.number, *entries
                )
        finally:
            for call in calls:
                call.cancel()
            await self._connection.close()

    # The lease

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(
                self.lease / BEATS_PER_LEASE if self._connection.is_up else RETRY_SECONDS
            )
            sent_at = system.now()
            try:
                kept = await self._call_to_the_end(scripts.RENEW, int(self.lease * 1000))
            except SessionLost:
                return
            except CoterieError:
                continue
            if not kept:
                self._end("its lease has run out at the server")
                return
            self._told.renewed(sent_at)

    def _end(self, reason: str) -> None:
        if not self._lost:
            self._lost = reason
            for entry in self._tickets.values():
                entry.news.set()
            self._told.lost(reason)

    # Entries

    async def join(self, ticket: Ticket, author: Author, leaving: Ticket | None) -> int | None:
        """Enter the queue."""
        entry = self._tickets[ticket] = RedisEntry()
        number, entry.patience = await self._call(
            scripts.JOIN,
            ticket.lock,
            self._member(ticket),
            _encode_author(author),
            self._member(leaving) if leaving is not None else "",
        )
        if leaving is not None:
            self._tickets.pop(leaving, None)
        return self._checked(number) or None

    async def wait(self, ticket: Ticket) -> int:
        """Look whenever there is news, and when the lease of an entry inside may have run out."""
        entry = self._tickets[ticket]
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(entry.patience / 1000 + LOOK_SECONDS_MIN):
                    await entry.news.wait()
            entry.news.clear()
            number, entry.patience = await self._call_to_the_end(
                scripts.LOOK, ticket.lock, self._member(ticket)
            )
            if self._checked(number):
                return int(number)

    async def leave(self, ticket: Ticket) -> None:
        """Take an entry away."""
        self._checked(await self._call(scripts.LEAVE, ticket.lock, self._member(ticket)))
        self._tickets.pop(ticket, None)

    def _checked(self, number: int) -> int:
        if number < 0:
            self._end("its lease has run out at the server")
            raise SessionLost(self._lost)
        return number

    # Questions

    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        """Read queues, all at one moment."""
        if locks is not None and not locks:
            return {}
        found = await self._connection.run_script(scripts.LINES, *(locks or ()))
        return {
            lock.decode(): [
                QueueEntry(
                    _decode_author(author), member.startswith(b"s."), bool(within), int(number)
                )
                for member, number, author, within in entries
            ]
            for lock, entries in found
        }

    async def send(self, participant: str, letter: bytes) -> None:
        """Publish a letter on the channel of its reader."""
        await self._connection.publish(_channel(participant), b"m" + letter)

    # News

    async def _listen(self) -> None:
        """Keep a subscription; after each gap all that wait look for themselves."""
        while True:
            ear = self._connection.server.client(alone=False)
            try:
                async with ear.pubsub() as channel:
                    await channel.subscribe(_channel(self._name), _channel(self._session))
                    await self._follow(channel)
            except FAILURES as error:
                self._trouble = str(error)
                await asyncio.sleep(RETRY_SECONDS)
            finally:
                with contextlib.suppress(*FAILURES):
                    await ear.aclose()

    async def _follow(self, channel: client.client.PubSub) -> None:
        """Hear what is published, until the connection is silent although it was called."""
        asked = False
        while True:
            message = await channel.get_message(timeout=self.lease / BEATS_PER_LEASE)
            if message is not None:
                asked = False
                self._hear(message)
            elif asked:
                raise TimeoutError("the connection is dead")
            else:
                asked = True
                await channel.ping()

    def _hear(self, message: dict[str, Any]) -> None:
        if message["type"] == "subscribe":
            self._ready.set()
            for entry in self._tickets.values():
                entry.news.set()
        elif message["type"] == "message":
            data: bytes = message["data"]
            if data[:1] == b"m":
                self._told.mail(data[1:])
                return
            lock = data[1:].decode(errors="replace")
            for ticket, entry in self._tickets.items():
                if ticket.lock == lock:
                    entry.news.set()

    # Calls

    async def _call(self, script: scripts.Script, *arguments: str | bytes | float) -> Any:
        """Run a script in the name of this session, on a connection to the server that it began with."""
        if self._lost:
            raise SessionLost(self._lost)
        if not self._connection.is_up:
            async with self._connecting:
                if not self._connection.is_up:
                    await self._connection.connect()
            if self._connection.run != self._run_id:
                # It may have come up with an older state, in which our entries are not.
                self._end("the server was restarted")
                raise SessionLost(self._lost)
        return await self._connection.run_script(
            script, self._session, self._connection.number, *arguments
        )

    async def _call_to_the_end(
        self, script: scripts.Script, *arguments: str | bytes | float
    ) -> Any:
        """Run a script which, if the caller is cancelled, goes on without it: or it would cost the connection."""
        call = asyncio.ensure_future(self._call(script, *arguments))
        self._calls[call] = None
        call.add_done_callback(self._end_call)
        return await asyncio.shield(call)

    def _end_call(self, call: asyncio.Task[Any]) -> None:
        del self._calls[call]
        if not call.cancelled():
            call.exception()  # it was told to the one that has asked, if that is still there

    def _member(self, ticket: Ticket) -> str:
        return f"{'s' if ticket.shared else 'x'}.{self._session}.{ticket.attempt}"


def _passes(error: exceptions.ResponseError) -> bool:
    """Return True if the server may do the same again later, without a change of its configuration."""
    return isinstance(error, PASSING) or str(error).startswith(PASSING_CODES)


def _channel(participant: str) -> str:
    return "{coterie}:c:" + participant
