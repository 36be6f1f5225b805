"""Ricart and Agrawala's algorithm: how its processes are built, and what an entry costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie.algorithms.mutex.permission.ricart_agrawala.denied import Denying
from coterie.algorithms.mutex.permission.ricart_agrawala.plain import RicartAgrawala
from coterie.algorithms.mutex.permission.ricart_agrawala.roucairol_carvalho import RoucairolCarvalho
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
from coterie.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.process import Mutex


def _build(setup: Setup) -> Sequence[Mutex[Any]]:
    ids, patience = range(1, setup.size + 1), setup.parameters["patience"]
    if setup.variant == "denied":
        return [Denying(me, setup.size, patience) for me in ids]
    if patience is not None:
        raise ConfigError(
            f"patience is for the variant denied: in {setup.variant} a live process may be silent"
        )
    process = RoucairolCarvalho if setup.variant == "keeping" else RicartAgrawala
    return [process(me, setup.size) for me in ids]


def _all(setup: Setup) -> Cost:
    return exactly(2 * (setup.size - 1), "2(N - 1)")


def _idle(setup: Setup) -> Cost:
    """Ask at least the one who came last, and at most everyone, if all came since."""
    if setup.variant == "keeping":
        return between(2 if setup.size > 1 else 0, 2 * (setup.size - 1), "2 to 2(N - 1)")
    return _all(setup)


def _saturated(setup: Setup) -> Cost:
    if setup.variant == "keeping":
        return between(0, 2 * (setup.size - 1), "0 to 2(N - 1)")
    if setup.variant == "denied":
        others = setup.size - 1
        return between(2 * others, 3 * others, "2(N - 1), and 1 for each that goes before")
    return _all(setup)


def _multicast(setup: Setup) -> Cost:
    """Count one Request for all, and as many replies as are asked for."""
    least = 2 if setup.variant == "keeping" else setup.size
    formula = "2 to N" if setup.variant == "keeping" else "N"
    return between(least, setup.size, formula) if setup.size > 1 else exactly(0, formula)


def _multicast_saturated(setup: Setup) -> Cost:
    """Count one Reply on release for all that wait; who had asked before has sent one by itself."""
    if setup.size == 1:
        return exactly(0, "0")
    if setup.variant == "keeping":
        return between(0, setup.size, "0 to N")
    if setup.variant == "denied":
        return between(1, 2 * setup.size - 1, "1 to 2N - 1")
    return between(1, setup.size, "1 to N")


ALGORITHM = Algorithm(
    name="ricart-agrawala",
    family="permission",
    summary="ask everyone; enter when all have replied",
    citation=(
        "G. Ricart and A. K. Agrawala. An optimal algorithm for mutual exclusion in computer"
        " networks. Communications of the ACM 24(1), 1981; with the variant of O. S. F. Carvalho"
        " and G. Roucairol. On mutual exclusion in computer networks. Communications of the ACM"
        " 26(2), 1983."
    ),
    process=RicartAgrawala,
    build=_build,
    costs=Costs(
        idle=_idle,
        again=lambda setup: exactly(0, "0") if setup.variant == "keeping" else _all(setup),
        saturated=_saturated,
        client_delay=lambda setup: exactly(2 if setup.size > 1 else 0, "2"),
        synchronisation_delay=lambda setup: exactly(1, "1"),
    ),
    multicast=MulticastCosts(
        idle=_multicast,
        again=lambda setup: exactly(0, "0") if setup.variant == "keeping" else _multicast(setup),
        saturated=_multicast_saturated,
    ),
    assumes=("reliable links", "no crash"),
    tolerates=("reordering",),
    causal=False,  # replies carry no time
    variants=(
        Variant("plain", "as published: ask everyone each time"),
        Variant("keeping", "permissions are kept until asked for (Roucairol and Carvalho)"),
        Variant("denied", "who makes another wait says so, so that silence means a crash"),
    ),
    parameters=(
        Parameter(
            "patience",
            "none",
            "denied: after how long silence means a crash, twice the longest delay of a message",
            lambda text, _: time_or_none(text),
        ),
    ),
)
