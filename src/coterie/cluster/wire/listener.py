"""Where a node listens: connections come in, and those that prove themselves are let through."""

from __future__ import annotations

import asyncio
import itertools
import logging
import weakref
from typing import TYPE_CHECKING

from coterie.cluster.wire.connection import Connection
from coterie.cluster.wire.handshake import Credentials, Greeter
from coterie.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.cluster.config import Config
    from coterie.cluster.wire.frames import Hello

LOOPBACK = ("127.0.0.1", "::1", "localhost")

logger = logging.getLogger("coterie.cluster")


class Door:
    """The listening end of one node."""

    def __init__(self, config: Config, name: str) -> None:
        """Prepare to listen for that node."""
        self._config = config
        self._name = name
        self._listen = config.options(name).listen
        self._server: asyncio.Server | None = None
        # By number: they are closed in the order in which they came.
        self._connections: weakref.WeakValueDictionary[int, Connection]
        self._connections = weakref.WeakValueDictionary()
        self._numbers = itertools.count()
        self._closed = False
        self._admit: Callable[[Connection, Hello], None]
        self._greeter: Greeter

    async def open(
        self, number: Callable[[], int], admit: Callable[[Connection, Hello], None]
    ) -> None:
        """Listen; `admit` serves who has proven itself, and says what its end means."""
        membership, security = self._config.membership, self._config.security
        credentials = Credentials(membership.cluster, membership.digest, security.secret_bytes())
        self._admit = admit
        diskless = membership.algorithm is None and self._config.options(self._name).data is None
        self._greeter = Greeter(credentials, self._name, number, self._let_in, diskless=diskless)
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: Connection(self._greet),
                self._listen.host,
                self._listen.port,
                ssl=security.server_context(),
            )
        except OSError as error:
            raise Unavailable(f"node {self._name!r} on {self._listen}: {error}") from None
        logger.info("node %s listens on %s", self._name, self._listen)
        if security.is_open and self._listen.host not in LOOPBACK:
            logger.warning("node %s has neither a secret nor TLS: anybody may lock", self._name)

    def _greet(self, connection: Connection) -> None:
        if self._closed:  # it was accepted just before
            connection.abort("the node ends")
            return
        self._connections[next(self._numbers)] = connection
        self._greeter.greet(connection)

    def _let_in(self, connection: Connection, hello: Hello) -> None:
        level = logging.DEBUG if hello.role == "admin" else logging.INFO
        logger.log(level, "%s %r connected from %s", hello.role, hello.label, connection.peer)
        self._admit(connection, hello)
        forget = connection.on_close
        assert forget is not None, "admission says what a lost connection means"

        def close(reason: str) -> None:
            forget(reason)
            logger.log(level, "%s %r disconnected: %s", hello.role, hello.label, reason)

        connection.on_close = close

    async def close(self) -> None:
        """Listen no more, and end all connections."""
        self._closed = True
        if self._server is not None:
            await stop_serving(self._server)  # who was accepted gets to `_greet`, and no further
        connections = list(self._connections.values())
        for connection in connections:
            connection.close("the node ends")
        for connection in connections:
            await connection.wait_closed()


async def stop_serving(server: asyncio.Server) -> None:
    """Accept nobody any more, and close the server; who was accepted before is connected.

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
