"""What has to be the same at every node and every program of a cluster."""

from __future__ import annotations

import functools
import hashlib

import msgspec

from coterie.cluster.wire.frames import PROTOCOL
from coterie.coteries import parse_coterie
from coterie.errors import ConfigError, ProtocolError, UsageError
from coterie.mutex.quorum.leased.settings import Settings

PORT = 7420
RESERVE_MAX = 1 << 40  # tokens that one write may be good for


class Address(msgspec.Struct, frozen=True, array_like=True):
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return the address as people write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, port: int | None = PORT) -> Address:
    """Return the address that `host`, `host:port` or `[host]:port` names."""
    host, colon, given = text.rpartition(":")
    if not colon or (text.endswith("]") and text.startswith("[")):
        host, given = text, "" if port is None else str(port)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not given.isascii() or not given.isdecimal() or int(given) > 65535:
        raise ConfigError(f"expected an address such as host:{port or PORT}, got {text!r}")
    return Address(host, int(given))


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
    members: tuple[Member, ...]  # voters 1 and up
    settings: Settings
    algorithm: Choice | None = None  # None: the leased lock

    @property
    def digest(self) -> str:
        """The digest of everything on which safety rests; addresses are not part of it."""
        return _digest(self)

    def voter(self, name: str) -> int:
        """Return the number of a voter."""
        names = [member.name for member in self.members]
        if name not in names:
            raise ConfigError(f"no node is called {name!r}; the nodes are: {', '.join(names)}")
        return names.index(name) + 1


def check_times(settings: Settings) -> None:
    """Raise `ConfigError` if the times of a configuration make no sense together."""
    if settings.lease < 0.1:
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
    settings = membership.settings
    names = {member.name for member in membership.members}
    ports = [member.address.port for member in membership.members]
    sound = (
        0 < settings.voters == len(names) == len(ports)
        and all(0 < port < 65536 for port in ports)
        and 0 < settings.interval <= settings.reserve <= RESERVE_MAX
        and 0 <= settings.unwind < float("inf")
        and settings.cached_max >= 0
    )
    try:
        check_times(settings)
        parse_coterie(settings.coterie, len(names))
    except (ConfigError, UsageError) as error:
        raise ProtocolError(f"its configuration makes no sense: {error}") from None
    if not sound or membership.digest != digest:
        raise ProtocolError("its configuration makes no sense, or is not the one that it uses")


@functools.lru_cache(maxsize=8)
def _digest(membership: Membership) -> str:
    names = [member.name for member in membership.members]
    essence = (PROTOCOL, membership.cluster, names, membership.settings, membership.algorithm)
    return hashlib.sha256(msgspec.msgpack.encode(essence)).hexdigest()[:32]
