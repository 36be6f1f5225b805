"""Mutual exclusion by a token that moves along a tree (Raymond, 1989): 2 · distance messages.

Everyone knows which neighbour the token is behind, and asks that one only, on behalf of itself or
of another neighbour, once at a time. The token comes back the way the request went, and turns the
pointers round as it passes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from msgspec import field

from coterie.algorithms.mutex.token.trees import parse_tree
from coterie.catalogue import Algorithm, Cost, Costs, Parameter, Setup, Variant, between, exactly
from coterie.errors import ProtocolError
from coterie.process import Entered, Mutex, Outbox, Payload, ProcessId

if TYPE_CHECKING:
    from coterie.algorithms.mutex.token.trees import SpanningTree

FIRST_HOLDER: ProcessId = 1


class Request(Payload, frozen=True):
    """A process on my side of our link wants the token."""


class Token(Payload, frozen=True):
    """The right to enter, or to pass it on."""


Message: TypeAlias = Request | Token


class Raymond(Mutex[Message]):
    """A process that knows only its neighbours."""

    messages: ClassVar[Any] = Message

    holder: ProcessId  # the neighbour on the way to the token, or ourselves
    asked: bool = False  # that neighbour has a request of ours, not answered yet
    inside: bool = False
    queue: list[ProcessId] = field(default_factory=list)  # neighbours that asked, and ourselves

    def acquire(self, out: Outbox[Message]) -> None:
        """Queue for the token like any neighbour."""
        self.queue.append(self.me)
        self._assign_if_free(out)
        self._ask_if_needed(out)

    def release(self, out: Outbox[Message]) -> None:
        """Let the token go to the next in the queue."""
        self.inside = False
        self._assign_if_free(out)
        self._ask_if_needed(out)

    def awaits(self) -> tuple[ProcessId, ...]:
        """Name the neighbour that we have asked for the token."""
        return (self.holder,) if self.asked else ()

    def owes(self) -> tuple[ProcessId, ...]:
        """Name the neighbours that have asked us for it."""
        return tuple(neighbour for neighbour in self.queue if neighbour != self.me)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a request or the token."""
        match message:
            case Request():
                self._require(sender not in self.queue, sender, message)
                self.queue.append(sender)
            case Token():
                self._require(self.asked and sender == self.holder, sender, message)
                self.holder = self.me
        self._assign_if_free(out)
        self._ask_if_needed(out)

    def _assign_if_free(self, out: Outbox[Message]) -> None:
        if self.holder != self.me or self.inside or not self.queue:
            return
        self.holder = self.queue.pop(0)
        self.asked = False
        if self.holder == self.me:
            self.inside = True
            out.tell(Entered())
        else:
            out.send(self.holder, Token())

    def _ask_if_needed(self, out: Outbox[Message]) -> None:
        """Ask once for all that wait here; also when the token has just left them behind."""
        if self.holder != self.me and self.queue and not self.asked:
            self.asked = True
            out.send(self.holder, Request())

    def _require(self, holds: bool, sender: ProcessId, message: Message) -> None:
        if not holds:
            raise ProtocolError(
                f"process {self.me}, the token being towards {self.holder}, got {message} from"
                f" {sender}"
            )


def _build(setup: Setup) -> list[Raymond]:
    towards_token = setup.parameters["tree"].towards(FIRST_HOLDER)
    return [Raymond(me, towards_token[me]) for me in range(1, setup.size + 1)]


def _idle(setup: Setup) -> Cost:
    """Send a request and the token over each link between a requester and the one before it."""
    tree: SpanningTree = setup.parameters["tree"]
    everyone = range(1, setup.size + 1)
    links = sum(tree.distance(me, me % setup.size + 1) for me in everyone)
    mean = exactly(2 * tree.mean_distance, "2 · mean distance")
    return exactly(float(Fraction(2 * links, setup.size)), "2 · distance", mean)


def _twice_diameter(setup: Setup) -> int:
    tree: SpanningTree = setup.parameters["tree"]
    return 2 * tree.diameter


def _synchronisation_delay(setup: Setup) -> Cost:
    tree: SpanningTree = setup.parameters["tree"]
    return between(min(1, tree.diameter), tree.diameter, "distance")


ALGORITHM = Algorithm(
    name="raymond",
    family="token",
    summary="ask the neighbour in whose direction the token is, on any tree",
    citation=(
        "K. Raymond. A tree-based algorithm for distributed mutual exclusion. ACM Transactions on"
        " Computer Systems 7(1), 1989."
    ),
    process=Raymond,
    build=_build,
    costs=Costs(
        idle=_idle,
        again=lambda setup: exactly(0, "0"),
        saturated=lambda setup: between(0, _twice_diameter(setup), "0 to 2 · diameter"),
        client_delay=lambda setup: between(0, _twice_diameter(setup), "2 · distance"),
        synchronisation_delay=_synchronisation_delay,
    ),
    assumes=("reliable links", "no crash"),
    tolerates=("reordering",),
    causal=False,
    variants=(Variant("plain", "as published"),),
    parameters=(
        Parameter(
            "tree", "binary", "star, chain, binary, random:SEED or links: 1-2,2-3", parse_tree
        ),
    ),
)
