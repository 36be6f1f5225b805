"""A participant: the part of a program that wants locks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coterie.errors import MisuseError, ProtocolError
from coterie.mutex.quorum.leased.bid import State
from coterie.mutex.quorum.leased.events import Acquired
from coterie.mutex.quorum.leased.frames import (
    DownBody,
    Downward,
    Frame,
    Grant,
    Inquire,
    Raised,
)
from coterie.mutex.quorum.leased.reusing import Reuser
from coterie.mutex.quorum.leased.sessions import Sessions
from coterie.mutex.quorum.leased.tokens import Interval

if TYPE_CHECKING:
    from coterie.mutex.quorum.leased.settings import Settings
    from coterie.process import Outbox, ProcessId

PARTICIPANT = "participant"  # the one timer of this part


def participant(settings: Settings, home: ProcessId, lease: float | None = None) -> Participant:
    """Make a participant that asks the quorum of the voter `home` first.

    A `lease` shorter than that of the settings is its own: it is lost, and given to others, sooner.
    """
    own = settings if lease is None else settings.shortened(lease)
    return Participant(own, Sessions(own, shortened=lease is not None), home)


class Participant(Reuser):
    """Any number of locks over one session per voter."""

    armed: float = math.inf  # when the timer rings
    standing: list[int] = []  # of the voters, when the locks were last looked at

    def start(self, name: str, out: Outbox[Frame]) -> None:
        """Begin under a name that no other start of any process has had."""
        self.sessions.start(name)

    # What the user does

    def acquire(self, lock: str, out: Outbox[Frame], *, shared: bool = False) -> None:
        """Ask for a lock, alone or shared; `Acquired` is told once, maybe within this step."""
        token = self.again(lock, out.now, shared=shared)
        if token:
            out.tell(Acquired(lock, token))
            return
        self._look_at_the_clock(out)
        self._acquire(lock, out, shared=shared)
        self._finish_call(lock, out)

    def _acquire(self, lock: str, out: Outbox[Frame], *, shared: bool) -> None:
        bid = self.bids.get(lock)
        if bid is None:
            self._ask_anew(lock, out, shared=shared)
        elif bid.state is State.CACHED:
            self._take_again(lock, out, shared=shared)
        else:
            raise MisuseError(f"lock {lock!r} is asked for already")

    def release(self, lock: str, out: Outbox[Frame]) -> None:
        """Leave; also a hold that was lost ends with this."""
        if self.keep(lock, out.now):
            return
        self._look_at_the_clock(out)
        self._release(lock, out)
        self._finish_call(lock, out)

    def _release(self, lock: str, out: Outbox[Frame]) -> None:
        bid = self.bids.get(lock)
        if bid is None or bid.state is not State.HELD:
            raise MisuseError(f"lock {lock!r} is not held")
        self._leave(lock, out)

    def reenter(self, lock: str, out: Outbox[Frame], *, shared: bool = False) -> None:
        """Leave, and ask again for another task of this process: one frame to each voter."""
        self._look_at_the_clock(out)
        self._release(lock, out)
        self._acquire(lock, out, shared=shared)
        self._finish(out)

    def withdraw(self, lock: str, out: Outbox[Frame]) -> None:
        """Give up waiting; nothing is told about this request any more."""
        self._look_at_the_clock(out)
        bid = self.bids.get(lock)
        if bid is None or bid.state is not State.WAIT:
            raise MisuseError(f"lock {lock!r} is not waited for")
        self._release_all(lock)
        self._finish(out)

    def close(self, out: Outbox[Frame]) -> None:
        """End in good order, so that voters need not wait for a lease to lapse."""
        self._look_at_the_clock(out)
        if set(self.bids) != self.cached:
            raise MisuseError("locks that are held or waited for are to be given back before")
        for lock in sorted(self.cached):
            self._release_all(lock)
        self.sessions.flush(out)
        self.sessions.bid_farewell(out)

    # What happens to it

    def receive(self, voter: ProcessId, frame: Downward, out: Outbox[Frame]) -> None:
        """Handle a frame from a voter."""
        if not 1 <= voter <= self.settings.voters:
            raise ProtocolError(f"process {voter} is no voter, and sent {frame}")
        self._look_at_the_clock(out)
        arrival = self.sessions.receive(voter, frame, out)
        if arrival.lost is not None:
            self._lose_session(voter, arrival.lost, out)
        for body in arrival.bodies:
            self._handle(voter, body, out)
        if arrival.renewed:
            self._retry(voter, out)
        self._finish(out)

    def _handle(self, voter: ProcessId, body: DownBody, out: Outbox[Frame]) -> None:
        lock = body.lock
        bid = self.bids.get(lock)
        # A Release for anything else was sent in this session before.
        if bid is None or body.number != bid.number:
            return
        if lock not in self.sessions.uplink(voter).locks:
            return
        match body:
            case Grant(_, _, low, high, more):
                self._count(lock, voter, Interval(low, high), more, out)
            case Raised(_, _, _, high):
                self._take_raised(lock, voter, high, out)
            case Inquire(_, _, level):
                self._answer(lock, voter, level, out)

    def _retry(self, voter: ProcessId, out: Outbox[Frame]) -> None:
        """5.9: votes of a voter whose lease runs again count for those who wait."""
        for lock in sorted(self.sessions.uplink(voter).locks):
            bid = self.bids[lock]
            if bid.state is State.WAIT and bid.share(voter).vote:
                self._try(lock, out)

    def connected(self, voter: ProcessId, out: Outbox[Frame]) -> None:
        """Go on over a new connection to a voter."""
        self._look_at_the_clock(out)
        self.sessions.connected(voter, out)
        self._finish(out)

    def ring(self, timer: str, out: Outbox[Frame]) -> None:
        """Handle the timer: heartbeats, silence, suspicion, repair, and the end of patience."""
        self.armed = math.inf
        self._look_at_the_clock(out)
        self.sessions.beat(out)
        self._finish(out)

    def _look_at_voters(self, out: Outbox[Frame]) -> None:
        """8.4, 10: if voters stand otherwise than before, requests may have to go elsewhere."""
        standing = self.sessions.standing(out.now)
        if standing == self.standing:
            return
        self.standing = standing
        for lock, bid in sorted(self.bids.items()):
            if bid.state is State.WAIT:
                self._reconsider(lock, out)
            elif bid.state is State.CACHED:
                self._release_without_quorum(lock, bid, out)
            elif not bid.lost:
                self._repair(lock, bid, out)

    def _finish(self, out: Outbox[Frame]) -> None:
        """End a step: send what it created, and arm the timer if it has to ring earlier."""
        self._unwind(out)
        self._look_at_voters(out)
        self.sessions.flush(out)
        self._arm(self.sessions.deadline(out.now), out)

    def _finish_call(self, lock: str, out: Outbox[Frame]) -> None:
        """End a call; one that sends nothing and waits for nothing leaves all else as it was."""
        bid = self.bids.get(lock)
        if self.sessions.is_quiet() and (bid is None or bid.state is not State.WAIT):
            self._arm(math.inf, out)
        else:
            self._finish(out)

    def _arm(self, due: float, out: Outbox[Frame]) -> None:
        due = min(due, self.sound_until, self.unwinds_at)
        if due < self.armed:
            self.armed = due
            out.set_timer(PARTICIPANT, due - out.now)
