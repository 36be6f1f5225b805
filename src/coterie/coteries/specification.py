"""Coteries as a user writes them: a name, a name with a parameter, or the quorums themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.coteries.coterie import Coterie
from coterie.coteries.finite_field import prime_power
from coterie.coteries.grid import grid
from coterie.coteries.plane import points_of, projective_plane, relaxed_plane
from coterie.coteries.tree import tree
from coterie.coteries.votes import majority, singleton, unanimous, weighted
from coterie.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

DIGITS_MAX = 18  # of one number


def parse_coterie(text: str, size: int) -> Coterie:
    """Read a coterie of the processes 1 to `size`.

    Args:
        text: a name (`plane`, `grid`, `majority`, `tree`, `singleton`, `unanimous`), a name with a
            parameter (`plane:2`, `weighted:3,1,1`), or quorums (`1,2 2,3 1,3`), which are checked.
        size: the number of processes.

    Raises:
        UsageError: the text makes no sense.
        ConfigError: it does not fit the size, or two of the quorums do not meet.
    """
    if size < 1:
        raise UsageError(f"a coterie needs at least one member, got {size}")
    name, colon, parameter = text.strip().partition(":")
    if not colon and name in _NAMED:
        return _NAMED[name](size)
    if colon and name in _PARAMETRISED:
        return _PARAMETRISED[name](parameter, size)
    if text.strip() and set(text) <= set("0123456789, "):
        return _explicit(text, size)
    raise UsageError(f"unknown coterie: {text!r}; choose from: {', '.join(_FORMS)}")


def _plane_of_order(text: str, size: int) -> Coterie:
    (order,) = _numbers(text, "the order of a plane", count=1)
    if order > size or (prime_power(order) and points_of(order) != size):
        raise ConfigError(
            f"a plane of order {order} has {points_of(order)} members, not {size};"
            " the coterie 'plane' fits any number"
        )
    return projective_plane(order)


def _weighted(text: str, size: int) -> Coterie:
    votes = _numbers(text, "a number of votes")
    if len(votes) != size:
        raise ConfigError(f"{len(votes)} vote counts for {size} processes: give one for each")
    return weighted(dict(enumerate(votes, start=1)))


def _explicit(text: str, size: int) -> Coterie:
    coterie = Coterie(
        range(1, size + 1), [_numbers(quorum, "a process id") for quorum in text.split()]
    )
    coterie.check()
    return coterie


def _numbers(text: str, meaning: str, count: int | None = None) -> list[int]:
    words = text.split(",")
    readable = all(word.isdecimal() and len(word) <= DIGITS_MAX for word in words)
    if not readable or (count is not None and len(words) != count):
        raise UsageError(f"{text!r} is not {meaning}: expected whole numbers, as in '3' or '3,1,1'")
    return [int(word) for word in words]


_NAMED: dict[str, Callable[[int], Coterie]] = {
    "grid": lambda size: grid(range(1, size + 1)),
    "majority": lambda size: majority(range(1, size + 1)),
    "plane": relaxed_plane,
    "singleton": lambda size: singleton(range(1, size + 1)),
    "tree": lambda size: tree(range(1, size + 1)),
    "unanimous": lambda size: unanimous(range(1, size + 1)),
}
_PARAMETRISED: dict[str, Callable[[str, int], Coterie]] = {
    "plane": _plane_of_order,
    "weighted": _weighted,
}
_FORMS = (*_NAMED, "plane:ORDER", "weighted:VOTES,...", "quorums such as '1,2 2,3 1,3'")
