"""A voting node: it listens, votes, and shows its metrics."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from coterie.cluster.runtime import clock
from coterie.cluster.voter.host import Voting
from coterie.cluster.voter.metrics import node_metrics, serve_text
from coterie.cluster.voter.recovery import recover
from coterie.cluster.voter.storage import Storage
from coterie.cluster.wire.listener import Door, stop_serving
from coterie.errors import Unavailable

if TYPE_CHECKING:
    from coterie.cluster.config import Config

logger = logging.getLogger("coterie.cluster")


class Node:
    """One voter on one address."""

    def __init__(self, config: Config, name: str, *, new_cluster: bool = False) -> None:
        """Prepare; `new_cluster` vouches that nobody holds a lock of an earlier start."""
        self.name = name
        self.voting: Voting
        self.failed: asyncio.Future[None]
        self._config = config
        self._options = config.options(name)
        self._new_cluster = new_cluster
        self._storage: Storage | None = None
        self._metrics: asyncio.Server | None = None
        self._recovering: asyncio.Task[None] | None = None
        self._door: Door

    async def start(self) -> None:
        """Vote, listen, and show the metrics where this is asked for."""
        self.failed = asyncio.get_running_loop().create_future()
        self._storage = Storage(self._options.data) if self._options.data else None
        self.voting = Voting(
            self._config.membership,
            self.name,
            self._storage,
            self._fail,
            new_cluster=self._new_cluster,
        )
        self.voting.start()
        self._door = Door(self._config, self.name)
        try:
            await self._door.open(self.voting.clock, self.voting.admit)
            await self._show_metrics()
        except BaseException:
            await self.stop()
            raise
        if self.voting.recovers:
            self._recovering = asyncio.ensure_future(recover(self._config, self.voting))
        if self._storage is None:
            error = clock.error_borne(self._config.membership.settings.lease)
            logger.warning(
                "node %s has no data directory: after a restart tokens grow only if the time of"
                " day is right to %g s",
                self.name,
                error,
            )

    async def _show_metrics(self) -> None:
        address = self._options.metrics
        if address is None:
            return
        try:
            self._metrics = await serve_text(address, lambda: node_metrics(self.voting))
        except OSError as error:
            raise Unavailable(f"metrics of node {self.name!r} on {address}: {error}") from None

    def _fail(self, error: OSError) -> None:
        logger.critical("node %s votes no more: it cannot save its bound: %s", self.name, error)
        if not self.failed.done():
            self.failed.set_exception(Unavailable(f"node {self.name!r}: {error}"))

    async def stop(self) -> None:
        """End in good order: with a data directory the next start goes on where this one ended."""
        if self._metrics is not None:
            await stop_serving(self._metrics)
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.wait({self._recovering})
            self._recovering = None
        self.voting.stop()
        await self._door.close()
        if self._storage is not None:
            self._storage.close()
            self._storage = None
        if not self.failed.done():
            self.failed.cancel()
