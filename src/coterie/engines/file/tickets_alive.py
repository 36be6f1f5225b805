"""Who stands in the queue of a lock: the living, some of them inside, the others waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie.engines.file.claim import Author
from coterie.locks.engine import Party

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.engines.file.place import Place


class Standing(NamedTuple):
    """A ticket of somebody who lives, and what it says."""

    place: Place
    author: Author


def living(places: Iterable[Place]) -> list[Standing]:
    """Read the tickets of the living."""
    contents = [(place, place.content()) for place in places]
    return [
        Standing(place, msgspec.json.decode(content, type=Author))
        for place, content in contents
        if content is not None
    ]


def divide(line: Sequence[Standing]) -> tuple[list[Standing], list[Standing]]:
    """Tell who is inside from who waits.

    Inside is the first, or all who share before the first who does not.
    """
    inside: list[Standing] = []
    for standing in line:
        if inside and not (standing.place.shared and inside[0].place.shared):
            break
        inside.append(standing)
    return inside, list(line[len(inside) :])


def party(lock: str, standing: Standing, *, inside: bool) -> Party:
    """Describe one of them for people; who is inside has a token."""
    place, author = standing
    token = place.number if inside else None
    return Party(lock, author.owner, author.since, token, place.shared)
