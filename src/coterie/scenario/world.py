"""The manual world: its owner chooses the next input, one at a time.

Nothing happens by itself. A message waits until it is delivered or dropped, and a timer rings when
it is told to. Scenarios are written in this world, and traces are replayed in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.catalogue import algorithm
from coterie.process import Outbox, seat
from coterie.trace import (
    AnyRecord,
    Called,
    Crashed,
    Delivered,
    Dropped,
    Noticed,
    Rang,
    Started,
    sent,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie.process import Payload, ProcessId, Seat
    from coterie.trace import Header


class Letter(NamedTuple):
    """A message on its way."""

    number: int
    sender: ProcessId
    receiver: ProcessId
    message: Payload


class Manual:
    """Processes built as a header says, moved by hand, with a record of all that happened.

    Each move takes the time at which it happens, which is also what the clock of the process shows
    unless the header says that there is none, and returns what the process wished for. What a
    handler raises is passed on; then the move has no effect but on the process itself.
    """

    def __init__(self, header: Header) -> None:
        """Build the processes; they begin when `start` is called for each."""
        self._algorithm = algorithm(header.algorithm)
        self._has_clock = header.clock == "time"
        self._setup = self._algorithm.setup(header.size, header.variant or None, header.parameters)
        self.channel = self._algorithm.channel
        self.seats: dict[ProcessId, Seat] = {
            process.me: seat(process) for process in self._algorithm.build(self._setup)
        }
        self.transit: list[Letter] = []  # in the order sent
        self.timers: dict[ProcessId, dict[str, float]] = {me: {} for me in self.seats}
        self.watched: dict[ProcessId, set[ProcessId]] = {me: set() for me in self.seats}
        self.crashed: set[ProcessId] = set()
        self.records: list[AnyRecord] = []
        self._letters = 0
        self._lives: dict[ProcessId, int] = dict.fromkeys(self.seats, -1)  # starts without memory

    def start(self, time: float, process: ProcessId, *, amnesia: bool = True) -> Outbox[Any]:
        """Let a process begin, or begin again with its memory as it was or without any."""
        self.records.append(Started(time, process, amnesia))
        if process in self.crashed:
            self.crashed.remove(process)
            if amnesia:
                self.seats[process] = seat(self._algorithm.build(self._setup)[process - 1])
        if not amnesia:
            return Outbox(process, time)
        self._lives[process] += 1
        return self._step(time, process, self.seats[process].start)

    def call(self, time: float, process: ProcessId, name: str) -> Outbox[Any]:
        """Let the user of a process make a call."""
        self.records.append(Called(time, process, name))
        return self._step(time, process, lambda out: self.seats[process].call(name, out))

    def deliver(self, time: float, letter: Letter, *, keep: bool = False) -> Outbox[Any]:
        """Deliver a message; if it is kept, the network will deliver it once more."""
        if not keep:
            self.transit.remove(letter)
        number, sender, receiver, message = letter
        self.records.append(Delivered(time, number, sender, receiver))
        seat = self.seats[receiver]
        return self._step(time, receiver, lambda out: seat.receive(sender, message, out))

    def drop(self, time: float, letter: Letter, reason: str) -> None:
        """Lose a message."""
        self.transit.remove(letter)
        number, sender, receiver, _ = letter
        self.records.append(Dropped(time, number, sender, receiver, reason))

    def ring(self, time: float, process: ProcessId, timer: str) -> Outbox[Any]:
        """Let a timer run out."""
        self.timers[process].pop(timer, None)
        self.records.append(Rang(time, process, timer))
        return self._step(time, process, lambda out: self.seats[process].ring(timer, out))

    def down(self, time: float, process: ProcessId, peer: ProcessId) -> Outbox[Any]:
        """Let a process hear that one it watches is down."""
        self.watched[process].discard(peer)
        self.records.append(Noticed(time, process, peer))
        return self._step(time, process, lambda out: self.seats[process].down(peer, out))

    def crash(self, time: float, process: ProcessId) -> None:
        """Stop a process; its timers die with it, and what it has sent stays on its way."""
        self.crashed.add(process)
        self.timers[process].clear()
        self.watched[process].clear()
        self.records.append(Crashed(time, process))

    def _step(
        self, time: float, process: ProcessId, handler: Callable[[Outbox[Any]], None]
    ) -> Outbox[Any]:
        out: Outbox[Any] = Outbox(process, time if self._has_clock else 0.0)
        out.incarnation = self._lives[process]
        handler(out)
        for receiver, message in out.sends:
            self._letters += 1
            self.transit.append(Letter(self._letters, process, receiver, message))
            self.records.append(sent(time, self._letters, process, receiver, message))
        for name, after in out.timers:
            self.timers[process].pop(name, None)
            if after is not None:
                self.timers[process][name] = after
        for peer, wanted in out.watches:
            self.watched[process].discard(peer)
            if wanted:
                self.watched[process].add(peer)
        self.records.extend(told(time, process, event) for event in out.events)
        return out
