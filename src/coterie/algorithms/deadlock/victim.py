"""Which member of a deadlock gives way: the same rule for locks, transactions and detectors."""

from __future__ import annotations

from typing import TypeVar

PICKS_MAX = 3  # after so many times another member is the victim, if there is one with fewer

AgeT = TypeVar("AgeT")
TieT = TypeVar("TieT")


def seniority(picked: int, age: AgeT, tie: TieT) -> tuple[bool, AgeT, TieT]:
    """Order the members that could give way; the victim is the last one.

    A member that was picked `PICKS_MAX` times is spared while another was picked less often. Then the
    youngest gives way, and of the same age the one that `tie` puts last. All that know the same
    waits choose the same victim.
    """
    return picked < PICKS_MAX, age, tie
