"""Votes of replicas: where the replicas are, how many votes are needed, what an entry costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from coterie.algorithms.mutex.quorum.decentralized.chord import Ring
from coterie.algorithms.mutex.quorum.decentralized.retry import Decentralized
from coterie.algorithms.mutex.quorum_costs import client_delay
from coterie.catalogue import (
    Algorithm,
    Cost,
    Costs,
    MulticastCosts,
    Parameter,
    Setup,
    Variant,
    between,
    exactly,
    time_or_none,
)
from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from coterie.process import ProcessId


def _electorate(setup: Setup) -> tuple[tuple[ProcessId, ...], int]:
    """Place the replicas, and settle how many votes to enter with."""
    count = setup.parameters["replicas"]
    replicas = Ring(range(1, setup.size + 1)).replicas(setup.parameters["resource"], count)
    needed = setup.parameters["votes"] or math.ceil(3 * count / 4)
    if not count < 2 * needed <= 2 * count:
        raise ConfigError(
            f"{needed} of {count} votes do not exclude, or cannot be had: choose more than half and"
            f" no more than all, so {count // 2 + 1} to {count}"
        )
    return replicas, needed


def _build(setup: Setup) -> list[Decentralized]:
    replicas, needed = _electorate(setup)
    patience, abstention = setup.parameters["patience"], setup.parameters["abstention"]
    return [
        Decentralized(me, replicas, needed, patience, abstention) for me in range(1, setup.size + 1)
    ]


def _alone(setup: Setup) -> Cost:
    """Count Ask, Vote and Return for each replica; a replica asks itself for nothing."""
    count = len(_electorate(setup)[0])
    least = 3 * (count - 1)
    return between(least, least if count == setup.size else 3 * count, "3n or 3(n - 1)")


def _contended(setup: Setup) -> Cost:
    replicas, needed = _electorate(setup)
    least = 2 * (len(replicas) - 1) + needed - 1
    return between(least, math.inf, "2n a try, + votes back")


def _multicast_alone(setup: Setup) -> Cost:
    """Count one Ask and one Return for all replicas, and a Vote of each but oneself."""
    count = len(_electorate(setup)[0])
    if setup.size == 1:
        return exactly(0, "0")
    most = count + 1 if count == setup.size else count + 2
    return between(count + 1 if count > 1 else 0, most, "n + 2 or n + 1")


def _multicast_contended(setup: Setup) -> Cost:
    """Count an Ask, the answers and a Return, of which a vote that comes too late gets its own."""
    return between(_multicast_alone(setup).low, math.inf, "n + 1 a try, + votes back")


def _client_delay(setup: Setup) -> Cost:
    replicas, _ = _electorate(setup)
    return client_delay(dict.fromkeys(range(1, setup.size + 1), replicas))


def _synchronisation_delay(setup: Setup) -> Cost:
    if setup.size == 1:
        return exactly(0, "0")
    return between(1, math.inf, "2 + a pause")


def _parse_count(text: str, default: int | None) -> int | None:
    if text == "auto":
        return default
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"expected a number from 1 on, or 'auto', got {text!r}")
    return int(text)


ALGORITHM = Algorithm(
    name="decentralized",
    family="quorum",
    summary="get most votes of replicas in a distributed hash table, or pause and try again",
    citation=(
        "S.-D. Lin, Q. Lian, M. Chen and Z. Zhang. A practical distributed mutual exclusion"
        " protocol in dynamic peer-to-peer systems. Peer-to-Peer Systems III, 2004; the scheme"
        " that it starts from."
    ),
    process=Decentralized,
    build=_build,
    costs=Costs(
        idle=_alone,
        again=_alone,
        saturated=_contended,
        client_delay=_client_delay,
        synchronisation_delay=_synchronisation_delay,
    ),
    multicast=MulticastCosts(_multicast_alone, _multicast_alone, _multicast_contended),
    assumes=("reliable links", "no crash"),
    tolerates=("reordering",),
    causal=False,
    reads_clock=True,
    variants=(Variant("retry", "a process that is denied pauses and tries again"),),
    parameters=(
        Parameter(
            "replicas",
            "auto",
            "the number of replicas; auto: 5, or all processes if they are fewer",
            lambda text, size: _parse_count(text, min(5, size)),
        ),
        Parameter(
            "votes",
            "auto",
            "how many votes of the replicas one needs; auto: three quarters",
            lambda text, _: _parse_count(text, None),
        ),
        Parameter(
            "resource",
            "resource",
            "the name that places the replicas",
            lambda text, _: text,
            names_lock=True,
        ),
        Parameter(
            "patience",
            "none",
            "how long to wait for an answer; needed where replicas crash",
            lambda text, _: time_or_none(text),
        ),
        Parameter(
            "abstention",
            "none",
            "how long a replica gives no vote after a start; the longest stay makes crashes safe",
            lambda text, _: time_or_none(text) or 0.0,
        ),
    ),
)
