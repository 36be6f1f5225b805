"""All sessions of a participant: sending, resending, heartbeats and probes.

Frames may be lost, doubled or late, and links may break: both directions are numbered, so each lock
message is handled once and in order, and whatever is missing is sent again when a later frame has
got through or a new connection stands.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import field

from coterie.mutex.quorum.leased.frames import (
    Ack,
    Answer,
    Beat,
    Bye,
    Data,
    DownBody,
    Downward,
    Frame,
    Nack,
    Probe,
    Reply,
    SessionName,
    UpBody,
)
from coterie.mutex.quorum.leased.settings import Settings
from coterie.mutex.quorum.leased.uplink import Parcel, Standing, Uplink
from coterie.process import Outbox, ProcessId

if TYPE_CHECKING:
    from collections.abc import Iterable


class Loss(NamedTuple):
    """A session that the voter does not know any more."""

    lease: float  # up to when its votes still count for a hold
    locks: list[str]


class Arrival(NamedTuple):
    """What a frame means to the locks."""

    bodies: tuple[DownBody, ...] = ()  # to be handled now, in order
    lost: Loss | None = None
    renewed: bool = False  # a lapsed lease runs again


NOTHING = Arrival()


class Sessions(msgspec.Struct, array_like=True):
    """One session per voter, opened when there is something to say."""

    settings: Settings
    name: str = ""  # of this participant: no other start of any process has had it
    clock: int = 0  # Lamport's
    uplinks: dict[ProcessId, Uplink] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Take a name, and make a place for each voter."""
        self.name = name
        self.uplinks = {voter: Uplink() for voter in range(1, self.settings.voters + 1)}

    def merge(self, clock: int) -> None:
        """Keep Lamport's clock at or above what was seen."""
        self.clock = max(self.clock, clock)

    # What the locks ask

    def asked(self, lock: str) -> list[ProcessId]:
        """List the voters with whom the request for this lock lies."""
        return [voter for voter, uplink in self.uplinks.items() if lock in uplink.locks]

    def lease(self, voter: ProcessId) -> float:
        """Give the time up to which votes of this voter count."""
        return self.uplinks[voter].lease

    def reachable(self) -> list[ProcessId]:
        """List the voters that are not known to be out of reach."""
        return [voter for voter, uplink in self.uplinks.items() if not uplink.silent]

    def suspects(self, now: float) -> list[ProcessId]:
        """List the voters that are not to be counted on."""
        hedge = self.settings.hedge
        return [voter for voter, uplink in self.uplinks.items() if uplink.standing(now, hedge)]

    def standing(self, now: float) -> list[Standing]:
        """Tell for each voter how far it is to be counted on."""
        return [uplink.standing(now, self.settings.hedge) for uplink in self.uplinks.values()]

    # Sending

    def post(self, voter: ProcessId, body: UpBody) -> None:
        """Put a lock message into the frame that this step will send."""
        self.uplinks[voter].pending.append(body)

    def flush(self, out: Outbox[Frame]) -> None:
        """Send what was posted; to a voter that does not answer, later."""
        for voter, uplink in self.uplinks.items():
            if not uplink.pending:
                continue
            if not uplink.is_open:
                uplink.open(out.now)
            parcel = uplink.pack(out.now)
            if not uplink.silent:
                self._send(voter, uplink, [parcel], out)

    def connected(self, voter: ProcessId, out: Outbox[Frame]) -> None:
        """Go on over a new connection: what is not acknowledged may have been lost with the old."""
        uplink = self.uplinks[voter]
        if uplink.is_open:
            self._resume(voter, uplink, out)

    def bid_farewell(self, out: Outbox[Frame]) -> None:
        """End all sessions; the caller counts no votes any more."""
        for voter, uplink in self.uplinks.items():
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

    def _resume(self, voter: ProcessId, uplink: Uplink, out: Outbox[Frame]) -> None:
        uplink.silent = False
        self._send(voter, uplink, uplink.unacked, out)
        self._beat(voter, uplink, out)

    def _beat(self, voter: ProcessId, uplink: Uplink, out: Outbox[Frame]) -> None:
        uplink.sent = out.now
        out.send(voter, Beat(self._session(uplink), uplink.delivered, self.clock, out.now))

    def _session(self, uplink: Uplink) -> SessionName:
        return SessionName(self.name, uplink.number, uplink.nonce)

    # Receiving

    def receive(self, voter: ProcessId, frame: Downward, out: Outbox[Frame]) -> Arrival:
        """Take a frame of the present session; those of others mean nothing."""
        uplink = self.uplinks[voter]
        if not uplink.is_open or not self._is_ours(uplink, frame.session):
            return NOTHING
        match frame:
            case Reply() | Ack():
                return self._accept(voter, uplink, frame, out)
            case Answer(_, alive):
                return self._resume_or_reopen(voter, uplink, alive, out)
            case Nack():
                return self._lose(uplink)

    def _is_ours(self, uplink: Uplink, session: SessionName) -> bool:
        ours = self._session(uplink)
        return session == ours or (ours.nonce is None and session[:2] == ours[:2])

    def _accept(
        self, voter: ProcessId, uplink: Uplink, frame: Reply | Ack, out: Outbox[Frame]
    ) -> Arrival:
        lapsed, silent = uplink.lease <= out.now, uplink.silent
        uplink.accept(frame, out.now, self.settings.lease)
        self.merge(frame.clock)
        if silent and uplink.lease > out.now:
            self._resume(voter, uplink, out)
        elif not silent:
            self._send(voter, uplink, uplink.overtaken(frame.echo), out)
        bodies: tuple[DownBody, ...] = ()
        if isinstance(frame, Reply) and frame.seq == uplink.delivered + 1:
            uplink.delivered += 1
            bodies = frame.bodies
        return Arrival(bodies, None, lapsed and uplink.lease > out.now)

    def _resume_or_reopen(
        self, voter: ProcessId, uplink: Uplink, alive: bool, out: Outbox[Frame]
    ) -> Arrival:
        if not alive and uplink.nonce is not None:
            return self._lose(uplink)
        self._resume(voter, uplink, out)
        return NOTHING

    def _lose(self, uplink: Uplink) -> Arrival:
        lost = Loss(uplink.lease, sorted(uplink.locks))
        uplink.close()
        return Arrival(lost=lost)

    # Time

    def check(self, now: float) -> None:
        """Look at the clock: forget what is over, fall silent where no answer came for a lease."""
        for uplink in self.uplinks.values():
            if not uplink.is_open or uplink.lapses(self.settings.lease) > now:
                continue
            if uplink.is_used():
                uplink.silent = True
            else:
                uplink.close()

    def beat(self, out: Outbox[Frame]) -> None:
        """Send the heartbeats and probes that are due."""
        for voter, uplink in self.uplinks.items():
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
        for uplink in self.uplinks.values():
            if uplink.is_open:
                times.append(self._due(uplink))
                lapses, suspected = uplink.lapses(self.settings.lease), uplink.waits_since()
                times += [time for time in (lapses, suspected + self.settings.hedge) if time > now]
        return min(times)

    def _due(self, uplink: Uplink) -> float:
        """Give the time of the next heartbeat: sooner while an answer is missing."""
        if not uplink.is_open or not uplink.is_used():
            return math.inf
        hurried = uplink.unacked and not uplink.silent
        return uplink.sent + (self.settings.hedge / 2 if hurried else self.settings.heartbeat)
