"""One connection: frames with their length in front, in both directions.

What a turn of the event loop sends to one peer leaves in one write, at the end of the turn; answers to
what has come over the same connection leave as soon as all of that is handled. A peer that does not
read what we send is not read from either, and is cut off when too much has piled up: everything that
travels here is either sent again by a session or of no use later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary, WeakMethod, ref

import msgspec

from coterie.cluster.wire.complaints import describe_fault
from coterie.errors import ProtocolError
from coterie.locks.legible import legible

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTH = struct.Struct(">I")
HANDSHAKE_BYTES_MAX = 16 * 1024  # of a frame before the peer is known
EARLY_BYTES_MAX = HANDSHAKE_BYTES_MAX + LENGTH.size  # that come before the connection has a user
CLOSED = "the peer closed it"
TLS_BEGINS = b"\x16\x03"  # a record of its handshake
FRAME_BYTES_MAX = 16 * 1024 * 1024
READ_BYTES_MAX = 64 * 1024  # at once
BACKLOG_BYTES_MAX = 64 * 1024 * 1024  # that a peer has not read
CLOSING_SECONDS_MAX = 1.0
KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}

# What the bytes of a faulty peer make us raise; msgspec passes on what it gets from text and depth.
FAULTS = (ProtocolError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

logger = logging.getLogger("coterie.cluster")
_encoder = msgspec.msgpack.Encoder()


def _ignore(_: object) -> None:
    """Do nothing when a connection begins or ends."""


def _complain(connection: Connection, reason: str) -> None:
    logger.warning(
        "connection with %(address)s refused: %(reason)s",
        {"address": connection.peer, "reason": reason},
        extra={"event": "connection-refused"},
    )


class EndOfTurn:
    """Lets all connections of one event loop write at the end of a turn, in one callback."""

    def __init__(self) -> None:
        """Begin with nothing to write."""
        # By reference: a connection knows its event loop, and one that is closed before the end of its
        # turn would be kept alive by its own entry below. So does whatever sends over connections.
        self._waiting: deque[ref[Connection]] = deque()
        self._calls: deque[WeakMethod[Callable[[], None]]] = deque()
        self._is_due = False

    def add(self, connection: ref[Connection], loop: asyncio.AbstractEventLoop) -> None:
        """Have a connection write what it has gathered until then."""
        self._waiting.append(connection)
        self._schedule(loop)

    def call(self, act: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Have a method called before connections write, if its object is still there."""
        self._calls.append(WeakMethod(act))
        self._schedule(loop)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._flush, loop)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while self._calls:
                if (act := self._calls.popleft()()) is not None:
                    act()
            while self._waiting:
                if (connection := self._waiting.popleft()()) is not None:
                    connection.flush()
        finally:
            self._is_due = False
            if self._calls or self._waiting:  # one has failed, and the others must not wait for it
                self._schedule(loop)


_ends: WeakKeyDictionary[asyncio.AbstractEventLoop, EndOfTurn] = WeakKeyDictionary()


def at_end_of_turn(act: Callable[[], None]) -> None:
    """Call a method when all that is ready has run, before connections of this event loop write."""
    loop = asyncio.get_running_loop()
    _ends.setdefault(loop, EndOfTurn()).call(act, loop)


