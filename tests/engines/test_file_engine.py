"""The `file:` coordinator within one process."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import stat
import sys
from typing import TYPE_CHECKING, Any

import pytest

import coterie
from coterie import LockLost, MisuseError, Unavailable
from coterie.engines.file import waiters
from coterie.engines.file.directory import byte_lock, lock_file
from coterie.engines.file.directory.folder import Directory, read_quietly
from coterie.engines.file.directory.lock_file import LockBytes, LockDirectory
from coterie.engines.file.directory.wait_queue import WaitQueue
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
        assert await asyncio.create_task(c.lock("a").acquire(blocking=False)) is None
        assert await asyncio.create_task(c.lock("a").acquire(timeout=0.01)) is None
        assert await c.waiters("a") == []


@in_loop
async def test_names_leave_nothing_behind(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        for name in (".", "..", "/", "a/b", "x" * 255, *(f"name-{n}" for n in range(50))):
            async with c.lock(name, timeout=0):
                assert await c.locked(name)
            async with c.lock(name, shared=True, timeout=0):
                pass
    assert files(tmp_path) == ["reserve", "words"]


@in_loop
async def test_a_line_is_gone_when_its_programs_are(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        held = await acquired(c, "a")
        tasks = [asyncio.create_task(acquired(c, "a")) for _ in range(3)]
        await until_waiting(c, "a", 3)
        assert len(list((tmp_path / "lines").iterdir())) == 1
        await held.release()
        for task in tasks:
            await (await task).release()
    assert list((tmp_path / "lines").iterdir()) == []


@in_loop
async def test_a_line_that_has_become_long_is_removed_when_no_task_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_file, "QUEUE_BYTES_MAX", 100)
    sizes = []
    async with coterie.connect(f"file:{tmp_path}") as c:
        for _ in range(10):
            held = await acquired(c, "a")
            waiting = asyncio.create_task(acquired(c, "a"))
            await until_waiting(c, "a", 1)
            sizes += [path.stat().st_size for path in (tmp_path / "lines").iterdir()]
            await held.release()
            await (await waiting).release()
    assert len(sizes) == 10
    assert max(sizes) < 200


@pytest.mark.skipif(sys.platform != "linux", reason="only there space can be given back")
@in_loop
async def test_a_line_in_which_tasks_wait_without_a_pause_takes_no_more_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It grows in length alone: what is before those that wait takes no space on the disk."""
    monkeypatch.setattr(lock_file, "QUEUE_BYTES_MAX", 4096)
    async with coterie.connect(f"file:{tmp_path}") as c:
        [held, waiting] = [asyncio.create_task(acquired(c, "a")) for _ in range(2)]
        for _ in range(1000):
            await until_waiting(c, "a", 1)
            following = asyncio.create_task(acquired(c, "a"))
            await until_waiting(c, "a", 2)
            await (await held).release()
            held, waiting = waiting, following
        [line] = (tmp_path / "lines").iterdir()
        found = line.stat()
        for task in (held, waiting):
            await (await task).release()
    assert found.st_size > 7 * 4096
    assert found.st_blocks * 512 <= 4 * 4096


