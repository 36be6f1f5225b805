"""What has to be the same at every node and every program of a cluster."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

import msgspec

from coterie.algorithms.mutex.quorum.leased.configuration import Configuration, Part, founding
from coterie.algorithms.mutex.quorum.leased.configuration import Member as Voting
from coterie.algorithms.mutex.quorum.leased.settings import Settings
from coterie.cluster.runtime import clock
from coterie.cluster.wire.address import Address, parse_address
from coterie.cluster.wire.frames import OLDEST_PROTOCOL, PROTOCOL
from coterie.cluster.wire.handshake import Credentials
from coterie.coteries import parse_coterie
from coterie.errors import ConfigError, ProtocolError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection

    from coterie.algorithms.mutex.quorum.leased.frames import Attempt

RESERVE_MAX = 1 << 40  # tokens that one write may be good for
CONFIGURATIONS_MAX = 1 << 48  # so many can be decided
ROUNDS_LEAST = 1 << 20  # of attempts to decide one of them: so many are always believed
NUMBERS_PER_ROUND = 1 << 12  # and one more for each of these numbers of the time of day
FLOOR_LEAD_MAX = 1 << 52  # above the number of the time of day: 34 years of numbers


class Member(msgspec.Struct, frozen=True, array_like=True):
    """A voting node."""

    name: str
    address: Address


class Choice(msgspec.Struct, frozen=True, array_like=True):
    """An algorithm of the catalogue that is to run in place of the leased lock."""

    name: str
    variant: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()


class Membership(msgspec.Struct, frozen=True, array_like=True):
    """The nodes that vote, and the rules they share."""

    cluster: str
    members: tuple[Member, ...]  # voters 1 and up; of a decided configuration in its order
    settings: Settings
    algorithm: Choice | None = None  # None: the leased lock
    decided: Configuration | None = None  # None: number 0, which is the file

    @property
    def configuration(self) -> Configuration:
        """The configuration by which votes are counted."""
        return founding(self.settings) if self.decided is None else self.decided

    @property
    def digest(self) -> str:
        """The digest of everything on which safety rests; addresses are not part of it."""
        return _digest(self)

    @property
    def seats(self) -> tuple[int, ...]:
        """The numbers of the voters, in the order of the members."""
        if self.decided is None:
            return tuple(range(1, len(self.members) + 1))
        return tuple(member.seat for member in self.decided.members)

    def at(self, seat: int) -> Member:
        """Return the voter with this number."""
        return self.members[self.seats.index(seat)]

    def voter(self, name: str) -> int:
        """Return the number of a voter; where its disk is being replaced, that of the new one."""
        named = [
            seat
            for seat, member in zip(self.seats, self.members, strict=True)
            if member.name == name
        ]
        if not named:
            names = ", ".join(member.name for member in self.members)
            raise ConfigError(f"no node is called {name!r}; the nodes are: {names}")
        return max(named)

    def disk(self, seat: int) -> str:
        """Return the identity of a voter's disk; empty as long as any disk may be that of the voter."""
        if self.decided is None:
            return ""
        return self.decided.members[self.seats.index(seat)].identity

    def has_quorum(self, names: Collection[str]) -> bool:
        """Return whether the voters with these names contain a quorum."""
        places = zip(self.seats, self.members, strict=True)
        there = [seat for seat, member in places if member.name in names]
        return self.configuration.quorums.contains_quorum(there)

    def credentials(self, secret: bytes, operator: bytes = b"") -> Credentials:
        """Return what both ends of a connection have to agree on.

        `operator` is the secret of operators, where they may be at either end.
        """
        decided = self.decided
        if decided is None:
            return Credentials(self.cluster, self.digest, secret, operator=operator)
        return Credentials(
            self.cluster,
            self.digest,
            secret,
            decided.number,
            decided.protocol,
            operator,
            decided.cluster_identity,
        )

    def stranger(self, secret: bytes = b"", operator: bytes = b"") -> Credentials:
        """Return what a caller shows that may know another configuration than the node."""
        identity = self.configuration.cluster_identity
        return Credentials(self.cluster, "", secret, operator=operator, identity=identity)

    def after(self, configuration: Configuration) -> Membership:
        """Return the same cluster with a configuration that was decided."""
        if configuration.number == 0:
            return self
        members = tuple(
            Member(member.name, parse_address(member.address)) for member in configuration.members
        )
        settings = configuration.settings
        return Membership(self.cluster, members, settings, self.algorithm, configuration)


def check_times(settings: Settings) -> None:
    """Raise `ConfigError` if the times of a configuration make no sense together."""
    if not 0.1 <= settings.lease < float("inf"):
        raise ConfigError(f"lease must be at least 0.1 s, got {settings.lease:g} s")
    if not 0 <= settings.rate_error < 0.5:
        raise ConfigError(
            f"rate-error must be at least 0 and below 0.5, got {settings.rate_error:g}"
        )
    if not 0.01 <= settings.margin < float("inf"):
        raise ConfigError(f"margin must be at least 0.01 s, got {settings.margin:g} s")
    if not 0 <= settings.lock_delay < float("inf"):
        raise ConfigError(f"lock-delay must be at least 0 s, got {settings.lock_delay:g} s")
    for name, value in (("heartbeat", settings.heartbeat), ("hedge", settings.hedge)):
        if not 0 < value < settings.lease / 2:
            raise ConfigError(f"{name} must be above 0 and below half the lease, got {value:g} s")


