"""How long a hold is valid, how it is lost, and how lost votes are replaced (section 8)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coterie.mutex.quorum.leased.bid import Bid, State
from coterie.mutex.quorum.leased.bidding import Bidder
from coterie.mutex.quorum.leased.choice import whom_to_ask
from coterie.mutex.quorum.leased.events import Lost

if TYPE_CHECKING:
    from coterie.mutex.quorum.leased.frames import Frame
    from coterie.mutex.quorum.leased.sessions import Loss
    from coterie.process import Outbox, ProcessId


class Keeper(Bidder):
    """The rules for a lock that is held."""

    sound_until: float = math.inf  # up to then no hold can have lapsed since it was last looked at
    unwinds_at: float = math.inf  # when votes of a lost hold are to be given back at the latest

    def valid(self, lock: str, now: float) -> bool:
        """Tell whether the lock is ours at this time of our own clock.

        No two participants get True for a lock at the same real instant, as long as clocks keep
        their rate bound. It is computed from the clock and looks at no flag that may be late.
        """
        return self.remaining(lock, now) > 0

    def remaining(self, lock: str, now: float) -> float:
        """Tell how long the lock stays ours even if no frame comes any more; 0 if it is not ours."""
        bid = self.bids.get(lock)
        if bid is None:
            return 0.0
        return max(0.0, self._valid_until(bid) - now)

    def _valid_until(self, bid: Bid) -> float:
        return bid.valid_until(self.sessions.lease, self.settings.quorums)

    def _look_at_the_clock(self, out: Outbox[Frame]) -> None:
        """8.1: before any input, find out which holds have lapsed; no later frame revives them.

        Leases only grow while a session lives, so nothing needs a look before the earliest end.
        """
        self.sessions.check(out.now)
        if out.now < self.sound_until:
            return
        self.sound_until = math.inf
        for lock, bid in self._holds():
            until = self._valid_until(bid)
            if until <= out.now:
                bid.lost = True
                bid.since = out.now
                self.unwinds_at = min(self.unwinds_at, out.now + self.settings.unwind)
                out.tell(Lost(lock, bid.token))
            else:
                self.sound_until = min(self.sound_until, until)

    def _enter(self, lock: str, token: int, out: Outbox[Frame]) -> None:
        super()._enter(lock, token, out)
        self.sound_until = min(self.sound_until, self._valid_until(self.bids[lock]))

    def _holds(self) -> list[tuple[str, Bid]]:
        """List what is held and not lost, in the order of the names."""
        return [
            (lock, bid)
            for lock, bid in sorted(self.bids.items())
            if bid.state is State.HELD and not bid.lost
        ]

    def _unwind(self, out: Outbox[Frame]) -> None:
        """8.2: give back the votes of lost holds whose users take too long."""
        if out.now < self.unwinds_at:
            return
        self.unwinds_at = math.inf
        for lock, bid in sorted(self.bids.items()):
            if bid.lost and bid.since + self.settings.unwind <= out.now:
                self._withdraw_votes(lock)
            elif bid.lost:
                self.unwinds_at = min(self.unwinds_at, bid.since + self.settings.unwind)

    # Votes that were lost

    def _lose_session(self, voter: ProcessId, loss: Loss, out: Outbox[Frame]) -> None:
        """5.8: a voter has forgotten all our requests, and the votes it gave us."""
        for lock in loss.locks:
            bid = self.bids[lock]
            vote = bid.share(voter).vote
            bid.drop(voter)
            if bid.state is State.WAIT:
                self._request(lock, voter)
            elif bid.state is State.CACHED:
                self._release_without_quorum(lock, bid, out)
            elif not bid.lost:
                if vote is not None and vote.supports(bid.token):
                    bid.share(voter).frozen = loss.lease
                self._repair(lock, bid, out)

    def _release_without_quorum(self, lock: str, bid: Bid, out: Outbox[Frame]) -> None:
        """5.8: a kept lock is no use without a quorum.

        Nor with one that rests on a voter in doubt: the next hold would begin without repair, and
        be lost when that voter's lease ends.
        """
        suspects = self.sessions.suspects(out.now)
        if not self.settings.quorums.contains_quorum(set(bid.votes) - set(suspects)):
            self._release_all(lock)

    def _repair(self, lock: str, bid: Bid, out: Outbox[Frame]) -> None:
        """8.4: get votes for the same token elsewhere, or again, before the old ones lapse.

        A repair vote lies above the floor of its voter, so nobody can have used a larger token
        there; or it rests on the quorum that supports the hold anyway (level 2).
        """
        suspects = self.sessions.suspects(out.now)
        supporters = [voter for voter in bid.supporters() if voter not in suspects]
        if not self.settings.quorums.contains_quorum(supporters):
            for voter in whom_to_ask(self.settings, self.home, supporters, suspects):
                self._request_repair(lock, bid, voter, 1)
        elif self.settings.policy == "all":
            for voter in bid.frozen():
                self._request_repair(lock, bid, voter, 2)

    def _request_repair(self, lock: str, bid: Bid, voter: ProcessId, level: int) -> None:
        share = bid.share(voter)
        if share.repair < level and share.vote is None:
            share.repair = level
            bid.repaired = True
            self._request(lock, voter, level)
