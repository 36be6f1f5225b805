"""What a participant knows about one lock that it wants, holds or keeps."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from coterie.mutex.quorum.leased.tokens import NEVER, Interval, fit, last_instant
from coterie.process import ProcessId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from coterie.coteries import Coterie


class State(enum.IntEnum):
    """Where a lock stands at a participant; one that is idle is not kept at all."""

    WAIT = 0
    HELD = 1
    CACHED = 2


class Bid(msgspec.Struct, array_like=True):
    """One request, the votes it got, and the holds made with them."""

    number: int  # of the request, among all requests of this participant
    age: int  # stamp of the first issue: with the participant's name the order of requests
    stamp: int
    state: State = State.WAIT
    votes: dict[ProcessId, Interval] = field(default_factory=dict)
    raising: dict[ProcessId, int] = field(default_factory=dict)  # asked to move up to that token
    wanted: bool = False  # somebody else waits
    parked: bool = False  # withdrawn until a quorum can be reached
    token: int = 0  # of the latest hold
    lost: bool = False  # the hold lapsed; final
    frozen: dict[ProcessId, float] = field(default_factory=dict)  # of lost sessions: until when
    repairs: dict[ProcessId, int] = field(default_factory=dict)  # level of hold asked for
    repaired: bool = False  # the hold used repair
    since: float = NEVER  # when it was lost, or put into the cache

    def fit(self, leased: Collection[ProcessId], quorums: Coterie) -> int | None:
        """Give the token to enter with, from votes that count; see `tokens.fit`."""
        votes = {voter: self.votes[voter] for voter in self.votes if voter in leased}
        return fit(votes, self.token, quorums)

    def supporters(self) -> list[ProcessId]:
        """List the voters whose vote is in hand and gives the right to the token of the hold."""
        return [voter for voter in self.votes if self.votes[voter].supports(self.token)]

    def valid_until(self, lease: Callable[[ProcessId], float], quorums: Coterie) -> float:
        """Give the time up to which the hold is ours if no further frame comes.

        The vote of a lost session counts up to the lease it had: until then the voter is in grace,
        or it has expired the session, and then the lease is over.
        """
        if self.state is not State.HELD or self.lost:
            return NEVER
        until = self.frozen | {voter: lease(voter) for voter in self.supporters()}
        return last_instant(until, quorums)

    def vote(self, voter: ProcessId, interval: Interval) -> None:
        """Take a vote, or a new interval for it."""
        self.votes[voter] = interval
        self.raising.pop(voter, None)
        if interval.supports(self.token):
            self.frozen.pop(voter, None)

    def drop(self, voter: ProcessId) -> Interval | None:
        """Forget the vote of a voter, and all that was asked of it."""
        self.raising.pop(voter, None)
        self.repairs.pop(voter, None)
        return self.votes.pop(voter, None)
