"""Mutual exclusion by weighted votes (Gifford, 1979): 3(K - 1) messages for K voters asked.

Some votes count more than others, and a process with more than half of all votes enters. One vote
each makes the majority; all votes on one process make it the coordinator of the centralised
algorithm. The rules are those of Maekawa's algorithm, over the smallest sets with enough votes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.algorithms.mutex.quorum.maekawa.eager import Maekawa
from coterie.algorithms.mutex.quorum_costs import voting_costs, voting_multicast
from coterie.catalogue import Algorithm, Parameter, Setup, Variant
from coterie.coteries import weighted
from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from coterie.algorithms.mutex.quorum_costs import Quorums
    from coterie.coteries import Coterie
    from coterie.process import ProcessId


class Weighted(Maekawa):
    """A process whose quorum has more than half of the votes."""


def parse_votes(text: str, size: int) -> Coterie:
    """Read one count per process, such as `3,1,1`, or `equal` for one vote each.

    Raises:
        UsageError: these are no counts.
        ConfigError: they do not fit the number of processes, or none has a vote.
    """
    if text == "equal":
        return weighted(dict.fromkeys(range(1, size + 1), 1))
    try:
        counts = [int(word) for word in text.split(",")]
    except ValueError:
        raise UsageError(
            f"expected counts of votes such as 3,1,1, or 'equal', got {text!r}"
        ) from None
    if len(counts) != size:
        raise ConfigError(f"{len(counts)} vote counts for {size} processes: give one for each")
    return weighted(dict(enumerate(counts, 1)))


def _quorums(setup: Setup) -> dict[ProcessId, tuple[ProcessId, ...]]:
    votes = setup.parameters["votes"]
    return {me: tuple(sorted(votes.quorum_for(me))) for me in range(1, setup.size + 1)}


def _quorums_of_requesters(setup: Setup) -> Quorums:
    """Leave out those that have enough votes of their own: an entry costs them nothing."""
    quorums = _quorums(setup)
    return {me: quorum for me, quorum in quorums.items() if quorum != (me,)} or quorums


ALGORITHM = Algorithm(
    name="weighted",
    family="quorum",
    summary="get more than half of the votes, of which some processes have more than others",
    citation=(
        "D. K. Gifford. Weighted voting for replicated data. Proceedings of the 7th ACM Symposium"
        " on Operating Systems Principles, 1979."
    ),
    process=Weighted,
    build=lambda setup: [Weighted(me, quorum) for me, quorum in _quorums(setup).items()],
    costs=voting_costs(_quorums_of_requesters, "K"),
    multicast=voting_multicast(_quorums_of_requesters, "K"),
    assumes=("reliable links", "no crash"),
    tolerates=("reordering",),
    causal=False,
    variants=(
        Variant("eager", "a process that is not inside gives a vote back as soon as it is asked"),
    ),
    parameters=(
        Parameter(
            "votes",
            "equal",
            "one count per process, as in 3,1,1; equal: one vote each",
            parse_votes,
        ),
    ),
    requesters=lambda setup: list(_quorums_of_requesters(setup)),
)
