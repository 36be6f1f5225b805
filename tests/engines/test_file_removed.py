"""A lock directory that is removed while programs use it, as cleaners of temporary files do."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import threading
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.engines.file import engine, waiters
from coterie.engines.file.directory.folder import directory_at
from coterie.engines.file.directory.lock_file import LockDirectory
from tests.locks.memory import in_loop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from coterie import Coordinator, Held


async def acquired(c: Coordinator, name: str) -> Held:
    held = await asyncio.create_task(c.lock(name).acquire())
    assert held is not None
    return held


def move_away(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


@in_loop
async def test_a_directory_that_was_removed_is_made_again_by_the_next_acquire(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "locks"
    async with coterie.connect(f"file:{folder}") as c:
        async with c.lock("a") as before:
            pass
        shutil.rmtree(folder)
        assert await c.holders("a") == []
        async with c.lock("a", timeout=10) as after:
            assert after.valid
            assert after.token > before.token


@pytest.mark.parametrize("remove", [shutil.rmtree, move_away])
def test_two_are_never_valid_though_one_made_the_directory_again(
    tmp_path: Path, remove: Callable[[Path], None]
) -> None:
    check_two_holders(tmp_path / "locks", remove)


@in_loop
async def check_two_holders(folder: Path, remove: Callable[[Path], None]) -> None:
    url = f"file:{folder}"
    async with coterie.connect(url) as one, coterie.connect(url) as other:
        first = await acquired(one, "a")
        assert first.valid
        remove(folder)
        assert not first.valid, "at once, before another can enter"
        second = await acquired(other, "a")
        assert (first.valid, second.valid) == (False, True)
        assert second.token > first.token
        await first.lost
        with pytest.raises(coterie.LockLost, match="was removed"):
            await first.release()
        assert second.valid, "what the first leaves behind is not the second's"
        assert await one.lock("a").acquire(blocking=False) is None
        await second.release()


@in_loop
async def test_a_waiter_goes_on_in_the_directory_that_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "LOOK_AGAIN_SECONDS", 0.01)
    folder = tmp_path / "locks"
    async with coterie.connect(f"file:{folder}") as c:
        first = await acquired(c, "a")
        waiting = asyncio.create_task(c.lock("a").acquire())
        while not await c.waiters("a"):  # noqa: ASYNC110 - files have no events
            await asyncio.sleep(0.001)
        shutil.rmtree(folder)
        second = await waiting
        assert second is not None
        assert (first.valid, second.valid) == (False, True)
        with pytest.raises(coterie.LockLost):
            await first.release()


def replace_words(folder: Path) -> None:
    """Put another file in the place of the one in which the locks are."""
    (folder / "words").unlink()
    (folder / "words").touch()


@pytest.mark.parametrize("remove", [shutil.rmtree, replace_words])
def test_one_whose_lock_is_in_a_file_that_was_replaced_meanwhile_takes_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remove: Callable[[Path], None]
) -> None:
    """Else two could hold it in two files, and neither would see the other."""
    folder = tmp_path / "locks"
    in_place = LockDirectory.in_place
    asked: list[bool] = []

    def remove_and_look(words: LockDirectory) -> bool:
        if not asked:
            remove(folder)
        asked.append(in_place(words))
        return asked[-1]

    @in_loop
    async def acquire() -> None:
        async with coterie.connect(f"file:{folder}") as c:
            monkeypatch.setattr(LockDirectory, "in_place", remove_and_look)
            async with c.lock("a", timeout=10) as held:
                assert asked == [False, True]
                assert held.valid
                assert [party.token for party in await c.holders("a")] == [held.token]

    acquire()


@in_loop
async def test_a_directory_that_is_removed_again_and_again_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove_and_look(_: LockDirectory) -> bool:
        shutil.rmtree(tmp_path / "locks")
        return False

    async with coterie.connect(f"file:{tmp_path}/locks") as c:
        monkeypatch.setattr(engine, "TRIES", 5)
        monkeypatch.setattr(LockDirectory, "in_place", remove_and_look)
        with pytest.raises(coterie.Unavailable, match="again and again"):
            await c.lock("a").acquire()


@in_loop
async def test_a_directory_that_was_removed_often_leaves_no_descriptors_open(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "locks"
    async with coterie.connect(f"file:{folder}") as c:
        counts = []
        for _ in range(5):
            shutil.rmtree(folder)
            async with c.lock("a", timeout=10):
                counts.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208
        assert counts[-1] <= counts[0]


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2770, 0o1777])
def test_it_is_made_again_for_the_users_who_had_it(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "locks"
    folder.mkdir()
    folder.chmod(mode)

    @in_loop
    async def use() -> None:
        async with coterie.connect(f"file:{folder}") as c:
            shutil.rmtree(folder)
            async with c.lock("a", timeout=10):
                assert stat.S_IMODE(folder.stat().st_mode) == (mode if mode & 0o022 else 0o700)

    use()


@in_loop
async def test_tokens_that_were_set_back_let_nobody_in_together(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        first = await acquired(c, "a")
        with (tmp_path / "words").open("r+b") as words:
            words.seek(4096)
            words.write(bytes(32 << 16))
        assert await asyncio.create_task(c.lock("a").acquire(blocking=False)) is None
        assert [party.token for party in await c.holders("a")] == [first.token]


def test_the_umask_is_not_touched(tmp_path: Path) -> None:
    """It belongs to all threads of a program."""
    before = os.umask(0o027)
    try:
        with coterie.sync.connect(f"file:{tmp_path}/locks") as c, c.lock("a"):
            assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


@pytest.mark.parametrize("mode", [0o700, 0o1777, 0o770], ids=["private", "sticky", "of a group"])
def test_programs_that_make_the_folders_of_a_directory_at_the_same_moment_all_use_them(
    tmp_path: Path, mode: int
) -> None:
    for number in range(60):
        path = tmp_path / str(number)
        path.mkdir()
        path.chmod(mode)
        assert make_at_once(path, programs=4) == []


def make_at_once(path: Path, programs: int) -> list[OSError]:
    """Enter a folder of a directory that none has entered before, and make a file in it."""
    start = threading.Barrier(programs)
    errors = []

    def use(name: str) -> None:
        with directory_at(str(path)).open() as folder:
            start.wait()
            try:
                with folder.enter("boards", make=True) as boards:
                    os.close(boards.create(name))
            except OSError as error:
                errors.append(error)

    threads = [threading.Thread(target=use, args=(str(number),)) for number in range(programs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors
