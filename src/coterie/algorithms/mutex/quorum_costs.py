"""What it costs to lock a quorum, for every algorithm that does: counted from the quorums alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeAlias

from coterie.catalogue import Cost, Costs, Setup, between, exactly
from coterie.process import ProcessId

Quorums: TypeAlias = Mapping[ProcessId, tuple[ProcessId, ...]]  # of those who ask


def voting_costs(quorums: Callable[[Setup], Quorums], letter: str) -> Costs:
    """State the costs of Maekawa's rules over these quorums, whose size people call `letter`.

    An arbiter costs Request, Locked and Release; under contention Inquire, Relinquish and another
    Locked at most. Asking oneself is free.
    """
    best = f"3({letter} - 1)"
    return Costs(
        idle=lambda setup: _per_arbiter(quorums(setup), 3, 3, best),
        again=lambda setup: _per_arbiter(quorums(setup), 3, 3, best),
        saturated=lambda setup: _per_arbiter(quorums(setup), 3, 6, f"{best} to 6({letter} - 1)"),
        client_delay=lambda setup: client_delay(quorums(setup)),
        synchronisation_delay=lambda setup: _synchronisation_delay(quorums(setup)),
    )


def _per_arbiter(quorums: Quorums, low: int, high: int, formula: str) -> Cost:
    """Multiply by the mean number of arbiters asked, where asking oneself is free."""
    asked = sum(len(set(quorum) - {me}) for me, quorum in quorums.items())
    mean = Fraction(asked, len(quorums))
    return between(float(low * mean), float(high * mean), formula)


def client_delay(quorums: Quorums) -> Cost:
    """Count one round trip, or nothing for those who need only themselves."""
    alone = [set(quorum) == {me} for me, quorum in quorums.items()]
    return between(0 if any(alone) else 2, 0 if all(alone) else 2, "2")


def _synchronisation_delay(quorums: Quorums) -> Cost:
    """Follow Release to the common arbiters and Locked from them, for every leaver and waiter."""
    if len(quorums) == 1:
        return exactly(0, "0")
    members = {me: frozenset(quorum) for me, quorum in quorums.items()}
    delays: set[int] = set()
    for leaver, first in members.items():
        for waiter, second in members.items():
            if leaver != waiter:
                common = first & second
                delays.add(max((arbiter != leaver) + (arbiter != waiter) for arbiter in common))
        if delays == {1, 2}:  # there is no third
            break
    return between(min(delays), max(delays), "1 or 2")
