"""Calls that are cancelled where they wait, at each such place in turn: none costs a hold, a connection or a later call."""

from __future__ import annotations

import asyncio
import contextlib
import types
from functools import partial
from typing import TYPE_CHECKING, Any

import coterie
from coterie.lab.servers.proxy import Proxy
from coterie.lab.servers.supplier import CUTS, VALUES
from coterie.locks.once.record import decode
from tests.engines.conformance.test_conformance import need, taken
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator

    from coterie.lab.servers.supplier import Supplier

WAITS_MAX = 200


@types.coroutine
def cancelling(work: Coroutine[Any, Any, object], wait: int) -> Generator[Any, Any, None]:
    """Do this work, and cancel the task that does it where it waits for the n-th time."""
    task = asyncio.current_task()
    assert task is not None
    resume, waits = partial(work.send, None), 0
    while True:
        try:
            awaited = resume()
        except StopIteration:
            return
        waits += 1
        if waits == wait:
            task.cancel()
        try:
            resume = partial(work.send, (yield awaited))
        except BaseException as error:  # noqa: BLE001 - the work is told, and may go on
            resume = partial(work.throw, error)


async def cancel_everywhere(
    call: Callable[[], Coroutine[Any, Any, object]], check: Callable[[], Awaitable[None]]
) -> int:
    """Cancel a call at its first wait, then at its second, until it ends before; return how many there were."""

    async def cancelled(wait: int) -> None:
        await cancelling(call(), wait)

    for wait in range(1, WAITS_MAX):
        calling = asyncio.ensure_future(cancelled(wait))
        await asyncio.wait({calling})
        await check()
        if not calling.cancelled():
            calling.result()
            return wait - 1
    raise AssertionError("it never ends")


class Counted:
    """A program, and how often it has connected."""

    def __init__(self, c: coterie.Coordinator, proxy: Proxy | None) -> None:
        self.c = c
        self._proxy = proxy

    @property
    def connections(self) -> int:
        return 0 if self._proxy is None else self._proxy.connections


@contextlib.asynccontextmanager
async def program(supplier: Supplier) -> AsyncIterator[Counted]:
    """Connect a program, through a proxy where there is one server."""
    if CUTS not in supplier.can or supplier.name == "s3":  # where each request may have its own
        async with coterie.connect(supplier.url()) as c:
            yield Counted(c, None)
        return
    proxy = Proxy(supplier.port)
    await proxy.start()
    try:
        async with coterie.connect(supplier.url(proxy.port)) as c:
            yield Counted(c, proxy)
    finally:
        await proxy.stop()


@in_loop
async def test_a_cancelled_look_costs_nothing(supplier: Supplier, name: str) -> None:
    need(supplier, VALUES)
    async with program(supplier) as user:
        held = await taken(user.c, name)
        await held.write(b"1")

        async def check() -> None:
            assert held.valid
            found = await user.c.read(name)
            assert found is not None
            assert found.data == b"1"

        async def first_look() -> None:
            async for value in user.c.watch(name):
                assert value is not None
                return

        await check()
        connections = user.connections
        calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
            partial(user.c.read, name),
            partial(user.c.holders, name),
            partial(user.c.waiters, name),
            first_look,
        ]
        for call in calls:
            await cancel_everywhere(call, check)
        assert user.connections == connections
        await held.release()


@in_loop
async def test_a_cancelled_call_of_a_holder_costs_nothing(supplier: Supplier, name: str) -> None:
    need(supplier, VALUES)
    async with program(supplier) as user:
        async with user.c.lock(name) as held:
            await held.write(b"0")

        async def read() -> None:
            """Read in a hold of its own, since a hold asks the store once."""
            async with user.c.lock(name) as held:
                await held.read()

        async def write() -> None:
            async with user.c.lock(name) as held:
                before = await held.read()
                assert before is not None
                await held.write(b"%d" % (int(before.data) + 1))

        async def check() -> None:
            async with user.c.lock(name, timeout=5) as held:
                assert held.valid
                assert await held.read() == await user.c.read(name)

        await check()
        connections = user.connections
        for call in (read, write):
            await cancel_everywhere(call, check)
        assert user.connections == connections


@in_loop
async def test_a_run_that_is_cancelled_was_begun_once_or_never(
    supplier: Supplier, name: str
) -> None:
    need(supplier, VALUES)
    async with program(supplier) as user:
        period, ran = 0, 0

        async def run() -> None:
            nonlocal ran
            with contextlib.suppress(coterie.NotDue):
                async with user.c.once(name, f"{period:03}", attempts=2):
                    ran += 1

        async def check() -> None:
            """Let others come: at most two have begun it, at least one has, and no end is left open."""
            nonlocal period, ran
            await run()
            await run()
            assert 1 <= ran <= 2
            value = await user.c.read(name)
            assert value is not None
            states = [each.state for each in decode(name, value.data).runs]
            assert not {"interrupted", "started"} & set(states)
            period, ran = period + 1, 0

        await check()
        connections = user.connections
        await cancel_everywhere(run, check)
        assert user.connections == connections
