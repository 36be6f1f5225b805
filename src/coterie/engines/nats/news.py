"""Which entries are in the way of ours, as of the last look, and what was said of them since.

Who leaves a queue says so to all that wait there. Only the one that has no other entry in its way then has a reason to
look; so a hand-off costs one look, and not one of each that waits. All news are hints: some may be lost, and some come before
the answer of a look that has not seen yet what they tell.

This is a value: it sends nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.engines.queue.server import Ticket

HEARD_MAX = 64  # locks whose news are heard although no entry of ours waits for them
GONE_MAX = 256  # entries whose end is remembered


class QueueNews:
    """What a session knows of the queues in which it waits."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._in_the_way: dict[Ticket, set[int]] = {}
        self._gone: OrderedDict[int, None] = OrderedDict()
        self._heard: OrderedDict[str, None] = OrderedDict()

    def saw(self, ticket: Ticket, in_the_way: Iterable[int]) -> bool:
        """Note what a look has shown to be in the way of an entry; return True if all that has left meanwhile."""
        numbers = set(in_the_way)
        if not numbers:
            self.forget(ticket)
            return False
        left = self._in_the_way[ticket] = numbers - self._gone.keys()
        return not left

    def forget(self, ticket: Ticket) -> None:
        """Drop an entry that waits no more."""
        self._in_the_way.pop(ticket, None)

    def left(self, lock: str, number: int) -> bool:
        """Note that an entry has left; return True if an entry of ours has none in its way now, as far as we know."""
        self._gone[number] = None
        if len(self._gone) > GONE_MAX:
            self._gone.popitem(last=False)
        is_free = False
        for ticket, in_the_way in self._in_the_way.items():
            if ticket.lock == lock and number in in_the_way:
                in_the_way.discard(number)
                is_free = is_free or not in_the_way
        return is_free

    # The locks whose news are heard

    def unheard(self, locks: Iterable[str]) -> list[str]:
        """Return those of the locks whose news are not heard."""
        return sorted(set(locks) - self._heard.keys())

    def hear(self, lock: str) -> str:
        """Hear news of a lock from now on; return another one whose news are not needed any more, or nothing."""
        self._heard[lock] = None
        if len(self._heard) <= HEARD_MAX:
            return ""
        needed = {ticket.lock for ticket in self._in_the_way} | {lock}
        idle = next((each for each in self._heard if each not in needed), "")
        self._heard.pop(idle, None)
        return idle

    def begin_again(self) -> list[str]:
        """Return the locks whose news are to be heard over another connection."""
        self._heard = OrderedDict.fromkeys(ticket.lock for ticket in self._in_the_way)
        return list(self._heard)
