"""Coming and going: whoever is cancelled on the way in or out leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import math
import socket
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import coterie
from coterie import MisuseError
from coterie.cluster.membership.config import convert
from coterie.cluster.wire.frames import Refusal
from coterie.cluster.wire.handshake import Caller, Credentials, new_identity
from coterie.locks import lock
from tests.cluster.local_cluster import document, running, url_of
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

LEASE = 60.0  # whoever leaves without goodbye is waited for longer than any test here runs
STRIDE = 3  # turns of the event loop between the moments of two cancellations


@contextlib.asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[str]:
    config = convert(document(lease=LEASE), folder)
    async with running(config):
        yield url_of(config)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def cancelled_after(count: int, task: asyncio.Task[None]) -> bool:
    """Cancel a task after so many turns and wait for its end; tell whether that came too late."""
    await turns(count)
    late = task.done()
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()
    return late


@in_loop
async def test_who_is_cancelled_while_it_connects_leaves_no_task_and_no_connection(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as url:
        before = asyncio.all_tasks()
        late, count = False, 0
        while not late:
            c = coterie.connect(url)
            late = await cancelled_after(count, asyncio.create_task(c.open()))
            await c.close()
            assert asyncio.all_tasks() == before, f"cancelled after {count} turns"
            count += STRIDE
        assert count > STRIDE, "some came in time"


@in_loop
async def test_who_is_cancelled_while_it_joins_leaves_no_task_and_no_open_door(
    tmp_path: Path,
) -> None:
    config = convert(document(lease=LEASE), tmp_path)
    before = asyncio.all_tasks()
    late, count = False, 0
    while not late:
        # Nobody else runs, so each attempt listens at its address and then waits for the others.
        c = coterie.join(config, node="a", new_cluster=True)
        late = await cancelled_after(count, asyncio.create_task(c.open()))
        late = late or count > 20 * STRIDE
        await c.close()
        assert asyncio.all_tasks() == before, f"cancelled after {count} turns"
        count += STRIDE


@in_loop
async def test_who_is_cancelled_while_it_leaves_says_goodbye_all_the_same(tmp_path: Path) -> None:
    async with cluster(tmp_path) as url, coterie.connect(url) as other:
        before = asyncio.all_tasks()
        late, count = False, 1  # a task that never ran has not begun to leave
        while not late:
            c = coterie.connect(url)
            await c.open()
            assert await c.lock("x").acquire()
            late = await cancelled_after(count, asyncio.create_task(c.close()))
            assert asyncio.all_tasks() == before, f"cancelled after {count} turns"
            async with other.lock("x"):
                pass
            count += STRIDE
        assert count > 1 + STRIDE, "some came in time"


@in_loop
async def test_a_coordinator_can_be_opened_again_with_all_its_leases(tmp_path: Path) -> None:
    async with cluster(tmp_path) as url:
        c = coterie.connect(url)
        for _ in range(2):
            async with c, c.lock("x", timeout=10), c.lock("y", lease=LEASE / 2, timeout=10) as held:
                assert held.valid


@in_loop
async def test_a_wait_that_ends_while_voters_are_called_for_the_first_time_is_no_lack_of_them(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as url, coterie.connect(url) as c:
        # A lease of its own has sessions of its own, and they cannot stand within one turn.
        lock = c.lock("x", lease=LEASE / 2)
        assert await lock.acquire(timeout=1e-9) is None
        assert await lock.acquire(), "a moment later they do"
        assert await asyncio.create_task(c.lock("x", lease=LEASE / 3).acquire(timeout=0)) is None


@pytest.mark.parametrize("kind", ["file", "cluster"])
def test_whoever_follows_a_leader_is_told_that_the_coordinator_was_closed(
    kind: str, tmp_path: Path
) -> None:
    @in_loop
    async def test() -> None:
        async with contextlib.AsyncExitStack() as stack:
            urls: dict[str, Callable[[], Any]] = {
                "file": functools.partial(contextlib.nullcontext, f"file:{tmp_path}"),
                "cluster": functools.partial(cluster, tmp_path),
            }
            c = coterie.connect(await stack.enter_async_context(urls[kind]()))
            await c.open()
            leaders = c.observe("x")
            assert await anext(leaders) is None
            await c.close()
            with pytest.raises(MisuseError):
                await anext(leaders)

    test()


def test_a_coordinator_is_closed_by_the_event_loop_that_opened_it(tmp_path: Path) -> None:
    c = coterie.connect(f"file:{tmp_path}")
    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(c.open())
        with pytest.raises(MisuseError, match="another event loop"):
            second.run(c.close())
        first.run(c.close())


class Line:
    """A connection on which nothing travels."""

    def __init__(self) -> None:
        self.receive: Callable[[memoryview], None] = print
        self.transport = asyncio.Transport()  # it is not encrypted

    def use(self, on_frame: Callable[[memoryview], None], on_close: Callable[[str], None]) -> None:
        self.receive = on_frame

    def send(self, frame: msgspec.Struct) -> None:
        """Keep it for nobody."""


@in_loop
async def test_an_answer_to_a_hello_that_was_given_up_is_no_fault_of_the_node() -> None:
    line: Any = Line()
    caller = Caller(Credentials("test", ""), "admin", new_identity("me"), None)
    greeting = asyncio.create_task(caller.greet(line))
    await turns(1)
    greeting.cancel()
    line.receive(memoryview(msgspec.msgpack.encode(Refusal("too late"))))
    await asyncio.wait({greeting})
    assert greeting.cancelled()


@pytest.mark.parametrize("count", range(5))
def test_who_calls_a_node_in_the_turn_in_which_it_ends_is_not_left_to_the_collector(
    count: int, tmp_path: Path
) -> None:
    """The warnings of the collector are errors."""

    async def main() -> None:
        async with cluster(tmp_path) as url:
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))):
                await turns(count)

    asyncio.run(main())
    gc.collect()


@pytest.mark.parametrize("count", range(4))
@in_loop
async def test_who_is_granted_a_lock_in_the_turn_in_which_all_is_closed_does_not_wait_for_ever(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path) as url:
        c = coterie.connect(url)
        await c.open()
        held = await c.lock("a").acquire()
        assert held is not None
        waiter = asyncio.ensure_future(c.lock("a").acquire())
        await turns(5)
        monkeypatch.setattr(lock, "TURN_SECONDS", math.inf)  # so that a release takes no turn
        await held.release()
        await turns(count)
        await c.close()
        with contextlib.suppress(MisuseError):
            await waiter
        await c.open()
        async with c.lock("a"):
            pass
        await c.close()
