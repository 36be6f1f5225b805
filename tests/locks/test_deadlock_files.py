"""Deadlocks among processes that share a lock directory: boards name holders, notices name waits."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

from coterie import locks
from coterie.algorithms.deadlock.condition import any_of
from coterie.engines.file import waits
from coterie.engines.file.directory.folder import Directory
from coterie.engines.file.directory.wait_board import Notice, read_wait, sweep
from coterie.engines.file.engine import FileEngine
from coterie.engines.file.waits import WaitBoard
from coterie.errors import DeadlockDetected
from coterie.locks.deadlocks import search as deadlocks
from coterie.locks.deadlocks.reports import LockOwner, LockWait, OwnerId, Wanted
from coterie.locks.internals import engine_of
from tests.cluster.local_cluster import Program
from tests.locks.memory import in_loop, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

ANN = OwnerId("1-aa", 1)


def notice(board: Path, *locks: str) -> Notice:
    board.mkdir(exist_ok=True)
    wait = LockWait(7, any_of(*map(Wanted, locks)), 1, 0.0)
    with Directory(str(board)).open() as opened:
        return Notice(opened, LockOwner(ANN, "host:1", "ann", wait))


def seen(board: Path) -> LockWait | None:
    with Directory(str(board)).open() as opened:
        return read_wait(opened, ANN, os.geteuid())


def test_a_notice_says_in_which_wait_its_owner_is_until_it_is_taken_down(tmp_path: Path) -> None:
    board = tmp_path / "waits"
    up = notice(board, "a", "b")
    wait = seen(board)
    assert wait is not None
    assert wait.number == 7
    assert wait.condition == any_of(Wanted("a"), Wanted("b"))
    up.take_down()
    up.take_down()
    assert seen(board) is None
    assert not list(board.iterdir())


def test_the_notice_of_a_dead_process_is_not_believed_and_swept_away(tmp_path: Path) -> None:
    board = tmp_path / "waits"
    notice(board, "a").abandon()  # as the kernel does when a process dies
    assert seen(board) is None
    with Directory(str(board)).open() as opened:
        sweep(opened)
    assert not list(board.iterdir())


def test_the_notice_of_a_living_process_is_not_swept_away(tmp_path: Path) -> None:
    board = tmp_path / "waits"
    up = notice(board, "a")
    with Directory(str(board)).open() as opened:
        sweep(opened)
    assert seen(board) is not None
    up.take_down()


def test_a_notice_in_the_format_of_another_version_is_not_understood(tmp_path: Path) -> None:
    board = tmp_path / "waits"
    up = notice(board, "a")
    (path,) = board.iterdir()
    path.write_text('[["1-aa",1],"host:1","ann",[7,[1,["a"]],1,0.0]]')  # a lock was a plain name
    assert seen(board) is None
    up.take_down()


def test_a_forked_child_does_not_keep_the_notices_of_its_parent(tmp_path: Path) -> None:
    board = tmp_path / "waits"
    up = notice(board, "a")
    begun, ended = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.write(begun[1], b"x")
        os.close(ended[1])
        os.read(ended[0], 1)  # until the parent closes it, or dies
        os._exit(0)
    try:
        os.read(begun[0], 1)
        up.abandon()
        assert seen(board) is None, "though the child lives"
    finally:
        for descriptor in (*begun, *ended):
            os.close(descriptor)
        os.waitpid(child, 0)


@in_loop
async def check_holder(folder: Path) -> None:
    """Read who holds a while its owner is said to wait: first for b, then for a itself."""
    async with locks.connect(f"file:{folder}") as c, c.lock("a") as held:
        engine = engine_of(c)
        assert isinstance(engine, FileEngine)
        questions = WaitBoard(Directory(str(folder)), engine.waits, list)
        task = asyncio.current_task()
        assert task
        mine = engine.waits.describe(task)
        for wanted, is_told in (("b", True), ("a", False)):
            told = LockOwner(mine.id, "host:1", "ann", LockWait(7, any_of(Wanted(wanted)), 1, 0.0))
            (folder / "waits").mkdir(exist_ok=True)
            with Directory(str(folder / "waits")).open() as board:
                up = Notice(board, told)
            (hold,) = (await questions.holds([Wanted("a")]))[Wanted("a")]
            assert hold.token == held.token
            assert hold.owner.id == mine.id
            assert (hold.owner.wait is not None) is is_told
            up.take_down()


def test_one_that_holds_what_it_is_said_to_wait_for_is_about_to_go_on(tmp_path: Path) -> None:
    """A process may be stopped between its turn and its notice being taken down."""
    check_holder(tmp_path)


@in_loop
async def check_withdrawal(folder: Path) -> None:
    """A notice is gone when its owner has what it wanted."""
    async with locks.connect(f"file:{folder}") as c, locks.connect(f"file:{folder}") as other:
        held = await other.lock("b").acquire()
        assert held

        async def wait() -> list[str]:
            async with c.lock("a"), c.lock("b"):
                return [path.name for path in (folder / "waits").iterdir()]

        task = asyncio.ensure_future(wait())
        board = folder / "waits"
        await until(lambda: board.exists() and bool(list(board.iterdir())))
        await held.release()
        assert await task == []


def test_a_notice_is_taken_down_before_its_owner_goes_on(tmp_path: Path) -> None:
    check_withdrawal(tmp_path)


@in_loop
async def check_escape(folder: Path) -> None:
    """Two programs cross, but one of them has an escape, whose holder then waits, too."""
    urls = [f"file:{folder}"] * 3
    async with (
        locks.connect(urls[0]) as ann,
        locks.connect(urls[1]) as bob,
        locks.connect(urls[2]) as eve,
    ):
        outcomes: dict[str, str] = {}
        closing = asyncio.Event()
        ready = asyncio.Barrier(3)

        async def act(c: locks.Coordinator, first: str, *wanted: str) -> None:
            async with c.lock(first):
                await ready.wait()
                if c is eve:
                    await closing.wait()
                try:
                    async with c.lock_any(*wanted):
                        outcomes[first] = "had"
                except DeadlockDetected as error:
                    outcomes[first] = f"gave way in a {error.kind}"

        tasks = [
            asyncio.create_task(act(ann, "a", "b", "c")),
            asyncio.create_task(act(bob, "b", "a")),
            asyncio.create_task(act(eve, "c", "b")),
        ]
        searched = engine_of(ann).waits, engine_of(bob).waits
        await until(lambda: all(waits.searches > 1 for waits in searched))
        assert not outcomes
        closing.set()
        await asyncio.gather(*tasks)
        assert outcomes == {"a": "had", "b": "had", "c": "gave way in a knot"}


def test_an_escape_is_no_deadlock_and_closing_it_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlocks, "PAUSE_SECONDS_MAX", 0.1)
    check_escape(tmp_path)


def test_of_two_processes_that_cross_lock_files_one_gives_way(tmp_path: Path) -> None:
    url = f"file:{tmp_path}"
    programs = [Program(url, ("cross", "a", "b")), Program(url, ("cross", "b", "a"))]
    try:
        for program in programs:
            assert program.read()[0] == "held"
        for program in programs:
            program.write("go on")
            assert program.read()[0] == "wants"
        said = [program.read() for program in programs]
        assert sorted(words[0] for words in said) == ["deadlock", "had"]
        for program in programs:
            assert program.rest() == []
    finally:
        for program in programs:
            program.process.kill()
            program.process.communicate()


@in_loop
async def test_a_task_does_not_give_way_to_one_that_has_lost_its_lock(tmp_path: Path) -> None:
    """One task has lost `a` and waits for `b`; the other holds `b` and may have `a`."""
    async with locks.connect(f"file:{tmp_path}") as c:
        engine = engine_of(c)
        assert isinstance(engine, FileEngine)
        b_is_held = asyncio.Event()

        async def first() -> None:
            a = await c.lock("a").acquire()
            assert a is not None
            (tmp_path / "words").unlink()
            await a.lost
            await b_is_held.wait()
            async with c.lock("b"):
                pass

        async def second() -> None:
            await until(lambda: not (tmp_path / "words").exists())
            async with c.lock("b"):
                b_is_held.set()
                await until(lambda: any(claim.stands for claim in engine.claims()))
                async with c.lock("a") as held:
                    assert held.valid

        await asyncio.gather(first(), second())


@in_loop
async def check_readings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The boards, and a notice of a thousand locks, are read once, and not by the event loop."""
    async with locks.connect(f"file:{folder}") as c, c.lock("a"), c.lock("b"):
        engine = engine_of(c)
        assert isinstance(engine, FileEngine)
        task = asyncio.current_task()
        assert task
        many = any_of(*(Wanted(str(number)) for number in range(1000)))
        told = LockOwner(engine.waits.name(task), "host:1", "ann", LockWait(7, many, 1, 0.0))
        (folder / "waits").mkdir(exist_ok=True)
        with Directory(str(folder / "waits")).open() as board:
            up = Notice(board, told)
        reads: list[threading.Thread] = []
        for name in ("all_parties", "read_wait"):
            read = getattr(waits, name)

            def note(*given: Any, read: Callable[..., Any] = read) -> Any:
                reads.append(threading.current_thread())
                return read(*given)

            monkeypatch.setattr(waits, name, note)
        questions = WaitBoard(Directory(str(folder)), engine.waits, list)
        holds = await questions.holds([Wanted("a"), Wanted("b"), *many.nodes])
        assert [len(holds[Wanted(name)]) for name in ("a", "b", "1")] == [1, 1, 0]
        assert len(reads) == 2
        assert threading.main_thread() not in reads
        up.take_down()


def test_what_others_say_is_read_once_for_all_locks_in_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_readings(tmp_path, monkeypatch)


def test_a_notice_that_nests_what_no_program_waits_for_says_nothing(tmp_path: Path) -> None:
    board = tmp_path / "waits"
    up = notice(board, "a")
    (path,) = board.iterdir()
    path.write_text(
        '[["1-aa",1],"host:1","ann",[7,'
        + "[1,[],[" * 300
        + '[1,[["a"]],[]]'
        + "]]" * 300
        + ",1,0.0]]"
    )
    assert seen(board) is None
    up.take_down()
