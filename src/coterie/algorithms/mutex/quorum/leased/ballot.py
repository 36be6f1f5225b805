"""One lock at one voter: the owners of the vote, the queue, and the tokens used up (section 6)."""

from __future__ import annotations

from bisect import insort

import msgspec
from msgspec import field


class Claim(msgspec.Struct, array_like=True, gc=False):
    """A request that lies with the voter."""

    participant: str
    number: int
    age: int
    stamp: int
    hold: int
    shared: bool = False
    writer: int = 0  # age of a task of this participant that waits behind it to be alone; 0: none

    def order(self) -> tuple[bool, int, str]:
        """Repairs come first, for they belong to holds; then the oldest, in one order everywhere."""
        return (not self.hold, self.age, self.participant)

    def writer_order(self) -> tuple[bool, int, str]:
        """17: return the place of the task behind this claim that wants the lock alone."""
        return (True, self.writer, self.participant)


class Tenure(msgspec.Struct, array_like=True, gc=False):
    """The vote in the hands of a request."""

    claim: Claim
    low: int
    high: int
    told: int = 0  # the highest level that the owner was told of

    def belongs_to(self, participant: str, number: int) -> bool:
        """Return whether this very request has the vote."""
        return (self.claim.participant, self.claim.number) == (participant, number)


class Ballot(msgspec.Struct, array_like=True, gc=False):
    """One owner, or any number of them that share, and a queue."""

    floor: int  # every token up to it may have been used
    owners: list[Tenure] = field(default_factory=list)  # one alone, or all in shared mode
    queue: list[Claim] = field(default_factory=list)  # in order

    def owned_by(self, participant: str, number: int) -> Tenure | None:
        """Return the tenure of this very request, if it has the vote."""
        for owner in self.owners:
            if owner.belongs_to(participant, number):
                return owner
        return None

    def tenures(self, participant: str) -> list[Tenure]:
        """List what a participant has, whatever the request."""
        return [owner for owner in self.owners if owner.claim.participant == participant]

    def put(self, claim: Claim) -> None:
        """6.1: queue a request in the place of an earlier one; of an owner take what is new."""
        tenure = self.owned_by(claim.participant, claim.number)
        if tenure is not None:
            tenure.claim.hold = max(tenure.claim.hold, claim.hold)
            tenure.claim.writer = claim.writer
            return
        if not self.queue:
            self.queue.append(claim)
            return
        self.remove(claim.participant)
        insort(self.queue, claim, key=Claim.order)

    def remove(self, participant: str) -> None:
        """Take the request of a participant out of the queue."""
        self.queue = [claim for claim in self.queue if claim.participant != participant]

    def take_back(self, tenure: Tenure, used: int) -> None:
        """End a tenure; tokens of its interval up to `used` may have been used."""
        # Every later interval begins above the floor, so a token is never handed out twice and
        # later owners have larger ones (11.4). Tokens of a sharer count as well: the next exclusive
        # owner has to begin above them all. A participant may have used a token above the interval
        # with the votes of others, but none with this vote; and a floor never comes down again, so
        # it rises to no number that this voter has not handed out.
        self.floor = max(self.floor, min(used, tenure.high))
        self.owners.remove(tenure)

    def has_queued(self, participant: str, number: int) -> bool:
        """Return whether this very request is in the queue."""
        return any((c.participant, c.number) == (participant, number) for c in self.queue)

    def concerns(self, participant: str) -> bool:
        """Return whether the participant has the vote or waits for it."""
        if not self.owners and not self.queue:
            return False
        claims = [*self.queue, *(owner.claim for owner in self.owners)]
        return any(claim.participant == participant for claim in claims)

    def next(self) -> Claim | None:
        """6.5, 17: return the head of the queue if it may have the vote: alone, or with sharers.

        No request behind it is looked at, so a sharer does not pass an older exclusive request; nor
        does it join an owner of which an older task waits to be alone.
        """
        if not self.queue:
            return None
        head = self.queue[0]
        if not self.owners:
            return head
        # Exclusion rests on this line (11.1, I1): one owner, or owners that all share.
        if not (head.shared and self.owners[0].claim.shared):
            return None
        # This gives fewer votes, never more, so exclusion does not rest on it. The request of such
        # an owner is older than its task that waits, and that is older than the head: a request
        # waits here for older ones only, and the oldest of all for none (11.6).
        writers = (owner.claim for owner in self.owners if owner.claim.writer)
        if any(claim.writer_order() < head.order() for claim in writers):
            # sometimes: a sharer waits behind a task that waits in the program of an owner
            return None
        return head

    def level(self, tenure: Tenure) -> int:
        """6.5: return how urgent it is for an owner that others wait; 0 if none does.

        17: a task of another owner that waits to be alone counts as one.
        """
        if not self.queue:
            if len(self.owners) == 1:
                return 0
            return int(any(other.claim.writer for other in self.owners if other is not tenure))
        return 2 if self.queue[0].order() < tenure.claim.order() else 1

    def discard_hopeless(self) -> list[Claim]:
        """6.5: remove repairs whose token this voter can no longer support."""
        hopeless = [claim for claim in self.queue if claim.hold == 1 and claim.stamp <= self.floor]
        self.queue = [claim for claim in self.queue if claim not in hopeless]
        return hopeless

    def elect(self, length: int) -> Tenure:
        """6.5: give the vote to the next request, with tokens that were never used before."""
        claim = self.next()
        assert claim is not None, "the head of the queue may have the vote"
        self.queue.remove(claim)
        # Intervals begin above the floor. Only a repair with proof gets a token that is in use: its
        # own, and no other, which a quorum without this voter supports. Sharers that own the vote
        # at the same time may get the same tokens, as none of them has to come first.
        if claim.hold == 2:
            # sometimes: a repair with proof gets a token that is in use
            tenure = Tenure(claim, claim.stamp, claim.stamp)
        else:
            low = max(claim.stamp, self.floor + 1)
            tenure = Tenure(claim, low, low + length - 1)
        self.owners.append(tenure)
        return tenure

    def is_idle(self) -> bool:
        """Return whether no participant has the vote or waits for it."""
        return not self.owners and not self.queue
