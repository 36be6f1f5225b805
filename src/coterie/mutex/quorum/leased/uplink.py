"""A session, as its participant sees it: numbered frames, a lease, and silence.

The lease runs from the sending of the latest frame that the voter has answered in this very
session. When it lapses, the participant falls silent and only probes: whoever cannot hear a voter
must not keep its own session there alive.
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from coterie.mutex.quorum.leased.frames import BODIES_MAX, Ack, Reply, UpBody
from coterie.mutex.quorum.leased.tokens import NEVER

if TYPE_CHECKING:
    from coterie.mutex.quorum.leased.settings import Settings


class Parcel(msgspec.Struct, array_like=True):
    """Lock messages under one sequence number, kept until they are acknowledged."""

    seq: int
    bodies: tuple[UpBody, ...]
    first: float  # when they were first handed over for sending
    sent: float  # when they were last sent; never, if the session was silent


class Standing(enum.IntEnum):
    """How far a voter is to be counted on."""

    TRUSTED = 0
    DOUBTFUL = 1  # in grace, or an answer is overdue
    SILENT = 2  # no answer for a whole lease


class Uplink(msgspec.Struct, array_like=True):
    """One session with one voter, or the place for the next one."""

    number: int = 0  # of the session; rises with each
    is_open: bool = False
    nonce: str | None = None  # the voter's; None while opening
    posted: int = 0  # sequence number of the last parcel
    delivered: int = 0  # sequence number of the last reply taken
    unacked: list[Parcel] = field(default_factory=list)
    pending: list[UpBody] = field(default_factory=list)  # of the present step
    locks: set[str] = field(default_factory=set)  # whose request lies with the voter
    lease: float = NEVER
    silent: bool = False
    grace: bool = False  # the voter says that it gives no votes yet
    resumed: float = NEVER  # when the session began, or went on after a silence
    sent: float = NEVER  # when the last frame was sent
    heard: float = NEVER  # when the last frame came
    asked: float = math.inf  # when the first heartbeat since then was sent

    def is_used(self) -> bool:
        """Tell whether anything depends on the session."""
        return bool(self.locks or self.unacked)

    def lapses(self, settings: Settings) -> float:
        """Give the time of silence: the end of the lease, or of waiting for a first answer.

        A session that goes on after a silence gets a moment to renew its lease.
        """
        patience = settings.lease if self.nonce is None else settings.hedge
        return max(self.lease, self.resumed + patience)

    def standing(self, now: float, hedge: float) -> Standing:
        """Tell how far the voter is to be counted on."""
        if self.silent:
            return Standing.SILENT
        doubtful = self.grace or self.waits_since() + hedge <= now
        return Standing.DOUBTFUL if doubtful else Standing.TRUSTED

    def waits_since(self) -> float:
        """Give the time since when an answer is due."""
        due = min(self.unacked[0].first if self.unacked else math.inf, self.asked)
        return max(self.heard, due)

    def open(self, now: float) -> None:
        """Begin the next session, without a round trip: the first frame opens it."""
        self.number += 1
        self.is_open = True
        self.resumed = now

    def close(self) -> None:
        """Forget the session; only its number stays, so that the next one has a larger one."""
        self.is_open = self.silent = self.grace = False
        self.nonce = None
        self.posted = self.delivered = 0
        self.unacked = []
        self.locks = set()
        self.lease = self.resumed = self.sent = self.heard = NEVER
        self.asked = math.inf

    def pack(self, now: float) -> Parcel:
        """Give what was posted in this step a number, as far as it fits a frame, and keep it."""
        self.posted += 1
        parcel = Parcel(self.posted, tuple(self.pending[:BODIES_MAX]), now, NEVER)
        del self.pending[:BODIES_MAX]
        self.unacked.append(parcel)
        return parcel

    def accept(self, frame: Reply | Ack, now: float, lease: float) -> None:
        """Take note of what every frame of the session says."""
        self.nonce = frame.session.nonce
        self.lease = max(self.lease, frame.echo + lease)
        self.heard = now
        self.asked = math.inf
        self.grace = frame.grace
        self.unacked = [parcel for parcel in self.unacked if parcel.seq > frame.ack]

    def overtaken(self, echo: float) -> list[Parcel]:
        """List what the voter has not got, although it has got what was sent later."""
        return [parcel for parcel in self.unacked if parcel.sent < echo]
