"""A voting node: it listens, votes, and shows its metrics."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from coterie import system
from coterie.cluster.runtime import clock
from coterie.cluster.voter.host import VoterHost
from coterie.cluster.voter.metrics import node_metrics, serve_text
from coterie.cluster.voter.recovery import recover
from coterie.cluster.voter.storage import Storage
from coterie.cluster.wire.listener import Listener, stop_serving
from coterie.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coterie.cluster.config import Config
    from coterie.telemetry.text import Metric

logger = logging.getLogger("coterie.cluster")


def _log_suffices(_: Unavailable) -> None:
    """Take the end of a node that is part of a program: the log has it."""


class Node:
    """One voter on one address. After an end, another start is another node."""

    def __init__(
        self,
        config: Config,
        name: str,
        *,
        new_cluster: bool = False,
        program: Callable[[], Iterable[Metric]] = tuple,
        on_failure: Callable[[Unavailable], None] = _log_suffices,
    ) -> None:
        """Prepare; `new_cluster` vouches that no program holds a lock of an earlier start.

        `program` collects the figures of the program that the node is part of; `on_failure` is
        called when the disk has failed, and the node votes no more.
        """
        self.name = name
        self.config = config
        self._options = config.options(name)
        self._program = program
        self._on_failure = on_failure
        self._storage = Storage(self._options.data) if self._options.data else None
        self.voting = VoterHost(
            config.membership, name, self._storage, self._fail, new_cluster=new_cluster
        )
        self._listener = Listener(
            config, name, system.secret(16).hex(), self.voting.clock, self.voting.admit
        )
        self._metrics: asyncio.Server | None = None
        self._recovering: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Vote, listen, and show the metrics where this is asked for."""
        if self._storage is not None:
            self._storage.open()
        try:
            self.voting.start()
            await self._listener.open()
            await self._show_metrics()
        except BaseException:
            await self.stop()
            raise
        if self.voting.recovers:
            self._recovering = asyncio.ensure_future(recover(self.config, self.voting))
        if self._storage is None:
            error = clock.error_borne(self.config.membership.settings.lease)
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
            self._metrics = await serve_text(
                address, lambda: node_metrics(self.voting, self._program())
            )
        except OSError as error:
            raise Unavailable(f"metrics of node {self.name!r} on {address}: {error}") from None

    def _fail(self, error: OSError) -> None:
        logger.critical("node %s votes no more: it cannot save its bound: %s", self.name, error)
        self._on_failure(Unavailable(f"node {self.name!r}: {error}"))

    async def stop(self) -> None:
        """End in good order: with a data directory the next start goes on where this one ended."""
        if self._metrics is not None:
            await stop_serving(self._metrics)
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.wait({self._recovering})
            self._recovering = None
        self.voting.stop()
        await self._listener.close()
        if self._storage is not None:
            self._storage.close()
