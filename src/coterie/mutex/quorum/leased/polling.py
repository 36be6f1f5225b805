"""How a voter gives its vote for each lock, and takes it back (sections 6 and 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from coterie.mutex.quorum.leased.ballot import Ballot, Claim, Tenure
from coterie.mutex.quorum.leased.downlink import Downlink
from coterie.mutex.quorum.leased.frames import (
    DownBody,
    Frame,
    Grant,
    Inquire,
    Raise,
    Raised,
    Release,
    Request,
    UpBody,
    Yield,
)
from coterie.mutex.quorum.leased.settings import Settings
from coterie.mutex.quorum.leased.tokens import NEVER

if TYPE_CHECKING:
    from coterie.process import Outbox

FAR = 1 << 40  # numbers further ahead are cut, so that one broken clock cannot use them all up


class Poll(msgspec.Struct, array_like=True):
    """The votes of one process: for each lock one owner at a time, or several that share."""

    settings: Settings
    clock: int = 0  # Lamport's
    bound: int = 0  # on stable storage: no token above it was ever handed out
    floor: int = 0  # of the locks that have no ballot
    abstains_until: float = NEVER  # after a restart
    sessions: dict[str, Downlink] = field(default_factory=dict)  # by participant
    ballots: dict[str, Ballot] = field(default_factory=dict)  # of the locks that are not idle
    dirty: list[str] = field(default_factory=list)  # participants with something pending
    delayed: dict[str, float] = field(default_factory=dict)  # locks, and until when

    def abstains(self) -> bool:
        """Tell whether it gives no votes yet."""
        return self.abstains_until > NEVER

    def _apply(self, link: Downlink, body: UpBody, out: Outbox[Frame]) -> None:
        """Handle one lock message; the vote is given when all of the frame are handled."""
        participant = link.session.participant
        ballot = self.ballots.get(body.lock)
        if ballot is None:
            ballot = self.ballots[body.lock] = Ballot(self.floor)
        tenure = ballot.owned_by(participant, body.number)
        match body:
            case Request(lock, number, age, stamp, hold, shared):
                link.locks.add(lock)
                ballot.put(Claim(participant, number, age, self._cut(stamp), hold, shared))
            case Yield(_, _, used) if tenure is not None:
                self._take_back(ballot, tenure, used)
                ballot.put(tenure.claim)
            case Release(lock, number, used):
                if tenure is not None:
                    self._take_back(ballot, tenure, used)
                elif ballot.has_queued(participant, number):
                    ballot.remove(participant)
                if not ballot.concerns(participant):
                    link.locks.discard(lock)
            case Raise(lock, number, token) if tenure is not None:
                self._raise(tenure, self._cut(token), out)
                self._post(participant, Raised(lock, number, tenure.low, tenure.high))
            case Yield() | Raise():
                pass  # the vote was taken back before: the participant will hear of it

    def _take_back(self, ballot: Ballot, tenure: Tenure, floor: int) -> None:
        ballot.take_back(tenure, floor)
        self._merge(ballot.floor)

    def _raise(self, tenure: Tenure, token: int, out: Outbox[Frame]) -> None:
        """6.4: move the interval up."""
        tenure.low = max(tenure.low, token)
        tenure.high = max(tenure.high, tenure.low + self.settings.interval - 1)
        self._cover(tenure, out)

    def _drop(self, participant: str, delayed_until: float = NEVER) -> list[str]:
        """6.6: forget a session. Nobody can say what its owner has used, so all its tokens count.

        Returns the locks that are to be scheduled; nobody gets a vote that it had before the time.
        """
        link = self.sessions.pop(participant, None)
        if link is None:
            return []
        for lock in link.locks:
            ballot = self.ballots[lock]
            ballot.remove(participant)
            for tenure in ballot.tenures(participant):
                self._take_back(ballot, tenure, tenure.high)
                if delayed_until > NEVER:
                    self.delayed[lock] = delayed_until
        return sorted(link.locks)

    def _schedule(self, locks: list[str], out: Outbox[Frame]) -> None:
        """6.5, 6.7: give each free vote to the next in its queue; forget what is idle."""
        for lock in dict.fromkeys(locks):
            ballot = self.ballots.get(lock)
            if ballot is None:
                continue
            if not self.abstains():
                self._elect_or_inquire(lock, ballot, out)
            if ballot.is_idle():
                self.floor = max(self.floor, ballot.floor)
                del self.ballots[lock]

    def _elect_or_inquire(self, lock: str, ballot: Ballot, out: Outbox[Frame]) -> None:
        """6.5, 17: give the vote to all who may have it now; let owners know of those who wait."""
        granted = []
        while self._is_free(lock, ballot):
            tenure = ballot.elect(self.settings.interval)
            self._cover(tenure, out)
            granted.append(tenure)
        for tenure in granted:
            self._grant(lock, ballot, tenure)
        for tenure in ballot.owners:
            if ballot.queue or tenure.told:
                self._inquire(lock, ballot, tenure)

    def _is_free(self, lock: str, ballot: Ballot) -> bool:
        """Tell whether the next may have the vote; repairs that would be in vain are forgotten."""
        if ballot.next() is not None:
            for claim in ballot.discard_hopeless():
                self.sessions[claim.participant].locks.discard(lock)
        head = ballot.next()
        return head is not None and not self._is_delayed(lock, head)

    def _is_delayed(self, lock: str, claim: Claim) -> bool:
        """13: keep a vote back for a while that nobody gave back; a repair is of the hold it was for."""
        return lock in self.delayed and not claim.hold

    def _inquire(self, lock: str, ballot: Ballot, tenure: Tenure) -> None:
        """6.5: let an owner know that somebody waits, and again if it is somebody older.

        17: one who shares hears that nobody waits any more, for then others may join it at home.
        """
        level = ballot.level(tenure)
        is_over = tenure.claim.shared and not level and tenure.told
        if level > tenure.told or is_over:
            tenure.told = level
            claim = tenure.claim
            self._post(claim.participant, Inquire(lock, claim.number, level))

    def _grant(self, lock: str, ballot: Ballot, tenure: Tenure) -> None:
        claim, more = tenure.claim, bool(ballot.queue)
        tenure.told = 1 if more else 0
        grant = Grant(lock, claim.number, tenure.low, tenure.high, more)
        self._post(claim.participant, grant)

    def _post(self, participant: str, body: DownBody) -> None:
        """Put a lock message into the frame that this step will send."""
        link = self.sessions[participant]
        if not link.pending:
            self.dirty.append(participant)
        link.pending.append(body)

    # Numbers

    def raise_floor(self, floor: int) -> None:
        """7: numbers up to this one may have been used with votes that a lost disk knew of."""
        self.floor = max(self.floor, floor)
        for ballot in self.ballots.values():
            ballot.floor = max(ballot.floor, floor)
        self._merge(floor)

    def _cover(self, tenure: Tenure, out: Outbox[Frame]) -> None:
        """7: the bound on stable storage covers what is handed out, before it leaves."""
        self._merge(tenure.low)
        if tenure.high > self.bound:
            self.bound = tenure.high + self.settings.reserve
            out.save(str(self.bound).encode())

    def _merge(self, clock: int) -> None:
        self.clock = max(self.clock, self._cut(clock))

    def _cut(self, stamp: int) -> int:
        return min(stamp, self.clock + FAR)