def check_learnt(membership: Membership, digest: str) -> None:
    """Raise `ProtocolError` if no node has this configuration, or not the one that has sent it."""
    decided = membership.decided
    if decided is None:
        _check_settings(membership.settings, len(membership.members))
    else:
        check_decided(decided)
        if membership != membership.after(decided):
            raise ProtocolError("its configuration contradicts itself")
    names = {member.name for member in membership.members}
    ports = [member.address.port for member in membership.members]
    sound = len(ports) > 0 and all(0 < port < 65536 for port in ports)
    sound = sound and (decided is not None or len(names) == len(ports))
    hosts = [member.address.host for member in membership.members]
    sound = sound and all(text.isprintable() for text in (membership.cluster, *names, *hosts))
    if not sound or membership.digest != digest:
        raise ProtocolError("its configuration makes no sense, or is not the one that it uses")


def check_decided(configuration: Configuration) -> None:
    """Raise `ProtocolError` if a configuration cannot have been decided by any nodes."""
    rules = (configuration.rule, *configuration.open)
    for part in (part for rule in rules for part in rule.parts):
        _check_settings(part.settings, len(set(part.seats)))
    seats = [member.seat for member in configuration.members]
    numbers = [rule.number for rule in rules]
    shown = [
        configuration.by,
        *(text for m in configuration.members for text in (m.name, m.address)),
    ]
    sound = (
        sorted(seats) == list(configuration.seats)
        and all(_voters_differ(configuration.members, part) for part in configuration.rule.parts)
        and len(set(numbers)) == len(numbers)
        and max(numbers) == configuration.number <= CONFIGURATIONS_MAX
        and configuration.floor <= clock.number() + FLOOR_LEAD_MAX
        and all(text.isprintable() for text in shown)
    )
    if configuration.number == 0:  # that of the file, which decides nothing
        sound = configuration == founding(configuration.settings)
    if not sound:
        raise ProtocolError("its configuration makes no sense")
    try:
        for member in configuration.members:
            parse_address(member.address)
    except ConfigError as error:
        raise ProtocolError(f"its configuration makes no sense: {error}") from None


def check_heard(configuration: Configuration, known: Configuration) -> None:
    """Raise `ProtocolError` if nothing may follow from a configuration that another process names.

    It makes no sense, means more than this version understands, or is not of our installation.
    """
    check_decided(configuration)
    reason = objection_to_meaning(configuration)
    if reason:
        raise ProtocolError(reason)
    if known.is_foreign(configuration):
        raise ProtocolError(
            f"configuration {configuration.number} belongs to another installation of the cluster"
        )


def check_bound(bound: int) -> None:
    """Raise `ProtocolError` if tokens cannot have gone that far: no floor may follow it (19.7)."""
    if bound > clock.number() + FLOOR_LEAD_MAX:
        raise ProtocolError(f"its bound is {bound}, which no cluster reaches")


def check_attempt(attempt: Attempt) -> None:
    """Raise `ProtocolError` if no changer can have made so many attempts.

    One after it has to be possible, or nothing would be decided any more. So the limit goes on with
    the time of day, by a thousand rounds a second: an attempt that has gone up to it is overtaken.
    """
    if attempt.round > ROUNDS_LEAST + clock.number() // NUMBERS_PER_ROUND:
        raise ProtocolError(f"attempt {attempt.round}, which no changer reaches")


def objection_to_meaning(configuration: Configuration) -> str | None:
    """Return why this version of coterie cannot keep to a configuration; None if it can."""
    if configuration.protocol <= PROTOCOL:
        return None
    return (
        f"configuration {configuration.number} of the cluster asks for protocol"
        f" {configuration.protocol}, and this version of coterie speaks up to {PROTOCOL}: run a"
        " newer one"
    )


def _voters_differ(members: tuple[Voting, ...], part: Part) -> bool:
    """Return whether no two voters of a part have one name, or one disk, whose votes count twice.

    In the two parts of a joint step a disk is replaced under its name.
    """
    voters = [member for member in members if member.seat in part.seats]
    names = [member.name for member in voters]
    disks = [member.identity for member in voters if member.identity]
    return len(set(names)) == len(names) and len(set(disks)) == len(disks)


def _check_settings(settings: Settings, voters: int) -> None:
    sound = (
        0 < settings.voters == voters
        and 0 < settings.interval <= settings.reserve <= RESERVE_MAX
        and 0 <= settings.unwind < float("inf")
        and settings.cached_max >= 0
    )
    try:
        check_times(settings)
        parse_coterie(settings.coterie, voters)
    except (ConfigError, UsageError) as error:
        raise ProtocolError(f"its configuration makes no sense: {error}") from None
    if not sound:
        raise ProtocolError("its configuration makes no sense")


@functools.lru_cache(maxsize=8)
def _digest(membership: Membership) -> str:
    essence: tuple[object, ...]
    if membership.decided is None:
        names = [member.name for member in membership.members]
        settings = membership.settings
        essence = (OLDEST_PROTOCOL, membership.cluster, names, settings, membership.algorithm)
    else:
        decided = membership.decided
        voters = [(member.seat, member.name, member.identity) for member in decided.members]
        essence = (membership.cluster, decided.rule, voters, decided.protocol)
    return hashlib.sha256(msgspec.msgpack.encode(essence)).hexdigest()[:32]
