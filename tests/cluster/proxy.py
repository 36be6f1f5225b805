"""A network that misbehaves on demand: a proxy before each node, for each program one of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import weakref
from typing import TYPE_CHECKING

from coterie import locks
from coterie.cluster.client.engine import ClusterEngine
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.wire.listener import stop_serving
from coterie.locks.internals import engine_of
from tests.cluster.local_cluster import document, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import Any

    from coterie.cluster.client.participant import ParticipantHost
    from coterie.cluster.node import Node

UP, DOWN = "up", "down"  # from the program to the node, and back
NOWHERE = "127.0.0.1"  # nodes name its low ports, so that programs have to take the proxy


class Passage:
    """The way up of one connection, which may end at the program long before it ends at the node."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer  # to the program
        self.held = False
        self.passes = asyncio.Event()
        self.passes.set()


class Proxy:
    """Passes on bytes between one program and one node, unless told otherwise."""

    def __init__(self, target: int) -> None:
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
        self._passages: set[Passage] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None
        self.resume()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def stall(self, *directions: str) -> None:
        """Let nothing through, and let nobody know: a half-cut connection."""
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
        passage = Passage(writer)
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
        self, passage: Passage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
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
        passage: Passage | None = None,
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
        if self._server is not None:
            await stop_serving(self._server)
        self.cut()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Program:
    """A program, with a proxy on the way to each node."""

    def __init__(self, coordinator: locks.Coordinator, proxies: list[Proxy]) -> None:
        self.coordinator = coordinator
        self.proxies = proxies

    @property
    def host(self) -> ParticipantHost:
        engine = engine_of(self.coordinator)
        assert isinstance(engine, ClusterEngine)
        return engine.group.supply


class Network:
    """A cluster that is reached through proxies only."""

    def __init__(
        self, nodes: list[Node], ports: list[int], stack: contextlib.AsyncExitStack
    ) -> None:
        self.nodes = nodes
        self._ports = ports
        self._stack = stack

    async def program(self) -> Program:
        """Connect a program; it counts by the clock in whose context this is called."""
        proxies = [Proxy(port) for port in self._ports]
        for proxy in proxies:
            await proxy.start()
            self._stack.push_async_callback(proxy.stop)
        url = "coterie://" + ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)
        coordinator = await self._stack.enter_async_context(locks.connect(url))
        return Program(coordinator, proxies)


@contextlib.asynccontextmanager
async def network(size: int = 3, **changes: Any) -> AsyncIterator[Network]:
    """Run a cluster, voting at once, behind proxies."""
    made = document(size, **changes)
    ports = free_ports(size)
    for number, (node, port) in enumerate(zip(made["nodes"].values(), ports, strict=True), 1):
        node |= {"address": f"{NOWHERE}:{number}", "listen": f"127.0.0.1:{port}"}
    async with contextlib.AsyncExitStack() as stack:
        nodes = await stack.enter_async_context(running(convert(made)))
        yield Network(nodes, ports, stack)
