"""Links between the nodes of a classic algorithm or of a store: in order, exactly once, while both live.

Letters are numbered and kept until the other end has confirmed them; a new connection begins with
those that it may have missed. A node that starts again is another process with no memory of its links:
what was meant for the one before is dropped. Whether the new one is spoken with depends on the
algorithm: one that has no rule for the return of a process would go on with a process that has
forgotten what it promised, and two could be inside.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from coterie.cluster.wire.connection import BACKLOG_BYTES_MAX
from coterie.cluster.wire.frames import Letter, Receipt, Refusal, decode_letter, decode_receipt
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


class Peer:
    """One other node: the letters to it, over a link of ours, and those that come from it."""

    def __init__(
        self,
        config: Config,
        number: ProcessId,
        identity: Identity,
        *,
        incarnation: Callable[[], int],
        on_letter: Callable[[ProcessId, Letter], None],
        on_lost: Callable[[ProcessId], None],
        on_restart: Callable[[ProcessId, int], str | None],
        on_met: Callable[[ProcessId], None],
        on_refused: Callable[[str], None],
    ) -> None:
        """Prepare; calls begin with `start`.

        Args:
            config: The configuration; its lease is the time after which a peer is lost.
            number: Which of its members this is.
            identity: Our own, one for each start of this node. The node's listener has to name it
                as its start, so that peers know it whichever side calls.
            incarnation: Reads the number of our own start, which the listener names as its clock.
            on_letter: Takes each letter once, in order.
            on_lost: Called when the peer is away for a lease.
            on_restart: Called when the peer has started again, with the number of the new start.
                Returns why it is not spoken with, or None.
            on_met: Called when the peer has first let us in: it knows us, and we know it.
            on_refused: Called with the reason when the peer does not speak with us, for good.
        """
        member, lease = config.membership.members[number - 1], config.membership.settings.lease
        self.name = member.name
        self._number = number
        self._patience = lease
        self._on_letter = on_letter
        self._on_lost = on_lost
        self._on_restart = on_restart
        self._on_met = on_met
        self._is_met = False
        self._on_refused = on_refused
        self._life: str | None = None  # of the peer: another one for each of its starts
        self._waiting: deque[Letter] = deque()
        self._unconfirmed: deque[Letter] = deque()  # on their way over this connection
        self._bytes = 0  # of those
        self._posted = 0
        self._delivered = 0
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        membership, security = config.membership, config.security
        credentials = Credentials(membership.cluster, membership.digest, security.secret_bytes())
        self._link = Link(
            member.name,
            [member.address],
            lambda: Caller(credentials, "peer", identity, member.name, incarnation=incarnation()),
            security.client_context(),
            lease,
            receive=self._confirm,
            connected=self._connected,
            disconnected=self._disconnected,
        )

    def start(self) -> None:
        """Begin to call the peer."""
        self._link.start()

    async def stop(self) -> None:
        """Call no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        await self._link.stop()

    @property
    def is_up(self) -> bool:
        """Whether there is a connection over which letters leave."""
        return self._link.is_up

    def abort(self, reason: str) -> None:
        """Break our connection to the peer, if there is one; it is made again."""
        self._link.abort(reason)

    def _meet(self, life: str, incarnation: int) -> None:
        """Notice a start of the peer that is not the one we know, whichever side has called."""
        if self._life is not None and life != self._life:
            self._waiting.clear()
            self._unconfirmed.clear()
            self._posted = self._delivered = self._bytes = 0
            objection = self._on_restart(self._number, incarnation)
            if objection is not None:
                raise ProtocolError(objection)
        self._life = life

    # To the peer

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
        self._meet(welcome.start, welcome.clock)
        self._push()

    def _disconnected(self) -> None:
        if not self._stopped:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._patience, self._on_lost, self._number)

    def _confirm(self, frame: memoryview) -> None:
        answer = decode_receipt(frame)
        if isinstance(answer, Refusal):
            self._link.give_up()
            self._on_refused(answer.reason)
            return
        if not self._is_met:
            self._is_met = True
            self._on_met(self._number)
        while self._unconfirmed and self._unconfirmed[0].seq <= answer.seq:
            self._bytes -= len(self._unconfirmed.popleft().content)
        self._push()

    # From the peer

    def admit(self, connection: Connection, hello: Hello) -> None:
        """Take letters from a new connection of the peer, or tell it why not."""
        try:
            self._meet(hello.identity, hello.incarnation)
        except ProtocolError as error:
            connection.send(Refusal(str(error)))
            raise
        connection.use(lambda frame: self._take(connection, hello.identity, frame))
        connection.send(Receipt(self._delivered))  # it is let in

    def _take(self, connection: Connection, life: str, frame: memoryview) -> None:
        letter = decode_letter(frame)
        if life != self._life:
            raise ProtocolError("a letter of a start of the peer that is over")
        if letter.seq > self._delivered + 1:
            raise ProtocolError(f"letter {letter.seq} came after letter {self._delivered}")
        if letter.seq == self._delivered + 1:
            self._delivered += 1
            self._on_letter(self._number, letter)
        connection.send(Receipt(self._delivered))
