"""The way to a finding of the timed exploration, told as a trace whose times are ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coterie import trace
from coterie.lab.explore.timed.moves import START, WHOLE, Move, feed
from coterie.process import Outbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coterie.lab.explore.timed.world import TickingWorld
    from coterie.process import Payload, ProcessId, Seat


def retell(
    world: TickingWorld, moves: Sequence[Move], header: trace.Header, name: str, reason: str
) -> trace.Trace:
    """Make the moves again with fresh seats, and write down what happens."""
    teller = _Teller(world)
    turn, tick = 1, 0
    for move in moves:
        if move.kind == "pass":
            turn, tick = (turn + 1, tick) if turn < world.size else (1, tick + 1)
        else:
            teller.make(move, turn, float(tick))
    teller.records.append(trace.Violated(float(tick), name, reason))
    return trace.Trace(header, teller.records)


class _Teller:
    """Seats that are led through a run."""

    def __init__(self, world: TickingWorld) -> None:
        self.world = world
        self.records: list[trace.AnyRecord] = []
        self.seats: dict[ProcessId, Seat] = {}
        self.links: dict[tuple[ProcessId, ProcessId], list[tuple[int, Payload]]] = {}
        self.lives = dict.fromkeys(range(1, world.size + 1), -1)
        self.letters = 0
        self.may_return = world.bounds.returns > 0
        self.living = set(self.lives)
        for process in self.lives:
            self.make(START, process, 0.0)

    def make(self, move: Move, process: ProcessId, time: float) -> None:
        message = None
        out: Outbox[Any] = Outbox(process)
        match move.kind:
            case "crash":
                self._crash(process, time)
                return
            case "lose":
                number, _ = self.links[move.sender, process].pop(0)
                self._drop(time, number, move.sender, process)
                return
            case "deliver":
                number, message = self.links[move.sender, process].pop(0)
                self.records.append(trace.Delivered(time, number, move.sender, process))
            case "ring":
                self.records.append(trace.Rang(time, process, move.name))
            case "call":
                self.records.append(trace.Called(time, process, move.name))
            case _:
                self.seats[process] = self.world.fresh(process)
                self.living.add(process)
                self.lives[process] += 1
                out.incarnation = self.lives[process]
                self.records.append(trace.Started(time, process))
        try:
            feed(self.seats[process], move, message, out)
        except Exception:  # noqa: BLE001 - what it raises is the finding itself
            return
        cut = move.sent != WHOLE
        for to, payload in out.sends[: move.sent] if cut else out.sends:
            self._send(time, process, to, payload)
        if cut:
            self._crash(process, time)
        else:
            self.records += [trace.told(time, process, event) for event in out.events]

    def _send(self, time: float, sender: ProcessId, receiver: ProcessId, message: Payload) -> None:
        self.letters += 1
        self.records.append(trace.sent(time, self.letters, sender, receiver, message))
        self.links.setdefault((sender, receiver), []).append((self.letters, message))
        if receiver not in self.living and not self.may_return:
            self._drop_all(time, receiver)

    def _crash(self, process: ProcessId, time: float) -> None:
        self.records.append(trace.Crashed(time, process))
        self.living.discard(process)
        if not self.may_return:
            self._drop_all(time, process)

    def _drop_all(self, time: float, process: ProcessId) -> None:
        for (sender, receiver), link in self.links.items():
            if receiver == process:
                for number, _ in link:
                    self._drop(time, number, sender, receiver)
                link.clear()

    def _drop(self, time: float, number: int, sender: ProcessId, receiver: ProcessId) -> None:
        self.records.append(trace.Dropped(time, number, sender, receiver, "receiver down"))
