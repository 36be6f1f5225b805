"""Maekawa's rules of 1985, repaired, and what they look like with a part missing.

A requester gives a lock back only when it has heard, by Failed, that it will have to wait anyway.
For that to be right an arbiter must tell each process that is not next: also the one that was next
until an older request displaced it, which is the case that the paper forgot (Sanders, 1987).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from coterie.algorithms.mutex.quorum.maekawa.eager import Maekawa
from coterie.algorithms.mutex.quorum.maekawa.messages import Failed, Message
from coterie.process import ProcessId

if TYPE_CHECKING:
    from coterie.clocks import Stamp
    from coterie.process import Outbox


class Displaced(Maekawa):
    """Yields only when hopeless, and hears of it in every case."""

    failed: set[ProcessId] = field(default_factory=set)  # arbiters that have an older request

    def release(self, out: Outbox[Message]) -> None:
        """Unlock the whole quorum."""
        super().release(out)
        self.failed.clear()

    def _contend(self, stamp: Stamp, owner: Stamp, out: Outbox[Message]) -> None:
        if owner < stamp or self.queue[0] != stamp:
            out.send(stamp.process, Failed(stamp))
            return
        self._fail_displaced(owner, out)
        self._inquire_once(owner, out)

    def _fail_displaced(self, owner: Stamp, out: Outbox[Message]) -> None:
        """Tell the one that was next, unless it was told on arrival; older than the owner, it was not."""
        if len(self.queue) > 1 and self.queue[1] < owner:
            out.send(self.queue[1].process, Failed(self.queue[1]))

    def _count(self, sender: ProcessId, stamp: Stamp, out: Outbox[Message]) -> None:
        self.failed.discard(sender)
        super()._count(sender, stamp, out)

    def _lose_hope(self, sender: ProcessId, stamp: Stamp, out: Outbox[Message]) -> None:
        # A Failed that its Locked overtook is out of date.
        if stamp == self.stamp and sender not in self.locked:
            self.failed.add(sender)
            self._yield_if_asked(out)

    def _yield_if_asked(self, out: Outbox[Message]) -> None:
        if not self.failed:
            return
        self.failed |= self.inquiries & self.locked  # what we give back we have to wait for
        super()._yield_if_asked(out)


class Deferred(Displaced):
    """Flawed: the displaced one is not told, sits on an inquiry forever, and all wait."""

    def _fail_displaced(self, owner: Stamp, out: Outbox[Message]) -> None:
        pass


class AsSurveyed(Deferred):
    """Flawed: an inquiry that comes before any Failed is forgotten (rule 3 of the 1987 survey)."""

    def _answer_if_outside(self, sender: ProcessId, stamp: Stamp, out: Outbox[Message]) -> None:
        super()._answer_if_outside(sender, stamp, out)
        self.inquiries.discard(sender)


class Basic(Maekawa):
    """Flawed: no process is ever asked to give a lock back."""

    def _contend(self, stamp: Stamp, owner: Stamp, out: Outbox[Message]) -> None:
        pass
