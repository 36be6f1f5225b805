"""The coterie algorithm of 1996: how its processes are built, and what an entry costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coterie.algorithms.mutex.quorum.fault_tolerant.parameters import PARAMETERS, settings_of
from coterie.algorithms.mutex.quorum.fault_tolerant.process import FaultTolerant
from coterie.algorithms.mutex.quorum.fault_tolerant.published import Published
from coterie.algorithms.mutex.quorum_costs import voting_costs, voting_multicast
from coterie.catalogue import Algorithm, Cost, Costs, Flaw, MulticastCosts, Setup, Variant, between

if TYPE_CHECKING:
    from coterie.algorithms.mutex.quorum_costs import Quorums

VARIANTS: dict[str, type[FaultTolerant]] = {"repaired": FaultTolerant, "published": Published}


def _quorums(setup: Setup) -> Quorums:
    coterie = setup.parameters["coterie"]
    return {me: tuple(sorted(coterie.quorum_for(me))) for me in range(1, setup.size + 1)}


def _build(setup: Setup) -> list[FaultTolerant]:
    settings = settings_of(setup)
    process = VARIANTS[setup.variant]
    return [process(me, quorum, settings=settings) for me, quorum in _quorums(setup).items()]


_voting = voting_costs(_quorums, "K")
_copied = voting_multicast(_quorums, "K")


def _saturated(setup: Setup) -> Cost:
    low = _voting.saturated(setup).low
    return between(low, math.inf, "3 to 6(K - 1) + probes")


def _multicast_saturated(setup: Setup) -> Cost:
    low = _copied.saturated(setup).low
    return between(low, math.inf, "K + 1 to 4K - 2 + probes")


ALGORITHM = Algorithm(
    name="fault-tolerant",
    family="quorum",
    summary="lock a quorum; if a member crashes another stands in for it",
    citation=(
        "An algorithm for mutual exclusion in which coteries are updated at run time, for any"
        " number of faulty processes. RIMS Kokyuroku 950, 1996, pages 101-105 (in Japanese);"
        " repaired, and extended by the return of crashed processes."
    ),
    process=FaultTolerant,
    build=_build,
    costs=Costs(
        idle=_voting.idle,
        again=_voting.again,
        saturated=_saturated,
        client_delay=_voting.client_delay,
        synchronisation_delay=_voting.synchronisation_delay,
    ),
    multicast=MulticastCosts(_copied.idle, _copied.again, _multicast_saturated),
    assumes=("reliable links", "messages take sigma at most, answers lambda"),
    tolerates=("crash",),
    causal=False,
    variants=(
        Variant(
            "repaired",
            "a process that is inside when a quorum changes says so, and others wait",
            tolerates=("recovery without memory",),
        ),
        Variant(
            "published",
            "as printed: a process that is inside is forgotten",
            sound=False,
            flaw=Flaw(
                size=3,
                steps=33,
                parameters={"coterie": "singleton", "sigma": "1", "lambda": "1", "t-max": "4"},
                crashes=1,
            ),
        ),
    ),
    parameters=PARAMETERS,
)
