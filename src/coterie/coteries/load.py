"""The optimal load of a quorum system (Naor and Wool, 1998).

A strategy chooses quorums at random; its load is the probability that the busiest member is asked.
Scaled so that no member is asked more than once, a strategy is a fractional packing of quorums:
the optimal load is one divided by the largest packing. That is a linear program whose start (pack
nothing) is feasible, so a few lines of exact simplex solve it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLEAU_CELLS_MAX = 20_000  # beyond this the exact simplex takes more than seconds


@dataclass(frozen=True)
class Load:
    """The optimal load, or bounds that are certain when it is too much to compute."""

    low: Fraction
    high: Fraction

    @property
    def exact(self) -> bool:
        """Return whether the bounds are the load itself."""
        return self.low == self.high


def optimal_load(quorums: Sequence[frozenset[int]]) -> Load:
    """Return the optimal load: exact for regular and for small systems, bounds otherwise.

    The bounds are Naor and Wool's max(1/c, c/n), c being the smallest quorum, and the load of
    choosing all quorums alike; they coincide for regular systems.
    """
    smallest = min(map(len, quorums))
    asked = Counter(member for quorum in quorums for member in quorum)
    low = max(Fraction(1, smallest), Fraction(smallest, len(asked)))
    high = Fraction(max(asked.values()), len(quorums))
    if low != high and len(asked) * (len(asked) + len(quorums)) <= TABLEAU_CELLS_MAX:
        low = high = 1 / _largest_packing(sorted(asked), quorums)
    return Load(low, high)


def _largest_packing(members: Sequence[int], quorums: Sequence[frozenset[int]]) -> Fraction:
    """Maximise the total weight of the quorums so that no member carries more than one.

    One row per member: the quorums it is in, its slack, and the weight it may still carry. Bland's
    rule (the first column that gains, the first basic variable among equals) cannot cycle.
    """
    width = len(quorums) + len(members)
    rows = [
        [Fraction(member in quorum) for quorum in quorums]
        + [Fraction(member == other) for other in members]
        + [Fraction(1)]
        for member in members
    ]
    gains = [Fraction(1)] * len(quorums) + [Fraction(0)] * (len(members) + 1)
    basis = list(range(len(quorums), width))
    while True:
        entering = next((column for column in range(width) if gains[column] > 0), None)
        if entering is None:
            return -gains[-1]
        _, _, leaving = min(
            (row[-1] / row[entering], basis[place], place)
            for place, row in enumerate(rows)
            if row[entering] > 0
        )
        basis[leaving] = entering
        pivot = rows[leaving]
        rows[leaving] = pivot = [cell / pivot[entering] for cell in pivot]
        rows = [
            row if place == leaving else _subtract(row, row[entering], pivot)
            for place, row in enumerate(rows)
        ]
        gains = _subtract(gains, gains[entering], pivot)


def _subtract(row: list[Fraction], factor: Fraction, pivot: list[Fraction]) -> list[Fraction]:
    if not factor:
        return row
    return [cell - factor * other for cell, other in zip(row, pivot, strict=True)]