@in_loop
async def test_lines_of_the_dead_are_swept_away(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        held = await acquired(c, "a")
        waiting = asyncio.create_task(acquired(c, "a"))
        await until_waiting(c, "a", 1)
        (tmp_path / "lines" / LockBytes("b").queue).write_bytes(bytes(64))
        (tmp_path / "lines" / "notes.txt").touch()
        async with coterie.connect(f"file:{tmp_path}"):
            assert files(tmp_path / "lines") == sorted([LockBytes("a").queue, "notes.txt"])
        await held.release()
        await (await waiting).release()


@in_loop
async def test_a_file_that_is_removed_is_a_lock_lost(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:

        async def work() -> None:
            async with c.lock("a") as held:
                (tmp_path / "words").unlink()
                assert not held.valid
                await asyncio.Event().wait()

        with pytest.raises(LockLost, match="was removed"):
            await work()
        async with c.lock("a", timeout=1):
            pass


@in_loop
async def test_a_line_that_is_removed_lets_nobody_in_together_and_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "LOOK_AGAIN_SECONDS", 0.01)
    async with coterie.connect(f"file:{tmp_path}") as c:
        held = await acquired(c, "a")
        waiting = asyncio.create_task(acquired(c, "a"))
        await until_waiting(c, "a", 1)
        (line,) = (tmp_path / "lines").iterdir()
        line.unlink()
        late = asyncio.create_task(acquired(c, "a"))
        await until_waiting(c, "a", 2)
        assert not waiting.done()
        await held.release()
        done, rest = await asyncio.wait({waiting, late}, return_when="FIRST_COMPLETED")
        assert len(done) == len(rest) == 1
        await done.pop().result().release()
        await (await rest.pop()).release()


@in_loop
async def test_what_the_dead_left_is_swept_away(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c, c.lock("a"):
        (board,) = [path for path in (tmp_path / "boards").iterdir() if not path.suffix]
        (tmp_path / "boards" / ("0" * 16)).write_bytes(board.read_bytes())
        os.mkfifo(tmp_path / "boards" / f"{'0' * 16}.life")
        for _ in range(2):  # not of the living, though the copy names a descriptor that is open
            async with coterie.connect(f"file:{tmp_path}") as other:
                assert await other.locked("a")
    async with coterie.connect(f"file:{tmp_path}"):
        assert len(files(tmp_path / "boards")) == 3


@in_loop
async def test_a_bell_that_is_missing_delays_but_does_not_lose_anybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "LOOK_AGAIN_SECONDS", 0.01)
    async with coterie.connect(f"file:{tmp_path}") as c:
        held = await acquired(c, "a")
        waiting = asyncio.create_task(c.lock("a").acquire())
        await until_waiting(c, "a", 1)
        for bell in (tmp_path / "boards").glob("*.bell"):
            bell.unlink()
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
async def test_followers_see_each_term_of_the_same_leader(tmp_path: Path) -> None:
    """A program that leads again and again draws tokens ahead, which the file does not show."""
    async with coterie.connect(f"file:{tmp_path}") as c, coterie.connect(f"file:{tmp_path}") as d:
        leaders = d.observe("a")
        assert await anext(leaders) is None
        for _ in range(4):
            held = await acquired(c, "a")
            leader = await anext(leaders)
            assert leader is not None
            assert leader.token == held.token
            await held.release()
            again = await acquired(c, "a")
            leader = await anext(leaders)
            assert leader is not None
            assert leader.token == again.token
            await again.release()
            assert await anext(leaders) is None


@in_loop
async def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="locks: Not a directory") as caught:
        await coterie.connect(f"file:{tmp_path}/file/locks").open()
    assert caught.value.exit_status == 69
    folder = tmp_path / "locks"
    async with coterie.connect(f"file:{folder}") as c:
        shutil.rmtree(folder)
        (tmp_path / "file").rename(folder)
        with pytest.raises(Unavailable, match="Not a directory"):
            await c.lock("a").acquire()


@in_loop
async def test_the_directory_is_private_unless_it_was_there(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}/locks"):
        assert stat.S_IMODE((tmp_path / "locks").stat().st_mode) == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    async with coterie.connect(f"file:{tmp_path}/open"):
        assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o755


@pytest.mark.skipif(not hasattr(os, "O_NOATIME"), reason="only Linux has it")
def test_files_of_ours_are_read_without_noting_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").touch()
    flags = os.O_RDWR | os.O_APPEND | os.O_NONBLOCK
    ours, theirs = (os.open(tmp_path / "a", flags) for _ in range(2))
    assert read_quietly(ours) == ours
    assert fcntl.fcntl(ours, fcntl.F_GETFL) & (flags | os.O_NOATIME) == flags | os.O_NOATIME
    real = fcntl.fcntl

    def refused(descriptor: int, command: int, *arguments: Any) -> Any:
        if command == fcntl.F_SETFL:
            raise PermissionError
        return real(descriptor, command, *arguments)

    monkeypatch.setattr(fcntl, "fcntl", refused)
    assert read_quietly(theirs) == theirs, "one of another user is read as ever"
    for descriptor in (ours, theirs):
        os.close(descriptor)


