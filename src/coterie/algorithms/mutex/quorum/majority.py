"""Mutual exclusion by majority (Thomas, 1979): 3(M - 1) messages an entry, M = floor(N/2) + 1.

Two majorities always share a member, whose one vote decides. So a majority is a quorum, and the
rules are those of Maekawa's algorithm, which also keep voters from waiting for one another: each
process asks itself and those that follow it in a circle, one majority and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.algorithms.mutex.quorum.maekawa.eager import Maekawa
from coterie.algorithms.mutex.quorum_costs import voting_costs, voting_multicast
from coterie.catalogue import Algorithm, Setup, Variant
from coterie.coteries import majority

if TYPE_CHECKING:
    from coterie.algorithms.mutex.quorum_costs import Quorums


class Majority(Maekawa):
    """A process whose quorum is a majority, which contains it."""


def _quorums(setup: Setup) -> Quorums:
    everyone = range(1, setup.size + 1)
    votes = majority(everyone)
    return {me: tuple(sorted(votes.quorum_for(me))) for me in everyone}


ALGORITHM = Algorithm(
    name="majority",
    family="quorum",
    summary="get the votes of more than half of the processes",
    citation=(
        "R. H. Thomas. A majority consensus approach to concurrency control for multiple copy"
        " databases. ACM Transactions on Database Systems 4(2), 1979."
    ),
    process=Majority,
    build=lambda setup: [Majority(me, quorum) for me, quorum in _quorums(setup).items()],
    costs=voting_costs(_quorums, "M"),
    multicast=voting_multicast(_quorums, "M"),
    assumes=("reliable links", "no crash"),
    tolerates=("reordering",),
    causal=False,
    variants=(
        Variant("eager", "a process that is not inside gives a vote back as soon as it is asked"),
    ),
)
