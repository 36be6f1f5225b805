"""The contract between algorithms and the worlds that run them.

A process is a value. Its handlers change it and write wishes into an outbox; they never wait, read
a wall clock, draw a number or log. So a world can run it, save it, restore it, compare it, hash it
and show it, and an algorithm written once runs in all of them.

A world holds one `Seat` per process: the process and its user side by side. It feeds inputs to the
seat (`start`, `call`, `receive`, `ring`, `down`) and carries out the outbox afterwards, in the order
*save, send, arm, tell*, or not at all if the handler raised. What a process sends to itself is part
of the same step: it costs no message and takes no time.
"""

from __future__ import annotations

import enum
import math
import sys
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

import msgspec

from coterie.errors import MisuseError, ProtocolError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ProcessId: TypeAlias = int  # 1 to N; names belong to a cluster's configuration

LOCAL_MESSAGES_MAX = 10_000  # in one step; more means that it would never end


class Payload(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Base of all messages: frozen, told apart by kind, and encoded as they travel.

    Fields hold numbers, strings, tuples and other such values, so that a message can be hashed.
    """


class Event(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Something that a process tells its user."""


MessageT = TypeVar("MessageT", bound=Payload)


class Channel(enum.Enum):
    """What an algorithm needs of the links, weakest last. Both deliver each message exactly once."""

    FIFO = "fifo"  # in the order sent, per ordered pair of processes
    UNORDERED = "unordered"


class Outbox(Generic[MessageT]):
    """What a process wishes for during one step."""

    __slots__ = (
        "appended",
        "durable",
        "events",
        "incarnation",
        "local",
        "log",
        "me",
        "now",
        "saved",
        "sends",
        "timers",
        "to_save",
        "watches",
    )

    def __init__(self, me: ProcessId, now: float = 0.0) -> None:
        """Start an empty outbox for process `me`, whose own clock shows `now`."""
        self.me = me
        self.now = now  # only protocols that need a clock read it
        self.incarnation = 0  # a number that no earlier start of this process had
        self.saved = b""  # at the start of a process: what it has on stable storage
        self.log: Sequence[bytes] = ()  # at the start of a process: what it appended since
        self.durable = False  # whether this step changes what is on stable storage
        self.to_save: bytes | None = None
        self.appended: list[bytes] = []
        self.watches: list[tuple[ProcessId, bool]] = []  # False: no longer
        self.sends: list[tuple[ProcessId, MessageT]] = []
        self.local: list[MessageT] = []  # to oneself: delivered before the step ends
        self.timers: list[tuple[str, float | None]] = []  # None cancels
        self.events: list[Event] = []

    def send(self, to: ProcessId, message: MessageT) -> None:
        """Send `message`; to oneself it is free and arrives within this step."""
        if to == self.me:
            self.local.append(message)
        else:
            self.sends.append((to, message))

    def broadcast(self, to: Iterable[ProcessId], message: MessageT) -> None:
        """Send `message` to each of `to`, in the order of their ids, so that sets may be passed."""
        for receiver in sorted(to):
            self.send(receiver, message)

    def set_timer(self, name: str, after: float) -> None:
        """Ring `name` after that long on this process's own clock; setting it again re-arms it."""
        self.timers.append((name, after))

    def cancel_timer(self, name: str) -> None:
        """Forget the timer `name`, armed or not."""
        self.timers.append((name, None))

    def watch(self, peer: ProcessId) -> None:
        """Ask to be told, by `Process.down`, when that process is down; asked once, told once.

        A world's detector is perfect unless it says otherwise: it reports every watched process
        that has crashed, some time later, and no other. Messages sent before the crash may still
        come after the report. If the process returns without memory, its crash is reported before
        any message of its new life comes.
        """
        self.watches.append((peer, True))

    def unwatch(self, peer: ProcessId) -> None:
        """Stop watching that process."""
        self.watches.append((peer, False))

    def save(self, value: bytes) -> None:
        """Put `value` on stable storage, before anything else that this step wishes happens.

        It takes the place of the last value and of everything that was appended to it.
        """
        self.durable = True
        self.to_save = value
        self.appended.clear()

    def append(self, record: bytes) -> None:
        """Add a record to what is on stable storage, before anything else that this step wishes.

        What one step appends is there after a crash as a whole or not at all.
        """
        self.durable = True
        self.appended.append(record)

    def tell(self, event: Event) -> None:
        """Tell the user of this process."""
        self.events.append(event)


class Process(msgspec.Struct, Generic[MessageT], array_like=True):
    """One process of a distributed algorithm: state, and a handler for each input."""

    messages: ClassVar[Any]
    """The union of the messages that it receives; a host on sockets decodes exactly these."""
    channel: ClassVar[Channel] = Channel.UNORDERED  # the weakest links it is correct on
    inputs: ClassVar[tuple[str, ...]] = ()
    """The handlers that its user may call, where it is neither a mutex nor an election."""
    properties: ClassVar[tuple[Any, ...]] = ()
    """Properties of `coterie.lab.explore` that it is judged by, beside those of its kind."""

    me: ProcessId

    def delay_max(self) -> float | None:
        """Return how long a message may take for the algorithm to be right; None: any time."""
        return None

    def handling_max(self) -> float:
        """Return how long a message may wait where it has arrived, if there is a bound on its delay."""
        return 0.0

    def facts(self) -> dict[str, Any]:
        """Return what is worth knowing about this process after a run, by name, as JSON can say it."""
        return {}

    def start(self, out: Outbox[MessageT]) -> None:
        """Begin: called once before any other input, and again after a restart without memory."""

    def receive(self, sender: ProcessId, message: MessageT, out: Outbox[MessageT]) -> None:
        """Handle a message; one that no correct peer sends raises."""
        raise ProtocolError(f"process {self.me} takes no messages, but got {message} from {sender}")

    def ring(self, timer: str, out: Outbox[MessageT]) -> None:
        """Handle a timer that has run out."""
        raise ProtocolError(f"process {self.me} sets no timers, but {timer} rang")

    def down(self, peer: ProcessId, out: Outbox[MessageT]) -> None:
        """Handle the crash of a process that was watched."""
        raise ProtocolError(
            f"process {self.me} watches no process, but was told that {peer} is down"
        )


class User(msgspec.Struct, array_like=True):
    """The user of one process, as the process sees it: what it has called and been told.

    It stands in front of the algorithm and refuses calls that make no sense, so that no algorithm
    has to. This one makes no calls: the process works by itself.
    """

    def calls(self) -> tuple[str, ...]:
        """Name the calls that make sense now."""
        return ()

    def call(self, name: str, process: Any, out: Outbox[Any]) -> None:
        """Make the call, or raise `MisuseError` and leave the process as it was."""
        raise MisuseError(f"process {process.me} takes no calls; {name} was called")

    def hear(self, event: Event) -> None:
        """Take note of what the process told."""


class InputUser(User):
    """The user of a process with inputs of its own: it may call any of them, at any time."""

    inputs: tuple[str, ...] = ()
    entries: int | None = None  # how many calls it will still make; None = no end

    def calls(self) -> tuple[str, ...]:
        """Name every input, while calls are left."""
        return () if self.entries == 0 else self.inputs

    def call(self, name: str, process: Process[Any], out: Outbox[Any]) -> None:
        """Call the handler of this name."""
        if name not in self.calls():
            raise MisuseError(f"process {process.me} cannot {name} (possible now: {self.calls()})")
        if self.entries is not None:
            self.entries -= 1
        getattr(process, name)(out)

    def hear(self, event: Event) -> None:
        """Refuse what is no event; what is told is the process's own to judge by."""
        _require_event(event)


class Entered(Event, frozen=True):
    """The process is in its critical section."""


class Phase(enum.IntEnum):
    """Where the user of a mutex stands."""

    IDLE = 0
    WAITING = 1
    INSIDE = 2


_IDLE, _WAITING, _INSIDE = Phase  # found faster than the attributes of a class: users look often


class Mutex(Process[MessageT]):
    """A process of a mutual exclusion algorithm. It tells `Entered` once per `acquire`."""

    every_wait_ends: ClassVar[bool] = True
    """In every run that leaves out no step that stays possible; else entry just stays possible."""

    @abstractmethod
    def acquire(self, out: Outbox[MessageT]) -> None:
        """Ask for the critical section."""

    @abstractmethod
    def release(self, out: Outbox[MessageT]) -> None:
        """Leave the critical section."""

    def awaits(self) -> tuple[ProcessId, ...]:
        """Name the processes that must each answer, or give something, before this one goes on.

        This, `lent_to` and `owes` are for people who ask why a process waits; no world needs them.
        It is asked while the user waits, and while the process owes something to others.
        """
        return ()

    def lent_to(self) -> ProcessId | None:
        """Name the process that has what this one gives out, such as its vote.

        0 means that it is free; None, that this process gives nothing out.
        """
        return None

    def owes(self) -> tuple[ProcessId, ...]:
        """Name the processes that will get from this one what they wait for, such as the token."""
        return ()

    def holds(self, now: float) -> bool:
        """Return whether a user inside may rely on it at this time of its own clock.

        A lease runs out while its holder sleeps, and the holder cannot know before it wakes.
        """
        return True


class MutexUser(User):
    """The caller of a mutex: idle, waiting or inside, for at most `entries` entries."""

    phase: Phase = Phase.IDLE
    entries: int | None = None  # how many it will still ask for; None = no end

    def calls(self) -> tuple[str, ...]:
        """Acquire when idle (while entries are left), release when inside."""
        if self.phase is _INSIDE:
            return ("release",)
        if self.phase is _IDLE and self.entries != 0:
            return ("acquire",)
        return ()

    def call(self, name: str, process: Mutex[Any], out: Outbox[Any]) -> None:
        """Acquire or release, if the phase allows it."""
        if name == "acquire" and self.phase is _IDLE and self.entries != 0:
            self.phase = _WAITING
            if self.entries is not None:
                self.entries -= 1
            process.acquire(out)
        elif name == "release" and self.phase is _INSIDE:
            self.phase = _IDLE
            process.release(out)
        else:
            raise MisuseError(
                f"process {process.me} cannot {name}: it is {self.phase.name.lower()}"
                f" (possible now: {', '.join(self.calls()) or 'nothing'})"
            )

    def hear(self, event: Event) -> None:
        """Entering ends the wait; a user that does not wait never enters."""
        if isinstance(event, Entered):
            if self.phase is not _WAITING:
                raise ProtocolError(
                    f"Entered was told to a user that is not waiting but {self.phase.name.lower()}:"
                    " tell it once for each acquire"
                )
            self.phase = _INSIDE
        else:
            _require_event(event)


class Elected(Event, frozen=True):
    """The process follows this leader from now on, maybe itself."""

    leader: ProcessId


class Election(Process[MessageT]):
    """A process of a leader election. It tells `Elected` when it has a new leader."""

    one_leads: ClassVar[bool] = False
    """Never do two live processes take themselves for the leader, unless one has come back."""
    highest_leads: ClassVar[bool] = False  # at rest, the highest of the live processes

    @abstractmethod
    def elect(self, out: Outbox[MessageT]) -> None:
        """Begin an election, because this process has noticed that it needs one."""


class ElectionUser(User):
    """The user of an election: it may notice, at most `entries` times, that a leader is missing."""

    leader: ProcessId | None = None  # the one it was told to follow
    entries: int | None = None  # how often it will still call; None = no end

    def calls(self) -> tuple[str, ...]:
        """Elect, at any time."""
        return () if self.entries == 0 else ("elect",)

    def call(self, name: str, process: Election[Any], out: Outbox[Any]) -> None:
        """Begin an election."""
        if name not in self.calls():
            raise MisuseError(f"process {process.me} cannot {name} (possible now: {self.calls()})")
        if self.entries is not None:
            self.entries -= 1
        process.elect(out)

    def hear(self, event: Event) -> None:
        """Follow the leader."""
        if isinstance(event, Elected):
            self.leader = event.leader
        else:
            _require_event(event)


def _require_event(event: Any) -> None:
    """Refuse what is told and is no event, such as a class in place of its value."""
    if not isinstance(event, Event):
        raise ProtocolError(f"{_shown(event)} was told, which is no event: tell Entered() or such")


class Seat(msgspec.Struct, array_like=True):
    """A process with its user: what a world drives, one input at a time."""

    process: Process[Any]
    user: User

    @property
    def messages(self) -> Any:
        """The union of the messages that the process receives."""
        return self.process.messages

    def start(self, out: Outbox[Any]) -> None:
        """Begin, or begin again without memory."""
        self.process.start(out)
        self.settle(out)

    def call(self, name: str, out: Outbox[Any]) -> None:
        """Let the user make a call."""
        self.user.call(name, self.process, out)
        self.settle(out)

    def receive(self, sender: ProcessId, message: Any, out: Outbox[Any]) -> None:
        """Deliver a message from another process."""
        self.process.receive(sender, message, out)
        self.settle(out)

    def ring(self, timer: str, out: Outbox[Any]) -> None:
        """Let a timer ring."""
        self.process.ring(timer, out)
        self.settle(out)

    def down(self, peer: ProcessId, out: Outbox[Any]) -> None:
        """Report a process that was watched and has crashed."""
        self.process.down(peer, out)
        self.settle(out)

    def settle(self, out: Outbox[Any]) -> None:
        """End the step: deliver what the process sent to itself, and let the user hear the events."""
        if out.local:
            for _ in range(LOCAL_MESSAGES_MAX):
                self.process.receive(out.me, out.local.pop(0), out)
                if not out.local:
                    break
            if out.local:
                raise ProtocolError(f"process {out.me} keeps sending to itself")
        for event in out.events:
            self.user.hear(event)


def seat(process: Process[Any], entries: int | None = None) -> Seat:
    """Seat `process` with a user of its kind that makes at most `entries` calls of the main verb."""
    if isinstance(process, Mutex):
        return Seat(process, MutexUser(entries=entries))
    if isinstance(process, Election):
        return Seat(process, ElectionUser(entries=entries))
    return Seat(process, InputUser(type(process).inputs, entries) if process.inputs else User())


def check_wishes(out: Outbox[Any], size: int) -> None:
    """Raise if a process that does not exist was sent to or watched, or no message was sent."""
    processes = range(1, size + 1)
    for peer, _ in out.watches:
        if peer not in processes:
            raise ProtocolError(
                f"process {out.me} watched process {peer}, which does not exist: they are 1 to {size}"
            )
    for to, message in out.sends:
        if to not in processes:
            raise ProtocolError(
                f"process {out.me} sent {message} to process {to}, which does not exist:"
                f" they are 1 to {size}"
            )
        if not isinstance(message, Payload):
            raise ProtocolError(
                f"process {out.me} sent {_shown(message)}, which is no message:"
                " send a value of a class derived from Payload"
            )


def _shown(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else repr(value)


def describe_error(error: Exception, process: Process[Any]) -> str:
    """Write what a handler raised, and the line if it stands in a file of the user's own."""
    return f"{type(error).__name__}: {error}".removesuffix(": ") + line_of(error, process)


def line_of(error: BaseException, process: Process[Any]) -> str:
    """Write the line of the class of a process that an error came through, as ` (naive.py, line 7)`.

    It is empty for the algorithms of this package, whose lines tell a user nothing.
    """
    module = sys.modules.get(type(process).__module__)
    home = getattr(module, "__file__", None)
    if home is None or str(type(process).__module__).partition(".")[0] == __package__:
        return ""
    line, frame = 0, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == home:
            line = frame.tb_lineno
        frame = frame.tb_next
    return f" ({home.rpartition('/')[2]}, line {line})" if line else ""


def plain(value: Any) -> Any:
    """Write a value as JSON can say it: structs by the names of their fields, sets in order.

    What has a text of its own, such as a stamp, is that text, and an enumeration its name. A struct is
    encoded without names where it travels; this is for people.
    """
    shown: Any = str(value)
    match value:
        case enum.Enum():
            shown = value.name.lower()
        case msgspec.Struct():
            shown = {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        case dict():
            shown = {str(key): plain(item) for key, item in value.items()}
        case set() | frozenset():
            shown = [plain(item) for item in sorted(value)]
        case list() | tuple() if type(value).__str__ is object.__str__:
            shown = [plain(item) for item in value]
        case bytes():
            shown = value.hex()
        case None | bool() | int() | str():
            shown = value
        case float() if math.isfinite(value):
            shown = value
    return shown


_encoder = msgspec.msgpack.Encoder(order="deterministic")


def encode(value: msgspec.Struct) -> bytes:
    """Encode a process, user or message; equal values give equal bytes."""
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise _unfit(value, error) from None


class SeatCodec:
    """Saves and restores the seats of one algorithm."""

    def __init__(self, example: Seat) -> None:
        """Learn the types from any seat of the algorithm."""
        self._process = msgspec.msgpack.Decoder(type(example.process))
        self._user = msgspec.msgpack.Decoder(type(example.user))

    def save(self, seat: Seat) -> tuple[bytes, bytes]:
        """Encode the process and its user."""
        try:
            return _encoder.encode(seat.process), _encoder.encode(seat.user)
        except (TypeError, ValueError, OverflowError) as error:
            raise _unfit(seat.process, error) from None

    def restore(self, saved: tuple[bytes, bytes]) -> Seat:
        """Make a new seat, independent of the saved one."""
        try:
            return Seat(self._process.decode(saved[0]), self._user.decode(saved[1]))
        except msgspec.ValidationError as error:
            raise _unfit(msgspec.msgpack.decode(saved[0]), error, self._process.type) from None


def _unfit(value: Any, error: Exception, kind: type[Any] | None = None) -> UsageError:
    """Name the field whose value cannot be saved, or was saved and is not what was declared."""
    kind = kind or type(value)
    for place, name in enumerate(getattr(kind, "__struct_fields__", ())):
        found = value[place] if isinstance(value, list) else getattr(value, name)
        if f"$[{place}]" in str(error) or not _fits(found):
            return UsageError(
                f"the field {name} of {kind.__name__} cannot hold {found!r}: {_advice(error)}"
            )
    return UsageError(f"{value!r} cannot be saved: {_advice(error)}")


def _fits(value: Any) -> bool:
    try:
        _encoder.encode(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _advice(error: Exception) -> str:
    text = str(error)
    if "str keys" in text:
        return "the keys of a dict must be str; use a list or a tuple with a place for each process"
    if isinstance(error, msgspec.ValidationError):
        text = text.partition(" - at")[0]
        return text[:1].lower() + text[1:] + ", as the field is declared"
    return f"{text}; states and messages hold numbers, strings, lists, sets, structs"
