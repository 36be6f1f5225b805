"""A site that may crash between any two steps and begin again with what is on its disk.

The explorer has no restarts with stable storage, so a crash is a timer here, which may ring at any
moment. What is under way to the site still comes, into its next life: a broken connection loses it,
and that is a timer, too, after which the next message is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.lab.trials.clients import BusySite
from coterie.process import encode

if TYPE_CHECKING:
    from coterie.process import Outbox, ProcessId
    from coterie.transactions.site.messages import Message

CRASH = "crash"
LOSS = "loss"


class RestartingSite(BusySite):
    """A site with its disk."""

    crashes: int = 0  # that may still happen here
    losses: int = 0
    deaf: bool = False  # the next message is lost
    lives: int = 0
    fresh: bytes = b""  # the site as it was before its first start
    disk: list[bytes] = []  # its log

    def start(self, out: Outbox[Message]) -> None:
        """Begin, with a disk that is empty at first."""
        if not self.lives:
            self.fresh = encode(self)
        already = len(out.appended)
        super().start(out)
        self._keep(out, already)
        if self.crashes:
            out.set_timer(CRASH, 0)
        if self.losses:
            out.set_timer(LOSS, 0)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a message, or lose it; one to itself is part of the step that sends it."""
        if self.deaf and sender != self.me:
            self.deaf = False
            return
        already = len(out.appended)
        super().receive(sender, message, out)
        self._keep(out, already)

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        """Crash, lose the next message, or handle a timer of the site."""
        already = len(out.appended)
        if timer == CRASH:
            self._crash(out)
        elif timer == LOSS:
            self.losses -= 1
            self.deaf = True
        else:
            super().ring(timer, out)
            self._keep(out, already)

    def _keep(self, out: Outbox[Message], already: int) -> None:
        """Put on the disk what a handler has appended: a world does so before anything leaves."""
        assert out.to_save is None, "the log is replaced after a thousand records"
        self.disk = [*self.disk, *out.appended[already:]]

    def _crash(self, out: Outbox[Message]) -> None:
        """Forget all but the disk, and begin again."""
        kept = {name: getattr(self, name) for name in ("fresh", "disk", "losses")}
        kept |= {"lives": self.lives + 1, "crashes": self.crashes - 1}
        before = msgspec.msgpack.decode(self.fresh, type=type(self))
        for name in self.__struct_fields__:
            setattr(self, name, kept.get(name, getattr(before, name)))
        out.timers += [(timer, None) for timer in self._timers()]
        out.incarnation, out.log = self.lives, self.disk
        self.start(out)

    def _timers(self) -> list[str]:
        clients = [f"client {place}" for place in range(len(self.clients))]
        return ["silence", "blocked", "overdue", *clients]
