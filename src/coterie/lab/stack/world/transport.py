"""What a protocol of asyncio writes to and reads from: a transport over a simulated socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.lab.stack.world.loop import Loop
    from coterie.lab.stack.world.network import Listener, Socket

HIGH_WATER = 64 * 1024  # as asyncio has it
SPLIT_SHARE = 0.05  # of readings that end in the middle of what has arrived


class Transport(asyncio.Transport):
    """Behaves like the transport of a socket in asyncio's selector event loop."""

    _start_tls_compatible = True  # as asyncio asks each transport

    def __init__(
        self,
        loop: Loop,
        socket: Socket,
        protocol: asyncio.Protocol | asyncio.BufferedProtocol,
        made: asyncio.Future[None] | None = None,
    ) -> None:
        """Tell the protocol in the next turn, and read from then on; then `made` is done."""
        super().__init__({"peername": (socket.peer_name, socket.connection.number)})
        self._loop = loop
        self._socket = socket
        self._protocol = protocol
        self._buffer = bytearray()
        self._high, self._low = HIGH_WATER, HIGH_WATER // 4
        self._is_reading = False
        self._is_paused = False  # by the protocol, maybe before anything was read
        self._is_writing_paused = False
        self._is_closing = False
        self._is_lost = False
        self._noted = False  # that there is something to read
        socket.transport = self
        loop.call_soon(protocol.connection_made, self)
        loop.call_soon(self._start_reading)
        if made is not None:
            loop.call_soon(_finish, made)

    # What the kernel calls

    def note_readable(self) -> None:
        """Look at the socket in the next turn."""
        if self._is_reading and not self._noted:
            self._noted = True
            self._loop.hand_in(self._read)

    def note_writable(self) -> None:
        """Write on in the next turn."""
        self._loop.hand_in(self._write_on)

    # Reading

    def _start_reading(self) -> None:
        if not self._is_closing and not self._is_paused:
            self._is_reading = True
            self._look()

    def _look(self) -> None:
        if self._socket.has_news:
            self.note_readable()

    def _read(self) -> None:
        self._noted = False
        if not self._is_reading or self._is_lost:
            return
        socket = self._socket
        if socket.is_reset:
            self._force_close(ConnectionResetError(104, "Connection reset by peer"))
        elif socket.incoming:
            random = self._loop.process.world.random
            data = socket.take(random if random.random() < SPLIT_SHARE else None)
            self._look()
            self._hand_on(data)
        elif socket.is_ended:
            self._is_reading = False
            if not self._protocol.eof_received():
                self.close()

    def _hand_on(self, data: bytes) -> None:
        protocol, world = self._protocol, self._loop.process.world
        if isinstance(protocol, asyncio.Protocol):
            world.note_delivery(self._socket, data)
            protocol.data_received(data)
            return
        world.note_encrypted(self._socket, data)
        while data and not self._is_lost:
            space = memoryview(protocol.get_buffer(len(data)))
            part, data = data[: len(space)], data[len(space) :]
            space[: len(part)] = part
            protocol.buffer_updated(len(part))

    def pause_reading(self) -> None:
        """Leave what arrives with the kernel."""
        self._is_reading = False
        self._is_paused = True

    def resume_reading(self) -> None:
        """Read again."""
        self._is_paused = False
        if not self._is_closing and not self._is_reading:
            self._is_reading = True
            self._look()

    def is_reading(self) -> bool:
        """Return whether what arrives is read."""
        return self._is_reading

    # Writing

    def write(self, data: Any) -> None:
        """Send, now or as soon as the kernel takes it."""
        if self._is_lost or not self._loop.process.is_alive:
            return
        self._buffer += data
        self._push()
        if len(self._buffer) > self._high and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def _push(self) -> None:
        sent = self._socket.send(self._buffer)
        if sent:
            del self._buffer[:sent]

    def _write_on(self) -> None:
        if self._is_lost:
            return
        self._push()
        if self._is_writing_paused and len(self._buffer) <= self._low:
            self._is_writing_paused = False
            self._protocol.resume_writing()
        if self._is_closing and not self._buffer:
            self._lose(None)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the kernel has not taken yet."""
        return len(self._buffer)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return from how many bytes on writing is paused and resumed."""
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Say from how many bytes on writing is paused and resumed."""
        self._high = HIGH_WATER if high is None else high
        self._low = self._high // 4 if low is None else low

    # Ends

    def is_closing(self) -> bool:
        """Return whether it is closed or about to be."""
        return self._is_closing

    def close(self) -> None:
        """Read no more, and end when everything is written."""
        if self._is_closing:
            return
        self._is_closing = True
        self._is_reading = False
        if not self._buffer:
            self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        """End at once; what the kernel has not taken is dropped."""
        self._force_close(None)

    def _force_close(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._buffer.clear()
        self._is_reading = False
        if not self._is_closing:
            self._is_closing = True
        self._loop.call_soon(self._lose, error)

    def _lose(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        try:
            self._protocol.connection_lost(error)
        finally:
            self._socket.close(self._loop.process.true_now())

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return what is told of what arrives."""
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Tell something else from now on."""
        assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol), "bytes are read"
        self._protocol = protocol

    @property
    def socket(self) -> Socket:
        """What the kernel has of the connection."""
        return self._socket


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Server(asyncio.AbstractServer):
    """The listening end of a simulated process."""

    def __init__(self, listener: Listener) -> None:
        """Listen."""
        self._listener = listener
        self.sockets: tuple[Any, ...] = (listener,)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop of the process that listens."""
        return self._listener.process.loop

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()

    def is_serving(self) -> bool:
        """Return whether connections are accepted."""
        return self._listener.is_open

    async def start_serving(self) -> None:
        """Listen, as it does from the beginning."""

    async def serve_forever(self) -> None:
        """Wait without end."""
        await self.get_loop().create_future()

    async def wait_closed(self) -> None:
        """Return at once: a server of Python 3.11 does so."""
