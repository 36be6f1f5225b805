"""Where a cluster stands: its newest configuration, and what each of its voters says of itself."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING

import msgspec

from coterie.algorithms.mutex.quorum.leased.configuration import FORCED_LEAP
from coterie.algorithms.mutex.quorum.leased.frames import Condition, Query
from coterie.cluster.change.formation import explain_protocol
from coterie.cluster.membership.discovery import KnownMembership, ask_membership, newest
from coterie.cluster.membership.membership import Member, Membership, check_decided
from coterie.cluster.wire.address import parse_address
from coterie.cluster.wire.frames import PROTOCOL
from coterie.cluster.wire.handshake import (
    Credentials,
    OtherInstallationError,
    OtherNodeError,
    OtherSecretError,
    SilentNodeError,
)
from coterie.cluster.wire.link import dial
from coterie.cluster.wire.places import Places
from coterie.cluster.wire.query import ask_condition, consult, introduce
from coterie.cluster.wire.security import Security
from coterie.cluster.wire.trouble import explain
from coterie.errors import ChangeConflict, ConfigError, CoterieError, Unavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from coterie.algorithms.mutex.quorum.leased.configuration import Configuration
    from coterie.cluster.client.access import Visit
    from coterie.cluster.wire.address import Address
    from coterie.cluster.wire.query import Consultation

SPARE, REMOVED = "spare", "removed"  # nodes that do not vote
FOREIGN = "of another installation"
LOOKS = 5  # that the time for a command is good for: it needs four, and a rest to do something
FAULTS = (OSError, CoterieError, msgspec.MsgspecError)


class VoterState(msgspec.Struct, frozen=True):
    """A voter, or why it cannot be asked."""

    seat: int
    name: str
    address: str
    trouble: str
    condition: Condition | None  # None: it cannot be asked
    is_meant: bool  # its disk is that of the voter
    is_foreign: bool = False  # it belongs to another installation
    other: Condition | None = None  # of a node with another name that answers at the address
    is_barred: bool = False  # a node answers that has another secret or certificate than we have
    is_stuck: bool = False  # a process listens there and does not answer
    found: str = ""  # where its disk answers, if not at its address
    start: str = ""  # of the node: another word for each
    copy: str = ""  # where another node runs with a copy of its disk

    @property
    def place(self) -> str:
        """Where it is called."""
        return self.found or self.address


class KnownConfiguration(msgspec.Struct, frozen=True):
    """The newest configuration that any node knows that was asked, and all voters of it."""

    membership: Membership
    security: Security
    voters: list[VoterState]
    places: Places = msgspec.field(default_factory=Places)  # where nodes have answered

    @property
    def configuration(self) -> Configuration:
        """The newest configuration."""
        return self.membership.configuration

    @property
    def up(self) -> list[int]:
        """The seats of the voters that answer, with the disk that is meant."""
        return [voter.seat for voter in self.voters if voter.condition and voter.is_meant]

    @property
    def voting(self) -> list[int]:
        """The seats of those that give votes now: the others of `up` abstain yet."""
        abstaining = [
            each.seat for each in self.voters if each.condition and each.condition.abstains
        ]
        return [seat for seat in self.up if seat not in abstaining]

    @property
    def gone(self) -> list[int]:
        """The seats of the voters that do not answer, or with another disk."""
        return [voter.seat for voter in self.voters if voter.seat not in self.up]

    @property
    def behind(self) -> list[str]:
        """The names of voters that answer and go by an earlier configuration: they were away when it came."""
        return [
            voter.name
            for voter in self.voters
            if voter.is_meant and voter.condition and voter.condition.configuration
            if voter.condition.configuration.number < self.configuration.number
        ]

    @property
    def is_lost(self) -> bool:
        """Whether a quorum cannot come back: too many voters answer with other disks than theirs."""
        answered = {each.condition.identity for each in self.voters if each.condition}
        back = {each.seat for each in self.voters if each.is_meant or each.condition is None}
        # A disk that another node was started with is at the wrong place, and not lost.
        back |= {
            member.seat for member in self.configuration.members if member.identity in answered
        }
        return not self.configuration.deciders.contains_quorum(back)

    def owner_of_disk(self, voter: VoterState) -> str | None:
        """Return the name of another voter whose disk a node was started with, or None."""
        identity = voter.condition.identity if voter.condition else ""
        owners = (member for member in self.configuration.members if member.identity == identity)
        return next((member.name for member in owners if member.seat != voter.seat), None)

    @property
    def force(self) -> str:
        """The command that goes on with the voters that are left."""
        left = ",".join(voter.name for voter in self.voters if voter.seat in self.up)
        return f"coterie cluster force --keep {left or 'NAME,...'}"

    @property
    def earlier(self) -> str:
        """What it may be if a quorum of the disks is missing, and none was lost."""
        left = (
            ", ".join(voter.name for voter in self.voters if voter.seat in self.up) or "those left"
        )
        return (
            f"if the cluster was just set up again, the data directories of {left} are of an earlier"
            " installation: stop all nodes, move these away, and start them"
        )

    @property
    def misplaced(self) -> list[str]:
        """The names of voters at whose addresses others answer, or nodes with the disks of others.

        Nothing is lost then, and nothing may be forced.
        """
        return [
            voter.name
            for voter in self.voters
            if voter.is_foreign or voter.is_barred or voter.other or self.owner_of_disk(voter)
        ]

    @property
    def missing(self) -> str:
        """The voters that do not answer, with the reason for each."""
        away = [voter for voter in self.voters if voter.seat in self.gone]
        return "; ".join(f"{voter.name}: {voter.trouble}" for voter in away)

    def consult(self, voter: VoterState) -> AbstractAsyncContextManager[Consultation]:
        """Open a connection to a voter for questions."""
        credentials = self.membership.credentials(self.security.secret_bytes())
        tls = self.security.client_context()
        return consult(parse_address(voter.place), credentials, tls, voter.name)

    def command(self, voter: VoterState) -> AbstractAsyncContextManager[Consultation]:
        """Open a connection to a voter for orders, which it takes from operators alone."""
        operator = self.security.operator_bytes()
        credentials = self.membership.stranger(operator=operator)
        tls = self.security.client_context()
        address = parse_address(voter.place)
        return consult(address, credentials, tls, voter.name, role="operator")


def patience_of(timeout: float | None) -> float | None:
    """Return how long to wait for each answer, if a command has this time."""
    return None if timeout is None else timeout / LOOKS


async def look(visit: Visit, patience: float | None = None) -> KnownConfiguration:
    """Ask every voter; raises `UsageError` where voters are fixed, `Unavailable` if none answers.

    Every address that the operator has named is asked as well, and none is left out because it is
    slow: the others may be of nodes that were removed while they were away. Where the operator has no
    time for that, a node that has not answered after `patience` seconds is taken for one that is down.
    """
    membership = await (visit.learn() if patience is None else visit.learn(patience))
    if membership.algorithm is not None:
        raise UsageError(
            f"cluster {membership.cluster!r} runs {membership.algorithm.name}: the nodes of a classic"
            " algorithm are fixed; stop them all, change the file, and start them all"
        )
    membership = await _newest_at(visit, membership, patience)
    while True:
        voters = await _ask_all(membership, visit, patience)
        newer = membership
        for voter in voters:
            theirs = voter.condition.configuration if voter.condition else None
            if theirs is None or newer.configuration.is_foreign(theirs):
                continue
            if theirs.number >= newer.configuration.number:
                check_decided(theirs)
                newer = membership.after(_noted(theirs, newer.configuration))
        if newer.configuration.number == membership.configuration.number:
            return KnownConfiguration(newer, visit.security, voters, visit.places)
        membership = newer


async def _newest_at(visit: Visit, known: Membership, patience: float | None) -> Membership:
    """Return the newest configuration that is known at any address of the operator, or this one.

    If nodes of several installations answer, it may be of another one than the first answer was.
    """
    asking = (_ask_newest(place, known, visit.security, patience) for place in visit.addresses)
    answers = list(filter(None, await asyncio.gather(*asking)))
    for answer in answers:
        if answer.address is not None:
            visit.places.note(answer.address, answer.node, answer.disk)
    return newest([*answers, KnownMembership("", "", known)])


async def _ask_newest(
    address: Address, known: Membership, security: Security, patience: float | None
) -> KnownMembership | None:
    credentials = Credentials(known.cluster, "", security.secret_bytes())
    try:
        async with (
            asyncio.timeout(patience),
            consult(address, credentials, security.client_context()) as talk,
        ):
            return KnownMembership(talk.node, talk.disk, await ask_membership(talk), address)
    except FAULTS:
        return None


def _noted(theirs: Configuration, known: Configuration) -> Configuration:
    """Return the newer one, or the same with all that is noted of earlier numbers."""
    return known.noted(theirs) if theirs.number == known.number else theirs


async def _ask_all(
    membership: Membership, visit: Visit, patience: float | None
) -> list[VoterState]:
    credentials = membership.credentials(visit.security.secret_bytes())
    tls = visit.security.client_context()

    async def find(seat: int, member: Member) -> VoterState:
        """Ask a voter where it is on record, and where its disk has answered otherwise."""
        disk = membership.disk(seat)
        elsewhere = [each for each in visit.places.met(member.name, disk) if each != member.address]
        asked = [
            _ask(seat, member, disk, address, credentials, tls=tls, patience=patience)
            for address in (member.address, *elsewhere)
        ]
        return _meant(await asyncio.gather(*asked))

    seated = zip(membership.seats, membership.members, strict=True)
    return await asyncio.gather(*(find(seat, member) for seat, member in seated))


async def _ask(
    seat: int,
    member: Member,
    identity: str,
    address: Address,
    credentials: Credentials,
    *,
    tls: ssl.SSLContext | None,
    patience: float | None,
) -> VoterState:
    name, recorded = member.name, str(member.address)
    try:
        async with asyncio.timeout(patience):
            start, condition = await introduce(name, address, credentials, tls)
    except FAULTS as error:
        foreign = isinstance(error, OtherInstallationError)
        other = None
        if isinstance(error, OtherNodeError):
            stranger = msgspec.structs.replace(credentials, configuration="", number=0)
            with contextlib.suppress(*FAULTS):
                other = await ask_condition(None, address, stranger, tls)
        reason = explain(error)
        return VoterState(
            seat,
            name,
            recorded,
            reason,
            None,
            is_meant=False,
            is_foreign=foreign,
            other=other,
            is_barred=isinstance(error, OtherSecretError | ssl.SSLError),
            is_stuck=await _is_stuck(address, error, tls, patience),
        )
    is_meant = identity in ("", condition.identity)
    trouble = "" if is_meant else "its disk is not that of the voter"
    found = "" if str(address) == recorded else str(address)
    return VoterState(
        seat, name, recorded, trouble, condition, is_meant=is_meant, found=found, start=start
    )


async def _is_stuck(
    address: Address, error: Exception, tls: ssl.SSLContext | None, patience: float | None
) -> bool:
    """Return whether a process takes connections there and says nothing.

    By TLS, or where we were too impatient for the handshake, that looks like no machine at first.
    """
    if isinstance(error, SilentNodeError):
        return True
    if not isinstance(error, TimeoutError) or (tls is None and patience is None):
        return False
    try:
        async with asyncio.timeout(patience):
            connection = await dial(address, None)
    except OSError:  # a timeout, too
        return False
    connection.abort("it takes connections")
    return True


def _meant(states: Sequence[VoterState]) -> VoterState:
    """Return what was found of a voter at several addresses: where its disk is, and whether it is there twice."""
    meant = [state for state in states if state.condition and state.is_meant]
    if not meant:
        return states[0]
    first = meant[0]
    copy = next((state for state in meant if state.start != first.start), None)
    if copy is None:
        return first
    trouble = f"a node at {copy.place} runs with a copy of its disk"
    return msgspec.structs.replace(first, trouble=trouble, copy=copy.place)


class SpareState(msgspec.Struct, frozen=True):
    """A node that answers and is not a voter of the newest configuration."""

    name: str
    address: str
    identity: str
    protocol: int
    state: str = SPARE

    @property
    def is_harmless(self) -> bool:
        """Whether no program can have a lock by its vote."""
        return self.state in (SPARE, REMOVED)


async def look_for_spares(
    visit: Visit, standing: KnownConfiguration, patience: float | None = None
) -> list[SpareState]:
    """Ask at the addresses that the operator has named which of the nodes there do not vote."""
    known = {address for voter in standing.voters for address in (voter.address, voter.place)}
    places = [address for address in visit.addresses if str(address) not in known]
    found = await asyncio.gather(*(_ask_stranger(place, standing, patience) for place in places))
    identities = {member.identity for member in standing.configuration.members}
    return [spare for spare in found if spare and spare.identity not in identities]


async def _ask_stranger(
    address: Address, standing: KnownConfiguration, patience: float | None
) -> SpareState | None:
    security = standing.security
    credentials = standing.membership.credentials(security.secret_bytes())
    try:
        async with (
            asyncio.timeout(patience),
            consult(address, credentials, security.client_context()) as talk,
        ):
            if talk.number > standing.configuration.number:
                return None  # it may vote by now
            condition = await talk.ask(Query(), Condition)
            state = _state_of_stranger(condition, standing.configuration)
            return SpareState(
                talk.node, str(address), condition.identity, condition.protocol, state
            )
    except OtherInstallationError as error:
        return SpareState(error.node, str(address), "", 0, FOREIGN)
    except FAULTS:
        return None


def _state_of_stranger(condition: Condition, newest: Configuration) -> str:
    """Say what a node is that is not a voter of the newest configuration.

    Voters keep their configuration when they are removed, and the change has closed it by then. One that
    is a leap behind was given up by a force, or forced by another operator: nothing has closed that.
    """
    theirs = condition.configuration
    if theirs is None:
        return SPARE
    if newest.number - theirs.number >= FORCED_LEAP // 2:
        return f"votes by configuration {theirs.number}, which a force has given up"
    return REMOVED


async def check_orders(standing: KnownConfiguration) -> KnownConfiguration:
    """Return what nodes say that have proven to know the operator secret; all else is left out.

    What was found so far needed the secret of the cluster, which programs have as well. An order makes the
    nodes take over the configuration that it begins with, so no program may have made that up.
    Raises `ConfigError` if the voters take no orders from here: they may ask for another secret. Raises
    `ChangeConflict` if none of them knows this configuration any more, or ever has.
    """
    if not standing.up:
        return standing
    refusals = []
    for voter in standing.voters:
        if voter.seat not in standing.up:
            continue  # a node with another disk is a spare, and may be set up otherwise
        try:
            async with standing.command(voter) as talk:
                if not standing.security.has_operators or standing.configuration.number == 0:
                    return standing
                theirs = (await talk.ask(Query(), Condition)).configuration
        except FAULTS as error:
            refusals.append(
                f"{voter.name} answers questions and takes no orders from here: {explain(error)}; if"
                " the cluster has an operator secret, name its file in COTERIE_OPERATOR_SECRET_FILE"
            )
            continue
        if theirs is not None and theirs.is_same(standing.configuration):
            check_decided(theirs)
            return msgspec.structs.replace(standing, membership=standing.membership.after(theirs))
    if len(refusals) == len(standing.up):
        raise ConfigError(refusals[0])
    raise ChangeConflict(
        f"no node of cluster {standing.membership.cluster!r} vouches for configuration"
        f" {standing.configuration.number}: it has just been changed, or a program has made this up; look"
        " again with coterie cluster status"
    )


def check_protocol(standing: KnownConfiguration, protocol: int) -> None:
    """Raise an error if a voter, or a program that is connected to one, cannot speak a protocol.

    There is no way back from it, and software that does not speak it is refused from then on.
    """
    if protocol > PROTOCOL:
        raise UsageError(f"this version of coterie speaks protocol {PROTOCOL} at most: {protocol}?")
    if standing.missing:
        raise Unavailable(
            f"not every voter can say which protocol it speaks: {standing.missing}; start it first,"
            " or replace it"
        )
    for voter in standing.voters:
        if voter.condition is not None and voter.condition.protocol < protocol:
            raise ConfigError(explain_protocol(voter.name, voter.condition, protocol))
