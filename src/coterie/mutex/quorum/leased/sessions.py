"""All sessions of a participant: sending, resending, heartbeats and probes.

Frames may be lost, doubled or late, and links may break: both directions are numbered, so each lock
message is handled once and in order, and whatever is missing is sent again when a later frame has
got through or a new connection stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coterie.mutex.quorum.leased.frames import (
    Ack,
    Answer,
    DownBody,
    Downward,
    Frame,
    Nack,
    Reply,
    SessionName,
)
from coterie.mutex.quorum.leased.sending import Sender

if TYPE_CHECKING:
    from coterie.mutex.quorum.leased.uplink import Uplink
    from coterie.process import Outbox, ProcessId


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


class Sessions(Sender):
    """What the locks of a participant see of its sessions."""

    def asked(self, lock: str) -> list[ProcessId]:
        """List the voters with whom the request for this lock lies."""
        return [voter for voter, uplink in enumerate(self.uplinks, 1) if lock in uplink.locks]

    def lease(self, voter: ProcessId) -> float:
        """Give the time up to which votes of this voter count."""
        return self.uplink(voter).lease

    def reachable(self) -> list[ProcessId]:
        """List the voters that are not known to be out of reach."""
        return [voter for voter, uplink in enumerate(self.uplinks, 1) if not uplink.silent]

    def suspects(self, now: float) -> list[ProcessId]:
        """List the voters that are not to be counted on."""
        hedge = self.settings.hedge
        return [
            voter for voter, uplink in enumerate(self.uplinks, 1) if uplink.standing(now, hedge)
        ]

    def standing(self, now: float) -> list[int]:
        """Tell for each voter how far it is to be counted on."""
        return [uplink.standing(now, self.settings.hedge) for uplink in self.uplinks]

    # Receiving

    def receive(self, voter: ProcessId, frame: Downward, out: Outbox[Frame]) -> Arrival:
        """Take a frame of the present session; those of others mean nothing."""
        uplink = self.uplink(voter)
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
