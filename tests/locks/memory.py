"""An engine without input or output, whose locks can be taken away, and helpers for its tests."""

from __future__ import annotations

import asyncio
import functools
import math
import secrets
import time
from typing import TYPE_CHECKING, ParamSpec

from coterie import Coordinator, Party
from coterie.locks.deadlocks.reports import Wanted
from coterie.locks.deadlocks.waits import Waits

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from coterie.errors import CoterieError

Given = ParamSpec("Given")
BOUND_SECONDS = 20


def in_loop(test: Callable[Given, Coroutine[None, None, None]]) -> Callable[Given, None]:
    """Run a test in an event loop of its own, for a bounded time."""

    @functools.wraps(test)
    def run(*positional: Given.args, **named: Given.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(BOUND_SECONDS):
                await test(*positional, **named)

        asyncio.run(bounded())

    return run


async def until(condition: Callable[[], bool]) -> None:
    """Let the others run until something is the case."""
    while not condition():  # noqa: ASYNC110 - the engine's state has no events
        await asyncio.sleep(0)


class MemoryClaim:
    """A claim in the queue of its lock."""

    lifelines = ()
    shared = False
    wakes_at_once = False

    def __init__(self, engine: MemoryEngine, name: str, owner: object, *, wait: bool) -> None:
        self.owner = owner
        loop = asyncio.get_running_loop()
        self.token: int | None = None
        self.granted: asyncio.Future[int | None] = loop.create_future()
        self.lost: asyncio.Future[str] = loop.create_future()
        self.expires_at = time.monotonic() + engine.lease_seconds
        self.name = name
        self.awaits = Wanted(name)
        self.taken_away = False
        self.note = ""
        self._engine = engine
        queue = engine.queues.setdefault(name, [])
        if not wait and queue:
            self.granted.set_result(None)
            return
        queue.append(self)
        engine.serve(name)

    def annotate(self, note: str) -> None:
        self.note = note

    def valid(self) -> bool:
        return not self.taken_away and self in self._engine.queues[self.name]

    def obstacle(self) -> None:
        pass

    def fail(self, error: CoterieError) -> None:
        self._engine.queues[self.name].remove(self)
        self.granted.set_exception(error)

    async def release(self) -> None:
        await self._engine.releasing()
        queue = self._engine.queues[self.name]
        if self in queue:
            queue.remove(self)
            self._engine.serve(self.name)


class MemoryEngine:
    """Grants in order; `lose` takes a lock away; a cleared `may_release` holds releases up."""

    def __init__(self) -> None:
        self.queues: dict[str, list[MemoryClaim]] = {}
        self.placed: list[str] = []
        self.token = 0
        self.grants = True
        self.lease_seconds = math.inf
        self.may_release = asyncio.Event()
        self.may_release.set()
        self.waits = Waits(secrets.token_hex(4), self.blockers)

    async def open(self) -> None: ...

    async def close(self) -> None:
        for queue in self.queues.values():
            queue.clear()

    def place(
        self, name: str, *, owner: object, shared: bool, lease: float | None, wait: bool
    ) -> MemoryClaim:
        self.placed.append(name)
        return MemoryClaim(self, name, owner, wait=wait)

    def blockers(self, wanted: Wanted) -> list[MemoryClaim]:
        first = self.queues.get(wanted.lock, [])[:1]
        return [claim for claim in first if claim.token is not None]

    async def releasing(self) -> None:
        await self.may_release.wait()

    def serve(self, name: str) -> None:
        queue = self.queues[name]
        if queue and self.grants and not queue[0].granted.done():
            self.token += 1
            queue[0].token = self.token
            queue[0].granted.set_result(self.token)

    def lose(self, name: str, *, noticed: bool = True) -> None:
        """Take the lock from its holder, who is told of it unless nobody noticed."""
        claim = self.queues[name].pop(0)
        claim.taken_away = True
        if noticed:
            claim.lost.set_result("the lease ran out")
        self.serve(name)

    def waiting(self, name: str) -> int:
        return len([claim for claim in self.queues.get(name, []) if not claim.granted.done()])

    def obstacle(self, name: str) -> CoterieError | None:
        return None

    async def holders(self, name: str) -> list[Party]:
        return [
            Party(name, "memory:1", 0.0, claim.granted.result())
            for claim in self.queues.get(name, [])
            if claim.granted.done()
        ]

    async def waiters(self, name: str) -> list[Party]:
        return [Party(name, "memory:1", 0.0, None)] * self.waiting(name)

    async def watch(
        self, name: str, check: Callable[[], None]
    ) -> AsyncGenerator[Party | None, None]:
        check()
        holders = await self.holders(name)
        yield holders[0] if holders else None


def coordinator(engine: MemoryEngine) -> Coordinator:
    return Coordinator(engine, "memory:")
