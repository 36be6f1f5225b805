"""Quorums by votes (Thomas 1979, Gifford 1979): any members that together have enough of them.

With more than half of all votes needed, two quorums cannot be disjoint. One vote each makes the
majority; all votes on one member make the centralised system; needing all votes makes unanimity.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import TYPE_CHECKING

from coterie.coteries.availability import Availability
from coterie.coteries.coterie import Coterie, Quorum, in_order, refuse_long_list
from coterie.coteries.load import Load
from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


VOTES_MAX = 10_000  # what is counted of votes takes room for each of them


def weighted(votes: Mapping[int, int], threshold: int | None = None) -> Votes:
    """Need `threshold` votes of all (by default more than half); members may have no vote."""
    return Votes(votes, threshold)


def majority(members: Iterable[int]) -> Votes:
    """Need more than half of the members."""
    return Votes(dict.fromkeys(members, 1))


def singleton(members: Iterable[int], chosen: int | None = None) -> Votes:
    """Need one member only: the `chosen` one, by default the first."""
    everyone = sorted(members)
    favourite = everyone[0] if chosen is None and everyone else chosen
    return Votes({member: int(member == favourite) for member in everyone})


def unanimous(members: Iterable[int]) -> Votes:
    """Need all members."""
    everyone = sorted(members)
    return Votes(dict.fromkeys(everyone, 1), threshold=len(everyone))


class Votes(Coterie):
    """The coterie of the smallest sets of members with at least `threshold` votes."""

    def __init__(self, votes: Mapping[int, int], threshold: int | None = None) -> None:
        """Distribute the votes and set the threshold, by default the smallest that is safe."""
        total = sum(votes.values())
        needed = total // 2 + 1 if threshold is None else threshold
        if min(votes.values(), default=0) < 0:
            raise UsageError("votes cannot be negative")
        if total > VOTES_MAX:
            raise UsageError(
                f"more than {VOTES_MAX:,} votes in all are too many to count with:"
                " give smaller counts in about the same proportion"
            )
        if total < 1:
            raise ConfigError("at least one member must have a vote")
        if not total < 2 * needed <= 2 * total:
            raise ConfigError(
                f"{needed} of {total} votes do not make a coterie: the threshold must be more than"
                f" half of the votes and no more than all, so {total // 2 + 1} to {total}"
            )
        self._members = tuple(sorted(votes))
        self._threshold = needed
        # Largest first: then any first members that reach the threshold form a quorum, since
        # the last of them, having the fewest votes, cannot be spared.
        self._votes = dict(sorted(votes.items(), key=lambda item: (-item[1], item[0])))

    @property
    def votes(self) -> dict[int, int]:
        """The votes of each member."""
        return {member: self._votes[member] for member in self.members}

    @property
    def threshold(self) -> int:
        """The number of votes that a quorum has at least."""
        return self._threshold

    @functools.cached_property
    def quorums(self) -> tuple[Quorum, ...]:
        """The smallest sets of members with enough votes."""
        refuse_long_list("this vote assignment", self._count_quorums(), len(self.members) // 2)
        return in_order(map(frozenset, self._complete((), tuple(self._votes.items()), 0)))

    def contains_quorum(self, alive: Iterable[int]) -> bool:
        """Count the votes."""
        votes, total = self._votes, 0
        for member in set(alive):
            total += votes.get(member, 0)
        return total >= self._threshold

    def quorum_for(self, member: int) -> Quorum:
        """Return, among equals, the member and those that follow it in a circle."""
        voters = self._equal_voters
        if member not in voters:
            return super().quorum_for(member)
        start = voters.index(member)
        return frozenset((voters[start:] + voters[:start])[: self._quorum_size])

    def without(self, suspects: Iterable[int]) -> Quorum | None:
        """Take the others in the order of their votes until there are enough."""
        avoided = frozenset(suspects)
        chosen: list[int] = []
        total = 0
        for member, votes in self._votes.items():
            if member not in avoided:
                chosen.append(member)
                total += votes
            if total >= self._threshold:
                return frozenset(chosen)
        return None

    def is_nondominated(self) -> bool:
        """Look for a division of the votes in which neither part reaches the threshold."""
        sums = 1  # bit s: some members have s votes together
        for votes in self._votes.values():
            sums |= sums << votes
        total = sum(self._votes.values())
        return not any(
            sums >> part & 1 for part in range(total - self._threshold + 1, self._threshold)
        )

    def load(self) -> Load:
        """Return, among equals, the share of the members that a quorum takes."""
        if not self._equal_voters:
            return super().load()
        share = Fraction(self._quorum_size, len(self._equal_voters))
        return Load(share, share)

    def _availability(self, p: float, samples: int, seed: int) -> Availability:
        """Add up the distribution of the live votes, one member at a time."""
        chances = [1.0] + [0.0] * sum(self._votes.values())  # chances[s]: s votes are alive
        for votes in self._votes.values():
            chances = [
                (1 - p) * chance + (p * chances[total - votes] if total >= votes else 0.0)
                for total, chance in enumerate(chances)
            ]
        return Availability(sum(chances[self._threshold :]))

    @functools.cached_property
    def _equal_voters(self) -> tuple[int, ...]:
        """The members with votes if all of them have equally many, else none."""
        voters = tuple(member for member in self.members if self._votes[member])
        return voters if len({self._votes[member] for member in voters}) == 1 else ()

    @property
    def _quorum_size(self) -> int:
        """The size of a quorum of equal voters."""
        return -(-self._threshold // self._votes[self._equal_voters[0]])

    def _count_quorums(self) -> int:
        """Count the smallest sets with enough votes by the last member, which makes them enough."""
        if self._equal_voters:
            return math.comb(len(self._equal_voters), self._quorum_size)
        ways = [1] + [0] * (self._threshold - 1)  # ways[s]: sets of earlier members with s votes
        count = 0
        for votes in self._votes.values():
            count += sum(ways[max(0, self._threshold - votes) :]) if votes else 0
            for total in range(self._threshold - 1, votes - 1, -1):
                ways[total] += ways[total - votes]
        return count

    def _complete(
        self, chosen: tuple[int, ...], rest: tuple[tuple[int, int], ...], total: int
    ) -> Iterator[tuple[int, ...]]:
        """Extend `chosen`, which is not enough, by members of `rest` in every way that just is."""
        if total + sum(votes for _, votes in rest) < self._threshold:
            return
        for place, (member, votes) in enumerate(rest):
            extended = (*chosen, member)
            if total + votes >= self._threshold:
                yield extended
            else:
                yield from self._complete(extended, rest[place + 1 :], total + votes)
