"""Items come out by time, and those of one time as they were put in, however many there are."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from coterie.lab.simulate.schedule import NEAR_MAX, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.simulate.schedule import Item

DELAYS: dict[str, Callable[[Random], float]] = {
    "uniform": lambda random: random.uniform(0.5, 1.5),
    "from now on": lambda random: random.expovariate(1.0),
    "many at once": lambda random: random.choice((0.0, 1.0, 1.0, 2.0)),
}


def put(schedule: Schedule, now: float, delays: list[float]) -> list[Item]:
    first = schedule.added
    items: list[Item] = [(now + delay, 1, 2, number) for number, delay in enumerate(delays, first)]
    schedule.add_many(items)
    return items


def take(schedule: Schedule, most: int) -> list[Item]:
    schedule.refill()
    taken = schedule.near[:most]
    schedule.head = len(taken)
    return taken


@pytest.mark.parametrize("delay", DELAYS.values(), ids=DELAYS)
@pytest.mark.parametrize(
    "broadcast", [1, 9, pytest.param(300, marks=pytest.mark.slow), 3 * NEAR_MAX]
)
def test_items_come_in_order(delay: Callable[[Random], float], broadcast: int) -> None:
    """The reference is a list of all that waits, sorted before each look."""
    random, schedule, now = Random(broadcast), Schedule(), 0.0
    waiting: list[Item] = []
    for turn in range(400 if broadcast < NEAR_MAX else 8):
        waiting += put(schedule, now, [delay(random) for _ in range(broadcast)])
        alone: Item = (now + 1.0, 0, 0, schedule.added)
        schedule.add(alone)
        waiting.append(alone)
        waiting.sort(key=lambda item: (item[0], item[3]))
        taken = take(schedule, random.randrange(2 * broadcast) if turn % 3 else broadcast)
        assert taken == waiting[: len(taken)]
        del waiting[: len(taken)]
        now = taken[-1][0] if taken else now
        assert len(schedule) == len(waiting)
    while taken := take(schedule, NEAR_MAX):
        assert taken == waiting[: len(taken)]
        del waiting[: len(taken)]
    assert not waiting


def test_a_time_that_has_passed_is_due_at_once() -> None:
    schedule = Schedule()
    put(schedule, 0.0, [1.0, 2.0, 3.0])
    schedule.refill()
    schedule.head = 2
    schedule.add((0.5, 0, 0, "late"))
    assert [item[3] for item in schedule.near[schedule.head :]] == ["late", 2]
