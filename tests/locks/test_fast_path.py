"""A lock that is at hand is taken without a turn of the event loop, and yet nobody is starved."""

from __future__ import annotations

import asyncio
import gc
import math
from typing import TYPE_CHECKING

import pytest

from coterie import system
from coterie.errors import LockLost
from coterie.locks import lock
from coterie.locks.internals import call_when_lost, holds_of
from coterie.system.aio import to_the_end
from tests.cluster import virtual_time
from tests.cluster.local_cluster import until
from tests.cluster.test_cluster_engine import World, in_world
from tests.locks.memory import MemoryEngine, coordinator, in_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from coterie import locks


def finished_at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """Let it run up to the first point where it waits; give what it returns before that."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    return pytest.fail("it waited for something")


def do_nothing() -> None:
    """Use no time."""


async def take_for_ever(
    program: locks.Coordinator, tokens: list[int], work: Callable[[], None] = do_nothing
) -> None:
    while True:
        async with program.lock("x") as held:
            tokens.append(held.token)
            work()


def test_a_kept_lock_is_taken_and_given_back_without_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(made: World) -> None:
        async with made.programs[0].lock("x"):
            pass
        monkeypatch.setattr(lock, "TURN_SECONDS", math.inf)  # however slow this machine is
        held = finished_at_once(made.programs[0].lock("x").acquire())
        assert held.valid
        finished_at_once(held.release())
        assert not held.valid

    in_world(test, lease=20.0)


def test_who_has_waited_for_a_lock_gives_it_back_without_another_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that the release travels together with what the task asks for next."""

    async def test(made: World) -> None:
        monkeypatch.setattr(system, "monotonic", lambda: 1e9)  # long after the last turn, and still
        held = await made.programs[0].lock("x").acquire()
        assert held
        finished_at_once(held.release())

    in_world(test, lease=20.0)


def test_who_takes_a_lock_again_and_again_lets_others_run() -> None:
    async def test(made: World) -> None:
        tokens: list[int] = []
        busy = asyncio.ensure_future(take_for_ever(made.programs[0], tokens))
        await until(lambda: len(tokens) > 1000, "a busy task")
        for _ in range(20):
            before = len(tokens)
            await asyncio.sleep(0)
            assert len(tokens) > before, "both have their turns"
        busy.cancel()
        await asyncio.wait({busy})

    in_world(test, lease=20.0)


def test_who_takes_a_lock_again_and_again_does_not_lose_its_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Heartbeats go out, and answers come in, for longer than a lease; nothing is asked anew.

    Time passes only in the work under the lock, since the loop is never idle: on a machine that is
    busy with others, a program whose loop is late by half a lease asks again, and rightly so.
    """

    async def test(made: World) -> None:
        monkeypatch.setattr(system, "monotonic", asyncio.get_running_loop().time)
        tokens: list[int] = []
        taking = take_for_ever(made.programs[0], tokens, lambda: virtual_time.sleep_through(0.0002))
        busy = asyncio.ensure_future(taking)
        host = made.host()
        await until(lambda: host.received["Reply"] == 3, "all grants")
        await until(lambda: host.received["Ack"] >= 3 * 6, "six heartbeats, four a lease")
        assert host.sent["Data"] == 3
        assert tokens == list(range(tokens[0], tokens[0] + len(tokens)))
        busy.cancel()
        await asyncio.wait({busy})

    in_world(test, virtual=monkeypatch, lease=1.0, hedge=0.45)


def test_who_is_cancelled_in_such_a_loop_holds_nothing_afterwards() -> None:
    async def test(made: World) -> None:
        for _ in range(50):
            busy = asyncio.ensure_future(take_for_ever(made.programs[0], []))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            busy.cancel()
            await asyncio.wait({busy})
            assert busy.cancelled()
            assert not holds_of(made.programs[0])
        assert await made.programs[0].lock("x").acquire(blocking=False)

    in_world(test, lease=20.0)


def test_holds_leave_nothing_to_the_collector_but_what_was_looked_at() -> None:
    async def test(made: World) -> None:
        async with made.programs[0].lock("x"):
            pass
        gc.collect()
        gc.disable()
        try:
            for _ in range(100):
                held = await made.programs[0].lock("x").acquire()
                assert held
                await held.release()
            del held
            assert gc.collect() < 100
        finally:
            gc.enable()

    in_world(test, lease=20.0)


# What was lost before anybody looked


@in_loop
async def test_a_loss_that_is_looked_at_late_is_there() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        held = await c.lock("a").acquire()
        assert held
        engine.lose("a")
        assert held.lost.is_set()
        with pytest.raises(LockLost, match="the lease ran out"):
            held.ensure()


@in_loop
async def test_everybody_who_waits_for_a_loss_is_woken_and_who_gives_up_is_forgotten() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        held = await c.lock("a").acquire()
        assert held
        lost = held.lost
        first, second, third = (asyncio.ensure_future(lost.wait()) for _ in range(3))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait({second})
        called: list[bool] = []
        call_when_lost(held, lambda: called.append(lost.is_set()))
        engine.lose("a")
        for _ in range(2):
            with pytest.raises(LockLost):
                held.ensure()
        assert [await first, await third] == [True, True]
        assert called == [True]
        assert await lost


@in_loop
async def test_work_that_is_done_already_is_at_its_end() -> None:
    finished_at_once(to_the_end(None))
