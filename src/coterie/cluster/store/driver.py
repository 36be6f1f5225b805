"""Carries out the steps of a site so that all of one turn of the event loop share one sync.

What a step appends is gathered until the turn ends, and then goes to the log together. It does so as
one frame: the end of the file is all that a crash may tear, and several frames without a sync in
between could be torn in the middle.

What the step sends, arms and tells waits for that. So does all that later steps wish for, whether they
append or not: they have seen what is gathered, and must not speak of it before it is on disk.
"""

from __future__ import annotations

from typing import Any

from coterie.cluster.runtime.driver import Driver
from coterie.process import Outbox

GATHERED_BYTES_MAX = 1 << 26  # then the disk is not kept waiting for the end of the turn


class GatheringDriver(Driver):
    """Feeds a site, and obeys its outboxes together."""

    _gathered: Outbox[Any] | None = None
    _bytes = 0  # of the records in it

    def carry_out(self, out: Outbox[Any]) -> None:
        """Obey, at once if nothing has to be on disk before."""
        if out.to_save is not None:  # the value takes the place of what was appended before it
            self.sync()
        elif out.durable or self._gathered is not None:
            self._gather(out)
            return
        if not self.failed:
            super().carry_out(out)

    def sync(self) -> None:
        """Put on disk what is gathered, and let out what has waited for that."""
        gathered, self._gathered = self._gathered, None
        self._bytes = 0
        if gathered is not None:
            super().carry_out(gathered)

    def _gather(self, out: Outbox[Any]) -> None:
        if self._gathered is None:
            self._gathered = Outbox(self._me)
            self._loop.call_soon(self.sync)
        gathered = self._gathered
        for record in out.appended:
            gathered.append(record)
            self._bytes += len(record)
        gathered.sends += out.sends
        gathered.timers += out.timers
        gathered.watches += out.watches
        gathered.events += out.events
        if self._bytes > GATHERED_BYTES_MAX:
            self.sync()
