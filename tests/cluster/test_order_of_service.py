"""First come, first served between programs that are connected and idle before they ask."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

import coterie
from coterie.cluster.config import convert
from tests.cluster import virtual_time
from tests.cluster.local_cluster import document, running, url_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.locks.coordinator import Coordinator

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
