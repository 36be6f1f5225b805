"""What a participant knows about one lock that it wants, holds or keeps."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import msgspec

from coterie.algorithms.mutex.quorum.leased.claimed import ClaimedValue
from coterie.algorithms.mutex.quorum.leased.votes import NEVER, Interval, last_instant
from coterie.process import ProcessId

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.coteries import Coterie


class State(enum.IntEnum):
    """Where a lock stands at a participant; one that is idle is not kept at all."""

    WAIT = 0
    HELD = 1
    CACHED = 2


class Share(msgspec.Struct, array_like=True, gc=False):
    """What one voter has to do with a bid."""

    voter: ProcessId
    vote: Interval | None = None
    raising: int = 0  # it was asked to move the interval up to this token
    frozen: float = NEVER  # the session is lost, but the vote supports the hold up to then
    repair: int = 0  # level of hold that it was asked for
    wanted: bool = False  # another participant waits there for what we share


class Bid(msgspec.Struct, array_like=True, gc=False):
    """One request, the votes it got, and the holds made with them."""

    number: int  # of the request, among all requests of this participant
    age: int  # stamp of the first issue: with the participant's name the order of requests
    stamp: int
    shares: list[Share]  # of the voters that there are sessions with, in the same order
    state: State = State.WAIT
    wanted: bool = False  # another participant waits
    parked: bool = False  # withdrawn until a quorum can be reached
    token: int = 0  # of the latest hold
    lost: bool = False  # the hold lapsed; final
    repaired: bool = False  # the hold used repair
    since: float = NEVER  # when it was lost, or put into the cache
    shared: bool = False  # with others that share; holds made with these votes are shared, too
    writer: int = 0  # age of the first task here that waits behind it to be alone; 0: none
    value: ClaimedValue | None = None  # as far as a voter or our user has spoken of it

    def share(self, voter: ProcessId) -> Share:
        """Return what a voter has to do with the bid."""
        for share in self.shares:
            if share.voter == voter:
                return share
        raise KeyError(voter)

    @property
    def votes(self) -> dict[ProcessId, Interval]:
        """The votes in hand."""
        return {share.voter: share.vote for share in self.shares if share.vote}

    def supporters(self) -> list[ProcessId]:
        """List the voters whose vote is in hand and gives the right to the token of the hold."""
        token, shares = self.token, self.shares
        return [share.voter for share in shares if share.vote and share.vote.supports(token)]

    def frozen(self) -> dict[ProcessId, float]:
        """Return the votes of lost sessions that support the hold, and until when."""
        return {share.voter: share.frozen for share in self.shares if share.frozen > NEVER}

    def cut(self, latest: float) -> None:
        """Let what is frozen count up to this time at most."""
        for share in self.shares:
            share.frozen = min(share.frozen, latest)

    def valid_until(self, lease: Callable[[ProcessId], float], quorums: Coterie) -> float:
        """Return the time up to which the hold is ours if no further frame comes.

        The vote of a lost session counts up to the lease it had (8.3): until then the voter is down
        or abstains, or it has expired the session, and then that lease is over.
        """
        if self.state is not State.HELD or self.lost:
            return NEVER
        until = self.frozen() | {voter: lease(voter) for voter in self.supporters()}
        return last_instant(until, quorums)

    def take(self, voter: ProcessId, vote: Interval) -> None:
        """Take a vote, or a new interval for it."""
        share = self.share(voter)
        share.vote = vote
        share.raising = 0
        if vote.supports(self.token):
            share.frozen = NEVER

    def drop(self, voter: ProcessId) -> None:
        """Forget the vote of a voter, and what was asked of it; a frozen vote stays so."""
        share = self.share(voter)
        share.vote = None
        share.raising = share.repair = 0
        share.wanted = False
        if self.value is not None:
            self.value.drop(voter)

    def hear(self, voter: ProcessId, *, wanted: bool) -> None:
        """Note that another waits at a voter, or that none does any more, which only sharers hear."""
        if not self.shared:
            self.wanted = self.wanted or wanted
            return
        self.share(voter).wanted = wanted
        self.wanted = any(share.wanted for share in self.shares)

    def enter(self, token: int) -> None:
        """Begin a hold; what was frozen supported the one before, and no other."""
        self.state = State.HELD
        self.token = token
        if self.value is not None:
            self.value.begin()
        for share in self.shares:
            share.frozen = NEVER
