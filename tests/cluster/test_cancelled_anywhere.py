"""Whoever is cancelled, at whichever point where it waits, leaves nothing behind.

A call is driven to its k-th suspension, for each k that it has, and cancelled there: before it is
suspended, in the next turn, or in the same turn as what it waits for. The last is how a grant and a
cancellation meet.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

import coterie
from coterie import locks
from coterie.cluster.client.engine import ClusterEngine
from coterie.engines.file.engine import FileEngine
from coterie.locks.internals import engine_of, holds_of
from coterie.system.aio import to_the_end
from tests.cluster.test_cluster_engine import world
from tests.cluster.virtual_time import passing, run
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from pathlib import Path

    from coterie.locks import Acquirable

    Work: TypeAlias = Callable[[locks.Coordinator], Coroutine[Any, Any, object]]

MOMENTS = ("before", "after", "with")  # of what it waits for
NAMES = ("a", "b", "s/permit-1", "s/permit-2")
SETTLED_SECONDS = 0.05  # of virtual time, after which nothing is under way any more
HOLD_SECONDS = (
    0.003  # of those who are in the way; how far the others get meanwhile does not matter
)


class Driven:
    """A coroutine whose task is cancelled at its k-th suspension."""

    def __init__(self, work: Coroutine[Any, Any, object], k: int, moment: str) -> None:
        self.was_cancelled = False
        self._work = work
        self._left = k
        self._moment = moment

    def __await__(self) -> Generator[Any, Any, object]:
        steps = self._work.__await__()
        resume, value = steps.send, None
        while True:
            try:
                awaited = resume(value)
            except StopIteration as done:
                return done.value
            self._left -= 1
            if not self._left:
                self._cancel(awaited)
            try:
                value = yield awaited
                resume = steps.send
            except BaseException as error:  # noqa: BLE001 - goes on to where it belongs
                resume, value = steps.throw, error

    def _cancel(self, awaited: asyncio.Future[object] | None) -> None:
        self.was_cancelled = True
        task = asyncio.current_task()
        assert task is not None
        if self._moment == "before":
            task.cancel()
        elif self._moment == "after" or awaited is None:
            asyncio.get_running_loop().call_soon(task.cancel)
        else:
            awaited.add_done_callback(lambda _: task.cancel())


async def body(acquirable: Acquirable[Any]) -> None:
    async with acquirable:
        await asyncio.sleep(0)


async def attempt(acquirable: Acquirable[Any]) -> None:
    held = await acquirable.acquire(blocking=False)
    if held is not None:
        await held.release()


async def follow(c: locks.Coordinator) -> None:
    async with contextlib.aclosing(c.observe("a")) as leaders:
        async for leader in leaders:
            if leader is None:
                return


# With the locks that somebody else holds when it begins.
WORKS: dict[str, tuple[Work, tuple[str, ...]]] = {
    "lock": (lambda c: body(c.lock("a")), ("a",)),
    "lock with a timeout": (lambda c: body(c.lock("a", timeout=9)), ("a",)),
    "try": (lambda c: attempt(c.lock("a")), ("a",)),
    "all": (lambda c: body(c.lock_all("a", "b")), ("b",)),
    "try all": (lambda c: attempt(c.lock_all("a", "b")), ("b",)),
    "any": (lambda c: body(c.lock_any("a", "b")), ("a", "b")),
    "try any": (lambda c: attempt(c.lock_any("a", "b")), ("a", "b")),
    "any of all": (
        lambda c: body(c.lock_any(c.lock_all("a", "b"), "s/permit-1")),
        ("b", "s/permit-1"),
    ),
    "all of any": (
        lambda c: body(c.lock_all(c.lock_any("a", "b"), "s/permit-1")),
        ("a", "b", "s/permit-1"),
    ),
    "semaphore": (lambda c: body(c.semaphore("s", 2)), ("s/permit-1", "s/permit-2")),
    "elect": (lambda c: body(c.elect("a")), ("a",)),
    "observe": (follow, ("a",)),
    "waiters": (lambda c: c.waiters("a"), ("a",)),
}


def left_behind(c: locks.Coordinator) -> list[object]:
    """List what a coordinator still holds, waits for, or remembers of waiting."""
    engine = engine_of(c)
    left: list[object] = [*holds_of(c)]
    if not engine.waits.is_empty:
        left.append(engine.waits)
    if isinstance(engine, FileEngine):
        return [*left, *engine.claims()]
    assert isinstance(engine, ClusterEngine)
    participant = engine.group.supply.participant
    return [*left, *engine.group.queues, *(set(participant.bids) - participant.cached)]


async def cancelled_once(
    c: locks.Coordinator, other: locks.Coordinator, work: Driven, busy: tuple[str, ...]
) -> None:
    """Begin while others hold the locks, who leave a little later; nothing is left at the end."""
    holding = [await other.lock(name).acquire(timeout=9) for name in busy]
    before = asyncio.all_tasks()

    async def drive() -> None:
        await work

    driving = asyncio.ensure_future(drive())
    await asyncio.wait({driving}, timeout=HOLD_SECONDS)
    for held in holding:
        assert held is not None
        await held.release()
    await asyncio.wait({driving}, timeout=9)
    assert driving.cancelled() == work.was_cancelled
    if isinstance(engine_of(c), ClusterEngine):
        await passing(SETTLED_SECONDS)
    assert left_behind(c) == []
    assert asyncio.all_tasks() == before
    for name in NAMES:
        async with other.lock(name, timeout=9):
            pass


async def cancelled_everywhere(
    c: locks.Coordinator, other: locks.Coordinator, name: str, *, contended: bool
) -> None:
    make, busy = WORKS[name]
    for moment in MOMENTS:
        k, late = 1, False
        while not late:
            work = Driven(make(c), k, moment)
            await cancelled_once(c, other, work, busy if contended else ())
            late = not work.was_cancelled
            k += 1


@pytest.mark.parametrize("contended", [False, True])
@pytest.mark.parametrize("name", WORKS)
def test_nothing_is_left_behind_in_a_cluster(
    name: str, contended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with world(2, lease=20.0) as made:
            c, other = made.programs
            await cancelled_everywhere(c, other, name, contended=contended)

    run(monkeypatch, main)


@pytest.mark.parametrize("contended", [False, True])
@pytest.mark.parametrize("name", WORKS)
@in_loop
async def test_nothing_is_left_behind_in_a_directory(
    name: str, contended: bool, tmp_path: Path
) -> None:
    url = f"file:{tmp_path}"
    async with locks.connect(url) as c, locks.connect(url) as other:
        await cancelled_everywhere(c, other, name, contended=contended)


@in_loop
async def test_an_error_that_gives_way_to_a_cancellation_is_not_reported_as_forgotten() -> None:
    forgotten: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: forgotten.append(context["message"]))
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def fail() -> None:
        begun.set()
        await may_end.wait()
        raise coterie.LockLost("it was lost meanwhile")

    task = asyncio.ensure_future(to_the_end(fail()))
    await begun.wait()
    task.cancel()
    may_end.set()
    await asyncio.wait({task})
    assert task.cancelled()
    del task
    gc.collect()
    assert forgotten == []
