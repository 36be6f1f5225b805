"""First come, first served between programs that are connected and idle before they ask."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cluster.membership.config import convert
from tests.cluster import virtual_time
from tests.cluster.local_cluster import document, running, url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from coterie import Coordinator

pytestmark = pytest.mark.usefixtures("open_and_guarded")

PROGRAMS = 10


@pytest.mark.parametrize("pause", [0.05, 0.2])
def test_programs_that_ask_one_after_another_are_served_in_that_order(
    monkeypatch: pytest.MonkeyPatch, pause: float
) -> None:
    assert served(monkeypatch, pause, lambda number: virtual_time.Clock()) == list(range(PROGRAMS))


HOURS = 5 * 3600.0
JUMPER = 3


def test_a_program_whose_clock_jumps_ahead_by_hours_only_loses_its_own_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    off = virtual_time.Clock()
    order = served(
        monkeypatch,
        0.05,
        lambda number: off if number == JUMPER else virtual_time.Clock(),
        lambda: off.jump(HOURS),
    )
    assert order[-1] == JUMPER
    assert [number for number in order if number != JUMPER] == [
        number for number in range(PROGRAMS) if number != JUMPER
    ]


def served(
    monkeypatch: pytest.MonkeyPatch,
    pause: float,
    clock_of: Callable[[int], virtual_time.Clock],
    before_asking: Callable[[], None] = lambda: None,
) -> list[int]:
    """Return the order in which programs enter that ask in the order of their numbers."""
    config = convert(document(3))
    clocks = [clock_of(number) for number in range(PROGRAMS)]
    order: list[int] = []

    async def enter(program: Coordinator, number: int) -> None:
        async with program.lock("x"):
            order.append(number)
            await asyncio.sleep(0.01)

    async def main() -> None:
        async with running(config), AsyncExitStack() as stack:
            programs: dict[int, Coordinator] = {}
            for number in sorted(range(PROGRAMS), key=lambda number: 7 * number % PROGRAMS):
                with virtual_time.owning(clocks[number]):
                    connecting = coterie.connect(url_of(config))
                    programs[number] = await stack.enter_async_context(connecting)
                await asyncio.sleep(0.3)
            holder = await stack.enter_async_context(coterie.connect(url_of(config)))
            await asyncio.sleep(5)
            before_asking()
            async with asyncio.TaskGroup() as group, holder.lock("x"):
                for number in range(PROGRAMS):
                    with virtual_time.owning(clocks[number]):
                        group.create_task(enter(programs[number], number))
                    await asyncio.sleep(pause)

    virtual_time.run(monkeypatch, main)
    return order


class Readers:
    """Tasks of programs that share the lock x or want it alone, and the order in which they enter."""

    def __init__(self, programs: list[Coordinator]) -> None:
        self.programs = programs
        self.order: list[str] = []
        self.inside: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._leave: dict[str, asyncio.Event] = {}

    async def ask(self, name: str, program: int, *, shared: bool) -> None:
        """Let a task ask, and some time pass, in which it enters if it may."""
        self._leave[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._hold(name, program, shared=shared))
        await asyncio.sleep(APART)

    async def _hold(self, name: str, program: int, *, shared: bool) -> None:
        async with self.programs[program].lock("x", shared=shared):
            self.order.append(name)
            self.inside.add(name)
            await self._leave[name].wait()
            self.inside.remove(name)

    async def leave(self, name: str) -> None:
        self._leave[name].set()
        await self._tasks[name]
        await asyncio.sleep(APART)

    async def give_up(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.sleep(APART)


APART = 0.05


def in_line(
    monkeypatch: pytest.MonkeyPatch, test: Callable[[Readers], Coroutine[None, None, None]]
) -> None:
    """Run a test with three programs that have been idle for a while."""
    config = convert(document(3))

    async def main() -> None:
        async with running(config), AsyncExitStack() as stack:
            programs = []
            for _ in range(3):
                connecting = coterie.connect(url_of(config))
                programs.append(await stack.enter_async_context(connecting))
                await asyncio.sleep(0.3)
            await asyncio.sleep(5)
            readers = Readers(programs)
            await test(readers)
            assert not readers.inside
            for node_waits in [await programs[0].waiters("x"), await programs[0].holders("x")]:
                assert not node_waits

    virtual_time.run(monkeypatch, main)


@pytest.mark.parametrize("program", [0, 1], ids=["the same program", "another program"])
def test_no_reader_passes_a_writer_behind_a_reader_of_its_own(
    program: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(line: Readers) -> None:
        await line.ask("reader", 0, shared=True)
        await line.ask("writer", 0, shared=False)
        await line.ask("later reader", program, shared=True)
        assert await line.programs[program].lock("x", shared=True).acquire(blocking=False) is None
        assert line.order == ["reader"]
        await line.leave("reader")
        assert line.inside == {"writer"}
        await line.leave("writer")
        assert line.inside == {"later reader"}
        await line.leave("later reader")

    in_line(monkeypatch, test)


def test_nor_does_a_reader_whose_program_shares_the_lock_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(line: Readers) -> None:
        await line.ask("there", 1, shared=True)
        await line.ask("here", 0, shared=True)
        await line.ask("writer", 0, shared=False)
        await line.ask("later", 1, shared=True)
        assert line.inside == {"there", "here"}
        await line.leave("here")
        await line.leave("there")
        assert line.inside == {"writer"}
        await line.leave("writer")
        await line.leave("later")

    in_line(monkeypatch, test)


def test_nor_where_the_reader_before_the_writer_waits_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(line: Readers) -> None:
        await line.ask("first", 2, shared=False)
        await line.ask("reader", 0, shared=True)
        await line.ask("writer", 0, shared=False)
        await line.ask("later", 1, shared=True)
        for name in ("first", "reader", "writer", "later"):
            assert line.inside == {name}
            await line.leave(name)

    in_line(monkeypatch, test)


def test_of_two_programs_that_read_and_want_to_write_the_one_that_asked_first_writes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(line: Readers) -> None:
        await line.ask("reads here", 0, shared=True)
        await line.ask("reads there", 1, shared=True)
        await line.ask("writes there", 1, shared=False)
        await line.ask("writes here", 0, shared=False)
        await line.ask("later", 2, shared=True)
        await line.leave("reads here")
        assert line.inside == {"reads there"}
        await line.leave("reads there")
        for name in ("writes there", "writes here", "later"):
            assert line.inside == {name}
            await line.leave(name)

    in_line(monkeypatch, test)


def test_readers_enter_when_the_writer_before_them_gives_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(line: Readers) -> None:
        await line.ask("reader", 0, shared=True)
        await line.ask("shares", 2, shared=True)
        await line.ask("writer", 0, shared=False)
        await line.ask("later", 1, shared=True)
        await line.ask("second writer", 0, shared=False)
        await line.ask("joins", 2, shared=True)
        assert line.inside == {"reader", "shares"}
        await line.give_up("writer")
        assert line.inside == {"reader", "shares", "later"}
        await line.give_up("second writer")
        assert line.inside == {"reader", "shares", "later", "joins"}
        for name in ("reader", "shares", "later", "joins"):
            await line.leave(name)

    in_line(monkeypatch, test)


def test_a_task_that_waits_behind_one_of_its_own_program_keeps_the_age_at_which_it_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(line: Readers) -> None:
        await line.ask("first", 0, shared=False)
        await line.ask("second", 0, shared=False)
        await line.ask("elsewhere", 1, shared=False)
        await line.ask("third", 0, shared=True)
        await line.ask("fourth", 1, shared=True)
        for name in ("first", "second", "elsewhere"):
            assert line.inside == {name}
            await line.leave(name)
        for name in ("third", "fourth"):
            await line.leave(name)

    in_line(monkeypatch, test)
