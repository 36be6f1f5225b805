"""One step from many states at once: every kind of move, applied to a whole matrix of states.

A global state is a column of small numbers: the local states of all processes, the contents of all
channels, and the faults still allowed. A move changes a few of them in all states that allow it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from coterie.lab.explore.tables.arrays import Growing, namespace
from coterie.lab.explore.tables.faults import Faults
from coterie.lab.explore.tables.hashing import scatter
from coterie.lab.explore.tables.inputs import Inputs
from coterie.lab.explore.tables.kernels import columns, launch, sized
from coterie.lab.explore.tables.links import Links
from coterie.lab.explore.tables.seats import Seats
from coterie.lab.explore.tables.step import Pending
from coterie.lab.explore.tables.steps import Steps
from coterie.process import Outbox, check_wishes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from coterie.lab.explore.tables.arrays import Ids, Keys, Numbers, Positions, Rows, Slots
    from coterie.lab.explore.tables.inputs import Input
    from coterie.process import Channel, Payload, Seat

NARROW = 1 << 16  # so many numbers fit into two bytes

Kind = Literal[
    "ask", "own", "deliver", "notice", "crash", "lose", "duplicate", "suspect", "restart"
]


class Action(NamedTuple):
    """A kind of move, at a place."""

    kind: Kind
    place: int  # of the process that moves, receives or crashes
    peer: int = -1  # place of the sender of the message, or of the process that is down
    slot: int = 0  # which of the moves of this kind that are possible there

    @property
    def is_certain(self) -> bool:
        """Return whether it is sure to happen in the end, unless something else prevents it."""
        return self.kind in {"own", "deliver", "notice"}

    @property
    def is_fault(self) -> bool:
        """Return whether the budget of faults allows it."""
        return self.kind in {"crash", "lose", "duplicate", "suspect", "restart"}


class Change(NamedTuple):
    """One row of the matrix, in the states that a move applies to."""

    row: int
    old: Ids
    new: Ids


@dataclass
class Batch:
    """All states that one move leads to."""

    action: Action
    sources: Positions  # columns of the matrix it applies to
    changes: list[Change]
    results: Numbers | None  # of the handlers

    def hashes(self, sources: Keys, zobrist: Sequence[Growing]) -> Keys:
        """Hashes of the states, from those of their sources and what has changed."""
        hashes: Keys = sources.take(self.sources)
        if not isinstance(hashes, np.ndarray):
            xp = namespace(hashes)
            for row, old, new in self.changes:
                launch(xp, "rehash", hashes, *sized(old), *sized(new), zobrist[row].on_device(xp))
            return hashes
        for row, old, new in self.changes:
            hashes += zobrist[row].take(new)
            hashes -= zobrist[row].take(old)
        return hashes

    def rows(self, rows: Rows, chosen: Positions | slice, dtype: np.dtype[Any]) -> Rows:
        """Build the chosen ones of the states."""
        if not isinstance(rows, np.ndarray):
            return self._rows_on_device(namespace(rows), rows, chosen, dtype)
        states: Rows = rows.take(self.sources[chosen], axis=1).astype(dtype, copy=False)
        for row, _, new in self.changes:
            states[row] = new[chosen]
        return states

    def _rows_on_device(
        self, xp: Any, rows: Rows, chosen: Positions | slice, dtype: np.dtype[Any]
    ) -> Rows:
        which = xp.arange(len(self.sources))[chosen] if isinstance(chosen, slice) else chosen
        states = columns(xp, rows, self.sources.take(which)).astype(dtype, copy=False)
        for row, _, new in self.changes:
            launch(xp, "write_row", which, *sized(new), *sized(states[row]))
        return states


class Moves:
    """The transition relation of a list of processes."""

    def __init__(self, seats: Sequence[Seat], channel: Channel, faults: Faults) -> None:
        """Take the seats as they are before their start."""
        self.size = len(seats)
        self._examples = seats
        self.inputs = Inputs()
        self.links = Links(channel)
        self.seats = Seats(seats, self.inputs)
        self.steps = Steps(self.seats, self.links, self.inputs, self.size)
        pairs = itertools.permutations(range(self.size), 2)
        self.link_rows = {pair: self.size + row for row, pair in enumerate(pairs)}
        self.budgets = list(itertools.product(*(range(most, -1, -1) for most in faults)))
        self.budget_row = self.size + len(self.link_rows)
        self._budget_zobrist = Growing(np.uint64)
        for number in range(len(self.budgets)):
            self._budget_zobrist.append(scatter(-1 - number))
        self._spent = {kind: self._spend(kind) for kind in Faults._fields}

    @property
    def zobrist(self) -> list[Growing]:
        """For each row of the matrix, a random number for each value in it."""
        links = [self.links.zobrist] * len(self.link_rows)
        return [self.seats.zobrist] * self.size + links + [self._budget_zobrist]

    def hashes(self, rows: Rows) -> Keys:
        """Hash whole states: the sum of the random numbers of what they consist of."""
        hashes: Keys = namespace(rows).zeros(rows.shape[1], np.uint64)
        for zobrist, row in zip(self.zobrist, rows, strict=True):
            hashes += zobrist.take(row)
        return hashes

    @property
    def dtype(self) -> np.dtype[Any]:
        """The narrowest type that holds all numbers in use."""
        most = max(len(self.seats), len(self.links), len(self.budgets))
        return np.dtype(np.uint16 if most <= NARROW else np.uint32)

    def start(self) -> Rows:
        """Let each process begin, in the order of ids, and return the one state they begin in."""
        column = []
        contents: dict[tuple[int, int], tuple[int, ...]] = {}
        for place, seat in enumerate(self._examples):
            out: Outbox[Any] = Outbox(place + 1)
            seat.start(out)
            check_wishes(out, self.size)
            column.append(self.seats.save(place, seat, Pending().after(None, out)))
            for receiver, sent in enumerate(self.steps.dispatch(out.me, out.sends)):
                contents[place, receiver] = sent
        for pair in self.link_rows:
            empty = np.array([self.links.number(self.link_rows[pair], ())])
            suffix = np.array([self.links.suffix(contents[pair])])
            column.append(int(self.links.append(empty, suffix)[0]))
        return np.array([[*column, 0]], self.dtype).T.copy()

    def column(
        self,
        seats: Sequence[tuple[Seat, Pending] | None],
        under_way: Mapping[tuple[int, int], Sequence[Payload]],
        left: Faults,
    ) -> Rows:
        """Return a state that was reached elsewhere: its seats, its messages, the faults still allowed.

        A crashed process has no seat. Messages are given by the places of sender and receiver, in the
        order sent; those to a crashed process are lost, as they are here.
        """
        column = [
            self.seats.crash(place) if each is None else self.seats.save(place, *each)
            for place, each in enumerate(seats)
        ]
        for (sender, receiver), row in self.link_rows.items():
            messages = under_way.get((sender, receiver), ())
            content = tuple(self.inputs.receive(sender + 1, message) for message in messages)
            closed = seats[receiver] is None
            column.append(self.links.number(row, None if closed else self.links.ordered(content)))
        return np.array([[*column, self.budgets.index(left)]], self.dtype).T.copy()

    def expand(self, rows: Rows) -> Iterator[Batch]:
        """Make every move from every state."""
        for place in range(self.size):
            for slot in range(len(self.seats.asks.slots)):
                yield self._own(rows, Action("ask", place, slot=slot), self.seats.asks)
            for slot in range(len(self.seats.own.slots)):
                yield self._own(rows, Action("own", place, slot=slot), self.seats.own)
        for sender, receiver in self.link_rows:
            for slot in range(len(self.links.heads.slots)):
                yield self._deliver(rows, Action("deliver", receiver, sender, slot))
                if self.allows("lose"):
                    yield self._lose(rows, Action("lose", receiver, sender, slot))
                if self.allows("duplicate"):
                    yield self._deliver(rows, Action("duplicate", receiver, sender, slot))
        yield from self._fail(rows)

    def _fail(self, rows: Rows) -> Iterator[Batch]:
        """Let processes crash, and be reported as down, rightly or wrongly."""
        if self.allows("crash"):
            for place in range(self.size):
                yield self._crash(rows, Action("crash", place))
            for place, peer in self.link_rows:
                yield self._notice(rows, Action("notice", place, peer))
        if self.allows("suspect"):
            for place, peer in self.link_rows:
                yield self._notice(rows, Action("suspect", place, peer))
        if self.allows("restart"):
            for place in range(self.size):
                yield self._restart(rows, Action("restart", place))

    def input_of(self, action: Action, state: Ids) -> Input | None:
        """Return what a move feeds to a seat, or takes away from it, in one state; nothing for a crash."""
        match action.kind:
            case "ask":
                number = self.seats.asks.slots[action.slot].array[state[action.place]]
            case "own":
                number = self.seats.own.slots[action.slot].array[state[action.place]]
            case "deliver" | "duplicate" | "lose":
                link = self.link_rows[action.peer, action.place]
                number = self.links.heads.slots[action.slot].array[state[link]]
            case "notice" | "suspect":
                number = self.inputs.notice(action.peer + 1)
            case "restart":
                number = self.inputs.restart(incarnation=1)
            case "crash":
                return None
        return self.inputs[int(number)]

    def _own(self, rows: Rows, action: Action, moves: Slots) -> Batch:
        sources, inputs = moves.slots[action.slot].nonzero(rows[action.place])
        return self._handle(rows, action, sources, inputs, [])

    def _deliver(self, rows: Rows, action: Action) -> Batch:
        link = self.link_rows[action.peer, action.place]
        heads = self.links.heads.slots[action.slot]
        sources, inputs = heads.nonzero(rows[link])
        changes: list[Change] = []
        if action.is_fault:  # a duplicated message stays under way
            sources, changes = self._afford(rows, action, sources)
            inputs = heads.take(rows[link].take(sources))
        elif sources.size:
            changes.append(self._remove(rows, link, sources, action.slot))
        return self._handle(rows, action, sources, inputs, changes)

    def _notice(self, rows: Rows, action: Action) -> Batch:
        """Report a crash to a process that watches: after it, or wrongly if it is a suspicion."""
        watched = self.seats.watched.take(rows[action.place]) >> np.uint64(action.peer)
        down = rows[action.peer] == self.seats.crash(action.peer)
        meant = ~down if action.kind == "suspect" else down
        xp = namespace(rows)
        watching = xp.flatnonzero(meant & (watched & np.uint64(1) != 0))
        sources, changes = self._afford(rows, action, watching)
        inputs = xp.full(len(sources), self.inputs.notice(action.peer + 1), np.int32)
        return self._handle(rows, action, sources, inputs, changes)

    def _handle(
        self, rows: Rows, action: Action, sources: Positions, inputs: Numbers, changes: list[Change]
    ) -> Batch:
        if not sources.size:
            return Batch(action, sources, [], None)
        place = action.place
        states = rows[place].take(sources)
        results = self.steps(states, inputs)
        changes.append(Change(place, states, self.steps.after.take(results)))
        receivers = self.steps.receivers.union(results)
        for receiver in range(self.size):
            if receivers >> receiver & 1:
                row = self.link_rows[place, receiver]
                old = rows[row].take(sources)
                new = self.links.append(old, self.steps.sent[receiver].take(results))
                changes.append(Change(row, old, new))
        return Batch(action, sources, changes, results)

    def _lose(self, rows: Rows, action: Action) -> Batch:
        link = self.link_rows[action.peer, action.place]
        sources, _ = self.links.heads.slots[action.slot].nonzero(rows[link])
        sources, changes = self._afford(rows, action, sources)
        changes.append(self._remove(rows, link, sources, action.slot))
        return Batch(action, sources, changes, None)

    def _crash(self, rows: Rows, action: Action) -> Batch:
        place = action.place
        crashed = self.seats.crash(place)
        xp = namespace(rows)
        sources, changes = self._afford(rows, action, xp.flatnonzero(rows[place] != crashed))
        rows_closed = [(place, crashed)]
        for sender in range(self.size):
            if sender != place:
                link = self.link_rows[sender, place]
                rows_closed.append((link, self.links.number(link, None)))
        for row, number in rows_closed:
            old = rows[row].take(sources)
            changes.append(Change(row, old, xp.full(len(sources), number)))
        return Batch(action, sources, changes, None)

    def _restart(self, rows: Rows, action: Action) -> Batch:
        """Let a crashed process begin again, once all that watched it have heard of its crash."""
        place = action.place
        xp = namespace(rows)
        unheard = xp.zeros(rows.shape[1], np.bool_)
        for other in range(self.size):
            watched = self.seats.watched.take(rows[other]) >> np.uint64(place)
            unheard |= watched & np.uint64(1) != 0
        down = xp.flatnonzero((rows[place] == self.seats.crash(place)) & ~unheard)
        sources, changes = self._afford(rows, action, down)
        for sender in range(self.size):
            if sender != place and sources.size:
                link = self.link_rows[sender, place]
                old = rows[link].take(sources)
                changes.append(
                    Change(link, old, xp.full(len(sources), self.links.number(link, ())))
                )
        inputs = xp.full(len(sources), self.inputs.restart(incarnation=1), np.int32)
        return self._handle(rows, action, sources, inputs, changes)

    def _remove(self, rows: Rows, link: int, sources: Positions, slot: int) -> Change:
        old = rows[link].take(sources)
        return Change(link, old, self.links.remove(old, slot))

    def _afford(
        self, rows: Rows, action: Action, sources: Positions
    ) -> tuple[Positions, list[Change]]:
        """Keep the states whose budget allows the fault, and spend it."""
        if not action.is_fault:
            return sources, []
        spent = self._spent[action.kind]
        budgets = rows[self.budget_row]
        sources = sources[spent.take(budgets.take(sources)) >= 0]
        old = budgets.take(sources)
        return sources, [Change(self.budget_row, old, spent.take(old))]

    def _spend(self, kind: str) -> Growing:
        """For each budget, the one after a fault of this kind; -1 if there is none left."""
        after = Growing(np.int32)
        for budget in map(Faults._make, self.budgets):
            left = budget._replace(**{kind: getattr(budget, kind) - 1})
            after.append(self.budgets.index(left) if min(left) >= 0 else -1)
        return after

    def allows(self, kind: str) -> bool:
        """Return whether so much as one fault of this kind may happen."""
        return bool(self._spent[kind].array.max() >= 0)
