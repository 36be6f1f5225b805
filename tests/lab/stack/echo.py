"""A small protocol over the simulated network, and processes that speak it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from coterie.lab.stack.world import World
    from coterie.lab.stack.world.machine import Process


class Ear(asyncio.Protocol):
    """Remembers what it hears, and when, in true time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.heard = bytearray()
        self.times: list[float] = []
        self.pieces: list[bytes] = []
        self.events: list[str] = []
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self.pieces.append(data)
        self.times.append(self.world.now)

    def eof_received(self) -> None:
        self.events.append("eof")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost" if exc is None else type(exc).__name__)

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


class Talk:
    """One process that listens at `b`, and one at `a` that has called it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ears: list[Ear] = []  # of the listener, by connection
        self.mouths: list[Ear] = []  # of the caller
        world.machine("a")
        world.machine("b")
        self.listener = world.start("b", "b", 1, self.listen)
        self.caller = world.start("a", "a", 1, self.call)
        world.run(0.1)

    def hear(self) -> Ear:
        self.ears.append(Ear(self.world))
        return self.ears[-1]

    async def listen(self, process: Process) -> None:
        await process.loop.create_server(self.hear, "b", 1)
        await process.loop.create_future()

    async def call(self, process: Process) -> None:
        mouth = Ear(self.world)
        await process.loop.create_connection(lambda: mouth, "b", 1)
        self.mouths.append(mouth)
        await process.loop.create_future()

    def do(self, process: Process, work: Callable[[], object]) -> None:
        """Let a process do something in its next turn."""
        process.loop.hand_in(work)

    def say(self, data: bytes) -> None:
        self.do(self.caller, lambda: self.mouths[0].transport.write(data))


def run_alone(
    world: World, main: Callable[[Process], Coroutine[Any, Any, None]], seconds: float = 60
) -> Process:
    """Run one process on a machine of its own until it ends."""
    if "m" not in world.machines:
        world.machine("m")
    process = world.start("m", "m", 1, main)
    world.run(world.now + seconds, lambda: not process.is_alive)
    return process
