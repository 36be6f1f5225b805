"""Leases that are counted by those who wait: two programs and a server, in all orders.

What waits counts with the product's `Observations`. The server is `Records`, which a test compares with the
scripts for Redis, request by request. It has no clock. Each program has one, and they run at rates of 2 and 3;
so the error of rates is `RATE_ERROR` here, and a few steps of time show what a lease needs. A program may pause
at any point. A request or an answer may be late for any time or be lost, and a request may be carried out
after its sender has given it up (`late`). The server may be killed and started again, with or without what it
had in memory, or be emptied while it runs.

A state is a tuple: it is compared, and never changed.
"""

from __future__ import annotations

import gc
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.engines.queue import observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from coterie.engines.queue.observation import Observations

RATE_ERROR = 0.2  # (1 + e) / (1 - e) = 3 / 2
PAST = 0  # the session of all leases from before this run
NAMES = "AB"


class Records(NamedTuple):
    """What the server keeps; each method is one request, and returns what it keeps then and its answer."""

    run: int = 1  # of the server itself: how often it was started
    noted: int = 0  # the run that programs know of; 0 if that was forgotten
    closed: int = (
        0  # by which session, until the leases from before are over; 0 while the server is open
    )
    sessions: tuple[tuple[int, int], ...] = ()  # each with its counter
    queue: tuple[tuple[int, int, int], ...] = ()  # session, attempt, number
    number: int = 1  # the next one
    condemned: tuple[int, ...] = ()  # sessions of programs that did not answer an operator

    def counter(self, session: int) -> int:
        """Return the counter of a session; 0 if it is not there."""
        return dict(self.sessions).get(session, 0)

    def shown(self, sessions: list[int]) -> tuple[tuple[int, int], ...]:
        """Return what an answer shows of these sessions, and of the past while it is closed."""
        found = [(session, self.counter(session)) for session in sessions]
        return ((PAST, self.closed), *found) if self.closed else tuple(found)

    def open(self, session: int, _: int) -> tuple[Records, object]:
        """Begin a session; the first one in a run of the server closes the past."""
        made = self
        if self.noted != self.run:
            made = self._replace(
                noted=self.run, closed=session, sessions=(), queue=(), condemned=()
            )
        kept = tuple(each for each in made.condemned if each != session)
        made = made.put(session, 1)._replace(condemned=kept)
        return made, ((PAST, made.closed),) if made.closed else ()

    def renew(self, session: int, _: int) -> tuple[Records, object]:
        """Move the counter on, and show the neighbours: the next sessions in the order of names."""
        counter = self.counter(session)
        if not self._serves(session):
            return self, None
        made = self.put(session, counter + 1)
        others = [other for other, _ in made.sessions if other != session]
        following = sorted(others, key=lambda other: (other < session, other))
        return made, (counter + 1, made.shown(following))

    def join(self, session: int, attempt: int) -> tuple[Records, object]:
        """Enter the queue, or look again: the number if that is inside, else all sessions before."""
        if not self._serves(session):
            return self, None
        made = self
        if all(entry[:2] != (session, attempt) for entry in self.queue):
            entry = (session, attempt, self.number)
            made = self._replace(queue=(*self.queue, entry), number=self.number + 1)
        place = [entry[:2] for entry in made.queue].index((session, attempt))
        if place == 0 and not made.closed:
            return made, made.queue[0][2]
        return made, made.shown([entry[0] for entry in made.queue[:place]])

    def leave(self, session: int, attempt: int) -> tuple[Records, object]:
        """Leave the queue."""
        if not self._serves(session):
            return self, None
        queue = tuple(entry for entry in self.queue if entry[:2] != (session, attempt))
        return self._replace(queue=queue), 1

    def condemn(self) -> Records:
        """Refuse the requests of the session that is inside from now on; its entries stay, and its counter moves on."""
        if not self.queue or self.queue[0][0] in self.condemned:
            return self
        session = self.queue[0][0]
        made = self.put(session, self.counter(session) + 1)
        return made._replace(condemned=(*self.condemned, session))

    def _serves(self, session: int) -> bool:
        return bool(self.counter(session)) and session not in self.condemned

    def remove(self, session: int, counter: int) -> tuple[Records, object]:
        """End a session that still has this counter, with all of its entries; open what is closed."""
        if session == PAST:
            return (self._replace(closed=0) if self.closed == counter else self), 1
        if self.counter(session) != counter:
            return self, 1
        kept = tuple(each for each in self.sessions if each[0] != session)
        queue = tuple(entry for entry in self.queue if entry[0] != session)
        left = tuple(each for each in self.condemned if each != session)
        return self._replace(sessions=kept, queue=queue, condemned=left), 1

    def put(self, session: int, counter: int) -> Records:
        """Write a session."""
        return self._replace(
            sessions=tuple(sorted({**dict(self.sessions), session: counter}.items()))
        )

    # What happens to the server

    def started_again(self) -> Records:
        """Start it again with its memory."""
        return self._replace(run=self.run + 1)

    def emptied(self) -> Records:
        """Forget everything; the time of day is a floor of the numbers, and has gone on."""
        return Records(self.run, number=self.number + 100)


