"""How often something took how long."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

# Three to a factor of ten, about: from a free lock of this machine to a job of a quarter of an hour.
BOUNDS = (
    *(0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03),
    *(0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
)


class Histogram:
    """Counts durations by their size. Not for several threads at a time."""

    __slots__ = ("_counts", "seconds")

    def __init__(self) -> None:
        """Begin at zero."""
        self._counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0  # of all together

    def add(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self._counts)

    @property
    def buckets(self) -> dict[float, int]:
        """How many took at most as many seconds as each of the bounds says."""
        return dict(zip(BOUNDS, accumulate(self._counts), strict=False))
