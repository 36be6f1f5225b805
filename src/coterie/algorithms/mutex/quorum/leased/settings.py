"""The numbers of the protocol, equal at all participants and voters of a cluster."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from coterie.coteries import parse_coterie

if TYPE_CHECKING:
    from coterie.coteries import Coterie

Policy: TypeAlias = Literal["all", "quorum"]


class Settings(msgspec.Struct, frozen=True, array_like=True):
    """What has to be the same everywhere. Times are in seconds, or in any unit if all are."""

    voters: int  # they are processes 1 to this
    coterie: str = "majority"  # of the voters, as `parse_coterie` reads it
    policy: Policy = "all"  # which voters to ask: all, or one quorum
    lease: float = 10.0  # how long a vote counts, from the sending of the last frame answered
    rate_error: float = 0.005  # clocks run at a rate between 1 - this and 1 + this
    margin: float = 0.25  # granularity of timers, and rounding
    heartbeat: float = 2.5  # the longest time between frames of a session in use
    hedge: float = 2.0  # a voter that owes an answer for longer is suspected
    unwind: float = 10.0  # how long votes of a lost hold are kept for the user to finish
    interval: int = 1 << 20  # tokens that come with a vote
    reserve: int = 1 << 24  # tokens that one write to stable storage is good for
    lazy: bool = True  # keep the votes on exit until another participant asks
    cached_max: int = 1024  # locks that one participant keeps that way
    lock_delay: float = 0.0  # how long a vote that ended by expiry is kept back (13)

    @property
    def expiry(self) -> float:
        """How long a voter waits for a silent participant, and abstains after a restart."""
        return self.expiry_of(self.lease)

    def expiry_of(self, lease: float) -> float:
        """Return how long a voter waits for a silent participant that counts this lease.

        The participant counts from sending and stops when its clock has advanced by the lease; the
        voter counts from handling, which is later, and waits for this long on its own clock. With
        rates within 1 - r and 1 + r the participant's lease takes at most lease / (1 - r) of real
        time, and this takes at least (lease (1 + r) / (1 - r)) / (1 + r), the same. So every
        participant has stopped before its voter gives the vote to another (lease lemma, 11.2).
        """
        return lease * (1 + self.rate_error) / (1 - self.rate_error) + self.margin

    def shortened(self, lease: float) -> Settings:
        """Return the numbers of a participant whose lease is shorter than that of all.

        The lease lemma holds for it as for the others: its voters expire its sessions by its own
        lease, and after a restart they abstain by the longest one.
        """
        assert 0 < lease <= self.lease, "voters abstain for no longer than the lease of all"
        return msgspec.structs.replace(
            self,
            lease=lease,
            heartbeat=min(self.heartbeat, lease / 4),
            hedge=min(self.hedge, lease / 5),
            unwind=lease,
        )

    @property
    def quorums(self) -> Coterie:
        """The coterie, as a value."""
        return _parse(self.coterie, self.voters)


@functools.cache
def _parse(text: str, voters: int) -> Coterie:
    """Parse once: processes hold the text, which encodes in a few bytes whatever the coterie."""
    return parse_coterie(text, voters)