class Request(NamedTuple):
    """A request; `session` is that of its sender."""

    kind: str
    session: int
    target: int = 0  # of a removal
    argument: int = 0  # the attempt, or the counter that a removal compares


class Program(NamedTuple):
    """A program that takes the lock. Ages are by its own clock, and end at what makes no difference."""

    session: int = 0
    run: int = 0  # of the server that the session was begun with
    counter: int = 0  # confirmed; 0 until the session is
    age: int = 0  # since the sending of the renewal that was confirmed last
    sessions: int = 0  # begun so far
    attempt: int = 1
    held: int = 0  # the number of its hold; -1 while it leaves
    request: Request | None = None
    answer: tuple[object] | None = None  # of a request that was carried out
    sent_age: int = 0  # since the sending of the request
    seen: tuple[tuple[int, int, int], ...] = ()  # session, counter, age


class State(NamedTuple):
    """The server, the programs, and what is still on its way."""

    records: Records
    programs: tuple[Program, Program]
    late: tuple[Request, ...] = ()  # requests that their sender has given up
    last: int = 0  # the highest number of a hold; -1 if one was lower
    losses: int = 0  # requests and answers that were lost so far
    has_failed: bool = False  # the server, in one of the ways that it may
    delays: int = 0  # requests that were given up so far, and may be late


class Bounds(NamedTuple):
    """What may happen in a world, at most."""

    renewals: tuple[int, int] = (1, 1)  # of each session of a program
    sessions: tuple[int, int] = (1, 1)  # of a program
    attempts: tuple[int, int] = (1, 1)  # of a program
    losses: int = 0  # of requests and answers
    late: int = 0  # requests
    faults: tuple[str, ...] = ()  # of the server, one of these
    closed: int = 0  # whether the server has been started just now
    ends_sessions: bool = False  # the server, by itself
    condemns: bool = False  # an operator, the session that is inside
    neighbours: bool = False  # are observed by the answers to renewals
    hold: int = 4  # a lease for its holder, by its own clock


