"""The tickets of the `file:` coordinator, within one process."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie import LockLost, MisuseError, Unavailable
from coterie.engines.file import gate
from coterie.engines.file.directory import Directory
from coterie.engines.file.place import Place
from coterie.engines.file.queue import Queue
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from pathlib import Path

    from coterie import Coordinator, Held


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if not path.is_dir())


async def until_waiting(c: Coordinator, name: str, number: int) -> None:
    while len(await c.waiters(name)) != number:  # noqa: ASYNC110 - files have no events
        await asyncio.sleep(0.001)


async def acquired(c: Coordinator, name: str, *, shared: bool = False) -> Held:
    held = await asyncio.create_task(c.lock(name, shared=shared).acquire())
    assert held is not None
    return held


@in_loop
async def test_waiters_are_served_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    order: list[tuple[int, int]] = []
    async with coterie.connect(f"file:{tmp_path}") as c:

        async def work(number: int) -> None:
            async with c.lock("a") as held:
                order.append((number, held.token))

        async with c.lock("a") as first:
            tasks = []
            for number in range(8):
                tasks.append(asyncio.create_task(work(number)))
                await until_waiting(c, "a", number + 1)
            assert [party.token for party in await c.holders("a")] == [first.token]
        await asyncio.gather(*tasks)
    assert [number for number, _ in order] == list(range(8))
    tokens = [first.token, *(token for _, token in order)]
    assert tokens == sorted(set(tokens))


@in_loop
async def test_two_coordinators_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    async with (
        coterie.connect(f"file:{tmp_path}") as one,
        coterie.connect(f"file:{tmp_path}") as other,
    ):
        async with one.lock("a"):
            assert await other.lock("a").acquire(blocking=False) is None
            assert await other.locked("a")
        async with other.lock("a"):
            assert await one.lock("a").acquire(blocking=False) is None


@in_loop
async def test_those_who_share_enter_together_but_overtake_nobody(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        readers = [await acquired(c, "a", shared=True) for _ in range(2)]
        assert len(await c.holders("a")) == 2
        writing = asyncio.create_task(c.lock("a").acquire())
        await until_waiting(c, "a", 1)
        late = asyncio.create_task(c.lock("a", shared=True).acquire())
        await until_waiting(c, "a", 2)
        assert await c.lock("a", shared=True).acquire(blocking=False) is None
        for reader in readers:
            assert not writing.done()
            await reader.release()
        writer = await writing
        assert writer is not None
        assert not late.done()
        await writer.release()
        last = await late
        assert last is not None
        assert max(reader.token for reader in readers) < writer.token < last.token


@in_loop
async def test_a_try_that_fails_leaves_nothing_in_the_queue(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c, c.lock("a"):
        before = files(tmp_path)
        assert await asyncio.create_task(c.lock("a").acquire(blocking=False)) is None
        assert await asyncio.create_task(c.lock("a").acquire(timeout=0.01)) is None
        assert files(tmp_path) == before


@in_loop
async def test_names_leave_nothing_behind(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        for name in (".", "..", "/", "a/b", "x" * 255, *(f"name-{n}" for n in range(50))):
            async with c.lock(name, timeout=0):
                assert await c.locked(name)
    assert files(tmp_path) == ["counter", "reserve"]


@in_loop
async def test_a_ticket_that_somebody_removes_is_a_lock_lost(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:

        async def work() -> None:
            async with c.lock("a") as held:
                Queue(tmp_path, "a").place(held.token, shared=False).path.unlink()
                assert not held.valid
                await asyncio.Event().wait()

        with pytest.raises(LockLost, match="was removed"):
            await work()
        async with c.lock("a", timeout=1):
            pass


@in_loop
async def test_a_waiter_whose_ticket_was_removed_asks_again(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        held = await acquired(c, "a")
        waiting = asyncio.create_task(c.lock("a").acquire())
        await until_waiting(c, "a", 1)
        Queue(tmp_path, "a").tickets()[1].remove()
        await held.release()
        again = await waiting
        assert again is not None
        assert again.valid
        assert again.token > held.token + 1


@in_loop
async def test_what_the_dead_left_while_joining_is_swept_away(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        async with c.lock("a") as held:
            queue = Queue(tmp_path, "a")
        unborn = queue.place(held.token - 1, shared=False)
        unborn.stem.with_suffix(".new").touch()
        os.mkfifo(unborn.pipe)
        dead = queue.place(held.token - 2, shared=False)
        dead.path.touch()
        os.mkfifo(dead.pipe)
        async with c.lock("a", timeout=1):
            assert len(files(queue.folder)) == 2


@in_loop
async def test_a_missing_pipe_delays_but_does_not_lose_anybody(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        held = await acquired(c, "a")
        Queue(tmp_path, "a").place(held.token, shared=False).pipe.unlink()
        waiting = asyncio.create_task(c.lock("a").acquire())
        await until_waiting(c, "a", 1)
        assert not waiting.done()
        await held.release()
        assert await waiting is not None


@in_loop
async def test_closing_ends_what_waits_and_what_is_held(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        held = await acquired(c, "a")
        waiting = asyncio.create_task(c.lock("a").acquire())
        await until_waiting(c, "a", 1)
    with pytest.raises(MisuseError, match="closed"):
        await waiting
    assert not held.valid
    with pytest.raises(LockLost, match="closed"):
        await held.release()
    async with coterie.connect(f"file:{tmp_path}") as c:
        assert not await c.locked("a")


@in_loop
async def test_followers_see_every_leader(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        leaders = c.observe("a")
        assert await anext(leaders) is None
        async with c.elect("a") as term:
            leader = await anext(leaders)
            assert leader is not None
            assert leader.token == term.token
            assert leader.owner.endswith(f":{os.getpid()}")
        assert await anext(leaders) is None


@in_loop
async def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="file/locks: Not a directory") as caught:
        await coterie.connect(f"file:{tmp_path}/file/locks").open()
    assert caught.value.exit_status == 69
    async with coterie.connect(f"file:{tmp_path}") as c:
        (tmp_path / "queues").touch()
        with pytest.raises(Unavailable, match="lock 'a'.*queues"):  # noqa: RUF043 - a pattern
            await c.lock("a").acquire()


@in_loop
async def test_a_process_that_is_stopped_at_the_gate_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "STUCK_AFTER_SECONDS", 0.01)
    async with coterie.connect(f"file:{tmp_path}") as c:
        async with gate.gate(Directory(tmp_path)):
            with pytest.raises(Unavailable, match="counter has been locked"):
                await c.lock("a").acquire()
            assert await asyncio.create_task(c.lock("a").acquire(timeout=0.001)) is None
        async with c.lock("a"):
            pass


@in_loop
async def test_the_directory_is_private_unless_it_was_there(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}/locks"):
        assert stat.S_IMODE((tmp_path / "locks").stat().st_mode) == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    async with coterie.connect(f"file:{tmp_path}/open"):
        assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o755


@in_loop
async def test_who_waits_long_looks_at_the_one_before_it_and_not_at_the_queue_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, readings = 0, 0
    waited, read = Place.wait, Queue.files

    async def wait(place: Place, _: float) -> None:
        nonlocal looks
        looks += 1
        await waited(place, 0.001)

    def files(queue: Queue) -> list[tuple[int, str]]:
        nonlocal readings
        readings += 1
        return read(queue)

    async with coterie.connect(f"file:{tmp_path}") as c:
        held = await acquired(c, "a")
        monkeypatch.setattr(Place, "wait", wait)
        monkeypatch.setattr(Queue, "files", files)
        task = asyncio.create_task(acquired(c, "a"))
        while looks < 20:  # noqa: ASYNC110 - files have no events
            await asyncio.sleep(0.001)
        assert readings <= 3, "to sweep, and to find the blocker"
        await held.release()
        await (await task).release()
