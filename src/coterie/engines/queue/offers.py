"""Entries that are given back, and of which the server has not been told yet.

A program that has given a lock back often asks for one in the same turn of the event loop: for the same one again
if it fights for it, or for the next. So an entry goes back some turns late, and a request that comes meanwhile leaves
it in the message by which it joins: one round trip and one step of the server in place of two.

An entry that another process waits for is left by a request for its own lock alone, which joins behind that process.
With another lock it would take part in a step that has to wake someone, and that may be refused for the sake of the
other lock.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.engines.queue.desk import QueueBid
    from coterie.engines.queue.server import QueueSession

# Of the event loop: a task that gives a lock back at the end of its block may be made to let others run before it
# asks again. A request takes the entry of its own lock as it is made, that of another one a turn later, as it is sent.
OFFER_TURNS = 2
OFFER_TURNS_ELSEWHERE = 3


class Offers:
    """Entries that requests of the next turns may leave in their own messages."""

    def __init__(self, leave: Callable[[QueueBid], None]) -> None:
        """Begin without any; `leave` sends what no request has taken."""
        self._leave = leave
        self._bids: dict[str, QueueBid] = {}  # by lock
        self._is_closed = False

    def add(self, bid: QueueBid) -> None:
        """Offer an entry that is given back; where its session cannot carry it with another lock, only if it is wanted."""
        if bid.wanted or (bid.session is not None and bid.session.carries):
            self._bids[bid.ticket.lock] = bid
            self._pass(bid, OFFER_TURNS if bid.wanted else OFFER_TURNS_ELSEWHERE)
        else:
            self._leave(bid)

    def take(self, lock: str) -> QueueBid | None:
        """Take the entry of a lock, which a request for the same lock leaves."""
        return self._bids.pop(lock, None)

    def take_other(self, session: QueueSession) -> QueueBid | None:
        """Take an entry of any lock, which a request in that session leaves."""
        for lock, bid in self._bids.items():
            if bid.session is session and session.carries and not bid.wanted:
                del self._bids[lock]
                return bid
        return None

    def close(self) -> None:
        """Send no more: the session ends, and its entries with it."""
        self._is_closed = True

    def _pass(self, bid: QueueBid, turns: int) -> None:
        """Send an entry after so many turns, if no request has taken it."""
        lock = bid.ticket.lock
        if self._bids.get(lock) is not bid or self._is_closed:
            return
        if turns:
            asyncio.get_running_loop().call_soon(self._pass, bid, turns - 1)
        else:
            del self._bids[lock]
            self._leave(bid)
