"""A voter's part in deciding the next configuration: one decree of Paxos for each number.

Lamport, "The part-time parliament", ACM Transactions on Computer Systems 16(2), 1998. The voters of a
number are its acceptors; changers propose. What is promised or accepted here has to be on stable
storage before the answer leaves: a voter that forgot it could help to decide a second successor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coterie.algorithms.mutex.quorum.leased.frames import (
    Accepted,
    Attempt,
    Promise,
    Proposal,
    Refused,
)

if TYPE_CHECKING:
    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.algorithms.mutex.quorum.leased.frames import Accept, Prepare


class Succession(msgspec.Struct, array_like=True):
    """What a voter has promised and accepted about the successor of its number."""

    promised: Attempt | None = None
    accepted: Proposal | None = None

    def prepare(self, request: Prepare, present: Configuration) -> Promise | Refused:
        """Promise to accept nothing of an earlier attempt, unless a later one was promised."""
        if self.promised is not None and request.attempt < self.promised:
            # sometimes: a promise stands against an earlier attempt
            return Refused(request.number, self.promised)
        self.promised = request.attempt
        return Promise(request.number, request.attempt, self.accepted, present)

    def accept(self, request: Accept, present: Configuration, protocol: int) -> Accepted | Refused:
        """Accept a successor, if it keeps to the rules and no later attempt was promised.

        A voter that speaks only up to `protocol` helps to decide nothing that it cannot read.
        """
        attempt, successor = request.attempt, request.configuration
        if self.promised is not None and attempt < self.promised:
            # sometimes: a promise stands against an earlier proposal
            return Refused(successor.number, self.promised)
        if successor.protocol > protocol or not follows(successor, present):
            return Refused(successor.number, None)
        self.promised = attempt
        self.accepted = Proposal(attempt, successor)
        return Accepted(successor.number, attempt)


def follows(successor: Configuration, present: Configuration) -> bool:
    """Return whether the quorums of a successor meet those of every number that may be in use.

    So no changer, faulty or hasty, can leave out the joint step between two coteries that do not
    meet, or forget a number by which a participant may still count.
    """
    is_open = any(rule.number == present.number for rule in successor.open)
    rules = (present.rule, *successor.open)
    return (
        successor.number == present.number + 1
        and not present.is_foreign(successor)
        and is_open
        and all(rule.meets(successor.rule) for rule in rules)
    )
