"""What a seat can be fed in one step, each thing a small number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from coterie.process import ProcessId, encode

if TYPE_CHECKING:
    from coterie.process import Outbox, Payload, Seat


class Call(msgspec.Struct, frozen=True):
    """The user makes a call."""

    name: str


class Ring(msgspec.Struct, frozen=True):
    """An armed timer runs out."""

    timer: str


class Notice(msgspec.Struct, frozen=True):
    """The failure detector reports a process that was watched."""

    peer: ProcessId


class Restart(msgspec.Struct, frozen=True):
    """A crashed process begins again, without memory."""

    incarnation: int


class Receive(msgspec.Struct, frozen=True):
    """A message arrives."""

    sender: ProcessId
    message: Any


Input: TypeAlias = Call | Ring | Notice | Restart | Receive


def feed(seat: Seat, given: Input, out: Outbox[Any]) -> None:
    """Let the seat handle the input."""
    match given:
        case Call(name):
            seat.call(name, out)
        case Ring(timer):
            seat.ring(timer, out)
        case Notice(peer):
            seat.down(peer, out)
        case Restart(incarnation):
            out.incarnation = incarnation
            seat.start(out)
        case Receive(sender, message):
            seat.receive(sender, message, out)


class Inputs:
    """Numbers each distinct input, from 1 on; 0 stands for none."""

    def __init__(self) -> None:
        """Start with none."""
        self._inputs: list[Input | None] = [None]
        self._numbers: dict[tuple[str, ProcessId, str | bytes], int] = {}

    def __len__(self) -> int:
        """Count the numbers in use, 0 included."""
        return len(self._inputs)

    def __getitem__(self, number: int) -> Input:
        """Return the input with that number."""
        given = self._inputs[number]
        assert given is not None, "0 is no input"
        return given

    def call(self, name: str) -> int:
        """Number a call."""
        return self._number(("call", 0, name), Call(name))

    def ring(self, timer: str) -> int:
        """Number a timer's ringing."""
        return self._number(("ring", 0, timer), Ring(timer))

    def notice(self, peer: ProcessId) -> int:
        """Number a report of the failure detector."""
        return self._number(("notice", peer, ""), Notice(peer))

    def restart(self, incarnation: int) -> int:
        """Number a new beginning."""
        return self._number(("restart", incarnation, ""), Restart(incarnation))

    def receive(self, sender: ProcessId, message: Payload) -> int:
        """Number a message from this sender; messages are the same when their bytes are."""
        return self._number(("receive", sender, encode(message)), Receive(sender, message))

    def _number(self, key: tuple[str, ProcessId, str | bytes], given: Input) -> int:
        number = self._numbers.setdefault(key, len(self._inputs))
        if number == len(self._inputs):
            self._inputs.append(given)
        return number
