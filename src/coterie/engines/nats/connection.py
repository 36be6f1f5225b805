"""A connection to a NATS server, as far as locks need its protocol: requests, messages and subscriptions.

A request is a message that names a subject for its answers. Each has a subject of its own below `_inbox`, so an
answer that comes late is for no one. A connection that does not answer in time is over: what comes over it later
is not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import ssl
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import msgspec

from coterie import system
from coterie.engines.nats.frames import FrameReader, line, message, read_message
from coterie.engines.queue.nonsense import NONSENSE, describe
from coterie.errors import ConfigError, CoterieError, Unavailable
from coterie.locks.legible import legible

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.engines.nats.frames import NatsAnswer, NatsFrame
    from coterie.engines.queue.url import ServerUrl

ResultT = TypeVar("ResultT")

SECURE = "natss"
CLOSE_SECONDS_MAX = 0.5
NOT_FOUND, TOO_MANY, NO_RESPONDERS = 404, 413, 503
REFUSALS = ("authorization", "authentication", "permissions")
SUBJECT_REFUSED = re.compile(
    r'permissions violation for (publish|subscription) to "([^"]*)"', re.IGNORECASE
)


class ServerInfo(msgspec.Struct, frozen=True):
    """What a server says of itself when it greets."""

    server_id: str
    server_name: str = ""
    version: str = ""
    cluster: str = ""  # empty for a server that is alone
    jetstream: bool = False
    headers: bool = False
    tls_required: bool = False
    tls_available: bool = False
    max_payload: int = 1 << 20


class NatsRequest:
    """A request that is under way."""

    __slots__ = ("answer_by", "answered", "answers", "is_batch", "subject")

    def __init__(self, subject: str, answer_by: float, *, is_batch: bool) -> None:
        """Wait for one answer, or for all up to the one that ends a batch."""
        self.subject = subject
        self.answer_by = answer_by  # by the time of the event loop
        self.is_batch = is_batch
        self.answers: list[NatsAnswer] = []
        self.answered: asyncio.Future[list[NatsAnswer]] = asyncio.get_running_loop().create_future()

    def take(self, answer: NatsAnswer) -> None:
        """Take one answer; each that has a status is the last."""
        self.answers.append(answer)
        if (answer.status or not self.is_batch) and not self.answered.done():
            self.answered.set_result(self.answers)

    def fail(self, error: CoterieError) -> None:
        """End the wait."""
        _fail(self.answered, error)


class NatsConnection(asyncio.Protocol):
    """One connection, made by `connect` and not made again."""

    def __init__(
        self, url: ServerUrl, limit: float, heard: Callable[[str, bytes], None] | None = None
    ) -> None:
        """Prepare.

        Args:
            url: Whose first address is connected to.
            limit: In seconds; no answer is waited for longer.
            heard: Takes messages of subscriptions, each with its subject.
        """
        self.info = ServerInfo("")
        self.ended = asyncio.Event()  # nothing more is sent or read
        self._url = url
        self._limit = limit
        self._heard = heard
        self._trouble: CoterieError | None = None
        self._inbox = f"_INBOX.{system.secret(8).hex()}"
        self._number = 0
        self._requests: dict[
            str, NatsRequest
        ] = {}  # in the order in which they have to be answered
        self._timer: asyncio.TimerHandle | None = None
        self._unsent: list[bytes] = []
        self._subscriptions: dict[str, int] = {}
        self._pongs: list[asyncio.Future[None]] = []
        self._frames = FrameReader()
        self._greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._closed = asyncio.Event()  # the socket is

    def __str__(self) -> str:
        """Name the server for people."""
        return name_of(self._url)

    @property
    def is_up(self) -> bool:
        """Whether it has not failed."""
        return not self.ended.is_set()

    async def connect(self) -> None:
        """Connect and log in; raises `Unavailable` or `ConfigError`."""
        try:
            async with asyncio.timeout(self._limit):
                await self._open()
                # In one piece: a server that refuses us closes at once, and a write after that would hide why.
                await self._until_read(line("CONNECT", self._login()))
                self.subscribe(f"{self._inbox}.*")
        except BaseException as error:
            self._end(self._error(error))
            if isinstance(error, Exception) and self._trouble is not None:
                raise self._trouble from None
            raise

    async def ask(
        self, subject: str, body: bytes = b"", *, expected: int | None = None
    ) -> NatsAnswer:
        """Send a request, and return its answer.

        Args:
            subject: Where it goes.
            body: What it says.
            expected: The number of the last message that a stream must have of this subject.
        """
        return (await self._ask(subject, body, expected, is_batch=False))[0]

    async def ask_for_batch(self, subject: str, body: bytes) -> list[NatsAnswer]:
        """Send a request, and return its answers with the one that ends them."""
        return await self._ask(subject, body, None, is_batch=True)

    def publish(self, subject: str, body: bytes) -> None:
        """Send a message, for which no one answers; raises `Unavailable` if that cannot be done."""
        self._write(self._message(subject, "", body, None))

    def subscribe(self, subject: str) -> None:
        """Have messages of a subject from now on."""
        if subject not in self._subscriptions:
            self._number += 1
            self._subscriptions[subject] = self._number
            self._write(line("SUB", subject, self._number))

    def unsubscribe(self, subject: str) -> None:
        """Have no more of them."""
        number = self._subscriptions.pop(subject, None)
        if number is not None:
            self._write(line("UNSUB", number))

    async def flush(self) -> None:
        """Wait until the server has read what was sent."""
        await self._until_read(b"")

    async def close(self) -> None:
        """Disconnect when the server has read what was sent, in bounded time."""
        with contextlib.suppress(CoterieError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self.flush()
        is_open = self._transport is not None
        self.terminate()
        if is_open:
            await self._closed.wait()

    def terminate(self) -> None:
        """Cut the connection: what waits for an answer ends at once."""
        self._end(Unavailable(f"{self}: the connection ended"))

    # Requests

    async def _until_read(self, data: bytes) -> None:
        pong = asyncio.get_running_loop().create_future()
        self._pongs.append(pong)
        self._write(data + b"PING\r\n")
        await self._in_time(pong)

    async def _ask(
        self, subject: str, body: bytes, expected: int | None, *, is_batch: bool
    ) -> list[NatsAnswer]:
        self._number += 1
        inbox = f"{self._inbox}.{self._number}"
        request = self._requests[inbox] = NatsRequest(subject, self._expect(), is_batch=is_batch)
        try:
            self._write(self._message(subject, inbox, body, expected))
            return await request.answered
        finally:
            del self._requests[inbox]

    def _expect(self) -> float:
        """Return until when a request has to be answered that is sent now, and see to it.

        One timer serves many requests, each of which would else make and cancel one of its own.
        """
        loop = asyncio.get_running_loop()
        answer_by = loop.time() + self._limit
        if self._timer is None:
            self._timer = loop.call_at(answer_by, self._look_at_time)
        return answer_by

    def _look_at_time(self) -> None:
        self._timer = None
        oldest = next(iter(self._requests.values()), None)
        if oldest is None:
            return
        loop = asyncio.get_running_loop()
        if oldest.answer_by <= loop.time():
            self._end(Unavailable(f"{self}: no answer in time"))
        else:
            self._timer = loop.call_at(oldest.answer_by, self._look_at_time)

    async def _in_time(self, answered: asyncio.Future[ResultT]) -> ResultT:
        try:
            async with asyncio.timeout(self._limit):
                return await answered
        except TimeoutError:
            self._end(Unavailable(f"{self}: no answer in time"))
            self._fail()

    def _message(self, subject: str, inbox: str, body: bytes, expected: int | None) -> bytes:
        if len(body) > self.info.max_payload:
            raise Unavailable(
                f"{self}: a message of {len(body)} bytes is longer than the server takes"
            )
        return message(subject, inbox, body, expected)

    def _write(self, data: bytes) -> None:
        """Send at the end of this turn of the event loop, in one piece with all else that is written in it."""
        if self._transport is None:
            self._fail()
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._send)
        self._unsent.append(data)

    def _send(self) -> None:
        data = b"".join(self._unsent)
        self._unsent.clear()
        try:
            if self._transport is not None:
                self._transport.write(data)
        except (OSError, RuntimeError) as error:  # uvloop raises the latter for one that is closed
            self._end(self._error(error))

    def _fail(self) -> NoReturn:
        raise self._trouble or Unavailable(f"{self}: the connection ended")

    # The connection

    async def _open(self) -> None:
        host, port = self._url.addresses[0]
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, host, port)
        await self._greeted
        if not self.info.headers:
            raise ConfigError(f"{self}: version {self.info.version} is too old, or has no headers")
        offers_tls = self.info.tls_required or self.info.tls_available
        if self._url.scheme == SECURE:
            if not offers_tls:
                raise ConfigError(f"{self}: the server offers no TLS")
            # What came in the clear may be of anyone on the way: no part of it is read with what comes over TLS.
            self._frames = FrameReader()
            if self._transport is not None:
                self._transport = await loop.start_tls(
                    self._transport, self, _tls(self._url), server_hostname=host
                )
        elif self.info.tls_required:
            raise ConfigError(f"{self}: the server wants TLS; write natss://")

    def _login(self) -> str:
        said: dict[str, object] = {
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
            "lang": "python",
            "version": "coterie",
            "name": "coterie",
            "protocol": 1,
        }
        if self._url.user and self._url.secret:
            said |= {"user": self._url.user, "pass": self._url.secret}
        elif self._url.user or self._url.secret:
            said |= {"auth_token": self._url.user or self._url.secret}
        return msgspec.json.encode(said).decode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, of which nothing has been read yet."""
        self._transport = cast(
            "asyncio.Transport", transport
        )  # that of uvloop is none by its class

    def data_received(self, data: bytes) -> None:
        """Take what comes; after what makes no sense nothing that follows can be read."""
        try:
            for frame in self._frames.feed(data):
                self._take(frame)
        except Exception as error:  # noqa: BLE001 - as said
            self._end(self._error(error))

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note of the end."""
        self._end(self._error(exc))
        self._closed.set()

    def _take(self, frame: NatsFrame) -> None:
        if self.ended.is_set():
            return
        if not self._greeted.done():
            if frame.kind != "INFO":
                raise ConfigError(f"{self}: this is no NATS server")
            self.info = msgspec.json.decode(frame.text, type=ServerInfo)
            self._greeted.set_result(None)
            return
        match frame.kind:
            case "MSG" | "HMSG":
                self._take_message(*read_message(frame))
            case "PING":
                self._write(b"PONG\r\n")
            case "PONG":
                if self._pongs and not (pong := self._pongs.pop(0)).done():
                    pong.set_result(None)
            case "-ERR":
                self._refused(legible(frame.text.strip("' ")))
            case "INFO" | "+OK":
                pass
            case _:
                raise ValueError(f"unknown message {frame.kind[:20]!r}")

    def _take_message(self, subject: str, answer: NatsAnswer) -> None:
        request = self._requests.get(subject)
        if request is not None:
            request.take(answer)
        elif self._heard is not None and not subject.startswith(self._inbox):
            self._heard(subject, answer.body)

    def _refused(self, text: str) -> None:
        """Take an error: of one subject, or of the whole connection, which the server ends then."""
        found = SUBJECT_REFUSED.search(text)
        is_refusal = text.lower().startswith(REFUSALS)
        kind = ConfigError if is_refusal else Unavailable
        error = kind(f"{self}: {'refused: ' if is_refusal else ''}{text}")
        if found is None:
            self._trouble = self._trouble or error
        elif found[1].lower() == "subscription":
            self._end(error)
        else:
            for request in self._requests.values():
                if request.subject == found[2]:
                    request.fail(error)

    def _end(self, error: CoterieError) -> None:
        self._trouble = self._trouble or error
        self.ended.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        transport, self._transport = self._transport, None
        if transport is not None:
            with contextlib.suppress(OSError, RuntimeError):
                transport.abort()
        _fail(self._greeted, self._trouble)
        for request in self._requests.values():
            request.fail(self._trouble)
        for pong in self._pongs:
            _fail(pong, self._trouble)
        self._pongs.clear()

    def _error(self, error: BaseException | None) -> CoterieError:
        """Say what an error of the connection means."""
        match error:
            case CoterieError():
                return error
            case ssl.SSLError():
                return ConfigError(f"{self}: refused: {error}")
            case TimeoutError():
                text = "no answer in time"
            case OSError():
                # asyncio has texts of its own for what the system has refused.
                number = error.errno or 0
                text = os.strerror(number) if number > 0 else str(error.strerror or error)
            case None | asyncio.CancelledError() | EOFError():
                text = "the connection ended"
            case Exception() if isinstance(error, NONSENSE):
                text = f"an answer makes no sense: {describe(error)}"
            case _:
                text = f"the connection ended: {error}"
        return Unavailable(f"{self}: {text}")


def name_of(url: ServerUrl) -> str:
    """Name servers for people."""
    return f"nats at {url.shown}"


def _fail(future: asyncio.Future[Any], error: CoterieError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # taken as seen: the one that waits may have ended


def _tls(url: ServerUrl) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=url.tls_file("ca") or None)
    if url.tls_file("certificate"):
        context.load_cert_chain(url.tls_file("certificate"), url.tls_file("key") or None)
    return context