class Connection(asyncio.Protocol):
    """A connection. It has one user at a time: the handshake first, then what `use` names."""

    def __init__(
        self,
        opened: Callable[[Connection], None] = _ignore,
        ended: Callable[[Connection, str], None] | None = None,
        complain: Callable[[Connection, str], None] = _complain,
    ) -> None:
        """Prepare.

        Args:
            opened: Called when the connection stands.
            ended: Called at last, with the reason.
            complain: Logs what is wrong with the peer.
        """
        self.frame_bytes_max = HANDSHAKE_BYTES_MAX
        self.closed = False
        self.hung_up = False  # the other end has closed it, or the network has
        self.transport = asyncio.Transport()  # one that does nothing, until the connection stands
        self._on_frame: Callable[[memoryview], None] = _ignore  # not called before there is a user
        self._on_close: Callable[[str], None] = _ignore
        self._opened = opened
        self._ended = ended
        self._complain = complain
        self._is_over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._end_of_turn = _ends.setdefault(self._loop, EndOfTurn())
        self._reference = ref(self)
        self._early: bytearray | None = (
            bytearray()
        )  # what came before it had a user; None: it has one
        self._incoming = bytearray()  # an incomplete frame
        self._awaited = LENGTH.size  # bytes of it, to begin with those of its length
        self._outgoing = bytearray()
        self._is_unread = False  # the peer does not read: more than a little waits to be written
        self._is_reading = False  # what is sent meanwhile leaves when all that has come is handled
        self._why = CLOSED

    @property
    def peer(self) -> str:
        """Where the other end is, as people write it."""
        address = self.transport.get_extra_info("peername")
        return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)

    def use(
        self, on_frame: Callable[[memoryview], None], on_close: Callable[[str], None] = _ignore
    ) -> None:
        """Hand each frame, and the reason of the end, to these from now on.

        A frame that makes `on_frame` raise one of `FAULTS` ends the connection. Frames that came
        before there was a user follow in the next turn, when the user has finished what it does.
        """
        self._on_frame = on_frame
        self._on_close = on_close
        if self._early:
            self._loop.call_soon(self._feed_early)
        else:
            self._early = None

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast("asyncio.Transport", transport)
        # asyncio makes a buffer of this size for each read, by default of 256 KiB: memory that the
        # allocator gets from the system and gives back each time.
        if hasattr(transport, "max_size"):
            transport.max_size = READ_BYTES_MAX
        _keep_alive(transport.get_extra_info("socket"))
        self._opened(self)

    def data_received(self, data: bytes) -> None:
        """Handle what came, and send the answers."""
        if self._early is not None:
            self._keep_early(data)
            return
        self._is_reading = True
        try:
            self._take(data)
        finally:
            self._is_reading = False
        if self._outgoing:
            self.flush()

    def _keep_early(self, data: bytes) -> None:
        """Keep what comes before the connection has a user.

        asyncio hands on what came with the end of a TLS handshake before the task that has begun the
        handshake goes on. A caller sends its hello as soon as its own end of the handshake is over, so
        both often come in one read. Until it has an answer it sends nothing more.
        """
        assert self._early is not None, "it has a user"
        self._early += data
        if len(self._early) > EARLY_BYTES_MAX and not self.closed:
            self.refuse(f"more than {EARLY_BYTES_MAX} bytes before it was asked for any")

    def _feed_early(self) -> None:
        """Hand on what came before there was a user, and what has come since behind it."""
        early, self._early = self._early, None
        if early and not self.closed:
            self.data_received(bytes(early))

    def _take(self, data: bytes) -> None:
        """Cut what came into frames and hand them on.

        A frame that trickles in is gathered in one buffer, which is looked at when it is complete: so
        each byte is copied a fixed number of times, however small the pieces are.
        """
        view = memoryview(data)
        if self._incoming:
            self._incoming.extend(data)
            if len(self._incoming) < self._awaited:
                return
            view, self._incoming = memoryview(self._incoming), bytearray()
        try:
            rest = self._hand_on(view)
        except FAULTS as error:
            self.refuse(describe_fault(error))
            return
        except Exception as error:
            # A defect of ours that the peer has found. It costs the peer its connection, and nothing
            # else: an event loop whose protocol raises would do no more, and not say what came.
            logger.exception(
                "connection with %(address)s: a frame has made us stumble",
                {"address": self.peer},
                extra={"event": "frame-failed"},
            )
            self.refuse(f"a frame that makes no sense here: {error!r}")
            return
        if rest < len(view) and not self.closed:
            self._incoming.extend(view[rest:])

    def _hand_on(self, view: memoryview) -> int:
        """Hand on the complete frames; return where the first incomplete one begins."""
        start = 0
        self._awaited = LENGTH.size
        while start + 4 <= len(view) and not self.closed:
            (length,) = LENGTH.unpack_from(view, start)
            if length > self.frame_bytes_max:
                raise ProtocolError(_oversize(length, self.frame_bytes_max))
            end = start + 4 + length
            if end > len(view):
                self._awaited = end - start
                break
            self._on_frame(view[start + 4 : end])
            start = end
        return start

    def pause_writing(self) -> None:
        """Stop reading from a peer that does not read."""
        self._is_unread = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        self._is_unread = False
        if not self.closed:
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the user of the connection, once."""
        if self._is_over.is_set():
            return
        self.hung_up = not self.closed
        self.closed = True
        self._is_over.set()
        reason = str(exc) if exc is not None else self._why
        self._on_close(reason)
        if self._ended is not None:
            self._ended(self, reason)

    # What its user calls

    def send(self, frame: msgspec.Struct) -> None:
        """Send a frame, together with all others of this turn; nothing happens on a closed one."""
        if self.closed:
            return
        if not self._outgoing and not self._is_reading:
            self._end_of_turn.add(self._reference, self._loop)
        start = len(self._outgoing)
        self._outgoing += b"\0\0\0\0"
        _encoder.encode_into(frame, self._outgoing, -1)
        LENGTH.pack_into(self._outgoing, start, len(self._outgoing) - start - 4)

    def flush(self) -> None:
        """Write what was sent so far."""
        if self.closed or not self._outgoing:
            return
        outgoing, self._outgoing = self._outgoing, bytearray()
        self.transport.write(outgoing)
        if self._is_unread and self.transport.get_write_buffer_size() > BACKLOG_BYTES_MAX:
            self.refuse("the peer does not read what it is sent")
            self.transport.abort()

    def refuse(self, reason: str) -> None:
        """End the connection for a fault of the peer, and say so in the log."""
        self.complain(reason)
        self.close(reason)

    def complain(self, reason: str) -> None:
        """Say in the log what is wrong with the peer."""
        self._complain(self, legible(reason))

    def close(self, reason: str) -> None:
        """End the connection; what was sent before still leaves."""
        self.flush()
        if not self.closed:
            self._why = reason
            self.closed = True
            self.transport.close()

    def abort(self, reason: str) -> None:
        """End the connection at once."""
        self._why = reason
        self.closed = True
        self.transport.abort()

    async def wait_closed(self) -> None:
        """Wait until everything has left and the socket is closed; what takes too long is cut off."""
        try:
            async with asyncio.timeout(CLOSING_SECONDS_MAX):
                await self._is_over.wait()
        except TimeoutError:
            self.transport.abort()
            await self._is_over.wait()

    async def wait_ended(self) -> None:
        """Wait until the connection is over, however long it lasts."""
        await self._is_over.wait()


def _keep_alive(connection: socket.socket | Any) -> None:
    """Notice a machine that vanished, also while there is nothing to say."""
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        with contextlib.suppress(AttributeError, OSError):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _oversize(length: int, most: int) -> str:
    """Say what a first number means that is no length of ours: the programs of other services begin with it."""
    begin = LENGTH.pack(length)
    if begin.startswith(TLS_BEGINS):
        return "the caller speaks TLS, and no TLS is set up here"
    if begin.isalpha() or begin[:3].isalpha():
        return f"{begin.decode('ascii', 'replace')!r} is no word of ours: this is the port of a node of coterie"
    return f"a frame of {length} bytes; at most {most}"
