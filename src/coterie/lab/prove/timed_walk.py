"""Real processes in one time that passes between their steps, each step drawn at random.

A message takes any time, or at most as long as a link says; a timer rings when it is due, or late.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from coterie.lab.explore.tables.inputs import Call, Receive, Ring, feed
from coterie.lab.prove.link import ANYWHERE, Snapshot, Step
from coterie.process import Outbox, Seat, SeatCodec, seat

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from coterie.lab.explore.tables.inputs import Input
    from coterie.lab.prove.link import Trial
    from coterie.lab.prove.plain import State
    from coterie.process import Process, ProcessId

    LinkName: TypeAlias = tuple[ProcessId, ProcessId]

Timers: TypeAlias = tuple[tuple[str, float], ...]  # and when each rings, by its own clock


def _same_clock(_: Any, now: Fraction) -> float:
    return float(now)


def _any_time(_: Any) -> Fraction | None:
    return None


@dataclass(frozen=True)
class Timing:
    """What time and faults may do to the processes."""

    passes: Sequence[Fraction]  # between two steps, one of these
    clock: Callable[[Any, Fraction], float] = _same_clock  # what a process reads at a moment
    delay_max: Callable[[Any], Fraction | None] = _any_time  # of a message
    losses: int = 0  # of messages in a run; what the dead have sent may always get lost
    doubles: int = 0
    haste: int = 1  # so much more likely is each other step than a call or a crash
    restart: Callable[[Any, Outbox[Any]], None] | None = None  # of one that has crashed


class TimedState(NamedTuple):
    """A state of all processes, at a moment."""

    now: Fraction
    seats: tuple[tuple[bytes, bytes], ...]  # saved
    timers: tuple[Timers, ...]
    down: tuple[ProcessId, ...]
    links: tuple[tuple[LinkName, tuple[tuple[Any, Fraction], ...]], ...]  # messages, and when sent
    losses: int
    doubles: int
    crashes: int


class TimedWalk:
    """Real processes on their links, step by step."""

    def __init__(
        self,
        timing: Timing,
        processes: Sequence[Process[Any]],
        trial: Trial,
        asks: Callable[[Any], bool],
    ) -> None:
        """Take processes as they are before their start.

        Those that begin again make no calls; else any may crash, with all that is on its way to it.
        """
        self._timing = timing
        self._seats = [seat(each, trial.entries if asks(each) else 0) for each in processes]
        self._codecs = [SeatCodec(each) for each in self._seats]
        again = timing.restart is not None
        self._mortal = [each.me for each in processes if not again or not asks(each)]
        self._crashes = trial.restarts * len(self._mortal) if again else trial.crashes

    def start(self) -> TimedState:
        """Let each process begin, in the order of ids."""
        saved = tuple(codec.save(s) for codec, s in zip(self._codecs, self._seats, strict=True))
        none: tuple[Timers, ...] = ((),) * len(saved)
        t = self._timing
        state = TimedState(Fraction(0), saved, none, (), (), t.losses, t.doubles, self._crashes)
        for each in self._seats:
            state = self._let(state, each.process.me, Seat.start)
        return state

    def snapshot(self, state: TimedState, past: State | None = None) -> Snapshot:
        """Show a state to a link: also those that are down, for the sake of what was noted of them."""
        seats = [c.restore(saved) for c, saved in zip(self._codecs, state.seats, strict=True)]
        links = {link: [message for message, _ in sent] for link, sent in state.links}
        return Snapshot(seats, links, past, state.down, state.now)

    def steps(self, state: TimedState) -> list[Step]:
        """Return every step from a state."""
        return [make() for make in self._choices(state)]

    def draw(self, state: TimedState, chance: random.Random) -> Step | None:
        """Make one of the steps from a state."""
        return chance.choice(self._choices(state))()

    def _choices(self, state: TimedState) -> list[Callable[[], Step]]:
        """List what may happen, without doing it."""
        until = self._latest(state)
        found: list[Callable[[], Step]] = [
            partial(self._pass, state, duration)
            for duration in self._timing.passes
            if until is None or state.now + duration <= until
        ]
        for link, _ in state.links:
            found += [partial(self._deliver, state, link)]
            found += [partial(self._lose, state, link)] * self._may_lose(state, link)
            found += [partial(self._deliver, state, link, comes_again=True)] * (state.doubles > 0)
        rare: list[Callable[[], Step]] = []
        in_use = False
        for place, saved in enumerate(state.seats):
            if place + 1 in state.down:
                continue
            seated = self._codecs[place].restore(saved)
            shown = self._timing.clock(seated.process, state.now)
            due = [name for name, rings in state.timers[place] if rings <= shown]
            found += [partial(self._give, state, place + 1, Ring(name)) for name in due]
            calls = seated.user.calls()
            in_use = in_use or "release" in calls
            rare += [partial(self._give, state, place + 1, Call(name)) for name in calls]
        if self._timing.restart is not None:
            found += [partial(self._restart, state, me) for me in state.down]
        if state.crashes and self._timing.restart is not None:
            rare += [partial(self._crash, state, me) for me in self._mortal if me not in state.down]
        elif state.crashes and in_use:
            # For good, so where it tells most: much of what it has sent is on its way.
            senders = [link[0] for link, _ in state.links if link[0] not in state.down]
            rare += [partial(self._crash, state, me) for me in senders]
        return found * self._timing.haste + rare

    def _latest(self, state: TimedState) -> Fraction | None:
        """Return the moment up to which time may pass: then a message has to have come."""
        delay_max = self._timing.delay_max
        bounds = [(sent, delay_max(m)) for _, content in state.links for m, sent in content]
        return min((sent + delay for sent, delay in bounds if delay is not None), default=None)

    def _may_lose(self, state: TimedState, link: LinkName) -> bool:
        return state.losses > 0 or (link[0] in state.down and self._timing.restart is None)

    def _pass(self, state: TimedState, duration: Fraction) -> Step:
        return Step(state, ANYWHERE, Call("wait"), state._replace(now=state.now + duration))

    def _deliver(self, state: TimedState, link: LinkName, *, comes_again: bool = False) -> Step:
        """Let the next message of a link arrive, and once more later if it is doubled."""
        message, _ = dict(state.links)[link][0]
        rest = state._replace(doubles=state.doubles - 1) if comes_again else _without(state, link)
        return self._give(rest, link[1], Receive(link[0], message))._replace(before=state)

    def _lose(self, state: TimedState, link: LinkName) -> Step:
        lost = _without(state, link)._replace(losses=max(0, state.losses - 1))
        return Step(state, ANYWHERE, Call("lose"), lost)

    def _crash(self, state: TimedState, me: ProcessId) -> Step:
        """Let a process forget its timers, and lose what is on its way to it."""
        timers = tuple(() if place + 1 == me else t for place, t in enumerate(state.timers))
        links = tuple((link, messages) for link, messages in state.links if link[1] != me)
        down = tuple(sorted({*state.down, me}))
        left = state.crashes - 1
        after = state._replace(timers=timers, links=links, down=down, crashes=left)
        return Step(state, me, Call("crash"), after)

    def _restart(self, state: TimedState, me: ProcessId) -> Step:
        restart = self._timing.restart
        assert restart is not None
        up = state._replace(down=tuple(each for each in state.down if each != me))
        after = self._let(up, me, lambda found, out: restart(found.process, out))
        return Step(state, me, Call("start"), after)

    def _give(self, state: TimedState, me: ProcessId, given: Input) -> Step:
        timers = [*state.timers]
        if isinstance(given, Ring):
            timers[me - 1] = tuple(each for each in timers[me - 1] if each[0] != given.timer)
        before = state._replace(timers=tuple(timers))
        return Step(state, me, given, self._let(before, me, lambda s, out: feed(s, given, out)))

    def _let(
        self, state: TimedState, me: ProcessId, handler: Callable[[Seat, Outbox[Any]], None]
    ) -> TimedState:
        """Let a process make a step, and carry out what it wishes."""
        found = self._codecs[me - 1].restore(state.seats[me - 1])
        shown = self._timing.clock(found.process, state.now)
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
                links[me, to] = (*links.get((me, to), ()), (message, state.now))
        return state._replace(
            seats=tuple(seats),
            timers=tuple(timers),
            links=tuple(sorted(links.items(), key=itemgetter(0))),
        )


def _without(state: TimedState, link: LinkName) -> TimedState:
    """Take the next message off a link."""
    links = ((each, rest[1:] if each == link else rest) for each, rest in state.links)
    return state._replace(links=tuple((each, rest) for each, rest in links if rest))
