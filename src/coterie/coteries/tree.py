"""Tree quorums (Agrawal and El Abbadi, 1991): a path from the root, with detours around the dead.

A quorum of a tree is its root and a quorum of one of the two subtrees, or, the root being dead, a
quorum of each subtree: two of three. A path has about log₂ N members.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from coterie.coteries.availability import Availability
from coterie.coteries.coterie import Coterie, Quorum, in_order, refuse_long_list
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable


def tree(members: Iterable[int]) -> Tree:
    """Arrange the members as a binary tree, the first being the root."""
    return Tree(members)


class Tree(Coterie):
    """The coterie of a complete binary tree: the children of place i are at 2i and 2i + 1.

    With an even number of members one node has a single child, and needs it.
    """

    def __init__(self, members: Iterable[int]) -> None:
        """Fill the tree level by level in the order of the ids."""
        self._members = tuple(sorted(set(members)))
        if not self._members:
            raise ConfigError("a tree needs at least one member")

    @functools.cached_property
    def quorums(self) -> tuple[Quorum, ...]:
        """The quorums of the whole tree."""
        refuse_long_list("this tree", self._count_quorums(1), len(self.members) // 2)
        return in_order(self._quorums_below(1))

    def contains_quorum(self, alive: Iterable[int]) -> bool:
        """Look for a quorum from the root down."""
        return self.without(set(self.members) - set(alive)) is not None

    def quorum_for(self, member: int) -> Quorum:
        """Return the path from the root through `member` to a leaf."""
        self._know(member)
        place = self._places[member] + 1
        while self._children(place):
            place = self._children(place)[0]
        return frozenset(self._at(place >> up) for up in range(place.bit_length()))

    def without(self, suspects: Iterable[int]) -> Quorum | None:
        """Take the shortest way around the suspects."""
        found = self._shortest(1, frozenset(suspects))
        return None if found is None else frozenset(found)

    def is_nondominated(self) -> bool:
        """Two of three is nondominated at every node; two of two, below an only child, is not."""
        return len(self.members) % 2 == 1

    def _availability(self, p: float, samples: int, seed: int) -> Availability:
        """Combine the availability of the subtrees, from the leaves up."""
        below: dict[int, float] = {}
        for place in range(len(self.members), 0, -1):
            chances = [below[child] for child in self._children(place)]
            if not chances:
                below[place] = p
            elif len(chances) == 1:
                below[place] = p * chances[0]
            else:
                both = chances[0] * chances[1]
                below[place] = p * (chances[0] + chances[1] - both) + (1 - p) * both
        return Availability(below[1])

    def _at(self, place: int) -> int:
        return self.members[place - 1]

    def _children(self, place: int) -> list[int]:
        return [child for child in (2 * place, 2 * place + 1) if child <= len(self.members)]

    def _shortest(self, place: int, avoided: frozenset[int]) -> list[int] | None:
        """Find a smallest quorum of the subtree at `place`, or None."""
        root = [] if self._at(place) in avoided else [self._at(place)]
        children = self._children(place)
        below = [self._shortest(child, avoided) for child in children]
        live = [quorum for quorum in below if quorum is not None]
        if root:
            if not children:
                return root
            return root + min(live, key=len) if live else None
        return live[0] + live[1] if len(live) == 2 else None

    def _quorums_below(self, place: int) -> list[Quorum]:
        root = frozenset([self._at(place)])
        below = [self._quorums_below(child) for child in self._children(place)]
        if not below:
            return [root]
        paths = [root | quorum for subtree in below for quorum in subtree]
        if len(below) == 1:
            return paths
        return paths + [left | right for left in below[0] for right in below[1]]

    def _count_quorums(self, place: int) -> int:
        below = [self._count_quorums(child) for child in self._children(place)]
        if not below:
            return 1
        return sum(below) + (below[0] * below[1] if len(below) == 2 else 0)
