"""What may happen in a world with a clock, and how far it goes.

Time is counted in ticks; messages take a bounded number of them, and timers are exact. Within a tick
the processes take their turns in order. A message takes at least one tick, so what one process does
in its turn cannot reach another in the same tick, and the order of the turns loses nothing. In its
turn a process may handle what can have arrived, in any order between links; must handle what has
arrived as late as allowed, and has waited there as long as allowed; lets the timers ring that are
due, after all that must have arrived; and may be called by its user or crash at any point, also in
the middle of a broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from coterie.process import Outbox, Payload, ProcessId, Seat

WHOLE = -1  # in place of how many messages of a step have left


class Move(NamedTuple):
    """What happens next, to the process whose turn it is."""

    kind: str  # deliver, lose, ring, call, crash, return or pass
    name: str = ""  # of the timer or the call
    sender: ProcessId = 0
    sent: int = WHOLE  # fewer than all: it dies when this many messages of the step have left


START = Move("return")


@dataclass(frozen=True)
class Bounds:
    """How far the world goes."""

    delay_min: int
    delay_max: int
    crashes: int
    returns: int
    handling_max: int = 0  # ticks from the arrival of a message until it is handled


def feed(seat: Seat, move: Move, message: Payload | None, out: Outbox[Any]) -> None:
    """Feed an input to a seat."""
    match move.kind:
        case "deliver":
            seat.receive(move.sender, message, out)
        case "ring":
            seat.ring(move.name, out)
        case "call":
            seat.call(move.name, out)
        case _:
            seat.start(out)
