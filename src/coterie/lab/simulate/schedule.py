"""What is due and when: items taken in the order of their times, and of equal times as they were added.

The next items stand in a sorted list. One that is added alone is moved into its place; those of a
broadcast are appended and the list is sorted, which is cheap since most of it is in order already.
When there are many thousands, the items from a `horizon` on wait unsorted in bins of rising times,
and a bin is sorted once its turn has come. So an item costs about the same whether a hundred are
due or a million, while each step of a heap gets dearer the more there are.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort_right
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from coterie.process import ProcessId

    # Time, sender, receiver, message; or a code of the engine in place of a sender, and an action
    # in place of a message.
    Item: TypeAlias = tuple[float, int, ProcessId, Any]

BIN_MAX = 2048  # items, and some more until the next look
PIECE = 256  # items in each of the bins that an overfull one is cut into
NEAR_MAX = 768  # items in the sorted list, before most of them are put into bins

# Items are compared by their times alone. Every sort is stable, and what is added goes behind what
# is there with the same time: so items of equal times stay in the order in which they were added.
time_of = itemgetter(0)


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
        self.added = 0  # items so far
        self._horizon = math.inf
        # What is due before the first edge goes into the first bin, which is empty but for a moment,
        # and what is due from an edge on into the bin after it.
        self._edges: list[float] = []
        self._bins: list[list[Item]] = [[]]
        self._fresh = 0  # items put into bins since they were last looked at

    def __len__(self) -> int:
        """Count the items that were not taken yet."""
        return self.added - self.pruned - self.head

    def add(self, item: Item) -> None:
        """Put in one item; one whose time has passed is due at once."""
        self.added += 1
        near, time = self.near, item[0]
        if time < self._horizon:
            if not near or near[-1][0] <= time:  # always so if all take equally long
                near.append(item)
            else:
                insort_right(near, item, self.head, key=time_of)
        else:
            self._bins[bisect_right(self._edges, time)].append(item)
            self._look_at_bins(1)

    def add_many(self, items: list[Item]) -> None:
        """Put in many items, none of which is due before what was taken last."""
        self.added += len(items)
        if self._edges:
            items = self._put_into_bins(items)
        near, head = self.near, self.head
        left = near[head:]
        left += items
        left.sort(key=time_of)
        near[head:] = left
        if len(left) > NEAR_MAX:
            self._spill()

    def refill(self) -> bool:
        """Forget what was taken, and fetch the next bin if nothing is left; False: all is taken."""
        del self.near[: self.head]
        self.pruned += self.head
        self.head = 0
        while not self.near and self._edges:
            self.near[:] = sorted(self._bins.pop(1), key=time_of)
            del self._edges[0]
            self._horizon = self._edges[0] if self._edges else math.inf
        return bool(self.near)

    def _put_into_bins(self, items: list[Item]) -> list[Item]:
        """Put the items from the horizon on into their bins, and return the others."""
        bins = self._bins
        places = map(bisect_right, repeat(self._edges), map(time_of, items))
        for place, item in zip(places, items, strict=True):
            bins[place].append(item)
        soon, bins[0] = bins[0], []
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
                pieces = _pieces(sorted(self._bins[place], key=time_of))
                self._bins[place : place + 1] = pieces
                self._edges[place:place] = [piece[0][0] for piece in pieces[1:]]

    def _spill(self) -> None:
        """Leave the next few items, and put all others into bins."""
        near, left = self.near, self.head + PIECE
        pieces = _pieces(near[left:])
        del near[left:]
        self._bins[1:1] = pieces
        self._edges[:0] = [piece[0][0] for piece in pieces]
        self._horizon = self._edges[0]


def _pieces(items: list[Item]) -> list[list[Item]]:
    return [items[start : start + PIECE] for start in range(0, len(items), PIECE)]
