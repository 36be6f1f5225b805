"""Maekawa's algorithm: how its processes are built, and what may be chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.algorithms.mutex.quorum.maekawa.displaced import AsSurveyed, Basic, Deferred, Displaced
from coterie.algorithms.mutex.quorum.maekawa.eager import Maekawa
from coterie.algorithms.mutex.quorum_costs import voting_costs, voting_multicast
from coterie.catalogue import Algorithm, Flaw, Parameter, Setup, Variant
from coterie.coteries import parse_coterie

if TYPE_CHECKING:
    from coterie.algorithms.mutex.quorum_costs import Quorums

VARIANTS: dict[str, type[Maekawa]] = {
    "eager": Maekawa,
    "displaced": Displaced,
    "deferred": Deferred,
    "survey": AsSurveyed,
    "basic": Basic,
}


def _quorums(setup: Setup) -> Quorums:
    coterie = setup.parameters["coterie"]
    return {me: tuple(sorted(coterie.quorum_for(me))) for me in range(1, setup.size + 1)}


def _build(setup: Setup) -> list[Maekawa]:
    process = VARIANTS[setup.variant]
    return [process(me, quorum) for me, quorum in _quorums(setup).items()]


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
    costs=voting_costs(_quorums, "K"),
    multicast=voting_multicast(_quorums, "K"),
    assumes=("reliable links", "no crash"),
    tolerates=("reordering",),
    causal=False,
    variants=(
        Variant(
            "eager", "a process that is not inside gives a lock back as soon as it is asked for"
        ),
        Variant("displaced", "the rules of 1985, and a displaced process is told so"),
        Variant(
            "deferred",
            "the rules of 1985: a displaced process is not told",
            sound=False,
            flaw=Flaw(size=4, steps=14, parameters={"coterie": "grid"}),
        ),
        Variant(
            "survey",
            "an early inquiry is forgotten, as the 1987 survey prints",
            sound=False,
            flaw=Flaw(size=3, steps=7),
        ),
        Variant("basic", "no lock is ever asked back", sound=False, flaw=Flaw(size=3, steps=6)),
    ),
    parameters=(
        Parameter(
            "coterie", "plane", "the quorums, such as plane, grid or majority", parse_coterie
        ),
    ),
)
