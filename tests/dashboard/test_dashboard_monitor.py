"""One asker for all pages: it looks while a page is open, and tells what has changed."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from coterie.dashboard import monitor as monitor_module
from coterie.dashboard.monitor import BEHIND_MAX, Delta, First, Monitor, Trouble
from coterie.engines.file.status import DirectoryState
from coterie.errors import Unavailable
from coterie.locks.engine import LockState, Party
from coterie.locks.status import Status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from coterie.dashboard.monitor import Update


class Scripted:
    """Shows another token at each look, or fails when it is told to."""

    def __init__(self) -> None:
        self.looks = 0
        self.error: Exception | None = None

    async def look(self, *, locks: bool = False, waits: bool = False) -> Status:
        assert locks
        assert waits
        self.looks += 1
        if self.error:
            raise self.error
        held = LockState("x", [Party("p", "a", 1.0, self.looks)], [], [])
        state = DirectoryState("d", [held, LockState("y", [], [], [])])
        return Status("lock directory", "d", state, [], (), "", "")


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    scripted = Scripted()

    async def find(_: str) -> Scripted:
        return scripted

    monkeypatch.setattr(monitor_module, "find_source", find)
    return scripted


@contextlib.asynccontextmanager
async def page(monitor: Monitor) -> AsyncIterator[AsyncIterator[Update]]:
    updates = monitor.updates()
    try:
        yield updates
    finally:
        await updates.aclose()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("source")
def test_a_page_gets_the_whole_state_and_then_what_changes() -> None:
    async def main() -> None:
        async with page(Monitor("file:", 0.0)) as updates:
            kind, first = await anext(updates)
            assert kind == "first"
            assert isinstance(first, First)
            assert set(first.snapshot.locks) == {"x", "y"}
            kind, delta = await anext(updates)
            assert isinstance(delta, Delta)
            assert set(delta.locks) == {"x"}
            assert [event.text for event in delta.events] == ["x: held by a, token 2"]

    asyncio.run(main())


def test_many_pages_cost_one_asker_and_none_costs_nothing(source: Scripted) -> None:
    async def main() -> None:
        monitor = Monitor("file:", 3600.0)
        async with page(monitor) as one, page(monitor) as two:
            assert (await anext(one))[0] == "first"
            assert (await anext(two))[0] == "first"
            assert source.looks == 1
        assert len(asyncio.all_tasks()) == 1
        async with page(monitor) as again:
            assert (await anext(again))[0] == "first"
            assert source.looks == 2

    asyncio.run(main())


def test_trouble_is_told_since_when_it_lasts_and_ends_with_the_next_look(source: Scripted) -> None:
    async def main() -> None:
        async with page(Monitor("file:", 0.0)) as updates:
            assert (await anext(updates))[0] == "first"
            source.error = Unavailable("no node answers")
            troubles = [update async for update, _ in _some(updates, "trouble", 2)]
            assert isinstance(troubles[0], Trouble)
            assert isinstance(troubles[1], Trouble)
            assert troubles[0].error == "no node answers"
            assert troubles[0].at == troubles[1].at
            source.error = None
            assert [kind async for _, kind in _some(updates, "delta", 1)] == ["delta"]

    asyncio.run(main())


async def _some(
    updates: AsyncIterator[Update], wanted: str, count: int
) -> AsyncIterator[tuple[object, str]]:
    """Pass over what was told before, and yield so many of one kind."""
    async for kind, update in updates:
        if kind == wanted:
            yield update, kind
            count -= 1
            if not count:
                return


@pytest.mark.usefixtures("source")
def test_a_page_that_falls_behind_gets_the_whole_state_instead() -> None:
    async def main() -> None:
        monitor = Monitor("file:", 0.0)
        async with page(monitor) as slow, page(monitor) as fast:
            assert (await anext(slow))[0] == "first"
            for _ in range(BEHIND_MAX + 3):
                await anext(fast)
            kinds = [(await anext(slow))[0] for _ in range(2)]
            assert "first" in kinds

    asyncio.run(main())


def test_closing_ends_every_page(source: Scripted) -> None:
    async def main() -> None:
        monitor = Monitor("file:", 3600.0)
        async with page(monitor) as updates:
            assert (await anext(updates))[0] == "first"
            monitor.close()
            assert [update async for update in updates] == []
        assert source.looks == 1

    asyncio.run(main())


def test_a_page_gets_the_url_without_its_password(source: Scripted) -> None:
    async def main() -> None:
        async with page(Monitor("redis://me:p@ss@one", 3600.0)) as updates:
            _, first = await anext(updates)
            assert isinstance(first, First)
            assert first.url == "redis://one"
        assert source.looks == 1

    asyncio.run(main())


def test_a_defect_of_ours_is_not_taken_for_trouble(source: Scripted) -> None:
    async def main() -> None:
        monitor = Monitor("file:", 0.0)
        async with page(monitor) as updates:
            source.error = ZeroDivisionError()
            with pytest.raises(ZeroDivisionError):
                await anext(updates)

    asyncio.run(main())
