"""Calls of one node at all addresses where it may be: begun a moment apart, and the first to prove itself is used.

An address that leads nowhere costs seconds, and one that leads to another node costs a handshake. So the next call
does not wait for the end of the one before, only for a moment in which a node that is there has answered. It is the
way in which browsers call a host of several addresses (RFC 8305).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from coterie import system
from coterie.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from coterie.cluster.wire.address import Address

    Call: TypeAlias = Callable[[Address, "CallRound"], Awaitable[None]]

STAGGER_SECONDS = 0.25  # between two calls, while none has come to an end
FIRST_PAUSE_SECONDS = 0.05  # after one that has failed


class CallRound:
    """One call at each of some addresses, until a call has reached the node.

    Two addresses may lead to the same node, which takes the connection that a program has proven itself on last for
    the valid one. So a call asks `takes` before its proof, and one at a time may go on. When it has been let in
    it calls `settle`, which ends all others, and works with the connection until that breaks.
    """

    def __init__(self, call: Call, failed: Callable[[Address, Exception], None]) -> None:
        """Prepare; `failed` hears of each call that ends, and why."""
        self._call = call
        self._failed = failed
        self._calls: dict[asyncio.Future[None], Address] = {}
        self._chosen: Address | None = None
        self._is_settled = False

    async def run(self, addresses: Sequence[Address]) -> Address | None:
        """Reach the node and wait for the end of that connection; return its address, or None if no call came through."""
        left = list(addresses)
        pause = 0.0  # before the next call
        try:
            while self._calls or (left and not self._is_settled):
                ended = await self._first_ended(None if self._is_settled or not left else pause)
                if ended is not None:
                    self._conclude(ended)
                    if left:
                        # sometimes: a node is looked for at another address
                        pause = FIRST_PAUSE_SECONDS * system.random().uniform(0.5, 1)
                elif not self._is_settled:
                    self._begin(left.pop(0))
                    pause = STAGGER_SECONDS
        finally:
            for call in self._calls:
                call.cancel()
            await asyncio.gather(*self._calls, return_exceptions=True)
        return self._chosen if self._is_settled else None

    def takes(self, address: Address) -> bool:
        """Return whether the call at an address may go on; from then on no other may."""
        if self._chosen is None:
            self._chosen = address
        return self._chosen == address

    def settle(self) -> None:
        """End all other calls: the one that was chosen has reached the node."""
        self._is_settled = True
        for call, address in self._calls.items():
            if address != self._chosen:
                call.cancel()

    def _begin(self, address: Address) -> None:
        self._calls[asyncio.ensure_future(self._call(address, self))] = address

    async def _first_ended(self, seconds: float | None) -> asyncio.Future[None] | None:
        """Wait until one of the calls has ended, or for so many seconds; then there is none."""
        if self._calls:
            ended, _ = await asyncio.wait(
                self._calls, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            return next((call for call in self._calls if call in ended), None)
        await asyncio.sleep(seconds or 0.0)
        return None

    def _conclude(self, call: asyncio.Future[None]) -> None:
        address = self._calls.pop(call)
        if call.cancelled():
            return
        if self._chosen == address and not self._is_settled:
            self._chosen = None  # another one may go on
        error = call.exception()
        if isinstance(error, OSError | ProtocolError):
            self._failed(address, error)
        elif error is not None:
            raise error
