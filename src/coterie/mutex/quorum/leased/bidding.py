"""How a participant gets a lock, keeps it and gives it back (sections 5 and 10 of the protocol)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from coterie.mutex.quorum.leased.bid import Bid, Share, State
from coterie.mutex.quorum.leased.choice import whom_to_ask
from coterie.mutex.quorum.leased.events import Acquired, Unwanted
from coterie.mutex.quorum.leased.frames import Frame, Raise, Release, Request, Yield
from coterie.mutex.quorum.leased.sessions import Sessions
from coterie.mutex.quorum.leased.settings import Settings
from coterie.mutex.quorum.leased.tokens import fit
from coterie.process import Outbox, ProcessId

if TYPE_CHECKING:
    from coterie.mutex.quorum.leased.tokens import Interval


class Bidder(msgspec.Struct, array_like=True):
    """The rules for one request at a time per lock, any number of locks."""

    settings: Settings
    sessions: Sessions
    home: ProcessId  # the voter whose quorum is asked first
    requests: int = 0  # made so far, over all locks
    bids: dict[str, Bid] = field(default_factory=dict)  # locks that are not idle
    cached: set[str] = field(default_factory=set)  # those of them that are kept unused

    def _ask_anew(self, lock: str, out: Outbox[Frame], *, shared: bool, age: int = 0) -> None:
        """5.1: make a request that is younger than all requests heard of, unless it has an age."""
        self.sessions.clock += 1
        self.requests += 1
        stamp = self.sessions.clock
        shares = [Share() for _ in range(self.settings.voters)]
        self.bids[lock] = Bid(self.requests, age or stamp, stamp, shares, shared=shared)
        self._reconsider(lock, out)

    def _ask(self, lock: str, out: Outbox[Frame]) -> None:
        """Send the request to the voters of a quorum that have not got it."""
        asked = self.sessions.asked(lock)
        suspects = self.sessions.suspects(out.now)
        for voter in whom_to_ask(self.settings, self.home, asked, suspects):
            self._request(lock, voter)

    def _request(self, lock: str, voter: ProcessId, hold: int = 0) -> None:
        bid = self.bids[lock]
        stamp = bid.token if hold else bid.stamp
        self.sessions.uplink(voter).locks.add(lock)
        self.sessions.post(voter, Request(lock, bid.number, bid.age, stamp, hold, bid.shared))

    # Entering

    def _try(self, lock: str, out: Outbox[Frame]) -> None:
        """5.4: enter if a quorum of leased votes has a common token; else make it have one."""
        token = self._fit(lock, out)
        if token:
            self._enter(lock, token, out)
        elif token == 0:
            self._raise(lock, out)

    def _fit(self, lock: str, out: Outbox[Frame]) -> int | None:
        return fit(self._leased_votes(lock, out), self.bids[lock].token, self.settings.quorums)

    def _leased_votes(self, lock: str, out: Outbox[Frame]) -> dict[ProcessId, Interval]:
        votes, lease = self.bids[lock].votes, self.sessions.lease
        return {voter: vote for voter, vote in votes.items() if lease(voter) > out.now}

    def _enter(self, lock: str, token: int, out: Outbox[Frame]) -> None:
        """5.3: each acquisition has a token of its own, above all that were used before."""
        self._begin(lock, token)
        out.tell(Acquired(lock, token))

    def _begin(self, lock: str, token: int) -> None:
        self.bids[lock].enter(token)
        self.cached.discard(lock)
        self.sessions.merge(token)

    def _raise(self, lock: str, out: Outbox[Frame]) -> None:
        """5.4: ask the voters whose intervals end too early to move them up; the votes stay ours."""
        bid = self.bids[lock]
        votes = self._leased_votes(lock, out)
        token = max([bid.token + 1, *(vote.low for vote in votes.values())])
        for voter, vote in votes.items():
            share = bid.share(voter)
            if vote.high < token and share.raising != token:
                share.raising = token
                self.sessions.post(voter, Raise(lock, bid.number, token))

    def _fetch_ahead(self, lock: str, bid: Bid) -> None:
        """7: have intervals moved up when half of them is used, so that no entry waits for it."""
        for voter, vote in bid.votes.items():
            share = bid.share(voter)
            is_short = vote.high - bid.token < self.settings.interval // 2
            if is_short and not share.raising:
                share.raising = bid.token
                self.sessions.post(voter, Raise(lock, bid.number, bid.token))

    # What voters say

    def _count(
        self, lock: str, voter: ProcessId, vote: Interval, more: bool, out: Outbox[Frame]
    ) -> None:
        """5.4: a vote has come."""
        bid = self.bids[lock]
        bid.take(voter, vote)
        bid.hear(voter, wanted=more)
        if bid.state is State.WAIT:
            self._try(lock, out)
        elif bid.state is State.CACHED and bid.wanted:
            self._release_all(lock)

    def _take_raised(self, lock: str, voter: ProcessId, high: int, out: Outbox[Frame]) -> None:
        """5.5: an interval reaches further up.

        Its lower tokens stay ours, being above the floor: a hold begun meanwhile may use one.
        """
        bid = self.bids[lock]
        vote = bid.share(voter).vote
        if vote is None:
            return
        bid.take(voter, vote._replace(high=high))
        if bid.state is State.WAIT:
            self._try(lock, out)

    def _answer(self, lock: str, voter: ProcessId, level: int, out: Outbox[Frame]) -> None:
        """5.6: somebody else waits. Who waits, too, always yields to an older one, at once.

        A lock that is only kept goes back as a whole at the first sign of a waiter.
        """
        bid = self.bids[lock]
        if bid.share(voter).vote is None:
            return
        bid.hear(voter, wanted=level > 0)
        if not level:
            if bid.state is State.HELD and not bid.wanted:
                out.tell(Unwanted(lock))
        elif bid.state is State.CACHED:
            self._release_all(lock)
        elif bid.state is State.WAIT and level == 2:
            bid.drop(voter)
            self.sessions.post(voter, Yield(lock, bid.number, bid.token))

    # Giving back

    def _leave(self, lock: str, out: Outbox[Frame]) -> None:
        """5.7: keep the votes for next time, if nobody else has asked and nothing went wrong."""
        bid = self.bids[lock]
        if self._is_spoiled(bid) or not self.settings.quorums.contains_quorum(bid.votes):
            self._release_all(lock)
            return
        self._put_by(lock, out.now)
        self._fetch_ahead(lock, bid)
        if len(self.cached) > self.settings.cached_max:
            self._evict()

    def _is_spoiled(self, bid: Bid) -> bool:
        return bid.wanted or bid.lost or bid.repaired or not self.settings.lazy

    def _put_by(self, lock: str, now: float) -> None:
        bid = self.bids[lock]
        bid.state = State.CACHED
        bid.since = now
        self.cached.add(lock)

    def _evict(self) -> None:
        """5.7: give back the eighth of the kept locks that was used longest ago, in few frames."""
        oldest = sorted(self.cached, key=lambda lock: (self.bids[lock].since, lock))
        for lock in oldest[: 1 + len(oldest) // 8]:
            self._release_all(lock)

    def _withdraw_votes(self, lock: str) -> None:
        bid = self.bids[lock]
        for voter in self.sessions.asked(lock):
            self.sessions.uplink(voter).locks.remove(lock)
            self.sessions.post(voter, Release(lock, bid.number, bid.token))
            bid.drop(voter)

    def _release_all(self, lock: str) -> None:
        """5.7: all votes go back together, and every request is withdrawn."""
        self._withdraw_votes(lock)
        self.cached.discard(lock)
        del self.bids[lock]

    # Voters come and go

    def _reconsider(self, lock: str, out: Outbox[Frame]) -> None:
        """10: ask others in place of suspects; park where no quorum can be reached, and resume."""
        bid = self.bids[lock]
        if not self.settings.quorums.contains_quorum(self.sessions.reachable()):
            self._withdraw_votes(lock)
            bid.parked = True
        elif bid.parked:
            self._ask_anew(lock, out, shared=bid.shared, age=bid.age)
        else:
            self._ask(lock, out)
            self._try(lock, out)