class LeaseWorld:
    """Two programs that follow the rules, with clocks of these rates."""

    def __init__(
        self,
        bounds: Bounds,
        rates: tuple[int, int],
        make: Callable[[], Observations] = observation.Observations,
    ) -> None:
        self.grants = 0
        self._bounds = bounds
        self._rates = rates
        self._make = make
        self._lease = bounds.hold / (1 - RATE_ERROR)
        self._seen_max = round(self._lease * (1 + RATE_ERROR))
        self._count = lru_cache(maxsize=None)(self._count_on)
        self._due = lru_cache(maxsize=None)(self._due_of)

    def start(self) -> State:
        """Return the state in which nothing has happened."""
        return State(Records(noted=1, closed=self._bounds.closed), (Program(), Program()))

    def violation(self, state: State) -> str:
        """Say which property does not hold; nothing if all do."""
        if all(each.held > 0 and each.age < self._bounds.hold for each in state.programs):
            return "two valid holders"
        if state.last < 0:
            return "a token went back"
        records = state.records
        if any(not records.counter(session) for session, _, _ in records.queue):
            return "an entry outlives its session"
        for session, attempt, _ in records.queue:
            for program in state.programs:
                knows = program.session != session or program.attempt <= attempt
                if not knows and program.request is None and not state.late:
                    return "an entry that nobody knows"
        return ""

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """List what may come next."""
        one, other = map(self._older, state.programs, self._rates)
        yield "time passes", state._replace(programs=(one, other))
        for place, program in enumerate(state.programs):
            if program.request is None:
                found = self._requests(place, program, state)
            elif program.answer is None:
                found = self._on_the_way(place, program, state)
            else:
                found = self._answered(place, program, state)
            for what, after in found:
                yield f"{NAMES[place]} {what}", after
        for request in state.late:
            left = tuple(each for each in state.late if each is not request)
            records, _ = self._carry_out(state.records, request)
            yield f"a late {request.kind}", state._replace(records=records, late=left)
            yield f"a {request.kind} is lost", state._replace(late=left)
        yield from self._faults(state)

    # Time

    def _older(self, program: Program, rate: int) -> Program:
        seen = tuple(
            (session, counter, min(self._seen_max, age + rate))
            for session, counter, age in program.seen
        )
        age = min(self._bounds.hold, program.age + rate)
        sent_age = 0
        if program.request is not None and program.request.kind in ("open", "renew"):
            sent_age = min(self._bounds.hold, program.sent_age + rate)
        return program._replace(age=age, sent_age=sent_age, seen=seen)

    # What a program begins

    def _requests(self, place: int, program: Program, state: State) -> Iterator[tuple[str, State]]:
        bounds, session = self._bounds, program.session

        def ask(kind: str, target: int = 0, argument: int = 0, held: int = program.held) -> State:
            request = Request(kind, session, target, argument)
            return _with(state, place, program._replace(request=request, sent_age=0, held=held))

        if session == 0:
            if program.sessions < bounds.sessions[place]:
                made = (place + 1) * 10 + program.sessions
                begun = program._replace(
                    session=made,
                    run=state.records.run,
                    sessions=program.sessions + 1,
                    request=Request("open", made),
                    sent_age=0,
                )
                yield "opens", _with(state, place, begun)
            return
        if program.age >= bounds.hold:
            # After a pause a program looks at its clock before it does anything else.
            yield "gives up its session", _with(state, place, self._without_session(place, program))
            return
        if program.counter <= bounds.renewals[place]:
            yield "renews", ask("renew")
        if program.held:
            yield "leaves", ask("leave", 0, program.attempt, -1)
        elif program.attempt <= bounds.attempts[place]:
            yield "joins or looks", ask("join", 0, program.attempt)
        for target, counter in self._due(program.seen):
            yield f"removes {target}", ask("remove", target, counter)

    def _without_session(self, place: int, program: Program) -> Program:
        # What was seen of others stays true; a program that begins no other session has no use for it.
        is_last = program.sessions == self._bounds.sessions[place]
        seen = () if is_last else program.seen
        return Program(sessions=program.sessions, attempt=program.attempt + 1, seen=seen)

    # A request on its way

    def _on_the_way(
        self, place: int, program: Program, state: State
    ) -> Iterator[tuple[str, State]]:
        request, bounds = program.request, self._bounds
        assert request is not None
        if program.run == state.records.run:
            records, answer = self._carry_out(state.records, request)
            # The session was used over a later line: what comes over an earlier one does nothing.
            late = tuple(each for each in state.late if self._is_current(each, request))
            made = program._replace(answer=(answer,))
            after = _with(state, place, made)._replace(records=records, late=late)
            yield f"is served: {request.kind}", after
        else:
            # The line leads to another run of the server: that ends the session.
            yield "finds another run", _with(state, place, self._without_session(place, program))
        given_up = program._replace(request=None, sent_age=0)
        if request.kind == "open":
            given_up = self._without_session(place, program)
        after = _with(state, place, given_up)
        if state.losses < bounds.losses:
            yield f"loses its {request.kind}", after._replace(losses=state.losses + 1)
        if state.delays < bounds.late:
            late = (*state.late, request)
            yield f"gives up its {request.kind}", after._replace(late=late, delays=state.delays + 1)

    def _is_current(self, late: Request, request: Request) -> bool:
        return late.session != request.session or late.kind == "remove"

    def _carry_out(self, records: Records, request: Request) -> tuple[Records, object]:
        if request.kind == "remove":
            return records.remove(request.target, request.argument)
        method = getattr(records, request.kind)
        found: tuple[Records, object] = method(request.session, request.argument)
        return found

    # Answers

    def _answered(self, place: int, program: Program, state: State) -> Iterator[tuple[str, State]]:
        request, told = program.request, program.answer
        assert request is not None
        assert told is not None
        if state.losses < self._bounds.losses:
            lost = program._replace(request=None, answer=None, sent_age=0)
            if request.kind == "open":
                lost = self._without_session(place, program)
            without = _with(state, place, lost)
            yield "loses the answer", without._replace(losses=state.losses + 1)
        idle = program._replace(request=None, answer=None, sent_age=0)
        (answer,) = told
        if answer is None:
            yield (
                "hears that it is over",
                _with(state, place, self._without_session(place, program)),
            )
        elif isinstance(answer, int) and request.kind == "join":
            yield from self._inside(place, idle, state, answer)
        else:
            heard = self._heard(place, program, idle, request, answer)
            yield f"hears of its {request.kind}", _with(state, place, heard)

    def _heard(
        self, place: int, program: Program, idle: Program, request: Request, answer: Any
    ) -> Program:
        hold, sent_age = self._bounds.hold, program.sent_age
        arrival = 0
        if request.kind == "open":
            seen = self._count(program.seen, answer, arrival)
            return idle._replace(counter=1, age=sent_age, seen=seen)
        if request.kind == "renew":
            counter, shown = answer
            if program.age >= hold:
                return self._without_session(place, program)
            seen = (
                self._count(program.seen, shown, arrival)
                if self._bounds.neighbours
                else program.seen
            )
            return idle._replace(counter=counter, age=sent_age, seen=seen)
        if request.kind == "join":
            return idle._replace(seen=self._count(program.seen, answer, arrival))
        if request.kind == "leave":
            return idle._replace(attempt=program.attempt + 1, held=0)
        left = tuple(each for each in program.seen if each[0] != request.target)
        return idle._replace(seen=left)

    def _inside(
        self, place: int, program: Program, state: State, number: int
    ) -> Iterator[tuple[str, State]]:
        hold = self._bounds.hold
        age = min(hold, program.age)
        if age >= hold:
            yield "is inside too late", _with(state, place, self._without_session(place, program))
            return
        self.grants += 1
        last = number if number > state.last else -1
        made = program._replace(held=number, age=age, seen=())
        yield f"is in with {number}", _with(state, place, made)._replace(last=last)

    # What is counted: by the product

    def _count_on(
        self, seen: tuple[tuple[int, int, int], ...], shown: tuple[tuple[int, int], ...], age: int
    ) -> tuple[tuple[int, int, int], ...]:
        """Return what was seen when an answer shows this that has arrived so long ago; the rest is dropped."""
        found = []
        for session, counter in shown:
            counted = self._observed(seen)
            counted.saw(str(session), counter, self._lease, -age)
            counted.keep([str(session)])
            left = next(t for t in range(self._seen_max + 1) if counted.due(t))
            found.append((session, counter, self._seen_max - left))
        return tuple(found)

    def _due_of(self, seen: tuple[tuple[int, int, int], ...]) -> list[tuple[int, int]]:
        due = self._observed(seen).due(0)
        return [(int(silent.session), int(silent.counter)) for silent in due]

    def _observed(self, seen: tuple[tuple[int, int, int], ...]) -> Observations:
        counted = self._make()
        for session, counter, age in seen:
            counted.saw(str(session), counter, self._lease, -age)
        return counted

    # The server

    def _faults(self, state: State) -> Iterator[tuple[str, State]]:
        records, bounds = state.records, self._bounds
        again = records.started_again()
        for fault in () if state.has_failed else bounds.faults:
            # A restart ends connections, and so the requests on their way.
            after = {
                "restart": state._replace(records=again, late=()),
                "restart without memory": state._replace(records=again.emptied(), late=()),
                "emptied": state._replace(records=records.emptied()),
            }[fault]
            yield fault, after._replace(has_failed=True)
        if bounds.condemns and (condemned := records.condemn()) is not records:
            yield "is condemned", state._replace(records=condemned)
        if bounds.ends_sessions:
            for session, counter in records.sessions:
                yield f"ends {session}", state._replace(records=records.remove(session, counter)[0])


