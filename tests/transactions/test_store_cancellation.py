"""Cancellation is an abort, wherever it comes; except where the commit is decided already."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from coterie.errors import Conflict
from coterie.transactions import Store, Transaction
from tests.transactions.disk import store_on_disk
from tests.transactions.jumbled import FORMS, assert_idle, jumbled, scheduler_of

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator
    from pathlib import Path

every_form = pytest.mark.parametrize(("scheme", "variant"), FORMS)


class CancelledAt:
    """Runs a coroutine, whose task is cancelled where it waits for the k-th time.

    Either while it waits, or (`late`) when it has its answer and has not gone on yet.
    """

    def __init__(self, work: Coroutine[Any, Any, None], k: int, *, late: bool) -> None:
        self.work = work
        self.left = k
        self.late = late
        self.answer_was_due = False

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self.work.__await__()
        task = asyncio.current_task()
        assert task is not None
        error: BaseException | None = None
        while True:
            try:
                future = next(steps) if error is None else steps.throw(error)
            except StopIteration:
                return
            self.left -= 1
            if self.left == 0:
                self.answer_was_due = future is not None
            if self.left == 0 and self.late and future is not None:
                future.add_done_callback(lambda _: task.cancel())  # before the task hears of it
            elif self.left == 0:
                task.cancel()
            error = None
            try:
                yield future
            except BaseException as thrown:  # noqa: BLE001 - it goes to the coroutine
                error = thrown


async def script(store: Store) -> None:
    async with store.transaction() as t:
        await t.get("a")
        await asyncio.sleep(0)
        await t.get("x", for_update=True)
        await t.put("x", "script")
        await asyncio.sleep(0)
        await t.scan("a", "z")
        await t.put("y", "script")
        await asyncio.sleep(0)


async def rival(store: Store, keys: str) -> None:
    """Be in the way, before or after."""
    with contextlib.suppress(Conflict):
        async with store.transaction() as t:
            for key in keys:
                await t.get(key)
                await t.put(key, "rival")
                await asyncio.sleep(0)


@pytest.mark.slow
@every_form
@pytest.mark.parametrize("late", [False, True], ids=["waiting", "answered"])
def test_cancelled_at_any_point_it_leaves_nothing_behind(
    scheme: str, variant: str, late: bool
) -> None:
    """2.0 d: no locks, no writes, no waiters; and a fresh transaction on the same keys succeeds."""

    async def main(k: int) -> CancelledAt:
        store = Store(scheme, variant=variant)
        cancelling = CancelledAt(script(store), k, late=late)

        async def victim() -> str:
            try:
                await cancelling
            except Conflict:
                return "refused"
            return "committed"

        tasks = [asyncio.create_task(rival(store, keys)) for keys in ("xa", "ya", "ax")]
        hit = asyncio.create_task(victim())
        await asyncio.wait({hit, *tasks})
        assert all(task.exception() is None for task in tasks)
        assert_idle(store)
        async with asyncio.timeout(1), store.transaction() as t:
            values = [await t.get("x"), await t.get("y")]
            await t.put("x", "fresh")
            await t.put("y", "fresh")
        if hit.cancelled() or hit.result() == "refused":
            assert "script" not in values
        assert_idle(store)
        return cancelling

    cancelled: list[CancelledAt] = []
    for seed in range(40):
        points = (jumbled(partial(main, k), seed) for k in itertools.count(1))
        cancelled += itertools.takewhile(lambda cancelling: cancelling.left == 0, points)
    assert len(cancelled) >= 40
    if scheme in ("two-phase-locking", "conservative"):
        assert any(cancelling.answer_was_due for cancelling in cancelled)


def test_a_waiter_that_leaves_lets_those_behind_it_go_on() -> None:
    """2.1 f: two readers with a writer between them; the writer is cancelled in the line."""

    async def main() -> None:
        store = Store()

        async def read(done: asyncio.Event) -> str:
            async with store.transaction() as t:
                await t.get("x")
                await done.wait()
            return "read"

        async def write() -> None:
            async with store.transaction() as t:
                await t.put("x", 1)

        first_done, second_done = asyncio.Event(), asyncio.Event()
        second_done.set()
        first = asyncio.create_task(read(first_done))
        await asyncio.sleep(0)
        writer = asyncio.create_task(write())
        await asyncio.sleep(0)
        second = asyncio.create_task(read(second_done))
        await asyncio.sleep(0)
        assert not second.done()
        writer.cancel()
        assert await second == "read"
        first_done.set()
        assert await first == "read"
        assert_idle(store)

    asyncio.run(main())


@pytest.mark.parametrize("scheme", ["two-phase-locking", "multiversion", "optimistic"])
def test_a_commit_on_its_way_to_the_disk_is_not_cancelled_any_more(
    scheme: str, tmp_path: Path
) -> None:
    """2.0 d: the block ends as committed, and the cancellation comes where the task waits next."""

    async def main() -> None:
        store, disk = store_on_disk(tmp_path / "store", scheme)
        async with store:
            disk.open.clear()
            told: list[str] = []

            async def work() -> None:
                async with store.transaction() as t:
                    await t.put("x", 1)
                told.append(t.state)
                await asyncio.sleep(60)
                told.append("went on")

            task = asyncio.create_task(work())
            await asyncio.to_thread(disk.reached.wait, 10)
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0)
            assert not task.done()
            disk.open.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert told == ["committed"]
            assert task.cancelling() == 3
            async with store.transaction() as t:
                assert await t.get("x") == 1
            assert_idle(store)

    asyncio.run(main())


def test_a_deadline_that_ends_with_the_commit_has_no_say_any_more(tmp_path: Path) -> None:
    """The block inside the deadline has come to its end, so there is nothing to be late with."""

    async def main() -> None:
        store, disk = store_on_disk(tmp_path / "store")
        async with store:
            disk.open.clear()
            asyncio.get_running_loop().call_later(0.05, disk.open.set)
            async with asyncio.timeout(0.01) as deadline, store.transaction() as t:
                await t.put("x", 1)
            assert deadline.expired()
            assert t.state == "committed"
            await asyncio.sleep(0.01)  # nothing comes later

    asyncio.run(main())


def test_work_that_goes_on_after_its_deadline_is_told_so(tmp_path: Path) -> None:
    async def main() -> None:
        store, disk = store_on_disk(tmp_path / "store")
        async with store:
            disk.open.clear()
            asyncio.get_running_loop().call_later(0.05, disk.open.set)
            with pytest.raises(TimeoutError):
                await late(store)
            await asyncio.sleep(0.01)
            async with store.transaction() as t:
                assert await t.get("x") == 1

    async def late(store: Store) -> None:
        async with asyncio.timeout(0.01):
            async with store.transaction() as t:
                await t.put("x", 1)
            await asyncio.sleep(60)

    asyncio.run(main())


def test_a_retry_loop_that_is_cancelled_ends() -> None:
    """In the pause between two attempts nothing is held."""

    async def main() -> None:
        store = Store()

        async def conflict(t: Transaction) -> None:
            await t.put("x", 1)
            raise Conflict("always in the way")

        task = asyncio.create_task(store.run(conflict, tries=10_000))
        await asyncio.sleep(1)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert_idle(store)

    jumbled(main, seed=0)


def test_a_run_ends_by_its_own_deadline_wherever_it_is() -> None:
    """While it waits for another, pauses between two tries, or does something else."""

    async def main() -> None:
        store = Store()

        async def read(t: Transaction) -> None:
            await t.get("x")

        async def conflict(t: Transaction) -> None:
            await t.put("y", 1)
            raise Conflict("always in the way", keys=("y",), others=("T7",))

        async def dawdle(t: Transaction) -> None:
            await t.put("z", 1)
            await asyncio.sleep(3600)

        async with store.transaction() as holder:
            await holder.put("x", 1)
            for work in (read, conflict, dawdle):
                run = asyncio.create_task(store.run(work, tries=10_000, timeout=5))
                with pytest.raises(Conflict, match="given up after 5 s") as caught:
                    await run
                assert caught.value.rule == "out of time"
                assert caught.value.definite
                if work is conflict:
                    assert "tries were refused, the last because: always" in str(caught.value)
                    assert (caught.value.keys, caught.value.others) == (("y",), ("T7",))
        assert [key for key, _ in scheduler_of(store).latest()] == ["x"]
        assert_idle(store)

    jumbled(main, seed=0)


def test_a_timeout_of_the_work_itself_is_not_the_deadline_of_the_run() -> None:
    async def work(_: Transaction) -> None:
        raise TimeoutError("somewhere else")

    async def main() -> None:
        with pytest.raises(TimeoutError, match="somewhere else"):
            await Store().run(work, timeout=5)

    asyncio.run(main())


def test_a_commit_on_its_way_to_the_disk_outlives_the_deadline_of_its_run(tmp_path: Path) -> None:
    async def put(t: Transaction) -> str:
        await t.put("x", 1)
        return "done"

    async def main() -> None:
        store, disk = store_on_disk(tmp_path / "store")
        async with store:
            disk.open.clear()
            asyncio.get_running_loop().call_later(0.05, disk.open.set)
            assert await store.run(put, timeout=0.01) == "done"
            await asyncio.sleep(0)  # nothing comes later

    asyncio.run(main())
