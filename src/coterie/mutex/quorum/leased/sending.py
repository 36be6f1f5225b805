"""How a participant sends: numbered frames, sent again when lost, and heartbeats while in use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from coterie.mutex.quorum.leased.frames import (
    Beat,
    Bye,
    Data,
    Frame,
    Probe,
    SessionName,
    Term,
    UpBody,
)
from coterie.mutex.quorum.leased.settings import Settings
from coterie.mutex.quorum.leased.uplink import Parcel, Uplink

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.process import Outbox, ProcessId


class Sender(msgspec.Struct, array_like=True):
    """One session per voter, opened when there is something to say."""

    settings: Settings
    name: str = ""  # of this participant: no other start of any process has had it
    shortened: bool = False  # the lease is shorter than that of all, and voters are to know
    clock: int = 0  # Lamport's
    uplinks: list[Uplink] = field(default_factory=list)  # to voters 1 and up

    def start(self, name: str) -> None:
        """Take a name, and make a place for each voter."""
        self.name = name
        self.uplinks = [Uplink() for _ in range(self.settings.voters)]

    def merge(self, clock: int) -> None:
        """Keep Lamport's clock at or above what was seen."""
        self.clock = max(self.clock, clock)

    def uplink(self, voter: ProcessId) -> Uplink:
        """Give the session with a voter."""
        return self.uplinks[voter - 1]

    def post(self, voter: ProcessId, body: UpBody) -> None:
        """Put a lock message into the frame that this step will send."""
        self.uplink(voter).pending.append(body)

    def is_quiet(self) -> bool:
        """Tell whether this step has nothing to send."""
        return not any(uplink.pending for uplink in self.uplinks)

    def flush(self, out: Outbox[Frame]) -> None:
        """Send what was posted; to a voter that does not answer, later."""
        for voter, uplink in enumerate(self.uplinks, 1):
            if not uplink.pending:
                continue
            if not uplink.is_open:
                uplink.open(out.now)
            while uplink.pending:
                parcel = uplink.pack(out.now)
                if not uplink.silent:
                    self._send(voter, uplink, [parcel], out)

    def connected(self, voter: ProcessId, out: Outbox[Frame]) -> None:
        """Go on over a new connection: what is not acknowledged may have been lost with the old."""
        uplink = self.uplink(voter)
        if uplink.is_open:
            self._resume(voter, uplink, out)

    def bid_farewell(self, out: Outbox[Frame]) -> None:
        """End all sessions; the caller counts no votes any more."""
        for voter, uplink in enumerate(self.uplinks, 1):
            if uplink.is_open:
                out.send(voter, Bye(self._session(uplink)))
            uplink.close()

    def _send(
        self, voter: ProcessId, uplink: Uplink, parcels: Iterable[Parcel], out: Outbox[Frame]
    ) -> None:
        session = self._session(uplink)
        for parcel in parcels:
            parcel.sent = uplink.sent = out.now
            ack, clock = uplink.delivered, self.clock
            out.send(voter, Data(session, parcel.seq, ack, clock, out.now, parcel.bodies))
        if self.shortened and uplink.nonce is None:
            out.send(voter, Term(session, self.settings.lease))

    def _resume(self, voter: ProcessId, uplink: Uplink, out: Outbox[Frame]) -> None:
        uplink.silent = False
        uplink.resumed = out.now
        self._send(voter, uplink, uplink.unacked, out)
        self._beat(voter, uplink, out)

    def _beat(self, voter: ProcessId, uplink: Uplink, out: Outbox[Frame]) -> None:
        uplink.sent = out.now
        uplink.asked = min(uplink.asked, out.now)
        out.send(voter, Beat(self._session(uplink), uplink.delivered, self.clock, out.now))

    def _session(self, uplink: Uplink) -> SessionName:
        return SessionName(self.name, uplink.number, uplink.nonce)

    # Time

    def check(self, now: float) -> None:
        """Look at the clock: forget what is over, fall silent where no answer came for a lease."""
        for uplink in self.uplinks:
            if not uplink.is_open or uplink.lapses(self.settings) > now:
                continue
            if uplink.is_used():
                uplink.silent = True
            else:
                uplink.close()

    def beat(self, out: Outbox[Frame]) -> None:
        """Send the heartbeats and probes that are due."""
        for voter, uplink in enumerate(self.uplinks, 1):
            if self._due(uplink) > out.now:
                continue
            if uplink.silent:
                uplink.sent = out.now
                out.send(voter, Probe(self._session(uplink)))
            else:
                self._beat(voter, uplink, out)

    def deadline(self, now: float) -> float:
        """Give the next time at which `check` or `beat` has something to do."""
        times = [math.inf]
        for uplink in self.uplinks:
            if uplink.is_open:
                times.append(self._due(uplink))
                lapses, suspected = uplink.lapses(self.settings), uplink.waits_since()
                times += [time for time in (lapses, suspected + self.settings.hedge) if time > now]
        return min(times)

    def _due(self, uplink: Uplink) -> float:
        """Give the time of the next heartbeat: sooner while an answer is missing."""
        if not uplink.is_open or not uplink.is_used():
            return math.inf
        hurried = uplink.unacked and not uplink.silent
        return uplink.sent + (self.settings.hedge / 2 if hurried else self.settings.heartbeat)
