"""Where a node listens, as people write it."""

from __future__ import annotations

import ipaddress

import msgspec

from coterie.errors import ConfigError

PORT = 7420


class Address(msgspec.Struct, frozen=True, array_like=True):
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return the address as people write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def leads_elsewhere_than(self, other: Address) -> bool:
        """Return whether who listens here cannot be reached there, as far as the two say.

        A name may lead to any host, and some literals mean all hosts of a machine.
        """
        if self.port != other.port:
            return True
        hosts = _literal(self.host), _literal(other.host)
        are_literal = all(host is not None and not host.is_unspecified for host in hosts)
        return are_literal and hosts[0] != hosts[1]


def _literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def parse_address(text: str, port: int | None = PORT) -> Address:
    """Return the address that `host`, `host:port` or `[host]:port` names."""
    host, colon, given = text.rpartition(":")
    if not colon or (text.endswith("]") and text.startswith("[")):
        host, given = text, "" if port is None else str(port)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not given.isascii() or not given.isdecimal() or int(given) > 65535:
        raise ConfigError(f"expected an address such as host:{port or PORT}, got {text!r}")
    try:
        host.encode("idna")
    except UnicodeError:
        raise ConfigError(f"no host can have the name in {text!r}: {host!r}") from None
    return Address(host, int(given))
