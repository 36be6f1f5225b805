"""Arithmetic of votes: which voters to ask, which token fits a quorum, how long a quorum lasts.

A vote is the exclusive, leased right to use the tokens of an interval (section 7). Intervals of
different voters may begin a little apart; they are long, so a common token nearly always exists.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from coterie.algorithms.mutex.quorum.leased.configuration import Rule
    from coterie.coteries import Coterie
    from coterie.process import ProcessId

NEVER = -math.inf


class Interval(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The tokens that a vote gives the right to."""

    low: int
    high: int

    def supports(self, token: int) -> bool:
        """Return whether the token is among them."""
        return self.low <= token <= self.high


def fit(votes: Mapping[ProcessId, Interval], used: int, quorums: Coterie) -> int | None:
    """Return the smallest unused token that a quorum of votes supports.

    0 if there is a quorum that has no common token; None if there is no quorum.
    """
    if not votes or not quorums.contains_quorum(votes):
        return None
    for token in sorted({max(used + 1, interval.low) for interval in votes.values()}):
        # Only tokens inside the intervals are ours: any other may be in use with another voter's
        # vote, or have been used before (11.4).
        supporters = [voter for voter, interval in votes.items() if interval.supports(token)]
        if quorums.contains_quorum(supporters):
            return token
    return 0


def last_instant(until: Mapping[ProcessId, float], quorums: Coterie) -> float:
    """Return the time up to which a quorum of these votes counts; `NEVER` if they contain none."""
    alive: list[ProcessId] = []
    for voter in sorted(until, key=lambda voter: (-until[voter], voter)):
        alive.append(voter)
        if quorums.contains_quorum(alive):
            return until[voter]
    return NEVER


def voters_to_ask(
    rule: Rule,
    home: ProcessId,
    asked: Collection[ProcessId],
    suspects: Collection[ProcessId],
) -> list[ProcessId]:
    """10: choose voters so that they and those asked already contain a quorum without suspects.

    If there is no such quorum, suspects are asked as well: they may be slow, or in grace. Nothing
    is ever taken back for a change of quorum, since requests at several quorums do no harm.
    """
    quorums, policy = rule.quorums, rule.settings.policy
    everyone = quorums.members
    if policy == "all" and not asked and not suspects:
        return list(everyone)
    trusted = [voter for voter in everyone if voter not in suspects]
    if not quorums.contains_quorum(trusted):
        trusted = list(everyone)
    if policy == "all":
        return [voter for voter in trusted if voter not in asked]
    home = home if home in everyone else everyone[home % len(everyone)]
    if not asked:
        favourite = quorums.quorum_for(home)
        if favourite.issubset(trusted):
            return sorted(favourite)
    return _missing(quorums, home, [voter for voter in trusted if voter in asked], trusted)


def _missing(
    quorums: Coterie, home: ProcessId, base: list[ProcessId], trusted: list[ProcessId]
) -> list[ProcessId]:
    """Add voters to `base`, from `home` on around the circle, until there is a quorum; no spare ones."""
    extra: list[ProcessId] = []
    for voter in sorted(trusted, key=lambda voter: (voter < home, voter)):
        if quorums.contains_quorum(base + extra):
            break
        if voter not in base:
            extra.append(voter)
    for voter in list(extra):
        rest = [other for other in extra if other != voter]
        if quorums.contains_quorum(base + rest):
            extra = rest
    return extra
