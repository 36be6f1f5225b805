"""Election of the highest process by a list that goes round a ring: 2(N - 1) messages.

A process that misses the leader sends a list with its id to the next process, which adds its own and
passes it on; processes that are down are skipped. A process that finds itself in the list knows the
live ring, and sends it round once more, so that all know it: the highest in it leads. To be down is
to be reported by the failure detector, as in a synchronous system where a time-out is never wrong.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from msgspec import field

from coterie.algorithms.election.watches import watch_only
from coterie.catalogue import Algorithm, Cost, ElectionCosts, Flaw, Setup, Variant, exactly
from coterie.clocks import LogicalTime, Stamp
from coterie.process import Elected, Outbox, Payload, ProcessId
from coterie.process import Election as Elector

ELECTIONS_MAX = 1 << 20  # that a process begins between two starts


class Election(Payload, frozen=True):
    """Who lives? These do. The name is that of the election."""

    name: Stamp
    members: tuple[ProcessId, ...]
    returned: tuple[ProcessId, ...] = ()  # members that have been down before


class Coordinator(Payload, frozen=True):
    """These live, and the highest of them leads. It goes from the first to the last of them."""

    name: Stamp
    ring: tuple[ProcessId, ...]
    returned: tuple[ProcessId, ...] = ()  # those of the ring that have been down before


Message: TypeAlias = Election | Coordinator


class Ring(Elector[Message]):
    """A process that follows the highest of the last ring, beginning with the last of all."""

    messages: ClassVar[Any] = Message
    one_leads: ClassVar[bool] = True
    highest_leads: ClassVar[bool] = True

    size: int  # processes are 1 to size, in this order; the first comes after the last
    leader: ProcessId | None = None  # the one we follow; None if it is down
    begun: LogicalTime = 0  # elections that we began
    passed: list[tuple[ProcessId, Message]] = field(default_factory=list)
    """What we passed on and to whom, to be sent again if that one is down before it has a result."""
    watched: set[ProcessId] = field(default_factory=set)  # the leader, and those we passed on to
    returned: bool = False  # after a restart: this process has been down before
    leader_returned: bool = False  # the one we follow has, by a result that it is in

    def start(self, out: Outbox[Message]) -> None:
        """Follow the highest process there is; after a crash, find out who leads by now."""
        if out.incarnation:
            self.returned = True
            self.begun = out.incarnation * ELECTIONS_MAX
            self.elect(out)
        else:
            self._follow(self.size, out)

    def elect(self, out: Outbox[Message]) -> None:
        """Send a list round, unless we have passed one on and do not know yet what comes of it."""
        if not any(isinstance(message, Election) for _, message in self.passed):
            first = Election(self._name(), (self.me,), (self.me,) if self.returned else ())
            self._pass_on(self._successor(self.me), first, out)

    def receive(self, sender: ProcessId, message: Message, out: Outbox[Message]) -> None:
        """Handle a list of those that live, incomplete or complete."""
        match message:
            case Election(name, members, returned) if self.me in members:
                place = members.index(self.me)
                ring = (*members[place:], *members[:place])
                self._announce(Coordinator(name, ring, returned), out)
            case Election(name, members, returned):
                returned = (*returned, self.me) if self.returned else returned
                longer = Election(name, (*members, self.me), returned)
                self._pass_on(self._successor(self.me), longer, out)
            case Coordinator():
                self._hear(message, out)

    def down(self, peer: ProcessId, out: Outbox[Message]) -> None:
        """Skip that process; if it led, find another leader."""
        self.watched.discard(peer)
        lost = [message for to, message in self.passed if to == peer]
        self.passed = [(to, message) for to, message in self.passed if to != peer]
        for message in lost:
            match message:
                case Election():
                    self._pass_on(self._successor(peer), message, out)
                case Coordinator():
                    self._tell_who_comes_after(peer, message, out)
        if peer == self.leader:
            self.leader = None
            self.elect(out)

    def _name(self) -> Stamp:
        """Name a new election; two with one name would be taken for one, and one be forgotten.

        So the elections of a later start have higher names than those of all starts before.
        """
        self.begun += 1
        return Stamp(self.begun, self.me)

    def _hear(self, message: Coordinator, out: Outbox[Message]) -> None:
        self._announce(message, out)

    def _announce(self, message: Coordinator, out: Outbox[Message]) -> None:
        """Follow the highest and tell the next; the list that led to it needs no care any more.

        A ring without the leader that we follow was made while that one was down. If it has returned
        since, this may be news from before; if it is down again, it is not. So find out.
        """
        self._forget(message.name)
        highest = max(message.ring)
        is_doubtful = self.leader is not None and highest < self.leader and self.leader_returned
        if not is_doubtful:
            self._follow(highest, out)
            self.leader_returned = self.leader_returned or highest in message.returned
        self._tell_who_comes_after(self.me, message, out)
        if is_doubtful:
            self.elect(out)

    def _tell_who_comes_after(
        self, process: ProcessId, message: Coordinator, out: Outbox[Message]
    ) -> None:
        untold = message.ring[message.ring.index(process) + 1 :]
        if untold:
            self._pass_on(untold[0], message, out)

    def _follow(self, leader: ProcessId, out: Outbox[Message]) -> None:
        if leader != self.leader:
            self.leader, self.leader_returned = leader, False
            out.tell(Elected(leader))
        self._watch(out)

    def _pass_on(self, to: ProcessId, message: Message, out: Outbox[Message]) -> None:
        out.send(to, message)
        self._forget(message.name)
        if to != self.me:
            self.passed.append((to, message))
        self._watch(out)

    def _forget(self, name: Stamp) -> None:
        """Care no more for what this supersedes: the same election, and older ones of its beginner."""
        self.passed = [
            (to, message)
            for to, message in self.passed
            if message.name.process != name.process or message.name > name
        ]

    def _watch(self, out: Outbox[Message]) -> None:
        matters = {to for to, _ in self.passed} | {self.leader or self.me}
        self.watched = watch_only(matters - {self.me}, self.watched, out)

    def _successor(self, process: ProcessId) -> ProcessId:
        return process % self.size + 1


class AsTold(Ring):
    """A process of the lectures, where a result goes round until it is back at its sender."""

    def _name(self) -> Stamp:
        return Stamp(0, self.me)

    def _hear(self, message: Coordinator, out: Outbox[Message]) -> None:
        if self.me != message.ring[0]:
            self._announce(message, out)

    def _tell_who_comes_after(
        self, process: ProcessId, message: Coordinator, out: Outbox[Message]
    ) -> None:
        place = message.ring.index(process) + 1
        self._pass_on(message.ring[place % len(message.ring)], message, out)


VARIANTS: dict[str, type[Ring]] = {"members": Ring, "as-told": AsTold}


def _build(setup: Setup) -> list[Ring]:
    return [VARIANTS[setup.variant](me, setup.size) for me in range(1, setup.size + 1)]


def _one(setup: Setup) -> Cost:
    """Count the hops of list and result among those that live, and one to the process that is down."""
    live = setup.size - 1
    if live < 2:
        return exactly(live, str(live))
    if setup.variant == "as-told":
        return exactly(2 * live + 1, "2N - 1")
    return exactly(2 * live, "2(N - 1)")


def _together(setup: Setup) -> Cost:
    live, one = setup.size - 1, _one(setup)
    formula = "(N - 1)(2N - 1)" if setup.variant == "as-told" else "2(N - 1)²"
    return exactly(live * one.low, formula if live > 1 else one.formula)


ALGORITHM = Algorithm(
    name="ring",
    family="election",
    summary="send a list round to see who lives; the highest leads",
    citation=(
        "G. Le Lann. Distributed systems: towards a formal approach. IFIP Congress, 1977; with the"
        " lists of the lectures, repaired."
    ),
    process=Ring,
    build=_build,
    costs=ElectionCosts(best=_one, worst=_one, together=_together),
    assumes=("reliable links", "a perfect failure detector"),
    tolerates=("reordering", "crash", "recovery without memory"),
    causal=False,
    variants=(
        Variant("members", "the result goes to each live process once"),
        Variant(
            "as-told",
            "the result goes round until it is back at its sender, maybe forever",
            sound=False,
            flaw=Flaw(size=3, steps=6, entries=0, crashes=2),
        ),
    ),
)
