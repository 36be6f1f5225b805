"""The process that simulator, explorer and scenarios run: one lock, a participant and perhaps a voter."""

from __future__ import annotations

from typing import Any, ClassVar

from coterie.errors import ProtocolError
from coterie.mutex.quorum.leased.frames import (
    Ack,
    Answer,
    Beat,
    Bye,
    Data,
    Frame,
    Nack,
    Probe,
    Reply,
    Term,
)
from coterie.mutex.quorum.leased.participant import PARTICIPANT, Participant
from coterie.mutex.quorum.leased.voter import Voter
from coterie.process import Channel, Mutex, Outbox, ProcessId

LOCK = "lock"


class Leased(Mutex[Frame]):
    """A participant, and a voter if this process votes."""

    messages: ClassVar[Any] = Frame
    channel: ClassVar[Channel] = Channel.FIFO

    participant: Participant
    voter: Voter | None

    def start(self, out: Outbox[Frame]) -> None:
        """Take a name that no other start has, and begin; a voter reads its bound from storage."""
        name = f"{self.me}.{out.incarnation}"
        self.participant.start(name, out)
        if self.voter is not None:
            self.voter.start(name, out)

    def acquire(self, out: Outbox[Frame]) -> None:
        """Ask for the lock."""
        self.participant.acquire(LOCK, out)

    def release(self, out: Outbox[Frame]) -> None:
        """Leave, even if the hold was lost."""
        self.participant.release(LOCK, out)

    def receive(self, sender: ProcessId, message: Frame, out: Outbox[Frame]) -> None:
        """Pass a frame to the part that it is for."""
        match message:
            case Data() | Beat() | Probe() | Term() | Bye():
                if self.voter is None:
                    raise ProtocolError(f"process {self.me} is not a voter, and got {message}")
                self.voter.receive(sender, message, out)
            case Reply() | Ack() | Answer() | Nack():
                self.participant.receive(sender, message, out)

    def ring(self, timer: str, out: Outbox[Frame]) -> None:
        """Pass a timer to the part that it belongs to."""
        if timer == PARTICIPANT:
            self.participant.ring(timer, out)
        else:
            assert self.voter is not None, "only a voter arms the other timer"
            self.voter.ring(timer, out)

    def holds(self, now: float) -> bool:
        """Return whether the lock is ours at this time of our own clock."""
        return self.participant.valid(LOCK, now)
