"""What happened in a run of the stack, for people: a trace that opens as a diagram, and lines of text."""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from coterie.trace import (
    Called,
    Crashed,
    Delivered,
    Dropped,
    Header,
    Paused,
    Resumed,
    Sent,
    Started,
    Told,
    Trace,
    Violated,
)

if TYPE_CHECKING:
    from coterie.lab.stack.world.network import Connection, Pipe, Socket
    from coterie.trace import AnyRecord

RECORDS_KEPT = 3_000  # the latest: what leads to a violation stands at the end
LINES_KEPT = 20_000
_LENGTH = struct.Struct(">I")


class Recorder:
    """Keeps the latest of what happened, if it is traced."""

    def __init__(self, *, traced: bool) -> None:
        """Begin with nothing."""
        self.traced = traced
        self.records: deque[AnyRecord] = deque(maxlen=RECORDS_KEPT)
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._numbers = 0
        self._flying: dict[tuple[int, bool], deque[tuple[int, int]]] = {}  # number, bytes left

    def log(self, time: float, name: str, text: str) -> None:
        """Write a line."""
        if self.traced:
            self.lines.append(f"{time:12.6f} {name:8} {text}")

    # Messages

    def sent(self, time: float, pipe: Pipe, data: bytes) -> None:
        """Record bytes that leave: the frames that begin in them."""
        connection = pipe.connection
        self._numbers += 1
        side = connection.dialer is pipe.source
        flying = self._flying.setdefault((connection.number, side), deque())
        flying.append((self._numbers, len(data)))
        sender, receiver = pipe.source.process, pipe.target.process
        label = frame_names(data)
        self.records.append(Sent(time, self._numbers, sender.number, receiver.number, [], label))
        self.log(time, sender.name, f"-> {receiver.name} [{connection.number}] {label}")

    def delivered(self, time: float, connection: Connection, socket: Socket, data: bytes) -> None:
        """Record bytes that are read; what was sent arrives with its last byte."""
        side = connection.dialer is not socket
        flying = self._flying.get((connection.number, side), deque())
        sender, receiver = connection.other(socket).process, socket.process
        count = len(data)
        while count and flying:
            number, left = flying.popleft()
            if left > count:
                flying.appendleft((number, left - count))
                return
            count -= left
            self.records.append(Delivered(time, number, sender.number, receiver.number))

    def decrypted(self, time: float, socket: Socket, data: bytes) -> None:
        """Name the frames that have come over TLS."""
        number, label = socket.connection.number, frame_names(data)
        self.log(time, socket.process.name, f"<- {socket.peer_name} [{number}] {label}")

    # Processes and their users

    def started(self, time: float, process: int) -> None:
        """Record a start."""
        self._add(Started(time, process))

    def crashed(self, time: float, process: int) -> None:
        """Record an end."""
        self._add(Crashed(time, process))

    def paused(self, time: float, process: int) -> None:
        """Record that a process takes no turns."""
        self._add(Paused(time, process))

    def resumed(self, time: float, process: int) -> None:
        """Record that it does again."""
        self._add(Resumed(time, process))

    def called(self, time: float, process: int, call: str) -> None:
        """Record what a user asks for."""
        self._add(Called(time, process, call))

    def told(self, time: float, process: int, label: str) -> None:
        """Record what a user is told."""
        self._add(Told(time, process, [label], label))

    def violated(self, time: float, name: str, text: str) -> None:
        """Record what went wrong."""
        self._add(Violated(time, name, text))

    def _add(self, record: AnyRecord) -> None:
        if self.traced:
            self.records.append(record)

    def trace(self, title: str, size: int, seed: int | None) -> Trace:
        """Return the trace of what is left, without arrivals of what was sent before it."""
        header = Header(algorithm="stack", size=size, seed=seed, title=title)
        trace = Trace(header)
        known: set[int] = set()
        for record in self.records:
            if isinstance(record, Sent):
                known.add(record.number)
            elif isinstance(record, Delivered | Dropped) and record.number not in known:
                continue
            trace.records.append(record)
        return trace


def frame_names(data: bytes) -> str:
    """Name the frames in what one write sends; what does not begin with a frame has no name."""
    names = []
    place = 0
    while place + 4 <= len(data):
        (length,) = _LENGTH.unpack_from(data, place)
        if place + 4 + length > len(data):
            break  # also bytes of TLS: its records begin with what is far too long for a frame
        frame = data[place + 4 : place + 4 + length]
        try:
            content = msgspec.msgpack.decode(frame)
        except msgspec.MsgspecError:
            break
        if not isinstance(content, list) or not content:
            break
        names.append(str(content[0]))
        place += 4 + length
    return "+".join(dict.fromkeys(names)) or f"{len(data)} bytes"
