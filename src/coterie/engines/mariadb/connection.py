"""A connection to MariaDB or MySQL: a thread that carries out one batch of statements after the other.

The client library blocks. A thread of its own, and not one of a pool, because one connection sleeps in the
server most of the time. A caller may be cancelled: its batch is carried out all the same, so that costs no connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pymysql
from pymysql.constants import CLIENT

from coterie import system
from coterie.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from coterie.engines.queue.url import ServerUrl
    from coterie.errors import CoterieError

CLOSE_SECONDS_MAX = 0.5
TRIES = 5  # of a batch that the server has undone, because another one was in its way
NO_DATABASE, NO_TABLE, INTERRUPTED = 1049, 1146, 1317
IN_THE_WAY = (1020, 1205, 1213)  # changed meanwhile, waited for too long, a deadlock
REFUSED = (1044, 1045, 1130, 1142, 1143, 1227, 1698, 2026, NO_DATABASE)
READ_ONLY = (1290, 1836)
SECURE = ("mariadbs", "mysqls")
SECURE_SINCE = (1, 2)

Rows: TypeAlias = tuple[tuple[Any, ...], ...]


class Answer(NamedTuple):
    """What came back for a batch of statements, one after the other."""

    sent_at: float
    rows: list[Rows]
    changed: list[int]  # how many rows each has changed or returned


class Batch(NamedTuple):
    """Statements to be carried out, and who waits for their answers."""

    text: str
    tries: int
    loop: asyncio.AbstractEventLoop
    answered: asyncio.Future[Answer]


class ServerError(Exception):
    """The server has refused a statement."""

    def __init__(self, code: int, text: str) -> None:
        """Keep the number of the error."""
        super().__init__(text)
        self.code = code


class MariadbConnection:
    """One connection, made by `connect` and not made again."""

    def __init__(self, url: ServerUrl, limit: float) -> None:
        """Prepare; no answer is waited for longer than the limit, in seconds."""
        self._url = url
        self._limit = limit
        self._batches: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._guard = threading.Lock()  # of the next two
        self._line: socket.socket | None = None  # the same connection, to be cut by other threads
        self._is_cut = False
        self._ended = threading.Event()

    def __str__(self) -> str:
        """Name the server for people."""
        return name_of(self._url)

    @property
    def is_up(self) -> bool:
        """Whether it has not failed."""
        return not self._ended.is_set()

    async def connect(self) -> int:
        """Connect; return the number by which the server greets the connection."""
        loop = asyncio.get_running_loop()
        greeted: asyncio.Future[int] = loop.create_future()
        threading.Thread(
            target=self._run, args=(loop, greeted), name="coterie-mariadb", daemon=True
        ).start()
        try:
            return await greeted
        except BaseException:
            self.terminate()
            raise

    async def ask(self, text: str, *, tries: int = 1) -> Answer:
        """Carry out statements in one request.

        Raises `ServerError` where the server refuses one, after which nothing of a transaction stays; else
        `Unavailable`, where it is not known what has become of them, and the connection is over.

        Args:
            text: The statements.
            tries: More than one for a batch that may be carried out again if another one was in its way.
        """
        loop = asyncio.get_running_loop()
        batch = Batch(text, tries, loop, loop.create_future())
        self._batches.put(batch)
        if self._ended.is_set():  # the thread may have ended before it saw this one
            self._drain()
        return await batch.answered

    async def close(self) -> None:
        """Disconnect in bounded time."""
        self._batches.put(None)
        try:
            await asyncio.to_thread(self._ended.wait, CLOSE_SECONDS_MAX)
        finally:
            self.terminate()

    def terminate(self) -> None:
        """Cut the connection: what its thread waits for ends at once."""
        self._batches.put(None)
        with self._guard:
            self._is_cut = True
            line, self._line = self._line, None
        if line is not None:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()

    # The thread

    def _run(self, loop: asyncio.AbstractEventLoop, greeted: asyncio.Future[int]) -> None:
        made = None
        try:
            try:
                made = self._connect()
            except Exception as error:  # noqa: BLE001 - whatever the client raises is told
                _tell(loop, greeted, self._error(error))
                return
            _tell(loop, greeted, made.thread_id())
            while (batch := self._batches.get()) is not None:
                answer = self._carry_out(made, batch)
                _tell(batch.loop, batch.answered, answer)
                if not isinstance(answer, Answer | ServerError):
                    return
        finally:
            self._ended.set()
            self._drain()
            if made is not None:
                with contextlib.suppress(Exception):
                    made.close()
            self.terminate()

    def _connect(self) -> Any:
        url = self._url
        if url.scheme in SECURE and pymysql.VERSION[:2] < SECURE_SINCE:
            # Older ones go on without TLS where the greeting, which comes in the clear, offers none.
            raise RuntimeError("TLS needs PyMySQL 1.2 or newer")
        host, port = url.addresses[0]
        made = socket.create_connection((host, port), self._limit)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._guard:
                if self._is_cut:
                    raise ConnectionAbortedError("it was given up")  # noqa: TRY301 - closed below
                self._line = made.dup()
            connection = pymysql.Connection(
                host=host,
                port=port,
                user=url.user or None,
                password=url.secret.encode(),
                autocommit=True,
                charset="utf8mb4",
                client_flag=CLIENT.MULTI_STATEMENTS,
                read_timeout=self._limit,
                write_timeout=self._limit,
                ssl=_tls(url),
                ssl_disabled=url.scheme not in SECURE,
                defer_connect=True,
            )
            connection.connect(made)
        except BaseException:
            made.close()
            raise
        return connection

    def _carry_out(self, made: Any, batch: Batch) -> Answer | Exception:
        for left in reversed(range(batch.tries)):
            try:
                return _execute(made, batch.text)
            except pymysql.err.MySQLError as error:
                code = _code(error)
                if code < 1000 or code >= 2000:  # not of the server, but of the connection to it
                    return self._error(error)
                try:
                    made.rollback()
                except Exception as failure:  # noqa: BLE001 - as below
                    return self._error(failure)
                if code not in IN_THE_WAY or not left:
                    return ServerError(code, _text(error))
            except Exception as error:  # noqa: BLE001 - whatever is raised, what comes next may be its answer
                return self._error(error)
        raise AssertionError("there is a last try")

    def _drain(self) -> None:
        """Let what was not begun fail."""
        with contextlib.suppress(queue.Empty):
            while True:
                if (batch := self._batches.get_nowait()) is not None:
                    _tell(batch.loop, batch.answered, Unavailable(f"{self}: the connection ended"))

    def _error(self, error: Exception) -> CoterieError:
        """Say what an error of the connection means."""
        error = getattr(error, "original_exception", error)
        if isinstance(error, pymysql.err.MySQLError):
            return error_of(str(self), ServerError(_code(error), _text(error)))
        if isinstance(error, ssl.SSLError):
            return ConfigError(f"{self}: refused: {error}")
        if isinstance(error, TimeoutError):
            return Unavailable(f"{self}: no answer in time")
        if isinstance(error, OSError):
            return Unavailable(f"{self}: {error.strerror or error}")
        if isinstance(error, RuntimeError):  # another package is needed for this
            return ConfigError(f"{self}: {error}")
        return Unavailable(f"{self}: the connection ended: {error}")


def error_of(server: str, error: ServerError) -> CoterieError:
    """Say what a refusal means: whether time may mend it."""
    if error.code in REFUSED:
        return ConfigError(f"{server}: refused: {error}")
    if error.code in READ_ONLY:
        return Unavailable(f"{server}: it takes no writes; name the primary")
    return Unavailable(f"{server}: {error}")


def name_of(url: ServerUrl) -> str:
    """Name a server for people."""
    kind = url.scheme.removesuffix("s") if url.scheme in SECURE else url.scheme
    return f"{kind} at {url.shown}"


def shown(value: bytes | str) -> str:
    """Return a value of a column as text: what is compared byte by byte comes as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _tls(url: ServerUrl) -> ssl.SSLContext | None:
    if url.scheme not in SECURE:
        return None
    context = ssl.create_default_context(cafile=url.tls_file("ca") or None)
    if url.tls_file("certificate"):
        context.load_cert_chain(url.tls_file("certificate"), url.tls_file("key") or None)
    return context


def _execute(made: Any, text: str) -> Answer:
    sent_at = system.now()
    rows: list[Rows] = []
    changed: list[int] = []
    with made.cursor() as cursor:
        cursor.execute(text)
        while True:
            rows.append(tuple(cursor.fetchall() or ()))
            changed.append(cursor.rowcount)
            if not cursor.nextset():
                return Answer(sent_at, rows, changed)


def _code(error: Exception) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def _text(error: Exception) -> str:
    return str(error.args[1] if len(error.args) > 1 else error)


def _tell(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], answer: object) -> None:
    """Give an answer to the event loop that waits for it, if it still does."""

    def give() -> None:
        if future.done():
            return
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(give)
