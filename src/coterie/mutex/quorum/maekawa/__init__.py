"""Maekawa's algorithm over any coterie: the rules that work, and three sets that do not."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from coterie.catalogue import (
    Algorithm,
    Cost,
    Costs,
    Parameter,
    Setup,
    Variant,
    between,
    exactly,
)
from coterie.coteries import parse_coterie
from coterie.mutex.quorum.maekawa.displaced import Basic, Deferred, Displaced, Survey
from coterie.mutex.quorum.maekawa.eager import Maekawa

if TYPE_CHECKING:
    from coterie.process import ProcessId

VARIANTS: dict[str, type[Maekawa]] = {
    "eager": Maekawa,
    "displaced": Displaced,
    "deferred": Deferred,
    "survey": Survey,
    "basic": Basic,
}


def _quorum(setup: Setup, me: ProcessId) -> tuple[ProcessId, ...]:
    return tuple(sorted(setup.parameters["coterie"].quorum_for(me)))


def _build(setup: Setup) -> list[Maekawa]:
    process = VARIANTS[setup.variant]
    return [process(me, _quorum(setup, me)) for me in range(1, setup.size + 1)]


def _per_arbiter(setup: Setup, low: int, high: int, formula: str) -> Cost:
    """Multiply by the mean number of arbiters asked, where asking oneself is free."""
    asked = sum(len(set(_quorum(setup, me)) - {me}) for me in range(1, setup.size + 1))
    mean = Fraction(asked, setup.size)
    return between(float(low * mean), float(high * mean), formula)


def _client_delay(setup: Setup) -> Cost:
    alone = [set(_quorum(setup, me)) == {me} for me in range(1, setup.size + 1)]
    return between(0 if any(alone) else 2, 0 if all(alone) else 2, "2")


def _synchronisation_delay(setup: Setup) -> Cost:
    """Follow Release to the common arbiters and Locked from them, for every leaver and waiter."""
    if setup.size == 1:
        return exactly(0, "0")
    quorums = [frozenset(_quorum(setup, me)) for me in range(1, setup.size + 1)]
    delays = {
        max((arbiter != leaver) + (arbiter != waiter) for arbiter in first & second)
        for leaver, first in enumerate(quorums, 1)
        for waiter, second in enumerate(quorums, 1)
        if leaver != waiter
    }
    return between(min(delays), max(delays), "1 or 2")


ALGORITHM = Algorithm(
    name="maekawa",
    family="quorum",
    summary="lock a quorum of about √N arbiters; any two quorums share one",
    citation=(
        "M. Maekawa. A √N algorithm for mutual exclusion in decentralized systems. ACM"
        " Transactions on Computer Systems 3(2), 1985; with the correction of B. A. Sanders. The"
        " information structure of distributed mutual exclusion algorithms. ACM Transactions on"
        " Computer Systems 5(3), 1987."
    ),
    process=Maekawa,
    build=_build,
    costs=Costs(
        idle=lambda setup: _per_arbiter(setup, 3, 3, "3(K - 1)"),
        again=lambda setup: _per_arbiter(setup, 3, 3, "3(K - 1)"),
        saturated=lambda setup: _per_arbiter(setup, 3, 6, "3 to 6(K - 1)"),
        client_delay=_client_delay,
        synchronisation_delay=_synchronisation_delay,
    ),
    assumes=("reliable links", "no crash"),
    bears=("reordering",),
    causal=False,
    variants=(
        Variant("eager", "whoever is not inside gives a lock back as soon as it is asked for"),
        Variant("displaced", "the rules of 1985, and who is displaced is told so"),
        Variant("deferred", "the rules of 1985: who is displaced is not told", sound=False),
        Variant("survey", "an early inquiry is forgotten, as the 1987 survey prints", sound=False),
        Variant("basic", "no lock is ever asked back", sound=False),
    ),
    parameters=(
        Parameter(
            "coterie", "plane", "the quorums, such as plane, grid or majority", parse_coterie
        ),
    ),
)
