"""What it costs to lock a quorum, for every algorithm that does: counted from the quorums alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeAlias

from coterie.catalogue import Cost, Costs, MulticastCosts, Setup, between, exactly
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


def voting_multicast(quorums: Callable[[Setup], Quorums], letter: str) -> MulticastCosts:
    """State the messages where Request and Release go to all arbiters at once."""
    return MulticastCosts(
        idle=lambda setup: _one_for_all(quorums(setup), 1, f"{letter} + 1"),
        again=lambda setup: _one_for_all(quorums(setup), 1, f"{letter} + 1"),
        saturated=lambda setup: _one_for_all(quorums(setup), 4, f"{letter} + 1 to 4{letter} - 2"),
    )


def _per_arbiter(quorums: Quorums, low: int, high: int, formula: str) -> Cost:
    """Multiply by the mean number of arbiters asked, where asking oneself is free."""
    asked = sum(len(set(quorum) - {me}) for me, quorum in quorums.items())
    mean = Fraction(asked, len(quorums))
    return between(float(low * mean), float(high * mean), formula)


def _one_for_all(quorums: Quorums, most: int, formula: str) -> Cost:
    """Count one Request and one Release for all arbiters, and the rest for each."""
    asked = [len(set(quorum) - {me}) for me, quorum in quorums.items()]
    low, high = (
        Fraction(sum(2 + each * count if count else 0 for count in asked), len(asked))
        for each in (1, most)
    )
    return between(float(low), float(high), formula)


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
