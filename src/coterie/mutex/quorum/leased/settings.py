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
    policy: Policy = "all"  # whom to ask: all voters, or one quorum
    lease: float = 10.0  # a vote counts so long after the sending of the last frame answered
    rate_error: float = 0.005  # clocks run at a rate between 1 - this and 1 + this
    margin: float = 0.25  # granularity of timers, and rounding
    heartbeat: float = 2.5  # the longest time between frames of a session in use
    hedge: float = 2.0  # a voter that does not answer for so long is suspected
    unwind: float = 10.0  # votes of a lost hold are kept so long for the user to finish
    interval: int = 1 << 20  # tokens that come with a vote
    reserve: int = 1 << 24  # tokens that one write to stable storage is good for
    lazy: bool = True  # keep the votes on exit until somebody else asks
    cached_max: int = 1024  # locks that one participant keeps so
    lock_delay: float = 0.0  # a vote that came back by expiry is given to nobody for so long

    @property
    def expiry(self) -> float:
        """How long a voter waits for a silent participant, and abstains after a restart.

        Two clocks at the ends of their bound drift apart by (1 + r) / (1 - r), so this is longer
        than a lease on every participant's clock.
        """
        return self.expiry_of(self.lease)

    def expiry_of(self, lease: float) -> float:
        """Tell how long a voter waits for a silent participant that counts this lease."""
        return lease * (1 + self.rate_error) / (1 - self.rate_error) + self.margin

    def shortened(self, lease: float) -> Settings:
        """Give the numbers of a participant whose lease is shorter than that of all.

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
