"""What the leased lock costs, counted in frames: lock messages of one step share one.

Heartbeats come on top, two frames a session and period, however many locks there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.catalogue import Cost, Costs, between, exactly
from coterie.coteries import parse_coterie

if TYPE_CHECKING:
    from coterie.catalogue import Setup


def _asked(setup: Setup) -> tuple[int, int]:
    """Give the fewest and the most voters that one process asks, where asking oneself is free."""
    voters = setup.parameters["voters"]
    quorums = parse_coterie(setup.parameters["coterie"], voters)
    counts = []
    for me in range(1, setup.size + 1):
        home = (me - 1) % voters + 1
        everyone = setup.parameters["policy"] == "all"
        asked = set(quorums.members) if everyone else set(quorums.quorum_for(home))
        counts.append(len(asked - {me}))
    return min(counts), max(counts)


def _idle(setup: Setup) -> Cost:
    """Request and Grant, and where another kept the votes Inquire and Release before the Grant.

    A session that begins with a request that has to wait costs an Ack; releases that nothing
    follows are asked after by a heartbeat.
    """
    low, high = _asked(setup)
    return between(2 * low, 7 * high, "2K to 4K + beats")


def _saturated(setup: Setup) -> Cost:
    """Request, Grant and Release; a displaced vote costs Inquire, Yield and another Grant."""
    low, high = _asked(setup)
    return between(2 * low, 7 * high, "3K + beats")


def _client_delay(setup: Setup) -> Cost:
    _, high = _asked(setup)
    return between(0, 4 if high else 0, "2 or 4")


def _synchronisation_delay(setup: Setup) -> Cost:
    if setup.size == 1:
        return exactly(0, "0")
    return between(1, 2, "1 or 2")


COSTS = Costs(
    idle=_idle,
    again=lambda setup: exactly(0, "0"),
    saturated=_saturated,
    client_delay=_client_delay,
    synchronisation_delay=_synchronisation_delay,
)
