"""The token ring: how its processes are built, and what an entry costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from coterie.algorithms.mutex.token.token_ring.parameters import parse_pause, parse_ring
from coterie.algorithms.mutex.token.token_ring.regenerating import Epoch, Regenerating
from coterie.algorithms.mutex.token.token_ring.rotating import TokenRing
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.process import Mutex, ProcessId

FIRST_HOLDER: ProcessId = 1


def _build(setup: Setup) -> Sequence[Mutex[Any]]:
    ring: tuple[ProcessId, ...] = setup.parameters["ring"]
    ids, pause = range(1, setup.size + 1), setup.parameters["pause"]
    if setup.variant == "regenerating":
        first = Epoch(FIRST_HOLDER, 0)
        return [Regenerating(me, ring, pause, first, token=me == FIRST_HOLDER) for me in ids]
    successor = dict(zip(ring, (*ring[1:], ring[0]), strict=True))
    return [TokenRing(me, successor[me], pause, token=me == FIRST_HOLDER) for me in ids]


def _per_entry(setup: Setup, low: float, high: float, formula: str) -> Cost:
    """State a cost in messages; alone, none leaves the process."""
    return between(low, high, formula) if setup.size > 1 else exactly(0, "0")


def _way(setup: Setup, hops: int) -> float:
    """Time the way over so many links, with a pause at everyone passed by."""
    return hops + max(0, hops - 1) * float(setup.parameters["pause"])


ALGORITHM = Algorithm(
    name="token-ring",
    family="token",
    summary="pass the token round; the process that has it may enter",
    citation=(
        "G. Le Lann. Distributed systems: towards a formal approach. IFIP Congress, 1977; as the"
        " lectures tell it."
    ),
    process=TokenRing,
    build=_build,
    costs=Costs(
        idle=lambda setup: _per_entry(setup, 1, math.inf, "1 to N + rotation"),
        again=lambda setup: _per_entry(
            setup, setup.size, math.inf, "N an entry, and one a pause forever"
        ),
        saturated=lambda setup: _per_entry(setup, 1, 1, "1"),
        client_delay=lambda setup: between(
            0, _way(setup, setup.size) if setup.size > 1 else 0, "0 to N + pauses"
        ),
        synchronisation_delay=lambda setup: between(
            min(1, setup.size - 1),
            _way(setup, setup.size - 1),
            "1 to N - 1 + pauses",
        ),
    ),
    assumes=("reliable links", "no crash"),
    tolerates=("reordering",),
    causal=True,
    variants=(
        Variant("rotating", "the token goes round all the time"),
        Variant(
            "regenerating",
            "a token that a crash has taken is replaced",
            tolerates=("crash",),
            causal=False,  # who waits answers a Census, and is then known to want in
        ),
    ),
    parameters=(
        Parameter("ring", "ascending", "the order: ascending, or ids such as 1,3,2", parse_ring),
        Parameter(
            "pause",
            "1",
            "how long an idle process keeps the token, in time units",
            lambda text, size: parse_pause(text),
        ),
    ),
)
