"""What is explored: the processes of a first line within a bound, and a play as a state of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from coterie.catalogue import find
from coterie.lab.explore import needs_clock
from coterie.lab.explore.properties import AGREEMENT, POSSIBLE, Always, declared
from coterie.lab.explore.tables.faults import Faults
from coterie.lab.explore.tables.moves import Moves
from coterie.lab.explore.tables.step import Pending
from coterie.lab.play.exploration.bound import spent_faults
from coterie.process import Election, ElectionUser, InputUser, Mutex, MutexUser, Seat, seat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.explore.properties import Property
    from coterie.lab.explore.tables.arrays import Rows
    from coterie.lab.play.exploration.bound import Bound
    from coterie.lab.scenario.play import Play
    from coterie.lab.scenario.world import Move
    from coterie.process import Payload, Process, ProcessId

TIMED = (
    "This algorithm relies on bounds of time, and a run by hand has an order but no times: the same states"
    " can be reached at many. So it is not searched what a move leads to, which `coterie check` does tick by"
    " tick. Moves are marked that no times within the bounds allow: a message that takes too long,"
    " or a timer that does not ring when it is due."
)
CLOCKED = (
    "This algorithm reads a clock, which stands still here: only safety is judged. Progress takes a"
    " clock: simulate it."
)


class Scope:
    """The processes of a play, to be explored."""

    def __init__(self, play: Play, bound: Bound, *, whole: bool = False) -> None:
        """Take the choices of a play; its faults count, too, unless the whole graph is explored."""
        self.bound = bound
        processes = build(play)
        seats = [seat(process, bound.entries) for process in processes]
        happened = Faults() if whole else spent_faults(play.spent)
        self.moves = Moves(seats, play.channel, Faults(*map(max, bound.faults, happened)))
        self.safety_only = find(play.header.algorithm).reads_clock
        usual = usual_properties(processes)
        self.properties = (
            [item for item in usual if isinstance(item, Always)] if self.safety_only else usual
        )

    def column(self, play: Play) -> Rows:
        """Return the state in which a play is. A user that has asked too often will ask no more."""
        world = play.world
        seats = [
            None if me in world.crashed else (self._seat(play, me), _pending(play, me))
            for me in world.seats
        ]
        under_way: dict[tuple[int, int], list[Payload]] = {}
        for letter in world.transit:
            link = letter.sender - 1, letter.receiver - 1
            under_way.setdefault(link, []).append(letter.message)
        return self.moves.column(seats, under_way, self.left(play))

    def left(self, play: Play) -> Faults:
        """Return the faults that the bound still allows."""
        spent = spent_faults(play.spent)
        return Faults(*(max(0, most - n) for most, n in zip(self.bound.faults, spent, strict=True)))

    def allows(self, play: Play, move: Move) -> bool:
        """Return whether a move that is possible in a play is one that the bound allows, too."""
        left = self.left(play)
        match move.kind:
            case "call":
                asks = not _is_inside(play, move.process)
                return not asks or play.asked[move.process] < self.bound.entries
            case "drop":
                return left.lose > 0 or move.process in play.world.crashed
            case "repeat":
                return left.duplicate > 0
            case "suspect":
                return left.suspect > 0
            case "crash":
                return left.crash > 0
            case kind:
                return kind != "restart"

    def _seat(self, play: Play, me: ProcessId) -> Seat:
        process, user = play.world.seats[me].process, play.world.seats[me].user
        if not isinstance(user, MutexUser | ElectionUser | InputUser):
            return Seat(process, user)
        left = max(0, self.bound.entries - play.asked[me])
        return Seat(process, msgspec.structs.replace(user, entries=left))


def build(play: Play) -> Sequence[Process[Any]]:
    """Build the processes of a play once more, as they are before their start."""
    header = play.header
    entry = find(header.algorithm)
    return entry.build(entry.setup(header.size, header.variant or None, header.parameters))


def unexplored(play: Play) -> str | None:
    """Say why the explorer cannot have the processes of a play, if it cannot."""
    if is_timed(play):
        return TIMED
    if find(play.header.algorithm).reads_clock and play.header.clock == "time":
        return "Clocks go on with every move here, so that no fates are shown: choose clock=none."
    return None


def is_timed(play: Play) -> bool:
    """Return whether the processes of a play rely on bounds of time."""
    return needs_clock([seat.process for seat in play.world.seats.values()])


def limits(play: Play) -> str | None:
    """Say what is not judged in a play, if anything is not."""
    return CLOCKED if find(play.header.algorithm).reads_clock else None


def properties_of(play: Play) -> Sequence[Property]:
    """Return what the processes of a play are judged by."""
    return usual_properties([seat.process for seat in play.world.seats.values()])


def usual_properties(processes: Sequence[Process[Any]]) -> Sequence[Property]:
    """Return what processes of their kind are judged by, and what their classes declare."""
    own = declared(processes)
    if all(isinstance(process, Mutex) for process in processes):
        return (*POSSIBLE, *own)
    elect = all(isinstance(process, Election) for process in processes)
    return (AGREEMENT, *own) if elect else own


def _pending(play: Play, me: ProcessId) -> Pending:
    world = play.world
    return Pending(tuple(sorted(world.timers[me])), tuple(sorted(world.watched[me])))


def _is_inside(play: Play, me: ProcessId) -> bool:
    user = play.world.seats[me].user
    return isinstance(user, MutexUser) and user.calls() == ("release",)
