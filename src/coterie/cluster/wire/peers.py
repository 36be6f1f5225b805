"""Links between the nodes of a classic algorithm or of a store: in order, exactly once, while both live.

Letters are numbered and kept until the other end has confirmed them; a new connection begins with
those that it may have missed. One receipt confirms all letters before it, and nothing waits for it: so
it is sent after a while, or after many letters. A node that starts again is another process with no memory of its links.
Whether it is spoken with depends on the algorithm: one that has no rule for the return of a process
would go on with a process that has forgotten what it promised, and two could be inside.

Letters that the former start has not confirmed are dropped, or kept for the new one. They are kept for an
algorithm that assumes reliable links to a process that is back: others may learn of its return by way
of a third node, and write to it, before they meet its new start.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from coterie.cluster.wire.connection import BACKLOG_BYTES_MAX
from coterie.cluster.wire.frames import (
    ClassicMessage,
    Receipt,
    Refusal,
    decode_letter,
    decode_receipt,
)
from coterie.cluster.wire.handshake import Caller, new_identity
from coterie.cluster.wire.link import DIAL_SECONDS_MAX, Link
from coterie.cluster.wire.listener import Listener
from coterie.errors import ProtocolError
from coterie.locks.legible import legible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from coterie.cluster.wire.connection import Connection
    from coterie.cluster.wire.frames import Hello, Welcome
    from coterie.cluster.wire.local_node import LocalNode
    from coterie.process import ProcessId

WINDOW_BYTES = BACKLOG_BYTES_MAX // 4  # on the way at a time, but for the last letter of them
RECEIPTS_PER_WINDOW = 4  # at least, so that the sender does not come to wait for one
RECEIPT_LETTERS = 256  # that are confirmed at once
RECEIPT_SECONDS_MAX = 0.05  # that a receipt may be put off
WAITS = 8  # one after another, of which the patience with a peer consists
OVER = "a call of a start of the peer that is over, unless its data directory was lost"
RECEIPTS_PER_LEASE = 16  # at least: a link that hears nothing for a lease is made again


def _ignore(peer: ProcessId) -> None:
    """Do nothing about a peer."""


class Handlers(NamedTuple):
    """What a node does about its peers."""

    letter: Callable[[ProcessId, ClassicMessage], None]
    """Take a letter; each comes once, in order."""

    lost: Callable[[ProcessId], None]
    """Note that a peer is away for a lease."""

    met: Callable[[ProcessId], None]
    """Note that a peer has let us in for the first time: it knows our start, and we know its."""

    restarted: Callable[[ProcessId, int], str | None]
    """Note that a peer has started again, with the number of its start; return why it is refused."""

    refused: Callable[[str], None]
    """Note that a peer refuses us for good, and why."""

    connected: Callable[[ProcessId], None] = _ignore
    """Note that our connection to a peer is up, for the first time or again."""


class Peer:
    """One other node: the letters to it, over a link of ours, and those that come from it."""

    def __init__(
        self,
        node: LocalNode,
        number: ProcessId,
        caller: Callable[[str], Caller],
        handlers: Handlers,
        *,
        keeps_letters: bool = False,
    ) -> None:
        """Prepare; calls begin with `start`.

        Args:
            node: This node; its lease is the time after which a peer is lost.
            number: Which node of the configuration the peer is.
            caller: Makes our end of the handshake with a node, for each call.
            handlers: What to do about the peer.
            keeps_letters: Whether letters that a start of the peer has not confirmed are for the next.
        """
        name, address = list(node.addresses.items())[number - 1]
        self.name = name
        self._number = number
        self._patience = lease = node.lease
        self._handlers = handlers
        self._keeps_letters = keeps_letters
        self._life: str | None = None  # of the peer: another one for each of its starts
        self._incarnation = 0  # of that start; 0 for the first, and where starts are not counted
        self._reached: str | None = None  # the start of the peer that our connection is to
        self._is_met = False
        self._answered = asyncio.Event()  # it has let us in, refused us, or gone without a word
        self._waiting: deque[ClassicMessage] = deque()
        self._unconfirmed: deque[ClassicMessage] = deque()  # on their way over this connection
        self._bytes = 0  # of those
        self._posted = self._delivered = 0
        self._receipt: asyncio.TimerHandle | None = None  # that is put off
        self._receipt_seconds = min(RECEIPT_SECONDS_MAX, lease / RECEIPTS_PER_LEASE)
        self._unreceipted = 0  # letters that came since the last one
        self._unreceipted_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._link = Link(
            name,
            lambda: [address],
            lambda _: caller(name),
            node.security.client_context(),
            lambda: lease,
            decode=decode_receipt,
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
        if self._receipt is not None:
            self._receipt.cancel()
        await self._link.stop()

    @property
    def is_up(self) -> bool:
        """Whether there is a connection over which letters leave."""
        return self._link.is_up

    async def first_answer(self) -> None:
        """Wait until it is known what the peer makes of our start, or that it is away."""
        await self._link.tried.wait()
        if self._link.is_up:
            await self._answered.wait()

    @property
    def is_known(self) -> bool:
        """Whether we know of a start of the peer: it has called us, or answered our call."""
        return self._life is not None

    @property
    def incarnation(self) -> int:
        """The number of the start of the peer that we know; 0 where starts are not counted."""
        return self._incarnation

    @property
    def posted(self) -> int:
        """The number of the last letter to the peer."""
        return self._posted

    def rule_out(self) -> None:
        """Take each start of a peer that we do not know for a restart: others knew one that is over."""
        assert self._life is None, "we know no start of it"
        self._life = ""

    def abort(self, reason: str) -> None:
        """Break our connection to the peer, if there is one; it is made again."""
        self._link.abort(reason)

    def _meet(self, life: str, incarnation: int) -> None:
        """Notice a start of the peer that is not the one we know, whichever side has called.

        What a former start has sent may arrive after its successor was met. Where starts are counted
        it is known by its number; taken for another restart, it would end what is said with the
        successor, whose letters go on where they were.
        """
        if self._is_over(life, incarnation):
            # sometimes: a start of a peer that is over calls
            raise ProtocolError(OVER)
        if self._life is not None and life != self._life:
            posted = self._posted
            self._begin_anew()
            objection = self._handlers.restarted(self._number, incarnation)
            if objection is not None:
                # We keep to the start that we know: its last letters may be on their way still, and
                # its receipts.
                # sometimes: a classic node refuses a peer that has returned
                self._posted = posted
                raise ProtocolError(objection)
            self._delivered = 0
            if not self.is_up:
                self._grow_impatient(self._patience)  # it may end before we reach it
        elif self._life is None and not self.is_up:
            # The same; but a call of ours that began before it was there may have to end first.
            self._grow_impatient(self._patience + DIAL_SECONDS_MAX)
        self._life = life
        self._incarnation = incarnation

    def _begin_anew(self) -> None:
        """Number letters from 1, for a start of the peer that has had none."""
        letters = (*self._unconfirmed, *self._waiting) if self._keeps_letters else ()
        self._unconfirmed.clear()
        self._waiting.clear()
        self._waiting.extend(
            ClassicMessage(number, letter.lock, letter.content)
            for number, letter in enumerate(letters, 1)
        )
        self._posted, self._bytes = len(letters), 0

    def _is_over(self, life: str, incarnation: int) -> bool:
        # The very first start has 0, as all have where starts are not counted; those are never over.
        return life != self._life and incarnation < self._incarnation

    # To the peer

    def send(self, lock: str, content: bytes) -> int:
        """Send, now or when there is a connection; return the number of the letter."""
        self._posted += 1
        number = self._posted
        self._waiting.append(ClassicMessage(number, lock, content))
        self._push()
        return number

    def probe(self) -> None:
        """Have the peer give a sign of life: a connection over which none comes for a lease is broken.

        A letter that the peer has had is confirmed once more, and is not delivered.
        """
        self._link.send(ClassicMessage(0, "", b""))

    def _push(self) -> None:
        """Send what waits, but no more at a time than a connection takes before it is read."""
        while self._waiting and self.is_up and self._bytes < WINDOW_BYTES:
            letter = self._waiting.popleft()
            self._unconfirmed.append(letter)
            self._bytes += len(letter.content)
            self._link.send(letter)

    def _connected(self, welcome: Welcome) -> None:
        if self._is_over(welcome.start, welcome.clock):
            raise ProtocolError(OVER)
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.extendleft(reversed(self._unconfirmed))
        self._unconfirmed.clear()
        self._bytes = 0
        self._reached = welcome.start
        try:
            self._meet(welcome.start, welcome.clock)
        except ProtocolError:
            self._link.give_up()  # the start that we know is over, and no other will do
            raise
        self._handlers.connected(self._number)
        self._push()

    def _disconnected(self) -> None:
        self._answered.set()
        if not self._stopped:
            self._grow_impatient(self._patience)

    def _grow_impatient(self, seconds: float) -> None:
        """Find the peer lost unless our connection to it is up in time.

        Time in which our own event loop does not run hardly counts: the peer may have called and
        answered in it. So we wait several times for a moment, and again if the moment was long.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._wait(seconds / WAITS, WAITS)

    def _wait(self, seconds: float, times: int) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        self._timer = loop.call_at(due, self._end_wait, seconds, times, due)

    def _end_wait(self, seconds: float, times: int, due: float) -> None:
        if asyncio.get_running_loop().time() - due < seconds:
            times -= 1
        if times:
            self._wait(seconds, times)
        else:
            # sometimes: a peer is taken for lost
            self._handlers.lost(self._number)

    def _confirm(self, answer: Receipt | Refusal) -> None:
        self._answered.set()
        if isinstance(answer, Refusal):
            self._link.give_up()
            self._handlers.refused(legible(answer.reason))
            return
        if self._reached != self._life:
            # sometimes: a receipt of a start that is over comes late
            return  # it is of a start that is over, and means none of the letters to the next one
        if answer.seq > self._posted:
            raise ProtocolError(f"a receipt for letter {answer.seq}, which was not sent")
        if not self._is_met:
            self._is_met = True
            self._handlers.met(self._number)
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
        connection.use(partial(self._take, connection, hello.identity))
        self._send_receipt(connection)  # it is let in

    def _take(self, connection: Connection, life: str, frame: memoryview) -> None:
        letter = decode_letter(frame)
        if life != self._life:
            raise ProtocolError("a letter of a start of the peer that is over")
        if letter.seq > self._delivered + 1:
            raise ProtocolError(f"letter {letter.seq} came after letter {self._delivered}")
        if letter.seq == self._delivered + 1:
            self._delivered += 1
            self._handlers.letter(self._number, letter)
        self._unreceipted += 1
        self._unreceipted_bytes += len(letter.content)
        many = self._unreceipted_bytes * RECEIPTS_PER_WINDOW >= WINDOW_BYTES
        if many or self._unreceipted >= RECEIPT_LETTERS:
            self._send_receipt(connection)
        elif self._receipt is None and not self._stopped:
            loop = asyncio.get_running_loop()
            self._receipt = loop.call_later(self._receipt_seconds, self._send_receipt, connection)

    def _send_receipt(self, connection: Connection) -> None:
        """Confirm all letters so far; over a connection that has ended this does nothing."""
        if self._receipt is not None:
            self._receipt.cancel()
            self._receipt = None
        self._unreceipted = self._unreceipted_bytes = 0
        connection.send(Receipt(self._delivered))


