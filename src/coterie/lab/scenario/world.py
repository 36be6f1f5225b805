"""The manual world: its owner chooses the next input, one at a time.

Nothing happens by itself. A message waits until it is delivered or dropped, and a timer rings when
it is told to. Scenarios are written in this world, and traces are replayed in it.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from coterie.catalogue import find
from coterie.process import Channel, Outbox, SeatCodec, check_wishes, seat
from coterie.trace import (
    AnyRecord,
    Called,
    Crashed,
    Delivered,
    Dropped,
    Noticed,
    Rang,
    Started,
    label,
    sent,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from coterie.process import Payload, ProcessId, Seat
    from coterie.trace import Header

FAULTS = frozenset({"drop", "repeat", "suspect", "crash", "restart"})


class Letter(NamedTuple):
    """A message on its way."""

    number: int
    sender: ProcessId
    receiver: ProcessId
    message: Payload


class Move(msgspec.Struct, frozen=True):
    """Something that can happen next, with the command of a scenario that makes it happen."""

    text: str
    kind: str  # call, deliver, ring, down, drop, repeat, suspect, crash or restart
    process: int  # that calls, receives, hears, crashes or begins again
    peer: int = 0  # the sender of the message, or the process that is reported as down
    name: str = ""  # of the call or the timer; or the message, as people write it

    @property
    def is_fault(self) -> bool:
        """Return whether a network and processes without faults never do this."""
        return self.kind in FAULTS


def pick(link: Sequence[Letter], which: str) -> Letter | None:
    """Return the oldest message of that kind or with that text; of no name, the oldest of all."""
    names = ((letter, type(letter.message).__name__) for letter in link)
    return next((x for x, kind in names if which in ("", kind) or which == label(x.message)), None)


class Manual:
    """Processes built as a header says, moved by hand, with a record of all that happened.

    Each move takes the time at which it happens, which is also what the clock of the process shows
    unless the header says that there is none, and returns what the process wished for. What a
    handler raises is passed on; then the move has no effect but on the process itself.
    """

    def __init__(self, header: Header) -> None:
        """Build the processes; they begin when `start` is called for each."""
        self._algorithm = find(header.algorithm)
        self._has_clock = header.clock == "time"
        self._setup = self._algorithm.setup(header.size, header.variant or None, header.parameters)
        self.channel = self._algorithm.channel
        self.seats: dict[ProcessId, Seat] = {
            process.me: seat(process) for process in self._algorithm.build(self._setup)
        }
        self.transit: list[Letter] = []  # in the order sent
        self.timers: dict[ProcessId, dict[str, float]] = {me: {} for me in self.seats}
        self.armed: dict[ProcessId, dict[str, float]] = {me: {} for me in self.seats}  # set when
        self.watched: dict[ProcessId, set[ProcessId]] = {me: set() for me in self.seats}
        self.crashed: set[ProcessId] = set()
        self.records: list[AnyRecord] = []
        self._letters = 0
        self.lives: dict[ProcessId, int] = dict.fromkeys(self.seats, -1)  # starts without memory
        self._codecs = {me: SeatCodec(seat) for me, seat in self.seats.items()}

    def fork(self) -> Manual:
        """Make a second world that is as this one is now; what happens in one is not seen in the other."""
        other = copy.copy(self)
        other.seats = {
            me: codec.restore(codec.save(self.seats[me])) for me, codec in self._codecs.items()
        }
        other.transit = [*self.transit]
        other.timers = {me: {**timers} for me, timers in self.timers.items()}
        other.armed = {me: {**times} for me, times in self.armed.items()}
        other.watched = {me: {*peers} for me, peers in self.watched.items()}
        other.crashed = {*self.crashed}
        other.records = [*self.records]
        other.lives = {**self.lives}
        return other

    def enabled(self, channel: Channel) -> list[Move]:
        """List what can happen next on such links, each thing once; faults come last."""
        alive = [me for me in self.seats if me not in self.crashed]
        letters = list(self._letter_moves(channel))
        moves = [
            Move(f"{name} {me}", "call", me, name=name)
            for me in alive
            for name in self.seats[me].user.calls()
        ]
        moves += [move for move in letters if move.kind == "deliver"]
        moves += [
            Move(f"ring {me} {name}", "ring", me, name=name)
            for me in alive
            for name in self.timers[me]
        ]
        watches = [(me, peer) for me in alive for peer in sorted(self.watched[me])]
        moves += [
            Move(f"down {me} {peer}", "down", me, peer)
            for me, peer in watches
            if peer in self.crashed
        ]
        moves += [move for move in letters if move.kind != "deliver"]
        moves += [
            Move(f"suspect {me} {peer}", "suspect", me, peer)
            for me, peer in watches
            if peer not in self.crashed
        ]
        moves += [Move(f"crash {me}", "crash", me) for me in alive]
        moves += [Move(f"restart {me}", "restart", me) for me in sorted(self.crashed)]
        return moves

    def _letter_moves(self, channel: Channel) -> Iterator[Move]:
        """List what can happen to messages; those of one link that read the same are one."""
        links: dict[tuple[ProcessId, ProcessId], list[Letter]] = {}
        for letter in self.transit:
            links.setdefault((letter.sender, letter.receiver), []).append(letter)
        for (sender, receiver), link in links.items():
            for letter, which in _named(link):
                command = f"{sender} > {receiver}" + f" {which}" * bool(which)
                about = (receiver, sender, label(letter.message))
                first = letter is link[0] or channel is not Channel.FIFO
                if first and receiver not in self.crashed:
                    yield Move(f"deliver {command}", "deliver", *about)
                    yield Move(f"repeat {command}", "repeat", *about)
                yield Move(f"drop {command}", "drop", *about)

    def start(self, time: float, process: ProcessId, *, amnesia: bool = True) -> Outbox[Any]:
        """Let a process begin, or begin again with its memory as it was or without any."""
        self.records.append(Started(time, process, amnesia))
        if process in self.crashed:
            self.crashed.remove(process)
            if amnesia:
                self.seats[process] = seat(self._algorithm.build(self._setup)[process - 1])
        if not amnesia:
            return Outbox(process, time)
        self.lives[process] += 1
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
        out.incarnation = self.lives[process]
        handler(out)
        check_wishes(out, len(self.seats))
        for receiver, message in out.sends:
            self._letters += 1
            self.transit.append(Letter(self._letters, process, receiver, message))
            self.records.append(sent(time, self._letters, process, receiver, message))
        for name, after in out.timers:
            self.timers[process].pop(name, None)
            if after is not None:
                self.timers[process][name] = after
                self.armed[process][name] = time
        for peer, wanted in out.watches:
            self.watched[process].discard(peer)
            if wanted:
                self.watched[process].add(peer)
        self.records.extend(told(time, process, event) for event in out.events)
        return out


def _named(link: Sequence[Letter]) -> Iterator[tuple[Letter, str]]:
    """Name each message of a link that differs from those before it, as shortly as can be."""
    seen: set[str] = set()
    for letter in link:
        text = label(letter.message)
        names = ("", type(letter.message).__name__, text)
        name = next((name for name in names if pick(link, name) is letter), None)
        if text not in seen and name is not None:
            seen.add(text)
            yield letter, name
