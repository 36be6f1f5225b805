"""Quorums in a grid: a whole row, and one member of every other row.

Any two meet, because one has a whole row and the other a member of it. With about √N rows a quorum
has about 2√N - 1 members; the members of a square form rows and columns.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from coterie.coteries.coterie import Coterie, Quorum, in_order, refuse_long_list
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable


def grid(members: Iterable[int]) -> Grid:
    """Arrange the members in rows; the quorum of each is its row and its column."""
    return Grid(members)


class Grid(Coterie):
    """The coterie of the crosses in a grid whose rows differ by one in length, at most.

    From four members on every row has at least two, so no quorum contains another: it has a single
    member of each row but its own.
    """

    def __init__(self, members: Iterable[int]) -> None:
        """Cut the sorted members into rows."""
        self._members = tuple(sorted(set(members)))
        size = len(self._members)
        if not size:
            raise ConfigError("a grid needs at least one member")
        height = math.isqrt(size)
        self._rows = [
            self._members[size * row // height : size * (row + 1) // height]
            for row in range(height)
        ]
        self._cells = {
            member: (row, column)
            for row, in_row in enumerate(self._rows)
            for column, member in enumerate(in_row)
        }

    @functools.cached_property
    def quorums(self) -> tuple[Quorum, ...]:
        """The quorums of all members."""
        refuse_long_list("this grid", len(self.members), 2 * len(self._rows))
        return in_order(map(self.quorum_for, self.members))

    def quorum_for(self, member: int) -> Quorum:
        """Return the row and the column of `member`; the column wraps around in a shorter row."""
        self._know(member)
        row, column = self._cells[member]
        crossing = (in_row[column % len(in_row)] for in_row in self._rows)
        return frozenset((*self._rows[row], *crossing))
