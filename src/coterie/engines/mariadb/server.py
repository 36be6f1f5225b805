"""Sessions with MariaDB or MySQL: rows of tables, over a connection for requests and another one that waits for news."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import operator
from typing import TYPE_CHECKING

from coterie import system
from coterie.engines.cas.session import BEATS_PER_LEASE, RETRY_SECONDS, CasSession
from coterie.engines.cas.steps import (
    CountedSession,
    EntryBefore,
    Renewal,
    ServerPast,
    Sight,
)
from coterie.engines.mariadb import schema, statements
from coterie.engines.mariadb.connection import (
    INTERRUPTED,
    NO_DATABASE,
    NO_TABLE,
    TRIES,
    Answer,
    MariadbConnection,
    ServerError,
    error_of,
    name_of,
    shown,
)
from coterie.engines.mariadb.values import MariadbValues
from coterie.engines.queue.engine import QueueEngine
from coterie.engines.queue.nonsense import author_of, sensible, sensibly
from coterie.engines.queue.observation import Observations
from coterie.engines.queue.server import Author, QueueEntry, ServerNode, SessionLost, Ticket, inside
from coterie.engines.queue.url import TLS_PARAMETERS, WITNESS, parse_server_url
from coterie.errors import ConfigError, CoterieError, Unavailable, UsageError
from coterie.system.aio import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.engines.mariadb.connection import Rows
    from coterie.engines.mariadb.schema import ServerRun
    from coterie.engines.queue.server import SessionListener
    from coterie.engines.queue.url import ServerUrl

LEASE_SECONDS_MIN = 0.5
CALL_SECONDS_MAX = 5.0
DATABASE = "coterie"  # where the URL names none
VERSIONS_MIN = {"MariaDB": (10, 6), "MySQL": (8, 0)}
RIGHTS = (
    "locks need: grant select, insert, update, delete, create on DATABASE.* to this account, and the"
    " database, which is `coterie` unless the URL names another one"
)


def make_engine(url: str) -> QueueEngine:
    """Return the engine of a program that takes locks on MariaDB or MySQL."""
    parsed = parse_server_url(url, port=3306, parameters=(*TLS_PARAMETERS, WITNESS))
    if len(parsed.addresses) > 1:
        raise UsageError(
            f"{parsed.scheme}://{parsed.shown}: locks are kept by one server; for several machines use coterie://"
        )
    return QueueEngine(
        MariadbServer(parsed), deadlock_detection=parsed.detects, witness=parsed.is_seen
    )


class MariadbServer:
    """One server."""

    lease_min = LEASE_SECONDS_MIN

    def __init__(self, url: ServerUrl) -> None:
        """Remember where it is; raise `UsageError` where a lease is too short."""
        self.lease = url.lease_from(self.lease_min)
        self.known = 0  # the highest number that this process was given
        self._url = url
        self._observed: dict[str, Observations] = {}  # by participant

    def __str__(self) -> str:
        """Name the server for people."""
        return name_of(self._url)

    async def open(self, participant: str, told: SessionListener, lease: float) -> CasSession:
        """Begin a session; what was seen of others in former ones stays true."""
        observed = self._observed.setdefault(participant, Observations())
        name = system.secret(8).hex()
        steps = MariadbSteps(self, self._url, name, participant, lease)
        session = CasSession(str(self), name, steps, told, lease=lease, observed=observed)
        try:
            await session.start()
        except BaseException:
            await session.close()
            raise
        return session

    async def nodes(self) -> list[ServerNode]:
        """Ask the server what it is."""
        connection = MariadbConnection(self._url, CALL_SECONDS_MAX)
        try:
            await connection.connect()
            answer = await connection.ask(statements.GREET)
        except Unavailable as error:
            return [ServerNode(self._url.shown, trouble=str(error).removeprefix(f"{self}: "))]
        except ServerError as error:
            raise error_of(str(self), error) from None
        finally:
            await connection.close()
        with sensible(self):
            _, version, _, is_read_only = answer.rows[0][0]
        return [ServerNode(self._url.shown, version, "replica" if is_read_only else "primary")]


class MariadbSteps:
    """The requests of one session, over one connection after the other."""

    carries = True
    renews_by_reading = False

    def __init__(
        self, server: MariadbServer, url: ServerUrl, session: str, participant: str, lease: float
    ) -> None:
        """Prepare; the first step connects."""
        self._server = server
        self._url = url
        self._session = session
        self._participant = participant
        self._lease = lease
        self._is_begun = False
        self._connecting = asyncio.Lock()
        self._connection: MariadbConnection | None = None
        self._run = ""  # of the server that the connection leads to
        self._bell = ""  # a lock of the server that the connection holds
        self._ear: MariadbConnection | None = None
        self._closed = False
        self._tasks = Tasks()
        self.values = MariadbValues(server, session, self._ask)

    def __str__(self) -> str:
        """Name the server for people."""
        return str(self._server)

    @property
    def known(self) -> int:
        """The highest number that this process was given."""
        return self._server.known

    @known.setter
    def known(self, number: int) -> None:
        self._server.known = number

    # Sessions

    @sensibly
    async def open(self) -> tuple[float, ServerPast]:
        """Begin the session."""
        connection = await self._connected()
        self._is_begun = True
        text = statements.open_session(self._session, self._participant, self._lease)
        answer = await self._ask_on(connection, text)
        return answer.sent_at, self._past(answer.rows[1])

    @sensibly
    async def find(self) -> int | None:
        """Read the counter."""
        ((_, _, _, counter, _),) = (await self._ask(statements.past(self._session))).rows[0]
        return None if counter is None else int(counter)

    @sensibly
    async def renew(self, counter: int) -> Renewal | None:
        """Move the counter on; in the same request look around."""
        answer = await self._ask(statements.renew(self._session, counter))
        if not answer.changed[0]:
            return None
        _, past, ((entries,),), others = answer.rows
        found = [CountedSession(shown(name), counter, lease) for name, counter, lease in others]
        neighbour = found[0] if found else None
        return Renewal(answer.sent_at, self._past(past), entries, neighbour, found[1:])

    @sensibly
    async def remove(self, session: str, counter: int) -> bool:
        """Make a session dead, then remove its entries."""
        answer = await self._ask(statements.kill(session, counter))
        if answer.changed[0]:
            await self.sweep(session)
        return bool(answer.changed[0])

    async def live(self, life: str) -> bool:
        """Write it into a row beside that of the session."""
        await self._ask(statements.live(self._session, life), tries=TRIES)
        return True

    @sensibly
    async def lives(self, sessions: Sequence[str]) -> dict[str, str]:
        """Read those of other sessions."""
        answer = await self._ask(statements.lives(sessions))
        return {shown(session): shown(life) for session, life in answer.rows[0]}

    @sensibly
    async def bury(self, session: str, life: str) -> bool:
        """Make a session dead, then remove its entries."""
        answer = await self._ask(statements.bury(session, life), tries=TRIES)
        if answer.changed[0]:
            await self.sweep(session)
        return bool(answer.changed[0])

    @sensibly
    async def sweep(self, session: str) -> None:
        """Remove the entries of a session that is over, and wake those behind."""
        answer = await self._ask(statements.sweep(session), tries=TRIES)
        await self._wake(await self._connected(), answer.rows[0])

    @sensibly
    async def condemn(self, lock: str, participant: str) -> float | None:
        """End the renewals of a participant that is inside."""
        answer = await self._ask(statements.condemn(lock, participant), tries=TRIES)
        ((lease,),) = answer.rows[0]
        return None if lease is None else float(lease)

    async def open_past(self, run: str) -> None:
        """Open a run that is closed."""
        await self._ask(schema.open_past(run), tries=TRIES)

    async def close(self, *, is_over: bool) -> None:
        """End the session over the connection that is there, and disconnect."""
        self._closed = True
        connection, ear = self._connection, self._ear
        if ear is not None:
            ear.terminate()
        if connection is None:
            return
        try:
            if self._is_begun and connection.is_up and not is_over:
                with contextlib.suppress(CoterieError):
                    answer = await self._ask_on(connection, statements.close(self._session))
                    await self._wake(connection, answer.rows[1])
        finally:
            await self._tasks.end()
            await connection.close()

    # Entries

    @sensibly
    async def join(
        self, ticket: Ticket, author: Author, leaving: Ticket | None
    ) -> tuple[ServerPast, Sight]:
        """Enter a queue, and look in the same request."""
        text = statements.join(self._session, ticket, author, leaving)
        answer = await self._ask(text, tries=TRIES)
        seen = answer.rows[4 if leaving else 1]
        past, sights = self._past(seen), _sights([ticket], seen)
        if ticket not in sights:
            raise Unavailable(f"{self._server}: the entry is gone")
        if leaving:
            self._ring(self._ears(answer.rows[5], shared=leaving.shared))
        return past, sights[ticket]

    @sensibly
    async def look(self, tickets: Sequence[Ticket]) -> tuple[ServerPast, dict[Ticket, Sight]]:
        """Look at all of these entries in one request."""
        answer = await self._ask(statements.look(self._session, tickets))
        return self._past(answer.rows[0]), _sights(tickets, answer.rows[0])

    @sensibly
    async def leave(self, ticket: Ticket) -> None:
        """Remove an entry, and wake those who are inside then."""
        text = statements.leave(self._session, ticket)
        answer = await self._ask(text, tries=TRIES)
        self._ring(self._ears(answer.rows[1], shared=ticket.shared))

    @sensibly
    async def own(self) -> list[Ticket]:
        """Return all entries of the session."""
        answer = await self._ask(statements.own(self._session))
        return [
            Ticket(shown(lock), bool(shared), attempt) for lock, shared, attempt in answer.rows[0]
        ]

    @sensibly
    async def lines(self, locks: Sequence[str] | None) -> dict[str, list[QueueEntry]]:
        """Read queues."""
        answer = await self._ask(statements.lines(locks))
        found: dict[str, list[tuple[Author, bool]]] = {}
        for lock, shared, participant, process, since in answer.rows[0]:
            author = author_of(shown(participant), shown(process), since)
            found.setdefault(shown(lock), []).append((author, bool(shared)))
        return {lock: _line(queue) for lock, queue in found.items()}

    # News

    @sensibly
    async def send(self, participant: str, letter: bytes) -> None:
        """Leave a letter, and wake its reader."""
        text = statements.post(participant, system.secret(8).hex(), letter)
        self._ring([ear for (ear,) in (await self._ask(text)).rows[1]])

    async def listen(self, wake: Callable[[], None], mail: Callable[[bytes], None]) -> None:
        """Wait in the server, where others can end that; read letters."""
        seconds = self._lease / BEATS_PER_LEASE
        read: list[int] = []
        while True:
            try:
                if self._ear is None or not self._ear.is_up:
                    self._ear, read = await self._listener(seconds), []
                    wake()
                asked_at = system.now()
                text = statements.listen(self._participant, self._bell, seconds, read)
                with sensible(self._server):
                    *_, ((is_ours,),), rows = (await self._ear.ask(text)).rows
                    read = [number for number, _, _ in rows]
                    letters: dict[bytes, bytes] = {}
                    for _, letter, part in rows:
                        letters[letter] = letters.get(letter, b"") + part
            except (CoterieError, ServerError) as error:
                if not isinstance(error, ServerError) or error.code != INTERRUPTED:
                    await asyncio.sleep(RETRY_SECONDS)
                wake()
                continue
            if is_ours:  # the connection for requests has ended, or is not quite made
                await asyncio.sleep(RETRY_SECONDS)
            if rows or system.now() - asked_at < seconds:
                wake()
            for body in letters.values():
                mail(body)

    def _ears(self, rows: Rows, *, shared: bool = False) -> list[int]:
        """Return the connections on which those wait for news who are inside now, but for ourselves.

        Where one has left that shared the lock, only one that wants it alone can have come inside.
        """
        found = []
        for _, queue in itertools.groupby(rows, key=operator.itemgetter(0)):
            line = list(queue)
            for _, is_shared, session, ear in line[: inside([bool(each[1]) for each in line])]:
                if ear and shown(session) != self._session and not (shared and is_shared):
                    found.append(ear)
        return list(dict.fromkeys(found))

    def _ring(self, ears: Sequence[int]) -> None:
        """Wake those who wait for news on these connections; no one waits for that."""
        if ears:
            self._tasks.run(self._ring_each(ears))

    async def _ring_each(self, ears: Sequence[int]) -> None:
        for ear in ears:
            with contextlib.suppress(CoterieError, SessionLost):  # it is a hint
                await self._ask(statements.ring(ear))

    async def _wake(self, connection: MariadbConnection, locks: Rows) -> None:
        """Wake those who are inside of these locks now."""
        if locks:
            names = sorted({shown(lock) for (lock,) in locks})
            answer = await self._ask_on(connection, statements.ears(names))
            for ear in self._ears(answer.rows[0]):
                with contextlib.suppress(CoterieError):
                    await self._ask_on(connection, statements.ring(ear))

    # Connections

    @property
    def _limit(self) -> float:
        """How long an answer is waited for: a connection that is silent is replaced within the lease."""
        return min(CALL_SECONDS_MAX, self._lease / BEATS_PER_LEASE)

    async def _ask(self, text: str, *, tries: int = 1) -> Answer:
        return await self._ask_on(await self._connected(), text, tries=tries)

    async def _ask_on(self, connection: MariadbConnection, text: str, *, tries: int = 1) -> Answer:
        try:
            return await connection.ask(text, tries=tries)
        except ServerError as error:
            if error.code == NO_TABLE:  # the tables were dropped: to enter again makes them
                connection.terminate()
            raise error_of(str(self._server), error) from None

    async def _connected(self) -> MariadbConnection:
        """Return the connection, or make another one: the session goes on over it."""
        async with self._connecting:
            self._check()
            if self._connection is None or not self._connection.is_up:
                made, run = await self._entered(self._limit)
                try:
                    self._bell = await self._attach(made)
                    self._check()
                except BaseException:
                    made.terminate()
                    raise
                self._connection, self._run = made, run.name
            return self._connection

    def _check(self) -> None:
        if self._closed:
            raise SessionLost("it was closed")

    async def _attach(self, made: MariadbConnection) -> str:
        """Use the session over this connection from now on, if it was begun; return the bell that it holds."""
        if self._is_begun:
            answer = await self._ask_on(made, statements.attach(self._session), tries=TRIES)
            if answer.rows[1][0][3] is None:
                raise SessionLost("it is over")
        bell = f"coterie.{system.secret(8).hex()}"
        await self._ask_on(made, statements.hold_bell(bell))
        return bell

    async def _listener(self, seconds: float) -> MariadbConnection:
        """Make a connection that is silent for as long as this."""
        made, _ = await self._entered(seconds + self._limit)
        try:
            await self._ask_on(made, statements.begin_to_listen(self._session), tries=TRIES)
        except BaseException:
            made.terminate()
            raise
        return made

    async def _entered(self, limit: float) -> tuple[MariadbConnection, ServerRun]:
        """Connect, and enter the run of the server."""
        made = MariadbConnection(self._url, limit)
        try:
            greeted = await made.connect()
            with sensible(self._server):
                await _prepare(made, greeted, self._url.path)
                longest = max(self._lease, self._server.lease)
                return made, await schema.enter(made, longest, self._server.known)
        except ServerError as error:
            made.terminate()
            found = error_of(str(self._server), error)
            raise (
                ConfigError(f"{found}; {RIGHTS}") if isinstance(found, ConfigError) else found
            ) from None
        except BaseException:
            made.terminate()
            raise

    def _past(self, rows: Rows) -> ServerPast:
        """Read what is known of the run, in an answer that has found the session."""
        run, is_open, lease, counter, is_ours, *_ = rows[0]
        if counter is None:
            raise SessionLost("it is over")
        if not is_ours or shown(run) != self._run:
            if self._connection is not None:
                self._connection.terminate()
            raise Unavailable(f"{self._server}: it was restarted")
        return ServerPast(shown(run), bool(is_open), lease)


async def _prepare(connection: MariadbConnection, greeted: int, database: str) -> None:
    """Refuse a server that cannot keep locks; make settings, and use the database of the locks."""
    answer = await connection.ask(statements.GREET)
    ((number, version, flushes, is_read_only),), variables = answer.rows
    found: dict[str, str] = dict(variables)
    kind = "MariaDB" if "MariaDB" in version else "MySQL"
    least = VERSIONS_MIN[kind]
    if tuple(int(part) for part in version.split("-")[0].split(".")[:2]) < least:
        raise ConfigError(
            f"{connection}: version {version} is too old; locks need {kind} {least[0]}.{least[1]} or newer"
        )
    if number % 2**32 != greeted % 2**32:
        raise ConfigError(
            f"{connection}: a proxy in the way does not keep connections apart; name the server itself"
        )
    if is_read_only:
        raise Unavailable(f"{connection}: it takes no writes; name the primary")
    if flushes != 1:
        raise ConfigError(
            f"{connection}: a crash may undo locks that were granted (innodb_flush_log_at_trx_commit is"
            f" {flushes}); set it to 1"
        )
    several = "OFF" in found.get("group_replication_single_primary_mode", "")
    if found.get("wsrep_on") == "ON" or several:
        raise ConfigError(
            f"{connection}: several servers take writes there, which do not exclude each other at once;"
            " name a server that is alone, or use coterie://"
        )
    await connection.ask(statements.settings(is_mariadb=kind == "MariaDB"))
    name = (database or DATABASE).replace("`", "``")
    try:
        await connection.ask(f"use `{name}`")
    except ServerError as error:
        if database or error.code != NO_DATABASE:
            raise
        await connection.ask(f"create database if not exists `{name}`; use `{name}`")


def _sights(tickets: Sequence[Ticket], rows: Rows) -> dict[Ticket, Sight]:
    """Read what stands before each entry that is there."""
    by_attempt = {ticket.attempt: ticket for ticket in tickets}
    found: dict[Ticket, Sight] = {}
    before: dict[int, list[EntryBefore]] = {}
    for *_, attempt, number, shared, session, counter, lease in rows:
        if attempt is None:
            continue
        others = before.setdefault(attempt, [])
        found.setdefault(by_attempt[attempt], Sight(number, others))
        if session is not None:
            name = shown(session)
            counted = None if counter is None else CountedSession(name, counter, lease)
            others.append(EntryBefore(bool(shared), name, counted))
    return found


def _line(queue: Sequence[tuple[Author, bool]]) -> list[QueueEntry]:
    count = inside([shared for _, shared in queue])
    return [
        QueueEntry(author, shared, place < count, 0) for place, (author, shared) in enumerate(queue)
    ]
