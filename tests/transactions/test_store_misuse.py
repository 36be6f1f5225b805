"""Whatever makes no sense to a store is told in one line, and changes nothing."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from coterie.errors import ConfigError, Conflict, MisuseError, UsageError
from coterie.lab.serializability import check
from coterie.transactions import Span, Store, Transaction
from coterie.transactions.history import parse_history
from coterie.transactions.store import values
from tests.transactions.jumbled import FORMS, assert_idle, jumbled

if TYPE_CHECKING:
    from pathlib import Path


async def nothing(t: Transaction) -> None:
    pass


@pytest.mark.parametrize("name", ["locking", "two_phase_locking", "", None, 2])
def test_an_unknown_scheme_is_told_which_there_are(name: Any) -> None:
    with pytest.raises(
        UsageError, match=r"there is no scheme .*; choose one of two-phase-locking, "
    ):
        Store(name)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5"])
def test_a_timeout_is_a_time(timeout: Any) -> None:
    with pytest.raises(UsageError, match="timeout must be more than 0 seconds, got"):
        Store(timeout=timeout)


@pytest.mark.parametrize("path", [5, "a\0b", ["bank"]])
def test_a_path_is_a_path(path: Any) -> None:
    with pytest.raises(UsageError, match="expected the path of a file, got"):
        Store(path=path)


def test_a_path_never_means_a_database_that_is_soon_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite would take these names for one in memory, or one that goes when it is closed."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="cannot be opened"):
        Store(path="")

    async def main() -> None:
        for expected in (None, 1):
            async with Store(path=":memory:") as store, store.transaction() as t:
                assert await t.get("x") == expected
                await t.put("x", 1)

    asyncio.run(main())
    assert os.path.exists(":memory:")  # noqa: PTH110 - the name as it was given


def plain(t: Transaction) -> str:
    return t.name


@pytest.mark.parametrize(
    ("work", "complaint"),
    [
        (plain, "run needs an `async def` function, got <function plain at .*>"),
        (3, "run needs a function that it can call again, got 3"),
    ],
)
def test_only_an_async_function_can_be_run(work: Any, complaint: str) -> None:
    async def main() -> None:
        store = Store()
        with pytest.raises(UsageError, match=complaint):
            await store.run(work)
        assert_idle(store)

    asyncio.run(main())


@pytest.mark.parametrize("tries", [0, 2.5, "3"])
def test_tries_are_counted(tries: Any) -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="tries must be at least 1, got"):
            await Store().run(nothing, tries=tries)

    asyncio.run(main())


@pytest.mark.parametrize("limit", [0, 1.5, "x"])
def test_a_limit_is_a_number_of_keys(limit: Any) -> None:
    async def main() -> None:
        async with Store().transaction() as t:
            with pytest.raises(UsageError, match="limit must be at least 1, got"):
                await t.scan(limit=limit)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("declared", "complaint"),
    [
        ("account", "reads and writes are lists of keys and spans, got 'account'"),
        (Span("a"), "reads and writes are lists of keys and spans, got Span"),
        (5, "reads and writes are lists of keys and spans, got 5"),
        ([5], "a key must be a string, got 5"),
        ([("a", "b")], "a key must be a string, got "),
        ([Span(1, 2)], "a key must be a string, got 1"),  # type: ignore[arg-type]  # the point
    ],
)
def test_a_declaration_lists_keys_and_spans(declared: Any, complaint: str) -> None:
    """A single string would be taken for a list of its letters."""
    for form in ({"reads": declared}, {"writes": declared}):
        with pytest.raises(UsageError, match=complaint):
            Store("conservative").transaction(**form)


def test_keys_and_values_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a disk or a wire would refuse them when it is too late to say so."""
    monkeypatch.setattr(values, "VALUE_BYTES_MAX", 1000)

    async def main() -> None:
        async with Store().transaction() as t:
            with pytest.raises(UsageError, match="at most 65,536 characters, got 65,537"):
                await t.put("k" * 65_537, 1)
            with pytest.raises(
                UsageError, match="'k' cannot be stored: it takes 1,003 bytes, more than 1"
            ):
                await t.put("k", b"v" * 1000)
            await t.put("k" * 65_536, b"v" * 900)

    asyncio.run(main())


WAITING = [form for form in FORMS if form[0] != "optimistic"]


@pytest.mark.parametrize(("scheme", "variant"), WAITING)
def test_a_task_does_not_wait_for_itself(scheme: str, variant: str) -> None:
    """2.7 i: a transaction inside another of the same task would wait for ever."""

    async def main() -> None:
        store = Store(scheme, variant=variant)

        async def inner(t: Transaction) -> None:
            await t.put("x", await t.get("x", 0) + 1)

        async def outer(t: Transaction) -> None:
            await t.put("x", 1)
            await store.run(inner)

        with pytest.raises(MisuseError, match=r"T2 .* T1, which the same task has begun"):
            await store.run(outer)
        assert (store.counts.aborted, store.counts.repeated) == (2, 0)
        assert_idle(store)
        assert await store.run(lambda t: t.get("x")) is None

    jumbled(main, seed=0)


