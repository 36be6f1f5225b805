"""What is due and when: items taken in the order of their times, and of equal times as they were added.

The next items stand in a sorted list. One that is added alone is moved into its place; those of a
broadcast are appended and the list is sorted, which is cheap since most of it is in order already.
When there are many thousands, the items from a `horizon` on wait unsorted in bins of rising times,
and a bin is sorted once its turn has come. So an item costs about the same whether a hundred are
due or a million, while each step of a heap gets dearer the more there are.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.process import ProcessId

    # Time, a number that rises with each item, sender, receivers, message; or a code of the engine
    # in place of a sender, and an action in place of a message.
    Item: TypeAlias = tuple[float, int, int, Sequence[ProcessId], Any]

BIN_MAX = 2048  # items, and some more until the next look
PIECE = 256  # items in each of the bins that an overfull one is cut into
NEAR_MAX = 768  # items in the sorted list, before most of them are put into bins


class Schedule:
    """The items that are due.

    The engine takes them itself, since a call for each would cost too much: it iterates over
    `near` and counts in `head` what it takes. What is added meanwhile comes after the head.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.near: list[Item] = []  # sorted from the head on
        self.head = 0  # items of `near` that were taken
        self.pruned = 0  # items that were taken and are no longer in `near`
        self.number = 0  # of the next item
        self._horizon = math.inf
        self._edges: list[float] = []  # the least time that goes into each bin; the first: horizon
        self._bins: list[list[Item]] = []
        self._fresh = 0  # items put into bins since they were last looked at

    def __len__(self) -> int:
        """Count the items that were not taken yet."""
        return len(self.near) - self.head + sum(map(len, self._bins))

    def add(self, time: float, sender: int, receivers: Sequence[ProcessId], message: Any) -> None:
        """Put in one item; a time that has passed is due at once."""
        item = time, self.number, sender, receivers, message
        self.number += 1
        if time < self._horizon:
            if not self.near or self.near[-1][0] <= time:  # always so if all take equally long
                self.near.append(item)
            else:
                insort(self.near, item, self.head)
        else:
            self._bins[bisect_right(self._edges, time) - 1].append(item)
            self._look_at_bins(1)

    def add_many(self, now: float, items: list[Item]) -> None:
        """Put in items with numbers from `number` on, none of them due before now."""
        self.number += len(items)
        if len(self.near) - self.head + len(items) > NEAR_MAX:
            self._spill(now)
        if self._bins:
            items = self._put_into_bins(items)
        left = self.near[self.head :]
        left += items
        left.sort()
        self.near[self.head :] = left

    def refill(self) -> bool:
        """Forget what was taken, and fetch the next bin if nothing is left; False: all is taken."""
        del self.near[: self.head]
        self.pruned += self.head
        self.head = 0
        while not self.near and self._bins:
            self.near[:] = sorted(self._bins.pop(0))
            del self._edges[0]
            self._horizon = self._edges[0] if self._edges else math.inf
        return bool(self.near)

    def _put_into_bins(self, items: Sequence[Item]) -> list[Item]:
        """Put the items from the horizon on into their bins, and return the others."""
        bins, edges, horizon = self._bins, self._edges, self._horizon
        soon = []
        for item in items:
            time = item[0]
            if time < horizon:
                soon.append(item)
            else:
                bins[bisect_right(edges, time) - 1].append(item)
        self._look_at_bins(len(items) - len(soon))
        return soon

    def _look_at_bins(self, added: int) -> None:
        """Cut the bins that have become too large, if some may have."""
        self._fresh += added
        if self._fresh <= BIN_MAX:
            return
        self._fresh = 0
        for place in reversed(range(len(self._bins))):
            if len(self._bins[place]) > BIN_MAX:
                pieces = _pieces(sorted(self._bins[place]))
                self._bins[place : place + 1] = pieces
                self._edges[place + 1 : place + 1] = [piece[0][0] for piece in pieces[1:]]

    def _spill(self, now: float) -> None:
        """Make room: leave the next few items, and put all others into bins.

        Nothing is added before now, so even when none is left, all that comes finds a bin.
        """
        near, left = self.near, self.head + PIECE
        if len(near) <= left + PIECE:
            left = self.head
        if left == len(near) and self._horizon <= now:
            return
        self._horizon = near[left][0] if left > self.head else now
        pieces = _pieces(near[left:]) or [[]]
        del near[left:]
        self._bins[:0] = pieces
        self._edges[:0] = [self._horizon, *(piece[0][0] for piece in pieces[1:])]


def _pieces(items: list[Item]) -> list[list[Item]]:
    return [items[start : start + PIECE] for start in range(0, len(items), PIECE)]
