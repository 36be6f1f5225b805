"""A session with Redis or Valkey: a counter that its process moves on, entries in sorted sets, a channel for news.

No clock of the server takes part in what is promised. Its process counts the lease of a session from the sending
of a renewal, and others remove the session when they have seen its counter unchanged for longer than that. The
server is one run of it: after a restart, or when it was emptied, it is closed until all leases from before are over,
which is counted in the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from typing import TYPE_CHECKING, Any

import msgspec
from redis import asyncio as client
from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from coterie import system
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.nonsense import NONSENSE, describe, read_author, sensible
from coterie.engines.queue.observation import LOOKS_PER_LEASE, PAST, Observations
from coterie.engines.queue.server import QueueEntry, ServerNode, SessionLost
from coterie.engines.queue.url import TLS_PARAMETERS, WITNESS, parse_server_url
from coterie.engines.queue.witness import Witness
from coterie.engines.redis import scripts
from coterie.engines.redis.examination import OVERLAP, examine_views
from coterie.engines.redis.sentinel import (
    PASSWORD,
    PASSWORD_VARIABLE,
    PrimaryAddress,
    Sentinels,
)
from coterie.engines.redis.values import RedisValues
from coterie.errors import ConfigError, CoterieError, Unavailable, UsageError
from coterie.locks.legible import legible
from coterie.system.aio import Calls, Tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from coterie.engines.queue.server import Author, SessionListener, Ticket
    from coterie.engines.queue.url import ServerUrl
    from coterie.locks.status import ServiceFinding

VERSION_MIN = (6, 2)
LEASE_SECONDS_MIN = 0.5
BEATS_PER_LEASE = 3
CALL_SECONDS_MAX = 5.0
RETRY_SECONDS = 0.1
LAPSED = "it was removed: its lease has run out for those who wait, an operator has ended it, or the server has lost it"
CLOSED = "it was restarted or emptied"
GONE = -1  # what a script answers whose session is over
SECURE = ("rediss", "valkeys", "rediss+sentinel", "valkeys+sentinel")
SENTINEL = "+sentinel"

# A replica that may be promoted, a start, a full memory; then a script of others that takes long, a replica without
# its primary, a full disk, and a lack of replicas. Before version 7 a script quotes the error of its command.
PASSING = (exceptions.ReadOnlyError, exceptions.BusyLoadingError, exceptions.OutOfMemoryError)
PASSING_CODES = re.compile(
    r"(BUSY|MASTERDOWN|MISCONF|NOREPLICAS) "
    r"|ERR Error running script .*: -(LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY) "
)

# uvloop raises RuntimeError where asyncio raises OSError: at the use of a connection that was reset.
FAILURES = (OSError, RuntimeError, exceptions.RedisError)

logger = logging.getLogger("coterie.engines")

_encode_author = msgspec.msgpack.Encoder().encode


def make_engine(url: str) -> QueueEngine:
    """Return the engine of a program that takes locks on Redis or Valkey."""
    is_watched = url.partition(":")[0].lower().endswith(SENTINEL)
    port = 26379 if is_watched else 6379
    passwords = (PASSWORD,) if is_watched else ()
    parsed = parse_server_url(url, port=port, parameters=(*TLS_PARAMETERS, WITNESS, *passwords))
    if len(parsed.addresses) > 1 and not is_watched:
        raise UsageError(
            f"{parsed.scheme}://{parsed.shown}: locks are kept by one server; for several machines use coterie://,"
            f" or {parsed.scheme}+sentinel:// and the addresses of sentinels"
        )
    return QueueEngine(
        RedisServer(parsed), deadlock_detection=parsed.detects, witness=parsed.is_seen
    )


class RedisServer:
    """One Redis or Valkey."""

    lease_min = LEASE_SECONDS_MIN

    def __init__(self, url: ServerUrl) -> None:
        """Remember where it is; raise `UsageError` where a path is not the number of a database."""
        name, _, database = (
            url.path.partition("/") if url.scheme.endswith(SENTINEL) else ("", "", url.path)
        )
        if url.scheme.endswith(SENTINEL) and not name:
            raise UsageError(
                f"{url.scheme}://{url.shown}: expected the name by which the sentinels know the primary after the"
                f" addresses, as in {url.scheme}://a:26379,b:26379,c:26379/mymaster"
            )
        if database and not database.isdecimal():
            raise UsageError(
                f"{url.scheme}://{url.shown}: expected the number of a database after the address, as in"
                f" {url.scheme}://host:6379/0, got {url.path!r}"
            )
        self.lease = url.lease_from(self.lease_min)
        self.known = 0  # the highest number that this process was given
        self._url = url
        self._database = int(database or 0)
        self._primary = PrimaryAddress(*url.addresses[0])
        self._sentinels = (
            Sentinels(str(self), url.addresses, name, self._client_of_sentinel) if name else None
        )
        self._warned = False
        self._observed: dict[str, Observations] = {}  # by participant

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
        # What was seen of others in a former session stays true.
        observed = self._observed.setdefault(participant, Observations())
        session = RedisSession(connection, participant, told, lease, observed)
        try:
            await session.start()
        except BaseException:
            await session.close()
            raise
        return session

    async def locate(self) -> PrimaryAddress:
        """Return where the primary is now, for clients that are made from then on."""
        if self._sentinels is not None:
            self._primary = await self._sentinels.primary()
        return self._primary

    def run_of(self, info: dict[str, Any]) -> str:
        """Return the run of the server; each promotion of a replica begins another one."""
        run = str(info["run_id"])
        return run if self._sentinels is None else f"{run}/{info['master_replid']}"

    async def nodes(self) -> list[ServerNode]:
        """Ask the server what it is."""
        connection = RedisConnection(self)
        try:
            info = await connection.connect()
        except Unavailable as error:
            return [ServerNode(self._shown, trouble=str(error).removeprefix(f"{self}: "))]
        finally:
            await connection.close()
        known = info.get("valkey_version") or info.get("redis_version", "")
        role = "replica" if info.get("role") == "slave" else "primary"
        return [ServerNode(self._shown, str(known), role)]

    async def examine(self) -> list[ServiceFinding]:
        """Look at the sentinels, and at what a failover would cost."""
        if self._sentinels is not None:
            return examine_views(await self._sentinels.views())
        connection = RedisConnection(self)
        try:
            info = await connection.connect()
        except CoterieError:  # its node shows that
            return []
        finally:
            await connection.close()
        return [OVERLAP] if info.get("connected_slaves", 0) else []

    @property
    def _shown(self) -> str:
        """The server, for people: as the URL names it, or the sentinels."""
        return self._url.shown if self._sentinels is None else str(self._primary)

    def client(self, *, alone: bool) -> Redis:
        """Make a client which does not try again by itself; `alone` with one connection.

        A connection that is made again without a word may lead to another run of the server.
        """
        url = self._url
        return self._client(
            self._primary, url.user, url.secret, database=self._database, alone=alone
        )

    def _client_of_sentinel(self, host: str, port: int) -> Redis:
        password = self._url.parameters.get(PASSWORD) or os.environ.get(PASSWORD_VARIABLE, "")
        return self._client(PrimaryAddress(host, port), "", password)

    def _client(
        self,
        address: PrimaryAddress,
        user: str,
        password: str,
        *,
        database: int = 0,
        alone: bool = False,
    ) -> Redis:
        """Make a client of the server at an address, or of a sentinel, which has no databases."""
        url = self._url
        tls: dict[str, Any] = {}
        if url.scheme in SECURE:
            tls = {
                "ssl": True,
                "ssl_check_hostname": True,  # before redis-py 6 any certificate of an authority that is known would do
                "ssl_ca_certs": url.tls_file("ca") or None,
                "ssl_certfile": url.tls_file("certificate") or None,
                "ssl_keyfile": url.tls_file("key") or None,
            }
        return Redis(
            host=address.host,
            port=address.port,
            db=database,
            username=user or None,
            password=password or None,
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
        text = f"an answer makes no sense: {describe(error)}"
        return Unavailable(f"{self}: {text if isinstance(error, NONSENSE) else error!s}")

    def _check(self, info: dict[str, Any]) -> None:
        """Refuse a server that cannot keep locks, and warn of one that may lose them."""
        known = str(info.get("redis_version", "0"))
        version = tuple(int(part) for part in known.split(".")[:2] if part.isdigit())
        if version < VERSION_MIN:
            raise ConfigError(f"{self}: version {known} is too old; locks need 6.2 or newer")
        if info.get("role") == "slave" and self._sentinels is not None:
            raise Unavailable(f"{self}: {self._primary} is a replica still, or again")
        if info.get("role") == "slave":
            raise ConfigError(f"{self}: it is a replica; name the primary")
        policy = info.get("maxmemory_policy", "noeviction")
        if info.get("maxmemory", 0) and policy != "noeviction":
            raise ConfigError(
                f"{self}: it may evict locks when its memory is full (maxmemory-policy {policy});"
                " set it to noeviction, or use another server for locks"
            )
        if info.get("connected_slaves", 0) and not self._warned and self._sentinels is None:
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
        self.address = PrimaryAddress("", 0)
        self.located_at = 0.0  # when it was asked where the primary is
        self._client: Redis | None = None
        self._turn = asyncio.Lock()

    async def connect(self) -> dict[str, Any]:
        """Connect, and return what the server says about itself."""
        await self.close()
        self.located_at = system.now()
        self.address = await self.server.locate()
        made = self.server.client(alone=True)
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                info: dict[str, Any] = await made.info()
                run = self.server.run_of(info)
        except BaseException as error:
            await made.aclose()
            if isinstance(error, (*FAILURES, *NONSENSE)):
                raise self.server.error(error) from None
            raise
        self._client = made
        self.number += 1
        self.run = run
        return info

    async def confirm(self) -> None:
        """Make sure that this is still the primary; disconnect if it is not."""
        if await self.server.locate() != self.address:
            await self.close()
            raise Unavailable(f"{self.server}: another server is the primary now")

    async def close(self) -> None:
        """Disconnect."""
        gone, self._client = self._client, None
        if gone is not None:
            with contextlib.suppress(*FAILURES, *NONSENSE):
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

        async def run(made: Redis) -> Any:
            try:
                return await made.evalsha(script.digest, 0, *arguments)
            except exceptions.NoScriptError:
                return await made.eval(script.text, 0, *arguments)

        return await self._use(run)

    async def _use(self, call: Callable[[Redis], Awaitable[Any]]) -> Any:
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
                if isinstance(error, (*FAILURES, *NONSENSE)):
                    raise self.server.error(error) from None
                raise


class RedisSession:
    """One session, with its entries in queues."""

    carries = True

    def __init__(
        self,
        connection: RedisConnection,
        participant: str,
        told: SessionListener,
        lease: float,
        observed: Observations,
    ) -> None:
        """Begin on a connection that is connected; `start` announces the session."""
        self.lease = lease
        self._connection = connection
        self._name = participant
        self._told = told
        self._session = system.secret(8).hex()  # never used again
        self._run_id = connection.run
        self._counter = 1
        self._unconfirmed = 0  # renewals that may have been carried out
        self._lost = ""
        self._tickets: dict[Ticket, asyncio.Event] = {}  # each with its news
        self._waiting: set[Ticket] = set()
        self._observed = observed  # the sessions before our entries, and the past
        self._neighbours = Observations()  # the next sessions in the order of names
        self._witness = Witness(str(connection.server), lease, self._lives, self._bury_dead)
        self._looked_at = 0.0
        self._past_seconds = 0.0  # the longest lease from before, while the server is closed
        self._seen = asyncio.Event()  # there is something else to observe
        self._ready = asyncio.Event()
        self._trouble = "no answer"  # with the channel
        self._connecting = asyncio.Lock()
        self._calls = Calls()
        self._tasks = Tasks()
        self.values = RedisValues(connection.server, self._ask, self._call_to_the_end, self._member)

    async def start(self) -> None:
        """Announce the session, renew it from now on, and listen to news."""
        self._tasks.run(self._listen())
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                await self._ready.wait()
        except TimeoutError:
            raise Unavailable(
                f"{self._connection.server}: no channel could be subscribed to: {self._trouble}"
            ) from None
        sent_at = self._connection.located_at
        milliseconds = int(self.lease * 1000)
        answer = await self._connection.run_script(
            scripts.OPEN,
            self._session,
            self._connection.number,
            milliseconds,
            max(milliseconds, int(self._connection.server.lease * 1000)),
            self._run_id,
            self._connection.server.known,
            self._name,
        )
        with sensible(self._connection.server):
            closed, longest = answer
            self._told.renewed(sent_at)
            self._learn_of_past(closed, longest)
        self._tasks.run(self._renew())
        self._tasks.run(self._observe())
        self._tasks.run(self._witness.run())

    async def close(self) -> None:
        """End the session and take its entries away."""
        self._lost = self._lost or "it was closed"
        self._wake_all()  # those who wait hear of it
        try:
            # What is under way keeps the connection: a call that is cancelled would cost it.
            await self._tasks.end()
            await self._calls.done()
            with contextlib.suppress(CoterieError):
                await self._connection.run_script(
                    scripts.CLOSE, self._session, self._connection.number
                )
        finally:
            await self._connection.close()

    # The lease

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(
                self.lease / BEATS_PER_LEASE if self._connection.is_up else RETRY_SECONDS
            )
            sent_at = system.now()
            self._unconfirmed += 1
            try:
                with sensible(self._connection.server):
                    if self._connection.is_up:
                        await self._connection.confirm()
                    counter, *shown = await self._call_to_the_end(scripts.RENEW)
                    if counter > self._counter + self._unconfirmed:
                        # A copy of this process, such as a clone of its machine, renews in our name.
                        self._end("another process uses it: a copy of this one")
                        return
                    self._counter, self._unconfirmed = counter, 0
                    self._told.renewed(sent_at)
                    self._learn_from_renewal(*shown)
            except SessionLost:
                return
            except CoterieError:
                continue

    def _learn_from_renewal(
        self, entries: int, closed: bytes, longest: int, *neighbours: bytes | int
    ) -> None:
        """Observe the neighbours and the past; look for entries of ours that no task knows."""
        now = system.now()  # after the arrival of the answer
        found = list(_read(neighbours))
        self._neighbours.keep(session for session, _, _ in found)
        for session, counter, lease in found:
            self._neighbours.saw(session, counter, lease, now)
        self._learn_of_past(closed, longest)
        if entries > len(self._tickets):
            self._tasks.run(self._disown())

    def _end(self, reason: str) -> None:
        if not self._lost:
            self._lost = reason
            self._wake_all()
            self._told.lost(reason)

    def _wake_all(self) -> None:
        self._seen.set()
        for news in self._tickets.values():
            news.set()

    # Entries

    async def join(self, ticket: Ticket, author: Author, leaving: Ticket | None) -> int | None:
        """Enter the queue."""
        self._tickets[ticket] = (
            asyncio.Event()
        )  # before it is sent: news may come before its answer
        answer = await self._call(
            scripts.JOIN,
            ticket.lock,
            self._member(ticket),
            _encode_author(author),
            *((leaving.lock, self._member(leaving)) if leaving is not None else ("", "")),
        )
        if leaving is not None:
            self._tickets.pop(leaving, None)
        return self._number(answer) or None

    async def wait(self, ticket: Ticket) -> int:
        """Look whenever there is news."""
        news = self._tickets[ticket]
        self._waiting.add(ticket)
        self._seen.set()
        try:
            while True:
                await news.wait()
                news.clear()
                answer = await self._call_to_the_end(
                    scripts.LOOK, ticket.lock, self._member(ticket)
                )
                if number := self._number(answer):
                    return number
        finally:
            self._waiting.discard(ticket)

    async def leave(self, ticket: Ticket) -> None:
        """Take an entry away."""
        await self._call(scripts.LEAVE, ticket.lock, self._member(ticket))
        self._tickets.pop(ticket, None)

    def _number(self, answer: Sequence[Any]) -> int:
        """Return our number if we are inside, and 0 otherwise: then observe what is before us."""
        server = self._connection.server
        with sensible(server):
            number, closed, longest, *shown = answer
            if number < 0:
                raise Unavailable(f"{server}: the entry was removed by hand")
            self._learn_of_past(closed, longest)
            self._learn(shown)
            server.known = max(server.known, number)
            return int(number)

    async def _disown(self) -> None:
        """Remove entries of ours that no task knows.

        No call of ours is under way beside the question, so an entry that it shows and that is not
        among the tickets has left, or was never told of. The name of an attempt is not used again.
        """
        with (
            contextlib.suppress(SessionLost, CoterieError),
            sensible(self._connection.server),
        ):
            found = await self._call_to_the_end(scripts.OWN)
            ours = {self._member(ticket).encode() for ticket in self._tickets}
            for member, lock in zip(found[::2], found[1::2], strict=True):
                if member not in ours:
                    await self._call_to_the_end(scripts.LEAVE, lock, member)

    # What is before us

    async def _observe(self) -> None:
        """Look at the sessions before us, all in one request, and remove those that are over."""
        while not self._lost:
            beat = self.lease / LOOKS_PER_LEASE
            next_at = min(self._observed.next_at(), self._neighbours.next_removal_at())
            if self._waiting:
                next_at = min(next_at, self._looked_at + beat)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(next_at - system.now(), self.lease))):
                    await self._seen.wait()
            self._seen.clear()
            try:
                with sensible(self._connection.server):
                    await self._remove_silent()
                    now = system.now()
                    if self._observed.looks(now) or (
                        self._waiting and now >= self._looked_at + beat
                    ):
                        self._looked_at = now
                        await self._look_around()
                self._witness.look_at(self._observed.sessions)
            except SessionLost:
                return
            except CoterieError:
                await asyncio.sleep(RETRY_SECONDS)

    async def _look_around(self) -> None:
        """Wake those who are inside although no news of it has arrived; observe what is before the others."""
        asked = list(self._waiting)
        words = [word for ticket in asked for word in (ticket.lock, self._member(ticket))]
        _, news, (closed, longest, *shown) = await self._call_to_the_end(
            scripts.LOOK_AROUND, *words
        )
        for number in news:
            if (event := self._tickets.get(asked[number - 1])) is not None:
                event.set()
        self._learn_of_past(closed, longest)
        before = [session for session, _, _ in _read(shown)]
        self._observed.keep([*before, PAST])
        self._learn(shown)

    def _learn(self, shown: Sequence[bytes | int]) -> None:
        """Observe sessions that an answer shows which has just arrived."""
        now = system.now()
        for session, counter, lease in _read(shown):
            if session != self._session:
                self._observed.saw(session, counter, lease, now)
        self._seen.set()

    def _learn_of_past(self, closed: bytes, longest: int) -> None:
        """Observe the past as long as the server is closed."""
        if closed:
            self._past_seconds = longest / 1000
            self._observed.saw(PAST, closed.decode(), self._past_seconds, system.now())
            self._told.closed(CLOSED, self._observed.removal_at(PAST))
            self._seen.set()
        else:
            self._observed.forget(PAST)
            self._told.closed("", system.now())

    async def _remove_silent(self) -> None:
        """Remove sessions that were silent for their whole lease; open what is closed."""
        now, past_seconds = system.now(), self._past_seconds  # both before anything is awaited
        for observed in (self._observed, self._neighbours):
            for session, counter in observed.due(now):
                if session == PAST:
                    await self._open_past(str(counter), past_seconds)
                    continue
                who = await self._ask(scripts.REMOVE, session, counter)
                observed.forget(session)
                if who:
                    logger.info(
                        "%s: session %s was silent for its lease, and is removed",
                        self._connection.server,
                        legible(session),
                        extra={"event": "session-removed"},
                    )

    async def _open_past(self, closed: str, seconds: float) -> None:
        """Open the server: the longest lease from before has passed since it was seen closed."""
        if await self._ask(scripts.OPEN_PAST, closed, round(seconds * 1000)):
            self._learn_of_past(b"", 0)

    # The end of programs, seen on this machine

    async def live(self, life: str) -> None:
        """Write down by which processes we are known; it goes with our session."""
        await self._call_to_the_end(scripts.LIVE, life)

    async def _lives(self, sessions: Sequence[str]) -> dict[str, str]:
        with sensible(self._connection.server):
            found = await self._call_to_the_end(scripts.LIVES, *sessions)
            return {
                session: life.decode(errors="replace")
                for session, life in zip(sessions, found, strict=True)
            }

    async def _bury_dead(self, session: str, life: str) -> bool:
        """Remove a session; that wakes those who are inside then."""
        is_done = bool(await self._call_to_the_end(scripts.BURY, session, life))
        if is_done:
            self._observed.forget(session)
        return is_done

    # Orders of operators

    async def condemn(self, lock: str, participant: str) -> float | None:
        """Let all requests of that session come too late."""
        milliseconds = await self._ask(scripts.CONDEMN, lock, participant)
        return int(milliseconds) / 1000 or None

    # Questions

    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        """Read queues, all at one moment."""
        if locks is not None and not locks:
            return {}
        found = await self._ask(scripts.LINES, *(locks or ()))
        with sensible(self._connection.server):
            return {
                lock.decode(errors="replace"): [
                    QueueEntry(
                        read_author(author), member.startswith(b"s."), bool(within), int(number)
                    )
                    for member, number, author, within in entries
                ]
                for lock, entries in found
            }

    async def send(self, participant: str, letter: bytes) -> None:
        """Publish a letter on the channel of its reader."""
        await self._calls.run(self._connection.publish(_channel(participant), b"m" + letter))

    # News

    async def _listen(self) -> None:
        """Keep a subscription; after each gap all that wait look for themselves."""
        while True:
            ear = self._connection.server.client(alone=False)
            try:
                async with ear.pubsub() as channel:
                    await channel.subscribe(_channel(self._name), _channel(self._session))
                    await self._follow(channel)
            except (*FAILURES, *NONSENSE) as error:
                self._trouble = str(error)
                await asyncio.sleep(RETRY_SECONDS)
            finally:
                with contextlib.suppress(*FAILURES, *NONSENSE):
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
            self._wake_all()
        elif message["type"] == "message":
            data: bytes = message["data"]
            if data[:1] == b"m":
                self._told.mail(data[1:])
                return
            lock = data[1:].decode(errors="replace")
            for ticket, news in self._tickets.items():
                if ticket.lock == lock:
                    news.set()

    # Calls

    async def _call(self, script: scripts.Script, *arguments: str | bytes | float) -> Any:
        """Run a script in the name of this session."""
        await self._connect()
        answer = await self._connection.run_script(
            script, self._session, self._connection.number, *arguments
        )
        first = answer[0] if isinstance(answer, list) and answer else answer
        if first == GONE:
            self._end(LAPSED)
            raise SessionLost(self._lost)
        return answer

    async def _ask(self, script: scripts.Script, *arguments: str | float) -> Any:
        """Run a script that is not about this session, to the end as well."""

        async def call() -> Any:
            await self._connect()
            return await self._connection.run_script(script, *arguments)

        return await self._calls.run(call())

    async def _connect(self) -> None:
        """Have a connection to the run of the server that the session was begun with."""
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

    async def _call_to_the_end(
        self, script: scripts.Script, *arguments: str | bytes | float
    ) -> Any:
        """Run a script which, if the caller is cancelled, goes on without it: or it would cost the connection."""
        return await self._calls.run(self._call(script, *arguments))

    def _member(self, ticket: Ticket) -> str:
        return f"{'s' if ticket.shared else 'x'}.{self._session}.{ticket.attempt}"


def _read(shown: Sequence[bytes | int]) -> Iterator[tuple[str, int, float]]:
    """Return sessions, each with its counter and its lease in seconds."""
    for at in range(0, len(shown), 3):
        session, counter, milliseconds = shown[at : at + 3]
        if not isinstance(session, bytes):
            raise TypeError("a session has no name")
        yield session.decode(), int(counter), int(milliseconds) / 1000


def _passes(error: exceptions.ResponseError) -> bool:
    """Return True if the server may do the same again later, without a change of its configuration."""
    return isinstance(error, PASSING) or PASSING_CODES.match(str(error)) is not None


def _channel(participant: str) -> str:
    return "{coterie}:c:" + participant