class Peers:
    """All other nodes: this one calls each of them, and listens for their calls."""

    def __init__(
        self,
        node: LocalNode,
        handlers: Handlers,
        outsiders: str,
        *,
        admin: Callable[[Connection, memoryview], None] | None = None,
        keeps_letters: bool = False,
    ) -> None:
        """Prepare to listen and to call.

        Args:
            node: This node, and how it reaches the others.
            handlers: What this node does about its peers.
            outsiders: What a program that is not a node is told.
            admin: Takes each frame of a program that only asks questions; without it there are none.
            keeps_letters: Whether letters that a start of a peer has not confirmed are for the next.
        """
        self._name = node.name
        self._outsiders = outsiders
        self._admin = admin
        self._incarnation = 0
        self._credentials = node.credentials
        self._identity = new_identity(node.name)
        # The start that the listener names is our identity as a caller: so a peer knows this start
        # of ours, whichever of the two has called first.
        self._listener = Listener(
            node,
            self._identity.name,
            lambda: self._incarnation,
            self._admit,
            credentials=lambda: self._credentials,
        )
        self._peers = {
            number: Peer(node, number, self._caller, handlers, keeps_letters=keeps_letters)
            for number, name in enumerate(node.addresses, 1)
            if name != node.name
        }

    def __getitem__(self, number: ProcessId) -> Peer:
        """Return one of them."""
        return self._peers[number]

    def __iter__(self) -> Iterator[Peer]:
        """Iterate over all of them, in the order of the configuration."""
        return iter(self._peers.values())

    async def start(self, incarnation: int) -> None:
        """Listen, and begin to call; `incarnation` is the number of our own start."""
        self._incarnation = incarnation
        await self._listener.open()
        for peer in self:
            peer.start()

    async def stop(self) -> None:
        """Call no more, and end all connections."""
        await asyncio.gather(*(peer.stop() for peer in self))
        await self._listener.close()

    def _caller(self, node: str) -> Caller:
        return Caller(
            self._credentials, "peer", self._identity, node, incarnation=self._incarnation
        )

    def _admit(self, connection: Connection, hello: Hello) -> None:
        if hello.role == "admin" and self._admin is not None:
            connection.use(partial(self._admin, connection))
            return
        if hello.role != "peer":
            raise ProtocolError(self._outsiders)
        if hello.label == self._name:
            raise ProtocolError("another process runs this very node")
        peer = next((peer for peer in self if peer.name == hello.label), None)
        if peer is None:
            raise ProtocolError(f"no node is called {hello.label!r}")
        peer.admit(connection, hello)
