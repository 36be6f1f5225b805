"""A changer among its links to the voters: one change, from the first question to the end."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from coterie import system
from coterie.algorithms.mutex.quorum.leased.changer import (
    Changer,
    Conflicted,
    Phase,
    Settled,
    Stepped,
)
from coterie.algorithms.mutex.quorum.leased.frames import (
    Accepted,
    Closed,
    Condition,
    Promise,
    Refused,
    Tell,
    ValueCopied,
    ValueFound,
    ValueList,
)
from coterie.algorithms.mutex.quorum.leased.succession import follows
from coterie.cluster.membership.membership import check_attempt, check_bound, check_decided
from coterie.cluster.runtime import clock
from coterie.cluster.runtime.host import Host
from coterie.cluster.wire.address import parse_address
from coterie.cluster.wire.handshake import Caller, new_identity
from coterie.cluster.wire.link import Link
from coterie.cluster.wire.places import Places
from coterie.cluster.wire.voter_frames import decode_from_voter
from coterie.errors import ChangeConflict, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from coterie.algorithms.mutex.quorum.leased.changer import Goal
    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Member
    from coterie.algorithms.mutex.quorum.leased.frames import Frame
    from coterie.cluster.membership.membership import Membership
    from coterie.cluster.wire.address import Address
    from coterie.cluster.wire.security import Security
    from coterie.cluster.wire.voter_frames import FromVoter
    from coterie.process import Event, Outbox, ProcessId

_DOING = {
    Phase.INSTALL: "configuration {} goes to its voters",
    Phase.MOVE: "the voters of configuration {} abstain yet",
    Phase.CLOSE: "what was before configuration {} comes to its end",
    Phase.DECIDE: "deciding what follows configuration {}",
    Phase.OVER: "configuration {} is complete",
}
TELLS = (Accepted, Closed, Condition, Promise, Refused, ValueCopied, ValueFound, ValueList)


def _check_promise(promise: Promise) -> None:
    """Raise `ProtocolError` if no voter can have accepted what this one says.

    It would be proposed again and again, as it may have been decided (19.8), and refused by the others.
    """
    accepted, present = promise.accepted, promise.configuration
    is_sound = promise.number == present.number
    if is_sound and accepted is not None:
        is_sound = accepted.attempt <= promise.attempt and follows(accepted.configuration, present)
    if not is_sound:
        raise ProtocolError("its promise contradicts itself")


def _check_answer(answer: Tell) -> None:
    """Raise `ProtocolError` if what a voter answers would keep others from being heard."""
    match answer:
        case Closed(_, _, bound):
            check_bound(bound)
        case Promise():
            _check_promise(answer)
        case Refused(_, promised) if promised is not None:
            check_attempt(promised)


def _named_in(answer: Tell) -> Iterator[Configuration]:
    """List the configurations that an answer of a voter names."""
    if isinstance(answer, Condition | Promise) and answer.configuration is not None:
        yield answer.configuration
    if isinstance(answer, Promise) and answer.accepted is not None:
        yield answer.accepted.configuration


def _listed(missing: dict[str, str]) -> str:
    return ", ".join(f"{name} ({why})" if why else name for name, why in missing.items())


class Occupant(NamedTuple):
    """The node that has a seat."""

    name: str
    disk: str  # its identity; empty: any may be meant

    def is_other(self, node: Occupant) -> bool:
        """Return whether another node has got the seat."""
        return self.name != node.name or bool(self.disk and node.disk and self.disk != node.disk)


class HostedChanger:
    """The changer as its host drives it: an error in a step ends the change.

    Otherwise its timer would be gone with the wishes of that step, and nothing would ever happen again.
    """

    messages: ClassVar[Any] = Tell

    def __init__(self, changer: Changer, fail: Callable[[Exception], None]) -> None:
        """Prepare; `fail` is called with the error."""
        self._changer = changer
        self._fail = fail

    def start(self, out: Outbox[Frame]) -> None:
        """Begin to ask."""
        self._changer.start(out)

    def receive(self, voter: ProcessId, answer: Tell, out: Outbox[Frame]) -> None:
        """Handle the answer of a voter."""
        self._guard(self._changer.receive, voter, answer, out)

    def connected(self, voter: ProcessId, out: Outbox[Frame]) -> None:
        """Ask a voter that can be reached now."""
        self._guard(self._changer.connected, voter, out)

    def ring(self, timer: str, out: Outbox[Frame]) -> None:
        """Ask again."""
        self._guard(self._changer.ring, timer, out)

    def down(self, peer: ProcessId, out: Outbox[Frame]) -> None:
        """Changers watch no process."""
        self._changer.down(peer, out)

    def _guard(self, handler: Callable[..., None], *arguments: Any) -> None:
        try:
            handler(*arguments)
        except Exception as error:
            self._fail(error)
            raise


class Change:
    """One change of a cluster. It may be stopped at any time: another finishes or takes it back."""

    def __init__(
        self,
        membership: Membership,
        security: Security,
        goal: Goal,
        stepped: Callable[[Configuration], None] = lambda _: None,
        places: Places | None = None,
    ) -> None:
        """Prepare; `stepped` is called with each configuration that is decided on the way.

        `places` says where nodes were met that are not where they are on record.
        """
        name = f"{system.host_name()}:{system.pid()}/{system.secret(8).hex()}"
        self.changer = Changer(name, membership.configuration, goal)
        self._membership = membership
        self._security = security
        operator = security.operator_bytes()
        self._credentials = membership.stranger(operator=operator)
        self._stepped = stepped
        self._places = Places() if places is None else places
        self._identity = new_identity(name)
        self._links: dict[ProcessId, Link] = {}
        self._occupants: dict[ProcessId, Occupant] = {}  # that they lead to
        self._left: list[Link] = []  # to nodes that other changes have put others in the place of
        self._outcome: asyncio.Future[Configuration] | None = None
        self._hosted = HostedChanger(self.changer, self._fail)
        self._host = Host(self._hosted, self._send, self._hear)

    async def run(self) -> Configuration:
        """Bring the change to its end; raises `ChangeConflict` if another one came first."""
        self._outcome = asyncio.get_running_loop().create_future()
        self._call()
        self._host.start(clock.number())
        try:
            return await self._outcome
        finally:
            self._host.stop()
            links = [*self._links.values(), *self._left]
            await asyncio.gather(*(link.stop() for link in links))

    def missing(self) -> dict[str, str]:
        """Return the voters that have not adopted the newest configuration, and why if it is known."""
        names, concerned = self._names(), self._newest().all_seats()
        return {
            names[seat]: "" if link is None else link.trouble
            for seat in self.changer.missing(system.now())
            if seat in names and seat in concerned
            for link in [self._links.get(seat)]
        }

    def unreachable(self) -> dict[str, str]:
        """Return the voters that are down, if so many are that nothing can be decided; else none."""
        deciders, names = self._newest().deciders, self._names()
        up = [seat for seat, link in self._links.items() if link.is_up or link.is_untried]
        if deciders.contains_quorum(up):
            return {}
        return {
            names[seat]: self._links[seat].trouble
            for seat in deciders.members
            if seat in self._links and seat not in up
        }

    def is_served(self) -> bool:
        """Return whether a quorum of votes is given by the newest configuration, as far as it is heard."""
        voting = [
            heard.voter
            for heard in self.changer.heard
            for link in [self._links.get(heard.voter)]
            if link is not None and link.is_up and not heard.condition.abstains
        ]
        return self._newest().quorums.contains_quorum(voting)

    def progress(self) -> str:
        """Say what the change waits for just now."""
        number = self._newest().number
        behind = self._behind()
        missing = self.missing()
        waits = []
        if late := {name: why for name, why in missing.items() if name in behind}:
            they = "they have" if len(late) > 1 else "it has"
            waits.append(f"waiting for {_listed(late)}: {they} not adopted configuration {number}")
        if silent := {name: why for name, why in missing.items() if name not in behind}:
            waits.append(f"waiting for an answer of {_listed(silent)}")
        lagging = max((heard.condition.lagging for heard in self.changer.heard), default=0)
        if lagging:
            moved = "program has" if lagging == 1 else "programs have"
            waits.append(f"{lagging} {moved} not moved to configuration {number} yet")
        if not waits:
            waits.append(_DOING[self.changer.phase].format(number))
        return "; ".join(waits)

    def _behind(self) -> list[str]:
        """Return the names of the voters that have said that they go by another configuration."""
        names, number = self._names(), self._newest().number
        return [
            names[heard.voter]
            for heard in self.changer.heard
            for theirs in [heard.condition.configuration]
            if heard.voter in names and (theirs is None or theirs.number != number)
        ]

    def _names(self) -> dict[ProcessId, str]:
        """Return the name of every voter that the changer may talk to."""
        return {seat: occupant.name for seat, occupant in self._known().items()}

    def _known(self) -> dict[ProcessId, Occupant]:
        """Return every voter that the changer may talk to.

        While a cluster is formed, identities are what is to be decided, and all nodes have to agree.
        """
        membership = self._membership
        known = {
            seat: Occupant(member.name, membership.disk(seat))
            for seat, member in zip(membership.seats, membership.members, strict=True)
        }
        is_formed = self._newest().number > 0
        return known | {
            member.seat: Occupant(member.name, member.identity if is_formed else "")
            for member in self._members()
        }

    def _ways(self, seat: ProcessId) -> list[Address]:
        """List where to call a voter: a change may be about its address, and its record out of date."""
        occupant, membership = self._known()[seat], self._membership
        recorded = [
            parse_address(member.address)
            for member in reversed(self._members())
            if member.seat == seat
        ]
        if seat in membership.seats:
            recorded.append(membership.at(seat).address)
        taken = [parse_address(m.address) for m in self._members() if m.seat != seat]
        return self._places.ways(occupant.name, occupant.disk, recorded, taken)

    def _members(self) -> tuple[Member, ...]:
        return (*self.changer.goal.members, *self._newest().members)

    def _newest(self) -> Configuration:
        return self.changer.configuration

    def _call(self) -> None:
        """Call the voters that are not called yet, and none that has lost its disk.

        Such a one has forgotten what it has promised, and could help to decide a second successor.
        """
        known = self._known()
        for seat in self.changer.seats():
            if seat not in known:
                continue
            occupant = known[seat]
            if self._occupants.get(seat, occupant).is_other(occupant):
                self._leave(seat)
            link = self._links.get(seat)
            is_new = link is None
            if link is None:
                link = self._links[seat] = self._link(seat, occupant.name)
            self._occupants[seat] = occupant
            if occupant.disk:
                link.insist_on(occupant.disk)
            if is_new:
                link.start()

    def _leave(self, seat: ProcessId) -> None:
        """Call a node no more whose seat another one has got: two changes may want to give the same."""
        link = self._links.pop(seat)
        link.abort("another node has got its seat")
        link.give_up()
        self._left.append(link)

    def _link(self, seat: ProcessId, name: str) -> Link:
        return Link(
            name,
            partial(self._ways, seat),
            partial(self._caller, name),
            self._security.client_context(),
            lambda: self._newest().settings.lease,
            decode=decode_from_voter,
            receive=partial(self._receive, seat),
            connected=lambda _: self._host.step(self._hosted.connected, seat),
            met=self._places.note,
        )

    def _caller(self, node: str, disk: str) -> Caller:
        return Caller(self._credentials, "operator", self._identity, node, disk=disk)

    def _receive(self, seat: ProcessId, answer: FromVoter) -> None:
        if isinstance(answer, TELLS):
            for configuration in _named_in(answer):
                if configuration != self._newest():  # that was checked when it came
                    check_decided(configuration)
            _check_answer(answer)
            self._host.receive(seat, answer)

    def _send(self, seat: ProcessId, frame: Any) -> None:
        link = self._links.get(seat)
        if link is not None:
            link.send(frame)

    def _fail(self, error: Exception) -> None:
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_exception(error)

    def _report(self, configuration: Configuration) -> None:
        """Tell of a step; a listener that fails ends the change, which another can finish."""
        try:
            self._stepped(configuration)
        except Exception as error:  # noqa: BLE001 - it goes to the caller of `run`
            self._fail(error)

    def _hear(self, event: Event) -> None:
        if self._outcome is None or self._outcome.done():
            return
        match event:
            case Stepped(configuration):
                self._call()
                self._report(configuration)
            case Settled(configuration):
                self._outcome.set_result(configuration)
            case Conflicted(configuration):
                by = f" by {configuration.by}" if configuration.by else ""
                self._outcome.set_exception(
                    ChangeConflict(
                        f"cluster {self._membership.cluster!r} was changed meanwhile{by}:"
                        f" configuration {configuration.number} is complete; look at it with"
                        " coterie cluster status, and repeat the command if it is still meant"
                    )
                )
            case _:
                raise AssertionError(f"a changer does not tell {event}")
