"""A voting node: it listens, lets in who proves itself, and votes."""

from __future__ import annotations

import asyncio
import logging
import secrets
import weakref
from typing import TYPE_CHECKING

from coterie.cluster.connection import Connection
from coterie.cluster.handshake import Credentials, Greeter
from coterie.cluster.metrics import node_metrics
from coterie.cluster.responder import serve_text
from coterie.cluster.storage import Storage
from coterie.cluster.voting import Voting
from coterie.errors import Unavailable

if TYPE_CHECKING:
    from coterie.cluster.config import Config
    from coterie.cluster.frames import Hello

LOOPBACK = ("127.0.0.1", "::1", "localhost")

logger = logging.getLogger("coterie.cluster")


class Node:
    """One voter on one address."""

    def __init__(self, config: Config, name: str, *, new_cluster: bool = False) -> None:
        """Prepare; `new_cluster` vouches that nobody holds a lock of an earlier start."""
        self.name = name
        self.config = config
        self.options = config.options(name)
        self.voting: Voting
        self.failed: asyncio.Future[None]
        self._new_cluster = new_cluster
        self._storage: Storage | None = None
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._servers: list[asyncio.Server] = []

    async def start(self) -> None:
        """Vote, listen, and show the metrics where this is asked for."""
        membership, security = self.config.membership, self.config.security
        self.failed = asyncio.get_running_loop().create_future()
        self._storage = Storage(self.options.data) if self.options.data else None
        self.voting = Voting(membership, self.name, self._storage)
        self.voting.driver.on_failure = self._fail
        self.voting.start(secrets.token_hex(16), new_cluster=self._new_cluster)
        credentials = Credentials(membership.cluster, membership.digest, security.secret_bytes())
        self._greeter = Greeter(credentials, self.name, self._admit)
        try:
            await self._listen()
        except OSError as error:
            await self.stop()
            raise Unavailable(f"node {self.name!r} on {self.options.listen}: {error}") from None
        self._warn()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        listen, tls = self.options.listen, self.config.security.server_context()
        self._servers.append(
            await loop.create_server(
                lambda: Connection(self._greet), listen.host, listen.port, ssl=tls
            )
        )
        if self.options.metrics:
            self._servers.append(
                await serve_text(self.options.metrics, lambda: node_metrics(self.voting))
            )

    def _warn(self) -> None:
        logger.info("node %s listens on %s", self.name, self.options.listen)
        if self.config.security.is_open and self.options.listen.host not in LOOPBACK:
            logger.warning("node %s has neither a secret nor TLS: anybody may lock", self.name)
        if self._storage is None:
            logger.warning(
                "node %s has no data directory: after a restart tokens grow only if the time of"
                " day is right to a second",
                self.name,
            )

    def _greet(self, connection: Connection) -> None:
        self._connections.add(connection)
        self._greeter.greet(connection)

    def _admit(self, connection: Connection, hello: Hello) -> None:
        level = logging.INFO if hello.role == "participant" else logging.DEBUG
        logger.log(level, "%s %r connected from %s", hello.role, hello.label, connection.peer)
        self.voting.admit(connection, hello)
        forget = connection.on_close
        assert forget is not None, "admission says what a lost connection means"

        def close(reason: str) -> None:
            forget(reason)
            logger.log(level, "%s %r disconnected: %s", hello.role, hello.label, reason)

        connection.on_close = close

    def _fail(self, error: OSError) -> None:
        logger.critical("node %s votes no more: it cannot save its bound: %s", self.name, error)
        if not self.failed.done():
            self.failed.set_exception(Unavailable(f"node {self.name!r}: {error}"))

    async def stop(self) -> None:
        """End in good order: with a data directory the next start goes on where this one ended."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        self.voting.stop()
        connections = list(self._connections)
        for connection in connections:
            connection.close("the node ends")
        for connection in connections:
            await connection.wait_closed()
        if self._storage is not None:
            self._storage.close()
            self._storage = None
        if not self.failed.done():
            self.failed.cancel()
