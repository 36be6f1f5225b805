"""Ricart and Agrawala with permissions that last (Roucairol and Carvalho, 1983): 0 to 2(N - 1).

A reply is a permission that holds until it is given back: ask only those whose permission you do
not have, which is nobody if nobody else has asked since you last entered. The price is that stamps
no longer order the entries: whoever has every permission enters, though an older request may be on
its way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.mutex.permission.ricart_agrawala.plain import Message, Reply, Request, RicartAgrawala

if TYPE_CHECKING:
    from coterie.clocks import Stamp
    from coterie.process import Outbox, ProcessId


class RoucairolCarvalho(RicartAgrawala):
    """A process that keeps permissions; `awaiting` holds the peers whose permission it lacks."""

    def _ask(self, stamp: Stamp, out: Outbox[Message]) -> None:
        out.broadcast(self.awaiting, Request(stamp))

    def release(self, out: Outbox[Message]) -> None:
        """Reply to everyone who was made to wait, which gives their permissions back."""
        self.awaiting = set(self.deferred)
        super().release(out)
