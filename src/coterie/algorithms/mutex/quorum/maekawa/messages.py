"""The messages of Maekawa's algorithm. Each names the request that it is about by its stamp."""

from __future__ import annotations

from typing import TypeAlias

from coterie.clocks import LogicalTime, Stamp
from coterie.process import Payload


class Request(Payload, frozen=True):
    """Lock yourself for me."""

    stamp: Stamp


class Locked(Payload, frozen=True):
    """I am locked for you."""

    stamp: Stamp
    highest: LogicalTime  # request time that I know of


class Failed(Payload, frozen=True):
    """An older request is before you, here. Only the rules of 1985 send it."""

    stamp: Stamp


class Inquire(Payload, frozen=True):
    """An older request than yours has come; would you give me back?"""

    stamp: Stamp


class Relinquish(Payload, frozen=True):
    """I give you back, and wait in your queue again."""

    stamp: Stamp


class Release(Payload, frozen=True):
    """I have left."""

    stamp: Stamp


Message: TypeAlias = Request | Locked | Failed | Inquire | Relinquish | Release
