"""What should hold in all reachable states, what should be seen in some, what should stay possible.

Conditions look at the seats of all processes; a crashed process fulfils no predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from coterie.process import ElectionUser, MutexUser, Phase, Process, Seat

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


class Exercised(msgspec.Struct, frozen=True):
    """In some reachable state all conditions hold, or nothing was shown: the text says why."""

    name: str
    conditions: tuple[Condition, ...]
    text: str


class CanAlwaysStill(msgspec.Struct, frozen=True):
    """From every reachable state, each live seat can get to fulfil the predicate.

    It must be possible without faults, and without any further request: users that are inside
    leave, but none need ever ask again. A seat that cannot get there so is *stalled*; it is *lost*
    if the requests of others cannot help, either.
    """

    name: str
    predicate: SeatPredicate
    verb: str  # what a seat does that gets there, such as `enter`


class Eventually(msgspec.Struct, frozen=True):
    """In every fair run, each live seat that does not fulfil the predicate comes to do so.

    A run is fair if it takes every step that stays possible: see `coterie.lab.explore.liveness`.
    The text says what is wrong with a seat that need never get there.
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


Property: TypeAlias = Always | Sometimes | Exercised | CanAlwaysStill | Eventually | Settles


def declared(processes: Sequence[Process[Any]]) -> tuple[Property, ...]:
    """Return what the classes of these processes say that they are to be judged by."""
    return tuple(dict.fromkeys(item for process in processes for item in process.properties))


def liveness(properties: Sequence[Property], *, decided: bool = True) -> str:
    """Say what every fair run is sure to come to, all states being seen and no property violated.

    A timer that is set again and again counts as a step that stays possible.
    """
    said = [item.name for item in properties if isinstance(item, Eventually)]
    if any(isinstance(item, Settles) for item in properties):
        said.append("every run comes to rest")
    if not said:
        possible = [item.name for item in properties if isinstance(item, CanAlwaysStill)]
        return f"{possible[0]}, and no more is promised" if possible else ""
    if not decided:
        return f"not decided whether {' and '.join(said)}: there are too many moves to judge"
    return f"{' and '.join(said)} (weak fairness)"


def at_most(limit: int, predicate: SeatPredicate) -> Count:
    """No more seats than the limit fulfil the predicate."""
    return Count(predicate, high=limit)


def at_least(limit: int, predicate: SeatPredicate) -> Count:
    """No fewer seats than the limit fulfil the predicate."""
    return Count(predicate, low=limit)


def inside(seat: Seat) -> bool:
    """Return whether the user is in the critical section."""
    return isinstance(seat.user, MutexUser) and seat.user.phase is Phase.INSIDE


def waiting(seat: Seat) -> bool:
    """Return whether the user waits for the critical section."""
    return isinstance(seat.user, MutexUser) and seat.user.phase is Phase.WAITING


def may_ask(seat: Seat) -> bool:
    """Return whether the user may make a request, however few entries a search allows."""
    user = seat.user
    return user.phase is Phase.IDLE if isinstance(user, MutexUser) else bool(user.calls())


def not_waiting(seat: Seat) -> bool:
    """Return whether the user has what it asked for."""
    return not waiting(seat)


MUTUAL_EXCLUSION = Always("mutual exclusion", (at_most(1, inside),), "more than one is inside")
CONTENTION = Sometimes("contention", (at_least(1, waiting), at_least(1, inside)))
ENTRY = CanAlwaysStill("entry stays possible", not_waiting, "enter")
PROGRESS = Eventually("every wait ends", not_waiting, "may wait without end")
WAITED = Exercised("a wait", (at_least(1, waiting),), "no process ever waits")
UNJUDGED = (
    Exercised(  # of processes that are neither mutexes nor elections, if nothing else is asked
        "a property",
        (Together(lambda seats: False),),
        "no property says what these processes should do",
    )
)
POSSIBLE: tuple[Property, ...] = (MUTUAL_EXCLUSION, CONTENTION, ENTRY)
WITHOUT_PROGRESS: tuple[Property, ...] = (*POSSIBLE, WAITED)
MUTEX: tuple[Property, ...] = (*WITHOUT_PROGRESS, PROGRESS)


def one_live_leader(seats: Sequence[Seat | None]) -> bool:
    """Return whether all live users follow the same process, and that one lives."""
    live = {seat.process.me: seat.user for seat in seats if seat is not None}
    leaders = {user.leader for user in live.values() if isinstance(user, ElectionUser)}
    return not live or (len(leaders) == 1 and leaders <= live.keys())


def highest_leads(seats: Sequence[Seat | None]) -> bool:
    """Return whether each live user follows the highest live process."""
    live = [seat for seat in seats if seat is not None]
    highest = max((seat.process.me for seat in live), default=None)
    users = [seat.user for seat in live]
    return all(user.leader == highest for user in users if isinstance(user, ElectionUser))


def leads(seat: Seat) -> bool:
    """Return whether the user was told to follow its own process."""
    return isinstance(seat.user, ElectionUser) and seat.user.leader == seat.process.me


def follows(seat: Seat) -> bool:
    """Return whether the user follows another process."""
    return isinstance(seat.user, ElectionUser) and seat.user.leader not in {None, seat.process.me}


AGREEMENT = Settles(
    "agreement",
    (Together(one_live_leader),),
    "the live processes do not all follow one live leader",
)
HIGHEST = Settles(
    "the highest leads", (Together(highest_leads),), "not all follow the highest live process"
)
ONE_LEADER = Always("one leader", (at_most(1, leads),), "more than one takes itself for the leader")
FOLLOWED = Exercised("a leader", (at_least(1, follows),), "no process ever follows another")
ELECTION: tuple[Property, ...] = (FOLLOWED, AGREEMENT)
