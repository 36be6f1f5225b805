"""A lock directory that is removed while programs use it, as cleaners of temporary files do."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.engines.file import claim
from coterie.engines.file.directory import Directory
from coterie.engines.file.numbers import next_number
from coterie.engines.file.place import Place
from coterie.engines.file.queue import Queue
from coterie.engines.file.ticket import Ticket
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
    monkeypatch.setattr(claim, "LOOK_AGAIN_SECONDS", 0.01)
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


def replace_counter(folder: Path) -> None:
    """Open a second gate, in which nothing is locked."""
    (folder / "counter").unlink()
    (folder / "counter").touch()


@pytest.mark.parametrize("remove", [shutil.rmtree, replace_counter])
def test_a_process_at_the_gate_joins_again_if_the_gate_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remove: Callable[[Path], None]
) -> None:
    """Else two could draw numbers at the same time, and neither would see the other."""
    folder = tmp_path / "locks"
    draw = next_number
    drawn: list[int] = []

    def draw_and_remove(counter: int, *rest: object) -> int:
        drawn.append(draw(counter, *rest))  # type: ignore[arg-type]
        if len(drawn) == 1:
            remove(folder)
        return drawn[-1]

    monkeypatch.setattr(claim, "next_number", draw_and_remove)

    @in_loop
    async def acquire() -> None:
        async with coterie.connect(f"file:{folder}") as c, c.lock("a", timeout=10) as held:
            assert held.valid
            assert drawn == sorted(set(drawn))
            assert len(drawn) == 2
            assert held.token == drawn[-1]
            assert len(Queue(folder, "a").tickets()) == 1

    acquire()


@in_loop
async def test_a_directory_that_is_removed_again_and_again_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = next_number

    def draw_and_remove(counter: int, *rest: object) -> int:
        number = draw(counter, *rest)  # type: ignore[arg-type]
        shutil.rmtree(tmp_path / "locks")
        return number

    monkeypatch.setattr(claim, "next_number", draw_and_remove)
    async with coterie.connect(f"file:{tmp_path}/locks") as c:
        with pytest.raises(coterie.Unavailable, match="again and again"):
            await c.lock("a").acquire()


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
                assert stat.S_IMODE(folder.stat().st_mode) == mode

    use()


@in_loop
async def test_numbers_that_were_set_back_let_nobody_overtake_a_holder(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        first = await acquired(c, "a")
        record = (tmp_path / "counter").read_text().split()
        low = f"{1:020d} {first.token:020d} {record[2]:<40}\n"
        (tmp_path / "counter").write_text(low)
        assert await asyncio.create_task(c.lock("a").acquire(blocking=False)) is None
        waiting = asyncio.create_task(c.lock("a").acquire())
        while not await c.waiters("a"):  # noqa: ASYNC110 - files have no events
            await asyncio.sleep(0.001)
        assert [party.token for party in await c.holders("a")] == [first.token]
        await first.release()
        second = await waiting
        assert second is not None
        assert second.token > first.token


@in_loop
async def test_a_counter_that_makes_no_sense_is_not_believed(tmp_path: Path) -> None:
    async with coterie.connect(f"file:{tmp_path}") as c:
        async with c.lock("a") as first:
            boot = (tmp_path / "counter").read_text().split()[2]
        (tmp_path / "counter").write_text(f"many more {boot}")
        async with c.lock("a", timeout=10) as second:
            assert second.token > first.token
        (tmp_path / "counter").write_text(f"{2**53 - 1:020d} {2**60:020d} {boot:<40}\n")
        with pytest.raises(coterie.ConfigError, match="2\\^53"):
            await c.lock("a").acquire()


def test_the_umask_is_not_touched(tmp_path: Path) -> None:
    """It belongs to all threads of a program."""
    before = os.umask(0o027)
    try:
        with coterie.sync.connect(f"file:{tmp_path}/locks") as c, c.lock("a"):
            assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_a_lost_ticket_does_not_take_away_what_has_its_name_now(tmp_path: Path) -> None:
    """Numbers may come again in a directory that is made again when the clock was set back."""
    place = Place(tmp_path / "1", 1, shared=False)
    with Directory(tmp_path).open() as bucket:
        lost = Ticket(place, b"first", bucket)
        place.remove()
        other = Ticket(place, b"second", bucket)
    lost.drop()
    assert other.in_place()
    other.drop()
    assert not list(tmp_path.iterdir())
