"""What forgetful replicas do to the votes, as arithmetic."""

from __future__ import annotations

import math

from coterie.errors import UsageError


def violation_probability(replicas: int, votes: int, forgetting: float) -> float:
    """Return the probability that a second client gets enough votes while one is inside.

    The one inside has `votes` of them and the rest are free. Each replica forgets during the
    stay with probability `forgetting`, independently; 2 votes - replicas of the voters must.
    """
    if not (replicas < 2 * votes <= 2 * replicas and 0 <= forgetting <= 1):
        raise UsageError(
            f"expected more than half of the votes and a probability, got {votes} of {replicas}"
            f" and {forgetting}"
        )
    return math.fsum(
        math.comb(votes, k) * forgetting**k * (1 - forgetting) ** (votes - k)
        for k in range(2 * votes - replicas, votes + 1)
    )
