"""Arithmetic of votes: which token fits a quorum of intervals, and how long a quorum lasts.

A vote is the exclusive, leased right to use the tokens of an interval. Intervals of different
voters may begin a little apart; they are long, so a common token nearly always exists.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coterie.coteries import Coterie
    from coterie.process import ProcessId

NEVER = -math.inf


class Interval(NamedTuple):
    """The tokens that a vote gives the right to."""

    low: int
    high: int

    def supports(self, token: int) -> bool:
        """Tell whether the token is among them."""
        return self.low <= token <= self.high


def fit(votes: Mapping[ProcessId, Interval], used: int, quorums: Coterie) -> int | None:
    """Give the smallest unused token that a quorum of votes supports.

    0 if there is a quorum that has no common token; None if there is no quorum.
    """
    if not quorums.contains_quorum(votes):
        return None
    for token in sorted({max(used + 1, interval.low) for interval in votes.values()}):
        supporters = [voter for voter, interval in votes.items() if interval.supports(token)]
        if quorums.contains_quorum(supporters):
            return token
    return 0


def last_instant(until: Mapping[ProcessId, float], quorums: Coterie) -> float:
    """Give the time up to which a quorum of these votes counts; `NEVER` if they contain none."""
    alive: list[ProcessId] = []
    for voter in sorted(until, key=lambda voter: (-until[voter], voter)):
        alive.append(voter)
        if quorums.contains_quorum(alive):
            return until[voter]
    return NEVER
