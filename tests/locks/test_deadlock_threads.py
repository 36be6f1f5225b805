"""Deadlocks among the tasks and threads of one program, over lock files."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import coterie
from coterie.errors import DeadlockDetected
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from pathlib import Path

BOUND_SECONDS = 20


def test_of_two_threads_that_cross_locks_one_gives_way(tmp_path: Path) -> None:
    outcomes: dict[str, str] = {}
    errors: list[DeadlockDetected] = []
    ready = threading.Barrier(2)

    def cross(c: coterie.sync.Coordinator, first: str, second: str) -> None:
        name = threading.current_thread().name
        with c.lock(first):
            ready.wait(BOUND_SECONDS)
            try:
                with c.lock(second):
                    outcomes[name] = "had"
            except DeadlockDetected as error:
                outcomes[name] = "gave way"
                errors.append(error)

    with coterie.sync.connect(f"file:{tmp_path}") as c:
        threads = [
            threading.Thread(target=cross, args=(c, "a", "b"), name="ann"),
            threading.Thread(target=cross, args=(c, "b", "a"), name="bob"),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND_SECONDS)
        assert sorted(outcomes.values()) == ["gave way", "had"]
        assert sorted(member.owner.split()[1] for member in errors[0].members) == ["ann", "bob"]
        assert not c.waiters("a")
        assert not c.waiters("b")


@in_loop
async def cross_tasks(c: coterie.Coordinator, *, shared: bool) -> None:
    """Let one hold a, shared or not, and want b; the other holds b and wants a alone."""
    ready = asyncio.Barrier(2)

    async def cross(first: coterie.Lock, second: coterie.Lock) -> str:
        async with first:
            await ready.wait()
            try:
                async with second:
                    return "had"
            except DeadlockDetected:
                return "gave way"

    async with c:
        outcomes = await asyncio.gather(
            cross(c.lock("a", shared=shared), c.lock("b")),
            cross(c.lock("b"), c.lock("a")),
        )
        assert sorted(outcomes) == ["gave way", "had"]


def test_tasks_that_cross_lock_files(tmp_path: Path) -> None:
    cross_tasks(coterie.connect(f"file:{tmp_path}"), shared=False)


def test_who_shares_is_in_the_way_of_who_wants_it_alone(tmp_path: Path) -> None:
    cross_tasks(coterie.connect(f"file:{tmp_path}"), shared=True)


@in_loop
async def share_both(c: coterie.Coordinator) -> None:
    ready = asyncio.Barrier(2)

    async def cross(first: str, second: str) -> str:
        async with c.lock(first, shared=True):
            await ready.wait()
            async with c.lock(second, shared=True):
                return "had"

    async with c:
        assert list(await asyncio.gather(cross("a", "b"), cross("b", "a"))) == ["had", "had"]


def test_who_shares_is_not_in_the_way_of_who_shares(tmp_path: Path) -> None:
    share_both(coterie.connect(f"file:{tmp_path}"))
