"""The living tickets in the queue of a lock: some are inside, the others wait."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coterie.engines.file.claim import Author
from coterie.locks.engine import Party

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coterie.engines.file.place import Content, Place


class Standing(NamedTuple):
    """A ticket whose process lives, and what it says."""

    place: Place
    author: Author
    user: int  # whose file it is, which its author cannot choose


def living(places: Iterable[Place]) -> list[Standing]:
    """Read the tickets of the living."""
    contents = [(place, place.content()) for place in places]
    return [
        Standing(place, author_of(content), content.user)
        for place, content in contents
        if content is not None
    ]


def author_of(content: Content) -> Author:
    """Read what a ticket says; one that cannot be understood says only that it is there."""
    try:
        return msgspec.json.decode(content.text, type=Author)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Author("unknown", 0.0)


def divide(line: Sequence[Standing]) -> tuple[list[Standing], list[Standing]]:
    """Divide the tickets into those inside and those that wait.

    Inside is the first, or all that share before the first that does not.
    """
    inside: list[Standing] = []
    for standing in line:
        if inside and not (standing.place.shared and inside[0].place.shared):
            break
        inside.append(standing)
    return inside, list(line[len(inside) :])


def party(lock: str, standing: Standing, *, inside: bool) -> Party:
    """Describe one of them for people; one inside has a token."""
    place, author, user = standing
    token = place.number if inside else None
    owner = author.owner if user == os.geteuid() else f"{author.owner} ({_user_name(user)})"
    return Party(lock, owner, author.since, token, place.shared)


def _user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid {user}"
