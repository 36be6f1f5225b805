"""The node of this process, as its listener and its links see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coterie.cluster.wire.address import Address
    from coterie.cluster.wire.handshake import Credentials
    from coterie.cluster.wire.security import Security


class LocalNode(NamedTuple):
    """The part of the configuration that connections need."""

    name: str
    listen: Address
    addresses: Mapping[str, Address]  # of all nodes by name, in the order of the configuration
    lease: float  # in seconds
    security: Security
    credentials: Credentials  # of the configuration at the start
    is_diskless: bool  # its numbers rest on the time of day
