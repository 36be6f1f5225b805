"""A world with a clock, one state at a time: what the explorer with a clock is held against."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from coterie.errors import UsageError
from coterie.lab.explore.properties import inside, waiting
from coterie.lab.explore.timed.moves import START, WHOLE, Bounds, Move, feed
from coterie.process import Outbox, Payload, ProcessId, Seat, SeatCodec

Thing = TypeVar("Thing", bound=Hashable)
Timers: TypeAlias = tuple[tuple[str, int], ...]  # by name, with the ticks left
Mail: TypeAlias = tuple[tuple[ProcessId, int, int], ...]  # sender, number of the message, its age

DEAD = -1  # in place of the number of a seat


class Numbered(Generic[Thing]):
    """Things that occur again and again, each under a number."""

    def __init__(self) -> None:
        """Start empty."""
        self.things: list[Thing] = []
        self._numbers: dict[Thing, int] = {}

    def number(self, thing: Thing) -> int:
        """Return its number, a new one if need be."""
        number = self._numbers.setdefault(thing, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number


class State(NamedTuple):
    """One moment. The dead have mail only as long as one of them may return."""

    turn: ProcessId
    seats: tuple[int, ...]
    timers: tuple[int, ...]
    mails: tuple[int, ...]
    lives: tuple[int, ...]  # how often each has started again
    crashes: int  # that may still happen
    returns: int


class Outcome(NamedTuple):
    """What a step led to."""

    seat: int
    sends: tuple[tuple[ProcessId, int], ...]
    timers: tuple[tuple[str, int | None], ...]
    error: str | None


class NaiveWorld:
    """All that may happen, from any state."""

    def __init__(self, seats: Sequence[Seat], bounds: Bounds) -> None:
        """Take the seats as they are before their start."""
        self.size = len(seats)
        self.bounds = bounds
        self._codecs = [SeatCodec(seat) for seat in seats]
        self._fresh = [codec.save(seat) for codec, seat in zip(self._codecs, seats, strict=True)]
        self._seats: Numbered[tuple[ProcessId, bytes, bytes]] = Numbered()
        self._timers: Numbered[Timers] = Numbered()
        self._mails: Numbered[Mail] = Numbered()
        self._messages: Numbered[Payload] = Numbered()
        self._later_timers: dict[int, int] = {}  # a tick later
        self._later_mails: dict[int, int] = {}
        self._outcomes: dict[tuple[Any, ...], Outcome] = {}
        self._calls: dict[int, tuple[str, ...]] = {DEAD: ()}
        self._inside: dict[int, bool] = {DEAD: False}
        self._waiting: dict[int, bool] = {DEAD: False}

    def initial(self) -> State:
        """Let all processes start, at the same time."""
        everyone = range(1, self.size + 1)
        outcomes = {me: self._run(me, DEAD, START, 0) for me in everyone}
        state = State(
            turn=1,
            seats=tuple(outcome.seat for outcome in outcomes.values()),
            timers=(self._timers.number(()),) * self.size,
            mails=(self._mails.number(()),) * self.size,
            lives=(0,) * self.size,
            crashes=self.bounds.crashes,
            returns=self.bounds.returns,
        )
        for me, outcome in outcomes.items():
            assert outcome.error is None, outcome.error
            state = self._after(state._replace(turn=me), outcome, WHOLE)
        return state._replace(turn=1)

    def inside(self, state: State) -> list[ProcessId]:
        """Name those inside."""
        return [me for me, seat in enumerate(state.seats, 1) if self._inside[seat]]

    def waiting(self, state: State) -> list[ProcessId]:
        """Return the processes that wait."""
        return [me for me, seat in enumerate(state.seats, 1) if self._waiting[seat]]

    def moves(self, state: State) -> Iterator[Move]:
        """List what may happen next."""
        place = state.turn - 1
        seat = state.seats[place]
        if seat == DEAD and state.returns:
            yield from self._whole_or_cut(state, START)
        mail = self._mails.things[state.mails[place]]
        late = any(age >= self.bounds.delay_max for _, _, age in mail)
        due = [name for name, left in self._timers.things[state.timers[place]] if left <= 0]
        last = 0
        for sender, _, age in mail:
            if sender != last and age >= self.bounds.delay_min and seat == DEAD:
                yield Move("lose", sender=sender)
            elif sender != last and age >= self.bounds.delay_min:
                yield from self._whole_or_cut(state, Move("deliver", sender=sender))
            last = sender
        for name in due if not late else ():
            yield from self._whole_or_cut(state, Move("ring", name))
        for name in self._calls[seat]:
            yield from self._whole_or_cut(state, Move("call", name))
        if state.crashes and seat != DEAD:
            yield Move("crash")
        if not late and not due:
            yield Move("pass")

    def _whole_or_cut(self, state: State, move: Move) -> Iterator[Move]:
        """Return the move, and the ways to die while sending what it sends."""
        yield move
        if state.crashes:
            for sent in range(1, len(self.outcome(state, move).sends)):
                yield move._replace(sent=sent)

    def apply(self, state: State, move: Move) -> State:
        """Return the state after a move whose handler does not raise."""
        place = state.turn - 1
        if move.kind == "pass":
            if state.turn < self.size:
                return state._replace(turn=state.turn + 1)
            return self._tick(state)._replace(turn=1)
        if move.kind == "crash":
            return self._crash(state)
        if move.kind == "lose":
            return self._take(state, move.sender)
        outcome = self.outcome(state, move)
        if move.kind == "deliver":
            state = self._take(state, move.sender)
        elif move.kind == "ring":
            armed = self._timers.things[state.timers[place]]
            left = self._timers.number(tuple(timer for timer in armed if timer[0] != move.name))
            state = state._replace(timers=_put(state.timers, place, left))
        elif move.kind == "return":
            lives = _put(state.lives, place, state.lives[place] + 1)
            state = self._drop_dead_letters(
                state._replace(lives=lives, returns=state.returns - 1), place
            )
        return self._after(state, outcome, move.sent)

    def _take(self, state: State, sender: ProcessId) -> State:
        """Take the oldest letter of that sender out of the mail of whose turn it is."""
        place = state.turn - 1
        mail = self._mails.things[state.mails[place]]
        first = next(i for i, letter in enumerate(mail) if letter[0] == sender)
        rest = self._mails.number(mail[:first] + mail[first + 1 :])
        return state._replace(mails=_put(state.mails, place, rest))

    def outcome(self, state: State, move: Move) -> Outcome:
        """Run the handler, or look up what came of it before."""
        place = state.turn - 1
        given: Any = move.name
        if move.kind == "deliver":
            mail = self._mails.things[state.mails[place]]
            given = next(number for sender, number, _ in mail if sender == move.sender)
        elif move.kind == "return":
            given = state.lives[place] + 1
        key = (state.turn, state.seats[place], move.kind, move.sender, given)
        if key not in self._outcomes:
            self._outcomes[key] = self._run(state.turn, state.seats[place], move, given)
        return self._outcomes[key]

    def _run(self, process: ProcessId, number: int, move: Move, given: Any) -> Outcome:
        out: Outbox[Any] = Outbox(process)
        if move.kind == "return":
            seat = self.fresh(process)
            out.incarnation = given
        else:
            seat = self.seat(number)
        try:
            feed(seat, move, self._messages.things[given] if move.kind == "deliver" else None, out)
        except Exception as error:  # noqa: BLE001 - whatever an algorithm raises is its violation
            return Outcome(DEAD, (), (), f"process {process} raised {error!r} on {move.kind}")
        sends = tuple((to, self._messages.number(message)) for to, message in out.sends)
        timers = tuple((name, _ticks(after)) for name, after in out.timers)
        return Outcome(self._save(process, seat), sends, timers, None)

    def fresh(self, process: ProcessId) -> Seat:
        """Return a seat as it is before its start."""
        return self._codecs[process - 1].restore(self._fresh[process - 1])

    def seat(self, number: int) -> Seat:
        """Restore a seat, independent of all others."""
        process, *saved = self._seats.things[number]
        return self._codecs[process - 1].restore((saved[0], saved[1]))

    def _save(self, process: ProcessId, seat: Seat) -> int:
        number = self._seats.number((process, *self._codecs[process - 1].save(seat)))
        if number not in self._calls:
            self._calls[number] = seat.user.calls()
            self._inside[number] = inside(seat)
            self._waiting[number] = waiting(seat)
        return number

    def _after(self, state: State, outcome: Outcome, sent: int) -> State:
        """Let the messages of a step leave and its timers run; or the process die in between."""
        mails = list(state.mails)
        sends = outcome.sends if sent == WHOLE else outcome.sends[:sent]
        for to, message in sends:
            mail = self._mails.things[mails[to - 1]]
            if state.seats[to - 1] != DEAD or state.returns:  # it may be back when they arrive
                letters = sorted((*mail, (state.turn, message, 0)), key=lambda letter: letter[0])
                mails[to - 1] = self._mails.number(tuple(letters))
        state = state._replace(mails=tuple(mails))
        if sent != WHOLE:
            return self._crash(state)
        place = state.turn - 1
        timers = state.timers
        if outcome.timers:
            armed = dict(self._timers.things[timers[place]])
            for name, ticks in outcome.timers:
                armed.pop(name, None)
                if ticks is not None:
                    armed[name] = ticks
            timers = _put(timers, place, self._timers.number(tuple(sorted(armed.items()))))
        return state._replace(seats=_put(state.seats, place, outcome.seat), timers=timers)

    def _crash(self, state: State) -> State:
        place = state.turn - 1
        if not state.returns:
            state = state._replace(mails=_put(state.mails, place, self._mails.number(())))
        return state._replace(
            seats=_put(state.seats, place, DEAD),
            timers=_put(state.timers, place, self._timers.number(())),
            crashes=state.crashes - 1,
        )

    def _drop_dead_letters(self, state: State, place: int) -> State:
        """Forget what is under way to the dead that can return no more; one returns at `place`."""
        if state.returns:
            return state
        nothing = self._mails.number(())
        mails = [
            nothing if seat == DEAD and i != place else mail
            for i, (seat, mail) in enumerate(zip(state.seats, state.mails, strict=True))
        ]
        return state._replace(mails=tuple(mails))

    def _tick(self, state: State) -> State:
        """Let time go on for everything at once."""
        return state._replace(
            timers=tuple(map(self._timers_later, state.timers)),
            mails=tuple(map(self._mail_later, state.mails)),
        )

    def _timers_later(self, number: int) -> int:
        if number not in self._later_timers:
            timers = tuple((name, left - 1) for name, left in self._timers.things[number])
            self._later_timers[number] = self._timers.number(timers)
        return self._later_timers[number]

    def _mail_later(self, number: int) -> int:
        if number not in self._later_mails:
            mail = tuple((*letter[:2], letter[2] + 1) for letter in self._mails.things[number])
            self._later_mails[number] = self._mails.number(mail)
        return self._later_mails[number]


def _ticks(after: float | None) -> int | None:
    if after is None:
        return None
    if not float(after).is_integer():
        raise UsageError(f"a timer runs for whole ticks here, got {after:g}: choose whole bounds")
    return int(after)


def _put(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])
