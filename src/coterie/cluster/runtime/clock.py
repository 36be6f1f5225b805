"""Numbers that follow the time: where tokens start from, and logical clocks that go on while idle."""

from __future__ import annotations

from coterie import system

YEAR_2020 = 1_577_836_800
NUMBERS_PER_SECOND = 1 << 22  # below 2**53 until the year 2088


def number() -> int:
    """Return a number that grows with the time of day, faster than tokens are used up.

    It is 0 before 2020: a clock that shows that was never set.
    """
    return max(0, int((system.wall() - YEAR_2020) * NUMBERS_PER_SECOND))


def error_borne(lease: float) -> float:
    """Return how far a time of day may be off where numbers rest on it: a second, or less.

    After a restart numbers go on two such errors and an interval above the time of day. That must be
    less than the abstention, or numbers would run away from the clock.
    """
    return min(1.0, lease / 4)


def passed(seconds: float) -> int:
    """Return by how much a logical clock that follows the time moves in so many seconds."""
    return max(0, int(seconds * NUMBERS_PER_SECOND))


class RunningClock:
    """Makes a logical clock that stands still between events follow the time as well.

    Between two readings it goes on by `NUMBERS_PER_SECOND`, as tokens are used up more slowly. All
    programs of a cluster go on from readings of the same nodes, so those that ask one after another
    get ages in that order, however long each of them had nothing to do. No time of day is involved,
    and nothing but the order of service depends on it: a program whose clock is wrong has another
    place in the queue than it should have.
    """

    def __init__(self) -> None:
        """Begin with 0."""
        self._number = 0
        self._read_at = system.now()

    def read(self, logical: int) -> int:
        """Return a number that is not below the logical clock, nor below any reading before."""
        time_now = system.now()
        self._number = max(logical, self._number + passed(time_now - self._read_at))
        self._read_at = time_now
        return self._number
