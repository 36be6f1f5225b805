"""What happened in a run, one record per happening, in order: the common tongue of the worlds.

The simulator and the explorer write traces; diagrams draw them, and `coterie.lab.scenario.replay` runs them
again. A trace is written as JSON lines: a header that tells how to build the processes, then the
records.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import msgspec

from coterie.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.process import Event, Payload


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """How the processes of a trace are built, and where the run came from."""

    algorithm: str
    size: int
    variant: str = ""
    parameters: dict[str, str] = {}
    seed: int | None = None
    title: str = ""
    clock: Literal["time", "none"] = "time"  # what processes read: the time of the record, or 0


class Record(msgspec.Struct, frozen=True, tag_field="kind", tag=str.lower):
    """Base of all records."""

    time: float


class Called(Record, frozen=True):
    """The user of a process made a call."""

    process: int
    call: str


class Sent(Record, frozen=True):
    """A message left; `number` tells it from all others of the run."""

    number: int
    sender: int
    receiver: int
    message: Any  # the payload in plain lists and numbers
    label: str


class Delivered(Record, frozen=True):
    """A message arrived and was handled; one sent twice by the network arrives twice."""

    number: int
    sender: int
    receiver: int


class Dropped(Record, frozen=True):
    """A message was lost, for the reason given."""

    number: int
    sender: int
    receiver: int
    reason: str


class Rang(Record, frozen=True):
    """A timer ran out."""

    process: int
    timer: str


class Noticed(Record, frozen=True):
    """A process heard from its failure detector that another one is down."""

    process: int
    peer: int


class Told(Record, frozen=True):
    """A process told its user something."""

    process: int
    event: Any
    label: str


class Started(Record, frozen=True):
    """A process began, or began again: with its memory as it was, or without any."""

    process: int
    amnesia: bool = True


class Crashed(Record, frozen=True):
    """A process stopped for good, or until it is started again."""

    process: int


class Paused(Record, frozen=True):
    """A process stopped taking steps; what arrives meanwhile waits."""

    process: int


class Resumed(Record, frozen=True):
    """A paused process goes on."""

    process: int


class Repeated(Record, frozen=True):
    """What follows, up to the end, can happen again and again in the same way."""


class Violated(Record, frozen=True):
    """A property ceased to hold; the run ends here."""

    name: str
    text: str

    def caption(self) -> str:
        """Return one line for people: a violation of "no deadlock" is a deadlock."""
        if self.name.startswith("no "):
            return f"{self.name.removeprefix('no ')}: {self.text}"
        return f"violated: {self.name}; {self.text}"


AnyRecord: TypeAlias = (
    Called
    | Sent
    | Delivered
    | Dropped
    | Rang
    | Noticed
    | Told
    | Started
    | Crashed
    | Paused
    | Resumed
    | Repeated
    | Violated
)


class Trace(msgspec.Struct, dict=True):
    """A header and its records.

    While a run goes on, messages are only noted, which costs a tenth of a record: sent to one or
    many, as a tuple of time, number of the first, sender, receivers and message; delivered, as one of
    time, number, sender and receiver.
    """

    header: Header
    notes: list[Any] = msgspec.field(default_factory=list, name="records")  # records, or notes

    @cached_property
    def records(self) -> list[AnyRecord]:
        """What happened; notes are made into records when this is first read."""
        records: list[AnyRecord] = []
        for note in self.notes:
            if not isinstance(note, tuple):
                records.append(note)
            elif len(note) == 4:
                records.append(Delivered(*note))
            else:
                time, first, sender, receivers, message = note
                plain, text = msgspec.to_builtins(message), label(message)
                for number, receiver in enumerate(receivers, first):
                    records.append(Sent(time, number, sender, receiver, plain, text))
        self.notes[:] = records  # the same list: a run may go on writing to it
        return self.notes

    def to_lines(self) -> str:
        """Write as JSON lines."""
        return _encoder.encode_lines([self.header, *self.records]).decode()

    def save(self, path: Path) -> None:
        """Write to a file as JSON lines."""
        path.write_text(self.to_lines(), encoding="utf-8")


def parse_trace(text: str) -> Trace:
    """Read JSON lines; a line that is no record, or cannot stand there, is named in the error."""
    head, *rest = text.splitlines() or [""]
    trace = Trace(_parse_line(1, head, _header_decoder))
    sent: set[int] = set()
    for number, line in enumerate(rest, 2):
        record = _parse_line(number, line, _record_decoder)
        fault = _fault(record, trace.header.size, sent)
        if fault:
            raise UsageError(f"not a trace: line {number}: {fault}")
        trace.records.append(record)
    return trace


def _fault(record: AnyRecord, size: int, sent: set[int]) -> str | None:
    """Say what is wrong with a record after those before it; `sent` has their messages."""
    processes: tuple[int, ...] = ()
    match record:
        case Sent(_, number, sender, receiver):
            sent.add(number)
            processes = sender, receiver
        case Delivered(_, number, sender, receiver) | Dropped(_, number, sender, receiver):
            if number not in sent:
                return f"message {number} was never sent"
            processes = sender, receiver
        case Repeated() | Violated():
            pass
        case _:
            processes = (record.process,)
    return next((f"no process {x} among {size}" for x in processes if not 1 <= x <= size), None)


_Line = TypeVar("_Line")


def _parse_line(number: int, line: str, decoder: msgspec.json.Decoder[_Line]) -> _Line:
    try:
        return decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise UsageError(f"not a trace: line {number}: {error}") from None


_encoder = msgspec.json.Encoder()
_header_decoder: msgspec.json.Decoder[Header] = msgspec.json.Decoder(Header)
_record_decoder: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


def sent(time: float, number: int, sender: int, receiver: int, message: Payload) -> Sent:
    """Record a message that leaves."""
    return Sent(time, number, sender, receiver, msgspec.to_builtins(message), label(message))


def told(time: float, process: int, event: Event) -> Told:
    """Record an event."""
    return Told(time, process, msgspec.to_builtins(event), label(event))


def label(value: Payload | Event) -> str:
    """Write a message or an event the way people do: `Request(1.2)`, `Reply`.

    What stands at the end and is as it is by default is left out.
    """
    said = [getattr(value, name) for name in value.__struct_fields__]
    defaults = list(value.__struct_defaults__)
    while defaults and said[-1] == defaults.pop():
        said.pop()
    fields = [_text(each) for each in said]
    name = type(value).__name__
    return f"{name}({', '.join(fields)})" if fields else name


def _text(value: Any) -> str:
    if isinstance(value, tuple) and type(value) is tuple:
        return "[" + " ".join(_text(item) for item in value) + "]"
    return str(value)
