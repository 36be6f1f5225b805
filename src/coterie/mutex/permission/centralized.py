"""Mutual exclusion by asking one coordinator: 3 messages an entry.

The coordinator lets one process in at a time and queues the others in the order in which their
requests arrive. It is also the bottleneck, and everything stops when it does.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import field

from coterie.catalogue import Algorithm, Costs, Setup, Variant, exactly
from coterie.errors import ProtocolError
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId

COORDINATOR: ProcessId = 1


class Request(Payload, frozen=True):
    """May I enter?"""


class Grant(Payload, frozen=True):
    """You may."""


class Release(Payload, frozen=True):
    """I have left."""


Message: TypeAlias = Request | Grant | Release


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
        """Handle a request or a release as the coordinator, a grant as a client."""
        match message:
            case Request():
                self.queue.append(sender)
                self._grant_if_free(out)
            case Grant():
                out.tell(Entered())
            case Release():
                self._release(sender, out)

    def _release(self, sender: ProcessId, out: Outbox[Message]) -> None:
        if sender != self.holder:
            raise ProtocolError(f"process {sender} released what process {self.holder} holds")
        self.holder = None
        self._grant_if_free(out)

    def _grant_if_free(self, out: Outbox[Message]) -> None:
        if self.holder is None and self.queue:
            self.holder = self.queue.pop(0)
            out.send(self.holder, Grant())


def _requesters(setup: Setup) -> range:
    """Leave the coordinator out, for whom an entry costs nothing, unless it is alone."""
    return range(2, setup.size + 1) if setup.size > 1 else range(1, 2)


def _messages(setup: Setup) -> int:
    return 3 if setup.size > 1 else 0


ALGORITHM = Algorithm(
    name="centralized",
    family="permission",
    summary="ask one coordinator, who keeps a queue",
    citation=(
        "M. Maekawa, K. Shimizu and J. Hamano. Concurrency control in distributed processing"
        " systems (in Japanese). Joho Shori, 1987; folklore before."
    ),
    process=Centralized,
    build=lambda setup: [Centralized(me, COORDINATOR) for me in range(1, setup.size + 1)],
    costs=Costs(
        idle=lambda setup: exactly(_messages(setup), "3"),
        again=lambda setup: exactly(_messages(setup), "3"),
        saturated=lambda setup: exactly(_messages(setup), "3"),
        client_delay=lambda setup: exactly(2 if setup.size > 1 else 0, "2"),
        synchronisation_delay=lambda setup: exactly(2, "2"),
    ),
    assumes=("reliable links", "no crash"),
    bears=("reordering",),
    causal=False,
    variants=(Variant("silent", "those who must wait hear nothing until it is their turn"),),
    requesters=_requesters,
)
