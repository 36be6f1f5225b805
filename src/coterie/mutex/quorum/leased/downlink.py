"""A session, as its voter sees it."""

from __future__ import annotations

import msgspec
from msgspec import field

from coterie.mutex.quorum.leased.frames import BODIES_MAX, Beat, Data, DownBody, SessionName
from coterie.mutex.quorum.leased.tokens import NEVER
from coterie.process import ProcessId


class Letter(msgspec.Struct, array_like=True):
    """Lock messages under one sequence number, kept until they are acknowledged."""

    seq: int
    bodies: tuple[DownBody, ...]
    sent: float


class Downlink(msgspec.Struct, array_like=True):
    """The session with one participant."""

    session: SessionName
    peer: ProcessId  # where its frames come from
    posted: int = 0  # sequence number of the last letter
    delivered: int = 0  # sequence number of the last data taken
    unacked: list[Letter] = field(default_factory=list)
    pending: list[DownBody] = field(default_factory=list)  # of the present step
    locks: set[str] = field(default_factory=set)  # that it owns or waits for
    heard: float = NEVER  # when the last frame was processed
    echo: float = NEVER  # the latest sending time, by the participant's clock
    lease: float | None = None  # the participant's own, if it is shorter than that of all

    def accept(self, frame: Data | Beat, now: float) -> None:
        """Take note of what every frame of the session says."""
        self.heard = now
        self.echo = max(self.echo, frame.time)
        self.unacked = [letter for letter in self.unacked if letter.seq > frame.ack]

    def takes(self, seq: int) -> bool:
        """Tell whether this number is the next one, and count it if so."""
        if seq != self.delivered + 1:
            return False
        self.delivered += 1
        return True

    def is_overdue(self, time: float) -> bool:
        """Tell whether something sent before that time is still not acknowledged."""
        return bool(self.unacked) and self.unacked[0].sent <= time

    def pack(self, now: float) -> Letter:
        """Give what was posted in this step a number, as far as it fits a frame, and keep it."""
        self.posted += 1
        letter = Letter(self.posted, tuple(self.pending[:BODIES_MAX]), now)
        del self.pending[:BODIES_MAX]
        self.unacked.append(letter)
        return letter
