"""As much of HTTP/1.1 as a bucket needs: requests over connections that are used again, each answered in time or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from typing import TYPE_CHECKING, NamedTuple

from coterie import system
from coterie.engines.queue.nonsense import NONSENSE, describe
from coterie.errors import ConfigError, CoterieError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECTIONS_MAX = 16
IDLE_SECONDS_MAX = 4.0  # servers close connections that are not used, some after five seconds
BODY_BYTES_MAX = 1 << 24
HEADERS_MAX = 100
NO_BODY = (204, 304)


class HttpAnswer(NamedTuple):
    """What a server answers."""

    status: int
    headers: dict[str, str]  # by names in small letters
    body: bytes
    is_second: bool  # the request was sent before, over a connection that ended without an answer


class Unanswered(Exception):  # noqa: N818 - says what is the matter
    """The server had closed the connection, as it seems before it read the request."""


class HttpClient:
    """Sends requests to one server."""

    def __init__(
        self, name: str, address: tuple[str, int], tls: ssl.SSLContext | None, limit: float
    ) -> None:
        """Prepare; the first request connects.

        Args:
            name: Of the server, for people.
            address: Its host and port.
            tls: How it has to prove that it is the host; None: in the clear.
            limit: In seconds; no answer is waited for longer.
        """
        self._name = name
        self._address = address
        self._tls = tls
        self._limit = limit
        self._slots = asyncio.Semaphore(CONNECTIONS_MAX)
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._is_closed = False

    async def ask(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpAnswer:
        """Send a request, and return its answer; raises `Unavailable` if its outcome is not known.

        It is sent twice where a connection that was used before ends without a byte of an answer. So what is asked has to
        be such that only one of two can take effect.
        """
        lines = [f"{method} {target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"content-length: {len(body)}", "", ""]
        data = "\r\n".join(lines).encode() + body
        async with self._slots:
            try:
                async with asyncio.timeout(self._limit):
                    return await self._ask(data)
            except (OSError, EOFError, RuntimeError, *NONSENSE) as error:
                raise self._error(error) from None

    async def close(self) -> None:
        """Cut all connections; a request that is still made or under way finds that out."""
        self._is_closed = True
        self._idle.clear()
        connections = list(self._open)
        for connection in connections:  # before any wait, which may be cancelled
            self._cut(connection)
        for connection in connections:
            await connection.ended()

    async def _ask(self, data: bytes) -> HttpAnswer:
        is_second = False
        while (connection := self._used()) is not None:
            with contextlib.suppress(Unanswered):
                return await self._answer(connection, data, is_second=is_second)
            is_second = True
        if self._is_closed:
            raise EOFError
        host, port = self._address
        reader, writer = await asyncio.open_connection(host, port, ssl=self._tls)
        connection = HttpConnection(reader, writer)
        self._open.add(connection)
        if self._is_closed:  # meanwhile
            await self._end(connection)
            raise EOFError
        try:
            return await self._answer(connection, data, is_second=is_second)
        except Unanswered:
            raise EOFError from None

    async def _answer(
        self, connection: HttpConnection, data: bytes, *, is_second: bool
    ) -> HttpAnswer:
        is_whole = False
        try:
            status, headers, body = await connection.ask(data)
            is_whole = True
        finally:
            if is_whole and connection.is_open and not self._is_closed:
                self._idle.append(connection)
            else:
                self._cut(connection)
        return HttpAnswer(status, headers, body, is_second)

    def _used(self) -> HttpConnection | None:
        """Return a connection that was used a moment ago; cut those that were not."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and system.now() - connection.used_at < IDLE_SECONDS_MAX:
                return connection
            self._cut(connection)
        return None

    def _cut(self, connection: HttpConnection) -> None:
        connection.cut()
        self._open.discard(connection)

    async def _end(self, connection: HttpConnection) -> None:
        self._cut(connection)
        await connection.ended()

    def _error(self, error: BaseException) -> CoterieError:
        """Say what an error of a connection means."""
        match error:
            case CoterieError():
                return error
            case ssl.SSLError():
                return ConfigError(f"{self._name}: refused: {error}")
            case TimeoutError():
                text = "no answer in time"
            case OSError():
                number = error.errno or 0  # asyncio has texts of its own
                text = os.strerror(number) if number > 0 else str(error.strerror or error)
            case EOFError():
                text = "the connection ended"
            case Exception() if isinstance(error, NONSENSE):
                text = f"an answer makes no sense: {describe(error)}"
            case _:
                text = f"the connection ended: {error}"
        return Unavailable(f"{self._name}: {text}")


class HttpConnection:
    """One connection, for one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection that is open."""
        self.used_at = system.now()
        self._reader = reader
        self._writer = writer
        self._is_kept = True  # by the server, after the last answer

    @property
    def is_open(self) -> bool:
        """Whether another request can be sent."""
        return self._is_kept and not (self._writer.is_closing() or self._reader.at_eof())

    async def ask(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send a request, and read its answer: status, headers and body."""
        try:
            self._writer.write(data)
            await self._writer.drain()
            first = await self._reader.readline()
        except (ConnectionError, RuntimeError):  # uvloop raises the latter
            raise Unanswered from None
        if not first:
            raise Unanswered
        status, headers = await self._head(first)
        body = b"" if status in NO_BODY else await self._body(headers)
        self._is_kept = self._is_kept and headers.get("connection", "").lower() != "close"
        self.used_at = system.now()
        return status, headers, body

    def cut(self) -> None:
        """End it without a word."""
        self._is_kept = False
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.transport.abort()

    async def ended(self) -> None:
        """Wait until the socket is closed."""
        with contextlib.suppress(OSError, RuntimeError, EOFError):
            await self._writer.wait_closed()

    async def _head(self, line: bytes) -> tuple[int, dict[str, str]]:
        while True:
            version, status = line.split(None, 2)[:2]
            if not version.startswith(b"HTTP/1."):
                raise ValueError("this is no HTTP")
            headers: dict[str, str] = {}
            while (line := await self._line()).strip():
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.strip().lower()] = value.strip()
                if len(headers) > HEADERS_MAX:
                    raise ValueError("too many headers")
            if int(status) >= 200:
                return int(status), headers
            line = await self._line()

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            body = b""
            while size := int((await self._line()).partition(b";")[0], 16):
                body += await self._exactly(len(body) + size, size)
                await self._line()
            while (await self._line()).strip():
                pass
            return body
        if "content-length" in headers:
            size = int(headers["content-length"])
            return await self._exactly(size, size)
        self._is_kept = False
        return await self._reader.read(BODY_BYTES_MAX)

    async def _line(self) -> bytes:
        line = await self._reader.readline()
        if not line:
            raise EOFError
        return line

    async def _exactly(self, total: int, size: int) -> bytes:
        if not 0 <= size <= total <= BODY_BYTES_MAX:
            raise ValueError(f"an answer of {total} bytes")
        return await self._reader.readexactly(size)
