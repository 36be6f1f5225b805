"""Small processes that make visible what the simulator does to them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from coterie.lab.simulate import Simulation, Workload, World
from coterie.process import Channel, Entered, Mutex, Outbox, Payload, Process, ProcessId


class Note(Payload, frozen=True):
    number: int


class Ack(Payload, frozen=True):
    number: int


class Postman(Process[Note]):
    """Sends its notes to process 2 when it starts, and keeps what it gets."""

    notes: int = 0
    got: list[int] = []
    starts: int = 0

    def start(self, out: Outbox[Note]) -> None:
        self.starts += 1
        for number in range(1, self.notes + 1):
            out.send(2, Note(number))

    def receive(self, sender: ProcessId, message: Note, out: Outbox[Note]) -> None:
        self.got.append(message.number)


class OrderedPostman(Postman):
    channel = Channel.FIFO


class Ticker(Process[Note]):
    """Sends its own clock's reading to its neighbour at every tick, and keeps when it did."""

    period: float = 10.0
    ticks: int = 3
    neighbour: ProcessId | None = None
    readings: list[float] = []
    heard: list[tuple[int, float]] = []

    def start(self, out: Outbox[Note]) -> None:
        out.set_timer("TICK", self.period)
        out.set_timer("NEVER", 2 * self.period)

    def ring(self, timer: str, out: Outbox[Note]) -> None:
        assert timer == "TICK"
        out.cancel_timer("NEVER")
        self.readings.append(out.now)
        if self.neighbour is not None:
            out.send(self.neighbour, Note(len(self.readings)))
        if len(self.readings) < self.ticks:
            out.set_timer("TICK", self.period)

    def receive(self, sender: ProcessId, message: Note, out: Outbox[Note]) -> None:
        self.heard.append((message.number, out.now))


class Debtor(Postman):
    """Arms a timer for each note it gets."""

    rang: int = 0

    def receive(self, sender: ProcessId, message: Note, out: Outbox[Note]) -> None:
        out.set_timer(f"DUE {message.number}", 10)

    def ring(self, timer: str, out: Outbox[Note]) -> None:
        self.rang += 1


class Careless(Mutex[Note]):
    """Enters whenever it likes: no mutual exclusion at all."""

    def acquire(self, out: Outbox[Note]) -> None:
        out.tell(Entered())

    def release(self, out: Outbox[Note]) -> None:
        pass


class Forgetful(Mutex[Note]):
    """Never enters."""

    def acquire(self, out: Outbox[Note]) -> None:
        pass

    def release(self, out: Outbox[Note]) -> None:
        pass


class Failing(Careless):
    """Raises when it gets a message, which it sends when it leaves."""

    peer: ProcessId = 1

    def release(self, out: Outbox[Note]) -> None:
        out.send(self.peer, Note(7))

    def receive(self, sender: ProcessId, message: Note, out: Outbox[Note]) -> None:
        raise KeyError(message.number)


class Server(Mutex[Note | Ack]):
    """A lock kept by process 1, who serves the newest request first (or the oldest).

    Asks with a note, and enters with an acknowledgement; a note with the number 0 gives it back.
    Each request is told to `friend` as well, so that the friend's requests happen after it.
    """

    newest_first: bool = True
    friend: ProcessId | None = None
    holder: ProcessId | None = None
    queue: list[ProcessId] = []

    def acquire(self, out: Outbox[Note | Ack]) -> None:
        if self.friend:
            out.send(self.friend, Note(-1))
        out.send(1, Note(self.me))

    def release(self, out: Outbox[Note | Ack]) -> None:
        out.send(1, Note(0))

    def receive(self, sender: ProcessId, message: Note | Ack, out: Outbox[Note | Ack]) -> None:
        if isinstance(message, Ack):
            out.tell(Entered())
        elif message.number >= 0:
            self._serve(sender, message.number, out)

    def _serve(self, sender: ProcessId, number: int, out: Outbox[Note | Ack]) -> None:
        if not number:
            self.holder = None
        elif sender not in self.queue:
            self.queue.append(sender)
        if self.holder is None and self.queue:
            self.holder = self.queue.pop(-1 if self.newest_first else 0)
            out.send(self.holder, Ack(0))


@dataclass(frozen=True)
class Script(Workload):
    """Asks when it is told to: pairs of a time and a process."""

    asks: tuple[tuple[float, ProcessId], ...] = ()

    def start(self, world: World) -> None:
        for time, process in self.asks:
            world.after(time, partial(world.ask, process))


def state(simulation: Simulation, process: ProcessId) -> Any:
    """Look at a process of a simulation as it is now."""
    return simulation.process(process)
