"""What belongs to one process in a world with a clock, each a small number, from 1 on.

A local state is three numbers: of the seat, of the timers that it has armed, and of what is under
way to it. They change apart from each other, so each change is computed once and looked up for all
states that have it in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from coterie.errors import UsageError
from coterie.lab.explore.properties import inside
from coterie.lab.explore.tables.arrays import Growing
from coterie.lab.explore.tables.memo import PairMemo
from coterie.lab.explore.timed.moves import Move
from coterie.process import SeatCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.explore.tables.arrays import Ids, Numbers, Positions
    from coterie.lab.explore.timed.moves import Bounds
    from coterie.process import Payload, ProcessId, Seat

EMPTY = 1  # the number of no timers, and of no mail
KEEP, CLEAR, TICK = 0, 1, 2  # changes of timers that are there from the beginning

Armed: TypeAlias = tuple[tuple[str, int], ...]  # by name, with the ticks left
Change: TypeAlias = tuple[tuple[str, int | None], ...]  # None: no longer armed
Mail: TypeAlias = tuple[
    tuple["ProcessId", int, int], ...
]  # sender, input, age: by sender, in order


class Lists:
    """A short list of numbers for each id, all of them end to end."""

    def __init__(self) -> None:
        """Start with an empty list for the id 0."""
        self._items = Growing(np.int32)
        self._ends = Growing(np.int32, zeros=2)

    def append(self, numbers: Sequence[int]) -> None:
        """Add the list of the next id."""
        for number in numbers:
            self._items.append(number)
        self._ends.append(len(self._items))

    def expand(self, ids: Ids) -> tuple[Positions, Numbers]:
        """Return all numbers of the lists of these ids, and the position of the id of each."""
        ends = self._ends.array
        starts = ends.take(ids)
        counts = ends[1:].take(ids) - starts
        positions = np.repeat(np.arange(len(ids)), counts)
        past = np.cumsum(counts) - counts
        places = np.arange(len(positions)) + (starts - past).take(positions)
        return positions, self._items.take(places)


class Given:
    """Numbers what can happen to a process; messages are told apart by sender and content."""

    def __init__(self, size: int) -> None:
        """Start with the moves that are always the same."""
        self._numbers: dict[tuple[Move, Payload | None], int] = {}
        self._given: list[tuple[Move, Payload | None]] = []
        self.sender = Growing(np.int32)  # whose letter is taken out of the mail; 0: none
        self.crash = self.number(Move("crash"))
        self.start = self.number(Move("return"))
        self.stay = self.number(Move("pass"))
        self.lose = [self.number(Move("lose", sender=sender)) for sender in range(size + 1)]

    def __len__(self) -> int:
        """Count the inputs."""
        return len(self._given)

    def __getitem__(self, number: int) -> tuple[Move, Payload | None]:
        """Return the move, and the message that it delivers."""
        return self._given[number]

    def number(self, move: Move, message: Payload | None = None) -> int:
        """Return the number of an input, a new one if need be."""
        number = self._numbers.setdefault((move, message), len(self._given))
        if number == len(self._given):
            self._given.append((move, message))
            self.sender.append(move.sender)
        return number

    def letter(self, sender: ProcessId, message: Payload) -> int:
        """Return the number of a message that arrives."""
        return self.number(Move("deliver", sender=sender), message)


class Life(NamedTuple):
    """A seat of a process, saved, in one of its lives."""

    process: ProcessId
    life: int  # how often it has started again
    saved: tuple[bytes, bytes] | None  # None: crashed


class Lives:
    """Numbers the seats."""

    def __init__(self, seats: Sequence[Seat], given: Given) -> None:
        """Take the seats as they are before their start."""
        self._given = given
        self._codecs = [SeatCodec(seat) for seat in seats]
        self._fresh = [codec.save(seat) for codec, seat in zip(self._codecs, seats, strict=True)]
        self._numbers: dict[Life, int] = {}
        self._lives: list[Life] = []
        self._markers: list[tuple[Callable[[Seat], bool], Growing]] = []
        self.alive = Growing(np.bool_, 1)
        self.inside = Growing(np.bool_, 1)
        self.calls = Lists()

    def __len__(self) -> int:
        """Return one more than the highest number."""
        return len(self._lives) + 1

    def __getitem__(self, number: int) -> Life:
        """Return what has that number."""
        return self._lives[number - 1]

    def fresh(self, process: ProcessId) -> Seat:
        """Return a seat as it is before its start."""
        return self._codecs[process - 1].restore(self._fresh[process - 1])

    def restore(self, number: int) -> Seat | None:
        """Return a seat again, independent of all others; None for a crashed process."""
        process, _, saved = self[number]
        return None if saved is None else self._codecs[process - 1].restore(saved)

    def mark(self, predicate: Callable[[Seat], bool]) -> Growing:
        """Keep an array that tells for each number whether the predicate holds; crashed: never."""
        marks = Growing(np.int8, 1)
        self._markers.append((predicate, marks))
        for number in range(1, len(self)):
            seat = self.restore(number)
            marks.append(seat is not None and bool(predicate(seat)))
        return marks

    def save(self, process: ProcessId, life: int, seat: Seat) -> int:
        """Number the seat of a live process."""
        return self._number(Life(process, life, self._codecs[process - 1].save(seat)), seat)

    def crashed(self, process: ProcessId, life: int) -> int:
        """Number the state of a process that has crashed in that life."""
        return self._number(Life(process, life, None), None)

    def _number(self, life: Life, seat: Seat | None) -> int:
        number = self._numbers.setdefault(life, len(self))
        if number == len(self):
            self._lives.append(life)
            self.alive.append(seat is not None)
            self.inside.append(seat is not None and inside(seat))
            calls = () if seat is None else seat.user.calls()
            self.calls.append([self._given.number(Move("call", name)) for name in calls])
            for predicate, marks in self._markers:
                marks.append(seat is not None and bool(predicate(seat)))
        return number


class Timers:
    """Numbers the sets of armed timers, and changes of them."""

    def __init__(self, given: Given) -> None:
        """Start with no timers, and the changes that have no list."""
        self._given = given
        self._numbers: dict[Armed, int] = {}
        self._armed: list[Armed] = []
        self._change_numbers: dict[Change, int] = {(): KEEP}
        self._changes: list[Change] = [(), (), ()]
        self._memo = PairMemo(self.changed)
        self.due = Lists()  # the inputs of those that ring now
        self.is_due = Growing(np.bool_, 1)
        assert self._number(()) == EMPTY

    def __len__(self) -> int:
        """Return one more than the highest number."""
        return len(self._armed) + 1

    def change(self, wishes: Sequence[tuple[str, float | None]]) -> int:
        """Number what a step wishes."""
        change = tuple((name, _ticks(after)) for name, after in wishes)
        number = self._change_numbers.setdefault(change, len(self._changes))
        if number == len(self._changes):
            self._changes.append(change)
        return number

    def change_all(self, timers: Ids, changes: Numbers) -> Numbers:
        """Return the timers after these changes."""
        return self._memo(timers, changes, (len(self), len(self._changes)))

    def changed(self, number: int, change: int) -> int:
        """Return the timers after one change."""
        armed = self._armed[number - 1]
        if change == TICK:
            return self._number(tuple((name, left - 1) for name, left in armed))
        left = {} if change == CLEAR else dict(armed)
        for name, ticks in self._changes[change]:
            left.pop(name, None)
            if ticks is not None:
                left[name] = ticks
        return self._number(tuple(sorted(left.items())))

    def _number(self, armed: Armed) -> int:
        number = self._numbers.setdefault(armed, len(self))
        if number == len(self):
            self._armed.append(armed)
            due = [self._given.number(Move("ring", name)) for name, left in armed if left <= 0]
            self.due.append(due)
            self.is_due.append(bool(due))
        return number


class Mails:
    """Numbers what is under way to a process, and what one step sends to it."""

    def __init__(self, given: Given, bounds: Bounds, size: int) -> None:
        """Start with nothing under way."""
        self._given = given
        self._bounds = bounds
        self._numbers: dict[Mail, int] = {}
        self._mails: list[Mail] = []
        self._parcel_numbers: dict[tuple[int, ...], int] = {}
        self._parcels: list[tuple[int, ...]] = [()]
        self._put = PairMemo(self.put)
        self._take = PairMemo(self._taken)
        self._tick = size + 1  # taken from a sender that does not exist: all letters grow older
        self.arrived = Lists()  # the inputs that may be handled now
        self.here = Growing(np.bool_, 1)  # one of them must have arrived
        self.late = Growing(np.bool_, 1)  # one of them must be handled
        assert self._number(()) == EMPTY

    def __len__(self) -> int:
        """Return one more than the highest number."""
        return len(self._mails) + 1

    def parcel(self, inputs: tuple[int, ...]) -> int:
        """Number what one step sends to one process; nothing is 0."""
        if not inputs:
            return 0
        number = self._parcel_numbers.setdefault(inputs, len(self._parcels))
        if number == len(self._parcels):
            self._parcels.append(inputs)
        return number

    def put_all(self, mails: Ids, parcels: Numbers) -> Numbers:
        """Return the mails after sending."""
        return self._put(mails, parcels, (len(self), len(self._parcels)))

    def take_all(self, mails: Ids, senders: Numbers) -> Numbers:
        """Return the mails without the oldest letter of that sender; 0 takes none."""
        return self._take(mails, senders, (len(self), self._tick + 1))

    def tick_all(self, mails: Ids) -> Numbers:
        """Return the mails one tick later."""
        return self.take_all(mails, np.full(len(mails), self._tick, np.int32))

    def put(self, number: int, parcel: int) -> int:
        """Return a mail after sending."""
        inputs = self._parcels[parcel]
        sent = ((self._given[given][0].sender, given, 0) for given in inputs)
        letters = (*self._mails[number - 1], *sent)
        return self._number(tuple(sorted(letters, key=lambda letter: letter[0])))

    def _taken(self, number: int, sender: int) -> int:
        mail = self._mails[number - 1]
        if sender == self._tick:
            return self._number(tuple((*letter[:2], letter[2] + 1) for letter in mail))
        if not sender:
            return number
        first = next(i for i, letter in enumerate(mail) if letter[0] == sender)
        return self._number(mail[:first] + mail[first + 1 :])

    def _number(self, mail: Mail) -> int:
        number = self._numbers.setdefault(mail, len(self))
        if number == len(self):
            self._mails.append(mail)
            arrived = []
            last = 0
            for sender, given, age in mail:
                if sender != last and age >= self._bounds.delay_min:
                    arrived.append(given)
                last = sender
            self.arrived.append(arrived)
            oldest = max((age for *_, age in mail), default=-1)
            self.here.append(oldest >= self._bounds.delay_max)
            self.late.append(oldest >= self._bounds.delay_max + self._bounds.handling_max)
        return number


def _ticks(after: float | None) -> int | None:
    if after is None:
        return None
    if not float(after).is_integer():
        raise UsageError(f"a timer runs for whole ticks here, got {after:g}: choose whole bounds")
    return int(after)
