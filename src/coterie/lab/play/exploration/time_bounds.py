"""Whether a play keeps the bounds of time that its processes rely on.

A play has an order and no times. It keeps the bounds if times can be given to its moves: in their order, each
message taking one unit at least and as long as the processes allow at most, each timer ringing
exactly when it is due. These are bounds on differences of two times, so they can be met exactly if
the graph of them has no cycle of negative weight (Bellman and Ford).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from coterie.lab.play.exploration.fate import Fate, fate
from coterie.trace import Delivered, Dropped, Sent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.play.runs.run import Run
    from coterie.lab.scenario.play import Play
    from coterie.lab.scenario.world import Move

MOVES_MAX = 120  # of a run that is looked at: each possible move is tried on top of it
LATE = fate("open", "outside the bounds of time")
TIMELY = fate("open", "within the bounds of time; what it leads to is not searched here")

Bounds = list[tuple[int, int, float]]  # the second move comes at most so long after the first


@dataclass
class TimeBounds:
    """The bounds on the times of a play's moves; it begins with a play that was just started."""

    play: Play
    longest: float  # that a message takes
    bounds: Bounds = field(default_factory=list)
    sent: dict[int, int] = field(default_factory=dict)  # the move in which each message was sent
    moves: int = 0

    def __post_init__(self) -> None:
        """Take what was sent at the start."""
        for letter in self.play.world.transit:
            self.sent.setdefault(letter.number, 0)

    def make(self, text: str) -> None:
        """Make a move, and note what it says about times."""
        world, before = self.play.world, self._armed()
        records = len(world.records)
        move = self.play.meant(text)
        self.play.move(text)
        self.moves += 1
        now = self.moves
        self.bounds.append((now, now - 1, 0.0))
        for record in world.records[records:]:
            match record:
                case Sent():
                    self.sent[record.number] = now
                case Delivered():
                    self.bounds.append((self.sent[record.number], now, self.longest))
                    self.bounds.append((now, self.sent[record.number], -1.0))
                case Dropped() if record.receiver not in world.crashed:
                    self.bounds.append((now, now, -1.0))  # links lose nothing
                case _:
                    pass
        after = self._armed()
        for key, (since, duration) in before.items():
            if after.get(key) == (since, duration):
                continue
            self.bounds.append((since, now, duration))  # else it would have rung before
            if move.kind == "ring" and key == (move.process, move.name):
                self.bounds.append((now, since, -duration))

    def are_kept(self) -> bool:
        """Return whether there are times for all moves so far, nothing being overdue after the last."""
        now, world = self.moves, self.play.world
        bounds = [*self.bounds]
        bounds += [(since, now, duration) for since, duration in self._armed().values()]
        bounds += [
            (self.sent[letter.number], now, self.longest)
            for letter in world.transit
            if letter.receiver not in world.crashed
        ]
        return _can_be_met(bounds, now + 1)

    def would_keep(self, move: Move) -> bool:
        """Return whether the bounds are still kept after one more move."""
        later = replace(self, play=self.play.fork(), bounds=[*self.bounds], sent={**self.sent})
        later.make(move.text)
        return later.are_kept()

    def _armed(self) -> dict[tuple[int, str], tuple[int, float]]:
        """Return when each timer was set, and for how long."""
        world = self.play.world
        return {
            (me, name): (int(world.armed[me][name]), duration)
            for me, timers in world.timers.items()
            for name, duration in timers.items()
        }


def time_fates(run: Run, cursor: int) -> tuple[Fate, dict[str, Fate]] | None:
    """Say whether a run keeps the bounds of time, and which moves would not; None if it is too long."""
    play = run.play_at(0)
    delays = [delay for seat in play.world.seats.values() if (delay := seat.process.delay_max())]
    if cursor > MOVES_MAX or not delays:
        return None
    kept = TimeBounds(play, min(delays))
    for step in run.steps[1 : cursor + 1]:
        kept.make(step.move)
    if not kept.are_kept():
        return LATE, {}
    moves: Sequence[Move] = play.enabled()
    return TIMELY, {move.text: LATE for move in moves if not kept.would_keep(move)}


def _can_be_met(bounds: Bounds, moves: int) -> bool:
    latest = [0.0] * moves
    for _ in range(moves + 1):
        changed = False
        for first, second, most in bounds:
            if latest[first] + most < latest[second]:
                latest[second] = latest[first] + most
                changed = True
        if not changed:
            return True
    return False
