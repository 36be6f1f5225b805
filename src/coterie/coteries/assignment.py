"""Which quorum each member asks: as small as possible, and different ones if possible.

The smallest quorums around each member form a bipartite graph; a maximum matching of it gives as
many members as possible a quorum of their own. In a projective plane every point lies on as many
lines as a line has points, so the matching is perfect (König, 1916).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def assign(members: Sequence[int], quorums: Sequence[frozenset[int]]) -> dict[int, frozenset[int]]:
    """Choose a quorum for each member, around the member if there is one."""
    choices = _smallest_around(members, quorums)
    owned: dict[int, int] = {}  # member to quorum, by position
    owner: dict[int, int] = {}  # and back
    for member in members:
        _augment(member, choices, owned, owner)
    users = Counter(owned.values())
    for member in members:
        if member not in owned:
            owned[member] = min(choices[member], key=lambda position: users[position])
            users[owned[member]] += 1
    return {member: quorums[owned[member]] for member in members}


def _smallest_around(
    members: Sequence[int], quorums: Sequence[frozenset[int]]
) -> dict[int, list[int]]:
    """List for each member the positions of its smallest quorums, or of the smallest of all."""
    around: dict[int, list[int]] = {member: [] for member in members}
    for position, quorum in enumerate(quorums):
        for member in quorum:
            around[member].append(position)
    choices = {}
    for member, positions in around.items():
        possible = positions or range(len(quorums))
        least = min(len(quorums[position]) for position in possible)
        choices[member] = [place for place in possible if len(quorums[place]) == least]
    return choices


def _augment(
    member: int, choices: dict[int, list[int]], owned: dict[int, int], owner: dict[int, int]
) -> None:
    """Give `member` a quorum of its own if others can be moved along an augmenting path."""
    reached_by: dict[int, int] = {}
    queue = [member]
    for current in queue:
        for quorum in choices[current]:
            if quorum in reached_by:
                continue
            reached_by[quorum] = current
            if quorum in owner:
                queue.append(owner[quorum])
                continue
            _flip(quorum, member, reached_by, owned, owner)
            return


def _flip(
    free: int, start: int, reached_by: dict[int, int], owned: dict[int, int], owner: dict[int, int]
) -> None:
    """Assign the free quorum to the member that reached it, and so on along the path to `start`."""
    quorum = free
    while True:
        member = reached_by[quorum]
        given_up = owned.get(member)
        owned[member], owner[quorum] = quorum, member
        if member == start or given_up is None:
            return
        quorum = given_up