@in_loop
async def test_one_that_waits_long_does_next_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks the kernel about the line, the lock and the file, and reads no board again."""
    monkeypatch.setattr(waiters, "LOOK_AGAIN_SECONDS", 0.001)
    async with (
        coterie.connect(f"file:{tmp_path}") as one,
        coterie.connect(f"file:{tmp_path}") as other,
    ):
        held = await acquired(one, "a")
        first = asyncio.create_task(acquired(other, "a"))
        await until_waiting(one, "a", 1)
        second = asyncio.create_task(acquired(other, "a"))
        await until_waiting(one, "a", 2)
        looks = 0
        looked = WaitQueue.is_next

        def count(line: WaitQueue) -> bool:
            nonlocal looks
            looks += 1
            return looked(line)

        monkeypatch.setattr(WaitQueue, "is_next", count)
        while looks < 20:  # noqa: ASYNC110 - files have no events
            await asyncio.sleep(0.001)
        await held.release()
        await (await first).release()
        await (await second).release()


@in_loop
async def test_a_waiter_that_is_stopped_when_its_turn_comes_is_passed_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is not served by its event loop any more, as if its process was stopped."""
    monkeypatch.setattr(waiters, "LOOK_AGAIN_SECONDS", 0.01)
    async with coterie.connect(f"file:{tmp_path}") as c:
        held = await acquired(c, "a")
        program = LockDirectory(Directory(str(tmp_path)), "host:1")
        stopped = program.handle()
        assert stopped.join(program.lock_bytes("a"), 1, shared=False, owner=1, task=b"")
        waiting = asyncio.create_task(acquired(c, "a"))
        await until_waiting(c, "a", 2)
        await held.release()
        late = await waiting
        assert stopped.look(program.lock_bytes("a"), shared=False) is None, "the lock is held"
        await late.release()
        token = stopped.look(program.lock_bytes("a"), shared=False)
        assert token is not None
        assert token > late.token
        program.close()


def test_a_waiter_stands_in_the_line_from_when_its_place_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, others = (
        LockDirectory(Directory(str(tmp_path)), f"host:{number}") for number in (1, 2)
    )
    lock_bytes = program.lock_bytes("a")
    held, late, other = program.try_acquire("a"), program.handle(), others.handle()
    call = byte_lock.call
    assert held is not None

    def interrupted(*arguments: Any) -> Any:
        assert late.position is None, "it could still be overtaken"
        call(*arguments)
        if arguments[2] == byte_lock.request(byte_lock.ALONE, 0):
            raise KeyboardInterrupt
        return call(*arguments)

    with monkeypatch.context() as slow:
        slow.setattr(byte_lock, "call", interrupted)
        with pytest.raises(KeyboardInterrupt):
            late.join(lock_bytes, 1, shared=False, owner=1, task=b"")
    assert other.join(lock_bytes, 1, shared=False, owner=1, task=b"")
    held.release()
    assert other.look(lock_bytes, shared=False) is not None, "the interrupted one has left no place"
    for opened in (program, others):
        opened.close()


def test_one_that_is_rung_for_before_its_turn_lets_the_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One takes the first place and is slow to lock it: those behind it do so, and one of them enters."""
    programs = [LockDirectory(Directory(str(tmp_path)), f"host:{number}") for number in range(4)]
    lock_bytes = programs[0].lock_bytes("a")
    held = programs[0].try_acquire("a")
    assert held is not None
    slow, quick, last = (program.handle() for program in programs[1:])
    bells = [program.bell() for program in programs]

    def overtake(*arguments: Any) -> Any:
        if arguments[2] == byte_lock.request(byte_lock.ALONE, 0):
            hurried.undo()
            assert quick.join(lock_bytes, 1, shared=False, owner=1, task=b"")
            held.release()
            assert quick.look(lock_bytes, shared=False) is not None
            assert last.join(lock_bytes, 1, shared=False, owner=1, task=b"")
        return call(*arguments)

    call = byte_lock.call
    with monkeypatch.context() as hurried:
        hurried.setattr(byte_lock, "call", overtake)
        assert slow.join(lock_bytes, 1, shared=False, owner=1, task=b"")
    assert os.read(bells[2], 100)
    quick.release()
    assert os.read(bells[3], 100), "the one behind it is rung for"
    assert last.look(lock_bytes, shared=False) is None, "it is not its turn"
    with pytest.raises(BlockingIOError):
        os.read(bells[1], 100)
    last.pass_on()
    assert os.read(bells[1], 100)
    assert slow.look(lock_bytes, shared=False) is not None
    for program in programs:
        program.close()
