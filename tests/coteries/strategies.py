"""Random coteries for property tests, and all small ones for exhaustive ones."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from coterie.coteries import Coterie

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def smallest(family: Iterable[frozenset[int]]) -> set[frozenset[int]]:
    """Keep the sets that contain no other."""
    sets = set(family)
    return {one for one in sets if not any(other < one for other in sets)}


def from_sets(members: Iterable[int], sets: Iterable[frozenset[int]]) -> Coterie:
    """Take the sets one after the other as long as they meet all those taken."""
    taken: list[frozenset[int]] = []
    for candidate in sets:
        if all(candidate & other for other in taken):
            taken.append(candidate)
    return Coterie(members, smallest(taken))


@st.composite
def coteries(draw: st.DrawFn, least: int = 1, most: int = 7) -> Coterie:
    """Draw a coterie of up to seven members."""
    size = draw(st.integers(least, most))
    members = range(1, size + 1)
    sets = draw(
        st.lists(st.frozensets(st.integers(1, size), min_size=1), min_size=1, max_size=3 * size)
    )
    return from_sets(members, sets)


def all_coteries(size: int) -> Iterator[Coterie]:
    """Give every coterie under the members 1 to `size`, each once; size at most 4."""
    members = range(1, size + 1)
    sets = [
        frozenset(chosen)
        for length in members
        for chosen in itertools.combinations(members, length)
    ]

    def extend(taken: list[frozenset[int]], rest: list[frozenset[int]]) -> Iterator[Coterie]:
        if taken:
            yield Coterie(members, taken)
        for place, candidate in enumerate(rest):
            if all(candidate & other and not other < candidate for other in taken):
                yield from extend([*taken, candidate], rest[place + 1 :])

    yield from extend([], sets)
