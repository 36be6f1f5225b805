"""A voter: sessions with participants, expiry, and abstention after a restart (sections 4 and 9)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coterie.mutex.quorum.leased.downlink import Downlink, Letter
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
    SessionName,
    Term,
    Upward,
)
from coterie.mutex.quorum.leased.polling import Poll
from coterie.mutex.quorum.leased.tokens import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.process import Outbox, ProcessId

VOTER = "voter"  # the one timer of this part


class Voter(Poll):
    """The votes of one process for any number of locks."""

    cautious: bool = False  # nothing on stable storage means that it was lost, not never written
    name: str = ""  # no other start of any process has had it
    opened: int = 0  # sessions so far
    armed: float = math.inf  # when the timer rings

    def start(self, name: str, out: Outbox[Frame]) -> None:
        """Begin, and abstain if votes may have been given before: a lease of them may still run.

        A voter gives none before it has saved a bound, so without one there is nothing to wait for.
        """
        self.name = name
        self.bound = self.floor = self.clock = int(out.saved or b"0")
        if out.saved or self.cautious:
            self.abstains_until = out.now + self.settings.expiry + self.settings.lock_delay
            self._arm(self.abstains_until, out)

    def receive(self, participant: ProcessId, frame: Upward, out: Outbox[Frame]) -> None:
        """Handle a frame that came from this process."""
        match frame:
            case Data() | Beat():
                self._take(participant, frame, out)
            case Probe(session):
                out.send(participant, Answer(session, self._knows(session)))
            case Term(session, lease):
                self._shorten(session, lease, out)
            case Bye(session):
                if self._knows(session):
                    self._finish(self._drop(session.participant), out)

    def connected(self, participant: str, out: Outbox[Frame]) -> None:
        """Go on over a new connection: what is not acknowledged may have been lost with the old."""
        link = self.sessions.get(participant)
        if link is not None:
            self._send(link, link.unacked, out)

    def ring(self, timer: str, out: Outbox[Frame]) -> None:
        """Handle the timer: sessions that have expired, and the end of abstention.

        A world that has slept delivers what has arrived before it lets the timer ring.
        """
        self.armed = math.inf
        touched = self._end_delays(out)
        delay = self.settings.lock_delay
        for participant in sorted(self.sessions):
            if self._expires(self.sessions[participant]) <= out.now:
                touched += self._drop(participant, out.now + delay if delay else NEVER)
        if self.abstains() and self.abstains_until <= out.now:
            self.abstains_until = NEVER
            touched += sorted(self.ballots)
        self._finish(touched, out)
        ends = [*([self.abstains_until] if self.abstains() else []), *self.delayed.values()]
        self._arm(min([*ends, *map(self._expires, self.sessions.values())], default=math.inf), out)

    def _end_delays(self, out: Outbox[Frame]) -> list[str]:
        over = sorted(lock for lock, until in self.delayed.items() if until <= out.now)
        for lock in over:
            del self.delayed[lock]
        return over

    def _expires(self, link: Downlink) -> float:
        expiry = self.settings.expiry
        return link.heard + (expiry if link.lease is None else self.settings.expiry_of(link.lease))

    def _shorten(self, session: SessionName, lease: float, out: Outbox[Frame]) -> None:
        """Expire a session sooner, as its participant counts a shorter lease than all others.

        A longer one would outlast the abstention after a restart, and is not believed.
        """
        if self._knows(session) and 0 < lease <= self.settings.lease:
            link = self.sessions[session.participant]
            link.lease = lease
            self._arm(self._expires(link), out)

    def _arm(self, due: float, out: Outbox[Frame]) -> None:
        """Arm the timer if it would ring too late; one that rings early finds nothing to do."""
        if due < self.armed:
            self.armed = due
            out.set_timer(VOTER, due - out.now)

    # Frames

    def _take(self, sender: ProcessId, frame: Data | Beat, out: Outbox[Frame]) -> None:
        """Handle what comes in its turn; a frame that brings nothing new is acknowledged."""
        opening = frame.session.nonce is None
        touched = self._open(frame.session, sender, out) if opening else []
        if not self._knows(frame.session):
            if not opening:
                out.send(sender, Nack(frame.session))
            return
        link = self.sessions[frame.session.participant]
        link.peer = sender
        link.accept(frame, out.now)
        self._merge(frame.clock)
        if link.is_overdue(out.now - self.settings.hedge):
            self._send(link, link.unacked, out)
        taken = isinstance(frame, Data) and link.takes(frame.seq)
        if taken and isinstance(frame, Data):
            for body in frame.bodies:
                self._apply(link, body, out)
            touched += [body.lock for body in frame.bodies]
        self._finish(touched, out, None if taken and not opening else link)

    def _knows(self, session: SessionName) -> bool:
        link = self.sessions.get(session.participant)
        if link is None or link.session.number != session.number:
            return False
        return session.nonce in (None, link.session.nonce)

    def _open(self, session: SessionName, sender: ProcessId, out: Outbox[Frame]) -> list[str]:
        """Replace an older session of the participant; a frame older than the session opens none."""
        known = self.sessions.get(session.participant)
        if known is not None and known.session.number >= session.number:
            return []
        touched = self._drop(session.participant)
        self.opened += 1
        named = session._replace(nonce=f"{self.name}/{self.opened}")
        self.sessions[session.participant] = Downlink(named, sender)
        self._arm(out.now + self.settings.expiry, out)
        return touched

    def _finish(
        self, touched: list[str], out: Outbox[Frame], answer: Downlink | None = None
    ) -> None:
        """End a step: give the votes that are free, and send; `answer` gets a frame in any case."""
        self._schedule(touched, out)
        if answer is not None and not answer.pending:
            ack, grace = answer.delivered, self.abstains()
            out.send(answer.peer, Ack(answer.session, ack, self.clock, answer.echo, grace))
        for participant in self.dirty:
            link = self.sessions[participant]
            while link.pending:
                self._send(link, [link.pack(out.now)], out)
        self.dirty.clear()

    def _send(self, link: Downlink, letters: Iterable[Letter], out: Outbox[Frame]) -> None:
        for letter in letters:
            letter.sent = out.now
            reply = Reply(
                link.session,
                letter.seq,
                link.delivered,
                self.clock,
                link.echo,
                self.abstains(),
                letter.bodies,
            )
            out.send(link.peer, reply)
