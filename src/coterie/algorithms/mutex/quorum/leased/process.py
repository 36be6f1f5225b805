"""The process that simulator, explorer and scenarios run: one lock, a participant, perhaps more.

It may be a voter as well, and a changer that begins when the process starts.
"""

from __future__ import annotations

from typing import Any, ClassVar

from coterie.algorithms.mutex.quorum.leased.changer import CHANGER, Changer
from coterie.algorithms.mutex.quorum.leased.frames import (
    Accept,
    Accepted,
    Ack,
    Answer,
    Beat,
    Behind,
    Bye,
    Close,
    Closed,
    Condition,
    CopyValue,
    Data,
    Frame,
    GetValue,
    ListValues,
    Look,
    Nack,
    NewConfiguration,
    Obituary,
    Prepare,
    Probe,
    Promise,
    Query,
    Refused,
    Reply,
    Seen,
    Stale,
    Term,
    ValueCopied,
    ValueFound,
    ValueList,
)
from coterie.algorithms.mutex.quorum.leased.participant import PARTICIPANT, Participant
from coterie.algorithms.mutex.quorum.leased.voter import Voter
from coterie.errors import ProtocolError
from coterie.process import Channel, Mutex, Outbox, ProcessId

LOCK = "lock"


class Leased(Mutex[Frame]):
    """A participant, a voter if this process votes, and a changer if it is to change the voters."""

    messages: ClassVar[Any] = Frame
    channel: ClassVar[Channel] = Channel.FIFO

    participant: Participant
    voter: Voter | None
    changer: Changer | None = None

    def start(self, out: Outbox[Frame]) -> None:
        """Take a name that no other start has, and begin; a voter reads its bound from storage."""
        name = f"{self.me}.{out.incarnation}"
        self.participant.start(name, out)
        if self.voter is not None:
            self.voter.start(name, out)
        if self.changer is not None:
            self.changer.name = name
            self.changer.start(out)

    def acquire(self, out: Outbox[Frame]) -> None:
        """Ask for the lock."""
        self.participant.acquire(LOCK, out)

    def release(self, out: Outbox[Frame]) -> None:
        """Leave, even if the hold was lost."""
        self.participant.release(LOCK, out)

    def receive(self, sender: ProcessId, message: Frame, out: Outbox[Frame]) -> None:
        """Pass a frame to the part that it is for."""
        match message:
            case Data() | Beat() | Probe() | Term() | Bye() | Obituary():
                self._voter(message).receive(sender, message, out)
            case Query() | Close() | Prepare() | Accept():
                self._voter(message).receive(sender, message, out)
            case Look() | ListValues() | GetValue() | CopyValue():
                self._voter(message).receive(sender, message, out)
            case Reply() | Ack() | Answer() | Nack() | Behind() | Stale() | Seen():
                self.participant.receive(sender, message, out)
            case (
                Condition()
                | Closed()
                | Promise()
                | Accepted()
                | Refused()
                | ValueList()
                | ValueFound()
                | ValueCopied()
            ):
                if self.changer is not None:
                    self.changer.receive(sender, message, out)
            case NewConfiguration():
                if self.voter is not None:
                    self.voter.receive(sender, message, out)
                self.participant.receive(sender, message, out)

    def _voter(self, message: Frame) -> Voter:
        if self.voter is None:
            raise ProtocolError(f"process {self.me} is not a voter, and got {message}")
        return self.voter

    def ring(self, timer: str, out: Outbox[Frame]) -> None:
        """Pass a timer to the part that it belongs to."""
        if timer == PARTICIPANT:
            self.participant.ring(timer, out)
        elif timer == CHANGER:
            assert self.changer is not None, "only a changer arms this timer"
            self.changer.ring(timer, out)
        else:
            assert self.voter is not None, "only a voter arms the other timer"
            self.voter.ring(timer, out)

    def holds(self, now: float) -> bool:
        """Return whether the lock is ours at this time of our own clock."""
        return self.participant.valid(LOCK, now)