def _with(state: State, place: int, program: Program) -> State:
    first, second = state.programs
    return state._replace(programs=(program, second) if place == 0 else (first, program))


class Outcome(NamedTuple):
    """What an exploration has found."""

    states: int
    violation: str  # the first, with the shortest way to it
    way: tuple[str, ...]
    grants: int


def explore(world: LeaseWorld, states_max: int = 3_000_000) -> Outcome:
    """Visit all states, the nearest first, up to the first violation."""
    start = world.start()
    before: dict[State, tuple[State, str] | None] = {start: None}
    frontier = deque([start])
    gc.disable()  # it would look through all states again and again, and there is nothing to collect
    try:
        return _search(world, before, frontier, states_max)
    finally:
        gc.enable()


def _search(
    world: LeaseWorld,
    before: dict[State, tuple[State, str] | None],
    frontier: deque[State],
    states_max: int,
) -> Outcome:
    while frontier:
        state = frontier.popleft()
        for what, after in world.steps(state):
            if after in before:
                continue
            before[after] = (state, what)
            if wrong := world.violation(after):
                return Outcome(len(before), wrong, _way(before, after), world.grants)
            frontier.append(after)
        if len(before) > states_max:
            raise AssertionError(f"more than {states_max} states")
    return Outcome(len(before), "", (), world.grants)


def _way(before: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    steps = []
    while (step := before[state]) is not None:
        state, what = step
        steps.append(what)
    return tuple(reversed(steps))