class Other:
    """Another task, which writes y and then x."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.first, self.holding, self.go_on = (asyncio.Event() for _ in range(3))
        self.first.set()  # cleared by tests in which this one comes second

    async def run(self) -> None:
        await self.first.wait()
        async with self.store.transaction() as t:
            await t.put("y", 2)
            self.holding.set()
            await self.go_on.wait()
            await t.put("x", 2)


@pytest.mark.parametrize(
    ("variant", "second"), [("detection", True), ("wound-wait", True), ("wait-die", False)]
)
def test_a_task_does_not_wait_for_itself_behind_others(variant: str, second: bool) -> None:
    """2.7 i: it would wait for one of another task, who waits for one of this task.

    Only the younger may wait by `wound-wait`, and by `wait-die` only the older.
    """

    async def main() -> None:
        store = Store(variant=variant)
        other = Other(store)
        if second:
            other.first.clear()

        async def outer(t: Transaction) -> None:
            await t.put("x", 1)
            other.first.set()
            await other.holding.wait()
            other.go_on.set()
            await asyncio.sleep(0)  # the other one waits for x
            await store.run(lambda inner: inner.put("y", 3))

        task = asyncio.create_task(other.run())
        if not second:
            await other.holding.wait()
        with pytest.raises(MisuseError, match=r"T3 .* T\d, which the same task has begun"):
            await store.run(outer)
        await task
        assert store.counts.committed == 1
        assert_idle(store)

    asyncio.run(main())


def test_a_task_notices_when_its_wait_becomes_one_for_itself() -> None:
    """2.7 i: T3 waits for T2 of another task, who only then comes to wait for T1 of this one."""

    async def main() -> None:
        store = Store()
        other = Other(store)
        other.first.clear()

        async def outer(t: Transaction) -> None:
            await t.put("x", 1)
            other.first.set()
            await other.holding.wait()
            asyncio.get_running_loop().call_soon(other.go_on.set)  # when the inner one waits
            await store.run(lambda inner: inner.put("y", 3))

        task = asyncio.create_task(other.run())
        with pytest.raises(MisuseError, match="T3 would wait forever for T1, which the same task"):
            await store.run(outer)
        await task
        assert_idle(store)

    jumbled(main, seed=0)


def test_a_task_does_not_wound_itself() -> None:
    """By `wound-wait` it is the inner one that has to go, and would have to each time."""

    async def main() -> None:
        store = Store(variant="wound-wait")

        async def outer(t: Transaction) -> None:
            async with store.transaction() as inner:
                await inner.put("x", 2)
                await t.put("x", 1)

        with pytest.raises(MisuseError, match="T2 cannot go on because of T1, which the same task"):
            await store.run(outer)
        assert (store.counts.aborted, store.counts.refused) == (2, 0)
        assert_idle(store)

    asyncio.run(main())


def test_a_conflict_with_another_task_stays_one() -> None:
    """Although this task has another transaction under way, which is in nobody's way."""

    async def main() -> None:
        store = Store(variant="wait-die")
        holding, done = asyncio.Event(), asyncio.Event()

        async def other() -> None:
            async with store.transaction() as t:
                await t.put("y", 2)
                holding.set()
                await done.wait()

        task = asyncio.create_task(other())
        await holding.wait()
        async with store.transaction() as t:
            await t.put("x", 1)
            with pytest.raises(Conflict, match="younger than one in its way"):
                async with store.transaction() as inner:
                    await inner.put("y", 3)
        done.set()
        await task
        assert (store.counts.committed, store.counts.refused) == (2, 1)

    asyncio.run(main())


def test_transactions_of_one_task_that_are_in_nobodys_way_may_overlap() -> None:
    async def main() -> None:
        store = Store()
        async with store.transaction() as t, store.transaction() as other:
            await t.put("x", 1)
            await other.put("y", 1)
        assert store.counts.committed == 2

    asyncio.run(main())


@pytest.mark.parametrize(
    "value", [float("nan"), [float("nan")], {1: 2}, {(1, 2): 3}, b"\xff", None, {"a": {True: [()]}}]
)
def test_a_history_tells_every_value_that_can_be_stored(value: Any) -> None:
    async def main() -> None:
        store = Store(record=True)
        for change in (value, 7, value):
            async with store.transaction() as t:
                await t.get("x")
                await t.put("x", change)
                await t.get("x")
        async with store.transaction() as t:
            await t.get("x")
        for history in (
            store.history(),
            parse_history(store.history_lines()),
        ):
            report = check(history)
            assert report.serializable, report
            assert report.order == ("T1", "T2", "T3", "T4")

    asyncio.run(main())


def test_a_store_is_used_by_one_event_loop_at_a_time() -> None:
    async def put(t: Transaction) -> None:
        await t.put("x", 1)

    async def main(store: Store) -> None:
        await store.run(put)
        with pytest.raises(MisuseError, match="in use by an event loop of another thread"):
            await asyncio.to_thread(asyncio.run, store.run(put))
        assert store.counts.committed == 1
        assert_idle(store)

    asyncio.run(main(Store()))


def test_a_store_may_go_on_with_the_next_event_loop() -> None:
    async def put(t: Transaction) -> None:
        await t.put("x", await t.get("x", 0) + 1)

    store = Store()
    for _ in range(2):
        asyncio.run(store.run(put))
    assert store.counts.committed == 2


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5"])
def test_the_time_of_a_run_is_a_time(timeout: Any) -> None:
    with pytest.raises(UsageError, match="timeout must be more than 0 seconds, got"):
        asyncio.run(Store().run(nothing, timeout=timeout))
