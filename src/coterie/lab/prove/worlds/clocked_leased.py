"""Voters and participants of the leased lock in one time, each with a clock that runs at a rate of its own.

Frames are lost or come twice, voters crash and start again with their disk, and timers ring late. Rates, and
the moments at which something happens, are such that a time on a clock is converted without rounding.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from coterie.algorithms.mutex.quorum.leased.configuration import founding
from coterie.algorithms.mutex.quorum.leased.participant import participant
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.algorithms.mutex.quorum.leased.voter import VOTER, Voter
from coterie.lab.explore.tables.inputs import Call, Receive, Ring, feed
from coterie.lab.prove.link import ANYWHERE, Snapshot, Step
from coterie.lab.prove.worlds.leased import Watched
from coterie.process import Outbox, Seat, SeatCodec, seat

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from coterie.lab.explore.tables.inputs import Input
    from coterie.lab.prove.link import Trial
    from coterie.lab.prove.plain import State
    from coterie.process import Process, ProcessId

RATE_ERROR = Fraction(1, 4)
RATES = (Fraction(3, 4), Fraction(5, 4), Fraction(1))
GRAIN = Fraction(1, 64)  # of time, so that each clock shows a number of 1/256
PASSES = (4 * GRAIN, 16 * GRAIN, 64 * GRAIN)  # so much time may pass between two steps
LEASE = 4
LOSSES, DOUBLES = 6, 6  # in a run

TIMES: dict[str, Any] = {
    "policy": "all",
    "lease": float(LEASE),
    "rate_error": float(RATE_ERROR),
    "margin": float(GRAIN),
    "heartbeat": 1.0,
    "hedge": 0.25,
    "unwind": 4.0,
    "interval": 2,
    "reserve": 3,
}

Timers: TypeAlias = tuple[tuple[str, float], ...]  # and when each rings, by its own clock


class Clocked(Watched):
    """A voter or a participant with its clock."""

    rate: tuple[int, int] = (1, 1)  # of its clock to the time of all

    def reads(self, now: Fraction) -> float:
        """Return what its clock shows at a moment."""
        return float(now * Fraction(*self.rate))

    def moment(self, shown: float) -> Fraction:
        """Return the moment at which its clock shows this."""
        return Fraction(shown) / Fraction(*self.rate)

    def _ring(self, timer: str, out: Outbox[Any]) -> None:
        if timer == VOTER:
            assert self.voter is not None
            self.voter.ring(timer, out)
        else:
            super()._ring(timer, out)

    def restart(self, out: Outbox[Any]) -> None:
        """Begin again with what is on the disk."""
        self.starts += 1
        out.saved = self.disk
        self._step(out, lambda: self._begin_again(out))

    def _begin_again(self, out: Outbox[Any]) -> None:
        self.voter = Voter(self.origin)
        self.voter.start(f"{self.me}.{self.starts}", out)


def clocked(voters: int, participants: int) -> list[Clocked]:
    """Make voters 1 and up, and participants after them, with clocks as different as they may be."""
    configuration = founding(Settings(voters, **TIMES))
    made = []
    for me in range(1, voters + participants + 1):
        votes = me <= voters
        rate = RATES[me % len(RATES)]
        made.append(
            Clocked(
                me,
                participant(configuration, (me - 1) % voters + 1),
                Voter(configuration) if votes else None,
                origin=configuration if votes else None,
                rate=(rate.numerator, rate.denominator),
            )
        )
    return made


class Moment(NamedTuple):
    """A state of all processes, at a moment."""

    now: Fraction
    seats: tuple[tuple[bytes, bytes], ...]  # saved
    timers: tuple[Timers, ...]
    down: tuple[ProcessId, ...]
    links: tuple[tuple[tuple[ProcessId, ProcessId], tuple[Any, ...]], ...]  # that have messages
    losses: int
    doubles: int
    crashes: int


class ClockedWalk:
    """Real processes with clocks, step by step, each drawn at random."""

    def __init__(
        self, processes: Sequence[Process[Any]], trial: Trial, asks: Callable[[Any], bool]
    ) -> None:
        """Take processes as they are before their start; each voter may crash so often as it may restart."""
        self._seats = [seat(each, trial.entries if asks(each) else 0) for each in processes]
        self._codecs = [SeatCodec(each) for each in self._seats]
        self._voters = [each.me for each in processes if not asks(each)]
        self._crashes = trial.restarts * len(self._voters)

    def start(self) -> Moment:
        """Let each process begin, in the order of ids."""
        saved = tuple(codec.save(s) for codec, s in zip(self._codecs, self._seats, strict=True))
        none: tuple[Timers, ...] = ((),) * len(saved)
        state = Moment(Fraction(0), saved, none, (), (), LOSSES, DOUBLES, self._crashes)
        for each in self._seats:
            state = self._let(state, each.process.me, Seat.start)
        return state

    def snapshot(self, state: Moment, past: State | None = None) -> Snapshot:
        """Show a state to a link: also those that are down, for the sake of what was noted of them."""
        seats = [c.restore(saved) for c, saved in zip(self._codecs, state.seats, strict=True)]
        links = {link: list(messages) for link, messages in state.links}
        return Snapshot(seats, links, past, state.down, state.now)

    def steps(self, state: Moment) -> list[Step]:
        """Return every step from a state."""
        return [make() for make in self._choices(state)]

    def draw(self, state: Moment, chance: random.Random) -> Step | None:
        """Make one of the steps from a state."""
        return chance.choice(self._choices(state))()

    def _choices(self, state: Moment) -> list[Callable[[], Step]]:
        """List what may happen, without doing it."""
        found: list[Callable[[], Step]] = [
            partial(self._pass, state, duration) for duration in PASSES
        ]
        for link, _ in state.links:
            found += [partial(self._deliver, state, link)]
            found += [partial(self._lose, state, link)] * (state.losses > 0)
            found += [partial(self._deliver, state, link, comes_again=True)] * (state.doubles > 0)
        for place, saved in enumerate(state.seats):
            if place + 1 not in state.down:
                found += self._own(state, place, self._codecs[place].restore(saved))
        found += [partial(self._restart, state, me) for me in state.down]
        if state.crashes:
            up = [me for me in self._voters if me not in state.down]
            found += [partial(self._crash, state, me) for me in up]
        return found

    def _own(self, state: Moment, place: int, found: Seat) -> list[Callable[[], Step]]:
        """List the calls that a user may make, and the timers that are due."""
        shown = _clocked(found).reads(state.now)
        given: list[Input] = [Call(name) for name in found.user.calls()]
        given += [Ring(name) for name, due in state.timers[place] if due <= shown]
        return [partial(self._give, state, place + 1, each) for each in given]

    def _pass(self, state: Moment, duration: Fraction) -> Step:
        return Step(state, ANYWHERE, Call("wait"), state._replace(now=state.now + duration))

    def _deliver(
        self, state: Moment, link: tuple[ProcessId, ProcessId], *, comes_again: bool = False
    ) -> Step:
        """Let the next message of a link arrive, and once more later if it is doubled."""
        message = dict(state.links)[link][0]
        rest = state._replace(doubles=state.doubles - 1) if comes_again else _without(state, link)
        return self._give(rest, link[1], Receive(link[0], message))._replace(before=state)

    def _lose(self, state: Moment, link: tuple[ProcessId, ProcessId]) -> Step:
        lost = _without(state, link)._replace(losses=state.losses - 1)
        return Step(state, ANYWHERE, Call("lose"), lost)

    def _crash(self, state: Moment, me: ProcessId) -> Step:
        """Let a voter forget its timers, and all but its disk when it begins again; lose what is on its way."""
        timers = tuple(() if place + 1 == me else t for place, t in enumerate(state.timers))
        links = tuple((link, messages) for link, messages in state.links if link[1] != me)
        down = tuple(sorted({*state.down, me}))
        left = state.crashes - 1
        after = state._replace(timers=timers, links=links, down=down, crashes=left)
        return Step(state, me, Call("crash"), after)

    def _restart(self, state: Moment, me: ProcessId) -> Step:
        up = state._replace(down=tuple(each for each in state.down if each != me))
        after = self._let(up, me, lambda found, out: _clocked(found).restart(out))
        return Step(state, me, Call("start"), after)

    def _give(self, state: Moment, me: ProcessId, given: Input) -> Step:
        timers = [*state.timers]
        if isinstance(given, Ring):
            timers[me - 1] = tuple(each for each in timers[me - 1] if each[0] != given.timer)
        before = state._replace(timers=tuple(timers))
        return Step(state, me, given, self._let(before, me, lambda s, out: feed(s, given, out)))

    def _let(
        self, state: Moment, me: ProcessId, handler: Callable[[Seat, Outbox[Any]], None]
    ) -> Moment:
        """Let a process make a step, and carry out what it wishes."""
        found = self._codecs[me - 1].restore(state.seats[me - 1])
        process = _clocked(found)
        shown = process.time = process.reads(state.now)
        out: Outbox[Any] = Outbox(me, shown)
        handler(found, out)
        seats, timers = [*state.seats], [*state.timers]
        seats[me - 1] = self._codecs[me - 1].save(found)
        armed = dict(timers[me - 1])
        for name, after in out.timers:
            armed.pop(name, None)
            if after is not None:
                armed[name] = shown + after
        timers[me - 1] = tuple(sorted(armed.items()))
        links = dict(state.links)
        for to, message in out.sends:
            if to not in state.down:
                links[me, to] = (*links.get((me, to), ()), message)
        return state._replace(
            seats=tuple(seats),
            timers=tuple(timers),
            links=tuple(sorted(links.items(), key=itemgetter(0))),
        )


def _without(state: Moment, link: tuple[ProcessId, ProcessId]) -> Moment:
    """Take the next message off a link."""
    links = ((each, rest[1:] if each == link else rest) for each, rest in state.links)
    return state._replace(links=tuple((each, rest) for each, rest in links if rest))


def _clocked(found: Seat) -> Clocked:
    assert isinstance(found.process, Clocked)
    return found.process
