"""The local states of the processes, and what a step does to them, each a small number.

A local state is a process, its user and the timers it has armed, or the fact that it has crashed. A
handler is a pure function of it and of the input, so each step is computed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie.errors import ProtocolError
from coterie.explore.arrays import Growing, Slots
from coterie.explore.hashing import scatter
from coterie.explore.inputs import Ring, feed
from coterie.explore.memo import PairMemo
from coterie.process import Outbox, SeatCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.explore.arrays import Ids, Numbers
    from coterie.explore.inputs import Input, Inputs
    from coterie.explore.links import Links
    from coterie.process import ProcessId, Seat

SIZE_MAX = 64  # receivers of one step are a set of bits


class Local(NamedTuple):
    """A local state, saved."""

    place: int  # process id - 1
    saved: tuple[bytes, bytes] | None  # None: crashed
    armed: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """What came of a step: the seat and its timers afterwards, and what was sent, or an error."""

    seat: Seat
    armed: tuple[str, ...]
    sends: list[tuple[ProcessId, Any]]
    error: str | None = None


def run(seat: Seat, armed: tuple[str, ...], given: Input, size: int) -> Outcome:
    """Let a seat make a step among so many processes; the seat is changed."""
    out: Outbox[Any] = Outbox(seat.process.me)
    try:
        feed(seat, given, out)
        check_receivers(out, size)
    except Exception as error:  # noqa: BLE001 - whatever an algorithm raises is its violation
        return Outcome(seat, armed, [], f"{type(error).__name__}: {error}")
    rang = given.timer if isinstance(given, Ring) else None
    return Outcome(seat, rearm(armed, out, rang), out.sends)


def check_receivers(out: Outbox[Any], size: int) -> None:
    """Raise if something was sent to nobody."""
    for to, message in out.sends:
        if not 1 <= to <= size:
            raise ProtocolError(f"process {out.me} sent {message} to process {to}, who is none")


def rearm(armed: Sequence[str], out: Outbox[Any], rang: str | None = None) -> tuple[str, ...]:
    """Timers armed after a step: a timer that rang is spent, unless the step set it again."""
    if not out.timers and rang is None:
        return tuple(armed)
    timers = set(armed) - {rang}
    for name, after in out.timers:
        if after is None:
            timers.discard(name)
        else:
            timers.add(name)
    return tuple(sorted(timers))


class Seats:
    """Numbers each local state; those of two processes never share one."""

    def __init__(self, seats: Sequence[Seat], inputs: Inputs) -> None:
        """Start with no states; the seats tell the types."""
        self._codecs = [SeatCodec(seat) for seat in seats]
        self._inputs = inputs
        self._numbers: dict[Local, int] = {}
        self.locals: list[Local] = []
        self.own = Slots()  # calls that the user may make, then timers that may ring
        self.zobrist = Growing(np.uint64)
        self._markers: list[tuple[Callable[[Seat], bool], Growing]] = []

    def __len__(self) -> int:
        """Count the states."""
        return len(self.locals)

    def save(self, place: int, seat: Seat, armed: tuple[str, ...]) -> int:
        """Number the state of a live process."""
        return self._number(Local(place, self._codecs[place].save(seat), armed))

    def crash(self, place: int) -> int:
        """Number the state of a crashed process."""
        return self._number(Local(place, None))

    def restore(self, number: int) -> Seat | None:
        """Make the seat again; None for a crashed one."""
        place, saved, _ = self.locals[number]
        return None if saved is None else self._codecs[place].restore(saved)

    def mark(self, predicate: Callable[[Seat], bool]) -> Growing:
        """Keep an array that tells for each state whether the predicate holds; crashed: never."""
        marks = Growing(np.int8)
        self._markers.append((predicate, marks))
        for number in range(len(self)):
            seat = self.restore(number)
            marks.append(seat is not None and bool(predicate(seat)))
        return marks

    def _number(self, local: Local) -> int:
        known = self._numbers.get(local)
        if known is not None:
            return known
        number = self._numbers[local] = len(self.locals)
        self.locals.append(local)
        self.zobrist.append(scatter(2 * number + 1))
        seat = self.restore(number)
        calls = () if seat is None else seat.user.calls()
        own = [self._inputs.call(name) for name in calls]
        self.own.append(own + [self._inputs.ring(timer) for timer in local.armed])
        for predicate, marks in self._markers:
            marks.append(seat is not None and bool(predicate(seat)))
        return number


class Steps:
    """What each input does to each local state: the next state, and what is sent to whom."""

    def __init__(self, seats: Seats, links: Links, inputs: Inputs, size: int) -> None:
        """Start with no steps computed."""
        self._seats = seats
        self._links = links
        self._inputs = inputs
        self._memo = PairMemo(self._compute)
        self.after = Growing(np.int32)  # by result
        self.receivers = Growing(np.uint64)  # a bit for each place that something is sent to
        self.sent = [Growing(np.int32) for _ in range(size)]  # to each place, as a suffix
        self.errors: dict[int, str] = {}  # results of handlers that raised
        self.witness: Callable[[int, Input, Outcome], None] | None = None  # sees each step
        self._append(0, [()] * size)  # so that no step has number 0

    def __call__(self, states: Ids, inputs: Numbers) -> Numbers:
        """Results of these steps."""
        return self._memo(states, inputs, (len(self._seats), len(self._inputs)))

    def _compute(self, state: int, number: int) -> int:
        seat = self._seats.restore(state)
        assert seat is not None, "a crashed process takes no input"
        place, _, armed = self._seats.locals[state]
        given = self._inputs[number]
        outcome = run(seat, armed, given, len(self.sent))
        if self.witness is not None:
            self.witness(state, given, outcome)
        if outcome.error is None:
            after = self._seats.save(place, seat, outcome.armed)
            return self._append(after, self.dispatch(place + 1, outcome.sends))
        self.errors[len(self.after)] = outcome.error
        return self._append(state, [()] * len(self.sent))

    def dispatch(
        self, sender: ProcessId, sends: Sequence[tuple[ProcessId, Any]]
    ) -> list[tuple[int, ...]]:
        """Sort what was sent by the place of the receiver, as inputs."""
        sent: list[tuple[int, ...]] = [()] * len(self.sent)
        for to, message in sends:
            sent[to - 1] += (self._inputs.receive(sender, message),)
        return sent

    def _append(self, after: int, sent: list[tuple[int, ...]]) -> int:
        self.after.append(after)
        self.receivers.append(sum(1 << place for place, content in enumerate(sent) if content))
        for place, content in enumerate(sent):
            self.sent[place].append(self._links.suffix(content) if content else 0)
        return len(self.after) - 1
