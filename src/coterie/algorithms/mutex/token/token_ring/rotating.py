"""Mutual exclusion by a token that goes round a ring: 1 message an entry when all want in.

The process with the token may enter, and passes it on when it leaves. The token is not asked for:
it comes by, also when no process wants it, so an idle ring is never quiet. To keep that bearable, a
process that wants nothing keeps the token for a pause before it passes it on.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from coterie.errors import ProtocolError
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId

PAUSE = "PAUSE"


class Token(Payload, frozen=True):
    """The right to enter."""


Message: TypeAlias = Token


class TokenRing(Mutex[Message]):
    """A process that waits for the token to come by."""

    messages: ClassVar[Any] = Message

    successor: ProcessId
    pause: float  # how long we keep a token that we do not want
    token: bool = False
    wants: bool = False  # from acquire until release: with the token, inside

    def start(self, out: Outbox[Message]) -> None:
        """Set the token going, if we are the one to begin with it."""
        if self.token:
            out.set_timer(PAUSE, self.pause)

    def acquire(self, out: Outbox[Message]) -> None:
        """Enter with the token in hand, or wait for it."""
        self.wants = True
        if self.token:
            out.cancel_timer(PAUSE)
            out.tell(Entered())

    def release(self, out: Outbox[Message]) -> None:
        """Pass the token on, even if we shall want it again: the others come first."""
        self.wants = False
        self._pass_on(out)

    def owes(self) -> tuple[ProcessId, ...]:
        """Name the next in the ring."""
        return (self.successor,)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Enter if we want to, or keep the token for a pause."""
        if self.token:
            raise ProtocolError(f"process {self.me} got a second token from {sender}")
        self.token = True
        if self.wants:
            out.tell(Entered())
        else:
            out.set_timer(PAUSE, self.pause)

    def ring(self, timer: str, out: Outbox[Message]) -> None:
        """Pass the token on, the pause being over."""
        self._pass_on(out)

    def _pass_on(self, out: Outbox[Message]) -> None:
        self.token = False
        out.send(self.successor, Token())
