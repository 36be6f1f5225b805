"""What each input does to each seat: handlers are pure, so each step is computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.lab.explore.tables.arrays import Growing
from coterie.lab.explore.tables.memo import PairMemo
from coterie.lab.explore.timed.local import CLEAR, KEEP
from coterie.lab.explore.timed.moves import Move, feed
from coterie.process import Outbox, check_wishes, line_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.explore.tables.arrays import Ids, Numbers
    from coterie.lab.explore.timed.local import Given, Lives, Mails, Timers
    from coterie.process import Payload, ProcessId


class TimedSteps:
    """Numbers the results of steps, from 1 on.

    After the result of a whole step stand those in which the process dies when one, two or more of
    its messages have left, but not all.
    """

    def __init__(self, lives: Lives, timers: Timers, mails: Mails, given: Given, size: int) -> None:
        """Start with no steps computed."""
        self._lives = lives
        self._timers = timers
        self._mails = mails
        self._given = given
        self._memo = PairMemo(self.compute)
        self.after = Growing(np.int32, 1)  # by result: the number of the seat
        self.change = Growing(np.int32, 1)  # of the timers
        self.cuts = Growing(np.int32, 1)  # ways to die on the way
        self.sent = [Growing(np.int32, 1) for _ in range(size)]  # parcels, by the receiver's place
        self.dies = Growing(np.int32, 1)
        self.returns = Growing(np.int32, 1)
        self.errors: dict[int, str] = {}  # results of handlers that raised

    def __call__(self, seats: Ids, inputs: Numbers) -> Numbers:
        """Return the results of these steps, each made as a whole."""
        return self._memo(seats, inputs, (len(self._lives), len(self._given)))

    def compute(self, seat: int, number: int) -> int:
        """Return the result of one step."""
        move, message = self._given[number]
        before = self._lives[seat]
        match move.kind:
            case "pass" | "lose":
                return self._append(seat, KEEP, ())
            case "crash":
                after = self._lives.crashed(before.process, before.life)
                return self._append(after, CLEAR, (), dies=True)
            case _:
                return self._handle(seat, move, message)

    def _handle(self, number: int, move: Move, message: Payload | None) -> int:
        before = self._lives[number]
        process, life, returns = before.process, before.life, move.kind == "return"
        out: Outbox[Any] = Outbox(process)
        if returns:
            life += 1
            out.incarnation = life
        seat = self._lives.fresh(process) if returns else self._lives.restore(number)
        assert seat is not None, "a crashed process takes no step"
        try:
            feed(seat, move, message, out)
            check_wishes(out, len(self.sent))
        except Exception as error:  # noqa: BLE001 - whatever an algorithm raises is its violation
            result = self._append(self._lives.crashed(process, life), CLEAR, ())
            line = line_of(error, seat.process)
            self.errors[result] = f"process {process} raised {error!r} on {move.kind}{line}"
            return result
        # A timer that rings is armed no more, unless its handler arms it again.
        rung: list[tuple[str, float | None]] = [(move.name, None)] if move.kind == "ring" else []
        change = self._timers.change([*rung, *out.timers])
        after = self._lives.save(process, life, seat)
        sends = [(to, self._given.letter(process, payload)) for to, payload in out.sends]
        cuts = max(0, len(sends) - 1)
        result = self._append(after, change, sends, cuts=cuts, returns=returns)
        crashed = self._lives.crashed(process, life)
        for sent in range(1, cuts + 1):
            self._append(crashed, CLEAR, sends[:sent], dies=True, returns=returns)
        return result

    def _append(
        self,
        after: int,
        change: int,
        sends: Sequence[tuple[ProcessId, int]],
        *,
        cuts: int = 0,
        dies: bool = False,
        returns: bool = False,
    ) -> int:
        self.after.append(after)
        self.change.append(change)
        self.cuts.append(cuts)
        self.dies.append(dies)
        self.returns.append(returns)
        parcels: list[tuple[int, ...]] = [()] * len(self.sent)
        for to, letter in sends:
            parcels[to - 1] += (letter,)
        for sent, parcel in zip(self.sent, parcels, strict=True):
            sent.append(self._mails.parcel(parcel))
        return len(self.after) - 1
