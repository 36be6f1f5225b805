"""Mutual exclusion by asking one coordinator: 3 messages an entry.

The coordinator lets one process in at a time and queues the others in the order in which their
requests arrive. It is also the bottleneck, and everything stops when it does. With many resources
the work is shared: each resource has its own instance, and its name chooses the coordinator.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeAlias

from msgspec import field

from coterie.catalogue import Algorithm, Cost, Costs, Parameter, Setup, Variant, between, exactly
from coterie.errors import ProtocolError
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId

if TYPE_CHECKING:
    from collections.abc import Iterable


class Request(Payload, frozen=True):
    """May I enter?"""


class Grant(Payload, frozen=True):
    """You may."""


class Queued(Payload, frozen=True):
    """Not yet: you are in the queue. Only the variant `denied` sends it."""


class Release(Payload, frozen=True):
    """I have left."""


Message: TypeAlias = Request | Grant | Queued | Release


class Centralized(Mutex[Message]):
    """A client; the one that the others call coordinator keeps the queue as well."""

    coordinator: ProcessId
    holder: ProcessId | None = None  # coordinator: who was let in
    queue: list[ProcessId] = field(default_factory=list)  # coordinator: who waits, first come first

    def acquire(self, out: Outbox[Message]) -> None:
        """Ask the coordinator."""
        out.send(self.coordinator, Request())

    def release(self, out: Outbox[Message]) -> None:
        """Tell the coordinator."""
        out.send(self.coordinator, Release())

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a request or a release as the coordinator, its answers as a client."""
        match message:
            case Request():
                self._enqueue(sender, out)
            case Grant():
                out.tell(Entered())
            case Queued():
                self._be_advised(sender)
            case Release():
                self._release(sender, out)

    def _enqueue(self, sender: ProcessId, out: Outbox[Message]) -> None:
        self.queue.append(sender)
        self._grant_if_free(out)

    def _be_advised(self, sender: ProcessId) -> None:
        raise ProtocolError(f"process {sender} denied a request, by rules that we do not follow")

    def _release(self, sender: ProcessId, out: Outbox[Message]) -> None:
        if sender != self.holder:
            raise ProtocolError(f"process {sender} released what process {self.holder} holds")
        self.holder = None
        self._grant_if_free(out)

    def _grant_if_free(self, out: Outbox[Message]) -> None:
        if self.holder is None and self.queue:
            self.holder = self.queue.pop(0)
            out.send(self.holder, Grant())


class Denying(Centralized):
    """A coordinator that tells those who must wait; its clients know that it lives."""

    def _enqueue(self, sender: ProcessId, out: Outbox[Message]) -> None:
        super()._enqueue(sender, out)
        if sender in self.queue:
            out.send(sender, Queued())

    def _be_advised(self, sender: ProcessId) -> None:
        # Only advice, which its Grant may overtake: whoever is inside by then ignores it.
        pass


VARIANTS: dict[str, type[Centralized]] = {"silent": Centralized, "denied": Denying}


def coordinator_of(resource: str, members: Iterable[ProcessId]) -> ProcessId:
    """Choose the member that ranks highest for this resource, the same everywhere and for ever.

    Each member's rank depends on itself and the resource alone (rendezvous hashing), so when one
    leaves, only the resources that it coordinated move.
    """
    return max(members, key=lambda member: hashlib.sha256(f"{member} {resource}".encode()).digest())


def _coordinator(setup: Setup) -> ProcessId:
    resource = setup.parameters["resource"]
    return coordinator_of(resource, range(1, setup.size + 1)) if resource else 1


def _build(setup: Setup) -> list[Centralized]:
    process, coordinator = VARIANTS[setup.variant], _coordinator(setup)
    return [process(me, coordinator) for me in range(1, setup.size + 1)]


def _requesters(setup: Setup) -> list[ProcessId]:
    """Leave the coordinator out, for whom an entry costs nothing, unless it is alone."""
    coordinator = _coordinator(setup)
    return [me for me in range(1, setup.size + 1) if me != coordinator] or [coordinator]


def _three(setup: Setup) -> Cost:
    return exactly(3 if setup.size > 1 else 0, "3")


def _saturated(setup: Setup) -> Cost:
    if setup.variant == "denied" and setup.size > 1:
        return between(3, 4, "3, and 1 if it had to wait")
    return _three(setup)


ALGORITHM = Algorithm(
    name="centralized",
    family="permission",
    summary="ask one coordinator, who keeps a queue",
    citation=(
        "M. Maekawa, K. Shimizu and J. Hamano. Concurrency control in distributed processing"
        " systems (in Japanese). Joho Shori, 1987; folklore before."
    ),
    process=Centralized,
    build=_build,
    costs=Costs(
        idle=_three,
        again=_three,
        saturated=_saturated,
        client_delay=lambda setup: exactly(2 if setup.size > 1 else 0, "2"),
        synchronisation_delay=lambda setup: exactly(2, "2"),
    ),
    assumes=("reliable links", "no crash"),
    bears=("reordering",),
    causal=False,
    variants=(
        Variant("silent", "those who must wait hear nothing until it is their turn"),
        Variant("denied", "those who must wait are told so, and stay in the queue"),
    ),
    parameters=(
        Parameter(
            "resource",
            "",
            "the name of what is locked, which picks the coordinator; none picks process 1",
            lambda text, size: text,
        ),
    ),
    requesters=_requesters,
)
