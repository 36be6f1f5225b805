"""What should hold in all reachable states, what should be seen in some, what should stay possible.

Conditions look at the seats of all processes; a crashed process fulfils no predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from coterie.process import ElectionUser, MutexUser, Phase, Seat

SeatPredicate: TypeAlias = Callable[[Seat], bool]
RowPredicate: TypeAlias = Callable[[Sequence[Seat | None]], bool]  # None: crashed


class Count(msgspec.Struct, frozen=True):
    """Holds when the number of seats that fulfil the predicate is within bounds."""

    predicate: SeatPredicate
    low: int = 0
    high: int | None = None


class Together(msgspec.Struct, frozen=True):
    """Holds when the predicate does, which sees all seats at once."""

    predicate: RowPredicate


Condition: TypeAlias = Count | Together


def holds(conditions: Sequence[Condition], seats: Sequence[Seat | None]) -> bool:
    """Return whether all conditions hold in one state; a crashed process has no seat."""
    for condition in conditions:
        match condition:
            case Count(predicate, low, high):
                count = sum(seat is not None and predicate(seat) for seat in seats)
                if not low <= count <= (len(seats) if high is None else high):
                    return False
            case Together(row_predicate):
                if not row_predicate(seats):
                    return False
    return True


class Always(msgspec.Struct, frozen=True):
    """All conditions hold in every reachable state. The text says what is wrong when not."""

    name: str
    conditions: tuple[Condition, ...]
    text: str


class Sometimes(msgspec.Struct, frozen=True):
    """In some reachable state all conditions hold: proof that the interesting thing happens."""

    name: str
    conditions: tuple[Condition, ...]


class CanAlwaysStill(msgspec.Struct, frozen=True):
    """From every reachable state, each live seat can get to fulfil the predicate.

    It must be possible without faults, and without any further request: users that are inside
    leave, but none need ever ask again. The text says what is wrong with a seat that
    cannot get there.
    """

    name: str
    predicate: SeatPredicate
    text: str


class Settles(msgspec.Struct, frozen=True):
    """From every reachable state, what is sure to happen can lead to rest.

    At rest, when nothing is sure to happen any more, all conditions hold; the text says what is
    wrong when not.
    """

    name: str
    conditions: tuple[Condition, ...]
    text: str


Property: TypeAlias = Always | Sometimes | CanAlwaysStill | Settles


def at_most(limit: int, predicate: SeatPredicate) -> Count:
    """At most so many seats fulfil the predicate."""
    return Count(predicate, high=limit)


def at_least(limit: int, predicate: SeatPredicate) -> Count:
    """At least so many seats fulfil the predicate."""
    return Count(predicate, low=limit)


def inside(seat: Seat) -> bool:
    """Return whether the user is in the critical section."""
    return isinstance(seat.user, MutexUser) and seat.user.phase is Phase.INSIDE


def waiting(seat: Seat) -> bool:
    """Return whether the user waits for the critical section."""
    return isinstance(seat.user, MutexUser) and seat.user.phase is Phase.WAITING


def not_waiting(seat: Seat) -> bool:
    """Return whether the user has what it asked for."""
    return not waiting(seat)


MUTUAL_EXCLUSION = Always("mutual exclusion", (at_most(1, inside),), "more than one is inside")
CONTENTION = Sometimes("contention", (at_least(1, waiting), at_least(1, inside)))
ENTRY = CanAlwaysStill("entry stays possible", not_waiting, "can never enter")
MUTEX: tuple[Property, ...] = (MUTUAL_EXCLUSION, CONTENTION, ENTRY)


def one_live_leader(seats: Sequence[Seat | None]) -> bool:
    """Return whether all live users follow the same process, and that one lives."""
    live = {seat.process.me: seat.user for seat in seats if seat is not None}
    leaders = {user.leader for user in live.values() if isinstance(user, ElectionUser)}
    return not live or (len(leaders) == 1 and leaders <= live.keys())


AGREEMENT = Settles(
    "agreement",
    (Together(one_live_leader),),
    "the live processes do not all follow one live leader",
)
ELECTION: tuple[Property, ...] = (AGREEMENT,)
