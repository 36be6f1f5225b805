"""What somebody sees of a lock directory who only looks."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.engines.file import engine, parties
from coterie.engines.file.directory import program_record
from coterie.engines.file.status import DirectoryState, inspect, inspect_waits
from coterie.errors import Unavailable
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from coterie.algorithms.deadlock.wait_for import Graph


@pytest.fixture(autouse=True)
def undetected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep deadlocks as they are."""
    monkeypatch.setattr(engine, "LOOK_FOR_DEADLOCKS_SECONDS", 3600.0)


async def seen(folder: Path, condition: Callable[[DirectoryState], object]) -> DirectoryState:
    """Look until something is the case."""
    while not condition(state := inspect(folder)):  # noqa: ASYNC110 - files have no events
        await asyncio.sleep(0.001)
    return state


async def waits(folder: Path) -> Graph[str]:
    """Look at the graph while the others run."""
    return await asyncio.to_thread(inspect_waits, folder)


def everything(folder: Path) -> list[tuple[str, bytes, int]]:
    return [
        (str(path), b"" if path.is_fifo() else path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if not path.is_dir()
    ]


@in_loop
async def test_it_shows_who_holds_and_who_waits_in_which_mode(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        async with c.lock("b", shared=True) as b, c.lock("a") as a:
            alone = asyncio.create_task(c.lock("b").acquire())
            await seen(tmp_path, lambda state: state.locks[1].waiters)
            sharing = asyncio.create_task(c.lock("b", shared=True).acquire())
            state = await seen(tmp_path, lambda state: len(state.locks[1].waiters) == 2)
            first, second = state.locks
            assert (first.name, second.name) == ("a", "b")
            assert [(party.token, party.shared) for party in first.holders] == [(a.token, False)]
            assert [(party.token, party.shared) for party in second.holders] == [(b.token, True)]
            assert [(party.token, party.shared) for party in second.waiters] == [
                (None, False),
                (None, True),
            ]
            assert first.holders == await c.holders("a")
            assert second.waiters == await c.waiters("b")
            for task in (alone, sharing):
                task.cancel()
        await asyncio.wait({alone, sharing})


@in_loop
async def test_looking_changes_nothing_and_makes_nothing(tmp_path: Path) -> None:
    assert inspect(tmp_path / "absent").locks == []
    assert inspect_waits(tmp_path / "absent").nodes() == ()
    assert not (tmp_path / "absent").exists()
    async with coterie.connect(f"file:{tmp_path}") as c, c.lock("a"):
        before = everything(tmp_path)
        assert len(inspect(tmp_path).locks) == 1
        inspect_waits(tmp_path)
        assert everything(tmp_path) == before


@in_loop
async def test_boards_of_the_dead_are_not_shown_and_not_removed(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c, c.lock("a"):
        (written,) = [path for path in (tmp_path / "boards").iterdir() if not path.suffix]
        dead = tmp_path / "boards" / ("0" * 16)
        dead.write_bytes(written.read_bytes())
    (tmp_path / "boards" / "notes.txt").touch()
    assert inspect(tmp_path).locks == []
    assert dead.exists()


@in_loop
async def test_files_may_vanish_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = program_record.programs

    def remove_and_list(boards: int) -> list[int]:
        found = listed(boards)
        shutil.rmtree(tmp_path)
        return found

    async with coterie.connect(f"file:{tmp_path}") as c:
        held = await c.lock("a").acquire()
        assert held is not None
        monkeypatch.setattr(parties, "programs", remove_and_list)
        assert inspect(tmp_path).locks == []
        with pytest.raises(coterie.LockLost):
            await held.release()


def test_a_directory_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "boards").write_text("of another program")
    with pytest.raises(Unavailable, match="the lock directory"):
        inspect(tmp_path)


@in_loop
async def test_a_name_of_a_task_may_be_long(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        task = asyncio.create_task(c.lock("a").acquire(), name="x" * 10_000)
        assert await task is not None
        assert [lock.name for lock in inspect(tmp_path).locks] == ["a"]


@in_loop
async def test_the_graph_shows_a_chain_and_who_runs(tmp_path: Path) -> None:
    url = f"file:{tmp_path}"
    async with (
        coterie.connect(url) as one,
        coterie.connect(url) as two,
        one.lock("a"),
        two.lock("b"),
    ):
        waiting = asyncio.create_task(one.lock("b").acquire())
        await seen(tmp_path, lambda state: state.locks[1].waiters)
        graph = await waits(tmp_path)
        assert graph.deadlocked() == ()
        assert graph.resources == {"b"}, "nobody waits for the other one"
        (waiter,) = set(graph.waits) - graph.resources
        assert graph.edges()[waiter] == ("b",)
        assert waiter in graph.since
        waiting.cancel()
        await asyncio.wait({waiting})


async def crossed(c: coterie.Coordinator, own: str, *wanted: str) -> None:
    """Hold a lock, and want any one of others when they are held."""
    async with c.lock(own):
        for name in wanted:
            while not await c.holders(name):  # noqa: ASYNC110 - files have no events
                await asyncio.sleep(0.001)
        await c.lock_any(*wanted).acquire()


@in_loop
async def test_waits_in_a_circle_are_a_deadlock(tmp_path: Path) -> None:
    url = f"file:{tmp_path}"
    async with coterie.connect(url) as one, coterie.connect(url) as two:
        tasks = {
            asyncio.create_task(crossed(one, "a", "b")),
            asyncio.create_task(crossed(two, "b", "a")),
        }
        await seen(tmp_path, lambda state: [len(lock.waiters) for lock in state.locks] == [1, 1])
        graph = await waits(tmp_path)
        assert len(graph.deadlocked()) == 4
        assert graph.resources == {"a", "b"}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@in_loop
async def test_a_circle_with_a_lock_that_can_still_come_is_none(tmp_path: Path) -> None:
    url = f"file:{tmp_path}"
    async with coterie.connect(url) as one, coterie.connect(url) as two, one.lock("c"):
        tasks = {
            asyncio.create_task(crossed(one, "a", "b", "c")),
            asyncio.create_task(crossed(two, "b", "a")),
        }
        await seen(tmp_path, lambda state: [len(lock.waiters) for lock in state.locks] == [1, 1, 1])
        graph = await waits(tmp_path)
        assert graph.deadlocked() == ()
        assert ("b", "c") in graph.edges().values()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@in_loop
async def test_only_what_lasts_is_in_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait that ends between the two looks is not shown."""
    async with coterie.connect(f"file:{tmp_path}") as c, c.lock("a"):
        waiting = asyncio.create_task(c.lock("a").acquire())
        await seen(tmp_path, lambda state: state.locks[0].waiters)
        boards = tmp_path / "boards"
        monkeypatch.setattr("time.sleep", lambda _: boards.rename(tmp_path / "elsewhere"))
        assert inspect_waits(tmp_path).nodes() == ()
        (tmp_path / "elsewhere").rename(boards)
        waiting.cancel()
        await asyncio.wait({waiting})
