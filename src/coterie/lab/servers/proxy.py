"""A proxy between a program and its server that loses, delays and breaks on demand, on the loopback interface alone."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import weakref
from typing import TYPE_CHECKING

from coterie.cluster.wire.listener import stop_serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

UP, DOWN = "up", "down"  # from the program to the server, and back


class ProxiedConnection:
    """The way up of one connection, which may end at the program long before it ends at the node."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        """Let everything pass."""
        self.writer = writer  # to the program
        self.held = False
        self.passes = asyncio.Event()
        self.passes.set()


class Proxy:
    """Passes on bytes between one program and one node, unless told otherwise."""

    def __init__(self, target: int) -> None:
        """Lead to a port of this machine; `start` begins to listen."""
        self.port = 0
        self.connections = 0  # so far
        self.delay = {UP: 0.0, DOWN: 0.0}  # seconds that bytes are under way
        self.rewrite: Callable[[bytes], bytes] = bytes  # of what the server says
        self.refuses = False
        self.late = 0  # bytes so far that reached the node after their connection was replaced
        self._target = target
        self._open = {UP: asyncio.Event(), DOWN: asyncio.Event()}
        self._writers: set[asyncio.StreamWriter] = set()
        self._inner: weakref.WeakSet[asyncio.StreamWriter] = weakref.WeakSet()  # to the node
        self._passages: set[ProxiedConnection] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None
        self.resume()

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def stall(self, *directions: str) -> None:
        """Let nothing through, and notify neither end: a half-cut connection."""
        for direction in directions or (UP, DOWN):
            self._open[direction].clear()

    def resume(self) -> None:
        """Let through what has waited, and everything else."""
        self.refuses = False
        for gate in self._open.values():
            gate.set()

    def sever(self) -> None:
        """Break the connections that stand; what was under way is lost."""
        for writer in self._writers:
            writer.transport.abort()

    def reset(self) -> None:
        """Break the connections that stand by a reset, as a machine does that does not know of them."""
        for writer in self._writers:
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sever()

    def cut(self) -> None:
        """Break the connections, and let in no others."""
        self.refuses = True
        self.sever()

    def forget(self) -> None:
        """Break connections at the server's end; the program hears nothing of it, as from a lost NAT table."""
        self.stall(DOWN)
        for writer in self._inner:
            writer.transport.abort()

    def hold_back(self) -> None:
        """Keep what the program sends over the connections that stand; newer ones are not touched."""
        for passage in self._passages:
            passage.held = True
            passage.passes.clear()

    def replace(self) -> None:
        """Break connections that are held back at the program's end only, so that it opens others."""
        for passage in self._passages:
            if passage.held:
                passage.writer.transport.abort()

    def deliver(self) -> None:
        """Let the node have what was held back, whatever has come over newer connections."""
        for passage in self._passages:
            passage.passes.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.transport.abort()
            return
        self.connections += 1
        self._writers.add(writer)
        self._watch(asyncio.current_task())
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except (OSError, asyncio.CancelledError):  # the latter: the proxy stops
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(inner_writer)
        self._inner.add(inner_writer)
        passage = ProxiedConnection(writer)
        self._passages.add(passage)
        self._spawn(self._pass_up(passage, reader, inner_writer))
        self._spawn(self._pass_on(DOWN, inner_reader, writer))

    def _spawn(self, work: Any) -> None:
        self._watch(asyncio.get_running_loop().create_task(work))

    def _watch(self, task: asyncio.Task[Any] | None) -> None:
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass_up(
        self, passage: ProxiedConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await self._pass_on(UP, reader, writer, passage)
        finally:
            self._passages.discard(passage)

    async def _pass_on(
        self,
        direction: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        passage: ProxiedConnection | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                due = loop.time() + self.delay[direction]
                await self._open[direction].wait()
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                if passage is not None:
                    await passage.passes.wait()
                    self.late += len(data) if passage.writer.is_closing() else 0
                writer.write(self.rewrite(data) if direction == DOWN else data)
        await self._open[direction].wait()  # nor does an end show where all is silent
        if passage is not None and passage.held:
            writer.close()  # not before all that came late has left
        else:
            writer.transport.abort()
        self._writers.discard(writer)

    async def stop(self) -> None:
        """Break all connections, and listen no more."""
        if self._server is not None:
            await stop_serving(self._server)
        self.cut()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
