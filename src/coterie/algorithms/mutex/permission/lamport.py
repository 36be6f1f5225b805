"""Mutual exclusion by a queue of which every process keeps a copy (Lamport, 1978): 3(N - 1) messages.

A request is put in every process's queue, and a release takes it out again. Enter when your own
request is the oldest in your queue and no older one can still be on its way: links keep the order,
so a message from a clock that has reached your request is each peer's proof of that. Every message
tells the clock of its sender, so a request that can have caused another is served before it.
"""

from __future__ import annotations

from bisect import insort
from typing import Any, ClassVar, TypeAlias

from msgspec import field

from coterie.catalogue import (
    Algorithm,
    Cost,
    Costs,
    MulticastCosts,
    Setup,
    Variant,
    between,
    exactly,
)
from coterie.clocks import LogicalTime, Stamp
from coterie.errors import ProtocolError
from coterie.process import Channel, Entered, Mutex, Outbox, Payload, ProcessId


class Request(Payload, frozen=True):
    """I want to enter."""

    stamp: Stamp


class Acknowledge(Payload, frozen=True):
    """I have your request; what I ask for from now on is later than this time."""

    time: LogicalTime


class Release(Payload, frozen=True):
    """I have left: forget that request of mine."""

    time: LogicalTime
    request: Stamp


Message: TypeAlias = Request | Acknowledge | Release


class Lamport(Mutex[Message]):
    """A process with its copy of the queue."""

    messages: ClassVar[Any] = Message
    channel: ClassVar[Channel] = Channel.FIFO

    size: int  # processes are 1 to size
    highest: LogicalTime = 0  # the clock: highest request time heard of or used
    stamp: Stamp | None = None  # of our own request, kept until release
    queue: list[Stamp] = field(default_factory=list)  # the peers' requests, oldest first
    awaiting: set[ProcessId] = field(default_factory=set)  # peers that may still send an older one

    def acquire(self, out: Outbox[Message]) -> None:
        """Put a request in every queue."""
        self.highest += 1
        self.stamp = Stamp(self.highest, self.me)
        self.awaiting = self._peers()
        out.broadcast(self.awaiting, Request(self.stamp))
        if self._is_next():
            out.tell(Entered())  # at once when alone

    def release(self, out: Outbox[Message]) -> None:
        """Take it out of every queue."""
        assert self.stamp is not None
        out.broadcast(self._peers(), Release(self.highest, self.stamp))
        self.stamp = None

    def awaits(self) -> tuple[ProcessId, ...]:
        """Name the peers that may still send an older request, and those that have sent one."""
        older = {each.process for each in self.queue if self.stamp and each < self.stamp}
        return tuple(sorted(self.awaiting | older))

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a message by the rule of its kind, and enter if that was what we waited for."""
        was_next = self._is_next()
        match message:
            case Request(stamp):
                self._hear(sender, stamp.time)
                insort(self.queue, stamp)
                self._acknowledge(stamp, out)
            case Acknowledge(time):
                self._hear(sender, time)
            case Release(time, request):
                self._hear(sender, time)
                self._forget(sender, request)
        if self._is_next() and not was_next:
            out.tell(Entered())

    def _hear(self, sender: ProcessId, time: LogicalTime) -> None:
        self.highest = max(self.highest, time)
        if self.stamp is not None and self.stamp.time <= time:
            self.awaiting.discard(sender)

    def _acknowledge(self, request: Stamp, out: Outbox[Message]) -> None:
        out.send(request.process, Acknowledge(self.highest))

    def _forget(self, sender: ProcessId, request: Stamp) -> None:
        if request not in self.queue:
            raise ProtocolError(f"process {sender} released {request}, which is not in the queue")
        self.queue.remove(request)

    def _is_next(self) -> bool:
        """Return whether our request is the oldest there is; it stays so until we release it."""
        if self.stamp is None or self.awaiting:
            return False
        return not self.queue or self.stamp < self.queue[0]

    def _peers(self) -> set[ProcessId]:
        return {peer for peer in range(1, self.size + 1) if peer != self.me}


class Sparing(Lamport):
    """Acknowledges only while it wants nothing.

    Otherwise its own request proves as much if that is no older, and its release if it is: the
    other has to wait for that anyway.
    """

    def _acknowledge(self, request: Stamp, out: Outbox[Message]) -> None:
        if self.stamp is None:
            super()._acknowledge(request, out)


VARIANTS: dict[str, type[Lamport]] = {"plain": Lamport, "sparing": Sparing}


def _build(setup: Setup) -> list[Lamport]:
    return [VARIANTS[setup.variant](me, setup.size) for me in range(1, setup.size + 1)]


def _saturated(setup: Setup) -> Cost:
    peers = setup.size - 1
    if setup.variant == "sparing":
        return between(2 * peers, 3 * peers, "2(N - 1) to 3(N - 1)")
    return exactly(3 * peers, "3(N - 1)")


def _multicast(setup: Setup) -> Cost:
    return exactly(setup.size + 1 if setup.size > 1 else 0, "N + 1")


def _multicast_saturated(setup: Setup) -> Cost:
    if setup.variant == "sparing" and setup.size > 1:
        return between(2, setup.size + 1, "2 to N + 1")
    return _multicast(setup)


ALGORITHM = Algorithm(
    name="lamport",
    family="permission",
    summary="put a request in every queue; enter when it is the oldest of all",
    citation=(
        "L. Lamport. Time, clocks, and the ordering of events in a distributed system."
        " Communications of the ACM 21(7), 1978."
    ),
    process=Lamport,
    build=_build,
    costs=Costs(
        idle=lambda setup: exactly(3 * (setup.size - 1), "3(N - 1)"),
        again=lambda setup: exactly(3 * (setup.size - 1), "3(N - 1)"),
        saturated=_saturated,
        client_delay=lambda setup: exactly(2 if setup.size > 1 else 0, "2"),
        synchronisation_delay=lambda setup: exactly(1, "1"),
    ),
    multicast=MulticastCosts(_multicast, _multicast, _multicast_saturated),
    assumes=("reliable links", "no crash"),
    tolerates=(),
    causal=True,
    variants=(
        Variant("plain", "as published: every request is acknowledged"),
        Variant("sparing", "a process with a request of its own does not acknowledge"),
    ),
)
