"""Where a node listens: connections come in, and those that prove themselves are let through."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, cast

from coterie.cluster.runtime import descriptors
from coterie.cluster.wire.certificate import warn_of_own_certificate
from coterie.cluster.wire.complaints import Complaints
from coterie.cluster.wire.connection import Connection
from coterie.cluster.wire.handshake import HANDSHAKE_SECONDS_MAX, Greeter
from coterie.cluster.wire.trouble import explain
from coterie.errors import Unavailable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from coterie.cluster.wire.frames import Hello
    from coterie.cluster.wire.handshake import Credentials
    from coterie.cluster.wire.local_node import LocalNode
    from coterie.cluster.wire.security import Security

UNPROVEN_MAX = 256  # connections that are in the handshake
UNPROVEN_SHARE = 8  # they take one in so many descriptors at most

logger = logging.getLogger("coterie.cluster")


class Early(asyncio.Protocol):
    """Takes what a caller sends before TLS has begun, for a connection that is to go over to it.

    uvloop begins to read after `connection_made`, whatever that has said about it. The first bytes of
    a caller in the same process are there by then, and those of others may be.
    """

    def __init__(self, connection: Connection) -> None:
        """Prepare."""
        self.connection = connection
        self._data = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.connection.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Keep what came for TLS."""
        self._data += data

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on that the caller has gone."""
        self.connection.connection_lost(exc)

    def hand_over(self) -> None:
        """Let TLS have what came before it had taken the transport over.

        Its own beginning is due in the next turn, and so is this, before anything else is read.
        """
        tls = self.connection.transport.get_protocol()
        if self._data and tls is not self:
            asyncio.get_running_loop().call_soon(self._feed, cast("asyncio.BufferedProtocol", tls))

    def _feed(self, tls: asyncio.BufferedProtocol) -> None:
        while self._data and not self.connection.closed:
            space = memoryview(tls.get_buffer(len(self._data)))
            taken = min(len(space), len(self._data))
            space[:taken] = self._data[:taken]
            del self._data[:taken]
            tls.buffer_updated(taken)


class Listener:
    """The listening end of one node."""

    def __init__(
        self,
        node: LocalNode,
        start: str,
        number: Callable[[], int],
        admit: Callable[[Connection, Hello], None],
        *,
        credentials: Callable[[], Credentials],
        disk: Callable[[], str] = str,
    ) -> None:
        """Prepare to listen for a node; `admit` takes over connections after the handshake.

        `start` is another word for each start of the node, `number` reads Lamport's clock, and
        `credentials` are what callers have to agree with at the moment. `disk` is the identity of
        that of the node, for callers that want no other.
        """
        self._name = node.name
        self._listen = node.listen
        self._host = node.addresses.get(node.name, node.listen).host  # by which others call it
        self._security = node.security
        self._admit = admit
        self._greeter = Greeter(
            credentials,
            node.name,
            start,
            number,
            self._let_in,
            diskless=node.is_diskless,
            disk=disk,
        )
        self._server: asyncio.Server | None = None
        self._connections: dict[Connection, Hello] = {}
        self._unproven: dict[Connection, None] = {}  # those in the handshake, the oldest first
        self._encrypting: dict[asyncio.Task[None], None] = {}
        self._complaints = Complaints()
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    async def open(self) -> None:
        """Listen, or raise `Unavailable`."""
        self._tls = self._security.server_context()
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._begin,
                self._listen.host,
                self._listen.port,
            )
        except OSError as error:
            raise Unavailable(f"node {self._name!r} on {self._listen}: {error}") from None
        logger.info(
            "node %(node)s listens on %(address)s",
            {"node": self._name, "address": self._listen},
            extra={"event": "node-listens"},
        )
        if self._security.is_open and not self._listen.is_loopback:
            logger.warning(
                "node %(node)s has neither a secret nor TLS: any program that reaches it may lock",
                {"node": self._name},
                extra={"event": "node-unprotected"},
            )

        warn_of_exposed_files(self._security)
        warn_of_own_certificate(self._security, self._host)

    def _begin(self) -> asyncio.Protocol:
        """Make what takes a connection that is being accepted."""
        if self._tls is None:
            return Connection(self._greet, self._forget, self._complaints.log)
        greet = partial(self._greet_encrypted, self._tls)
        early = Early(Connection(lambda _: greet(early), self._forget, self._complaints.log))
        return early

    def _greet(self, connection: Connection) -> None:
        if self._take_in(connection):
            self._greeter.greet(connection)

    def _greet_encrypted(self, tls: ssl.SSLContext, early: Early) -> None:
        if not self._take_in(early.connection):
            return
        early.connection.transport.pause_reading()  # what comes next is for TLS
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._encrypt(early.connection, tls))
        loop.call_soon(early.hand_over)  # its turn is after that of the task
        self._encrypting[task] = None
        task.add_done_callback(self._encrypting.pop)

    def _take_in(self, connection: Connection) -> bool:
        """Count a connection among those in the handshake; return False if it is too late."""
        if self._closed:  # it was accepted just before
            connection.abort("the node ends")
            return False
        self._make_room()
        self._unproven[connection] = None
        return True

    def _make_room(self) -> None:
        """End the oldest handshakes, if there are too many: a caller in earnest takes a moment.

        Otherwise callers without the secret could take all descriptors of this process.
        """
        most = max(1, min(UNPROVEN_MAX, descriptors.limit() // UNPROVEN_SHARE))
        while len(self._unproven) >= most:
            oldest = next(iter(self._unproven))
            del self._unproven[oldest]
            reason = f"{most} others are in the handshake, and this one takes longest"
            oldest.complain(reason)
            oldest.abort(reason)

    async def _encrypt(self, connection: Connection, tls: ssl.SSLContext) -> None:
        """Go over to TLS, so that also callers that fail there are counted and named in the log."""
        try:
            transport = await asyncio.get_running_loop().start_tls(
                connection.transport,
                connection,
                tls,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
            )
        except OSError as error:  # also what TLS finds wrong, and a handshake that takes too long
            if not connection.closed:
                hung_up = "the caller hung up in the handshake; it may not trust our certificate"
                connection.complain(f"TLS: {explain(error) if str(error) else hung_up}")
            connection.connection_lost(error)
            return
        if connection.closed or transport is None:
            connection.connection_lost(None)  # it was ended meanwhile
            return
        connection.transport = transport
        self._greeter.greet(connection)

    def _let_in(self, connection: Connection, hello: Hello) -> None:
        self._unproven.pop(connection, None)
        self._connections[connection] = hello
        logger.log(
            _level(hello),
            "%(role)s %(program)r connected from %(address)s",
            {"role": hello.role, "program": hello.label, "address": connection.peer},
            extra={"event": "program-connected"},
        )
        self._admit(connection, hello)

    def _forget(self, connection: Connection, reason: str) -> None:
        self._unproven.pop(connection, None)
        hello = self._connections.pop(connection, None)
        if hello is not None:
            logger.log(
                _level(hello),
                "%(role)s %(program)r disconnected: %(reason)s",
                {"role": hello.role, "program": hello.label, "reason": reason},
                extra={"event": "program-disconnected"},
            )

    async def close(self) -> None:
        """Listen no more, and end all connections."""
        self._closed = True
        if self._server is not None:
            await stop_serving(self._server)  # what was accepted gets to `_greet`, and no further
        connections = [*self._unproven, *self._connections]
        for connection in connections:
            connection.close("the node ends")
        if self._encrypting:
            await asyncio.wait(set(self._encrypting))
        for connection in connections:
            await connection.wait_closed()
        self._complaints.close()


def warn_of_exposed_files(security: Security) -> None:
    """Log which files with secrets other users of this machine can read."""
    for path in security.exposed_files():
        logger.warning(
            "every user of this machine can read %(path)s, and so take part in the cluster: chmod 600 it",
            {"path": path},
            extra={"event": "secret-exposed"},
        )


def _level(hello: Hello) -> int:
    return logging.DEBUG if hello.role == "admin" else logging.INFO


async def stop_serving(server: asyncio.Server) -> None:
    """Accept no more connections, and close the server; what was accepted before is connected.

    A connection gets its transport a turn after it was accepted. A server of Python 3.11 that is
    closed in between refuses the transport, and the socket stays open until it is collected
    (CPython issue 109564).
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening)
    await asyncio.sleep(0)
    server.close()
    await asyncio.sleep(0)  # the protocols hear of their transports
