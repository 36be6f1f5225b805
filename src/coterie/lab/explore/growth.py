"""Why a search has no end: a field that only grows makes each state a new one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from coterie.lab.explore.tables.seats import Seats

LOOKED_AT = 4096  # local states, taken evenly from all that were found
STRETCHES = (
    8  # in the order in which they were found; the field is larger in each than in all before
)
LEAST = 16  # a field that does not get beyond this has hardly grown


class Growth(NamedTuple):
    """A field, and how large it has become."""

    field: str
    size: int

    def __str__(self) -> str:
        """Say what to do about it."""
        return (
            f"field {self.field!r} grows ({self.size} by now), so no state comes again: bound it by --entries, leave what"
            " only counts out of the state, or declare a time as LogicalTime and give --canonical"
        )


def find_growth(seats: Seats) -> Growth | None:
    """Find the field that has grown most all the time, if any has."""
    step = max(1, len(seats) // LOOKED_AT)
    found: dict[str, list[int]] = {}
    for number in range(0, len(seats), step):
        seat = seats.restore(number)
        if seat is not None:
            for field in seat.process.__struct_fields__:
                found.setdefault(field, []).append(_amount(getattr(seat.process, field)))
    grown = [Growth(field, max(amounts)) for field, amounts in found.items() if _grows(amounts)]
    return max(grown, key=lambda growth: growth.size, default=None)


def _grows(amounts: list[int]) -> bool:
    length = len(amounts) // STRETCHES
    if not length:
        return False
    most = [max(amounts[at * length : (at + 1) * length]) for at in range(STRETCHES)]
    return most[-1] >= LEAST and all(max(most[:at]) < most[at] for at in range(1, STRETCHES))


def _amount(value: Any) -> int:
    """Return the largest number in a value, or how many parts it has, if that is more."""
    if isinstance(value, int):
        return abs(value)
    if isinstance(value, msgspec.Struct):
        parts: Iterable[Any] = msgspec.structs.astuple(value)
    elif isinstance(value, Mapping):
        parts = value.values()
    elif (
        isinstance(value, Iterable)
        and isinstance(value, Sized)
        and not isinstance(value, str | bytes)
    ):
        parts = value
    else:
        return 0
    inner = max(map(_amount, parts), default=0)
    return max(inner, len(value)) if isinstance(value, Sized) else inner
