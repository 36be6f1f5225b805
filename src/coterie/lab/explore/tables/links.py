"""What is under way from one process to another, each content of each channel a small number.

A content is a tuple of messages, numbered as inputs of their receiver. On a FIFO channel it is in
the order sent, and only the first can arrive; on an unordered one it is a bag, kept sorted, and any
can. A channel to a crashed process is closed: what is sent into it vanishes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coterie.lab.explore.tables.arrays import Growing, Slots
from coterie.lab.explore.tables.hashing import scatter
from coterie.lab.explore.tables.memo import PairMemo
from coterie.process import Channel

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.lab.explore.tables.arrays import Ids, Numbers

Content = tuple[int, ...]


class Links:
    """Numbers each content of each channel, from 1 on; contents of two channels never share one."""

    def __init__(self, channel: Channel) -> None:
        """Start with no contents."""
        self._fifo = channel is Channel.FIFO
        self._numbers: dict[tuple[int, Content | None], int] = {}
        self._contents: list[tuple[int, Content | None]] = []  # channel and content, None = closed
        self._suffixes: dict[Content, int] = {(): 0}
        self._suffix_contents: list[Content] = [()]
        self._append = PairMemo(self._append_one)
        self._remove = PairMemo(self._remove_one)
        self.heads = Slots()  # the inputs that may come next; slot k of a bag is its k-th kind
        self.zobrist = Growing(np.uint64)
        self.number(-1, ())  # so that no channel has number 0

    def __len__(self) -> int:
        """Count the numbers in use, 0 included."""
        return len(self._contents)

    def number(self, link: int, content: Content | None) -> int:
        """Number a content of a channel; None closes the channel."""
        key = (link, content)
        known = self._numbers.get(key)
        if known is not None:
            return known
        number = self._numbers[key] = len(self._contents)
        self._contents.append(key)
        self.heads.append(self.kinds(content or ()))
        self.zobrist.append(scatter(2 * number))
        return number

    def content(self, number: int) -> Content | None:
        """Return the content with that number."""
        return self._contents[number][1]

    def kinds(self, content: Content) -> Content:
        """List the inputs that may come next: the first, or each distinct one of a bag."""
        return content[:1] if self._fifo else tuple(sorted(set(content)))

    def suffix(self, content: Content) -> int:
        """Number what is sent into one channel during one step; nothing is 0."""
        content = self.ordered(content)
        number = self._suffixes.setdefault(content, len(self._suffix_contents))
        if number == len(self._suffix_contents):
            self._suffix_contents.append(content)
        return number

    def append(self, numbers: Ids, suffixes: Numbers) -> Numbers:
        """Contents after sending."""
        return self._append(numbers, suffixes, (len(self), len(self._suffix_contents)))

    def remove(self, numbers: Ids, slot: int) -> Numbers:
        """Contents after their `slot`-th next message has gone."""
        return self._remove(np.intp(slot), numbers, (len(self.heads.slots), len(self)))

    def replace(self, number: int, change: Callable[[int], int]) -> int:
        """Return the number of a content with each message changed into another."""
        link, content = self._contents[number]
        if content is None:
            return number
        return self.number(link, self.ordered(tuple(change(message) for message in content)))

    def ordered(self, content: Content) -> Content:
        """Return a content as it is kept: in the order sent, or sorted where that means nothing."""
        return content if self._fifo else tuple(sorted(content))

    def _append_one(self, number: int, suffix: int) -> int:
        link, content = self._contents[number]
        if content is None:
            return number
        return self.number(link, self.ordered(content + self._suffix_contents[suffix]))

    def _remove_one(self, slot: int, number: int) -> int:
        link, content = self._contents[number]
        assert content is not None, "nothing is under way in a closed channel"
        where = content.index(self.kinds(content)[slot])
        return self.number(link, content[:where] + content[where + 1 :])
