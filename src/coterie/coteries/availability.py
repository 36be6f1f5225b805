"""How often a quorum is alive when members fail independently."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coterie.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Availability:
    """The probability that a quorum is alive, and how it was found."""

    probability: float
    exact: bool = True
    error: float = 0.0  # standard error of an estimate


def count_live_sets(members: Sequence[int], quorums: Sequence[frozenset[int]]) -> list[int]:
    """Count, for each k, the sets of k members that contain a quorum.

    A Boolean function of the members is one integer here: bit s is its value for the subset s. So
    all subsets are tried at once, by a few operations on long integers.
    """
    subsets = 1 << len(members)
    everything = (1 << subsets) - 1
    present = {
        member: everything // ((1 << (2 << place)) - 1) * ((1 << (1 << place)) - 1) << (1 << place)
        for place, member in enumerate(members)
    }
    live = 0
    for quorum in quorums:
        whole = everything
        for member in quorum:
            whole &= present[member]
        live |= whole
    layers = [everything]  # layers[k]: the subsets with k of the members looked at so far
    for member in members:
        with_it, without_it = present[member], everything ^ present[member]
        longer = [0, *layers]
        layers = [
            (more & with_it) | (same & without_it)
            for more, same in zip(longer, [*layers, 0], strict=True)
        ]
    return [(live & layer).bit_count() for layer in layers]


def sampled(
    members: Sequence[int], quorums: Sequence[frozenset[int]], p: float, samples: int, seed: int
) -> Availability:
    """Estimate the availability from random sets of live members."""
    if samples < 1:
        raise UsageError(f"an estimate needs at least one sample, got {samples}")
    draw = random.Random(seed).random
    places = {member: 1 << place for place, member in enumerate(members)}
    masks = sorted(
        (sum(places[member] for member in quorum) for quorum in quorums), key=int.bit_count
    )
    bits = list(places.values())
    live = 0
    for _ in range(samples):
        dead = sum(bit for bit in bits if draw() >= p)
        live += any(not mask & dead for mask in masks)
    # One more of each kind, so that a sample without a failure does not claim certainty.
    cautious = (live + 1) / (samples + 2)
    error = (cautious * (1 - cautious) / samples) ** 0.5
    return Availability(live / samples, exact=False, error=error)
