"""`etcd://user@a:2379,b:2379?lease=10`: a server, as a program names it.

After the addresses may stand a path, where the engine knows what to do with one, and parameters:
`lease=SECONDS`, `deadlock-detection=off`, and those of the engine.
"""

from __future__ import annotations

import os
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from coterie.errors import UsageError
from coterie.locks.url import split_server_url, without_password

LEASE_SECONDS = 10.0
DETECTION = "deadlock-detection"
WITNESS = "witness"  # whether others may see the end of the program
TLS_PARAMETERS = ("ca", "certificate", "key")


class ServerUrl(NamedTuple):
    """What a URL says."""

    scheme: str
    addresses: list[tuple[str, int]]
    user: str
    password: str
    path: str
    lease: float
    detects: bool
    parameters: dict[str, str]  # of the engine

    def __repr__(self) -> str:
        """Write where it is, and neither the password nor parameters that may be secret."""
        return f"<{self.scheme}://{self.shown}/{self.path}>"

    def lease_from(self, least: float) -> float:
        """Return the lease; raise `UsageError` if it is shorter than this kind of server can keep."""
        if self.lease < least:
            raise UsageError(
                f"{self.scheme}://{self.shown}: lease must be at least {least:g} s, got {self.lease:g} s"
            )
        return self.lease

    @property
    def is_seen(self) -> bool:
        """Whether other programs of the machine may see the end of this one."""
        return self.parameters.get(WITNESS, "on") == "on"

    @property
    def secret(self) -> str:
        """The password, of the URL or of the environment; empty where neither says."""
        return self.password or os.environ.get("COTERIE_PASSWORD", "")

    def tls_file(self, name: str) -> str:
        """Return where a file for TLS is, by the URL or the environment; empty where neither says."""
        return self.parameters.get(name) or os.environ.get(f"COTERIE_TLS_{name.upper()}", "")

    @property
    def shown(self) -> str:
        """The addresses, for people."""
        return ",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in self.addresses)


def parse_server_url(
    url: str, *, port: int, parameters: tuple[str, ...] = (), lease: float = LEASE_SECONDS
) -> ServerUrl:
    """Take a URL apart; `port` and `lease` are those of a URL without one, `parameters` those of the engine."""
    shown, parts = without_password(url), split_server_url(url)
    user, _, places = parts.netloc.rpartition("@")
    try:
        addresses = [_address(place, port) for place in places.split(",") if place]
    except ValueError:
        raise UsageError(f"{shown}: expected addresses such as host:{port}, [::1]:{port}") from None
    try:
        known = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        raise UsageError(f"{shown}: expected parameters such as lease=10") from None
    if not addresses:
        raise UsageError(f"{shown}: it names no server; write {parts.scheme}://host:{port}")
    allowed = ("lease", DETECTION, *parameters)
    for name in known:
        if name not in allowed:
            raise UsageError(
                f"{shown}: unknown parameter {name!r}; choose from: {', '.join(allowed)}"
            )
    if known.get(WITNESS, "on") not in ("on", "off"):
        raise UsageError(f"{shown}: {WITNESS} must be on or off, got {known[WITNESS]!r}")
    name, _, password = user.partition(":")
    return ServerUrl(
        parts.scheme,
        addresses,
        unquote(name),
        unquote(password),
        unquote(parts.path).strip("/"),
        _lease(shown, known.pop("lease", ""), lease),
        _detects(shown, known.pop(DETECTION, "on")),
        known,
    )


def _address(place: str, port: int) -> tuple[str, int]:
    split = urlsplit(f"//{place}")
    if not split.hostname:
        raise ValueError("no host")
    return split.hostname, split.port or port


def _lease(url: str, given: str, usual: float) -> float:
    try:
        seconds = float(given) if given else usual
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"{url}: lease must be a number of seconds, got {given!r}")
    return seconds


def _detects(url: str, given: str) -> bool:
    if given not in ("on", "off"):
        raise UsageError(f"{url}: {DETECTION} must be on or off, got {given!r}")
    return given == "on"
