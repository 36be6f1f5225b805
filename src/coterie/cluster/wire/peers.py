"""Links between the nodes of a classic algorithm: in order, exactly once, as long as both live.

Letters are numbered and kept until the other end has confirmed them; a new connection begins with
those that it may have missed. A node that starts again is another process with no memory: what was
meant for the one before is dropped, and everybody is told that it was down.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from coterie.cluster.wire.connection import BACKLOG_BYTES_MAX
from coterie.cluster.wire.frames import Letter, Receipt, decode_letter, decode_receipt
from coterie.cluster.wire.handshake import Caller, Credentials
from coterie.cluster.wire.link import Link
from coterie.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.cluster.config import Config
    from coterie.cluster.wire.connection import Connection
    from coterie.cluster.wire.frames import Hello, Welcome
    from coterie.cluster.wire.handshake import Identity
    from coterie.process import ProcessId

WINDOW_BYTES = BACKLOG_BYTES_MAX // 4  # on the way at a time, but for the last letter of them

logger = logging.getLogger("coterie.cluster")


class Outgoing:
    """What goes to one peer."""

    def __init__(
        self, config: Config, peer: ProcessId, identity: Identity, lost: Callable[[], None]
    ) -> None:
        """Call the peer; `lost` is called when it is away for a lease, or has started again."""
        membership, security = config.membership, config.security
        credentials = Credentials(membership.cluster, membership.digest, security.secret_bytes())
        member, lease = membership.members[peer - 1], membership.settings.lease
        self._link = Link(
            member.name,
            [member.address],
            lambda: Caller(credentials, "peer", identity, member.name),
            security.client_context(),
            lease,
            receive=self._confirm,
            connected=self._connected,
            disconnected=self._disconnected,
        )
        self._patience = lease
        self._lost = lost
        self._waiting: deque[Letter] = deque()
        self._unconfirmed: deque[Letter] = deque()  # on their way over this connection
        self._bytes = 0  # of those
        self._posted = 0
        self._start: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._link.start()

    @property
    def is_up(self) -> bool:
        """Tell whether there is a connection."""
        return self._link.is_up

    def send(self, lock: str, content: bytes) -> None:
        """Send, now or when there is a connection."""
        self._posted += 1
        self._waiting.append(Letter(self._posted, lock, content))
        self._push()

    def _push(self) -> None:
        """Send what waits, but no more at a time than a connection takes before it is read."""
        while self._waiting and self.is_up and self._bytes < WINDOW_BYTES:
            letter = self._waiting.popleft()
            self._unconfirmed.append(letter)
            self._bytes += len(letter.content)
            self._link.send(letter)

    def _connected(self, welcome: Welcome) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.extendleft(reversed(self._unconfirmed))
        self._unconfirmed.clear()
        self._bytes = 0
        if self._start not in (None, welcome.start):
            self._waiting.clear()
            self._posted = 0
            self._lost()
        self._start = welcome.start
        self._push()

    def _disconnected(self) -> None:
        if self._stopped:
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._patience, self._lost)

    def _confirm(self, frame: memoryview) -> None:
        seq = decode_receipt(frame).seq
        while self._unconfirmed and self._unconfirmed[0].seq <= seq:
            self._bytes -= len(self._unconfirmed.popleft().content)
        self._push()

    async def stop(self) -> None:
        """Call no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        await self._link.stop()


class Incoming:
    """What comes from one peer, over any number of connections of one start of it."""

    def __init__(self, peer: ProcessId, deliver: Callable[[ProcessId, Letter], None]) -> None:
        """Hand on each letter once, in order."""
        self._peer = peer
        self._deliver = deliver
        self._identity = ""
        self._delivered = 0

    def admit(self, connection: Connection, hello: Hello) -> None:
        """Take letters from a new connection."""
        if hello.identity != self._identity:
            self._identity, self._delivered = hello.identity, 0
        connection.receive = lambda frame: self._take(connection, hello.identity, frame)
        connection.on_close = lambda _: None

    def _take(self, connection: Connection, identity: str, frame: memoryview) -> None:
        letter = decode_letter(frame)
        if identity != self._identity:
            raise ProtocolError("a letter of a start of the peer that is over")
        if letter.seq > self._delivered + 1:
            raise ProtocolError(f"letter {letter.seq} came after letter {self._delivered}")
        if letter.seq == self._delivered + 1:
            self._delivered += 1
            self._deliver(self._peer, letter)
        connection.send(Receipt(self._delivered))
