"""One coordinator: how its processes are built, and what an entry costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.algorithms.mutex.permission.centralized.coordinator import (
    Centralized,
    Denying,
)
from coterie.algorithms.mutex.permission.centralized.failover import Failover
from coterie.algorithms.mutex.permission.centralized.rendezvous_hashing import succession
from coterie.catalogue import Algorithm, Cost, Costs, Parameter, Setup, Variant, between, exactly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.process import Mutex, ProcessId


def _line(setup: Setup) -> tuple[ProcessId, ...]:
    return succession(setup.parameters["resource"], range(1, setup.size + 1))


def _build(setup: Setup) -> Sequence[Mutex[Any]]:
    ids, line = range(1, setup.size + 1), _line(setup)
    if setup.variant == "failover":
        return [Failover(me, line, line[0]) for me in ids]
    process = Denying if setup.variant == "denied" else Centralized
    return [process(me, line[0]) for me in ids]


def _requesters(setup: Setup) -> list[ProcessId]:
    """Leave the coordinator out, since an entry costs it nothing, unless it is alone."""
    coordinator = _line(setup)[0]
    return [me for me in range(1, setup.size + 1) if me != coordinator] or [coordinator]


def _three(setup: Setup) -> Cost:
    return exactly(3 if setup.size > 1 else 0, "3")


def _saturated(setup: Setup) -> Cost:
    if setup.variant == "denied" and setup.size > 1:
        return between(3, 4, "3, and 1 if it had to wait")
    return _three(setup)


ALGORITHM = Algorithm(
    name="centralized",
    family="permission",
    summary="ask one coordinator, which keeps a queue",
    citation=(
        "M. Maekawa, K. Shimizu and J. Hamano. Concurrency control in distributed processing"
        " systems (in Japanese). Joho Shori, 1987; folklore before."
    ),
    process=Centralized,
    build=_build,
    costs=Costs(
        idle=_three,
        again=_three,
        saturated=_saturated,
        client_delay=lambda setup: exactly(2 if setup.size > 1 else 0, "2"),
        synchronisation_delay=lambda setup: exactly(2, "2"),
    ),
    assumes=("reliable links", "no crash"),
    tolerates=("reordering",),
    causal=True,
    variants=(
        Variant("silent", "those that must wait hear nothing until it is their turn"),
        Variant("denied", "those that must wait are told so, and stay in the queue"),
        Variant(
            "failover",
            "when the coordinator crashes the next one builds the queue again",
            tolerates=("crash",),
            causal=False,  # Recover carries no time: stamps made after it may be lower
        ),
    ),
    parameters=(
        Parameter(
            "resource",
            "",
            "the name of what is locked, which picks the coordinator; none picks process 1",
            lambda text, size: text,
            names_lock=True,
        ),
    ),
    requesters=_requesters,
)
