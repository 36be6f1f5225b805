"""A node of a classic algorithm: one process of it for every lock that anybody has named."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from coterie.catalogue import Algorithm, Setup, algorithm
from coterie.cluster.runtime.host import Host
from coterie.cluster.wire.handshake import new_identity
from coterie.cluster.wire.listener import Door
from coterie.cluster.wire.peers import Incoming, Outgoing, call_peer
from coterie.errors import ProtocolError
from coterie.process import Seat, encode, seat

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.cluster.config import Config
    from coterie.cluster.wire.connection import Connection
    from coterie.cluster.wire.frames import Hello, Letter
    from coterie.process import Event, ProcessId

logger = logging.getLogger("coterie.cluster")


def choose(config: Config) -> tuple[Algorithm, Setup]:
    """Look up the algorithm of a configuration."""
    choice = config.membership.algorithm
    assert choice is not None, "the leased lock has nodes of its own"
    entry = algorithm(choice.name)
    size = len(config.membership.members)
    return entry, entry.setup(size, choice.variant, dict(choice.parameters))


class LockProcess(NamedTuple):
    """The process of one lock at this node, with its user."""

    seat: Seat
    host: Host

    def call(self, verb: str) -> None:
        """Let the user acquire or release."""
        self.host.step(self.seat.call, verb)


class Classic:
    """One node; all of them have to run for anybody to get a lock, unless the algorithm bears less."""

    def __init__(self, config: Config, name: str, on_event: Callable[[str, Event], None]) -> None:
        """Prepare; `on_event` hears what the processes tell their users."""
        self.name = name
        self.me = config.membership.voter(name)
        self.algorithm, self.setup = choose(config)
        self.on_event = on_event
        self.processes: dict[str, LockProcess] = {}  # by lock
        self.lost: set[ProcessId] = set()  # peers that are away, or were
        self.failed: asyncio.Future[None]  # as every node has it; this one saves nothing
        self._config = config
        self._door = Door(config, name)
        self._outgoing: dict[ProcessId, Outgoing] = {}
        self._incoming = {
            peer: Incoming(peer, self._deliver)
            for peer in range(1, self.setup.size + 1)
            if peer != self.me
        }

    async def start(self) -> None:
        """Listen, call the others, and say what this algorithm bears."""
        self.failed = asyncio.get_running_loop().create_future()
        await self._door.open(lambda: 0, self._admit)
        identity = new_identity(self.name)
        for peer in self._incoming:
            lost = partial(self._lose, peer)
            self._outgoing[peer] = call_peer(self._config, peer, identity, lost)
        logger.warning(
            "node %s runs %s: it assumes %s, and bears %s; there are no leases and no fence",
            self.name,
            self.algorithm.name,
            ", ".join(self.algorithm.assumes) or "nothing",
            ", ".join(self.algorithm.tolerates) or "nothing else",
        )

    async def stop(self) -> None:
        """End; the others find this node lost."""
        for running in self.processes.values():
            running.host.stop()
        for outgoing in self._outgoing.values():
            await outgoing.stop()
        await self._door.close()
        self.failed.cancel()

    def process(self, lock: str) -> LockProcess:
        """Return the process of a lock; the first use of a name lets all nodes make theirs."""
        if lock not in self.processes:
            self._make(lock)
            for peer in self._outgoing:
                self.send(peer, lock, b"")
        return self.processes[lock]

    def _make(self, lock: str) -> None:
        seated = seat(self.algorithm.build(self.setup)[self.me - 1])
        host = Host(
            seated,
            lambda to, message: self.send(to, lock, encode(message)),
            lambda event: self.on_event(lock, event),
            me=self.me,
            lost=self.lost,
        )
        self.processes[lock] = LockProcess(seated, host)
        host.start(0)

    def send(self, peer: ProcessId, lock: str, content: bytes) -> None:
        """Send a message of the process of that lock."""
        self._outgoing[peer].send(lock, content)

    def _admit(self, connection: Connection, hello: Hello) -> None:
        if hello.role != "peer":
            raise ProtocolError(f"{self.algorithm.name} has no programs outside its nodes: join it")
        peer = self._config.membership.voter(hello.label)
        if peer == self.me:
            raise ProtocolError("somebody else runs this very node")
        self._incoming[peer].admit(connection, hello)

    def _deliver(self, peer: ProcessId, letter: Letter) -> None:
        if letter.lock not in self.processes:
            self._make(letter.lock)
        if letter.content:
            self.processes[letter.lock].host.deliver(peer, letter.content)

    def _lose(self, peer: ProcessId) -> None:
        name = self._config.membership.members[peer - 1].name
        logger.error("node %s is lost to node %s", name, self.name)
        self.lost.add(peer)
        for _, running in sorted(self.processes.items()):
            running.host.down(peer)
