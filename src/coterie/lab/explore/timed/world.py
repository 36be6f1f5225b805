"""A world with a clock, in which every move is made from many states at once.

A state is a column of numbers: the seats of all processes, their timers, their mail, and one for the
rest: whose turn it is, and how many crashes and returns may still happen. The dead have mail only as
long as one of them may return.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.lab.explore.tables.moves import NARROW
from coterie.lab.explore.timed.local import EMPTY, TICK, Given, Lives, Mails, Timers
from coterie.lab.explore.timed.moves import WHOLE, Move
from coterie.lab.explore.timed.steps import TimedSteps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.explore.tables.arrays import Flags, Numbers, Positions, Rows
    from coterie.lab.explore.timed.moves import Bounds
    from coterie.process import ProcessId, Seat


@dataclass(frozen=True)
class Transitions:
    """What may happen next in some states: those of each state together, in the order of states."""

    sources: Positions  # columns of the states
    inputs: Numbers
    sent: Numbers  # how many messages have left when the process dies; 0: all, and it lives
    results: Numbers


class TickingWorld:
    """All that may happen, from any states."""

    def __init__(self, seats: Sequence[Seat], bounds: Bounds) -> None:
        """Take the seats as they are before their start."""
        self.size = len(seats)
        self.bounds = bounds
        self._given = Given(self.size)
        self.lives = Lives(seats, self._given)
        self._timers = Timers(self._given)
        self._mails = Mails(self._given, bounds, self.size)
        self.steps = TimedSteps(self.lives, self._timers, self._mails, self._given, self.size)
        self._lose = np.array(self._given.lose, np.int32)
        self._budgets = (
            bounds.returns + 1
        )  # the rest is turn + size * (returns + budgets * crashes)

    def initial(self) -> Rows:
        """Let all processes start, at the same time."""
        column = [EMPTY] * (3 * self.size + 1)
        for me in range(1, self.size + 1):
            result = self.steps.compute(self.lives.crashed(me, -1), self._given.start)
            assert result not in self.steps.errors, self.steps.errors[result]
            column[me - 1] = int(self.steps.after.array[result])
            change = int(self.steps.change.array[result])
            column[self.size + me - 1] = self._timers.changed(EMPTY, change)
            for row, sent in enumerate(self.steps.sent, 2 * self.size):
                column[row] = self._mails.put(column[row], int(sent.array[result]))
        column[-1] = self.size * (self.bounds.returns + self._budgets * self.bounds.crashes)
        return np.array([column], np.int32).T.copy()

    def fresh(self, process: ProcessId) -> Seat:
        """Return a seat as it is before its start."""
        return self.lives.fresh(process)

    def move(self, number: int, sent: int) -> Move:
        """Return the move of an input after which this many messages have left, 0 meaning all."""
        return self._given[number][0]._replace(sent=sent or WHOLE)

    def inside(self, rows: Rows) -> Flags:
        """Return for each process and state whether it is inside."""
        flags: Flags = self.lives.inside.take(rows[: self.size])
        return flags

    def transitions(self, rows: Rows) -> Transitions:
        """List what may happen next."""
        everyone = np.arange(rows.shape[1])
        place, returns, crashes = self._rest(rows)
        seats, timers, mails = (
            rows[kind * self.size + place, everyone] for kind in range(3)
        )  # of whose turn it is
        alive, late = self.lives.alive.take(seats), self._mails.late.take(mails)
        back = np.flatnonzero(~alive & (returns > 0))
        dying = np.flatnonzero(alive & (crashes > 0))
        idle = np.flatnonzero(~late & ~self._timers.is_due.take(timers))
        arrived, letters = self._mails.arrived.expand(mails)
        lost = self._lose.take(self._given.sender.take(letters))
        on_time = np.flatnonzero(~self._mails.here.take(mails))
        rung, rings = self._timers.due.expand(timers.take(on_time))
        called, calls = self.lives.calls.expand(seats)
        sources = np.concatenate([back, arrived, on_time.take(rung), called, dying, idle])
        inputs = np.concatenate(
            [
                np.full(len(back), self._given.start),
                np.where(alive.take(arrived), letters, lost),
                rings,
                calls,
                np.full(len(dying), self._given.crash),
                np.full(len(idle), self._given.stay),
            ]
        )
        order = np.argsort(sources, kind="stable")
        sources, inputs = sources.take(order), inputs.take(order).astype(np.int32)
        results = self.steps(seats.take(sources), inputs)
        cuts = np.where(crashes.take(sources) > 0, self.steps.cuts.take(results), 0)
        if not cuts.any():
            return Transitions(sources, inputs, np.zeros(len(sources), np.int32), results)
        ways = np.repeat(np.arange(len(sources)), cuts + 1)
        sent = np.arange(len(ways)) - (np.cumsum(cuts + 1) - cuts - 1).take(ways)
        return Transitions(
            sources.take(ways), inputs.take(ways), sent.astype(np.int32), results.take(ways) + sent
        )

    def apply(self, rows: Rows, made: Transitions) -> Rows:
        """Return the states after these transitions, none of which raises."""
        size, results = self.size, made.results
        after = rows.take(made.sources, axis=1).astype(np.int32)
        place, returns, _ = self._rest(after)
        dies, back = self.steps.dies.take(results), self.steps.returns.take(results)
        after[place, np.arange(len(place))] = self.steps.after.take(results)
        changes = self.steps.change.take(results)
        changed = np.flatnonzero(changes)
        cells = size + place.take(changed), changed
        after[cells] = self._timers.change_all(after[cells], changes.take(changed))
        senders = self._given.sender.take(made.inputs)
        taken = np.flatnonzero(senders)
        cells = 2 * size + place.take(taken), taken
        after[cells] = self._mails.take_all(after[cells], senders.take(taken))
        after[-1] -= size * (self._budgets * dies + back)
        returns = returns - back
        for receiver, parcels in enumerate(self.steps.sent):
            self._send(after, receiver, parcels.take(results), returns)
        self._bury(after, np.flatnonzero((dies + back > 0) & (returns == 0)))
        self._pass(after, np.flatnonzero(made.inputs == self._given.stay), place)
        return after.astype(self._dtype, copy=False)

    @property
    def _dtype(self) -> np.dtype[Any]:
        """The narrowest type that holds all numbers in use."""
        rest = self.size * self._budgets * (self.bounds.crashes + 1)
        most = max(len(self.lives), len(self._timers), len(self._mails), rest)
        return np.dtype(np.uint16 if most <= NARROW else np.int32)

    def _rest(self, rows: Rows) -> tuple[Numbers, Numbers, Numbers]:
        """Return the place whose turn it is, and the returns and crashes that may still happen."""
        left, place = np.divmod(rows[-1].astype(np.int32), self.size)
        crashes, returns = np.divmod(left, self._budgets)
        return place, returns, crashes

    def _send(self, rows: Rows, receiver: int, parcels: Numbers, returns: Numbers) -> None:
        sent = np.flatnonzero(parcels)
        if sent.size:
            # A dead receiver may be back when they arrive.
            alive = self.lives.alive.take(rows[receiver].take(sent))
            sent = sent[alive | (returns.take(sent) > 0)]
            mails = rows[2 * self.size + receiver]
            mails[sent] = self._mails.put_all(mails.take(sent), parcels.take(sent))

    def _bury(self, rows: Rows, which: Positions) -> None:
        """Forget what is under way to the dead, of which none returns any more."""
        for place in range(self.size) if which.size else ():
            dead = which[~self.lives.alive.take(rows[place].take(which))]
            rows[2 * self.size + place, dead] = EMPTY

    def _pass(self, rows: Rows, which: Positions, place: Numbers) -> None:
        """Let the next process take its turn; after the last one, time goes on for all at once."""
        last = place.take(which) == self.size - 1
        rows[-1, which] += np.where(last, 1 - self.size, 1).astype(np.int32)
        ticks = which[last]
        for row in range(self.size, 2 * self.size) if ticks.size else ():
            timers = rows[row].take(ticks)
            rows[row, ticks] = self._timers.change_all(timers, np.full(len(ticks), TICK, np.int32))
            mails = rows[row + self.size].take(ticks)
            rows[row + self.size, ticks] = self._mails.tick_all(mails)
