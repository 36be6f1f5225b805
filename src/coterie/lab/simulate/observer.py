"""All that looks on while a run goes: counters, measures, monitors and the trace."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from coterie import trace
from coterie.lab.simulate.metrics import Costs, Delays, Outages, Result, load_of, summarise
from coterie.lab.simulate.monitors import (
    CausalOrder,
    Section,
    Violation,
    ViolationError,
    no_such_receiver,
)
from coterie.process import Payload, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie.lab.simulate.metrics import Stopped
    from coterie.lab.simulate.monitors import Knowledge
    from coterie.process import ProcessId

Order: TypeAlias = Literal["ignore", "count", "demand"]
# The number of a message in the run, the message, and which requests its sender had heard of.
Letter: TypeAlias = "tuple[int, Any, Knowledge | None]"
Receive: TypeAlias = "Callable[[ProcessId, Any, Any], None]"


class Clock(Protocol):
    """What knows the time of a run."""

    now: float


class Observer:
    """Sees every step and changes nothing; raises `ViolationError` when a property breaks."""

    def __init__(
        self,
        size: int,
        header: trace.Header | None,
        order: Order,
        measure_bytes: bool,
        holds: Callable[[ProcessId], bool],
    ) -> None:
        """Look on at `size` processes; what is not asked for is not watched."""
        self.section = Section(holds)
        self.delays = Delays()
        self.sent = [0] * (size + 1)  # by each process; none is 0
        self.received = [0] * (size + 1)
        self.kinds: defaultdict[type[Payload], int] = defaultdict(int)
        self.bytes: int | None = 0 if measure_bytes else None
        self.trace = trace.Trace(header) if header else None
        self.late = 0  # messages that took longer than the processes rely on
        self._costs = Costs()
        self._outages: Outages | None = None  # from the first crash on
        self._order = CausalOrder(size) if order != "ignore" else None
        self._order_demanded = order == "demand"
        self._letters = 0
        # Whether it has to see each message as a letter, sent and delivered.
        self.follows_messages = self.trace is not None or self._order is not None

    @property
    def messages(self) -> int:
        """How many messages were sent so far."""
        return sum(self.kinds.values())

    def record(self, record: trace.AnyRecord) -> None:
        """Write into the trace, if there is one."""
        if self.trace is not None:
            self.trace.notes.append(record)

    # Messages

    def weighed(self, count: int, message: Payload) -> None:
        """Count messages that are sent, if their sizes are asked for."""
        self.bytes = (self.bytes or 0) + count * len(encode(message))

    def posted(
        self, now: float, sender: ProcessId, receivers: Sequence[ProcessId], message: Any
    ) -> list[Letter]:
        """Number a message that is sent, once for each receiver."""
        if not isinstance(message, Payload):
            self.check_messages()
        for to in receivers[0], receivers[-1]:  # they are sorted
            if not 0 < to < len(self.sent):
                raise no_such_receiver(sender, to, message, len(self.sent) - 1)
        first = self._letters + 1
        self._letters += len(receivers)
        if self.trace is not None:
            self.trace.notes.append((now, first, sender, receivers, message))
        knowledge = None if self._order is None else self._order.knowledge(sender)
        if len(receivers) == 1:
            return [(first, message, knowledge)]
        return [(number, message, knowledge) for number in range(first, self._letters + 1)]

    def delivered(self, now: float, sender: ProcessId, receiver: ProcessId, letter: Letter) -> None:
        """See a message that its receiver is about to handle."""
        number, _, knowledge = letter
        if self.trace is not None:
            self.trace.notes.append((now, number, sender, receiver))
        if self._order is not None and knowledge is not None:
            self._order.learnt(receiver, knowledge)

    def follow(self, receiver: ProcessId, receive: Receive, clock: Clock) -> Receive:
        """Return what sees each letter to a process, and hands the message in it to `receive`."""
        if self.trace is None or self._order is not None:

            def hand_on(sender: ProcessId, letter: Letter, out: Any) -> None:
                self.delivered(clock.now, sender, receiver, letter)
                receive(sender, letter[1], out)

            return hand_on
        note = self.trace.notes.append

        def write_down(sender: ProcessId, letter: Letter, out: Any) -> None:
            number, message, _ = letter
            note((clock.now, number, sender, receiver))
            receive(sender, message, out)

        return write_down

    # Users

    def asked(self, now: float, process: ProcessId) -> None:
        """See a user that wants in."""
        if self._costs.apart:
            self._costs.asked(process, self.section, self.messages)
        self.delays.asked(process, self.section)
        self.section.asked(process, now)
        if self._outages is not None:
            self._outages.look(now, self.section)
        if self._order is not None:
            self._order.asked(process)

    def entered(self, now: float, process: ProcessId) -> None:
        """See a user that gets in: alone, and not before those that must come first."""
        self.delays.entered(process, now, self.section)
        self.section.entered(process, now)
        if self._outages is not None:
            self._outages.look(now, self.section)
        overtook = self._order is not None and self._order.entered(process)
        if overtook and self._order_demanded:
            raise ViolationError(
                "order", f"process {process} entered before a request that happened before its own"
            )

    def left(self, now: float, process: ProcessId) -> None:
        """See a user that leaves."""
        self.section.left(process)
        self.delays.left(now, self.section)
        if self._outages is not None:
            self._outages.look(now, self.section)

    def crashed(self, now: float, process: ProcessId) -> None:
        """See a process that stops, and its user with it."""
        self.record(trace.Crashed(now, process))
        self.section.crashed(process)
        self.delays.crashed()
        self._outages = self._outages or Outages()
        self._outages.crashed(now, self.section)
        if self._order is not None:
            self._order.crashed(process)

    # The end

    def check_messages(self) -> None:
        """Raise if something was sent that is no message; counted by kind, so that it costs nothing."""
        for kind in self.kinds:
            if not issubclass(kind, Payload):
                what = "class" if issubclass(kind, type) else kind.__name__
                raise ViolationError(
                    "raised",
                    f"a process sent a {what}, which is no message:"
                    " send a value of a class derived from Payload",
                )

    def violated(self, now: float, error: ViolationError) -> Violation:
        """Put a violation on record."""
        self.record(trace.Violated(now, error.name, str(error)))
        return Violation(error.name, str(error), now)

    def result(
        self, *, seed: int, stopped: Stopped, time: float, events: int, violations: list[Violation]
    ) -> Result:
        """Sum up the run."""
        messages, entries = self.messages, len(self.delays.waiting)
        self._costs.close(messages)
        by_kind: defaultdict[str, int] = defaultdict(int)
        for kind, count in self.kinds.items():
            by_kind[kind.__name__] += count
        return Result(
            seed=seed,
            processes=len(self.sent) - 1,
            stopped=stopped,
            time=time,
            events=events,
            entries=entries,
            unserved=len(self.section.waiting),
            violations=violations,
            messages=messages,
            messages_by_kind=dict(sorted(by_kind.items())),
            messages_per_entry=messages / entries if entries else None,
            messages_per_entry_afresh=self._costs.per_entry(again=False),
            messages_per_entry_again=self._costs.per_entry(again=True),
            messages_per_time=messages / time if time else None,
            client_delay=summarise(self.delays.client),
            synchronisation_delay=summarise(self.delays.synchronisation),
            waiting=summarise(self.delays.waiting),
            load=load_of(self.sent, self.received),
            fairness=self.delays.fairness(self.section.waiting),
            overtakings=self._order.overtakings if self._order else None,
            bytes=self.bytes,
            late=self.late,
            outages=self._outages.longest if self._outages else [],
            trace=self.trace,
        )
