"""Logical and hybrid clocks."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.clocks import HybridClock, HybridTime, LamportClock, Stamp


def test_stamps_order_by_time_and_then_by_process() -> None:
    assert Stamp(1, 9) < Stamp(2, 1) < Stamp(2, 3)
    assert str(Stamp(8, 2)) == "8.2"


def test_an_event_of_ones_own_is_later_than_the_last() -> None:
    clock = LamportClock(4)
    assert [clock.tick(), clock.tick()] == [5, 6]


@pytest.mark.parametrize(("own", "received", "expected"), [(3, 7, 8), (7, 3, 8), (7, 7, 8)])
def test_receiving_is_later_than_sending_and_than_the_last_event_also_on_equality(
    own: int, received: int, expected: int
) -> None:
    assert LamportClock(own).merge(received) == expected


def test_clocks_can_be_part_of_a_process() -> None:
    for clock in (LamportClock(3), HybridClock(2.5, 1)):
        encoded = msgspec.msgpack.encode(clock)
        assert msgspec.msgpack.decode(encoded, type=type(clock)) == clock


@pytest.mark.parametrize(
    ("own", "received", "now", "expected"),
    [
        ((10, 2), (8, 5), 12, (12, 0)),  # physical time has gone on
        ((10, 2), (8, 5), 9, (10, 3)),  # we are ahead
        ((8, 5), (10, 2), 9, (10, 3)),  # the message is ahead
        ((10, 2), (10, 5), 9, (10, 6)),  # both are, with the same time
        ((10, 2), (8, 5), 10, (10, 3)),  # physical time has just caught up
    ],
)
def test_a_hybrid_clock_merges_as_published(
    own: tuple[float, int], received: tuple[float, int], now: float, expected: tuple[float, int]
) -> None:
    assert HybridClock(*own).merge(HybridTime(*received), now) == expected


def test_a_hybrid_clock_counts_while_physical_time_stands_still() -> None:
    clock = HybridClock()
    assert [clock.tick(5), clock.tick(5), clock.tick(4), clock.tick(6)] == [
        (5, 0),
        (5, 1),
        (5, 2),
        (6, 0),
    ]


class History:
    """A random run: each event is local or the receipt of an earlier one, with what it knows of."""

    def __init__(self, seed: int, size: int = 4, events: int = 60) -> None:
        random = Random(seed)
        self.offsets = [random.uniform(0, 3) for _ in range(size)]
        self.lamport: list[int] = []
        self.hybrid: list[HybridTime] = []
        self.physical: list[float] = []
        self.known: list[set[int]] = []  # of each event, those that happened before it
        lamport = [LamportClock() for _ in range(size)]
        hybrid = [HybridClock() for _ in range(size)]
        last: list[int | None] = [None] * size
        for event in range(events):
            process = random.randrange(size)
            now = event * 0.1 + self.offsets[process]
            cause = random.randrange(event) if event and random.random() < 0.5 else None
            if cause is None:
                self.lamport.append(lamport[process].tick())
                self.hybrid.append(hybrid[process].tick(now))
            else:
                self.lamport.append(lamport[process].merge(self.lamport[cause]))
                self.hybrid.append(hybrid[process].merge(self.hybrid[cause], now))
            known: set[int] = set()
            for before in (cause, last[process]):
                if before is not None:
                    known |= {before} | self.known[before]
            self.known.append(known)
            self.physical.append(now)
            last[process] = event


@given(st.integers(0, 10_000))
def test_what_happened_before_has_the_smaller_time(seed: int) -> None:
    history = History(seed)
    for event, known in enumerate(history.known):
        for before in known:
            assert history.lamport[before] < history.lamport[event]
            assert history.hybrid[before] < history.hybrid[event]


def test_the_converse_does_not_hold() -> None:
    history = History(seed=1)
    pairs = [(one, other) for one in range(60) for other in range(60)]
    assert any(
        history.lamport[one] < history.lamport[other] and one not in history.known[other]
        for one, other in pairs
    )


@given(st.integers(0, 10_000))
def test_a_hybrid_time_is_the_highest_physical_time_heard_of(seed: int) -> None:
    """So it is never behind the own clock, and ahead by no more than the clocks differ."""
    history = History(seed)
    differ = max(history.offsets) - min(history.offsets)
    for event, known in enumerate(history.known):
        wall = history.hybrid[event].wall
        assert wall == max(history.physical[other] for other in known | {event})
        assert 0 <= wall - history.physical[event] <= differ + 1e-9
