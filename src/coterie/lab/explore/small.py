"""A search of one state after the other in plain Python: a small model needs no arrays.

To load numpy takes longer than to look through a few thousand states. So a command asks here first.
There is an answer if all is well: no faults, no more than `STATES_MAX` states, every step that is sure to
happen leads one level on, so that paths end (see `search`), and every property holds. All else is left
to `check`, which words what is wrong. What a step does is decided by the same code there and here.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from coterie.lab.explore.properties import (
    Always,
    CanAlwaysStill,
    Eventually,
    Exercised,
    Settles,
    Sometimes,
    holds,
)
from coterie.lab.explore.tables.inputs import Inputs, Receive
from coterie.lab.explore.tables.purity import require_purity
from coterie.lab.explore.tables.step import Pending, must_call, run
from coterie.process import Channel, Outbox, SeatCodec, check_wishes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coterie.lab.explore.properties import Condition, Property
    from coterie.lab.explore.tables.inputs import Input
    from coterie.process import Seat

    Content: TypeAlias = tuple[int, ...]  # inputs that are under way on a link
    State: TypeAlias = tuple[Any, ...]  # the numbers of all local states, the contents of all links

STATES_MAX = 5_000  # to look at so many takes about as long as to load numpy
CRASHED = -1  # in place of the number of a local state
WIDTH_MAX = 700  # of a level: a wider one suits arrays, and mostly there are many more states


class GivenUpError(Exception):
    """Something is not as it should be, or not as simple: what a handler raised, if that is it."""


class LocalState(NamedTuple):
    """A local state: a process with its user, saved, and what it has asked for and not been given yet."""

    place: int
    saved: tuple[bytes, bytes]
    pending: Pending


class Found(NamedTuple):
    """What came of a search in which every property holds."""

    states: int
    transitions: int
    depth: int
    sometimes: dict[str, bool]


class Move(NamedTuple):
    """A step from a state: whether it is sure to happen, where, what is given there, what comes of it."""

    certain: bool
    place: int
    given: int  # the number of an input
    after: State


class Effect(NamedTuple):
    """What a step does: the local state after it, and what it puts on which links."""

    after: int
    sent: tuple[tuple[int, Content], ...]


class SmallModel:
    """Local states, each a number, and the steps between them, each computed once."""

    def __init__(self, seats: Sequence[Seat], channel: Channel, crashes: int = 0) -> None:
        """Take the seats as they are before their start; they are left untouched. Some may crash."""
        self.size = len(seats)
        self._crashes_max = crashes
        self._codecs = [SeatCodec(seat) for seat in seats]
        self._examples = seats
        self._fifo = channel is Channel.FIFO
        self._inputs = Inputs()
        pairs = itertools.permutations(range(self.size), 2)
        self._rows = {pair: self.size + row for row, pair in enumerate(pairs)}
        self._receivers = {row: receiver for (_, receiver), row in self._rows.items()}
        self._numbers: dict[LocalState, int] = {}
        self._locals: list[LocalState] = []
        self.seats: list[Seat] = []  # by local state, as are the next two
        self._asks: list[Content] = []  # calls that the user may make, or never make
        self._own: list[Content] = []  # what is sure to come: timers, and leaving when inside
        self._effects: dict[tuple[int, int], Effect] = {}

    def start(self) -> State:
        """Let each process begin, in the order of ids."""
        state: list[Any] = [0] * self.size + [()] * len(self._rows)
        for place, example in enumerate(self._examples):
            seat = self._codecs[place].restore(self._codecs[place].save(example))
            out: Outbox[Any] = Outbox(place + 1)
            seat.start(out)
            check_wishes(out, self.size)
            state[place] = self._number(place, seat, Pending().after(None, out))
            for row, content in self._sent(place, out.sends):
                state[row] = content
        return tuple(state)

    def moves(self, state: State) -> Iterator[Move]:
        """Make every move from a state."""
        for place in self.live(state):
            local = state[place]
            for given in self._asks[local]:
                yield Move(False, place, given, self._step(list(state), place, given))
            for given in (*self._own[local], *self._notices(state, local)):
                yield Move(True, place, given, self._step(list(state), place, given))
        for (_, receiver), row in self._rows.items():
            content = state[row]
            if not content:
                continue
            for given in content[:1] if self._fifo else sorted(set(content)):
                after = list(state)
                where = content.index(given)
                after[row] = content[:where] + content[where + 1 :]
                yield Move(True, receiver, given, self._step(after, receiver, given))
        yield from self._crashes(state)

    def live(self, state: State) -> list[int]:
        """List the places of the processes that live."""
        return [place for place in range(self.size) if state[place] != CRASHED]

    def _notices(self, state: State, local: int) -> Content:
        """List the reports of crashes of processes that one watches."""
        watched = self._locals[local].pending.watched
        return tuple(self._inputs.notice(peer) for peer in watched if state[peer - 1] == CRASHED)

    def _crashes(self, state: State) -> Iterator[Move]:
        """Let each process crash, while some still may: what is under way to it is lost with it."""
        live = self.live(state)
        if self.size - len(live) >= self._crashes_max:
            return
        for place in live:
            after = list(state)
            after[place] = CRASHED
            for (_, receiver), row in self._rows.items():
                if receiver == place:
                    after[row] = ()
            yield Move(False, place, self._inputs.call("crash"), tuple(after))

    def input(self, given: int) -> Input:
        """Return what is given in a move."""
        return self._inputs[given]

    def under_way(self, state: State) -> dict[tuple[int, int], list[Any]]:
        """Return the messages on each link from place to place, the next to arrive first."""
        found = {}
        for pair, row in self._rows.items():
            inputs = [self._inputs[given] for given in state[row]]
            found[pair] = [each.message for each in inputs if isinstance(each, Receive)]
        return found

    def _step(self, state: list[Any], place: int, given: int) -> State:
        """Let a process handle an input, which was taken out of the state, and return the next one."""
        key = state[place], given
        effect = self._effects.get(key)
        if effect is None:
            effect = self._effects[key] = self._compute(*key)
        state[place] = effect.after
        for row, content in effect.sent:
            if state[self._receivers[row]] != CRASHED:
                state[row] = self._ordered(state[row] + content)
        return tuple(state)

    def _compute(self, number: int, given: int) -> Effect:
        place, saved, pending = self._locals[number]
        codec, what = self._codecs[place], self._inputs[given]
        outcome = run(codec.restore(saved), pending, what, self.size)
        require_purity(outcome, run(codec.restore(saved), pending, what, self.size), what)
        if outcome.error is not None:
            raise GivenUpError(outcome.error)
        after = self._number(place, outcome.seat, outcome.pending)
        return Effect(after, self._sent(place, outcome.sends))

    def _sent(
        self, place: int, sends: Sequence[tuple[int, Any]]
    ) -> tuple[tuple[int, Content], ...]:
        """Sort what was sent by link."""
        contents: dict[int, Content] = {}
        for to, message in sends:
            row = self._rows[place, to - 1]
            contents[row] = (*contents.get(row, ()), self._inputs.receive(place + 1, message))
        return tuple((row, self._ordered(content)) for row, content in contents.items())

    def _ordered(self, content: Content) -> Content:
        return content if self._fifo or len(content) == 1 else tuple(sorted(content))

    def _number(self, place: int, seat: Seat, pending: Pending) -> int:
        local = LocalState(place, self._codecs[place].save(seat), pending)
        known = self._numbers.get(local)
        if known is not None:
            return known
        number = self._numbers[local] = len(self._locals)
        self._locals.append(local)
        seat = self._codecs[place].restore(local.saved)
        self.seats.append(seat)
        calls = tuple(self._inputs.call(name) for name in seat.user.calls())
        rings = tuple(self._inputs.ring(timer) for timer in pending.armed)
        leaves = must_call(seat)
        self._asks.append(() if leaves else calls)
        self._own.append(calls + rings if leaves else rings)
        return number


class StateJudge:
    """Judges states by the properties; what is wrong with one raises `GivenUpError`."""

    def __init__(self, model: SmallModel, properties: Sequence[Property]) -> None:
        """Judge the states of a model."""
        self._model = model
        self._always = [item for item in properties if isinstance(item, Always)]
        self._settles = [item for item in properties if isinstance(item, Settles)]
        owed = [item for item in properties if isinstance(item, CanAlwaysStill | Eventually)]
        self._owed = list(dict.fromkeys(item.predicate for item in owed))
        self._sometimes = [item for item in properties if isinstance(item, Sometimes)]
        self._unseen = [item for item in properties if isinstance(item, Sometimes | Exercised)]
        self._judged: set[tuple[int, ...]] = set()  # local states that have been seen together

    @property
    def needs_ends(self) -> bool:
        """Whether it matters that every path comes to an end."""
        return bool(self._owed or self._settles)

    @property
    def sometimes(self) -> dict[str, bool]:
        """Which of the things that should be seen were seen."""
        return {item.name: item not in self._unseen for item in self._sometimes}

    @property
    def is_vacuous(self) -> bool:
        """Whether what was seen shows nothing."""
        return any(isinstance(item, Exercised) for item in self._unseen)

    def look(self, state: State) -> None:
        """Look at a state: no condition looks at what is under way."""
        together = state[: self._model.size]
        if together in self._judged:
            return
        self._judged.add(together)
        if not all(self._holds(item.conditions, together) for item in self._always):
            raise GivenUpError
        for item in self._unseen.copy():
            if self._holds(item.conditions, together):
                self._unseen.remove(item)

    def look_at_end(self, state: State) -> None:
        """Look at a state where nothing is sure to happen any more."""
        together = state[: self._model.size]
        seats = [self._model.seats[number] for number in together]
        if not all(predicate(seat) for predicate in self._owed for seat in seats):
            raise GivenUpError
        if not all(self._holds(item.conditions, together) for item in self._settles):
            raise GivenUpError

    def _holds(self, conditions: Sequence[Condition], together: Sequence[int]) -> bool:
        return holds(conditions, [self._model.seats[number] for number in together])


def look_through(
    seats: Sequence[Seat], channel: Channel, properties: Sequence[Property]
) -> Found | None:
    """Search all states without faults; None if there are too many, or something is not as it should be.

    The seats are as before their start, and are left untouched.
    """
    try:
        model = SmallModel(seats, channel)
        return _search(model, StateJudge(model, properties))
    except Exception:  # noqa: BLE001 - whatever an algorithm raises, the other search raises or words
        return None


def _search(model: SmallModel, judge: StateJudge) -> Found | None:
    level, depth, transitions = [model.start()], 0, 0
    levels = {level[0]: 0}  # of each state
    while level:
        found = []
        for state in level:
            judge.look(state)
            ends = True
            for certain, _, _, target in model.moves(state):
                transitions += 1
                there = levels.get(target)
                if there is None:
                    levels[target] = depth + 1
                    found.append(target)
                elif certain and there <= depth and judge.needs_ends:
                    return None
                if certain:
                    ends = False
            if ends:
                judge.look_at_end(state)
            if len(found) > WIDTH_MAX or len(levels) > STATES_MAX:
                return None
        level = found
        depth += bool(level)
    if not transitions or judge.is_vacuous:
        return None
    return Found(len(levels), transitions, depth, judge.sometimes)
