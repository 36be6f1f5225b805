"""Domination of coteries, as a question of colours.

A coterie is nondominated exactly if every set of members or its complement contains a quorum
(Garcia-Molina and Barbara, 1985). So it is dominated exactly if the members can be coloured red and
blue without a quorum of one colour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def two_colourable(quorums: Sequence[frozenset[int]]) -> bool:
    """Return whether two colours can be given to the members so that every quorum has both."""
    members = sorted(frozenset().union(*quorums))
    bits = {member: 1 << place for place, member in enumerate(members)}
    return _colourable([sum(bits[member] for member in quorum) for quorum in quorums], 0, 0)


def _colourable(quorums: Sequence[int], red: int, blue: int) -> bool:
    """Extend a partial colouring; sets of members are bit masks."""
    settled = _propagate(quorums, red, blue)
    if settled is None:
        return False
    open_quorums, red, blue = settled
    if not open_quorums:
        return True
    tightest = min(open_quorums, key=lambda quorum: (quorum & ~(red | blue)).bit_count())
    uncoloured = tightest & ~(red | blue)
    member = uncoloured & -uncoloured
    if _colourable(open_quorums, red | member, blue):
        return True
    # With nothing coloured yet, red and blue are interchangeable.
    return bool(red | blue) and _colourable(open_quorums, red, blue | member)


def _propagate(quorums: Sequence[int], red: int, blue: int) -> tuple[list[int], int, int] | None:
    """Colour what has no choice; return the quorums that lack a colour, or None if one always will."""
    while True:
        before = red, blue
        lacking = [quorum for quorum in quorums if not (quorum & red and quorum & blue)]
        for quorum in lacking:
            uncoloured = quorum & ~(red | blue)
            if uncoloured.bit_count() > 1 or (quorum & red and quorum & blue):
                continue
            if not uncoloured or uncoloured == quorum:
                return None
            if quorum & red:
                blue |= uncoloured
            else:
                red |= uncoloured
        if (red, blue) == before:
            return lacking, red, blue
        quorums = lacking
