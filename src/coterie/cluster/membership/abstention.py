"""Why a node gives no votes, and what follows for the cluster."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coterie.locks.legible import legible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coterie.cluster.wire.voter_frames import Abstention

SPARE = "it is a spare: coterie cluster add, or replace, makes it a voter"
OF_ANOTHER = "it has the data directory of voter "  # and its name
STARTED = "it has just started, and votes that it may have given before could still count"
ALONE = "its data directory is empty, and no other node of its file can say what was there before"
ADVICE = (
    "start the nodes that are missing; or, if this cluster is new and no program holds a lock of it,"
    " start those with an empty data directory with coterie serve --new-cluster"
)
ADVICE_IF_FORMED = "start the nodes that are missing, and each with its own data directory"
LONG_SECONDS = 120.0  # to abstain, after which people look for another way
ADVICE_IF_LONG = (
    "if no program runs that has used a lock of it, coterie cluster vouch ends the wait"
)


def no_votes(
    abstentions: Mapping[str, Abstention], troubles: Sequence[str], *, formed: bool
) -> str:
    """Say why there is no quorum of votes: which nodes abstain, which are away, and what to do.

    A cluster that is `formed` counts the votes of certain disks, and an operator cannot make a new
    one of it.
    """
    reasons = [f"{name} {_describe(known)}" for name, known in abstentions.items()]
    lasting = any(math.isinf(known.seconds) for known in abstentions.values())
    long = any(LONG_SECONDS < known.seconds < math.inf for known in abstentions.values())
    advice = [ADVICE_IF_FORMED if formed else ADVICE] if lasting else []
    advice += [ADVICE_IF_LONG] if long else []
    return "; ".join([*reasons, *troubles, *advice])


def _describe(known: Abstention) -> str:
    how_long = "" if math.isinf(known.seconds) else f" for {known.seconds:.1f} s"
    return f"abstains{how_long}: {legible(known.reason)}"
