"""A semaphore answers by its own name, and programs that disagree on its permits learn of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie import Coordinator, UsageError
from coterie.locks import semaphore as semaphore_module
from tests.cluster.virtual_time import passing, run
from tests.locks.memory import MemoryEngine, coordinator, in_loop, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@in_loop
async def test_the_name_of_a_semaphore_answers_for_its_permits() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        semaphore = c.semaphore("s", 2)
        assert not await c.locked("s")
        assert await c.holders("s") == []
        async with semaphore as first:
            assert not await c.locked("s"), "one permit is free"
            assert [(party.name, party.token) for party in await c.holders("s")] == [
                (first.name, first.token)
            ]
            async with semaphore as second:
                assert await c.locked("s")
                assert {party.token for party in await c.holders("s")} == {
                    first.token,
                    second.token,
                }


@in_loop
async def test_a_task_that_waits_for_a_permit_is_listed_once() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c:
        semaphore = c.semaphore("s", 3)
        async with semaphore, semaphore, semaphore:
            waiting = [asyncio.create_task(semaphore.acquire()) for _ in range(2)]
            await until(lambda: engine.waiting("s/permit-3") == 2)
            assert [(party.name, party.token) for party in await c.waiters("s")] == [
                ("s", None),
                ("s", None),
            ]
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
        assert await c.waiters("s") == []


@in_loop
async def test_a_lock_of_the_same_name_is_listed_too() -> None:
    async with coordinator(MemoryEngine()) as c:
        c.semaphore("x", 2)
        async with c.lock("x") as held:
            assert await c.locked("x")
            assert [party.token for party in await c.holders("x")] == [held.token]


@in_loop
async def test_a_coordinator_that_has_not_made_the_semaphore_does_not_know_its_permits() -> None:
    engine = MemoryEngine()
    async with coordinator(engine) as c, coordinator(engine) as other, c.semaphore("s", 1):
        assert await c.locked("s")
        assert not await other.locked("s")
        assert await other.locked("s/permit-1")
        other.semaphore("s", 1)
        assert await other.locked("s")


@in_loop
async def test_of_two_numbers_of_permits_the_larger_one_counts() -> None:
    async with coordinator(MemoryEngine()) as c:
        small, large = c.semaphore("s", 1), c.semaphore("s", 2)
        async with small:
            assert not await c.locked("s")
            async with large:
                assert await c.locked("s")


@in_loop
async def test_of_very_many_semaphores_the_first_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(semaphore_module, "NAMES_MAX", 2)
    async with coordinator(MemoryEngine()) as c, c.semaphore("a", 1), c.semaphore("b", 1):
        assert await c.locked("a")
        c.semaphore("a", 1)  # used again, so it is not the oldest
        c.semaphore("c", 1)
        assert await c.locked("a")
        assert not await c.locked("b")


@in_loop
async def test_file_locks_answer_in_the_same_way(tmp_path: Path) -> None:
    async with coterie.connect(tmp_path) as c, coterie.connect(tmp_path) as other:
        async with c.semaphore("s", 2), c.semaphore("s", 2):
            waiting = asyncio.create_task(other.semaphore("s", 2).acquire())
            while not await c.waiters("s"):  # noqa: ASYNC110 - the disk has no events
                await asyncio.sleep(0)
            assert await other.locked("s")
            assert len(await other.holders("s")) == 2
            assert len(await other.waiters("s")) == 1
        held = await waiting
        assert held


@pytest.mark.parametrize(
    "permits", [0, -1, 100_001, 10**5000], ids=["0", "-1", "too many", "digits"]
)
def test_numbers_of_permits_that_cannot_be_are_refused(permits: int) -> None:
    c = coordinator(MemoryEngine())
    with pytest.raises(UsageError, match="permits must be at"):
        c.semaphore("s", permits)


# Programs that disagree


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if getattr(record, "event", "") == "permits-differ"
    ]


@contextlib.asynccontextmanager
async def all_held(large: Coordinator, permits: int) -> AsyncIterator[None]:
    """Hold as many permits as the larger program has."""
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(permits):
            await stack.enter_async_context(large.semaphore("s", permits))
        yield


def wait_for_a_permit(
    monkeypatch: pytest.MonkeyPatch, *, mine: int, others: int, seconds: float
) -> None:
    """Wait for that long while another program, with its own number of permits, holds all."""

    async def main() -> None:
        engine = MemoryEngine()
        async with (
            coordinator(engine) as small,
            coordinator(engine) as large,
            all_held(large, others),
        ):
            semaphore = small.semaphore("s", mine)
            waiting = [asyncio.create_task(semaphore.acquire()) for _ in range(2)]
            await passing(seconds)
            assert not any(task.done() for task in waiting)
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)

    run(monkeypatch, main)


def test_the_one_with_fewer_permits_is_warned_while_it_waits_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "coterie.locks"):
        wait_for_a_permit(monkeypatch, mine=2, others=3, seconds=25)
    text = (
        "semaphore 's' has 2 permits here and more in process memory:1: the largest number counts;"
        " use the same in all programs"
    )
    assert warnings(caplog) == [text] * 3, "after 1, 11 and 21 s, not for each task"


def test_programs_that_agree_are_not_warned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wait_for_a_permit(monkeypatch, mine=2, others=2, seconds=25)
    assert warnings(caplog) == []


def test_a_permit_that_is_had_at_once_or_soon_costs_no_look(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wait_for_a_permit(monkeypatch, mine=2, others=3, seconds=0.5)
    assert warnings(caplog) == []
