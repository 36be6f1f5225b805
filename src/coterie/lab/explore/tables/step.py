"""One step of one seat, and what a process has asked of the world and not been given yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.lab.explore.tables.inputs import Call, Notice, Receive, Restart, Ring, feed
from coterie.process import MutexUser, Outbox, Phase, ProcessId, check_wishes, describe_error

if TYPE_CHECKING:
    from coterie.lab.explore.tables.inputs import Input
    from coterie.process import Seat

SIZE_MAX = 64  # the receivers of one step are a set of bits


class Pending(NamedTuple):
    """The timers that a process has armed, and the processes that it watches."""

    armed: tuple[str, ...] = ()
    watched: tuple[ProcessId, ...] = ()

    def after(self, given: Input | None, out: Outbox[Any]) -> Pending:
        """Return what is pending after a step: what was asked for and given is not, unless asked again."""
        armed, watched = set(self.armed), set(self.watched)
        match given:
            case Ring(timer):
                armed.discard(timer)
            case Notice(peer):
                watched.discard(peer)
            case Call() | Receive() | Restart() | None:
                if not out.timers and not out.watches:
                    return self
        for timer, seconds in out.timers:
            (armed.discard if seconds is None else armed.add)(timer)
        for peer, wanted in out.watches:
            (watched.add if wanted else watched.discard)(peer)
        return Pending(tuple(sorted(armed)), tuple(sorted(watched)))


class Outcome(NamedTuple):
    """What came of a step: the seat afterwards, what is pending, and what was sent; or an error."""

    seat: Seat
    pending: Pending
    sends: list[tuple[ProcessId, Any]]
    error: str | None = None


def must_call(seat: Seat) -> bool:
    """Return whether the user is sure to make its call in the end: it is inside, and will leave."""
    return isinstance(seat.user, MutexUser) and seat.user.phase is Phase.INSIDE


def run(seat: Seat, pending: Pending, given: Input, size: int) -> Outcome:
    """Let a seat make a step among this many processes; the seat is changed."""
    out: Outbox[Any] = Outbox(seat.process.me)
    try:
        feed(seat, given, out)
        check_wishes(out, size)
    except Exception as error:  # noqa: BLE001 - whatever an algorithm raises is its violation
        return Outcome(seat, pending, [], describe_error(error, seat.process))
    return Outcome(seat, pending.after(given, out), out.sends)
