"""Coteries side by side: whether their quorums meet, both at once, and on other members.

A system that changes its coterie while it runs counts by the old one in one place and by the new one
in another. That is safe as long as every quorum of the one meets every quorum of the other. Where it
is not so, the joint coterie stands between the two: a quorum of it contains a quorum of each.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from coterie.coteries.coterie import Coterie, Quorum, in_order
from coterie.coteries.votes import Votes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


def meet(one: Coterie, other: Coterie) -> bool:
    """Return whether every quorum of one has a member in common with every quorum of the other."""
    if isinstance(one, Votes) and isinstance(other, Votes):
        return _votes_meet(one, other)
    listed, rest = (other, one) if isinstance(one, Votes) else (one, other)
    others = frozenset(rest.members)
    return not any(rest.contains_quorum(others - quorum) for quorum in listed.quorums)


def _votes_meet(one: Votes, other: Votes) -> bool:
    """Look for a division of the members that gives each side enough votes, without listing sets.

    A member of one side only stands there; each common member stands on the one side or the other.
    """
    ones, others = one.votes, other.votes
    common = [member for member in ones if member in others]
    own = sum(votes for member, votes in ones.items() if member not in others)
    most = {own: sum(votes for member, votes in others.items() if member not in ones)}
    for member in common:  # most[s]: of the other's votes, where the first side has s of its own
        divided: dict[int, int] = {}
        for votes, opposite in most.items():
            here, there = votes + ones[member], opposite + others[member]
            divided[here] = max(divided.get(here, 0), opposite)
            divided[votes] = max(divided.get(votes, 0), there)
        most = divided
    return not any(
        votes >= one.threshold and opposite >= other.threshold for votes, opposite in most.items()
    )


def is_blocking(coterie: Coterie, members: Collection[int]) -> bool:
    """Return whether every quorum has one of these members, so that none can be had without them."""
    return not coterie.contains_quorum(set(coterie.members).difference(members))


def seated(coterie: Coterie, seats: Sequence[int]) -> Coterie:
    """Return the coterie in which each member of this one, in order, is replaced by its seat."""
    if tuple(seats) == coterie.members:
        return coterie
    places = dict(zip(coterie.members, seats, strict=True))
    if isinstance(coterie, Votes):
        votes = {places[member]: votes for member, votes in coterie.votes.items()}
        return Votes(votes, coterie.threshold)
    quorums = [[places[member] for member in quorum] for quorum in coterie.quorums]
    return Coterie(seats, quorums)


class Joint(Coterie):
    """The coterie whose quorums contain a quorum of each of two others."""

    def __init__(self, old: Coterie, new: Coterie) -> None:
        """Take the two; their quorums need not meet."""
        self._parts = (old, new)
        self._members = tuple(sorted({*old.members, *new.members}))

    @functools.cached_property
    def quorums(self) -> tuple[Quorum, ...]:
        """The smallest of the unions of a quorum of each."""
        old, new = self._parts
        unions = {one | other for one in old.quorums for other in new.quorums}
        return in_order(each for each in unions if not any(other < each for other in unions))

    def contains_quorum(self, alive: Iterable[int]) -> bool:
        """Ask both."""
        present = set(alive)
        return all(part.contains_quorum(present) for part in self._parts)

    def quorum_for(self, member: int) -> Quorum:
        """Return what the member asks in each of the two; the first member stands in for a stranger."""
        self._know(member)
        old, new = self._parts
        return _quorum_for(old, member) | _quorum_for(new, member)

    def without(self, suspects: Iterable[int]) -> Quorum | None:
        """Put together what the two have without the suspects."""
        avoided = frozenset(suspects)
        one, other = (part.without(avoided) for part in self._parts)
        return None if one is None or other is None else one | other


def _quorum_for(coterie: Coterie, member: int) -> Quorum:
    return coterie.quorum_for(member if member in coterie.members else coterie.members[0])
